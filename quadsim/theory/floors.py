"""Adam with β2 < 1 at a constant learning rate does not converge: its 2-cycles and its floor (ledger 5).

It ends on a stable 2-cycle e = ±(lr/2)s, or on another orbit of about that size. Everything here is for ε = 0 unless
stated, and scales with lr². Signs are rows of ±1; a cycle and its mirror image −s are one.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import _validation as checks
from quadsim._progress import shows_progress
from quadsim._validation import InputError
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.theory.constants import checked_block
from quadsim.theory.sdp import sdp_value, sign_halves

if TYPE_CHECKING:
    import pandas as pd


def floor(problem: BlockQuadratic | Any, lr: float, beta1: float = 0.0) -> float:
    """The floor for β2 → 1: time-average loss ≈ (lr²/8) SDP(H), times ((1−β1)/(1+β1))² (heuristic, 5g).

    At β1 = 0 it is (1−q) times this with q ≥ 0 in every run so far (tested, 5g): it is an upper estimate. The largest q
    is not known. On a stable 2-cycle q ≤ (1−β2)/(1+β2) (proved, 5e); elsewhere q has been up to 2.0
    times that (0.44 at β2 = 0.5, 0.092 at 0.9), and below √(1−β2) under search (tested, 5g-width). With momentum runs
    lie above: at β1 = 0.9, β2 ≥ 0.99 and on random blocks by 1% to 25%, at smaller β2 by more (5g-momentum).

    Parameters
    ----------
    problem : BlockQuadratic or (n, n) array
        The problem, or one block.
    lr : float
    beta1 : float

    Returns
    -------
    float

    Examples
    --------
    >>> round(qs.theory.floor(qs.case(3), lr=0.01), 4)
    0.1914
    """
    return _unit(lr, beta1) * sdp_value(problem).value


@dataclass(frozen=True)
class FloorBounds:
    """Bounds on the floor of Adam (β1 = 0, β2 < 1); each field states its own claim.

    No lower bound on the time-average loss is known: (2β2/(1+β2)) (lr²/8) tr H is not one (refuted, 5g-lower).

    Attributes
    ----------
    limsup : float
        limsup loss ≥ (lr²/8) max_l μ_l²/max_i H_ii, i in block l, unless Adam is exactly at the optimum (proved, 5b).
    stable_cycle : float
        Loss on any stable 2-cycle ≥ (2β2/(1+β2)) (lr²/8) SDP(H), if H has one (proved, 5e).
    upper : float
        Time-average of ⅛ΔᵀHΔ, Δ the steps, ≤ (lr²/8) SDP(H) on every bounded orbit (proved, 5f).
        It bounds the loss on every 2-cycle (proved), and the time-average loss (tested, 5g).
    looser : float
        (lr²/8) Σ n_l L_l ≥ upper, without an SDP (proved, 5f).

    Examples
    --------
    >>> bounds = qs.theory.floor_bounds(qs.case(3), lr=0.01, beta2=0.99)
    >>> bounds.limsup <= bounds.stable_cycle <= bounds.upper <= bounds.looser
    True
    """

    limsup: float
    stable_cycle: float
    upper: float
    looser: float

    def to_frame(self) -> pd.DataFrame:
        """The bounds as a tidy table.

        Returns
        -------
        DataFrame
            One row for each bound; the columns are bound and value.

        Examples
        --------
        >>> qs.theory.floor_bounds(qs.case(3), lr=0.01, beta2=0.99).to_frame()["bound"].tolist()
        ['limsup', 'stable_cycle', 'upper', 'looser']
        """
        import pandas as pd

        return pd.DataFrame(list(asdict(self).items()), columns=["bound", "value"])


@shows_progress("floor_bounds")
def floor_bounds(problem: BlockQuadratic, lr: float, beta2: float) -> FloorBounds:
    """Bounds around the floor of Adam with β1 = 0; see `FloorBounds` (5b, 5e, 5f).

    Parameters
    ----------
    problem : BlockQuadratic
    lr, beta2 : float

    Returns
    -------
    FloorBounds

    Examples
    --------
    >>> round(qs.theory.floor_bounds(qs.case(3), lr=0.01, beta2=0.99).upper, 4)
    0.1914
    """
    unit, beta2, sdp = _unit(lr, 0.0), _beta2(beta2), sdp_value(problem)
    slack = 2 * beta2 / (1 + beta2)
    ends = zip(problem.eigenvalues, problem.blocks, strict=True)
    limsup = max(float(values[0]) ** 2 / float(np.diag(block).max()) for values, block in ends)
    looser = sum(values.size * float(values[-1]) for values in problem.eigenvalues)
    return FloorBounds(unit * limsup, unit * slack * sdp.value, unit * sdp.upper, unit * looser)


def nonconvergence(problem: BlockQuadratic, lr: float) -> np.ndarray:
    """lr μ_l/2 of each block: limsup |g_l|_∞ is at least that, from any start (proved, tight in 1-D; 5b).

    Adam with β1 = 0 and 0 ≤ β2 < 1, as long as the block is never exactly at its optimum.

    Parameters
    ----------
    problem : BlockQuadratic
    lr : float

    Returns
    -------
    array
        One number for each block.

    Examples
    --------
    >>> qs.theory.nonconvergence(qs.case(3), lr=0.01).round(6).tolist()
    [0.005, 0.495, 24.99]
    """
    lr = checks.real("lr", lr, above=0)
    return np.array([lr * values[0] / 2 for values in problem.eigenvalues])


def cycles(block: Any) -> tuple[np.ndarray, np.ndarray]:
    """Adam's 2-cycles e = ±(lr/2)s with nonzero gradients: all s with sign(Hs) = s (exact, 5c).

    They are the same for every 0 < β2 < 1, and sign descent's around the minimizer. There is always one; those that are
    stable depend on β2.

    Parameters
    ----------
    block : (n, n) array
        n ≤ 20.

    Returns
    -------
    signs : (cycles, n) array
        Each s once, up to a global sign.
    sums : (cycles,) array
        sᵀHs of each, the largest first.

    Examples
    --------
    >>> signs, sums = qs.theory.cycles([[2.0, 1.0], [1.0, 2.0]])
    >>> signs.tolist(), sums.tolist()
    ([[1.0, 1.0], [1.0, -1.0]], [6.0, 2.0])
    """
    h = checked_block(block)
    first, second = sign_halves(len(h))  # (p, a), (q, b)
    a = first.shape[1]
    fixed = np.ones((len(first), len(second)), dtype=bool)
    for i, row in enumerate(h):
        push = (first @ row[:a])[:, None] + second @ row[a:]  # (Hs)_i of every s
        fixed &= push * (first[:, i, None] if i < a else second[:, i - a]) > 0
    p, q = np.nonzero(fixed)
    signs = np.hstack([first[p], second[q]])  # (cycles, n)
    sums = np.einsum("ki,ij,kj->k", signs, h, signs)
    order = np.argsort(-sums, kind="stable")
    return signs[order], sums[order]


def cycle_loss(block: Any, s: Any, lr: float, beta1: float = 0.0) -> float:
    """The loss (lr²/8)((1−β1)/(1+β1))² sᵀHs on the cycle of s, at both its points (exact, 5c and 5d).

    Parameters
    ----------
    block : (n, n) array
    s : (n,) array
        Signs with sign(Hs) = s.
    lr, beta1 : float

    Returns
    -------
    float

    Examples
    --------
    >>> qs.theory.cycle_loss([[2.0, 1.0], [1.0, 2.0]], [1, 1], lr=2.0)
    3.0
    """
    h = checked_block(block)
    s = _signs(s, len(h))
    _pushes(h, s)
    return _unit(lr, beta1) * float(s @ h @ s)


def cycle_multipliers(block: Any, s: Any, beta2: float, beta1: float = 0.0) -> np.ndarray:
    """Multipliers per step of a small error on the cycle of s, as (−1)^t e_t sees it (exact, 5d).

    p runs over the eigenvalues of P = A⁻¹K, increasing, with K = diag(s)H diag(s) and A = diag(K1). At β1 = 0 they
    solve z² − (β2 − 1 + 2β2p)z + β2(2p − 1) = 0, otherwise (z + 1)(z + β1)(z − β2) = 2p(β1 + β2)z(z − 1). Squared,
    they are the eigenvalues of two steps of Adam.

    Parameters
    ----------
    block : (n, n) array
    s : (n,) array
        Signs with sign(Hs) = s.
    beta2, beta1 : float

    Returns
    -------
    array
        One row for each p.

    Examples
    --------
    >>> multipliers = qs.theory.cycle_multipliers([[2.0, 1.0], [1.0, 2.0]], [1, 1], beta2=0.9)
    >>> round(float(np.abs(multipliers).max()), 6)
    0.948683
    """
    values = cycle_spectrum(block, s)
    beta1, beta2 = _beta1(beta1), _beta2(beta2)
    if beta1 == 0:
        return np.array([np.roots([1, 1 - beta2 - 2 * beta2 * p, beta2 * (2 * p - 1)]) for p in values])
    still = np.poly([-1, -beta1, beta2])
    return np.array([np.roots(still - 2 * p * (beta1 + beta2) * np.array([0, 1, -1, 0])) for p in values])


def is_stable_cycle(block: Any, s: Any, beta2: float, beta1: float = 0.0) -> bool:
    """Whether Adam returns to the cycle of s after a small perturbation: λmax(P) < `stability_limit` (exact, 5d).

    Parameters
    ----------
    block : (n, n) array
    s : (n,) array
        Signs with sign(Hs) = s.
    beta2, beta1 : float

    Returns
    -------
    bool

    Examples
    --------
    >>> qs.theory.is_stable_cycle([[2.0, 1.0], [1.0, 2.0]], [1, 1], beta2=0.9)
    True
    """
    return bool(cycle_spectrum(block, s)[-1] < stability_limit(beta2, beta1))


def stability_limit(beta2: float, beta1: float = 0.0) -> float:
    """The λmax(P) from which on a cycle is unstable; (1+β2)/(2β2) at β1 = 0 (exact, 5d).

    P always has the eigenvalue 1, so with a limit of at most 1 no cycle is stable.

    Parameters
    ----------
    beta2, beta1 : float

    Returns
    -------
    float

    Examples
    --------
    >>> qs.theory.stability_limit(0.5)
    1.5
    """
    beta1, beta2 = _beta1(beta1), _beta2(beta2)
    both = beta1 * beta2
    return (1 + both) * (1 - beta1) * (1 + beta2) / (2 * (beta1 + beta2) * (1 - both))


def cycle_spectrum(block: Any, s: Any) -> np.ndarray:
    """The eigenvalues of P = A⁻¹K, with K = diag(s)H diag(s) and A = diag(K1); one of them is 1 (5d).

    Parameters
    ----------
    block : (n, n) array
    s : (n,) array
        Signs with sign(Hs) = s.

    Returns
    -------
    (n,) array
        Increasing.

    Examples
    --------
    >>> qs.theory.cycle_spectrum([[2.0, 1.0], [1.0, 2.0]], [1, 1]).round(6).tolist()
    [0.333333, 1.0]
    """
    h = checked_block(block)
    s = _signs(s, len(h))
    roots = np.sqrt(_pushes(h, s))
    return np.linalg.eigvalsh(h * np.outer(s / roots, s / roots))


def contraction_depth(beta2: float) -> float:
    """ln(least |w| / lr) ≈ −π²/(2 ln(1/β2)) on the way from |w| ≫ lr to the cycle (tested, β2 → 1; 5i).

    Float64 underflows from β2 ≈ 0.9934 on, and the run then appears to converge.

    Parameters
    ----------
    beta2 : float

    Returns
    -------
    float

    Examples
    --------
    >>> round(qs.theory.contraction_depth(0.99), 1)
    -491.0
    """
    return math.pi**2 / (2 * math.log(_beta2(beta2)))


def amplitude_1d(lr: float, eps: float, curvature: float) -> float:
    """The size |e| on the cycle in one dimension with ε > 0: max(0, lr/2 − ε/λ); at 0 Adam converges (exact, 5j).

    For β1 = 0, any 0 < β2 < 1.

    Parameters
    ----------
    lr, eps : float
    curvature : float
        λ, the only eigenvalue.

    Returns
    -------
    float

    Examples
    --------
    >>> qs.theory.amplitude_1d(lr=1.0, eps=0.5, curvature=2.0)
    0.25
    """
    lr, eps = checks.real("lr", lr, above=0), checks.real("eps", eps, at_least=0)
    return max(0.0, lr / 2 - eps / checks.real("curvature", curvature, above=0))


def _unit(lr: float, beta1: float) -> float:
    """(lr²/8)((1−β1)/(1+β1))²."""
    beta1 = _beta1(beta1)
    return (checks.real("lr", lr, above=0) * (1 - beta1) / (1 + beta1)) ** 2 / 8


def _beta1(value: float) -> float:
    return checks.real("beta1", value, at_least=0, below=1)


def _beta2(value: float) -> float:
    return checks.real("beta2", value, above=0, below=1)


def _signs(s: Any, size: int) -> np.ndarray:
    vector = checks.vector("s", s, size)
    for entry in vector[np.abs(vector) != 1][:1]:
        raise InputError(f"s must hold 1 and -1 only, got {entry:g} in it")
    return vector


def _pushes(h: np.ndarray, s: np.ndarray) -> np.ndarray:
    """s_i(Hs)_i, if all are positive."""
    pushes = s * (h @ s)
    for i in np.flatnonzero(pushes <= 0)[:1]:
        raise InputError(f"s is not a cycle: s_i (Hs)_i must be above 0, got {pushes[i]:g} in coordinate {i}")
    return pushes
