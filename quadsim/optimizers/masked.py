"""The base class of SkipUpdate and Magma: Adam with steps left out at random."""

from dataclasses import dataclass

from quadsim.optimizers.moments import Moments
from quadsim.optimizers.settings import choice, number


@dataclass(frozen=True)
class Masked(Moments):
    """What SkipUpdate and Magma share: Adam as a base, and a mask that applies a step with probability ``keep``.

    ``mask`` says what is applied or left out together: every "block" or every "element". The moments are always
    updated. The base with β1 = 0 is RMSProp, corrected for bias or not.
    """

    keep: float = number(0.5, above=0, at_most=1)
    mask: str = choice("block", "block", "element")

    @property
    def random_by(self) -> str:
        return "block" if self.mask == "block" else "coordinate"
