"""AdaGrad: gradients divided by the root of the sum of their squares."""

from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.settings import nonnegative, positive


@dataclass(frozen=True)
class AdaGrad(Optimizer):
    """w ← w − lr·g/(√s + ε), s ← s + g²: AdaGrad of Duchi, Hazan & Singer (2011).

    Defaults are those of torch.optim.Adagrad. optax has ε inside the root, and starts at s = 0.1.

    Parameters
    ----------
    lr : float
        The learning rate.
    lr_decay : float
        Divides the lr by 1 + (t − 1)·lr_decay at step t.
    initial_accumulator : float
        The initial s.
    eps : float
        ε, outside the root.
    weight_decay : float
        Adds weight_decay·w to the gradient.

    Notes
    -----
    Invariant under signs and scale.

    References
    ----------
    Duchi, Hazan & Singer (2011)

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.AdaGrad(lr=1.0), tol=1e-4)
    >>> str(run.status)
    'converged'
    """

    name = "adagrad"
    label = "AdaGrad"
    colour = "#8C7F16"
    stroke = "dash-dot"
    list_order = 27
    reference = "Duchi, Hazan & Singer (2011)"
    invariances = ("signs", "scale")
    state = ("total",)

    lr: float = positive(1e-2)
    lr_decay: float = nonnegative(0.0)
    initial_accumulator: float = nonnegative(0.0)
    eps: float = nonnegative(1e-10)
    weight_decay: float = nonnegative(0.0)

    @staticmethod
    def rule(g, w, t, total, lr, lr_decay, eps, weight_decay):  # type: ignore[no-untyped-def]
        g = g + weight_decay * w
        total = total + g * g
        root = np.sqrt(total) + eps
        return lr / (1 + (t - 1) * lr_decay) * g / root if root > 0 else 0.0, total

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.full_like(g, self.initial_accumulator),)
