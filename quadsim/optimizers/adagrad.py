"""AdaGrad: gradients divided by the root of the sum of their squares."""

from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.settings import nonnegative, positive


@dataclass(frozen=True)
class AdaGrad(Optimizer):
    """AdaGrad of Duchi, Hazan & Singer (2011): w ← w − lr·g/(√s + ε) with the sum s ← s + g².

    ``initial_accumulator`` is the initial s; ``lr_decay`` divides the lr by 1 + (t − 1)·lr_decay at step t;
    ``weight_decay`` adds weight_decay·w to the gradient. Defaults are those of torch.optim.Adagrad. optax has ε inside
    the root, and starts at s = 0.1.
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
