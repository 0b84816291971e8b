"""The moving averages and the step of Adam, shared by its variants."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.settings import flag, fraction, nonnegative, positive


def ema(average, value, beta):  # type: ignore[no-untyped-def]
    """The exponential moving average after one more value."""
    return beta * average + (1 - beta) * value


def adam_step(m, v, lr, eps, unbias1, unbias2):  # type: ignore[no-untyped-def]
    """lr·m̂/(√v̂ + ε). Without ε, a coordinate that has not seen a gradient yet does not move."""
    root = np.sqrt(v) * unbias2 + eps  # eps is outside the root and not rescaled, as in Kingma & Ba's Algorithm 1
    return lr * (m * unbias1) / root if root > 0 else 0.0


def shared_v_rule(g, m, v, step, lr, beta1, beta2, eps, unbias1, unbias2):  # type: ignore[no-untyped-def]
    """Adam with one v for all coordinates that the rule sees: the moving average of their mean of g²."""
    total = 0.0
    for i in range(g.size):
        total += g[i] * g[i]
    shared = ema(v[0], total / g.size, beta2)  # stored in every coordinate
    for i in range(g.size):
        m[i] = ema(m[i], g[i], beta1)
        v[i] = shared
        step[i] = adam_step(m[i], shared, lr, eps, unbias1, unbias2)


@dataclass(frozen=True)
class Moments(Optimizer):
    """The settings of Adam and most of its variants: an lr, two decay rates, ε outside the root, and bias correction.

    Defaults are Kingma & Ba's.
    """

    invariances: ClassVar[tuple[str, ...]] = ("signs", "scale")
    state: ClassVar[tuple[str, ...]] = ("m", "v")
    shared_state = ("weight1", "weight2", "unbias1", "unbias2")

    lr: float = positive(1e-3)
    beta1: float = fraction(0.9)
    beta2: float = fraction(0.999)
    eps: float = nonnegative(1e-8)
    bias_correction: bool = flag(True)

    @staticmethod
    def once_per_step(weight1, weight2, beta1, beta2):  # type: ignore[no-untyped-def]
        # 1 - beta^t, the total weight in a moment, is the same moving average of ones
        weight1 = ema(weight1, 1.0, beta1)
        weight2 = ema(weight2, 1.0, beta2)
        return weight1, weight2, 1 / weight1, 1 / np.sqrt(weight2)

    def first_shared_state(self) -> tuple[float, ...]:
        weight = 0.0 if self.bias_correction else 1.0
        return weight, weight, math.nan, math.nan  # once_per_step sets the last two
