"""The tables behind sweep figures: quartiles over seeds, and the power of κ that medians grow like.

Runs are aggregated over seeds only: runs that differ in any setting are in different rows, whether the setting is an
axis or not. An absent setting (batch=none) is a value too. A run that did not reach the tolerance counts as infinitely
long, and a quartile among such runs is absent. Failed runs (status "error") are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from quadsim import keys
from quadsim._quantiles import QUARTILES
from quadsim._validation import InputError
from quadsim.plots import inputs

WORDS = ("case", "choice", "models", "spectrum", "text")  # kinds of keys whose values are not numbers
NAMES = {"optimizer", "problem", *(key.name for key in keys.TABLE if key.axis and key.kind in WORDS)}
RESULTS = (  # columns of results; all others are settings
    "status", "steps_to_tol", "last_step", "loss", "grad_norm", "dim", "max_block_kappa", "kappa_eff", "r",
    "js_distance", "arrangement", "arrangements", "predicted_rate", "measured_rate", "seconds", "error",
)  # fmt: skip
CONDITIONS = ("problem", *(name for name in keys.AXES if name != "seed"))  # other settings are those of an optimizer
ORIGINS = {"kappa": "kappa_from", "lr": "lr_from", "momentum": "momentum_from"}  # columns with the origin of a value
ARRANGEMENT_KEYS = ("case", "spectrum", "network", "blocks", "block_size", "span")  # arrangements depend on these
RESERVED = (  # columns of the tables; a setting of the same name becomes NAME_setting
    "draws", "reached", "diverged", *QUARTILES, "limit", "predicted", "cells", "median_steps", "converged", "max-steps",
    "underflow",
)  # fmt: skip
USED = ("status", "last_step", "tol", "predicted_rate", "js_distance")
UNTRUSTED = ("loss", "grad_norm", "measured_rate")  # not valid for runs that underflowed (ledger 5i)
MIN_LOSS = 1e-300  # losses below this have underflowed, whatever the status


def medians(frame: pd.DataFrame, axes: Sequence[str] = (), y: str = "steps_to_tol") -> pd.DataFrame:
    """Quartiles of y over the seeds: one row for each optimizer and each combination of settings.

    Parameters
    ----------
    frame : DataFrame
        One row for each run. Columns that are not in `RESULTS` are settings.
    axes : list of str
        Settings that come first in the table, in this order; others in which runs differ follow.
    y : str
        The column of results.

    Returns
    -------
    DataFrame
        The axes, optimizer, then ``draws`` (seeds), ``reached`` (those with a value of y), ``diverged``,
        ``underflow``, ``lower``, ``median``, ``upper`` (`np.quantile` by method "nearest"; absent where most runs had
        not reached the tolerance), ``limit`` (the last step of runs that neither reached it nor diverged),
        ``predicted`` (the median of ln tol² / ln predicted_rate: the gradient falls like the root of the loss) and
        ``js_distance`` (mean). Values of heterogeneity that give the same arrangement are one row. Runs that
        underflowed are left out of quartiles of loss, gradient norm and measured rate.

    Examples
    --------
    >>> frame = qs.sweep(case=3, kappa=[10, 100], optimizers=["gd"], seed=range(3))
    >>> qs.plots.medians(frame, ["kappa"])[["kappa", "draws", "reached"]].values.tolist()
    [[10.0, 3.0, 3.0], [100.0, 3.0, 3.0]]
    """
    frame = _freed(inputs.sweep_rows(frame, "medians"), y)
    axes = inputs.names("axes", axes)
    for name in names_of([*map(free_name, axes), "optimizer", y]):
        if name not in frame:
            raise InputError(f"the table has no column {name}: give that of qs.sweep, or name one of its columns")
    rows = frame[~frame["status"].isin(["error"])] if "status" in frame else frame
    if rows.empty:
        raise InputError("nothing to draw: " + ("all cells failed" if len(frame) else "the table is empty"))
    if not pd.api.types.is_numeric_dtype(rows[y]) and not rows[y].isna().all():
        raise InputError(f"y must be a column of numbers, got {y}")
    return quartiles(*settled(one_for_each_arrangement(rows), axes, y), y)


def quartiles(rows: pd.DataFrame, names: Sequence[str], y: str) -> pd.DataFrame:
    """`medians` of the output of `settled`."""
    rows = rows.reindex(columns=list(dict.fromkeys([*rows, *USED])))
    keys = sorted(names, key="optimizer".__eq__)  # the optimizer last
    group = _joint([rows[key] for key in keys])
    rows, group = _once_for_each_seed(rows, group, y)
    value, diverged = floats(rows[y]), rows["status"].isin(["diverged"]).to_numpy()
    underflow = rows["status"].isin(["underflow"]).to_numpy() | ((y == "loss") & (value < MIN_LOSS))
    if y in UNTRUSTED:
        value[underflow] = np.nan
    seen = pd.DataFrame({"diverged": diverged, "underflow": underflow, "js_distance": floats(rows["js_distance"])})
    seen["limit"] = seen["predicted"] = np.nan
    if y == "steps_to_tol":
        late = np.isnan(value)
        value[late] = np.inf
        seen["limit"] = np.where(late & ~diverged, floats(rows["last_step"]), np.nan)
        seen["predicted"] = _predicted_steps(floats(rows["tol"]), floats(rows["predicted_rate"]))
    by = seen.assign(value=value, reached=np.isfinite(value)).groupby(group)
    table = rows[list(names)].iloc[np.unique(group, return_index=True)[1]].reset_index(drop=True)
    table["draws"] = by.size()
    table[["reached", "diverged", "underflow"]] = by[["reached", "diverged", "underflow"]].sum()
    for name, share in QUARTILES.items():
        table[name] = by["value"].quantile(share, interpolation="nearest").replace([np.inf, -np.inf], np.nan)
    table["limit"] = by["limit"].max()
    table["predicted"] = by["predicted"].quantile(0.5, interpolation="nearest")
    table["js_distance"] = by["js_distance"].mean()
    whole = [*QUARTILES, "limit"] if y == "steps_to_tol" else []
    return table.astype(dict.fromkeys(whole, "Int64"))


def slopes(frame: pd.DataFrame, axes: Sequence[str] = (), *, x: str = "kappa", y: str = "steps_to_tol") -> pd.DataFrame:
    """The power of x that medians of y grow like: least squares of log10 y on log10 x, by optimizer and other axes.

    Parameters
    ----------
    frame : DataFrame
        One row for each run.
    axes : list of str
        Settings that come first in the table.
    x, y : str
        The columns of the power law.

    Returns
    -------
    DataFrame
        Columns: optimizer, the other axes, ``slope``, ``standard_error``, ``points``. The fit is over the positive
        medians; with fewer than three of them the slope is NaN.

    Examples
    --------
    >>> frame = qs.sweep(case=4, kappa=[100, 1000, 10000], optimizers=["gd", "heavy-ball"], seed=range(3))
    >>> qs.plots.slopes(frame).set_index("optimizer")["slope"].round(1).to_dict()
    {'gd': 1.0, 'heavy-ball': 0.5}
    """
    return fits(medians(frame, names_of([*inputs.names("axes", axes), x]), y), free_name(x))


def fits(table: pd.DataFrame, x: str) -> pd.DataFrame:
    """`slopes`, from the table of medians."""
    keys = ["optimizer", *(name for name in axes_of(table) if name not in ("optimizer", x))]
    group = table.groupby(keys, sort=False, dropna=False).ngroup().to_numpy()
    found = table[keys].drop_duplicates().reset_index(drop=True)
    with np.errstate(divide="ignore", invalid="ignore"):  # non-positive values, groups with too few points
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


def settled(frame: pd.DataFrame, axes: Sequence[str], y: str = "") -> tuple[pd.DataFrame, list[str]]:
    """The rows, and all settings in which runs of one seed may differ.

    These are the given axes, then every further setting that the previous ones do not determine, and the optimizer.
    Values chosen by theory, and settings with a single value for the optimizer, are set to NaN.
    """
    axes, rows = [free_name(name) for name in axes], _freed(frame, y).reset_index(drop=True)
    for name, origin in ORIGINS.items():
        if name in rows and origin in rows:
            rows[name] = rows[name].where(~_follows(rows, name, origin))
    known = {*RESULTS, *ORIGINS.values(), "key", "seed", "optimizer", y}
    settings = [str(name) for name in rows if name not in known and rows[name].nunique(dropna=False) > 1]
    for name in settings:
        if name not in CONDITIONS:
            codes = pd.Series(_codes(rows[name]))
            several = codes.groupby(rows["optimizer"], dropna=False).transform("nunique") > 1
            rows[name] = rows[name].where(several)
        if name not in NAMES and not pd.api.types.is_numeric_dtype(rows[name]):
            rows[name] = _as_numbers(rows[name])
    names = names_of(axes)
    group = _joint([*(rows[name] for name in names), rows["optimizer"]])
    in_order = [*(name for name in CONDITIONS if name in settings), *sorted(set(settings) - set(CONDITIONS))]
    for name in (name for name in in_order if name not in names):
        finer = _joint([pd.Series(group), rows[name]])
        if finer.max() > group.max():
            group, names = finer, [*names, name]
    return rows, names_of([*names, "optimizer"])


def one_for_each_arrangement(frame: pd.DataFrame) -> pd.DataFrame:
    """Merge values of heterogeneity with the same arrangement, and drop repeated runs of the same problem.

    The value that stays is the middle one, unless 0 or 1 is among them.
    """
    if "heterogeneity" not in frame or "arrangement" not in frame or frame["heterogeneity"].nunique(dropna=False) < 2:
        return frame
    frame = frame.reset_index(drop=True)
    known = (frame["arrangement"].notna() & frame["heterogeneity"].notna()).to_numpy()
    same = [name for name in (*ARRANGEMENT_KEYS, "arrangement", "arrangements") if name in frame]
    group = _joint([frame[name] for name in same])
    values, before = floats(frame["heterogeneity"]), _again(frame)
    pairs = pd.DataFrame({"group": group[known], "value": values[known]}).drop_duplicates()
    chosen = pairs.groupby("group")["value"].agg(_representative)
    frame["heterogeneity"] = np.where(known, chosen.reindex(group).to_numpy(), values)
    return frame[~_again(frame) | before].reset_index(drop=True) if "seed" in frame else frame


def arrangement_counts(frame: pd.DataFrame) -> list[dict[str, int]]:
    """The numbers of values of heterogeneity, of distinct arrangements, and of all: one entry for each total."""
    if not {"heterogeneity", "arrangement", "arrangements"} <= set(frame):
        return []
    known = frame.dropna(subset=["heterogeneity", "arrangement", "arrangements"])
    return [
        {
            "values": int(part["heterogeneity"].nunique()),
            "distinct": int(part["arrangement"].nunique()),
            "of": int(part["arrangements"].iloc[0]),
        }
        for _, part in known.groupby("arrangements")
    ]


def axes_of(table: pd.DataFrame) -> list[str]:
    """The axes of a table of medians."""
    names = [str(name) for name in table]
    return names[: names.index("draws")]


def names_of(axes: Sequence[str]) -> list[str]:
    """Each axis once, without seed."""
    return [name for name in dict.fromkeys(axes) if name != "seed"]


def numbers(table: pd.DataFrame) -> dict[str, int]:
    """The numeric axes of a table of medians, and how many values each has."""
    counts = {name: int(table[name].nunique()) for name in axes_of(table) if _is_of_numbers(table[name])}
    return {name: count for name, count in counts.items() if count}


def floats(column: pd.Series) -> np.ndarray:
    return pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan, copy=True)


def broken(table: pd.DataFrame) -> np.ndarray:
    """Where at least half of the runs diverged."""
    return (table["diverged"] * 2 >= table["draws"]).to_numpy(dtype=bool)


def seeds(table: pd.DataFrame | Mapping[str, pd.Series]) -> str:
    """The number of seeds: "5 seeds", or "3 to 5 seeds"."""
    low, high = table["draws"].min(), table["draws"].max()
    return f"{low} seed{'' if low == 1 else 's'}" if low == high else f"{low} to {high} seeds"


def _once_for_each_seed(rows: pd.DataFrame, group: np.ndarray, y: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Drop repeated runs of a seed in a group; different results of one seed raise."""
    if "seed" not in rows:
        return rows, group
    twice = pd.DataFrame({"group": group, "seed": _codes(rows["seed"])})
    again = twice.duplicated().to_numpy()
    if not again.any():
        return rows, group
    results = twice.assign(y=floats(rows[y]), status=_codes(rows["status"]))
    differ = ~results.duplicated().to_numpy() & again
    if differ.any():
        seed, optimizer = rows["seed"].to_numpy()[differ][0], rows["optimizer"].to_numpy()[differ][0]
        raise InputError(
            f"seed {seed} of {optimizer} occurs twice with the same settings and another {y}: "
            "runs are aggregated over seeds only, so a column must distinguish them"
        )
    return rows[~again].reset_index(drop=True), group[~again]


def free_name(name: str) -> str:
    """The name of a setting in the tables, where some names are reserved."""
    return f"{name}_setting" if name in RESERVED else name


def _freed(frame: pd.DataFrame, y: str) -> pd.DataFrame:
    return frame.rename(columns={name: free_name(name) for name in RESERVED if name != y})


def _again(frame: pd.DataFrame) -> np.ndarray:
    """Where settings and seed repeat an earlier row."""
    settings = [name for name in frame if name not in (*RESULTS, "key")]
    return pd.DataFrame({name: _codes(frame[name]) for name in settings}).duplicated().to_numpy()


def _follows(rows: pd.DataFrame, name: str, origin: str) -> np.ndarray:
    """Where a value follows from the problem: from theory, from the spectrum, or a default that varies."""
    follows = rows[origin].isin(["theory", "spectrum"])
    default = rows[origin].isin(["default"])
    if default.any():
        values = pd.Series(_codes(rows[name])).where(default)
        follows |= default & (values.groupby(rows["optimizer"], dropna=False).transform("nunique") > 1)
    return follows.to_numpy(dtype=bool)


def _as_numbers(column: pd.Series) -> pd.Series:
    """A column of objects as numbers, if all values are numbers."""
    values = pd.to_numeric(column, errors="coerce")
    return column if (values.isna() & column.notna()).any() or column.isna().all() else values.astype(float)


def _representative(values: pd.Series) -> float:
    """0 or 1 if it is among the values, otherwise the middle one."""
    if (values == 0).any():
        return 0.0
    return 1.0 if (values == 1).any() else float(values.quantile(interpolation="lower"))


def _joint(columns: Sequence[pd.Series]) -> np.ndarray:
    """A number for each combination of values, in the order of their codes."""
    codes = pd.DataFrame(dict(enumerate(map(_codes, columns))))
    return codes.groupby(list(codes)).ngroup().to_numpy()


def _is_of_numbers(column: pd.Series) -> bool:
    kinds = pd.api.types
    return column.name not in NAMES and kinds.is_numeric_dtype(column) and not kinds.is_bool_dtype(column)


def _codes(column: pd.Series) -> np.ndarray:
    """Integer codes of the values: numbers ascending, text in order of appearance, NaN last."""
    codes, values = pd.factorize(column, sort=_is_of_numbers(column))
    return np.where(codes < 0, len(values), codes)


def _predicted_steps(tol: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """ln tol² / ln rate; infinite for a rate of 1 or more."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(rate < 1, 2 * np.log(tol) / np.log(rate), np.inf)
    return np.where((tol > 0) & (tol < 1) & (rate > 0), steps, np.nan)
