"""The table behind a figure of a sweep: quartiles over the seeds, and the power of κ that medians grow like.

A run that did not reach the tolerance counts as later than all that did, so a quartile among those is absent. Runs that
failed (status "error") are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

WORDS = {"case", "spectrum", "basis", "map", "schedule", "optimizer"}  # names of things, even if numbers
QUARTILES = {"lower": 0.25, "median": 0.5, "upper": 0.75}
RESULTS = ("status", "last_step", "tol", "predicted_rate", "js_distance", "lr_from")  # used where they are there


def medians(frame: pd.DataFrame, axes: Sequence[str], y: str = "steps_to_tol") -> pd.DataFrame:
    """One row for each value of the axes and each optimizer: quartiles of y over what is left, which is the seeds.

    Columns: the axes, optimizer, then ``draws`` (runs), ``reached`` (those with a value of y), ``diverged``, ``lower``,
    ``median``, ``upper`` (`np.quantile` by method "nearest"; absent where most runs had not reached the tolerance),
    ``limit`` (the last step of those that neither reached it nor diverged), ``predicted`` (the median of
    ln tol² / ln predicted_rate: the gradient falls like the root of the loss) and ``js_distance`` (mean).
    """
    rows = runs(frame, axes, y)
    names = names_of([*axes, "optimizer"])
    keys = sorted(names, key="optimizer".__eq__)  # the optimizer last
    codes = pd.DataFrame({key: _codes(rows[key]) for key in keys})
    group = codes.groupby(keys).ngroup().to_numpy()
    value, diverged = floats(rows[y]), rows["status"].isin(["diverged"]).to_numpy()
    seen = pd.DataFrame({"diverged": diverged, "js_distance": floats(rows["js_distance"])})
    seen["limit"] = seen["predicted"] = np.nan
    if y == "steps_to_tol":
        late = np.isnan(value)
        value[late] = np.inf
        seen["limit"] = np.where(late & ~diverged, floats(rows["last_step"]), np.nan)
        seen["predicted"] = _predicted_steps(floats(rows["tol"]), floats(rows["predicted_rate"]))
    by = seen.assign(value=value, reached=np.isfinite(value)).groupby(group)
    table = rows[names].groupby(group).first()
    table["draws"] = by.size()
    table[["reached", "diverged"]] = by[["reached", "diverged"]].sum()
    for name, share in QUARTILES.items():
        table[name] = by["value"].quantile(share, interpolation="nearest").replace([np.inf, -np.inf], np.nan)
    table["limit"] = by["limit"].max()
    table["predicted"] = by["predicted"].quantile(0.5, interpolation="nearest")
    table["js_distance"] = by["js_distance"].mean()
    whole = [*QUARTILES, "limit"] if y == "steps_to_tol" else []
    return table.reset_index(drop=True).astype(dict.fromkeys(whole, "Int64"))


def slopes(frame: pd.DataFrame, axes: Sequence[str], *, x: str = "kappa", y: str = "steps_to_tol") -> pd.DataFrame:
    """The power of x that the medians of y grow like: least squares of log10 y on log10 x, by optimizer and other axes.

    Columns: optimizer, the other axes, ``slope``, ``standard_error``, ``points``. The fit is over the positive medians
    that are there; with fewer than three of them there is none.
    """
    return fits(medians(frame, names_of([*axes, x]), y), axes, x)


def fits(table: pd.DataFrame, axes: Sequence[str], x: str) -> pd.DataFrame:
    """`slopes`, from the table of medians."""
    keys = ["optimizer", *(name for name in names_of(axes) if name not in ("optimizer", x))]
    group = table.groupby(keys, sort=False, dropna=False).ngroup().to_numpy()
    found = table[keys].drop_duplicates().reset_index(drop=True)
    with np.errstate(divide="ignore", invalid="ignore"):  # what is not positive, and groups with too few points
        log_x, log_y = np.log10(floats(table[x])), np.log10(floats(table["median"]))
        good = np.isfinite(log_x) & np.isfinite(log_y)
        group, log_x, log_y = group[good], log_x[good], log_y[good]

        def sums(values: np.ndarray) -> np.ndarray:
            return np.bincount(group, weights=values, minlength=len(found))

        points = np.bincount(group, minlength=len(found))
        log_x, log_y = (values - (sums(values) / points)[group] for values in (log_x, log_y))
        slope = np.where(points >= 3, sums(log_x * log_y) / sums(log_x**2), np.nan)
        rest = sums((log_y - slope[group] * log_x) ** 2)
        error = np.sqrt(rest / ((points - 2) * sums(log_x**2)))
    return found.assign(slope=slope, standard_error=error, points=points)


def runs(frame: pd.DataFrame, axes: Sequence[str], y: str) -> pd.DataFrame:
    """The runs that did not fail, with the columns that matter; an optimizer has only the settings that were given."""
    wanted = [*names_of([*axes, "optimizer"]), y]
    for name in wanted:
        if name not in frame:
            raise ValueError(f"the table has no column {name}")
    rows = frame.reindex(columns=list(dict.fromkeys([*wanted, *RESULTS])))
    rows = rows[~rows["status"].isin(["error"])]
    if rows.empty:
        raise ValueError("there is nothing to draw: " + ("all cells failed" if len(frame) else "the table is empty"))
    if not pd.api.types.is_numeric_dtype(rows[y]) and not rows[y].isna().all():
        raise ValueError(f"y must be a column of numbers, got {y}")
    given = rows["lr_from"].isin(["given"])
    if "lr" in axes and given.any():  # what the problem decides is no axis: it differs from seed to seed
        rows = rows.assign(lr=rows["lr"].where(given))
    for name in names_of(axes):
        if name not in WORDS and not pd.api.types.is_numeric_dtype(rows[name]):
            rows = rows.assign(**{name: _settled(rows[name], rows["optimizer"])})
    return rows


def names_of(axes: Sequence[str]) -> list[str]:
    """Each axis once; seeds are what medians are taken over."""
    return [name for name in dict.fromkeys(axes) if name != "seed"]


def numbers(rows: pd.DataFrame, axes: Sequence[str]) -> dict[str, int]:
    """The axes of numbers, and how many values each has."""
    return {name: int(rows[name].nunique()) for name in axes if _is_of_numbers(rows[name]) and rows[name].notna().any()}


def floats(column: pd.Series) -> np.ndarray:
    return pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan, copy=True)


def broken(table: pd.DataFrame) -> np.ndarray:
    """Where half of the runs or more diverged."""
    return (table["diverged"] * 2 >= table["draws"]).to_numpy(dtype=bool)


def _settled(column: pd.Series, optimizer: pd.Series) -> pd.Series:
    """A column of numbers and texts as numbers, if every text is the only value of its optimizer, and so no axis."""
    values = pd.to_numeric(column, errors="coerce").astype(float)
    words = values.isna() & column.notna()
    several = column.groupby(optimizer.to_numpy()).transform("nunique") > 1
    return column if words.all() or (words & several).any() else values


def _is_of_numbers(column: pd.Series) -> bool:
    kinds = pd.api.types
    return column.name not in WORDS and kinds.is_numeric_dtype(column) and not kinds.is_bool_dtype(column)


def _codes(column: pd.Series) -> np.ndarray:
    """Whole numbers in the order of a column's values: numbers as they are, words as they come, what is absent last."""
    codes, values = pd.factorize(column, sort=_is_of_numbers(column))
    return np.where(codes < 0, len(values), codes)


def _predicted_steps(tol: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """ln tol² / ln rate; a rate of 1 or more never gets there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(rate < 1, 2 * np.log(tol) / np.log(rate), np.inf)
    return np.where((tol > 0) & (tol < 1) & (rate > 0), steps, np.nan)
