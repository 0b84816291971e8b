"""Rates: bounds on the loss, and the start that is slowest for every constant learning rate."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadsim import _validation as checks
from quadsim._blas import on_one_thread
from quadsim._progress import shows_progress
from quadsim._validation import InputError, InputTypeError, shown
from quadsim.engine.closed_form import exact as closed_form
from quadsim.engine.closed_form.modes import Modes
from quadsim.engine.trajectory import MAX_STEPS
from quadsim.optimizers import GD, BlockGD, FrozenAdam, HeavyBall, Nesterov, Optimizer
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.theory.constants import first_gradient, gradient_ends, r, scaled_ends, start_error

MEASURES = {"distance": 0, "loss": 1, "gradient": 2}  # the power p of eᵀHᵖe


def rate(problem: BlockQuadratic, optimizer: Optimizer, w0: Any = None, *, e0: Any = None) -> float:
    """The factor on the loss per step: lim (loss[t]/loss[0])^(1/t) at the worst start, or from w0 for FrozenAdam.

    GD at any lr: max((1−lr·μ)², (1−lr·L)²), an upper bound on every single step, attained in the eigenspace of the
    larger one, at lr = 2/(μ + L) in the span of both (1a). BlockGD: the worst of its blocks, as tight (3). FrozenAdam
    with β1 = 0: the same over the eigenvalues of D^-½HD^-½ (2a). With momentum a single step may rise above it, and
    `bound` says by how much: ((√κ−1)/(√κ+1))² for HeavyBall at its best (4a, 4b), (1−1/√κ)² for Nesterov at lr = 1/L
    (4c).
    """
    with np.errstate(over="ignore"):
        return float(np.exp(2 * _modes(problem, optimizer, w0, e0).log_rates().max()))


def bound(problem: BlockQuadratic, optimizer: Optimizer, at: Any, w0: Any = None, *, e0: Any = None) -> np.ndarray:
    """Upper bound on loss[t]/loss[0] at the steps ``at``, tight: attained from some start at each of them.

    The largest p_t² over the problem's own eigenvalues (those of D^-½HD^-½, given w0, for FrozenAdam), transients
    included.
    """
    sizes = _modes(problem, optimizer, w0, e0).log_sizes(checks.steps("at", at, at_most=MAX_STEPS))
    with np.errstate(over="ignore"):
        return np.exp(2 * sizes.max(axis=0))


def _modes(problem: BlockQuadratic, optimizer: Optimizer, w0: Any, e0: Any) -> Modes:
    if not isinstance(problem, BlockQuadratic):
        raise InputTypeError(f"problem must be a BlockQuadratic, got {shown(problem)}")
    if not closed_form.has_closed_form(optimizer):
        raise InputError(f"no factor on the loss per step is known for {getattr(optimizer, 'name', shown(optimizer))}")
    if not isinstance(optimizer, FrozenAdam):
        return closed_form.modes_of(problem, optimizer, np.zeros(problem.dim))  # nothing depends on the start
    first_gradient(problem, w0, e0=e0)  # refuses a zero in it
    return closed_form.modes_of(problem, optimizer, start_error(problem, w0, e0=e0))


def heavy_ball_bound(kappa: float, at: Any) -> np.ndarray:
    """loss[t]/loss[0] ≤ (ρ^t (1 + (1+ρ)t))² for every t. Upper; attained at the eigenvector of L (4a).

    Needs heavy ball at its best: lr = 4/(√L + √μ)², momentum = ρ², where ρ = (√κ−1)/(√κ+1).
    """
    root, t = np.sqrt(_kappa(kappa)), np.asarray(at, dtype=float)
    rho = (root - 1) / (root + 1)
    return (_power(-2 / (root + 1), t) * (1 + (1 + rho) * t)) ** 2


def heavy_ball_peak(kappa: float) -> tuple[float, float]:
    """The maximum of `heavy_ball_bound` as (t, height): about κ/e² at t = √κ/2, so its loss is not monotone (4a)."""
    root = np.sqrt(_kappa(kappa))
    rho = (root - 1) / (root + 1)
    decay = -np.log1p(-2 / (root + 1)) if root > 1 else np.inf
    t = max(1 / decay - 1 / (1 + rho), 0.0)
    return float(t), float(heavy_ball_bound(kappa, t))


def nesterov_bound(kappa: float, at: Any) -> np.ndarray:
    """loss[t]/loss[0] ≤ ((1−1/√κ)^t (1 + t/√κ))² for every t. Upper; attained at the eigenvector of μ (4c).

    Needs Nesterov's textbook setting: lr = 1/L, momentum = (√κ−1)/(√κ+1).
    """
    root, t = np.sqrt(_kappa(kappa)), np.asarray(at, dtype=float)
    return (_power(-1 / root, t) * (1 + t / root)) ** 2


def _power(x: float, t: np.ndarray) -> np.ndarray:
    """(1 + x)^t, accurate for small x; 1 at t = 0, also where x = -1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(t == 0, 1.0, np.exp(t * np.log1p(x)))


def best_rate(kappa: float, method: str) -> float:
    """The smallest factor on the loss per step over all constant settings, for every problem of this κ. Tight.

    "gd" ((κ−1)/(κ+1))² (1a); "heavy-ball" ((√κ−1)/(√κ+1))² (4b); "nesterov" (1 − 2/√(3κ+1))² (4c-best).
    """
    kappa = _kappa(kappa)
    roots = {
        "gd": 1 - 2 / (kappa + 1),
        "heavy-ball": 1 - 2 / (np.sqrt(kappa) + 1),
        "nesterov": 1 - 2 / np.sqrt(3 * kappa + 1),
    }
    return float(roots[checks.choice("method", method, roots)] ** 2)


def best(problem: BlockQuadratic, optimizer: Optimizer, w0: Any = None, *, e0: Any = None) -> Optimizer:
    """The optimizer with its open settings filled in: the best learning rate and momentum, where they are known.

    GD 2/(μ + L) (1a), BlockGD the same by block (3), HeavyBall and Nesterov (4a, 4c-best), FrozenAdam 2/(s_min + s_max)
    over the eigenvalues s of D^-½HD^-½ (2a). Raises if no momentum is stable at the given learning rate.
    """
    if not isinstance(optimizer, GD | BlockGD | HeavyBall | Nesterov | FrozenAdam):
        name = getattr(optimizer, "name", shown(optimizer))
        raise InputError(f"no best setting is known in closed form for {name}: tune it")
    if isinstance(optimizer, HeavyBall | Nesterov) and optimizer.momentum is None and isinstance(optimizer.lr, float):
        limit = optimizer.lr_limit(problem)
        if optimizer.lr >= limit:
            unstable = f"{optimizer.name}.lr={optimizer.lr:g} is unstable at every momentum"
            raise InputError(f"{unstable}: give an lr below {limit:g}")
    error = start_error(problem, w0, e0=e0) if isinstance(optimizer, FrozenAdam) else np.zeros(problem.dim)
    return optimizer.with_best_lr(problem, error)


def best_frozen_momentum(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None) -> FrozenAdam:
    """Frozen Adam at its best β1 and lr: heavy ball on D^-½HD^-½, with κ_eff in the place of κ (exact, 4d)."""
    low, high = (end**0.5 for end in scaled_ends(problem, w0, e0=e0))
    beta1 = ((high - low) / (high + low)) ** 2
    return FrozenAdam(lr=float(4 / (high + low) ** 2 / (1 - beta1)), beta1=float(beta1))


def block_rate(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None) -> tuple[float, float]:
    """(lr, bound): with this lr, frozen Adam (β1 = 0) has loss[t+1]/loss[t] ≤ bound. Upper, attained (2b).

    lr = min_k C_{k,1}; bound = max_l (1 − lr/(C_{l,2} κ_l))². The sharp form of the paper's Theorem 1.
    """
    least, largest = gradient_ends(problem, w0, e0=e0)
    lr = least.min()
    return float(lr), float(np.max((1 - lr / (largest * np.array(problem.block_kappas))) ** 2))


def theorem_1(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None) -> tuple[float, float]:
    """(lr, bound): the paper's Theorem 1 on frozen Adam (β1 = 0) with that lr. Upper, and loose twice (2c).

    loss[t+1]/loss[t] ≤ max_l (1 − 1/(r κ_l)) at lr = min_k C_{k,1}.
    """
    lr, _ = block_rate(problem, w0, e0=e0)
    return lr, float(1 - 1 / (r(problem, w0, e0=e0) * max(problem.block_kappas)))


def lower_bound(problem: BlockQuadratic) -> float:
    """((κ−1)/(κ+1))²: from `slowest_start`, no constant lr has a smaller loss[t+1]/loss[t] at any t. Tight (1b)."""
    return best_rate(problem.kappa, "gd")


@shows_progress("slowest_start")
@on_one_thread
def slowest_start(problem: BlockQuadratic, measure: str = "loss") -> np.ndarray:
    """A start from which GD with *any* constant lr keeps loss[t+1]/loss[t] ≥ ((κ−1)/(κ+1))² for every t (tight, 1b).

    e₀ = u_μ/μ + u_L/L with unit eigenvectors of the two extreme eigenvalues; it does not depend on the lr. ``measure``
    is "loss", the squared "distance" |e|² or the squared "gradient" norm; the coefficients are λ^-(p+1)/2
    for eᵀHᵖe.
    """
    power = MEASURES[checks.choice("measure", measure, MEASURES)]
    error = np.zeros(problem.dim)
    parts = problem.split(error)
    for extreme, pick, end in ((problem.mu, np.argmin, 0), (problem.lipschitz, np.argmax, -1)):
        block = int(pick([values[end] for values in problem.eigenvalues]))
        parts[block] += np.linalg.eigh(problem.blocks[block])[1][:, end] * extreme ** (-(power + 1) / 2)
    return problem.minimizer + np.concatenate(parts)


def _kappa(kappa: float) -> float:
    return checks.real("kappa", kappa, at_least=1)
