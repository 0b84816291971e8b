"""Medians, exact intervals and sign tests, of numbers that may be infinite: a run that diverged is infinitely bad.

Plain arrays in, numbers out. Nothing here knows what the numbers are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quadsim.streams import stream

TIE = 1e-12  # relative: a probability this close to what is allowed is allowed, whatever rounding says
RESAMPLES = 10_000
NOTHING = 1e-6  # what rounding alone may make of two results that are the same on paper
RARE = 0.2  # choices that fewer resamples make are left out: they cost more power than they prevent false verdicts
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


def median_interval(differences: Any, level: float = 0.95) -> tuple[float, float]:
    """An interval that covers the median with probability ``level`` or more: the k-th least and k-th greatest item.

    The k-th least of n independent items lies above a median only if fewer than k items do not, which has probability
    P(Bin(n, ½) < k) at most, whatever their law; ties and infinite items do no harm, since the ends belong to the
    interval. k is the largest for which twice that is at most 1 − level. (nan, nan) where no k is: below 6 items at
    0.95.

    A NaN is an item that is not known: it counts as −∞ for the lower end and as ∞ for the upper one. Of several rows of
    items, (rows, items), the interval is the hull of those of the rows.
    """
    values = np.atleast_2d(np.asarray(differences, dtype=float))
    k = order_statistic(values.shape[1], level)
    if k == 0:
        return math.nan, math.nan
    low, high = (np.sort(np.where(np.isnan(values), end, values), axis=1) for end in (-np.inf, np.inf))
    return float(low[:, k - 1].min()), float(high[:, -k].max())


def order_statistic(count: int, level: float) -> int:
    """The largest k with 2·P(Bin(count, ½) < k) ≤ 1 − level; 0 if there is none."""
    k, term, total = 0, 1, 1  # term is the binomial coefficient of k, total the sum of those up to it
    while 2 * total / 2**count <= (1 - level) * (1 + TIE) and k < (count + 1) // 2:
        k += 1
        term = term * (count - k + 1) // k
        total += term
    return k


def sign_test(differences: Any, below: float = 0.0, above: float = 0.0) -> tuple[float, float]:
    """Two-sided p-values for "the median is below −``below``" and for "it is above ``above``".

    Twice the probability that a fair coin shows as many heads as items lie there; ties and NaN support neither. The
    first is at most 1 − level exactly where `median_interval` ends below −``below``. Of several rows of items, (rows,
    items), each is the largest of the rows'.
    """
    values = np.atleast_2d(np.asarray(differences, dtype=float))
    count = values.shape[1]
    supports = [int((side).sum(axis=1).min()) for side in (values < -below, values > above)]
    return _two_sided(count, supports[0]), _two_sided(count, supports[1])


def _two_sided(count: int, heads: int) -> float:
    """2·P(Bin(count, ½) ≥ heads), at most 1."""
    tail, term = 0, 1  # C(count, j) for j = 0, 1, … up to count − heads
    for j in range(count - heads + 1):
        tail += term
        term = term * (count - j) // (j + 1)
    return min(2 * tail / 2**count, 1.0)


def holm(p: Any) -> np.ndarray:
    """p-values adjusted for their number by Holm's step-down method: the family-wise error rate stays below α."""
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * (values.size - np.arange(values.size)))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def choices(scores: Any) -> np.ndarray:
    """What each of 10,000 resamples would have chosen: the row of ``scores`` (rows, items) with the least median.

    Among equals, and in place of a choice that fewer than a fifth make, it is the first row. The resamples are the same
    for equal counts of items, so that two tables of scores over the same items are chosen from in pairs.
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


def frequent(chosen: np.ndarray) -> np.ndarray:
    """The choices that a fifth of the resamples or more make, and 0, which was made."""
    which, counts = np.unique(chosen, return_counts=True)
    return np.union1d(which[counts >= RARE * chosen.size], 0)


def fewest(level: float, comparisons: int = 1) -> int:
    """The fewest items with which one of so many sign tests can be significant after Holm's correction.

    With one comparison, also the fewest for which `median_interval` has an interval.
    """
    return math.ceil(1 + math.log2(comparisons / (1 - level)) - TIE)
