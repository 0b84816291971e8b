"""Medians and their bootstrap intervals, of numbers that may be infinite: a run that diverged is infinitely bad.

Plain arrays in, numbers out. Nothing here knows what the numbers are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quadsim.streams import stream

RESAMPLES = 10_000
NOTHING = 1e-6  # what rounding alone may make of two results that are the same on paper
RARE = 0.2  # choices that fewer resamples make are left out: on equals they made intervals far too wide
HELD = 1_000_000  # resampled numbers at a time


def quantile(values: Any, share: float) -> np.ndarray:
    """Quantiles along the last axis, in straight lines between neighbours.

    Between a finite number and an infinite one lies the infinite one; between both infinities, 0: so that the quantile
    of the negatives at 1 − share is the negative, and infinite neighbours never make a NaN.
    """
    ordered = np.sort(np.asarray(values, dtype=float), axis=-1)
    place = share * (ordered.shape[-1] - 1)
    low = math.floor(place + 1e-12)
    weight = max(place - low, 0.0)
    below, above = ordered[..., low], ordered[..., min(low + 1, ordered.shape[-1] - 1)]
    if weight < 1e-12:
        return below
    with np.errstate(invalid="ignore"):
        between = np.where(below == above, below, below + weight * (above - below))
    between = np.where(np.isneginf(below) & np.isfinite(above), -np.inf, between)
    return np.where(np.isneginf(below) & np.isposinf(above), 0.0, between)


def quartiles(values: Any) -> dict[str, np.ndarray]:
    """Lower quartile, median and upper quartile along the last axis."""
    return {name: quantile(values, share) for name, share in (("lower", 0.25), ("median", 0.5), ("upper", 0.75))}


def paired_difference(mine: Any, theirs: Any) -> np.ndarray:
    """Item by item: infinite where one of the two is; 0 where both are, and where rounding alone may have made it."""
    mine, theirs = np.asarray(mine, dtype=float), np.asarray(theirs, dtype=float)
    with np.errstate(invalid="ignore"):
        difference = np.where(mine == theirs, 0.0, mine - theirs)
    return np.where(np.abs(difference) <= NOTHING, 0.0, difference)


def median_interval(differences: Any, level: float = 0.95, which: np.ndarray | None = None) -> tuple[float, float]:
    """The percentile bootstrap interval of the median, from 10,000 resamples.

    Where the differences themselves hang on a choice that was made with other draws, they are (choices, items), and
    ``which`` says which choice each resample makes.
    """
    values = np.atleast_2d(np.asarray(differences, dtype=float))
    which = np.zeros(RESAMPLES, dtype=np.int64) if which is None else which
    medians, rng, size = [], stream(0, "bootstrap"), values.shape[1]
    for chosen in np.array_split(which, math.ceil(which.size * size / HELD)):
        picked = rng.integers(0, size, (chosen.size, size))
        medians.append(quantile(values[chosen[:, None], picked], 0.5))
    every = np.concatenate(medians)
    return float(quantile(every, (1 - level) / 2)), float(quantile(every, (1 + level) / 2))


def choices(scores: Any) -> np.ndarray:
    """What each of 10,000 resamples would have chosen: the row of ``scores`` (rows, items) with the least median.

    Among equals, and in place of a rare choice, it is the first row. The resamples are the same for equal counts of
    items, so that two tables of scores over the same items are chosen from in pairs.
    """
    values = np.asarray(scores, dtype=float)
    if len(values) == 1:
        return np.zeros(RESAMPLES, dtype=np.int64)
    found, rng, size = [], stream(0, "bootstrap", "choices"), values.shape[1]
    for part in np.array_split(np.arange(RESAMPLES), math.ceil(RESAMPLES * size * len(values) / HELD)):
        picked = rng.integers(0, size, (part.size, size))
        found.append(np.argmin(quantile(values[:, picked], 0.5), axis=0))
    chosen = np.concatenate(found)
    shares = np.bincount(chosen, minlength=len(values)) / RESAMPLES
    return np.where(shares[chosen] < RARE, 0, chosen)


def fewest(level: float) -> int:
    """The fewest items of which the least and the greatest enclose the true median with this probability."""
    return math.ceil(1 - math.log2(1 - level) - 1e-9)
