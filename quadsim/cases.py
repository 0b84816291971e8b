"""The published problems, each a name and a short recipe.

The four cases of "Why Transformers Need Adam: A Hessian Perspective" (arXiv 2402.16788). Cases 1 and 2 carry spectra
measured from blocks of GPT2 and ResNet18; Cases 3 and 4 are the same nine eigenvalues, dealt to three blocks in two
ways. Names say the number, never an adjective: "heterogeneous" means Case 3 to some authors and Case 4 to others. No
numerics live here.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quadsim import checks, spectra
from quadsim.checks import InputError, InputTypeError
from quadsim.problem import LARGEST_BLOCK, BlockQuadratic

# Three clusters of eigenvalues; a block of size n spreads n of them evenly over each, ends included.
CLUSTERS = ((1.0, 3.0), (99.0, 101.0), (4998.0, 5000.0))
ALONE = (1.0, 100.0, 5000.0)  # one of each, for blocks of size 1: the condition number stays 5000
KAPPA = 5000.0
MAPS = (*spectra.MAPS, "unshifted")  # the last: divided by the smallest, so that the condition number is their own


@dataclass(frozen=True)
class Case:
    """A published problem, and what is usual for it: hand-made eigenvalues are dealt to blocks, others are measured."""

    title: str
    block_size: int
    map: str
    heterogeneity: float | None = None
    network: str | None = None
    blocks: tuple[str, ...] = ()


CASES = {
    1: Case(
        "four blocks of 30 sampled from GPT2: embedding, and Query, Value and MLP in of layer 3",
        block_size=30,
        map="affine",
        network="gpt2",
        blocks=("embedding", "layer3.query", "layer3.value", "layer3.mlp_in"),
    ),
    2: Case(
        "four blocks of 30 sampled from ResNet18: the first convolution of each of its four stages",
        block_size=30,
        map="affine",
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
    rule: str = "leading",
    sign: str = "magnitude",
    pool: int | None = None,
    threshold: float | None = None,
    rotation: float = 1.0,
    basis: str = "blocks",
    minimizer: Any = "gaussian",
    h: Any = None,
) -> BlockQuadratic:
    """A published problem by its number.

    Parameters
    ----------
    kappa, map :
        Another condition number than 5000, and the way there (`spectra.rescale`). Cases 1 and 2 are mapped affinely
        onto [1, kappa]; map "unshifted" leaves them their own condition number. In Cases 3 and 4 each cluster of
        eigenvalues is scaled as a whole, so that Case 3's blocks keep their own condition numbers; kappa ≥ 3 then.
    block_size : int
        Eigenvalues in each block: 30 in Cases 1 and 2, 3 in Cases 3 and 4.
    heterogeneity : float, optional
        Deal the eigenvalues otherwise (`spectra.deal`): 1 is Case 3, 0 is Case 4. It selects one of finitely many
        arrangements (`spectra.arrangements`): blocks of 3 have five, blocks of 30 have 51.
    network, blocks, rule, sign, pool, threshold :
        For Cases 1 and 2: other measured spectra (`spectra.load`), other blocks of them, and how eigenvalues are drawn
        from a block (`spectra.sample`).
    seed, rotation, basis :
        As in `BlockQuadratic.from_spectra`; the seed also draws the eigenvalues of Cases 1 and 2.
    minimizer : "gaussian", "zero" or (dim,) array
        The minimizer w*: by default drawn from the standard normal distribution. Weight decay pulls to 0, so that a
        minimizer at "zero" would let it win for the wrong reason. Runs start at w* + e₀ with the same e₀ for every
        minimizer.
    h : (dim,) array, optional
        In place of the minimizer: the linear term of ½wᵀHw − hᵀw.
    """
    recipe = _recipe(number)
    sampling: dict[str, Any] = {
        "network": network, "blocks": blocks, "rule": rule, "sign": sign, "pool": pool, "threshold": threshold,
    }  # fmt: skip
    values = case_spectra(
        number, seed=seed, kappa=kappa, map=map, block_size=block_size, heterogeneity=heterogeneity, **sampling
    )
    changed: dict[str, Any] = {
        "kappa": (kappa, None),
        "heterogeneity": (_dealt(values, heterogeneity, basis), None),
        "map": (map if map is not None and (kappa is not None or recipe.network) else recipe.map, recipe.map),
        "block size": (recipe.block_size if block_size is None else block_size, recipe.block_size),
        "network": (recipe.network if network is None else Path(network).name, recipe.network),
        "blocks": (None if blocks is None else " ".join(str(block) for block in blocks), None),
        "rule": (rule, "leading"),
        "sign": (sign, "magnitude"),
        "pool": (pool, None),
        "threshold": (threshold, None),
        "rotation": (rotation, 1),
        "basis": (basis, "blocks"),
        "minimizer": (_minimizer_kind(minimizer, h), "gaussian"),
    }
    told = [
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
        for key, (value, usual) in changed.items()
        if value != usual
    ]
    name = ", ".join([f"case {number}", *told])
    return BlockQuadratic.from_spectra(
        values,
        seed=seed,
        rotation=rotation,
        basis=basis,
        minimizer=None if h is not None and isinstance(minimizer, str) else minimizer,
        h=h,
        name=name,
    )


def _minimizer_kind(minimizer: Any, h: Any) -> str:
    if h is not None:
        return "given"
    return minimizer if isinstance(minimizer, str) else "zero" if minimizer is None else "given"


def case_spectra(
    number: int,
    *,
    seed: int = 0,
    kappa: float | None = None,
    map: str | None = None,
    block_size: int | None = None,
    heterogeneity: float | None = None,
    network: str | Path | None = None,
    blocks: Sequence[str] | None = None,
    rule: str = "leading",
    sign: str = "magnitude",
    pool: int | None = None,
    threshold: float | None = None,
) -> spectra.Spectra:
    """A case's eigenvalues by block; arguments as in `case`."""
    recipe = _recipe(number)
    map = checks.choice("map", recipe.map if map is None else map, MAPS)
    size = checks.whole(
        "block_size", recipe.block_size if block_size is None else block_size, at_least=1, at_most=LARGEST_BLOCK
    )
    if recipe.network is None:
        given = {
            "network": network, "blocks": blocks, "pool": pool, "threshold": threshold,
            "rule": None if rule == "leading" else rule, "sign": None if sign == "magnitude" else sign,
        }  # fmt: skip
        for key, value in given.items():
            if value is not None:
                raise InputError(f"{key} is for Cases 1 and 2: case {number} is made by hand")
        if map == "unshifted":
            raise InputError(f"map unshifted is for Cases 1 and 2: allowed are {', '.join(spectra.MAPS)}")
        kappa = None if kappa is None else checks.real("kappa", kappa)
        share = None if heterogeneity is None else checks.real("heterogeneity", heterogeneity)
        return tuple(part.copy() for part in _hand_made(recipe, size, kappa, map, share))
    measured = spectra.load(recipe.network if network is None else network)
    sampled = spectra.sample_blocks(
        measured,
        usual_blocks(measured) if blocks is None else blocks,
        size,
        rule=rule,
        sign=sign,
        pool=pool,
        threshold=threshold,
        seed=seed,
    )
    mapped = _mapped(sampled, kappa, map)
    if heterogeneity is None:
        return mapped
    return spectra.deal(np.concatenate(mapped), [size] * len(mapped), heterogeneity)


def usual_blocks(measured: spectra.Measured) -> list[str]:
    """The blocks of the case that is made for such a network, or all of the network's if there is none."""
    for recipe in CASES.values():
        if recipe.blocks and set(recipe.blocks) <= set(measured.blocks):
            return list(recipe.blocks)
    return list(measured.blocks)


def _mapped(sampled: spectra.Spectra, kappa: float | None, map: str) -> spectra.Spectra:
    if map != "unshifted":
        return spectra.rescale(sampled, KAPPA if kappa is None else kappa, map)
    if kappa is not None:
        kappa = checks.real("kappa", kappa)
        raise InputError(f"kappa={kappa:g} has no use: map unshifted leaves eigenvalues their own condition number")
    return spectra.unshifted(sampled)


def _dealt(values: spectra.Spectra, heterogeneity: float | None, basis: str) -> str | None:
    """The heterogeneity with the number of its arrangement, and of how many; a basis of the whole dissolves blocks."""
    if heterogeneity is None:
        return None
    number, count = spectra.arrangement(values, heterogeneity)
    return f"{float(heterogeneity):g}" + ("" if basis == "whole" else f" (arrangement {number} of {count})")


@functools.lru_cache(maxsize=1024)
def _hand_made(recipe: Case, size: int, kappa: float | None, map: str, heterogeneity: float | None) -> spectra.Spectra:
    clusters = [[alone] for alone in ALONE] if size == 1 else [np.linspace(low, high, size) for low, high in CLUSTERS]
    # Dealt first: at a small kappa the scaled clusters overlap, and sorting would mix them.
    share = recipe.heterogeneity if heterogeneity is None else heterogeneity
    dealt = spectra.deal(np.concatenate(clusters), len(CLUSTERS), 1.0 if share is None else share)
    return dealt if kappa is None else spectra.rescale(dealt, kappa, map)


def _recipe(number: Any) -> Case:
    known = ", ".join(str(n) for n in CASES)
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise InputTypeError(f"case must be one of {known}, got {checks.shown(number)}")
    if number not in CASES:
        raise InputError(f"unknown case {number}: allowed are {known}")
    return CASES[int(number)]
