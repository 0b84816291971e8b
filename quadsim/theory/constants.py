"""Constants of a problem and its start: κ_eff, r, and their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadsim._progress import shows_progress
from quadsim._validation import InputError
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.linear_algebra import symmetric_matrix


@shows_progress("kappa_eff")
def kappa_eff(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None) -> float:
    """The condition number that frozen Adam sees: of D^-½HD^-½ with D = diag|g₀| (exact, 2a).

    Parameters
    ----------
    problem : BlockQuadratic
    w0 : (dim,) array, optional
        The start.
    e0 : (dim,) array, optional
        The error of the start, w0 − w*; give one of the two.

    Returns
    -------
    float

    Examples
    --------
    >>> problem = qs.case(3)
    >>> round(qs.theory.kappa_eff(problem, e0=problem.initial_error(0)), 3)
    2.643
    >>> problem.kappa
    5000.0
    """
    low, high = scaled_ends(problem, w0, e0=e0)
    return float(high / low)


def scaled_ends(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None) -> tuple[float, float]:
    """The extreme eigenvalues of D^-½HD^-½ with D = diag|g₀|."""
    scaled = problem.scaled_eigenvalues(np.abs(first_gradient(problem, w0, e0=e0)))
    return min(values[0] for values in scaled), max(values[-1] for values in scaled)


def r(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None, within_blocks: bool = False) -> float:
    """The paper's r = max C_{l,2}² / min C_{l,1}², C_{l,1} and C_{l,2} the least and largest |g₀| over L_l.

    Parameters
    ----------
    problem : BlockQuadratic
    w0, e0 : (dim,) array, optional
        The start, or its error; give one of the two.
    within_blocks : bool
        Take the ratio inside each block and then the largest: the other reading of the definition.

    Returns
    -------
    float

    Examples
    --------
    >>> problem = qs.case(3)
    >>> e0 = problem.initial_error(0)
    >>> round(qs.theory.r(problem, e0=e0), 2), round(qs.theory.r(problem, e0=e0, within_blocks=True), 2)
    (12.17, 6.86)
    """
    least, largest = gradient_ends(problem, w0, e0=e0)
    ratios = largest / least if within_blocks else largest.max() / least.min()
    return float(np.max(ratios) ** 2)


def gradient_ends(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """C_{l,1} and C_{l,2} of every block."""
    parts = problem.split(np.abs(first_gradient(problem, w0, e0=e0)))
    ratios = [part / values[-1] for part, values in zip(parts, problem.eigenvalues, strict=True)]
    return np.array([part.min() for part in ratios]), np.array([part.max() for part in ratios])


def first_gradient(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None) -> np.ndarray:
    gradient = problem.hvp(start_error(problem, w0, e0=e0))
    if not gradient.all():
        zero = np.flatnonzero(gradient == 0)[0]
        raise InputError(f"the first gradient is 0 in coordinate {zero}: frozen Adam divides by it")
    return gradient


def start_error(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None) -> np.ndarray:
    if w0 is None and e0 is None:
        raise InputError("this depends on the start: give w0, or its error e0 = w0 - minimizer")
    return problem.error_of(w0, e0)


@shows_progress("scaling_bounds")
def scaling_bounds(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None) -> tuple[float, float]:
    """Bounds of κ_eff by the diagonal of H (2e).

    With a_i = H_ii/|g₀,i| and J_l the unit-diagonal scaling of block l,
    max a / min a ≤ κ_eff ≤ max_l[a_l,max λmax(J_l)] / min_l[a_l,min λmin(J_l)]. For any start without zero gradients;
    both sides are attained by diagonal H.

    Parameters
    ----------
    problem : BlockQuadratic
    w0, e0 : (dim,) array, optional
        The start, or its error; give one of the two.

    Returns
    -------
    lower, upper : float

    Examples
    --------
    >>> problem = qs.case(3)
    >>> e0 = problem.initial_error(0)
    >>> lower, upper = qs.theory.scaling_bounds(problem, e0=e0)
    >>> lower <= qs.theory.kappa_eff(problem, e0=e0) <= upper
    True
    """
    diagonal = _diagonal(problem)
    parts = problem.split(diagonal / np.abs(first_gradient(problem, w0, e0=e0)))
    largest, least = np.array([part.max() for part in parts]), np.array([part.min() for part in parts])
    jacobi = problem.scaled_eigenvalues(diagonal)
    top = max(a * values[-1] for a, values in zip(largest, jacobi, strict=True))
    bottom = min(a * values[0] for a, values in zip(least, jacobi, strict=True))
    return float(largest.max() / least.min()), float(top / bottom)


def block_scaling_bound(problem: BlockQuadratic, w0: Any = None, *, e0: Any = None) -> tuple[float, float]:
    """Upper bounds on κ_eff by the blocks' condition numbers: max κ_l C_{l,2} / min C_{l,1} ≤ √r max κ_l (2d).

    For any start without zero gradients. Both are attained by H = diag(1, κ) with |g₀| = (G, g), G ≥ g.

    Parameters
    ----------
    problem : BlockQuadratic
    w0, e0 : (dim,) array, optional
        The start, or its error; give one of the two.

    Returns
    -------
    sharper, looser : float

    Examples
    --------
    >>> problem = qs.case(3)
    >>> e0 = problem.initial_error(0)
    >>> sharper, looser = qs.theory.block_scaling_bound(problem, e0=e0)
    >>> qs.theory.kappa_eff(problem, e0=e0) <= sharper <= looser
    True
    """
    least, largest = gradient_ends(problem, w0, e0=e0)
    kappas = np.array(problem.block_kappas)
    return float(np.max(kappas * largest) / least.min()), float(largest.max() / least.min() * kappas.max())


@shows_progress("jacobi_kappas")
def jacobi_kappas(problem: BlockQuadratic) -> tuple[float, ...]:
    """Each block's condition number after the unit-diagonal scaling; at most n_l times the best diagonal one (2e).

    It may exceed the block's own κ_l.

    Parameters
    ----------
    problem : BlockQuadratic

    Returns
    -------
    tuple of float

    Examples
    --------
    >>> [round(kappa, 3) for kappa in qs.theory.jacobi_kappas(qs.case(3))]
    [1.736, 1.014, 1.0]
    >>> qs.theory.jacobi_kappas(qs.case(3, basis="diagonal"))
    (1.0, 1.0, 1.0)
    """
    return tuple(float(values[-1] / values[0]) for values in problem.scaled_eigenvalues(_diagonal(problem)))


def cosines(problem: BlockQuadratic) -> tuple[np.ndarray, np.ndarray]:
    """The cosine between H e_i and the axis of each coordinate, with its lower bound (2f).

    cos_i = H_ii/|He_i| ≥ 2√κ_l/(1 + κ_l). With e₀ ~ N(0, I), H_ii/|g₀,i| = cos_i/|N_i| with unit normal N_i. The bound
    is attained by e_i ∝ √κ_l u_min + u_max, of the extreme eigenvectors.

    Parameters
    ----------
    problem : BlockQuadratic

    Returns
    -------
    cosines, bounds : (dim,) arrays

    Examples
    --------
    >>> cosines, bounds = qs.theory.cosines(qs.case(4))
    >>> bool((bounds <= cosines).all() and (cosines <= 1).all())
    True
    """
    columns = np.concatenate([np.linalg.norm(block, axis=0) for block in problem.blocks])
    roots = np.sqrt(problem.block_kappas)
    return _diagonal(problem) / columns, np.repeat(2 / (roots + 1 / roots), problem.sizes)


def norm_11(problem: BlockQuadratic) -> float:
    """The (1,1)-norm Σ|H_ij|: the smoothness constant of Xie et al. for Adam (exact).

    Parameters
    ----------
    problem : BlockQuadratic

    Returns
    -------
    float

    Examples
    --------
    >>> qs.theory.norm_11(qs.BlockQuadratic.from_blocks([[[2.0, -1.0], [-1.0, 2.0]]]))
    6.0
    """
    return float(sum(np.abs(block).sum() for block in problem.blocks))


def _diagonal(problem: BlockQuadratic) -> np.ndarray:
    return np.concatenate([np.diag(block) for block in problem.blocks])


def checked_block(block: Any, size: int | None = None) -> np.ndarray:
    """`block` as an (n, n) array, if it is symmetric and positive semidefinite to rounding."""
    array = symmetric_matrix("the block", block)
    if size is not None and len(array) != size:
        raise InputError(f"the block must be {size} x {size}, got {len(array)} x {len(array)}")
    largest = np.abs(array).max()
    array = (array + array.T) / 2
    least = np.linalg.eigvalsh(array)[0]
    if least < -1e-10 * largest:
        raise InputError(f"the block must be positive semidefinite, got the eigenvalue {least:.6g}")
    return array
