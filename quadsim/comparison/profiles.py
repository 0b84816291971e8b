"""Performance profiles (Dolan & Moré, 2002): shares of problems solved within a factor of the best optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import _validation as checks
from quadsim._validation import InputError, InputTypeError

if TYPE_CHECKING:
    import pandas as pd

POINTS = 400  # of a curve
MAX_DECADES = 10.0  # a profile ends here: a factor of 10¹⁰ behind the best
MIN_DECADES = 1.0
SHOWN_FACTORS = (2, 10)  # of tables


def performance_profile(comparisons: Any, *, max_factor: float | None = None) -> pd.DataFrame:
    """A performance profile: the share of draws on which each optimizer is within a factor of the best.

    Parameters
    ----------
    comparisons : Comparison, or a list of them
        Comparisons of the same optimizers by the same objective, one for each problem. Each draw (problem and seed)
        counts once.
    max_factor : float, optional
        The largest factor; by default that beyond which nothing changes, between 10 and 10¹⁰.

    Returns
    -------
    DataFrame
        One row for each optimizer and factor: ``optimizer``, ``label``, ``factor``, ``share``, ``solved`` (the share
        of draws on which the optimizer has a result at all) and ``draws``.

    Notes
    -----
    The factor is that between the optimizer's result and the best result of any optimizer on the same draw: of steps
    for "steps-to-tol", of losses for "final-loss", and of the geometric mean of losses for "mean-log-loss". A run that
    diverged, underflowed or did not reach tol is within no factor; draws on which all failed count too, so that a curve
    ends at its share of solved draws.

    A curve depends on the optimizers that are compared: the best on a draw may be a third one. So the order of two
    curves can change when another optimizer is added or left out (Gould & Scott, 2016), and only the left end, the
    share of draws on which an optimizer is the best, ranks the best one. Verdicts about pairs are in `Comparison`.

    Examples
    --------
    >>> result = qs.compare(qs.case(3), [qs.GD(), qs.BlockGD()], seed=range(6), max_steps=50)
    >>> profile = qs.performance_profile(result)
    >>> profile.groupby("optimizer")["share"].first().to_dict()
    {'block-gd': 1.0, 'gd': 0.0}
    """
    import pandas as pd

    listed = _listed(comparisons)
    scores = pd.concat([one.runs.assign(problem=f"{k}") for k, one in enumerate(listed)], ignore_index=True)
    labels = dict(zip(scores["optimizer"], scores["label"], strict=True))
    table = scores.pivot(index=["problem", "seed"], columns="optimizer", values="score")[list(labels)]
    behind = decades_behind(table.to_numpy(dtype=float))
    if max_factor is None:
        finite = behind[np.isfinite(behind)]
        reach = float(np.clip(finite.max(initial=0.0) * 1.05, MIN_DECADES, MAX_DECADES))
    else:
        reach = float(np.log10(checks.real("max_factor", max_factor, above=1)))
    marks = [decade for decade in np.log10(SHOWN_FACTORS) if decade <= reach]
    decades = np.unique(np.concatenate([np.linspace(0.0, reach, POINTS), marks]))
    parts = [
        pd.DataFrame(
            {
                "optimizer": name,
                "label": label,
                "factor": 10**decades,
                "share": [shares_within(column, at) for at in decades],
                "solved": float(np.isfinite(column).mean()),
                "draws": column.size,
            }
        )
        for (name, label), column in zip(labels.items(), behind.T, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def decades_behind(scores: np.ndarray) -> np.ndarray:
    """Scores in decades, (draws, optimizers), less the best of each draw; infinite where there is no result."""
    known = np.where(np.isnan(scores), np.inf, scores)
    best = known.min(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(known), np.inf, known - best)


def shares_within(behind: np.ndarray, decades: float) -> float:
    """The share of draws at most so many decades behind the best; differences by rounding do not count."""
    from quadsim.comparison.statistics import MIN_DIFFERENCE

    return float((behind <= decades + MIN_DIFFERENCE).mean())


def table_of(profile: pd.DataFrame) -> pd.DataFrame:
    """A row for each optimizer: the shares of draws on which it is best, within factors of 2 and 10, and solved."""
    import pandas as pd

    rows = []
    for (name, label), curve in profile.groupby(["optimizer", "label"], sort=False):
        factors, shares = curve["factor"].to_numpy(), curve["share"].to_numpy()
        row: dict[str, Any] = {"optimizer": name, "label": label, "best": float(shares[0])}
        for limit in SHOWN_FACTORS:
            within = np.searchsorted(factors, limit * (1 + 1e-9)) - 1
            row[f"within_{limit}"] = float(shares[within]) if factors[-1] >= limit * (1 - 1e-9) else np.nan
        rows.append({**row, "solved": float(curve["solved"].iloc[0]), "draws": int(curve["draws"].iloc[0])})
    return pd.DataFrame(rows)


def _listed(comparisons: Any) -> list[Any]:
    from quadsim.comparison.paired import Comparison

    listed = [comparisons] if isinstance(comparisons, Comparison) else comparisons
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise InputTypeError(f"comparisons must be a list of results of compare, got {checks.shown(comparisons)}")
    if not listed:
        raise InputError("comparisons must hold at least one comparison")
    for one in listed:
        if not isinstance(one, Comparison):
            raise InputTypeError(f"comparisons must be results of compare, got {checks.shown(one)}")
    first = listed[0]
    for one in listed[1:]:
        if one.protocol.objective != first.protocol.objective:
            both = f"{first.protocol.objective} and {one.protocol.objective}"
            raise InputError(f"a profile needs one objective, got {both}")
        if set(one.tuned) != set(first.tuned):
            missing = ", ".join(sorted(set(one.tuned) ^ set(first.tuned)))
            raise InputError(f"a profile needs the same optimizers on all problems, but these are not: {missing}")
    return list(listed)
