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

#: The power p of eᵀHᵖe, by the name of the quantity that `slowest_start` measures.
MEASURES = {"distance": 0, "loss": 1, "gradient": 2}


def rate(problem: BlockQuadratic, optimizer: Optimizer, w0: Any = None, *, e0: Any = None) -> float:
    """The factor on the loss per step: lim (loss[t]/loss[0])^(1/t) at the worst start, or from w0 for FrozenAdam.

    GD at any lr: max((1−lr·μ)², (1−lr·L)²), an upper bound on every single step, attained in the eigenspace of the
    larger one, at lr = 2/(μ + L) in the span of both (1a). BlockGD: the worst of its blocks, as tight (3). FrozenAdam
    with β1 = 0: the same over the eigenvalues of D^-½HD^-½ (2a). With momentum a single step may rise above it, and
    `bound` says by how much: ((√κ−1)/(√κ+1))² for HeavyBall at its best (4a, 4b), (1−1/√κ)² for Nesterov at lr = 1/L
    (4c).

    Parameters
    ----------
    problem : BlockQuadratic
    optimizer : Optimizer
        One that has a closed form.
    w0, e0 : (dim,) array, optional
        For FrozenAdam: the start, or its error.

    Returns
    -------
    float

    Examples
    --------
    >>> problem = qs.BlockQuadratic.from_spectra([[1, 3]])
    >>> round(qs.theory.rate(problem, qs.GD()), 6)
    0.25
    >>> round(qs.theory.rate(problem, qs.HeavyBall()), 6)
    0.071797
    """
    with np.errstate(over="ignore"):
        return float(np.exp(2 * _modes(problem, optimizer, w0, e0).log_rates().max()))


def bound(problem: BlockQuadratic, optimizer: Optimizer, at: Any, w0: Any = None, *, e0: Any = None) -> np.ndarray:
    """Upper bound on loss[t]/loss[0] at the steps ``at``, tight: attained from some start at each of them.

    The largest p_t² over the problem's own eigenvalues (those of D^-½HD^-½, given w0, for FrozenAdam), transients
    included.

    Parameters
    ----------
    problem : BlockQuadratic
    optimizer : Optimizer
        One that has a closed form.
    at : list of int
        Steps.
    w0, e0 : (dim,) array, optional
        For FrozenAdam: the start, or its error.

    Returns
    -------
    array
        One number for each step.

    Examples
    --------
    >>> qs.theory.bound(qs.BlockQuadratic.from_spectra([[1, 3]]), qs.GD(), at=[0, 1, 2]).round(6).tolist()
    [1.0, 0.25, 0.0625]
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

    Parameters
    ----------
    kappa : float
    at : float or list of float
        Steps.

    Returns
    -------
    array

    Examples
    --------
    >>> qs.theory.heavy_ball_bound(100, [0, 1, 10]).round(3).tolist()
    [1.0, 5.317, 6.649]
    """
    root, t = np.sqrt(_kappa(kappa)), np.asarray(at, dtype=float)
    rho = (root - 1) / (root + 1)
    return (_power(-2 / (root + 1), t) * (1 + (1 + rho) * t)) ** 2


def heavy_ball_peak(kappa: float) -> tuple[float, float]:
    """The maximum of `heavy_ball_bound`: about κ/e² at t = √κ/2, so its loss is not monotone (4a).

    Parameters
    ----------
    kappa : float

    Returns
    -------
    t, height : float

    Examples
    --------
    >>> t, height = qs.theory.heavy_ball_peak(10_000)
    >>> round(t, 2), round(height)
    (49.49, 1354)
    """
    root = np.sqrt(_kappa(kappa))
    rho = (root - 1) / (root + 1)
    decay = -np.log1p(-2 / (root + 1)) if root > 1 else np.inf
    t = max(1 / decay - 1 / (1 + rho), 0.0)
    return float(t), float(heavy_ball_bound(kappa, t))


def nesterov_bound(kappa: float, at: Any) -> np.ndarray:
    """loss[t]/loss[0] ≤ ((1−1/√κ)^t (1 + t/√κ))² for every t. Upper; attained at the eigenvector of μ (4c).

    Needs Nesterov's textbook setting: lr = 1/L, momentum = (√κ−1)/(√κ+1).

    Parameters
    ----------
    kappa : float
    at : float or list of float
        Steps.

    Returns
    -------
    array

    Examples
    --------
    >>> qs.theory.nesterov_bound(100, [0, 1, 10]).round(4).tolist()
    [1.0, 0.9801, 0.4863]
    """
    root, t = np.sqrt(_kappa(kappa)), np.asarray(at, dtype=float)
    return (_power(-1 / root, t) * (1 + t / root)) ** 2


def _power(x: float, t: np.ndarray) -> np.ndarray:
    """(1 + x)^t, accurate for small x; 1 at t = 0, also where x = -1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(t == 0, 1.0, np.exp(t * np.log1p(x)))


def best_rate(kappa: float, method: str) -> float:
    """The smallest factor on the loss per step over all constant settings, for every problem of this κ. Tight.

    Parameters
    ----------
    kappa : float
    method : "gd", "heavy-ball" or "nesterov"
        ((κ−1)/(κ+1))² (1a); ((√κ−1)/(√κ+1))² (4b); (1 − 2/√(3κ+1))² (4c-best).

    Returns
    -------
    float

    Examples
    --------
    >>> [round(qs.theory.best_rate(100, method), 4) for method in ("gd", "heavy-ball", "nesterov")]
    [0.9608, 0.6694, 0.7827]
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

    Parameters
    ----------
    problem : BlockQuadratic
    optimizer : Optimizer
    w0, e0 : (dim,) array, optional
        For FrozenAdam: the start, or its error.

    Returns
    -------
    Optimizer

    Examples
    --------
    >>> problem = qs.BlockQuadratic.from_spectra([[1, 9]])
    >>> qs.theory.best(problem, qs.GD()), qs.theory.best(problem, qs.HeavyBall())
    (GD(lr=0.2), HeavyBall(lr=0.25, momentum=0.25))
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
    """Frozen Adam at its best β1 and lr: heavy ball on D^-½HD^-½, with κ_eff in the place of κ (exact, 4d).

    Parameters
    ----------
    problem : BlockQuadratic
    w0, e0 : (dim,) array, optional
        The start, or its error; give one of the two.

    Returns
    -------
    FrozenAdam

    Examples
    --------
    >>> problem = qs.case(3)
    >>> e0 = problem.initial_error(0)
    >>> best = qs.theory.best_frozen_momentum(problem, e0=e0)
    >>> root = qs.theory.kappa_eff(problem, e0=e0) ** 0.5
    >>> round(best.beta1 / ((root - 1) / (root + 1)) ** 2, 9)
    1.0
    """
    low, high = (end**0.5 for end in scaled_ends(problem, w0, e0=e0))
    beta1 = ((high - low) / (high + low)) ** 2
    return FrozenAdam(lr=float(4 / (high + low) ** 2 / (1 - beta1)), beta1=float(beta1))


def block_rate(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None) -> tuple[float, float]:
    """The sharp form of the paper's Theorem 1 on frozen Adam (β1 = 0). Upper, attained (2b).

    With lr = min_k C_{k,1}, loss[t+1]/loss[t] ≤ bound = max_l (1 − lr/(C_{l,2} κ_l))².

    Parameters
    ----------
    problem : BlockQuadratic
    w0, e0 : (dim,) array, optional
        The start, or its error; give one of the two.

    Returns
    -------
    lr, bound : float

    Examples
    --------
    >>> problem = qs.case(3)
    >>> lr, bound = qs.theory.block_rate(problem, e0=problem.initial_error(0))
    >>> round(lr, 4), round(bound, 4)
    (0.595, 0.6753)
    """
    least, largest = gradient_ends(problem, w0, e0=e0)
    lr = least.min()
    return float(lr), float(np.max((1 - lr / (largest * np.array(problem.block_kappas))) ** 2))


def theorem_1(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None) -> tuple[float, float]:
    """The paper's Theorem 1 on frozen Adam (β1 = 0). Upper, and loose twice (2c).

    loss[t+1]/loss[t] ≤ bound = max_l (1 − 1/(r κ_l)) at lr = min_k C_{k,1}.

    Parameters
    ----------
    problem : BlockQuadratic
    w0, e0 : (dim,) array, optional
        The start, or its error; give one of the two.

    Returns
    -------
    lr, bound : float

    Examples
    --------
    >>> problem = qs.case(3)
    >>> lr, bound = qs.theory.theorem_1(problem, e0=problem.initial_error(0))
    >>> round(lr, 4), round(bound, 4)
    (0.595, 0.9726)
    """
    lr, _ = block_rate(problem, w0, e0=e0)
    return lr, float(1 - 1 / (r(problem, w0, e0=e0) * max(problem.block_kappas)))


def lower_bound(problem: BlockQuadratic) -> float:
    """((κ−1)/(κ+1))²: from `slowest_start`, no constant lr has a smaller loss[t+1]/loss[t] at any t. Tight (1b).

    Parameters
    ----------
    problem : BlockQuadratic

    Returns
    -------
    float

    Examples
    --------
    >>> qs.theory.lower_bound(qs.BlockQuadratic.from_spectra([[1, 3]]))
    0.25
    """
    return best_rate(problem.kappa, "gd")


@shows_progress("slowest_start")
@on_one_thread
def slowest_start(problem: BlockQuadratic, measure: str = "loss") -> np.ndarray:
    """A start from which GD with *any* constant lr keeps loss[t+1]/loss[t] ≥ ((κ−1)/(κ+1))² for every t (tight, 1b).

    e₀ = u_μ/μ + u_L/L with unit eigenvectors of the two extreme eigenvalues; it does not depend on the lr. For eᵀHᵖe
    the coefficients are λ^-(p+1)/2.

    Parameters
    ----------
    problem : BlockQuadratic
    measure : "loss", "distance" or "gradient"
        The loss, the squared distance |e|², or the squared gradient norm.

    Returns
    -------
    (dim,) array
        The start w₀.

    Examples
    --------
    >>> problem = qs.BlockQuadratic.from_spectra([[1, 3]])
    >>> run = qs.exact(problem, qs.GD(lr=0.3), w0=qs.theory.slowest_start(problem), at=range(6))
    >>> bool((run.loss[1:] / run.loss[:-1] >= qs.theory.lower_bound(problem)).all())
    True
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
