"""Problems from the keys of the command line, with Python values."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any

from quadsim import _validation as checks
from quadsim import spectra
from quadsim._random import refuse_seeds
from quadsim._validation import InputError
from quadsim.problems import cases
from quadsim.problems.block_quadratic import BlockQuadratic


def problem(*, case: int | None = None, spectrum: Any = None, seed: int = 0, **keys: Any) -> BlockQuadratic:
    """A problem from the keys of the command line; a key that is None is left out.

    Parameters
    ----------
    case : int
        A published case, 1 to 4; the other keys are those of `case`.
    spectrum : str or list of lists
        In place of a case: the name of a law in `spectra.LAWS`, or the eigenvalues of each block.
    seed : int
        Fixes everything that is drawn.
    **keys :
        With a case, the other parameters of `case`. With a spectrum: blocks, block_size (of a law, 3 and 3), kappa,
        map, heterogeneity, rotation, basis, span, minimizer.

    Returns
    -------
    BlockQuadratic

    Examples
    --------
    >>> qs.problem(case=3, kappa=100).kappa
    100.0
    >>> qs.problem(spectrum=[[1, 2, 3], [99, 100, 101]], heterogeneity=0).sizes
    (3, 3)
    >>> qs.problem(spectrum="log-uniform", blocks=4, block_size=30, kappa=1e4).dim
    120
    """
    refuse_seeds(keys, several=False)
    if (case is None) == (spectrum is None):
        raise InputError("give one of case= and spectrum=: for example case=3, or spectrum=1,2,3/99,100,101")
    given = {key: value for key, value in keys.items() if value is not None}
    make, other = (cases.case, from_spectrum) if spectrum is None else (from_spectrum, cases.case)
    accepted = _parameters(make)
    for key in given:
        if key not in accepted and key in _parameters(other):
            what = "Cases 1 and 2, whose eigenvalues are measured" if key in cases.MEASURED_KEYS else "a case"
            raise InputError(f"{key}={given[key]} is for {what}")
        if key not in accepted:
            checks.choice("key", key, [*accepted, "case", "spectrum"])
    first: Any = case if spectrum is None else spectrum
    return make(first, seed=seed, **given)


def keys_of(case: Any) -> tuple[str, ...]:
    """The keys of a problem: of a case, or, for None, of a spectrum."""
    return _parameters(from_spectrum if case is None else cases.case)


@functools.cache
def _parameters(function: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)[1:]


def from_spectrum(
    spectrum: Any,
    *,
    seed: int = 0,
    blocks: int | None = None,
    block_size: int | None = None,
    kappa: float | None = None,
    map: str | None = None,
    heterogeneity: float | None = None,
    rotation: float = 1.0,
    basis: Any = "haar",
    span: str = "blocks",
    minimizer: Any = "gaussian",
) -> BlockQuadratic:
    """A problem of eigenvalues that are drawn by a law, or given by block; arguments as in `problem`."""
    if map is not None and (isinstance(spectrum, str) or kappa is None):
        reason = "is for given eigenvalues: a law spans 1 to kappa" if isinstance(spectrum, str) else "requires kappa"
        raise InputError(f"map={map} {reason}")
    map = checks.choice("map", "affine" if map is None else map, spectra.MAPS)
    kappa_map = None
    if isinstance(spectrum, str):
        if spectrum in spectra.MAPPED_LAWS:
            kappa_map = spectra.KappaMap(spectra.MAPPED_LAWS[spectrum], cases.KAPPA if kappa is None else kappa)
        parts = _law(spectrum, seed, blocks, block_size, kappa, heterogeneity)
    else:
        for key, value in (("blocks", blocks), ("block_size", block_size)):
            if value is not None:
                raise InputError(f"{key}={value} is for a law: spectrum= gives the blocks")
        parts = spectra.by_block(spectrum)
        if heterogeneity is not None:
            values, sizes = [value for part in parts for value in part], [part.size for part in parts]
            parts = spectra.partition(values, sizes, heterogeneity)
        if kappa is not None:
            own, parts = parts, spectra.rescale(parts, kappa, map)
            kappa_map = spectra.KappaMap.of(own, kappa, map)
    name = "own spectrum"
    if heterogeneity is not None and span != "whole":
        number, count = spectra.arrangement(parts, heterogeneity)
        name += f", heterogeneity {heterogeneity:g} (arrangement {number} of {count})"
    made = BlockQuadratic.from_spectra(
        parts, seed=seed, rotation=rotation, basis=basis, span=span, minimizer=minimizer, name=name
    )
    return dataclasses.replace(made, kappa_map=kappa_map)


LAW_BLOCKS, LAW_BLOCK_SIZE, LAW_HETEROGENEITY = 3, 3, 1.0  # of a law, by default


def _law(
    name: str, seed: int, blocks: int | None, block_size: int | None, kappa: float | None, heterogeneity: float | None
) -> spectra.Spectra:
    most = spectra.MAX_DIM
    count = checks.whole("blocks", LAW_BLOCKS if blocks is None else blocks, at_least=1, at_most=most)
    size = checks.whole("block_size", LAW_BLOCK_SIZE if block_size is None else block_size, at_least=1, at_most=most)
    if count * size > most:
        raise InputError(f"blocks times block_size must be at most {most}, got {count * size}")
    values = spectra.law(name, count * size, kappa=cases.KAPPA if kappa is None else kappa, seed=seed)
    return spectra.partition(values, count, LAW_HETEROGENEITY if heterogeneity is None else heterogeneity)
