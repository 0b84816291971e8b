"""Titles and captions of sweep figures: what is drawn, what the marks mean, what was left out."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from quadsim._format import in_words
from quadsim.plots.aggregate import UNTRUSTED, applicable, arrangement_counts, axes_of, broken, seeds
from quadsim.plots.labels import axis_name, plain_name, setting


def title_of(y: str, *axes: str, word: str = "by") -> str:
    """ "Steps to tolerance against κ"."""
    name = axis_name(y).split(",")[0]
    name = name[0].upper() + name[1:] if name[0].isascii() else name
    return f"{name} {word} {_listed([plain_name(axis) for axis in axes])}"


def line_caption(table: pd.DataFrame, x: str | None, y: str, frame: pd.DataFrame, labels: Mapping[str, str]) -> str:
    """The caption of lines against x, or without x of dots."""
    marks = ("Lines", "bands") if x else ("Dots", "bars")
    single = table["draws"].max() == 1
    steps, diverged, absent = y == "steps_to_tol", broken(table), table["median"].isna()
    late = (table["reached"] < table["draws"]) & ~diverged & steps
    return joined(
        "One seed for each point." if single else f"{marks[0]}: medians over {seeds(table)}; {marks[1]}: quartiles.",
        _horizontal_lines(table, x, labels) if x else "",
        _repeated_optimizers(table, x, labels),
        "Dashed: theory, ln tol² / ln ρ for the predicted factor ρ on the loss per step."
        if x and steps and table.loc[table[x].notna(), "predicted"].notna().any()
        else "",
        "Open triangles: the median is above the limit on the steps." if (late & absent).any() else "",
        "Small triangles: the upper quartile is above the limit on the steps."
        if x and (late & ~absent & table["upper"].isna()).any()
        else "",
        "Crosses: diverged." if (diverged & (absent | (not steps))).any() else "",
        f"Gaps: no {plain_name(y)}." if not steps and (absent & ~diverged).any() else "",
        _exclusions(table, y, frame),
    )


def map_caption(table: pd.DataFrame, x: str, up: str, y: str, frame: pd.DataFrame, labels: Mapping[str, str]) -> str:
    """The caption of heat maps over x and up."""
    missing = table[x].isna() | table[up].isna()
    drawn = table[~missing]
    absent = drawn[drawn["median"].isna()]
    limits = absent["limit"].dropna().unique()
    within = f" within {in_words(float(limits[0]))} steps" if len(limits) == 1 else ""
    hatched = f"tolerance not reached{within}" if y == "steps_to_tol" else "no value"
    names = [labels[str(name)] for name in table.loc[missing, "optimizer"].unique()]
    return joined(
        "Colours: one seed each." if drawn["draws"].max() == 1 else f"Colours: medians over {seeds(drawn)}.",
        f"Hatched: {hatched}." if len(absent) else "",
        "Crosses: diverged." if broken(absent).any() else "",
        f"Not drawn, without {plain_name(x)} or {plain_name(up)}: {_listed(names)}." if names else "",
        _exclusions(table, y, frame),
    )


def arrangement_caption(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    """How many values of heterogeneity give how many distinct arrangements, where it is an axis."""
    counts = arrangement_counts(frame) if "heterogeneity" in axes_of(table) else []
    if not counts:
        return ""
    listed = "; ".join("{values:,} values are {distinct:,} of {of:,}".format(**one) for one in counts)
    once = ", drawn once each" if any(one["values"] > one["distinct"] for one in counts) else ""
    return f"Heterogeneity: {listed} distinct arrangements{once}."


def joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _horizontal_lines(table: pd.DataFrame, x: str, labels: Mapping[str, str]) -> str:
    """What the horizontal lines are: an absent value of x, or optimizers that x was not swept for."""
    flat = table[table[x].isna()]
    without = [str(name) for name in flat["optimizer"].unique() if name not in applicable(table)[x]]
    parts = [f"{plain_name(x)} not swept ({_listed([labels[name] for name in without])})"] if without else []
    if len(flat) and not flat["optimizer"].isin(without).all():
        parts.insert(0, setting(x, None))
    return f"Horizontal lines: {'; '.join(parts)}." if parts else ""


def _repeated_optimizers(table: pd.DataFrame, x: str | None, labels: Mapping[str, str]) -> str:
    """Settings in the panel titles that only some optimizers have."""
    parts = []
    for name, having in applicable(table).items():
        ours = [label for one, label in labels.items() if one in having]
        if name != x and table[name].nunique() > 1 and 0 < len(ours) < len(labels):
            parts.append(f"{plain_name(name)} ({_listed(ours)})")
    return f"Swept for some optimizers only, the others are repeated: {', '.join(parts)}." if parts else ""


def _exclusions(table: pd.DataFrame, y: str, frame: pd.DataFrame) -> str:
    """What was left out: runs that underflowed, repeated arrangements, failed cells."""
    lost = int(table["underflow"].sum()) if y in UNTRUSTED else 0
    failed = int(frame["status"].eq("error").sum()) if "status" in frame else 0
    return joined(
        f"Left out: {lost:,} of {table['draws'].sum():,} runs, which left float64's range." if lost else "",
        arrangement_caption(table, frame),
        f"{failed:,} {'cell' if failed == 1 else 'cells'} failed." if failed else "",
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
