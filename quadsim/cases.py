"""The published problems, each a name and a short recipe.

Cases 3 and 4 are those of "Why Transformers Need Adam: A Hessian Perspective" (arXiv 2402.16788): the same nine
eigenvalues, dealt to three blocks in two ways. Names say the number, never an adjective: "heterogeneous" means
Case 3 to some authors and Case 4 to others. No numerics live here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quadsim import checks, spectra
from quadsim.checks import InputError, InputTypeError
from quadsim.problem import LARGEST_BLOCK, BlockQuadratic

# Three clusters of eigenvalues; a block of size n spreads n of them evenly over each, ends included.
CLUSTERS = ((1.0, 3.0), (99.0, 101.0), (4998.0, 5000.0))
ALONE = (1.0, 100.0, 5000.0)  # one of each, for blocks of size 1: the condition number stays 5000
BLOCKS = len(CLUSTERS)


@dataclass(frozen=True)
class Case:
    """A published problem: what it is, and how its eigenvalues are dealt to blocks (`spectra.deal`)."""

    title: str
    heterogeneity: float


CASES = {
    3: Case("{1, 2, 3} {99, 100, 101} {4998, 4999, 5000}: blocks whose spectra differ", 1.0),
    4: Case("{1, 99, 4998} {2, 100, 4999} {3, 101, 5000}: the same eigenvalues, blocks alike", 0.0),
}
MEASURED = {1: "GPT2", 2: "ResNet18"}


def case(
    number: int,
    *,
    seed: int = 0,
    kappa: float | None = None,
    map: str = "clusters",
    block_size: int = 3,
    heterogeneity: float | None = None,
    rotation: float = 1.0,
    basis: str = "blocks",
    minimizer: Any = None,
    h: Any = None,
) -> BlockQuadratic:
    """A published problem by its number.

    Parameters
    ----------
    kappa, map :
        Another condition number than 5000, and the way there (`spectra.rescale`). By default each cluster of
        eigenvalues is scaled as a whole, so that Case 3's blocks keep their own condition numbers; kappa ≥ 3 then.
    block_size : int
        Eigenvalues in each cluster, evenly spaced between its ends.
    heterogeneity : float, optional
        Deal the eigenvalues otherwise (`spectra.deal`): 1 is Case 3, 0 is Case 4.
    seed, rotation, basis, minimizer, h :
        As in `BlockQuadratic.from_spectra`.
    """
    values = case_spectra(number, kappa=kappa, map=map, block_size=block_size, heterogeneity=heterogeneity)
    changed: dict[str, Any] = {
        "kappa": (kappa, None),
        "heterogeneity": (heterogeneity, None),
        "map": (map if kappa is not None else "clusters", "clusters"),
        "block size": (block_size, 3),
        "rotation": (rotation, 1),
        "basis": (basis, "blocks"),
    }
    told = [
        f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
        for key, (value, usual) in changed.items()
        if value != usual
    ]
    name = ", ".join([f"case {number}", *told])
    return BlockQuadratic.from_spectra(
        values, seed=seed, rotation=rotation, basis=basis, minimizer=minimizer, h=h, name=name
    )


def case_spectra(
    number: int,
    *,
    kappa: float | None = None,
    map: str = "clusters",
    block_size: int = 3,
    heterogeneity: float | None = None,
) -> spectra.Spectra:
    """A case's eigenvalues by block."""
    recipe = _recipe(number)
    size = checks.whole("block_size", block_size, at_least=1, at_most=LARGEST_BLOCK)
    map = checks.choice("map", map, spectra.MAPS)
    clusters = [[alone] for alone in ALONE] if size == 1 else [np.linspace(low, high, size) for low, high in CLUSTERS]
    # Dealt first: at a small kappa the scaled clusters overlap, and sorting would mix them.
    dealt = spectra.deal(
        np.concatenate(clusters), BLOCKS, recipe.heterogeneity if heterogeneity is None else heterogeneity
    )
    return dealt if kappa is None else spectra.rescale(dealt, kappa, map)


def _recipe(number: Any) -> Case:
    known = ", ".join(str(n) for n in CASES)
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise InputTypeError(f"case must be one of {known}, got {checks.shown(number)}")
    if number in MEASURED:
        raise InputError(
            f"case {number} needs spectra measured from {MEASURED[int(number)]}, which this version does not ship yet: "
            f"allowed are {known}"
        )
    if number not in CASES:
        raise InputError(f"unknown case {number}: allowed are {known}")
    return CASES[int(number)]
