"""Results across problems: where the order of two optimizers flips, and comparisons in which every run failed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from quadsim.comparison.paired import Comparison


class Flip(NamedTuple):
    """Two optimizers whose order depends on the problem.

    ``better``: the problems on which the first is better than the second; ``worse``: those on which it is worse.
    ``tested``: by verdicts; otherwise by medians alone, which noise may exchange.
    """

    first: str
    second: str
    better: tuple[str, ...]
    worse: tuple[str, ...]
    tested: bool


def flips(comparisons: Sequence[Comparison]) -> list[Flip]:
    """The pairs of optimizers, by their labels, whose order flips between problems: those with verdicts first.

    A verdict exists for pairs with the reference only, and flips if it is "better" on one problem and "worse" on
    another. All other pairs whose medians change their order are listed as not tested; absent medians have no order.
    """
    tested, untested = [], []
    labels = {row["optimizer"]: row["label"] for one in comparisons for row in one.summary.to_dict("records")}
    for first, second in itertools.combinations(labels, 2):
        verdicts = [(one.problem, _verdict(one, first, second)) for one in comparisons]
        if flip := _flip(labels[first], labels[second], verdicts, tested=True):
            tested.append(flip)
            continue
        medians = [(one.problem, _order_of_medians(one, first, second)) for one in comparisons]
        if flip := _flip(labels[first], labels[second], medians, tested=False):
            untested.append(flip)
    return tested + untested


def _flip(first: str, second: str, signs: list[tuple[str, int]], *, tested: bool) -> Flip | None:
    better, worse = (tuple(problem for problem, sign in signs if sign == which) for which in (-1, 1))
    return Flip(first, second, better, worse, tested) if better and worse else None


def _verdict(one: Comparison, first: str, second: str) -> int:
    """−1 if the verdict is that the first is better than the second, 1 if worse, 0 without such a verdict."""
    for name, reference, sign in ((first, second, 1), (second, first, -1)):
        row = one.summary[one.summary["optimizer"] == name]
        if one.reference == reference and len(row):
            return sign * {"better": -1, "worse": 1}.get(row["verdict"].iloc[0], 0)
    return 0


def _order_of_medians(one: Comparison, first: str, second: str) -> int:
    medians = one.summary.set_index("optimizer")["median"]
    if first not in medians or second not in medians:
        return 0
    mine, other = float(medians[first]), float(medians[second])
    return int(mine > other) - int(mine < other)  # 0 if one is NaN


def failures(comparison: Comparison) -> dict[str, Counter[str]] | None:
    """How the runs of each optimizer failed, by its label, if no run of the comparison has a result."""
    runs = comparison.runs
    if np.isfinite(runs["score"].to_numpy(dtype=float)).any():
        return None
    counts: dict[str, Counter[str]] = {}
    for row in runs.to_dict("records"):
        counts.setdefault(row["label"], Counter())[_failure(row)] += 1
    return counts


def _failure(row: dict[Any, Any]) -> str:
    if row["status"] == "diverged":
        return "diverged"
    return "underflowed" if np.isnan(row["score"]) else "not reached"
