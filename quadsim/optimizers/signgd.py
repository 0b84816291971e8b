"""Sign descent."""

from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.settings import positive


@dataclass(frozen=True)
class SignGD(Optimizer):
    """Sign descent, w ← w − lr·sign(g): signSGD of Bernstein et al. (2018) without its noise. sign(0) = 0."""

    name = "signgd"
    label = "SignGD"
    colour = "#5A0406"
    stroke = "dotted"
    list_order = 30
    reference = "Bernstein et al. (2018), arXiv 1802.04434"
    invariances = ("signs", "scale")

    lr: float = positive(1e-3)

    @staticmethod
    def rule(g, lr):  # type: ignore[no-untyped-def]
        return lr * np.sign(g)
