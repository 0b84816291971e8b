"""The optimizers: for each, one small frozen record of settings and one update rule.

A rule is a scalar function that moves one coordinate. Its parameters are found by name: ``g`` is the coordinate's
gradient, names in ``state`` are what it remembers, names in ``clock`` are what is computed once a step, all others
are settings of the record. It returns the step to subtract, then the new state. Rules are compiled from their source by
`compiler`; they may use ``math`` and ``np``. Nothing here loops over steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from quadsim import checks
from quadsim.checks import InputError
from quadsim.problem import BlockQuadratic

LearningRate = float | tuple[float, ...] | None


@dataclass(frozen=True)
class Optimizer:
    """What all optimizers share.

    ``name`` is the word of the command line, ``label`` the one of figures. ``linear`` says that the step is a linear
    function of the gradients once the start is fixed: such a method may let a block vanish, others are caught doing so.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    linear: ClassVar[bool] = False
    rule: ClassVar[Callable[..., Any]]
    state: ClassVar[tuple[str, ...]] = ()
    tick: ClassVar[Callable[..., Any] | None] = None
    clock: ClassVar[tuple[str, ...]] = ()

    lr: LearningRate = None

    def __post_init__(self) -> None:
        if self.lr is not None:
            object.__setattr__(self, "lr", checks.real(f"{self.name}.lr", self.lr, above=0))

    def resolved(self, problem: BlockQuadratic, error: np.ndarray) -> Self:
        """The same optimizer with its learning rate filled in, for a run that starts at this error."""
        return self if self.lr is not None else replace(self, lr=self.best_lr(problem, error))

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> LearningRate:
        """The best constant learning rate, where a closed form is known."""
        raise InputError(f"{self.name} has no learning rate known in closed form: give {self.name}.lr")

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        """The state before the first step, one array for each name, given the first gradient."""
        return tuple(np.zeros_like(g) for _ in self.state)

    def first_clock(self) -> tuple[float, ...]:
        """The clock before the first step."""
        return ()

    def settings(self) -> dict[str, Any]:
        """The record's fields by name, as tables and JSON show them."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def gd_rule(g: float, lr: float) -> float:
    return lr * g


@dataclass(frozen=True)
class GD(Optimizer):
    """Gradient descent, w ← w − lr·g. ``lr=None``: 2/(μ + L), best among constants (ledger 1a)."""

    name = "gd"
    label = "GD"
    linear = True
    rule = gd_rule

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> float:
        return 2 / (problem.mu + problem.lipschitz)


@dataclass(frozen=True)
class BlockGD(Optimizer):
    """Gradient descent with one learning rate for each block. ``lr=None``: 2/(μ_l + L_l) (ledger 3).

    ``lr`` is a number for all blocks, or a sequence of one for each.
    """

    name = "block-gd"
    label = "Block GD"
    linear = True
    rule = gd_rule

    def __post_init__(self) -> None:
        rates: Any = self.lr
        if isinstance(rates, str | bytes) or not isinstance(rates, Sequence | np.ndarray) or np.ndim(rates) == 0:
            super().__post_init__()
            return
        if len(rates) == 0:
            raise InputError(f"{self.name}.lr must be one number, or one for each block, got {checks.shown(rates)}")
        object.__setattr__(self, "lr", tuple(checks.real(f"{self.name}.lr", rate, above=0) for rate in rates))

    def resolved(self, problem: BlockQuadratic, error: np.ndarray) -> Self:
        if isinstance(self.lr, tuple) and len(self.lr) != len(problem.blocks):
            raise InputError(
                f"{self.name}.lr must be one number, or one for each of {len(problem.blocks)} blocks, "
                f"got {len(self.lr)}"
            )
        return super().resolved(problem, error)

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> tuple[float, ...]:
        return tuple(float(2 / (values[0] + values[-1])) for values in problem.eigenvalues)


def heavy_ball_rule(g: float, step: float, lr: float, momentum: float) -> tuple[float, float]:
    step = lr * g + momentum * step
    return step, step


@dataclass(frozen=True)
class Momentum(Optimizer):
    """What heavy ball and Nesterov share: a learning rate and a momentum, each filled in where it is None."""

    linear = True

    momentum: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.momentum is not None:
            value = checks.real(f"{self.name}.momentum", self.momentum, at_least=0, below=1)
            object.__setattr__(self, "momentum", value)

    def resolved(self, problem: BlockQuadratic, error: np.ndarray) -> Self:
        filled = super().resolved(problem, error)
        if filled.momentum is None:
            filled = replace(filled, momentum=filled.best_momentum(problem))
        return filled

    def best_momentum(self, problem: BlockQuadratic) -> float:
        """The best momentum for the learning rate."""
        raise NotImplementedError


@dataclass(frozen=True)
class HeavyBall(Momentum):
    """Polyak's heavy ball, w₊ = w − lr·g + momentum·(w − w₋), from w₋ = w.

    By default the best of all settings, lr = 4/(√L + √μ)² and momentum = ((√κ − 1)/(√κ + 1))² (ledger 4a, 4b). With
    one of the two given, the other is the best for it: lr = 2(1 + momentum)/(μ + L), or
    momentum = max((1 − √(lr·μ))², (1 − √(lr·L))²), which is below 1 wherever some momentum is stable.
    """

    name = "heavy-ball"
    label = "Heavy ball"
    rule = heavy_ball_rule
    state = ("step",)

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> float:
        if self.momentum is not None:
            return 2 * (1 + self.momentum) / (problem.mu + problem.lipschitz)
        return 4 / (math.sqrt(problem.mu) + math.sqrt(problem.lipschitz)) ** 2

    def best_momentum(self, problem: BlockQuadratic) -> float:
        assert isinstance(self.lr, float)
        roots = [1 - math.sqrt(self.lr * end) for end in (problem.mu, problem.lipschitz)]
        return min(max(root**2 for root in roots), _BELOW_ONE)


def nesterov_rule(g: float, g_before: float, step: float, lr: float, momentum: float) -> tuple[float, float, float]:
    # On a quadratic this is the gradient at y = w + momentum·(w − w_before): gradients are linear.
    ahead = g + momentum * (g - g_before)
    step = lr * ahead + momentum * step
    return step, g, step


@dataclass(frozen=True)
class Nesterov(Momentum):
    """Nesterov's method with constant momentum, w₊ = y − lr·g(y), y = w + momentum·(w − w₋), from w₋ = w.

    By default the best of all settings on quadratics, lr = 4/(3L + μ) (ledger 4c-best); with an lr given, the best
    momentum for it, (1 − √(lr·μ))/(1 + √(lr·μ)): so ``Nesterov(lr=1/L)`` is the textbook's (4c). With only a momentum
    given the lr is the same 4/(3L + μ), which is not the best for it.
    """

    name = "nesterov"
    label = "Nesterov"
    rule = nesterov_rule
    state = ("g_before", "step")

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> float:
        return 4 / (3 * problem.lipschitz + problem.mu)

    def best_momentum(self, problem: BlockQuadratic) -> float:
        assert isinstance(self.lr, float)
        damping = math.sqrt(self.lr * problem.mu)
        return min(max((1 - damping) / (1 + damping), 0.0), _BELOW_ONE)

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        return g.copy(), np.zeros_like(g)


_BELOW_ONE = math.nextafter(1.0, 0.0)


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


OPTIMIZERS: dict[str, type[Optimizer]] = {cls.name: cls for cls in (GD, BlockGD, HeavyBall, Nesterov, FrozenAdam, Adam)}


def by_name(name: str, **settings: Any) -> Optimizer:
    """An optimizer by the word of the command line: ``by_name("adam", beta2=0.99)``."""
    word = name.lower().replace("_", "-") if isinstance(name, str) else name
    cls = OPTIMIZERS[checks.choice("optimizer", word, OPTIMIZERS)]
    allowed = [item.name for item in fields(cls)]
    for key in settings:
        if key not in allowed:
            checks.choice(f"setting of {cls.name}", key, allowed)
    return cls(**settings)
