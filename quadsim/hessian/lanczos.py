"""Stochastic Lanczos quadrature: the spectrum of a symmetric operator from products with a few random vectors.

From a unit vector q, m Lanczos steps give m nodes (Ritz values) and m weights that sum to 1: the Gauss quadrature rule
of the spectral measure of q, exact for polynomials up to degree 2m − 1. Averaged over random q it approximates the
density of eigenvalues. Outer nodes converge to eigenvalues first; residuals bound their errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import eigh_tridiagonal
from torch import Tensor

MAX_COLUMNS = 2**15  # of the basis in one product: longer sums are accumulated in float64


@dataclass(frozen=True)
class Quadrature:
    """The quadrature rule of one probe.

    Attributes
    ----------
    nodes, weights : arrays
        The nodes, increasing, and their weights.
    residuals : array
        ‖Au − θu‖ for each Ritz pair (θ, u).
    asymmetry : float
        Of the operator, the largest seen: |(qᵢ, Aqⱼ) − (qⱼ, Aqᵢ)| / |(qⱼ, Aqᵢ)|.

    Examples
    --------
    >>> import torch
    >>> from quadsim import hessian
    >>> diagonal = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    >>> rule = hessian.quadrature(lambda v: diagonal * v, np.ones(3), 3, torch.float64)
    >>> rule.nodes.round(9).tolist(), rule.weights.round(3).tolist()
    ([1.0, 2.0, 5.0], [0.333, 0.333, 0.333])
    """

    nodes: np.ndarray
    weights: np.ndarray
    residuals: np.ndarray
    asymmetry: float  # of the operator, the largest seen: |(qᵢ, Aqⱼ) − (qⱼ, Aqᵢ)| / |(qⱼ, Aqᵢ)|


def quadrature(
    product: Callable[[Tensor], Tensor],
    start: np.ndarray,
    steps: int,
    dtype: torch.dtype,
    progress: Callable[[int], None] | None = None,
) -> Quadrature:
    """The quadrature rule of a symmetric operator by Lanczos steps, with full reorthogonalization, twice.

    The iteration ends early if the vectors span an invariant subspace; the nodes are then eigenvalues.

    Parameters
    ----------
    product : function
        From a vector (torch tensor) to its product with the operator.
    start : array
        The probe.
    steps : int
    dtype : torch dtype
    progress : function, optional
        Called with the number of steps done.

    Returns
    -------
    Quadrature

    Examples
    --------
    >>> import torch
    >>> from quadsim import hessian
    >>> diagonal = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    >>> hessian.quadrature(lambda v: diagonal * v, np.ones(3), 3, torch.float64).nodes.round(9).tolist()
    [1.0, 2.0, 5.0]
    """
    size = start.size
    steps = min(steps, size)
    basis = torch.empty(steps, size, dtype=dtype)
    basis[0] = torch.from_numpy(start / np.linalg.norm(start))
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    asymmetry = 0.0
    scale = 0.0
    for step in range(steps):
        w = product(basis[step]).double()
        scale = max(scale, float(w.norm()))
        coefficients = _project_out(basis[: step + 1], w)
        diagonal.append(float(coefficients[step]))
        if step > 0 and off_diagonal[-1] > 1e-3 * scale:
            asymmetry = max(asymmetry, abs(float(coefficients[step - 1]) - off_diagonal[-1]) / off_diagonal[-1])
        beta = float(w.norm())
        off_diagonal.append(beta)
        if not np.isfinite(beta):
            return Quadrature(np.array([np.nan]), np.ones(1), np.array([np.nan]), asymmetry)
        if progress is not None:
            progress(step + 1)
        if beta <= 100 * torch.finfo(dtype).eps * scale or step + 1 == steps:
            break
        basis[step + 1] = (w / beta).to(dtype)
    nodes, vectors = eigh_tridiagonal(np.array(diagonal), np.array(off_diagonal[:-1]))
    return Quadrature(nodes, vectors[0] ** 2, abs(off_diagonal[-1] * vectors[-1]), asymmetry)


def _project_out(basis: Tensor, w: Tensor) -> Tensor:
    """Make `w` (float64, in place) orthogonal to the rows of the basis; returns the coefficients that were removed."""
    removed, chunks = torch.zeros(len(basis), dtype=torch.float64), basis.split(MAX_COLUMNS, dim=1)
    for _ in range(2):  # "twice is enough" (Kahan; Parlett 1980)
        inner = torch.zeros(len(basis), dtype=torch.float64)
        for columns, part in zip(chunks, w.to(basis.dtype).split(MAX_COLUMNS), strict=True):
            inner += (columns @ part).double()
        weights = inner.to(basis.dtype)
        for columns, part in zip(chunks, w.split(MAX_COLUMNS), strict=True):
            part -= (weights @ columns).double()
        removed += inner
    return removed
