"""Sign descent."""

from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.settings import positive


@dataclass(frozen=True)
class SignGD(Optimizer):
    """w ← w − lr·sign(g), sign(0) = 0: signSGD of Bernstein et al. (2018) without its noise.

    Parameters
    ----------
    lr : float
        The learning rate.

    Notes
    -----
    Invariant under signs and scale.

    References
    ----------
    Bernstein et al. (2018), arXiv 1802.04434

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.SignGD(lr=0.01), max_steps=1000)
    >>> str(run.status), bool(run.loss[-1] < run.loss[0])
    ('max-steps', True)
    """

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
