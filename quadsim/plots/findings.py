"""What a figure of a sweep says in sentences: its title, which states the finding, and the key in its caption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from quadsim.plots.medians import (
    UNTRUSTED,
    applicable,
    arrangement_counts,
    axes_of,
    broken,
    fits,
    floats,
    seeds,
)
from quadsim.plots.sheet import heading, here
from quadsim.plots.style import power_of_ten
from quadsim.plots.words import AXES, and_, axis_name, in_sentence, number, place, plain_name, power, setting

Panels = Sequence[Mapping[str, Any]]


def finding(table: pd.DataFrame, x: str, y: str, panels: Panels, labels: Mapping[str, str], *, each: int = 1) -> str:
    """A sentence that states what the lines show, in two lines at most; else what they are."""
    found = None
    if y == "steps_to_tol" and x == "kappa":
        found = _powers(table, panels, labels)
    elif y == "steps_to_tol" and x == "heterogeneity" and len(panels) == 1:
        found = _dealt(table, labels)
    if found and len(heading(found, len(panels) * each)) <= 2:
        return found
    return f"{_beginning(y)} against {plain_name(x)}"


def ranking(table: pd.DataFrame, y: str, panels: Panels, labels: Mapping[str, str]) -> str:
    """Who needs the fewest steps and who the most, if all arrive; else what the dots are."""
    if y != "steps_to_tol" or len(panels) > 1 or len(table) < 2 or table["median"].isna().any():
        return f"{_beginning(y)} by optimizer"
    by = table.sort_values("median")
    (quick, slow), (few, many) = (list(by[name].iloc[[0, -1]]) for name in ("optimizer", "median"))
    return f"{labels[quick]} needs {number(few)} steps, {in_sentence(labels[slow])} {number(many)}"


def topic(x: str, up: str, y: str) -> str:
    return f"{_beginning(y)} by {plain_name(x)} and {plain_name(up)}"


def name_of_y(y: str, frame: pd.DataFrame) -> str:
    """What is on the axis of y, with the tolerance if there is one for all."""
    if y != "steps_to_tol" or "tol" not in frame or frame["tol"].nunique() != 1:
        return axis_name(y)
    tol = float(frame["tol"].dropna().iloc[0])
    exponent = round(np.log10(tol)) if tol > 0 else 0
    exact = np.isclose(tol, 10.0**exponent, rtol=1e-9, atol=0)
    return f"{axis_name(y)} {power_of_ten(exponent) if exact else f'{tol:g}'}"


def key(table: pd.DataFrame, x: str | None, y: str, frame: pd.DataFrame, labels: Mapping[str, str]) -> str:
    """What the marks are in a figure of lines, or without x of dots; how many cells failed."""
    marks = ("Lines", "bands") if x else ("Dots", "bars")
    one = table["draws"].max() == 1
    told = ["One seed for each point." if one else f"{marks[0]}: medians over {seeds(table)}; {marks[1]}: quartiles."]
    steps, diverged, absent = y == "steps_to_tol", broken(table), table["median"].isna()
    told.append(_flat(table, x, labels) if x else "")
    told.append(_repeated(table, x, labels))
    if x and steps and table.loc[table[x].notna(), "predicted"].notna().any():
        told.append("Dashed: theory, ln tol² / ln ρ for the predicted factor ρ on the loss per step.")
    late = (table["reached"] < table["draws"]) & ~diverged & steps
    if (late & absent).any():
        told.append("Open triangles: the median is above the limit on the steps.")
    if x and (late & ~absent & table["upper"].isna()).any():
        told.append("Small triangles: the upper quartile is above the limit on the steps.")
    if (diverged & (absent | (not steps))).any():
        told.append("Crosses: diverged.")
    if not steps and (absent & ~diverged).any():
        told.append(f"Gaps: no {plain_name(y)}.")
    return joined(*told, _left_out(table, y), dealt(table, frame), _failed(frame))


def key_of_maps(table: pd.DataFrame, x: str, up: str, y: str, frame: pd.DataFrame, labels: Mapping[str, str]) -> str:
    """What colours and marks are in a heat map, and who is not drawn; how many cells failed."""
    missing = table[x].isna() | table[up].isna()
    whole = table[~missing]
    told = ["Colours: one seed each." if whole["draws"].max() == 1 else f"Colours: medians over {seeds(whole)}."]
    absent = whole[whole["median"].isna()]
    if len(absent):
        limits = absent["limit"].dropna().unique()
        within = f" within {number(float(limits[0]))} steps" if len(limits) == 1 else ""
        told.append(f"Hatched: tolerance not reached{within}." if y == "steps_to_tol" else "Hatched: no value.")
    if broken(absent).any():
        told.append("Crosses: diverged.")
    if missing.any():
        names = and_([labels[str(name)] for name in table.loc[missing, "optimizer"].unique()])
        told.append(f"Not drawn, for want of {plain_name(x)} or {plain_name(up)}: {names}.")
    return joined(*told, _left_out(table, y), dealt(table, frame), _failed(frame))


def _flat(table: pd.DataFrame, x: str, labels: Mapping[str, str]) -> str:
    """What the horizontal lines are: an absent value of x, or optimizers that x was not swept for."""
    flat = table[table[x].isna()]
    without = [labels[str(name)] for name in flat["optimizer"].unique() if name not in applicable(table)[x]]
    told = [f"{plain_name(x)} not swept ({and_(without)})"] if without else []
    if len(flat) and not flat["optimizer"].isin(without).all() and len(without) < flat["optimizer"].nunique():
        told.insert(0, setting(x, None))
    return f"Horizontal lines: {'; '.join(told)}." if told else ""


def _repeated(table: pd.DataFrame, x: str | None, labels: Mapping[str, str]) -> str:
    """Which settings in the titles of panels are those of some optimizers alone."""
    told = []
    for name, having in applicable(table).items():
        ours = [label for one, label in labels.items() if one in having]
        if name != x and table[name].nunique() > 1 and 0 < len(ours) < len(labels):
            told.append(f"{plain_name(name)} ({and_(ours)})")
    return f"Swept for some optimizers alone, the others repeated: {', '.join(told)}." if told else ""


def dealt(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    """How many values of heterogeneity are how many arrangements, where it is an axis."""
    counts = arrangement_counts(frame) if "heterogeneity" in axes_of(table) else []
    if not counts:
        return ""
    told = "; ".join("{values:,} values are {distinct:,} of {of:,}".format(**one) for one in counts)
    once = ", drawn once each" if any(one["values"] > one["distinct"] for one in counts) else ""
    return f"Heterogeneity: {told} distinct arrangements{once}."


def joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _powers(table: pd.DataFrame, panels: Panels, labels: Mapping[str, str]) -> str | None:
    """The powers of κ: first of the optimizers that have the same in all panels, then of each other one."""
    found, has = fits(table, "kappa"), applicable(table)
    poor = set(found.loc[~(found["standard_error"] <= 0.05), "optimizer"])  # no power law, or not known to be one
    if 2 * len(poor) > len(labels):
        return None
    level: dict[str, list[str]] = {}
    varied = []
    for name in [name for name in labels if name not in poor]:
        ours, label = found[found["optimizer"] == name], in_sentence(labels[name])
        slopes = {place(panel): slope for panel in panels for slope in here(ours, panel, has)["slope"].head(1)}
        if not slopes:
            continue
        low, high = min(slopes.values()), max(slopes.values())
        if high - low < 0.03:
            level.setdefault(power(float(np.mean(list(slopes.values())))), []).append(label)
        elif len(slopes) > 3:
            varied.append(f"for {label} like κ^{power(low)} to κ^{power(high)}")
        else:
            told = (f"κ^{power(slope)} {'in' if at.startswith('case') else 'at'} {at}" for at, slope in slopes.items())
            varied.append(f"for {label} like {', '.join(told)}")
    same = [f"κ^{slope} for {and_(those)}" for slope, those in level.items()]
    if same:  # a second "and" would be hard to read
        varied.insert(0, "like " + (", ".join(same) if any(len(those) > 1 for those in level.values()) else and_(same)))
    return "Steps grow " + "; ".join(varied) if varied else None


def _dealt(table: pd.DataFrame, labels: Mapping[str, str]) -> str | None:
    """What it does to each optimizer how the eigenvalues are dealt to blocks."""
    told: list[str] = []
    for name, label in labels.items():
        line = table[(table["optimizer"] == name) & table["heterogeneity"].notna()].sort_values("heterogeneity")
        values = floats(line["median"])
        if len(values) < 2 or np.isnan(values).any():
            return None
        who, first, last = in_sentence(label) if told else label, values[0], values[-1]
        if values.max() <= 1.1 * values.min():
            told.append(f"{who} needs {number(float(np.median(values)))} steps however the eigenvalues are dealt")
        else:
            verb = "falls" if last == values.min() else "rises" if last == values.max() else "goes"
            told.append(f"{who} {verb} from {number(first)} to {number(last)}")
    return "; ".join(told)


def _left_out(table: pd.DataFrame, y: str) -> str:
    count = int(table["underflow"].sum()) if y in UNTRUSTED else 0
    return f"Left out: {count:,} of {table['draws'].sum():,} runs, which left float64's range." if count else ""


def _failed(frame: pd.DataFrame) -> str:
    count = int(frame["status"].eq("error").sum()) if "status" in frame else 0
    return f"{count:,} {'cell' if count == 1 else 'cells'} failed." if count else ""


def _beginning(y: str) -> str:
    told = AXES.get(y, y.replace("_", " ")).split(",")[0]
    return told[0].upper() + told[1:] if told[0].isascii() else told
