"""Dense linear algebra of Hessian blocks: checks, factors, eigenvalues of D^-½ B D^-½ to high relative accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from quadsim import _blas
from quadsim import _validation as checks
from quadsim._validation import InputError

SMALL_BLOCK = 32  # up to this size LAPACK takes all blocks of one size in one call
MAX_JACOBI_SIZE = 512  # beyond, Jacobi's method takes seconds


def blas_threads(size: int) -> AbstractContextManager[None]:
    """One BLAS thread for blocks of this size; OpenBLAS runs small ones on one thread by itself."""
    return _blas.one_thread() if size > SMALL_BLOCK else nullcontext()


def read_only(array: Any) -> Any:
    """The array, not writeable; None stays None."""
    if array is not None:
        array.flags.writeable = False
    return array


def symmetric_matrix(name: str, block: Any) -> np.ndarray:
    """`block` as an (n, n) array, if it is finite and symmetric to rounding."""
    array = checks.numbers_of(f"{name} must be a square matrix of numbers", block)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise InputError(f"{name} must be a square matrix, got shape {array.shape}")
    largest = np.abs(array).max()
    if not np.isfinite(largest):
        raise InputError(f"{name} must be finite, got {array[~np.isfinite(array)][0]} in it")
    asymmetry = np.abs(array - array.T).max()
    if asymmetry > 1e-10 * largest:
        raise InputError(f"{name} must be symmetric, got entries that differ by {asymmetry:.3g}")
    return array


def check_conditioning(eigenvalues: np.ndarray, name: str) -> None:
    """Refuse a condition number at which a dense block loses its smallest eigenvalue to rounding of the largest."""
    limit = 1e-3 / (eigenvalues.size * np.finfo(float).eps)  # the smallest eigenvalue is then right to a thousandth
    kappa = eigenvalues[-1] / eigenvalues[0]
    if kappa > limit:
        raise InputError(
            f"{name} has condition number {kappa:.3g}, which a dense float64 block cannot hold: "
            f"at most {limit:.3g}, or rotation 0"
        )


def diagonal_of(block: np.ndarray) -> np.ndarray | None:
    """The diagonal of a diagonal block; None if the block is not diagonal."""
    diagonal = np.diagonal(block)
    return diagonal if np.count_nonzero(block) == np.count_nonzero(diagonal) else None


def _is_sorted(block: np.ndarray) -> bool:
    """Whether the block is diagonal and its diagonal increases."""
    diagonal = diagonal_of(block)
    return diagonal is not None and bool((diagonal[1:] >= diagonal[:-1]).all())


def eigenvectors(blocks: Sequence[np.ndarray]) -> tuple[np.ndarray | None, ...]:
    """Each block's eigenvectors as columns, eigenvalues increasing; None where they are the unit vectors in order."""
    return _map_blocks(blocks, lambda block: not _is_sorted(block), lambda block: np.linalg.eigh(block)[1])


def cholesky_factors(blocks: Sequence[np.ndarray]) -> tuple[np.ndarray | None, ...]:
    """Each block's R with RᵀR = B; None if it is diagonal, too large for Jacobi's method, or singular to rounding."""
    return _map_blocks(blocks, lambda b: len(b) <= MAX_JACOBI_SIZE and diagonal_of(b) is None, _upper_factor)


def _map_blocks(
    blocks: Sequence[np.ndarray], applies: Callable[[np.ndarray], bool], function: Callable[[np.ndarray], Any]
) -> tuple[Any, ...]:
    """The function of each block to which it applies, read-only, and None for the others.

    Small blocks of one size are passed as one stack, since most of the time is the overhead of the call.
    """
    mask = [applies(block) for block in blocks]
    if all(mask) and len(blocks[0]) <= SMALL_BLOCK and len({len(block) for block in blocks}) == 1:
        try:
            return tuple(read_only(function(np.stack(blocks))))
        except np.linalg.LinAlgError:  # at least one block fails: try them one by one
            pass
    with blas_threads(max(map(len, blocks))):
        return tuple(
            read_only(function(block)) if applied else None for block, applied in zip(blocks, mask, strict=True)
        )


def _upper_factor(block: np.ndarray) -> np.ndarray | None:
    """R with RᵀR = B, of a block or a stack of blocks; None for a block that is singular to rounding."""
    try:
        return np.linalg.cholesky(block).swapaxes(-1, -2)
    except np.linalg.LinAlgError:
        if block.ndim > 2:
            raise
        return None


def scaled_eigen(
    block: np.ndarray, cholesky: np.ndarray | None, scale: np.ndarray, vectors: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of D^-½ B D^-½, right to the last digits however much the entries of D differ.

    With B = RᵀR (``cholesky`` is R) they are the squared singular values and right singular vectors of RD^-½, which
    Jacobi's method computes to high relative accuracy whatever the columns' scales (Demmel and Veselić); QR-based
    methods lose the smallest to rounding of the largest.
    """
    root = np.sqrt(scale)
    if cholesky is not None:
        lapack = _blas.lapack()  # loaded before `blas_threads`, which limits the BLAS behind it
        # joba 0: columns of any scale; jobu 3: no left vectors; jobv 0: right ones, 3: none
        with blas_threads(scale.size):
            values, _, right, work, _, info = lapack.dgejsv(cholesky / root, joba=0, jobu=3, jobv=0 if vectors else 3)
        if info == 0:
            return (values * (work[0] / work[1])) ** 2, right
    diagonal = diagonal_of(block)
    if diagonal is not None:
        return diagonal / scale, np.eye(scale.size)
    with blas_threads(scale.size):
        return np.linalg.eigh(block / np.outer(root, root))
