"""The base class of SkipUpdate and Magma: Adam with steps skipped at random."""

from dataclasses import dataclass

from quadsim.optimizers.moments import Moments
from quadsim.optimizers.settings import choice, number


@dataclass(frozen=True)
class Masked(Moments):
    """Adam as a base, with a mask that applies a step with probability ``keep``.

    ``mask`` is the unit that is applied or skipped as a whole: every "block" or every "element". The moments are always
    updated. The base with β1 = 0 is RMSProp, corrected for bias or not.
    """

    keep: float = number(0.5, above=0, at_most=1)
    mask: str = choice("block", "block", "element")

    @property
    def random_by(self) -> str:
        return "block" if self.mask == "block" else "coordinate"
