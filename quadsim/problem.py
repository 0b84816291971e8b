"""The problem: L(w) = ½ eᵀHe with e = w − w*, H block-diagonal and positive definite.

A problem carries its answer: its minimizer, its eigenvalues, its condition numbers. It knows nothing of optimizers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from quadsim import blas, checks, spectra
from quadsim.checks import InputError, InputTypeError
from quadsim.streams import checked_seed, stream

BASES = ("blocks", "whole")
STARTS = ("gaussian", "ones")
MINIMIZERS = ("zero", "gaussian")
LARGEST_BLOCK = 2048  # a dense basis of more would take minutes to draw
SMALL = 32  # blocks up to this size: once drawn, their bases are kept, and LAPACK takes all of one size in one call
KEPT = 4096  # bases, starts and minimizers of SMALL² coordinates that are kept: 32 MB of each


@dataclass(frozen=True, eq=False)
class BlockQuadratic:
    """A block-diagonal quadratic. Build one with `from_spectra`, `from_blocks` or `quadsim.case`.

    Attributes
    ----------
    blocks : tuple of (n, n) arrays
        The Hessian's diagonal blocks, symmetric to the last bit, read-only.
    eigenvalues : tuple of (n,) arrays
        Each block's eigenvalues, increasing.
    minimizer : (dim,) array
    name : str
        What tables and figures call it.
    minimizer_kind : str
        Where the minimizer comes from: "zero", "gaussian" (drawn), or "given".
    """

    blocks: tuple[np.ndarray, ...]
    eigenvalues: tuple[np.ndarray, ...]
    minimizer: np.ndarray
    name: str = field(default="own")
    minimizer_kind: str = "given"

    @classmethod
    def from_spectra(
        cls,
        eigenvalues: Sequence[Any],
        *,
        seed: int = 0,
        rotation: float = 1.0,
        basis: str = "blocks",
        minimizer: Any = None,
        h: Any = None,
        name: str = "own",
    ) -> BlockQuadratic:
        """Blocks Q diag(λ) Qᵀ with random orthogonal Q.

        Parameters
        ----------
        eigenvalues : list of lists
            One list of eigenvalues for each block.
        seed : int
            Fixes the bases.
        rotation : float
            0: diagonal blocks; 1: Haar-distributed bases; in between, along the geodesic from one to the other.
        basis : "blocks" or "whole"
            "whole" draws one basis across the whole space: what was block-diagonal becomes one dense block.
        minimizer : (dim,) array, "zero" or "gaussian"
            The minimizer w*; "gaussian" draws it from the standard normal distribution, by a stream of its own.
            Zero by default.
        h : (dim,) array, optional
            In place of the minimizer: the linear term of ½wᵀHw − hᵀw, so that w* = H⁻¹h.
        """
        checked_seed(seed)
        parts = spectra.by_block(eigenvalues)
        rotation = checks.real("rotation", rotation, at_least=0, at_most=1)
        if checks.choice("basis", basis, BASES) == "whole":
            parts = (np.sort(np.concatenate(parts)),)
        for number, part in enumerate(parts):
            if part.size > LARGEST_BLOCK:
                raise InputError(f"block {number} must have at most {LARGEST_BLOCK} eigenvalues, got {part.size}")
        if rotation > 0:
            for number, part in enumerate(parts):
                _check_conditioning(part, f"block {number}")
        blocks = []
        for number, part in enumerate(parts):
            if rotation == 0:  # a basis would take long to draw, and not be used
                blocks.append(np.diag(part))
                continue
            draw = _kept_basis if part.size <= SMALL else _basis
            with _linear_algebra(part.size):
                q = draw(part.size, checked_seed(seed), number, rotation)  # (n, n)
                blocks.append((q * part) @ q.T)
        return cls._assembled(blocks, parts, minimizer, h, name, seed)

    @classmethod
    def from_blocks(
        cls, blocks: Sequence[Any], *, minimizer: Any = None, h: Any = None, name: str = "own"
    ) -> BlockQuadratic:
        """Dense symmetric positive definite blocks, given entry by entry; the minimizer is zero unless given."""
        if isinstance(blocks, str) or not isinstance(blocks, Sequence | np.ndarray) or len(blocks) == 0:
            raise InputTypeError(f"blocks must be a list of square matrices, got {checks.shown(blocks)}")
        checked = [_checked_block(block, number) for number, block in enumerate(blocks)]
        return cls._assembled([b for b, _ in checked], tuple(e for _, e in checked), minimizer, h, name)

    @classmethod
    def _assembled(
        cls,
        blocks: list[np.ndarray],
        eigenvalues: tuple[np.ndarray, ...],
        minimizer: Any,
        h: Any,
        name: str,
        seed: int | None = None,
    ) -> BlockQuadratic:
        """The frozen problem: blocks symmetrised, every array read-only. Without a seed no minimizer can be drawn."""
        symmetric = tuple(np.ascontiguousarray((block + block.T) / 2) for block in blocks)
        dim = sum(block.shape[0] for block in symmetric)
        if minimizer is not None and h is not None:
            raise InputError("give minimizer or h, not both: h means minimizer = H^-1 h")
        kind = "given"
        if h is not None:
            parts = np.split(checks.vector("h", h, dim), np.cumsum([b.shape[0] for b in symmetric])[:-1])
            with _linear_algebra(dim):
                answer = np.concatenate([np.linalg.solve(b, part) for b, part in zip(symmetric, parts, strict=True)])
        elif minimizer is None or isinstance(minimizer, str):
            allowed = MINIMIZERS if seed is not None else MINIMIZERS[:1]
            kind = checks.choice("minimizer", "zero" if minimizer is None else minimizer, allowed)
            answer = np.zeros(dim) if kind == "zero" else _gaussian_point(dim, seed, "minimizer")
        else:
            answer = checks.vector("minimizer", minimizer, dim)
            kind = "given" if answer.any() else "zero"
        if not np.isfinite(answer).all():
            raise InputError(f"h is too large: the minimizer H^-1 h would hold {answer[~np.isfinite(answer)][0]}")
        for array in (*symmetric, *eigenvalues, answer):
            array.flags.writeable = False
        return cls(symmetric, eigenvalues, answer, name, kind)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(block.shape[0] for block in self.blocks)

    @property
    def dim(self) -> int:
        return self.minimizer.size

    @cached_property
    def mu(self) -> float:
        """The smallest eigenvalue."""
        return float(min(values[0] for values in self.eigenvalues))

    @cached_property
    def lipschitz(self) -> float:
        """The largest eigenvalue, the Lipschitz constant of the gradient."""
        return float(max(values[-1] for values in self.eigenvalues))

    @property
    def kappa(self) -> float:
        """The condition number of the whole Hessian."""
        return self.lipschitz / self.mu

    @property
    def block_kappas(self) -> tuple[float, ...]:
        """Each block's own condition number."""
        return tuple(float(values[-1] / values[0]) for values in self.eigenvalues)

    def loss(self, w: Any) -> float:
        """The gap ½eᵀHe, from e itself: never a difference of two losses, which would cancel near the end."""
        error = self.error(w)
        return float(0.5 * error @ self.curvature(error))

    def grad(self, w: Any) -> np.ndarray:
        """The gradient He."""
        return self.curvature(self.error(w))

    def error(self, w: Any) -> np.ndarray:
        """e = w − w*."""
        return checks.vector("w", w, self.dim) - self.minimizer

    def curvature(self, error: np.ndarray) -> np.ndarray:
        """He, block by block."""
        with _linear_algebra(self.dim):
            return np.concatenate([b @ part for b, part in zip(self.blocks, self.split(error), strict=True)])

    def split(self, vector: np.ndarray) -> list[np.ndarray]:
        """A vector's (or a matrix's rows') part in each block."""
        return [vector[place] for place in self.places]

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where each block's coordinates stand among all."""
        ends = np.cumsum(self.sizes).tolist()
        return tuple(slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True))

    def hessian(self) -> np.ndarray:
        """H as one dense (dim, dim) matrix."""
        dense = np.zeros((self.dim, self.dim))
        low = 0
        for block in self.blocks:
            high = low + block.shape[0]
            dense[low:high, low:high] = block
            low = high
        return dense

    def scaled_eigenvalues(self, diagonal: np.ndarray) -> tuple[np.ndarray, ...]:
        """Each block's eigenvalues of D^-½ H D^-½ for a positive diagonal D, increasing."""
        parts = zip(self.blocks, self._factors, self.split(diagonal), strict=True)
        return tuple(np.sort(scaled_eigen(*part, vectors=False)[0]) for part in parts)

    def scaled_eigen(self, diagonal: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Each block's eigenvalues and eigenvectors of D^-½ H D^-½ for a positive diagonal D."""
        return [scaled_eigen(*part) for part in zip(self.blocks, self._factors, self.split(diagonal), strict=True)]

    @cached_property
    def _factors(self) -> tuple[np.ndarray | None, ...]:
        """Each block's R with RᵀR = B; None of one that is diagonal, or large, or positive definite only just."""
        return _of_some(self.blocks, lambda b: len(b) <= LARGEST_JACOBI and diagonal_of(b) is None, _upper_factor)

    def units(self) -> np.ndarray:
        """The unit that each coordinate belongs to: coordinates coupled with each other, and with no others.

        A dense block is one unit; a diagonal one has as many as coordinates.
        """
        found = np.full(self.dim, -1, dtype=np.int64)
        low, count = 0, 0
        for block in self.blocks:
            coupled = block != 0
            here = found[low : low + len(block)]
            while (here < 0).any():
                reach = np.zeros(len(block), dtype=bool)
                reach[np.argmax(here < 0)] = True
                while (wider := coupled[reach].any(axis=0) | reach).sum() > reach.sum():
                    reach = wider
                here[reach] = count
                count += 1
            low += len(block)
        return found

    def factor(self, *, symmetric: bool) -> list[np.ndarray]:
        """Each block's A with AᵀA = H: the symmetric root UΛ^½Uᵀ, or Λ^½Uᵀ, eigenvalues increasing."""
        found = []
        for vectors, values in zip(self.eigenvectors, self.eigenvalues, strict=True):
            basis = np.eye(values.size) if vectors is None else vectors
            rows = np.sqrt(values)[:, None] * basis.T
            with _linear_algebra(values.size):
                root = basis @ rows
            found.append((root + root.T) / 2 if symmetric else rows)
        return found

    @cached_property
    def eigenvectors(self) -> tuple[np.ndarray | None, ...]:
        """Each block's eigenvectors, columns in the order of its eigenvalues; None where they are the axes in order."""
        return _of_some(self.blocks, lambda block: not _is_sorted(block), lambda b: np.linalg.eigh(b)[1])

    def start(self, seed: int, kind: str | float = "gaussian") -> np.ndarray:
        """The starting point of `seed`, w₀ = w* + e₀ with e₀ = `initial_error(seed, kind)`."""
        return self.minimizer + self.initial_error(seed, kind)

    def initial_error(self, seed: int, kind: str | float = "gaussian") -> np.ndarray:
        """The initial error e₀ = w₀ − w* of `seed`, which does not depend on the minimizer.

        "gaussian" is standard normal, "ones" is 1 in every coordinate, and a number is the Gaussian one scaled to this
        norm. Runs start from e₀ itself: (w* + e₀) − w* would round it.
        """
        if isinstance(kind, str):
            if checks.choice("start", kind, STARTS) == "ones":
                return np.ones(self.dim)
            return _gaussian_point(self.dim, seed, "start")
        point = _gaussian_point(self.dim, seed, "start")
        return point * (checks.real("start", kind, above=0) / np.linalg.norm(point))

    def error_of(self, w0: Any = None, e0: Any = None) -> np.ndarray:
        """The initial error of a start given as a point w0, or as the error e0 itself."""
        if (w0 is None) == (e0 is None):
            raise InputError("give one of w0 and e0: e0 means w0 = minimizer + e0")
        if e0 is not None:
            return checks.vector("e0", e0, self.dim)
        return checks.vector("w0", w0, self.dim) - self.minimizer


def _linear_algebra(size: int) -> AbstractContextManager[None]:
    """One BLAS thread for blocks of this size; OpenBLAS runs small ones on one thread by itself."""
    return blas.one_thread() if size > SMALL else nullcontext()


def _checked_block(block: Any, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The block and its eigenvalues, if it is symmetric and positive definite to rounding."""
    array = checks.numbers_of(f"block {number} must be a square matrix of numbers", block)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise InputError(f"block {number} must be a square matrix, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"block {number} must be finite, got {array[~np.isfinite(array)][0]} in it")
    asymmetry = np.abs(array - array.T).max()
    if asymmetry > 1e-10 * np.abs(array).max():
        raise InputError(f"block {number} must be symmetric, got entries that differ by {asymmetry:.3g}")
    if np.abs(array).max() > spectra.LARGEST:
        raise InputError(
            f"block {number} must have entries of at most {spectra.LARGEST:g}, got {np.abs(array).max():g}"
        )
    with _linear_algebra(len(array)):
        eigenvalues = np.linalg.eigvalsh((array + array.T) / 2)
    if eigenvalues[0] <= 0:
        raise InputError(f"block {number} must be positive definite, got the eigenvalue {eigenvalues[0]:.6g}")
    eigenvalues = spectra.by_block([eigenvalues])[0]  # within the range that spectra may have
    _check_conditioning(eigenvalues, f"block {number}")
    return array, eigenvalues


def _check_conditioning(eigenvalues: np.ndarray, where: str) -> None:
    """A dense block holds its small eigenvalues only down to rounding of the largest one."""
    limit = 1e-3 / (eigenvalues.size * np.finfo(float).eps)  # the smallest eigenvalue is then right to a thousandth
    kappa = eigenvalues[-1] / eigenvalues[0]
    if kappa > limit:
        raise InputError(
            f"{where} has condition number {kappa:.3g}, which a dense float64 block cannot hold: "
            f"at most {limit:.3g}, or rotation 0"
        )


def diagonal_of(block: np.ndarray) -> np.ndarray | None:
    """The diagonal of a diagonal block."""
    diagonal = np.diagonal(block)
    return diagonal if np.count_nonzero(block) == np.count_nonzero(diagonal) else None


def _is_sorted(block: np.ndarray) -> bool:
    """Whether the block is diagonal, and its diagonal increases."""
    diagonal = diagonal_of(block)
    return diagonal is not None and bool((diagonal[1:] >= diagonal[:-1]).all())


def _of_some(
    blocks: Sequence[np.ndarray], wanted: Callable[[np.ndarray], bool], function: Callable[[np.ndarray], Any]
) -> tuple[Any, ...]:
    """The function of each block that is wanted, read-only, and None of the others.

    Small blocks of one size go to it as one stack: most of its time is the call.
    """
    asked = [wanted(block) for block in blocks]
    if all(asked) and len(blocks[0]) <= SMALL and len({len(block) for block in blocks}) == 1:
        try:
            return tuple(_read_only(function(np.stack(blocks))))
        except np.linalg.LinAlgError:  # of one of them: which one, is found below
            pass
    with _linear_algebra(max(map(len, blocks))):
        return tuple(_read_only(function(block)) if here else None for block, here in zip(blocks, asked, strict=True))


LARGEST_JACOBI = 512  # beyond, Jacobi's method takes seconds


def scaled_eigen(
    block: np.ndarray, factor: np.ndarray | None, scale: np.ndarray, vectors: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of D^-½ B D^-½, right to the last digits however much the entries of D differ.

    With B = RᵀR (``factor`` is R) they are the squared singular values and right singular vectors of RD^-½, which
    Jacobi's method finds to high relative accuracy whatever the columns' scales (Demmel and Veselić); the usual method
    loses the smallest to rounding of the largest.
    """
    root = np.sqrt(scale)
    if factor is not None:
        from scipy.linalg import lapack

        # joba 0: columns of any scale; jobu 3: no left vectors; jobv 0: right ones, 3: none
        with _linear_algebra(scale.size):
            values, _, right, factors, _, info = lapack.dgejsv(factor / root, joba=0, jobu=3, jobv=0 if vectors else 3)
        if info == 0:
            return (values * (factors[0] / factors[1])) ** 2, right
    diagonal = diagonal_of(block)
    if diagonal is not None:
        return diagonal / scale, np.eye(scale.size)
    with _linear_algebra(scale.size):
        return np.linalg.eigh(block / np.outer(root, root))


def _upper_factor(block: np.ndarray) -> np.ndarray | None:
    """R with RᵀR = B, of a block or of a stack of them; None where rounding does not let a block have one."""
    try:
        return np.linalg.cholesky(block).swapaxes(-1, -2)
    except np.linalg.LinAlgError:
        if block.ndim > 2:
            raise
        return None


def _gaussian_point(dim: int, seed: Any, name: str) -> np.ndarray:
    """The standard normal point of the stream `name`."""
    draw = _kept_point if dim <= SMALL**2 else _point
    return draw(dim, checked_seed(seed), name).copy()


def _point(dim: int, seed: int, name: str) -> np.ndarray:
    return stream(seed, name).standard_normal(dim)


def _basis(n: int, seed: int, number: int, rotation: float) -> np.ndarray:
    """The basis of block `number`, (n, n)."""
    return partial_rotation(haar_basis(n, stream(seed, "basis", number)), rotation)


@lru_cache(maxsize=2 * KEPT)
def _kept_point(dim: int, seed: int, name: str) -> np.ndarray:
    return _read_only(_point(dim, seed, name))


@lru_cache(maxsize=KEPT)
def _kept_basis(n: int, seed: int, number: int, rotation: float) -> np.ndarray:
    return _read_only(_basis(n, seed, number, rotation))


def _read_only(array: Any) -> Any:
    if array is not None:
        array.flags.writeable = False
    return array


def haar_basis(n: int, rng: np.random.Generator) -> np.ndarray:
    """A Haar-distributed rotation, (n, n), orthonormal columns, determinant +1.

    QR with the signs of R's diagonal moved into Q is Haar on all orthogonal matrices. The last column's sign
    is then chosen for determinant +1, so that a geodesic leads there from the identity; Q diag(λ) Qᵀ does not see it.
    """
    with _linear_algebra(n):
        q, r = np.linalg.qr(rng.standard_normal((n, n)))
        q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
        if np.linalg.det(q) < 0:
            q[:, -1] *= -1
    return q


def partial_rotation(q: np.ndarray, fraction: float) -> np.ndarray:
    """The point at `fraction` of the geodesic from the identity to the rotation q: exp(fraction · log q).

    A rotation turns planes of its own by angles; here each plane is turned by that fraction of its angle.
    """
    n = q.shape[0]
    if fraction == 0:
        return np.eye(n)
    if fraction == 1:
        return q
    from scipy.linalg import schur

    with _linear_algebra(n):
        turned, z = schur(q, output="real")  # q = z turned zᵀ, turned block-diagonal: 2 x 2 turns, and ±1
    part = np.eye(n)
    half_turns = []  # where turned is -1: these come in pairs, and a pair is a turn by pi
    i = 0
    while i < n:
        if i + 1 < n and turned[i + 1, i] != 0:
            angle = np.arctan2(turned[i + 1, i] - turned[i, i + 1], turned[i, i] + turned[i + 1, i + 1])
            _turn(part, i, i + 1, fraction * angle)
            i += 2
        else:
            if turned[i, i] < 0:
                half_turns.append(i)
            i += 1
    for a, b in zip(half_turns[::2], half_turns[1::2], strict=True):
        _turn(part, a, b, fraction * np.pi)
    with _linear_algebra(n):
        return z @ part @ z.T


def _turn(matrix: np.ndarray, a: int, b: int, angle: float) -> None:
    """Put a turn by `angle` into the plane of axes a and b."""
    matrix[a, a] = matrix[b, b] = np.cos(angle)
    matrix[b, a], matrix[a, b] = np.sin(angle), -np.sin(angle)
