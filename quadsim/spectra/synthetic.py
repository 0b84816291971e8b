"""Synthetic eigenvalues: drawn from a law, mapped to a condition number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quadsim import _blas
from quadsim import _validation as checks
from quadsim._random import refuse_seeds, stream
from quadsim._validation import InputError, InputTypeError

#: The type of the spectra of a problem: an increasing array of eigenvalues for each block.
Spectra = tuple[np.ndarray, ...]
#: The smallest eigenvalue.
MIN_EIGENVALUE = 1e-60
#: The largest eigenvalue: squares of gradients and of their ratios do not overflow.
MAX_EIGENVALUE = 1e60
#: The largest number of eigenvalues of one problem.
MAX_DIM = 2**15
MAX_ENTRIES = 2**24  # of a matrix that a law draws


def by_block(spectra: Sequence[Any], *, signed: bool = False) -> Spectra:
    """The spectra of a problem, checked and sorted.

    Parameters
    ----------
    spectra : list of lists
        The eigenvalues of each block.
    signed : bool
        Allow zero and negative values.

    Returns
    -------
    tuple of arrays

    Examples
    --------
    >>> [values.tolist() for values in qs.spectra.by_block([[3, 1, 2], [100, 99]])]
    [[1.0, 2.0, 3.0], [99.0, 100.0]]
    >>> qs.spectra.by_block([[1, -2]])
    Traceback (most recent call last):
        ...
    quadsim._validation.InputError: block 0: eigenvalues must be finite and above 0, got -2
    """
    if isinstance(spectra, str) or not isinstance(spectra, Sequence | np.ndarray) or len(spectra) == 0:
        raise InputTypeError(f"spectra must be a list of blocks of eigenvalues, got {checks.shown(spectra)}")
    blocks = tuple(check_eigenvalues(block, f"block {number}", signed) for number, block in enumerate(spectra))
    total = sum(block.size for block in blocks)
    if total > MAX_DIM:
        raise InputError(f"a problem must have at most {MAX_DIM} eigenvalues, got {total}")
    return blocks


def check_eigenvalues(eigenvalues: Any, where: str, signed: bool = False) -> np.ndarray:
    """The eigenvalues as an increasing array, if they are finite and positive."""
    array = checks.numbers_of(f"{where}: eigenvalues must be numbers", eigenvalues)
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"{where} must be a list of at least one eigenvalue, got {checks.shown(eigenvalues)}")
    if array.size > MAX_DIM:
        raise InputError(f"{where} must have at most {MAX_DIM} eigenvalues, got {array.size}")
    bad = array[~(np.isfinite(array) & (signed | (array > 0)))]
    if bad.size:
        raise InputError(f"{where}: eigenvalues must be finite{'' if signed else ' and above 0'}, got {bad[0]:g}")
    extreme = array[(abs(array) > MAX_EIGENVALUE) | ((array < MIN_EIGENVALUE) & (not signed))]
    if extreme.size:
        allowed = f"between {MIN_EIGENVALUE:g} and {MAX_EIGENVALUE:g}"
        raise InputError(f"{where}: eigenvalues must lie {allowed}, got {extreme[0]:g}")
    return np.sort(array)


def law(name: str, size: int, *, kappa: float = 5000.0, seed: int = 0, **options: float) -> np.ndarray:
    """Eigenvalues from 1 to kappa, from a law in `LAWS`.

    Parameters
    ----------
    name : str
    size : int
    kappa : float
    seed : int
        For the laws that draw.
    **options : float
        Of the law: exponent (power-law), ratio (marchenko-pastur), count and spread (clusters).

    Returns
    -------
    (size,) array
        Increasing.

    Examples
    --------
    >>> qs.spectra.law("linear", 5, kappa=9).tolist()
    [1.0, 3.0, 5.0, 7.0, 9.0]
    >>> qs.spectra.law("clusters", 9, count=3, spread=0.01)[[0, -1]].tolist()
    [1.0, 5000.0]
    """
    draw = LAWS[checks.choice("law", name, LAWS)]
    size = checks.whole("size", size, at_least=1, at_most=MAX_DIM)
    kappa = checks.real("kappa", kappa, at_least=1, at_most=MAX_EIGENVALUE)
    allowed = draw.__kwdefaults__ or {}
    refuse_seeds(options, several=False)
    for option in options:
        if option not in allowed:
            raise InputError(f"law {name} has no option {option!r}: its options are {', '.join(allowed) or 'none'}")
    if size == 1:
        if kappa != 1:
            raise InputError(f"one eigenvalue has condition number 1, got kappa={kappa:g}")
        return np.ones(1)
    return draw(size, kappa, stream(seed, "spectrum", name), **options)


def _log_uniform(size: int, kappa: float, rng: np.random.Generator) -> np.ndarray:
    """drawn uniformly on a log scale"""
    return _geometric(np.exp(np.sort(rng.uniform(size=size))), kappa)


def _linear(size: int, kappa: float, rng: np.random.Generator) -> np.ndarray:
    """evenly spaced; nothing is drawn"""
    return np.linspace(1.0, kappa, size)


def _power_law(size: int, kappa: float, rng: np.random.Generator, *, exponent: float | None = None) -> np.ndarray:
    """proportional to i^-exponent, by default the exponent that needs no map to span [1, kappa]; nothing is drawn"""
    rank = np.arange(size, 0, -1.0)
    if exponent is None:
        return _geometric(1 / rank, kappa)
    return _affine(rank ** -checks.real("exponent", exponent, above=0), kappa)


def _marchenko_pastur(size: int, kappa: float, rng: np.random.Generator, *, ratio: float = 0.5) -> np.ndarray:
    """of a Wishart matrix XᵀX, X Gaussian with size/ratio rows, mapped affinely onto [1, kappa]"""
    rows = round(size / checks.real("ratio", ratio, at_least=0.001, below=1))
    if rows * size > MAX_ENTRIES:
        raise InputError(f"law marchenko-pastur would draw {rows} x {size} numbers: at most {MAX_ENTRIES} in all")
    with _blas.one_thread():
        singular = np.linalg.svd(rng.standard_normal((max(rows, size), size)), compute_uv=False)
    return _affine(np.sort(singular**2), kappa)


def _clusters_law(
    size: int, kappa: float, rng: np.random.Generator, *, count: int = 3, spread: float = 0.01
) -> np.ndarray:
    """`count` clusters of relative width `spread`, their centres evenly spaced on a log scale"""
    count = min(checks.whole("count", count, at_least=2), size)
    spread = checks.real("spread", spread, above=0, below=1)
    centres = np.geomspace(1.0, kappa, count)[np.arange(size) * count // size]
    return _geometric(np.sort(centres * (1 + spread * rng.uniform(-1, 1, size))), kappa)


#: The laws of eigenvalues, by name: functions of size, kappa and a random generator.
LAWS: dict[str, Callable[..., np.ndarray]] = {
    "log-uniform": _log_uniform,
    "linear": _linear,
    "power-law": _power_law,
    "marchenko-pastur": _marchenko_pastur,
    "clusters": _clusters_law,
}

#: Laws that map what they draw onto [1, kappa], by the map; the others are defined on this range.
MAPPED_LAWS = {"marchenko-pastur": "affine"}


def rescale(spectra: Sequence[Any], kappa: float, map: str = "affine") -> Spectra:
    """The spectra mapped jointly to another condition number.

    Parameters
    ----------
    spectra : list of lists
        The eigenvalues of each block.
    kappa : float
    map : "affine", "geometric" or "clusters"
        "affine": onto [1, kappa] by one affine map for all blocks, which keeps relative ranges; zero and negative
        values, as measured ones may be, are allowed. "geometric": onto [1, kappa] by one power for all blocks, which
        keeps relative positions on a log scale. "clusters": each cluster (separated by gaps of more than a factor 5) is
        scaled as a whole: the lowest is unchanged, the highest ends at kappa times the smallest eigenvalue, the others
        keep their relative position on a log scale.

    Returns
    -------
    tuple of arrays

    Examples
    --------
    >>> [values.tolist() for values in qs.spectra.rescale([[1, 2], [3]], kappa=9)]
    [[1.0, 5.0], [9.0]]
    >>> [values.round(6).tolist() for values in qs.spectra.rescale([[1, 2], [4]], kappa=16, map="geometric")]
    [[1.0, 4.0], [16.0]]
    """
    kappa = checks.real("kappa", kappa, at_least=1, at_most=MAX_EIGENVALUE)
    mapping = MAPS[checks.choice("map", map, MAPS)]
    blocks = by_block(spectra, signed=mapping is _affine)
    values, index = np.unique(np.concatenate(blocks), return_inverse=True)
    if values.size == 1 and kappa != 1:
        raise InputError(f"all eigenvalues are equal to {values[0]:g}: no map takes them to kappa={kappa:g}")
    ends = np.cumsum([block.size for block in blocks])[:-1]
    mapped = np.ones(1) if values.size == 1 and mapping is not _scale_clusters else mapping(values, kappa)
    return tuple(np.sort(block) for block in np.split(mapped[index], ends))


def unshifted(spectra: Sequence[Any]) -> Spectra:
    """The spectra divided by the smallest eigenvalue, which keeps their condition number.

    Parameters
    ----------
    spectra : list of lists
        The eigenvalues of each block.

    Returns
    -------
    tuple of arrays

    Examples
    --------
    >>> [values.tolist() for values in qs.spectra.unshifted([[2, 4], [6]])]
    [[1.0, 2.0], [3.0]]
    """
    blocks = by_block(spectra)
    smallest = min(block[0] for block in blocks)
    return by_block([block / smallest for block in blocks])


def _affine(values: np.ndarray, kappa: float) -> np.ndarray:
    position = (values - values[0]) / (values[-1] - values[0])
    return 1 + (kappa - 1) * position


def _geometric(values: np.ndarray, kappa: float) -> np.ndarray:
    position = np.log(values / values[0]) / np.log(values[-1] / values[0])
    mapped = kappa**position
    mapped[-1] = kappa  # the power may be off by a rounding
    return mapped


CLUSTER_GAP = 5.0


def _scale_clusters(values: np.ndarray, kappa: float) -> np.ndarray:
    """Cluster c is multiplied by (kappa/kappa_0)^p, p its position between the lowest (0) and the highest (1)."""
    ratio = kappa * values[0] / values[-1]
    if ratio == 1:
        return values
    cuts = np.flatnonzero(values[1:] > CLUSTER_GAP * values[:-1]) + 1
    clusters = np.split(values, cuts)
    if len(clusters) == 1:
        raise InputError(
            f"map clusters needs two clusters a factor {CLUSTER_GAP:g} apart, got one from {values[0]:g} to "
            f"{values[-1]:g}: use map affine or geometric"
        )
    centres = np.array([np.log(cluster).mean() for cluster in clusters])
    position = (centres - centres[0]) / (centres[-1] - centres[0])
    mapped = np.concatenate([cluster * ratio**p for cluster, p in zip(clusters, position, strict=True)])
    mapped[-1] = kappa * values[0]
    if mapped.max() > mapped[-1] or mapped.min() < mapped[0]:
        raise InputError(
            f"map clusters cannot reach kappa={kappa:g}: a cluster would leave the range from {mapped[0]:g} to "
            f"{mapped[-1]:g}; use a larger kappa, or map affine or geometric"
        )
    return mapped


#: The maps to a condition number, by name; see `rescale`.
MAPS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "affine": _affine,
    "geometric": _geometric,
    "clusters": _scale_clusters,
}
