"""SDP(H) = max{⟨H, X⟩ : X ⪰ 0, X_ii = 1} = min{ΣΛ_i : diag(Λ) ⪰ H}, the constant in the floor of Adam (ledger 5).

Every value comes with its certificate: a feasible X below it and multipliers Λ above it. Often X = ssᵀ for one sign
vector s, which is tried first; otherwise a primal-dual interior-point method solves both problems.

The solver is written here because scipy has none for SDPs, and cvxpy or Clarabel would be a heavy dependency for one
problem with a closed-form Newton step; its relative duality gap is about 1e-12 (`SDPValue.gap`, tests/theory).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim._blas import on_one_thread
from quadsim._progress import shows_progress
from quadsim._validation import InputError
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.theory.constants import checked_block

if TYPE_CHECKING:
    import pandas as pd

MAX_ENUMERATED = 20
GAP_TOL = 1e-12  # relative duality gap
PATIENCE = 8  # iterations without a smaller gap, after which rounding dominates


@dataclass(frozen=True, repr=False)
class SDPValue:
    """value ≤ SDP(H) ≤ upper, to rounding.

    Attributes
    ----------
    value : float
        ⟨H, X⟩.
    upper : float
        ΣΛ_i.
    x : tuple of (n, n) arrays
        X of each block: positive semidefinite, unit diagonal.
    multipliers : (dim,) array
        Λ: diag(Λ) ⪰ H.

    Examples
    --------
    >>> sdp = qs.theory.sdp_value(qs.case(3))
    >>> round(sdp.value, 6), sdp.gap < 1e-9
    (15308.077173, True)
    """

    value: float
    upper: float
    x: tuple[np.ndarray, ...]
    multipliers: np.ndarray

    def __repr__(self) -> str:
        return f"<SDPValue: {self.value:.6g}, relative gap {self.gap:.1e}, dim {self.multipliers.size}>"

    def to_frame(self) -> pd.DataFrame:
        """The multipliers as a tidy table.

        Returns
        -------
        DataFrame
            One row for each coordinate; the columns are coordinate, block (its number) and multiplier.

        Examples
        --------
        >>> qs.theory.sdp_value(qs.case(3)).to_frame().groupby("block")["multiplier"].sum().round(1).tolist()
        [6.9, 301.6, 14999.5]
        """
        import pandas as pd

        sizes = [len(x) for x in self.x]
        columns = {"block": np.repeat(np.arange(len(sizes)), sizes), "multiplier": self.multipliers}
        return pd.DataFrame({"coordinate": np.arange(self.multipliers.size), **columns})

    @property
    def gap(self) -> float:
        """The relative distance of the two bounds."""
        return max(0.0, self.upper - self.value) / self.upper if self.upper > 0 else 0.0


@shows_progress("sdp_value")
@on_one_thread
def sdp_value(problem: BlockQuadratic | Any) -> SDPValue:
    """SDP(H) of a problem, or of one block, with its certificate (exact to `SDPValue.gap`, 5).

    tr H and every sᵀHs are at most SDP(H), which is at most Σ n_l L_l.

    Parameters
    ----------
    problem : BlockQuadratic or (n, n) array
        The problem, or one symmetric positive semidefinite block.

    Returns
    -------
    SDPValue

    Examples
    --------
    >>> round(qs.theory.sdp_value([[2.0, 1.0], [1.0, 2.0]]).value, 6)
    6.0
    """
    blocks = problem.blocks if isinstance(problem, BlockQuadratic) else (checked_block(problem),)
    solved = [_solved(block) for block in blocks]
    multipliers = np.concatenate([y for _, y in solved])
    value = sum(float((block * x).sum()) for block, (x, _) in zip(blocks, solved, strict=True))
    return SDPValue(value, float(multipliers.sum()), tuple(x for x, _ in solved), multipliers)


def largest_sign_sum(block: Any) -> tuple[float, np.ndarray]:
    """The largest sᵀHs over sign vectors, by enumerating all 2^(n−1) (exact, 5e).

    Parameters
    ----------
    block : (n, n) array
        n ≤ 20.

    Returns
    -------
    value : float
    s : (n,) array
        A sign vector that attains it.

    Examples
    --------
    >>> value, s = qs.theory.largest_sign_sum([[2.0, -1.0], [-1.0, 2.0]])
    >>> value, s.tolist()
    (6.0, [1.0, -1.0])
    """
    h = checked_block(block)
    first, second = sign_halves(len(h))  # (p, a), (q, b)
    a = first.shape[1]
    within = [np.einsum("ki,ij,kj->k", half, part, half) for half, part in ((first, h[:a, :a]), (second, h[a:, a:]))]
    sums = within[0][:, None] + within[1] + 2 * (first @ h[:a, a:]) @ second.T  # (p, q)
    p, q = np.unravel_index(np.argmax(sums), sums.shape)
    s = np.concatenate([first[p], second[q]])
    return float(s @ h @ s), s


def sign_halves(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two tables of half sign vectors: a row of the first beside a row of the second is every s with s_1 = 1, once."""
    if n > MAX_ENUMERATED:
        raise InputError(f"sign vectors can be enumerated up to n = {MAX_ENUMERATED}, got n = {n}")
    a = (n + 1) // 2
    first, second = (1.0 - 2 * (np.arange(2**m)[:, None] >> np.arange(m) & 1) for m in (a, n - a))
    return first[::2], second


def _solved(h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """X and Λ of one block."""
    scale = np.trace(h)
    if scale == 0:
        return np.eye(len(h)), np.zeros(len(h))
    h = h / scale
    s = _sign_ascent(h)
    x, y = np.outer(s, s), _feasible(h, s * (h @ s))
    if y.sum() - s @ h @ s > GAP_TOL * y.sum():
        x, z = _interior_point(h)
        y = min((y, _feasible(h, z), _feasible(h, (h * x).sum(axis=1))), key=np.sum)
        if s @ h @ s >= (h * x).sum():
            x = np.outer(s, s)
    return x, y * scale


def _sign_ascent(h: np.ndarray) -> np.ndarray:
    """A sign vector that no single flip improves: from the leading eigenvector, the best flip first."""
    s = np.where(np.linalg.eigh(h)[1][:, -1] < 0, -1.0, 1.0)
    diagonal = np.diag(h)
    for _ in range(10 * len(h)):
        margin = s * (h @ s) - diagonal  # a flip of i changes sᵀHs by −4 margin_i
        i = np.argmin(margin)
        if margin[i] >= 0:
            break
        s[i] = -s[i]
    return s


def _feasible(h: np.ndarray, y: np.ndarray) -> np.ndarray:
    """y scaled by λmax(diag(y)^-½ H diag(y)^-½), so that diag(y) ⪰ H: the best multiple of y."""
    if y.min() <= 0:
        y = np.maximum(y, 1e-12 * y.max())  # where H has a row of zeros, or nearly
    roots = np.sqrt(y)
    return y * float(np.linalg.eigvalsh(h / np.outer(roots, roots))[-1])


def _interior_point(h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """X and Λ by the primal-dual method of Helmberg, Rendl, Vanderbei and Wolkowicz (SIAM J. Optim. 1996).

    All iterates are feasible. The gap ⟨diag(y) − H, X⟩ may rise for an iteration or two after a short step.
    """
    n = len(h)
    x = np.eye(n)
    y = 1.1 * np.abs(h).sum(axis=1) + 1e-3  # diagonally dominant, so feasible
    best, least, since = (x, y), math.inf, 0
    mu = (y.sum() - np.trace(h)) / (2 * n)
    while since < PATIENCE:
        try:
            inverse = np.linalg.inv(np.diag(y) - h)
            inverse = (inverse + inverse.T) / 2
            dy = np.linalg.solve(inverse * x, mu * np.diag(inverse) - 1)
        except np.linalg.LinAlgError:
            break
        dx = mu * inverse - x - (inverse * dy) @ x
        dx = (dx + dx.T) / 2
        np.fill_diagonal(dx, 0)
        along_x, along_y = _longest_step(x, dx), _longest_step(np.diag(y) - h, np.diag(dy))
        x, y = x + along_x * dx, y + along_y * dy
        gap = float(y.sum() - (h * x).sum())
        if gap <= 0:
            break
        since += 1
        if gap < 0.9 * least:
            best, least, since = (x, y), gap, 0
        if gap <= 0.1 * GAP_TOL * y.sum():
            break
        shortest = min(along_x, along_y)
        mu = gap / n * (0.02 if shortest > 0.9 else 0.2 if shortest > 0.5 else 0.6)
    return best


def _longest_step(a: np.ndarray, da: np.ndarray) -> float:
    """The longest step up to 1 that keeps a + step·da positive definite, with a margin; 0 if a is not."""
    try:
        root = np.linalg.inv(np.linalg.cholesky(a))
    except np.linalg.LinAlgError:
        return 0.0
    least = np.linalg.eigvalsh(root @ da @ root.T)[0]
    return 1.0 if least > -0.95 else -0.95 / float(least)
