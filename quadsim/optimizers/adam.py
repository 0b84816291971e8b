"""Adam, and the frozen one of the quadratic study."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from quadsim import checks
from quadsim.checks import InputError
from quadsim.optimizers.base import Optimizer
from quadsim.problem import BlockQuadratic


def frozen_adam_rule(g: float, m: float, root_v: float, lr: float, beta1: float) -> tuple[float, ...]:
    m = beta1 * m + (1 - beta1) * g
    return lr * m / root_v, m, root_v


@dataclass(frozen=True)
class FrozenAdam(Optimizer):
    """The Adam of the quadratic study: β2 = 1, v fixed at the first squared gradient, no bias correction, ε = 0.

    w ← w − lr·m/|g₀| with m ← β1·m + (1 − β1)·g from m = 0. ``lr=None``: 2/(s_min + s_max) over the eigenvalues s of
    D^-½HD^-½, D = diag|g₀| (ledger 2a). With β1 > 0 this is heavy ball, whose rate at a mode s depends on
    |1 + β1 − lr(1 − β1)s| alone, so the same balance of the two ends is best: times (1 + β1)/(1 − β1).
    """

    name = "frozen-adam"
    label = "Adam (β2 = 1)"
    linear = True
    rule = frozen_adam_rule
    state = ("m", "root_v")

    beta1: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "beta1", checks.real(f"{self.name}.beta1", self.beta1, at_least=0, below=1))

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> float:
        size = np.abs(problem.curvature(error))
        self._check(size)
        if not size.any():
            return 1.0  # the start is the minimizer: no step will be taken
        scaled = problem.scaled_eigenvalues(size)
        ends = min(values[0] for values in scaled) + max(values[-1] for values in scaled)
        return float(2 / ends * (1 + self.beta1) / (1 - self.beta1))

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        self._check(g)
        return np.zeros_like(g), np.abs(g)

    def _check(self, g: np.ndarray) -> None:
        if g.any() and not g.all():
            raise InputError(
                f"{self.name} divides by the first gradient, which is 0 in coordinate {np.flatnonzero(g == 0)[0]}: "
                "start elsewhere"
            )


def adam_rule(g, m, v, lr, beta1, beta2, eps, unbias1, unbias2):  # type: ignore[no-untyped-def]
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * (g * g)
    # eps is outside the root and not rescaled, as in Kingma & Ba's Algorithm 1
    root = np.sqrt(v) * unbias2 + eps
    # without eps, a coordinate that has not seen a gradient yet stays where it is
    return lr * (m * unbias1) / root if root > 0 else 0.0, m, v


def adam_tick(weight1, weight2, beta1, beta2):  # type: ignore[no-untyped-def]
    # The weights that the moments have gathered so far, 1 - beta^t, are the same moving average of ones.
    weight1 = beta1 * weight1 + (1 - beta1)
    weight2 = beta2 * weight2 + (1 - beta2)
    return weight1, weight2, 1 / weight1, 1 / np.sqrt(weight2)


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam of Kingma & Ba: moving averages m of g and v of g², w ← w − lr·m̂/(√v̂ + ε).

    ``bias_correction`` divides the moments by the weight they have gathered. ``init`` starts them at "zero", or at
    the first "gradient" (m = g₀, v = g₀²): they then carry full weight from the start, nothing is left to correct, and
    ``bias_correction`` is False.
    """

    name = "adam"
    label = "Adam"
    rule = adam_rule
    state = ("m", "v")
    tick = adam_tick
    clock = ("weight1", "weight2", "unbias1", "unbias2")

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    bias_correction: bool = True
    init: str = "zero"

    def __post_init__(self) -> None:
        checks.real(f"{self.name}.lr", self.lr, above=0)
        super().__post_init__()
        for beta in ("beta1", "beta2"):
            value = checks.real(f"{self.name}.{beta}", getattr(self, beta), at_least=0, at_most=1)
            object.__setattr__(self, beta, value)
        object.__setattr__(self, "eps", checks.real(f"{self.name}.eps", self.eps, at_least=0))
        correct = checks.flag(f"{self.name}.bias_correction", self.bias_correction)
        checks.choice(f"{self.name}.init", self.init, ("zero", "gradient"))
        object.__setattr__(self, "bias_correction", correct and self.init == "zero")
        for beta in ("beta1", "beta2"):
            if getattr(self, beta) == 1 and self.init == "zero":
                raise InputError(
                    f"{self.name}.{beta}=1 keeps a moment at zero for ever: "
                    f"use {self.name}.init=gradient, or frozen-adam"
                )

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        return (g.copy(), g * g) if self.init == "gradient" else (np.zeros_like(g), np.zeros_like(g))

    def first_clock(self) -> tuple[float, ...]:
        weight = 0.0 if self.bias_correction else 1.0
        return weight, weight, math.nan, math.nan  # the last two are set by the first tick
