"""Lion: the sign of a mixture of gradient and momentum."""

from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.moments import ema
from quadsim.optimizers.settings import fraction, nonnegative, positive


@dataclass(frozen=True)
class Lion(Optimizer):
    """w ← w − lr·(sign(β1·m + (1 − β1)·g) + weight_decay·w), then m ← β2·m + (1 − β2)·g: Lion of Chen et al. (2023).

    β1, β2 and weight_decay are those of optax.lion, and the lr is of the paper's order.

    Parameters
    ----------
    lr : float
        The learning rate.
    beta1, beta2 : float
        The weight of m in the step, and the decay rate of m.
    weight_decay : float
        Each step also multiplies w by 1 − lr·weight_decay.

    Notes
    -----
    Invariant under signs and scale.

    References
    ----------
    Chen et al. (2023), arXiv 2302.06675

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.Lion(lr=0.01), max_steps=1000)
    >>> str(run.status), bool(run.loss[-1] < run.loss[0])
    ('max-steps', True)
    """

    name = "lion"
    label = "Lion"
    colour = "#B0A607"
    stroke = "dash-dot"
    list_order = 32
    reference = "Chen et al. (2023), arXiv 2302.06675"
    invariances = ("signs", "scale")
    state = ("m",)

    lr: float = positive(1e-4)
    beta1: float = fraction(0.9)
    beta2: float = fraction(0.99)
    weight_decay: float = nonnegative(1e-3)

    @staticmethod
    def rule(g, w, m, lr, beta1, beta2, weight_decay):  # type: ignore[no-untyped-def]
        return lr * (np.sign(ema(m, g, beta1)) + weight_decay * w), ema(m, g, beta2)
