"""The problem: L(w) = ½ eᵀHe with e = w − w*, H block-diagonal and positive definite.

A problem carries its minimizer, eigenvalues and condition numbers. Nothing here depends on optimizers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import _validation as checks
from quadsim import spectra
from quadsim._progress import shows_progress
from quadsim._random import checked_seed
from quadsim._validation import InputError, InputTypeError
from quadsim.problems import linear_algebra
from quadsim.problems.bases import gaussian_point, random_basis
from quadsim.problems.linear_algebra import blas_threads, check_conditioning, scaled_eigen, symmetric_matrix

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BASES = ("haar", "diagonal")
SPANS = ("blocks", "whole")
STARTS = ("gaussian", "ones")
MINIMIZERS = ("zero", "gaussian")
MAX_BASIS_ERROR = 1e-10  # of an entry of QᵀQ − I
LARGEST_BLOCK = 2048  # a dense basis of more would take minutes to draw


@dataclass(frozen=True, eq=False, repr=False)
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
        Used in tables and figures.
    minimizer_kind : str
        "zero", "gaussian" (drawn) or "given".
    kappa_map : KappaMap or None
        The map that took the eigenvalues to their condition number, if there was one.

    Examples
    --------
    >>> problem = qs.BlockQuadratic.from_spectra([[1, 2, 3], [99, 100, 101]], seed=0)
    >>> problem.dim, problem.kappa
    (6, 101.0)
    >>> problem.loss(problem.minimizer)
    0.0
    """

    blocks: tuple[np.ndarray, ...]
    eigenvalues: tuple[np.ndarray, ...]
    minimizer: np.ndarray
    name: str = "own"
    minimizer_kind: str = "given"
    kappa_map: spectra.KappaMap | None = None

    @classmethod
    @shows_progress("building the problem")
    def from_spectra(
        cls,
        eigenvalues: Sequence[Any],
        *,
        seed: int = 0,
        rotation: float = 1.0,
        basis: Any = "haar",
        span: str = "blocks",
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
        basis : "haar", "diagonal" or list of (n, n) arrays
            "diagonal" is rotation 0. A list gives the eigenvectors of each block as the columns of orthogonal matrices.
        span : "blocks" or "whole"
            Whether a basis spans each block, or one basis the whole space: the Hessian is then one dense block.
        minimizer : (dim,) array, "zero" or "gaussian"
            The minimizer w*; "gaussian" draws it from the standard normal distribution, from its own stream.
            Zero by default.
        h : (dim,) array, optional
            In place of the minimizer: the linear term of ½wᵀHw − hᵀw, so that w* = H⁻¹h.
        name : str
            Used in tables and figures.

        Returns
        -------
        BlockQuadratic

        Examples
        --------
        >>> problem = qs.BlockQuadratic.from_spectra([[1, 4], [100, 400]], seed=7)
        >>> problem.block_kappas
        (4.0, 4.0)
        >>> qs.BlockQuadratic.from_spectra([[1, 4], [100]], basis="diagonal").hessian().diagonal().tolist()
        [1.0, 4.0, 100.0]
        """
        seed = checked_seed(seed)
        parts = spectra.by_block(eigenvalues)
        rotation = checks.real("rotation", rotation, at_least=0, at_most=1)
        if isinstance(basis, str) and checks.choice("basis", basis, BASES) == "diagonal":
            if rotation not in (0, 1):
                raise InputError(f"rotation={rotation:g} requires basis=haar")
            rotation = 0.0
        if checks.choice("span", span, SPANS) == "whole":
            parts = (np.sort(np.concatenate(parts)),)
        vectors = None if isinstance(basis, str) else _checked_vectors(basis, parts, rotation)
        blocks = []
        for number, part in enumerate(parts):
            if part.size > LARGEST_BLOCK:
                raise InputError(f"block {number} must have at most {LARGEST_BLOCK} eigenvalues, got {part.size}")
            if rotation == 0:  # no basis is drawn: it would not be used
                blocks.append(np.diag(part))
                continue
            check_conditioning(part, f"block {number}")
            q = random_basis(part.size, seed, number, rotation) if vectors is None else vectors[number]  # (n, n)
            with blas_threads(part.size):
                blocks.append((q * part) @ q.T)
        return cls._assembled(blocks, parts, minimizer, h, name, seed)

    @classmethod
    def from_blocks(
        cls, blocks: Sequence[Any], *, minimizer: Any = None, h: Any = None, name: str = "own"
    ) -> BlockQuadratic:
        """A problem of dense symmetric positive definite blocks, given entry by entry.

        Parameters
        ----------
        blocks : list of (n, n) arrays
        minimizer : (dim,) array or "zero", optional
            The minimizer w*, zero by default.
        h : (dim,) array, optional
            In place of the minimizer: the linear term of ½wᵀHw − hᵀw.
        name : str
            Used in tables and figures.

        Returns
        -------
        BlockQuadratic

        Examples
        --------
        >>> problem = qs.BlockQuadratic.from_blocks([[[2.0, 1.0], [1.0, 2.0]], [[5.0]]])
        >>> [values.round(6).tolist() for values in problem.eigenvalues]
        [[1.0, 3.0], [5.0]]
        """
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
            with blas_threads(dim):
                point = np.concatenate([np.linalg.solve(b, part) for b, part in zip(symmetric, parts, strict=True)])
        elif minimizer is None or isinstance(minimizer, str):
            allowed = MINIMIZERS if seed is not None else MINIMIZERS[:1]
            kind = checks.choice("minimizer", "zero" if minimizer is None else minimizer, allowed)
            point = np.zeros(dim) if kind == "zero" else gaussian_point(dim, seed, "minimizer")
        else:
            point = checks.vector("minimizer", minimizer, dim)
            kind = "given" if point.any() else "zero"
        if not np.isfinite(point).all():
            raise InputError(f"h is too large: the minimizer H^-1 h would hold {point[~np.isfinite(point)][0]}")
        for array in (*symmetric, *eigenvalues, point):
            array.flags.writeable = False
        return cls(symmetric, eigenvalues, point, name, kind)

    def __repr__(self) -> str:
        from quadsim._display import problems

        return problems.problem_text(self)

    def _repr_html_(self) -> str:
        from quadsim._display import problems

        return problems.problem_html(self)

    def to_frame(self) -> pd.DataFrame:
        """The eigenvalues as a tidy table.

        Returns
        -------
        DataFrame
            One row for each eigenvalue; the columns are block (its number, from 0) and eigenvalue.

        Examples
        --------
        >>> qs.BlockQuadratic.from_spectra([[1, 2], [100]]).to_frame()["block"].tolist()
        [0, 0, 1]
        """
        import pandas as pd

        numbers = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return pd.DataFrame({"block": numbers, "eigenvalue": np.concatenate(self.eigenvalues)})

    def plot(self, ax: Axes | None = None, **options: Any) -> Figure | Axes:
        """Draw the eigenvalues by block, on a common log axis.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.
        options :
            As in `quadsim.plots.histogram`.

        Returns
        -------
        Figure or Axes
            The new figure, or ``ax``.

        Examples
        --------
        >>> figure = qs.case(3).plot()
        """
        from quadsim import plots

        return plots.histogram(self, ax=ax, **options)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of coordinates of each block."""
        return tuple(block.shape[0] for block in self.blocks)

    @property
    def dim(self) -> int:
        """The number of coordinates."""
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
        """The gap ½eᵀHe, computed from e: a difference of two losses would cancel near the minimum.

        Parameters
        ----------
        w : (dim,) array
            A point.

        Returns
        -------
        float

        Examples
        --------
        >>> problem = qs.BlockQuadratic.from_spectra([[1, 4]], basis="diagonal")
        >>> problem.loss([1.0, 1.0])
        2.5
        """
        error = self.error(w)
        return float(0.5 * error @ self.hvp(error))

    def grad(self, w: Any) -> np.ndarray:
        """The gradient He.

        Parameters
        ----------
        w : (dim,) array
            A point.

        Returns
        -------
        (dim,) array

        Examples
        --------
        >>> qs.BlockQuadratic.from_spectra([[1, 4]], basis="diagonal").grad([1.0, 1.0]).tolist()
        [1.0, 4.0]
        """
        return self.hvp(self.error(w))

    def error(self, w: Any) -> np.ndarray:
        """The error e = w − w* of a point.

        Parameters
        ----------
        w : (dim,) array
            A point.

        Returns
        -------
        (dim,) array

        Examples
        --------
        >>> qs.BlockQuadratic.from_spectra([[1, 4]], minimizer=[1.0, 0.5]).error([2.0, 2.0]).tolist()
        [1.0, 1.5]
        """
        return checks.vector("w", w, self.dim) - self.minimizer

    def hvp(self, error: np.ndarray) -> np.ndarray:
        """The product He of the Hessian with an error, block by block.

        Parameters
        ----------
        error : (dim,) array
            Or any other vector.

        Returns
        -------
        (dim,) array

        Examples
        --------
        >>> qs.BlockQuadratic.from_spectra([[1, 4], [9]], basis="diagonal").hvp(np.ones(3)).tolist()
        [1.0, 4.0, 9.0]
        """
        with blas_threads(self.dim):
            return np.concatenate([b @ part for b, part in zip(self.blocks, self.split(error), strict=True)])

    def split(self, vector: np.ndarray) -> list[np.ndarray]:
        """The part of a vector in each block, or of the rows of a matrix.

        Parameters
        ----------
        vector : array
            Its first axis has the length dim.

        Returns
        -------
        list of arrays

        Examples
        --------
        >>> problem = qs.BlockQuadratic.from_spectra([[1, 4], [9]])
        >>> [part.tolist() for part in problem.split(np.arange(3.0))]
        [[0.0, 1.0], [2.0]]
        """
        return [vector[part] for part in self.slices]

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The coordinates of each block."""
        ends = np.cumsum(self.sizes).tolist()
        return tuple(slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True))

    def hessian(self) -> np.ndarray:
        """H as one dense matrix.

        Returns
        -------
        (dim, dim) array

        Examples
        --------
        >>> qs.BlockQuadratic.from_spectra([[1, 4], [9]], basis="diagonal").hessian().diagonal().tolist()
        [1.0, 4.0, 9.0]
        """
        dense = np.zeros((self.dim, self.dim))
        for block, part in zip(self.blocks, self.slices, strict=True):
            dense[part, part] = block
        return dense

    def scaled_eigenvalues(self, diagonal: np.ndarray) -> tuple[np.ndarray, ...]:
        """Each block's eigenvalues of D^-½ H D^-½ for a positive diagonal D.

        Parameters
        ----------
        diagonal : (dim,) array
            The diagonal of D.

        Returns
        -------
        tuple of (n,) arrays
            Increasing in each block.

        Examples
        --------
        >>> problem = qs.BlockQuadratic.from_spectra([[1, 4], [9]], basis="diagonal")
        >>> [values.tolist() for values in problem.scaled_eigenvalues(np.array([1.0, 4.0, 3.0]))]
        [[1.0, 1.0], [3.0]]
        """
        parts = zip(self.blocks, self._cholesky, self.split(diagonal), strict=True)
        return tuple(np.sort(scaled_eigen(*part, vectors=False)[0]) for part in parts)

    def scaled_eigen(self, diagonal: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Each block's eigenvalues and eigenvectors of D^-½ H D^-½ for a positive diagonal D.

        Parameters
        ----------
        diagonal : (dim,) array
            The diagonal of D.

        Returns
        -------
        list of ((n,) array, (n, n) array)
            The eigenvalues of a block, and its eigenvectors as columns in the same order.

        Examples
        --------
        >>> problem = qs.case(3)
        >>> pairs = problem.scaled_eigen(np.ones(9))
        >>> [values.round(6).tolist() for values, vectors in pairs]
        [[3.0, 2.0, 1.0], [101.0, 100.0, 99.0], [5000.0, 4999.0, 4998.0]]
        """
        return [scaled_eigen(*part) for part in zip(self.blocks, self._cholesky, self.split(diagonal), strict=True)]

    @cached_property
    def _cholesky(self) -> tuple[np.ndarray | None, ...]:
        return linear_algebra.cholesky_factors(self.blocks)

    def units(self) -> np.ndarray:
        """The number of the unit that each coordinate belongs to: a connected component of the nonzero entries of H.

        A dense block is one unit; a diagonal one has as many as coordinates.

        Returns
        -------
        (dim,) array of int

        Examples
        --------
        >>> qs.BlockQuadratic.from_spectra([[1, 4], [9]]).units().tolist()
        [0, 0, 1]
        >>> qs.BlockQuadratic.from_spectra([[1, 4], [9]], basis="diagonal").units().tolist()
        [0, 1, 2]
        """
        units = np.full(self.dim, -1, dtype=np.int64)
        count = 0
        for block, part in zip(self.blocks, self.slices, strict=True):
            coupled, here = block != 0, units[part]
            while (here < 0).any():
                reach = np.zeros(len(block), dtype=bool)
                reach[np.argmax(here < 0)] = True
                while (wider := coupled[reach].any(axis=0) | reach).sum() > reach.sum():
                    reach = wider
                here[reach] = count
                count += 1
        return units

    def sqrt_hessian(self, *, symmetric: bool) -> list[np.ndarray]:
        """Each block's A with AᵀA = H.

        Parameters
        ----------
        symmetric : bool
            The symmetric root UΛ^½Uᵀ, or Λ^½Uᵀ, eigenvalues increasing.

        Returns
        -------
        list of (n, n) arrays

        Examples
        --------
        >>> problem = qs.case(3)
        >>> root = problem.sqrt_hessian(symmetric=False)[0]
        >>> bool(np.allclose(root.T @ root, problem.blocks[0]))
        True
        """
        roots = []
        for vectors, values in zip(self.eigenvectors, self.eigenvalues, strict=True):
            basis = np.eye(values.size) if vectors is None else vectors
            rows = np.sqrt(values)[:, None] * basis.T
            with blas_threads(values.size):
                root = basis @ rows
            roots.append((root + root.T) / 2 if symmetric else rows)
        return roots

    @cached_property
    def eigenvectors(self) -> tuple[np.ndarray | None, ...]:
        """Each block's eigenvectors as columns, eigenvalues increasing; None where they are the unit vectors."""
        return linear_algebra.eigenvectors(self.blocks)

    def start(self, seed: int, kind: str | float = "gaussian") -> np.ndarray:
        """The starting point of a seed, w₀ = w* + e₀ with e₀ = `initial_error`.

        Parameters
        ----------
        seed : int
        kind : "gaussian", "ones" or float
            How e₀ is drawn, as in `initial_error`.

        Returns
        -------
        (dim,) array

        Examples
        --------
        >>> problem = qs.case(3)
        >>> bool(np.allclose(problem.start(0), problem.minimizer + problem.initial_error(0)))
        True
        """
        return self.minimizer + self.initial_error(seed, kind)

    def initial_error(self, seed: int, kind: str | float = "gaussian") -> np.ndarray:
        """The initial error e₀ = w₀ − w* of a seed, which does not depend on the minimizer.

        Runs start from e₀ itself: (w* + e₀) − w* would round it.

        Parameters
        ----------
        seed : int
        kind : "gaussian", "ones" or float
            "gaussian" is standard normal, "ones" is 1 in every coordinate, and a number is the Gaussian one scaled to
            this norm.

        Returns
        -------
        (dim,) array

        Examples
        --------
        >>> problem = qs.case(3)
        >>> problem.initial_error(0, "ones").tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
        >>> round(float(np.linalg.norm(problem.initial_error(0, 3.0))), 12)
        3.0
        """
        if isinstance(kind, str) and checks.choice("start", kind, STARTS) == "ones":
            return np.ones(self.dim)
        point = gaussian_point(self.dim, seed, "start")
        if isinstance(kind, str):
            return point
        return point * (checks.real("start", kind, above=0) / np.linalg.norm(point))

    def error_of(self, w0: Any = None, e0: Any = None) -> np.ndarray:
        """The initial error of a start given as a point, or as the error itself.

        Parameters
        ----------
        w0 : (dim,) array, optional
            The point.
        e0 : (dim,) array, optional
            The error; give one of the two.

        Returns
        -------
        (dim,) array

        Examples
        --------
        >>> problem = qs.BlockQuadratic.from_spectra([[1, 4]], minimizer=[1.0, 0.5])
        >>> problem.error_of(w0=[2.0, 2.0]).tolist(), problem.error_of(e0=[1.0, 1.5]).tolist()
        ([1.0, 1.5], [1.0, 1.5])
        """
        if (w0 is None) == (e0 is None):
            raise InputError("give one of w0 and e0: e0 means w0 = minimizer + e0")
        if e0 is not None:
            return checks.vector("e0", e0, self.dim)
        return checks.vector("w0", w0, self.dim) - self.minimizer


def _checked_block(block: Any, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The block and its eigenvalues, if it is symmetric and positive definite to rounding."""
    array = symmetric_matrix(f"block {number}", block)
    largest = np.abs(array).max()
    if largest > spectra.MAX_EIGENVALUE:
        raise InputError(f"block {number} must have entries of at most {spectra.MAX_EIGENVALUE:g}, got {largest:g}")
    with blas_threads(len(array)):
        eigenvalues = np.linalg.eigvalsh((array + array.T) / 2)
    if eigenvalues[0] <= 0:
        raise InputError(f"block {number} must be positive definite, got the eigenvalue {eigenvalues[0]:.6g}")
    eigenvalues = spectra.by_block([eigenvalues])[0]  # checks the range that eigenvalues may have
    check_conditioning(eigenvalues, f"block {number}")
    return array, eigenvalues


def _checked_vectors(vectors: Any, parts: Sequence[np.ndarray], rotation: float) -> list[np.ndarray]:
    """The eigenvectors of each block, checked to be orthonormal."""
    if not isinstance(vectors, Sequence | np.ndarray) or len(vectors) != len(parts):
        allowed = f"{', '.join(BASES)}, or a list of {len(parts)} orthogonal matrices"
        raise InputTypeError(f"basis must be one of {allowed}, got {checks.shown(vectors)}")
    if rotation != 1:
        raise InputError(f"rotation={rotation:g} requires basis=haar")
    checked = []
    for number, (given, part) in enumerate(zip(vectors, parts, strict=True)):
        q = checks.numbers_of(f"basis of block {number} must be a matrix of numbers", given)
        if q.shape != (part.size, part.size):
            raise InputError(f"basis of block {number} must have shape {(part.size, part.size)}, got {q.shape}")
        error = np.abs(q.T @ q - np.eye(part.size)).max()
        if not error <= MAX_BASIS_ERROR:
            raise InputError(f"basis of block {number} must be orthogonal: QᵀQ differs from I by {error:.2g}")
        checked.append(q)
    return checked
