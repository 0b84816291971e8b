"""The published problems.

The four cases of "Why Transformers Need Adam: A Hessian Perspective" (arXiv 2402.16788). Cases 1 and 2 carry spectra
measured from blocks of GPT2 and ResNet18; Cases 3 and 4 are the same nine eigenvalues, partitioned into three blocks in
two ways. Cases are named by number: "heterogeneous" means Case 3 to some authors and Case 4 to others.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from quadsim import _validation as checks
from quadsim import spectra
from quadsim._validation import InputError, InputTypeError
from quadsim.problems.block_quadratic import LARGEST_BLOCK, BlockQuadratic

# Three clusters of eigenvalues; a block of size n spreads n of them evenly over each, ends included.
CLUSTERS = ((1.0, 3.0), (99.0, 101.0), (4998.0, 5000.0))
SINGLES = ((1.0,), (100.0,), (5000.0,))  # for blocks of size 1: the condition number is 5000 too
KAPPA = 5000.0
UNSHIFTED = ("unshifted",)  # eigenvalues divided by the smallest one, so that the condition number is their own
MAPS = (*spectra.MAPS, *UNSHIFTED)
MEASURED_KEYS = ("network", "blocks", "sampling", "sign", "pool", "threshold")  # of cases whose spectra are measured


@dataclass(frozen=True)
class Case:
    """A published problem with its defaults: synthetic eigenvalues, or blocks of a measured network."""

    title: str
    block_size: int = 30
    map: str = "affine"
    heterogeneity: float | None = None
    network: str | None = None
    blocks: tuple[str, ...] = ()


CASES = {
    1: Case(
        "four blocks of 30 sampled from GPT2: embedding, and Query, Value and MLP in of layer 3",
        network="gpt2",
        blocks=("embedding", "layer3.query", "layer3.value", "layer3.mlp_in"),
    ),
    2: Case(
        "four blocks of 30 sampled from ResNet18: the first convolution of each of its four stages",
        network="resnet18",
        blocks=("layer1.0.conv1", "layer2.0.conv1", "layer3.0.conv1", "layer4.0.conv1"),
    ),
    3: Case(
        "{1, 2, 3} {99, 100, 101} {4998, 4999, 5000}: blocks whose spectra differ",
        block_size=3,
        map="clusters",
        heterogeneity=1.0,
    ),
    4: Case(
        "{1, 99, 4998} {2, 100, 4999} {3, 101, 5000}: the same eigenvalues, blocks alike",
        block_size=3,
        map="clusters",
        heterogeneity=0.0,
    ),
}


def case(
    number: int,
    *,
    seed: int = 0,
    kappa: float | None = None,
    map: str | None = None,
    block_size: int | None = None,
    heterogeneity: float | None = None,
    network: str | Path | None = None,
    blocks: Sequence[str] | None = None,
    sampling: str = "leading",
    sign: str = "magnitude",
    pool: int | None = None,
    threshold: float | None = None,
    rotation: float = 1.0,
    basis: Any = "haar",
    span: str = "blocks",
    minimizer: Any = "gaussian",
    h: Any = None,
) -> BlockQuadratic:
    """A published problem by its number.

    Parameters
    ----------
    number : int
        1 to 4: the cases of arXiv 2402.16788.
    seed, rotation, basis, span :
        As in `BlockQuadratic.from_spectra`; the seed also draws the eigenvalues of Cases 1 and 2.
    kappa, map :
        A condition number other than 5000, and the map to it (`spectra.rescale`). Cases 1 and 2 are mapped affinely
        onto [1, kappa]; map "unshifted" keeps their condition number. In Cases 3 and 4 each cluster of
        eigenvalues is scaled as a whole, so that Case 3's blocks keep their condition numbers; this needs kappa ≥ 3.
    block_size : int
        Eigenvalues in each block: 30 in Cases 1 and 2, 3 in Cases 3 and 4.
    heterogeneity : float, optional
        Another partition of the eigenvalues (`spectra.partition`): 1 is Case 3, 0 is Case 4. It selects one of finitely
        many arrangements (`spectra.arrangements`): blocks of 3 have five, blocks of 30 have 51.
    network, blocks, sampling, sign, pool, threshold :
        For Cases 1 and 2: other measured spectra (`spectra.load`), other blocks of them, and how eigenvalues are drawn
        from a block (`spectra.sample`).
    minimizer : "gaussian", "zero" or (dim,) array
        The minimizer w*: by default drawn from the standard normal distribution. Weight decay pulls towards 0, so a
        minimizer at "zero" would favour it. Runs start at w* + e₀ with the same e₀ for every
        minimizer.
    h : (dim,) array, optional
        In place of the minimizer: the linear term of ½wᵀHw − hᵀw.

    Returns
    -------
    BlockQuadratic

    Examples
    --------
    >>> [values.tolist() for values in qs.case(3).eigenvalues]
    [[1.0, 2.0, 3.0], [99.0, 100.0, 101.0], [4998.0, 4999.0, 5000.0]]
    >>> [values.tolist() for values in qs.case(4).eigenvalues]
    [[1.0, 99.0, 4998.0], [2.0, 100.0, 4999.0], [3.0, 101.0, 5000.0]]
    >>> qs.case(1, seed=5).sizes, round(qs.case(1, seed=5).kappa, 6)
    ((30, 30, 30, 30), 5000.0)
    """
    recipe = _recipe(number)
    measured = dict(zip(MEASURED_KEYS, (network, blocks, sampling, sign, pool, threshold), strict=True))
    values, kappa_map = _mapped_spectra(
        number, seed=seed, kappa=kappa, map=map, block_size=block_size, heterogeneity=heterogeneity, **measured
    )
    if h is not None and isinstance(minimizer, str):
        minimizer = None
    given = "zero" if minimizer is None and h is None else "given"
    settings: dict[str, Any] = {
        "kappa": kappa,
        "heterogeneity": _heterogeneity_text(values, heterogeneity, span),
        "map": map if map is not None and (kappa is not None or recipe.network) else recipe.map,
        "block size": recipe.block_size if block_size is None else block_size,
        "network": recipe.network if network is None else Path(network).name,
        "blocks": None if blocks is None else " ".join(str(block) for block in blocks),
        "sampling": sampling,
        "sign": sign,
        "pool": pool,
        "threshold": threshold,
        "rotation": rotation,
        "basis": basis if isinstance(basis, str) else "own",
        "span": span,
        "minimizer": minimizer if isinstance(minimizer, str) else given,
    }
    defaults = _defaults() | {"map": recipe.map, "block size": recipe.block_size, "network": recipe.network}
    name = f"case {number}"
    for key, value in settings.items():
        if value != defaults[key]:
            name += f", {key} {value:g}" if isinstance(value, float) else f", {key} {value}"
    problem = BlockQuadratic.from_spectra(
        values, seed=seed, rotation=rotation, basis=basis, span=span, minimizer=minimizer, h=h, name=name
    )
    return replace(problem, kappa_map=kappa_map)


@functools.cache
def _defaults() -> dict[str, Any]:
    """The defaults in the signature of `case`."""
    return {name: parameter.default for name, parameter in inspect.signature(case).parameters.items()}


def case_spectra(
    number: int,
    *,
    seed: int = 0,
    kappa: float | None = None,
    map: str | None = None,
    block_size: int | None = None,
    heterogeneity: float | None = None,
    **measured: Any,
) -> spectra.Spectra:
    """The eigenvalues of a case by block, without a basis.

    Parameters
    ----------
    number, seed, kappa, map, block_size, heterogeneity :
        As in `case`.
    **measured :
        The parameters of `case` for Cases 1 and 2 only: network, blocks, sampling, sign, pool, threshold.

    Returns
    -------
    tuple of (n,) arrays

    Examples
    --------
    >>> [values.round(1).tolist() for values in qs.case_spectra(3, kappa=500)]
    [[1.0, 2.0, 3.0], [30.9, 31.2, 31.5], [499.8, 499.9, 500.0]]
    """
    return _mapped_spectra(
        number, seed=seed, kappa=kappa, map=map, block_size=block_size, heterogeneity=heterogeneity, **measured
    )[0]


def _mapped_spectra(
    number: int,
    *,
    seed: int,
    kappa: float | None,
    map: str | None,
    block_size: int | None,
    heterogeneity: float | None,
    **measured: Any,
) -> tuple[spectra.Spectra, spectra.KappaMap | None]:
    """The eigenvalues of `case_spectra`, and the map that took them to their condition number."""
    recipe = _recipe(number)
    for key, value in measured.items():
        default = _defaults()[checks.choice("key", key, MEASURED_KEYS)]
        if recipe.network is None and value is not None and not (isinstance(value, str) and value == default):
            raise InputError(f"{key}={checks.shown(value)} is for Cases 1 and 2: case {number} is synthetic")
    if recipe.network is None and map is not None and kappa is None:
        raise InputError(f"map={checks.choice('map', map, MAPS)} requires kappa")
    map = checks.choice("map", recipe.map if map is None else map, MAPS)
    size = recipe.block_size if block_size is None else block_size
    size = checks.whole("block_size", size, at_least=1, at_most=LARGEST_BLOCK)
    if recipe.network is None:
        if map in UNSHIFTED:
            raise InputError(f"map unshifted is for Cases 1 and 2: allowed are {', '.join(spectra.MAPS)}")
        kappa = None if kappa is None else checks.real("kappa", kappa)
        share = None if heterogeneity is None else checks.real("heterogeneity", heterogeneity)
        parts = tuple(part.copy() for part in _synthetic_spectra(recipe, size, kappa, map, share))
        own = [np.concatenate(_synthetic_spectra(recipe, size, None, map, None))]
        return parts, None if kappa is None else spectra.KappaMap.of(own, kappa, map)
    network, blocks = measured.pop("network", None), measured.pop("blocks", None)
    loaded = spectra.load(recipe.network if network is None else network)
    blocks = default_blocks(loaded) if blocks is None else blocks
    sampled = spectra.sample_blocks(loaded, blocks, size, seed=seed, **measured)
    mapped = _mapped(sampled, kappa, map)
    kappa_map = None if map in UNSHIFTED else spectra.KappaMap.of(sampled, KAPPA if kappa is None else kappa, map)
    if heterogeneity is not None:
        mapped = spectra.partition(np.concatenate(mapped), [size] * len(mapped), heterogeneity)
    return mapped, kappa_map


def default_blocks(measured: spectra.Measured) -> list[str]:
    """The blocks of the case that uses these blocks of the network, or all of its blocks if there is none."""
    for recipe in CASES.values():
        if recipe.blocks and set(recipe.blocks) <= set(measured.blocks):
            return list(recipe.blocks)
    return list(measured.blocks)


def _mapped(sampled: spectra.Spectra, kappa: float | None, map: str) -> spectra.Spectra:
    if map not in UNSHIFTED:
        return spectra.rescale(sampled, KAPPA if kappa is None else kappa, map)
    if kappa is not None:
        kappa = checks.real("kappa", kappa)
        raise InputError(f"kappa={kappa:g} cannot be combined with map unshifted, which keeps the condition number")
    return spectra.unshifted(sampled)


def _heterogeneity_text(values: spectra.Spectra, heterogeneity: float | None, span: str) -> str | None:
    """The heterogeneity with the number of its arrangement, and of how many; span "whole" has no blocks."""
    if heterogeneity is None:
        return None
    number, count = spectra.arrangement(values, heterogeneity)
    return f"{float(heterogeneity):g}" + ("" if span == "whole" else f" (arrangement {number} of {count})")


@functools.lru_cache(maxsize=1024)
def _synthetic_spectra(
    recipe: Case, size: int, kappa: float | None, map: str, heterogeneity: float | None
) -> spectra.Spectra:
    clusters = SINGLES if size == 1 else [np.linspace(low, high, size) for low, high in CLUSTERS]
    # Partition first: at a small kappa the scaled clusters overlap, and sorting would mix them.
    share = recipe.heterogeneity if heterogeneity is None else heterogeneity
    blocks = spectra.partition(np.concatenate(clusters), len(CLUSTERS), 1.0 if share is None else share)
    return blocks if kappa is None else spectra.rescale(blocks, kappa, map)


def _recipe(number: Any) -> Case:
    known = ", ".join(str(n) for n in CASES)
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise InputTypeError(f"case must be one of {known}, got {checks.shown(number)}")
    if number not in CASES:
        raise InputError(f"unknown case {number}: allowed are {known}")
    return CASES[int(number)]
