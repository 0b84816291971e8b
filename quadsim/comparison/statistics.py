"""Order-statistic intervals of the median, sign tests and Holm's correction, for numbers that may be infinite.

Written here rather than taken from scipy.stats, whose import takes three times as long as this package's, and whose
`quantile_test` knows neither unknown (NaN) items nor several rows of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any

import numpy as np

from quadsim._quantiles import quantile
from quadsim._random import stream

P_ROUNDING = 1e-12  # relative: p-values this close to 1 − level count as equal to it
RESAMPLES = 10_000
MIN_DIFFERENCE = 1e-6  # decades: smaller differences are rounding
MIN_CHOICE_SHARE = 0.2  # of the resamples: rarer choices cost more power than they prevent false verdicts
MAX_HELD = 1_000_000  # resampled numbers in memory at a time


def paired_difference(mine: Any, theirs: Any) -> np.ndarray:
    """Item by item: infinite where one of the two is; 0 where both are, and where they differ by rounding only."""
    mine, theirs = np.asarray(mine, dtype=float), np.asarray(theirs, dtype=float)
    with np.errstate(invalid="ignore"):
        difference = np.where(mine == theirs, 0.0, mine - theirs)
    return np.where(np.abs(difference) <= MIN_DIFFERENCE, 0.0, difference)


def median_interval(differences: Any, level: float = 0.95) -> tuple[float, float]:
    """An interval that covers the median with probability ``level`` or more: the k-th least and k-th greatest item.

    The k-th least of n independent items lies above a median only if fewer than k items do not, which has probability
    at most P(Bin(n, ½) < k), whatever their law; ties and infinite items are allowed, since the ends belong to the
    interval. k is the largest for which twice that is at most 1 − level. (nan, nan) if there is none: below 6 items at
    0.95.

    A NaN is an unknown item: it counts as −∞ for the lower end and as ∞ for the upper one. For several rows of items,
    (rows, items), the interval is the hull of those of the rows.
    """
    values = np.atleast_2d(np.asarray(differences, dtype=float))
    k = order_statistic(values.shape[1], level)
    if k == 0:
        return math.nan, math.nan
    low, high = (np.sort(np.where(np.isnan(values), end, values), axis=1) for end in (-np.inf, np.inf))
    return float(low[:, k - 1].min()), float(high[:, -k].max())


def order_statistic(count: int, level: float) -> int:
    """The largest k with 2·P(Bin(count, ½) < k) ≤ 1 − level; 0 if there is none."""
    tails = islice(_tails(count), (count + 1) // 2)
    return len(list(takewhile(lambda tail: 2 * tail <= (1 - level) * (1 + P_ROUNDING), tails)))


def sign_test(differences: Any, below: float = 0.0, above: float = 0.0) -> tuple[float, float]:
    """Two-sided p-values for "the median is below −``below``" and for "it is above ``above``".

    Twice the probability that a fair coin shows at least as many heads as items lie there; ties and NaN support
    neither. The first is at most 1 − level exactly where `median_interval` ends below −``below``. For several rows of
    items, (rows, items), each is the largest over the rows.
    """
    values = np.atleast_2d(np.asarray(differences, dtype=float))
    tails = list(_tails(values.shape[1]))
    below_count, above_count = (int(side.sum(axis=1).min()) for side in (values < -below, values > above))
    return min(2 * tails[-1 - below_count], 1.0), min(2 * tails[-1 - above_count], 1.0)


def _tails(count: int) -> Iterator[float]:
    """P(Bin(count, ½) ≤ k) for k = 0, 1, …, count."""
    coefficient = total = 1
    for k in range(count + 1):
        yield total / 2**count
        coefficient = coefficient * (count - k) // (k + 1)
        total += coefficient


def holm(p: Any) -> np.ndarray:
    """p-values adjusted for their number by Holm's step-down method: the family-wise error rate stays below α."""
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * (values.size - np.arange(values.size)))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def choices(scores: Any) -> np.ndarray:
    """The choice of each of 10,000 bootstrap resamples: the row of ``scores`` (rows, items) with the least median.

    Ties, and choices that fewer than a fifth of the resamples make, become the first row. The resamples are the same
    for equal counts of items, so that choices from two tables of scores over the same items are paired.
    """
    values = np.asarray(scores, dtype=float)
    if len(values) == 1:
        return np.zeros(RESAMPLES, dtype=np.int64)
    parts, rng, size = [], stream(0, "bootstrap", "choices"), values.shape[1]
    for part in np.array_split(np.arange(RESAMPLES), math.ceil(RESAMPLES * size * len(values) / MAX_HELD)):
        picked = rng.integers(0, size, (part.size, size))
        parts.append(np.argmin(quantile(values[:, picked], 0.5, "linear"), axis=0))
    chosen = np.concatenate(parts)
    shares = np.bincount(chosen, minlength=len(values)) / RESAMPLES
    return np.where(shares[chosen] < MIN_CHOICE_SHARE, 0, chosen)


def frequent_choices(chosen: np.ndarray) -> np.ndarray:
    """The choices of at least a fifth of the resamples, and 0, the choice of the whole sample."""
    which, counts = np.unique(chosen, return_counts=True)
    return np.union1d(which[counts >= MIN_CHOICE_SHARE * chosen.size], 0)


def min_items(level: float, comparisons: int = 1) -> int:
    """The fewest items with which one of so many sign tests can be significant after Holm's correction.

    With one comparison, also the fewest for which `median_interval` has an interval.
    """
    return math.ceil(1 + math.log2(comparisons / (1 - level)) - P_ROUNDING)
