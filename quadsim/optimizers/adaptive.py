"""AdaGrad and RMSProp: gradients divided by the root of their own squares, summed or averaged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.settings import check


def adagrad_rule(g, w, t, total, lr, lr_decay, eps, weight_decay):  # type: ignore[no-untyped-def]
    g = g + weight_decay * w
    total = total + g * g
    root = np.sqrt(total) + eps
    return lr / (1 + (t - 1) * lr_decay) * g / root if root > 0 else 0.0, total


@dataclass(frozen=True)
class AdaGrad(Optimizer):
    """AdaGrad of Duchi, Hazan & Singer (2011): w ← w − lr·g/(√s + ε) with the sum s ← s + g².

    ``initial_accumulator`` is where s begins; ``lr_decay`` divides the lr by 1 + (t − 1)·lr_decay at step t;
    ``weight_decay`` adds weight_decay·w to the gradient. Defaults are those of torch.optim.Adagrad. optax has ε inside
    the root, and begins at s = 0.1.
    """

    name = "adagrad"
    label = "AdaGrad"
    rule = adagrad_rule
    state = ("total",)

    lr: float = 1e-2
    lr_decay: float = 0.0
    initial_accumulator: float = 0.0
    eps: float = 1e-10
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check(self, sizes=("lr_decay", "initial_accumulator", "eps", "weight_decay"))

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        return (np.full_like(g, self.initial_accumulator),)


def rmsprop_rule(g, w, v, mean, velocity, lr, alpha, eps, momentum, centered, weight_decay):  # type: ignore[no-untyped-def]
    g = g + weight_decay * w
    v = alpha * v + (1 - alpha) * (g * g)
    mean = alpha * mean + (1 - alpha) * g
    spread = v - centered * (mean * mean)  # not below 0, but for rounding
    root = (np.sqrt(spread) if spread > 0 else 0.0) + eps
    velocity = momentum * velocity + (g / root if root > 0 else 0.0)
    return lr * velocity, v, mean, velocity


@dataclass(frozen=True)
class RMSProp(Optimizer):
    """RMSProp of Tieleman & Hinton (2012): w ← w − lr·g/(√v + ε) with the moving average v ← α·v + (1 − α)·g².

    ``centered`` divides by the root of v − mean² instead (Graves, 2013), ``momentum`` > 0 lets the scaled gradients
    gather in a velocity, ``weight_decay`` adds weight_decay·w to the gradient. Defaults are those of
    torch.optim.RMSprop. There is no bias correction: the first step is lr/√(1 − α) whatever the gradient. optax has ε
    inside the root, and α = 0.9.
    """

    name = "rmsprop"
    label = "RMSProp"
    rule = rmsprop_rule
    state = ("v", "mean", "velocity")

    lr: float = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check(self, fractions=("alpha", "momentum"), sizes=("eps", "weight_decay"), flags=("centered",))
