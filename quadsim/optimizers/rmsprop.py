"""RMSProp: gradients divided by the root of a moving average of their squares."""

from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.moments import ema
from quadsim.optimizers.settings import flag, fraction, nonnegative, positive


@dataclass(frozen=True)
class RMSProp(Optimizer):
    """w ← w − lr·g/(√v + ε), v ← α·v + (1 − α)·g²: RMSProp of Tieleman & Hinton (2012).

    Defaults are those of torch.optim.RMSprop. There is no bias correction: the first step is lr/√(1 − α) whatever the
    gradient. optax has ε inside the root, and α = 0.9.

    Parameters
    ----------
    lr : float
        The learning rate.
    alpha : float
        α, the decay rate of v.
    eps : float
        ε, outside the root.
    momentum : float
        Above 0, the scaled gradients are accumulated in a velocity.
    centered : bool
        Divide by the root of v − mean² instead (Graves, 2013).
    weight_decay : float
        Adds weight_decay·w to the gradient.

    Notes
    -----
    Invariant under signs and scale.

    References
    ----------
    Tieleman & Hinton (2012)

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.RMSProp(lr=0.01), tol=1e-2)
    >>> str(run.status)
    'converged'
    """

    name = "rmsprop"
    label = "RMSProp"
    colour = "#999D30"
    stroke = "dotted"
    list_order = 26
    reference = "Tieleman & Hinton (2012)"
    invariances = ("signs", "scale")
    state = ("v", "mean", "velocity")

    lr: float = positive(1e-2)
    alpha: float = fraction(0.99)
    eps: float = nonnegative(1e-8)
    momentum: float = fraction(0.0)
    centered: bool = flag(False)
    weight_decay: float = nonnegative(0.0)

    @staticmethod
    def rule(g, w, v, mean, velocity, lr, alpha, eps, momentum, centered, weight_decay):  # type: ignore[no-untyped-def]
        g = g + weight_decay * w
        v, mean = ema(v, g * g, alpha), ema(mean, g, alpha)
        spread = v - centered * (mean * mean)  # not below 0, but for rounding
        root = (np.sqrt(spread) if spread > 0 else 0.0) + eps
        velocity = momentum * velocity + (g / root if root > 0 else 0.0)
        return lr * velocity, v, mean, velocity
