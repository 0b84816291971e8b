"""Gradient descent and its kin: the linear methods. Theory knows the best settings of all but SGD's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from quadsim import checks
from quadsim.checks import InputError
from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.settings import check
from quadsim.problem import BlockQuadratic


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
        """The momentum in [0, 1) with the least spectral radius over [μ, L], for the learning rate."""
        raise NotImplementedError

    def lr_limit(self, problem: BlockQuadratic) -> float:
        """From this learning rate on, no momentum in [0, 1) is stable."""
        raise NotImplementedError


@dataclass(frozen=True)
class HeavyBall(Momentum):
    """Polyak's heavy ball, w₊ = w − lr·g + momentum·(w − w₋), from w₋ = w.

    By default the best of all settings, lr = 4/(√L + √μ)² and momentum = ((√κ − 1)/(√κ + 1))² (ledger 4a, 4b). With
    one of the two given, the other is the best for it, that is, of least spectral radius over [μ, L]:
    lr = 2(1 + momentum)/(μ + L), or momentum = max((1 − √(lr·μ))², (1 − √(lr·L))²), which is below 1 for every lr
    below 4/L; no momentum is stable from there on, and the run diverges.

    Proof. The roots of mode x = lr·λ solve z² − (1 + b − x)z + b = 0. Their radius is √b where b ≥ (1 − √x)²; below
    that it falls as b grows (at the larger root the derivative in b is 1 − z > 0, or 1 + |z| if z < 0). So the least b
    that covers both ends, where (1 − √x)² is largest, is best. For given b the radius is a nondecreasing function of
    |1 + b − x|, whose maximum over [μ, L] is least where both ends are equal.
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

    def lr_limit(self, problem: BlockQuadratic) -> float:
        return 4 / problem.lipschitz


def nesterov_rule(g: float, g_before: float, step: float, lr: float, momentum: float) -> tuple[float, float, float]:
    # On a quadratic this is the gradient at y = w + momentum·(w − w_before): gradients are linear.
    ahead = g + momentum * (g - g_before)
    step = lr * ahead + momentum * step
    return step, g, step


@dataclass(frozen=True)
class Nesterov(Momentum):
    """Nesterov's method with constant momentum, w₊ = y − lr·g(y), y = w + momentum·(w − w₋), from w₋ = w.

    By default the best of all settings on quadratics, lr = 4/(3L + μ) (ledger 4c-best). With one of the two given, the
    other is the best for it, that is, of least spectral radius over [μ, L]. For a given lr the momentum is

    - (1 − √(lr·μ))/(1 + √(lr·μ)) up to lr = 4/(3L + μ), radius 1 − √(lr·μ): ``Nesterov(lr=1/L)`` is the textbook's;
    - z(z − p)/(p(1 + z)) up to 2/(L + μ), where p = lr·L − 1, q = 1 − lr·μ, and the radius z is the smaller root of
      (q − p)z² − (p + q)z + 2pq = 0;
    - 0 beyond, radius lr·L − 1. From lr = 2/L on no momentum is stable, and the run diverges.

    For a given momentum the lr is the one at which the modes of μ and L have equal radii.

    Proof. With q = 1 − lr·λ the roots solve z² − (1 + b)qz + bq = 0. Their radius grows with |q| on either side of 0,
    so the ends of the spectrum decide. For q in (0, 1) the larger root falls as b grows (its derivative in b has the
    sign of −q(1 − z)) until both meet at b₀ = (1 − √(1 − q))/(1 + √(1 − q)); beyond, the radius √(bq) grows. For
    q = −p < 0 it grows with b from p at b = 0. The larger of the two is therefore least at b₀ if L's radius is not
    above μ's there (3p ≤ q, i.e. lr ≤ 4/(3L + μ)), at b = 0 if it is already above at 0 (p ≥ q), and where they meet
    otherwise: eliminating b from z² − (1 + b)qz + bq = 0 and z² − (1 + b)pz − bp = 0 gives the quadratic, which is
    positive at z = p and negative at z = q. As lr grows, μ's radius falls and L's, beyond 1/L, rises: they meet once.
    """

    name = "nesterov"
    exact_gradients = True
    label = "Nesterov"
    rule = nesterov_rule
    state = ("g_before", "step")

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> float:
        if self.momentum is None:
            return _best_nesterov_lr(problem)
        return (1 + _balance(problem.kappa, self.momentum)) / problem.lipschitz

    def best_momentum(self, problem: BlockQuadratic) -> float:
        assert isinstance(self.lr, float)
        if self.has_double_root(problem):
            damping = math.sqrt(self.lr * problem.mu)
            return min((1 - damping) / (1 + damping), _BELOW_ONE)
        p, q = self.lr * problem.lipschitz - 1, 1 - self.lr * problem.mu
        if p >= q:
            return 0.0
        radius = 4 * p * q / (p + q + math.sqrt(max((p + q) ** 2 - 8 * p * q * (q - p), 0.0)))
        return min(max(radius * (radius - p) / (p * (1 + radius)), 0.0), _BELOW_ONE)

    def has_double_root(self, problem: BlockQuadratic) -> bool:
        """Whether the best momentum for the learning rate is the one that gives the mode of μ a double root."""
        assert isinstance(self.lr, float)
        return self.lr <= _best_nesterov_lr(problem) and self.lr * problem.mu < 1

    def lr_limit(self, problem: BlockQuadratic) -> float:
        return 2 / problem.lipschitz

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        return g.copy(), np.zeros_like(g)


_BELOW_ONE = math.nextafter(1.0, 0.0)


def _best_nesterov_lr(problem: BlockQuadratic) -> float:
    return 4 / (3 * problem.lipschitz + problem.mu)


def _nesterov_radius(q: float, momentum: float) -> float:
    """The larger |z| of z² − (1 + momentum)qz + momentum·q = 0."""
    trace = (1 + momentum) * abs(q)
    discriminant = q * ((1 + momentum) ** 2 * q - 4 * momentum)
    return math.sqrt(momentum * q) if discriminant < 0 else (trace + math.sqrt(discriminant)) / 2


def _balance(kappa: float, momentum: float) -> float:
    """p = lr·L − 1 at which Nesterov's modes of μ and L have equal radii, by bisection."""
    low, high = 0.0, min(1.0, kappa - 1)
    while low < (middle := (low + high) / 2) < high and high - low > 1e-18:
        if _nesterov_radius(1 - (1 + middle) / kappa, momentum) > _nesterov_radius(-middle, momentum):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def sgd_rule(g, w, t, velocity, lr, momentum, dampening, nesterov, weight_decay):  # type: ignore[no-untyped-def]
    g = g + weight_decay * w
    # the first velocity is the gradient itself, undamped; and without momentum there is nothing to dampen
    share = 1 - dampening if t > 1 and momentum > 0 else 1.0
    velocity = momentum * velocity + share * g
    return lr * (g + momentum * velocity if nesterov > 0 else velocity), velocity


@dataclass(frozen=True)
class SGD(Optimizer):
    """SGD as torch has it, w ← w − lr·u with the velocity u ← momentum·u + (1 − dampening)·g, from u = g.

    With ``nesterov`` the step is lr·(g + momentum·u): at a constant lr, w is then the point that Nesterov's method
    looks ahead to. ``weight_decay`` adds weight_decay·w to the gradient. Without these and dampening it is heavy ball;
    without momentum, gradient descent, and dampening has no effect. Defaults are those of torch.optim.SGD.
    """

    name = "sgd"
    label = "SGD"
    linear = True
    rule = sgd_rule
    state = ("velocity",)

    lr: float = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check(self, fractions=("momentum", "dampening"), sizes=("weight_decay",), flags=("nesterov",))
        if self.nesterov and (self.momentum == 0 or self.dampening > 0):
            raise InputError(
                f"{self.name}.nesterov needs a momentum above 0 and no dampening, "
                f"got momentum={self.momentum:g} and dampening={self.dampening:g}"
            )
