"""Titles and captions of sweep figures: what is drawn, what the marks mean, what was left out."""

from __future__ import annotations

import pandas as pd

from quadsim._format import enumerated, in_words
from quadsim.plots.aggregate import UNTRUSTED, arrangement_counts, axes_of, broken, seeds
from quadsim.plots.labels import axis_name, plain_name, setting
from quadsim.plots.sweep_panels import Sweep
from quadsim.plots.text import default_rates


def title_of(y: str, *axes: str, word: str = "by") -> str:
    """ "Steps to tolerance against κ"."""
    name = axis_name(y).split(",")[0]
    name = name[0].upper() + name[1:] if name[0].isascii() else name
    return f"{name} {word} {enumerated([plain_name(axis) for axis in axes])}"


def caption_of(sweep: Sweep, x: str | None = None, up: str | None = None) -> str:
    """The caption of heat maps over x and up, of lines against x, or of dots: the marks and what was left out."""
    table, steps = sweep.table, sweep.y == "steps_to_tol"
    drawn = table.dropna(subset=[x, up]) if up else table
    several = drawn["draws"].max() > 1
    absent, diverged = drawn["median"].isna(), broken(drawn)
    late = (drawn["reached"] < drawn["draws"]) & ~diverged & steps
    lost = int(table["underflow"].sum()) if sweep.y in UNTRUSTED else 0
    failed = int(sweep.frame["status"].eq("error").sum()) if "status" in sweep.frame else 0
    notes: list[tuple[object, str]] = [(not several, "One seed for each point.")]
    if x and up:
        limits = drawn.loc[absent, "limit"].dropna().unique()
        within = f" within {in_words(float(limits[0]))} steps" if len(limits) == 1 else ""
        names = [sweep.labels[name] for name in table.loc[table[[x, up]].isna().any(axis=1), "optimizer"].unique()]
        notes += [
            (several, f"Colours: medians over {seeds(drawn)}."),
            (absent.any(), f"Hatched: {f'tolerance not reached{within}' if steps else 'no value'}."),
            ((diverged & absent).any(), "Crosses: diverged."),
            (names, f"Not drawn, without {plain_name(x)} or {plain_name(up)}: {enumerated(names)}."),
        ]
    else:
        lines, bands = ("Lines", "bands") if x else ("Dots", "bars")
        flat, repeated = _horizontal_lines(sweep, x) if x else [], _repeated_optimizers(sweep, x)
        predicted = x and steps and table.loc[table[x].notna(), "predicted"].notna().any()
        notes += [
            (several, f"{lines}: medians over {seeds(table)}; {bands}: quartiles."),
            (flat, f"Horizontal lines: {'; '.join(flat)}."),
            (repeated, f"Swept for some optimizers only, the others are repeated: {', '.join(repeated)}."),
            (predicted, "Dashed: theory, ln tol² / ln ρ for the predicted factor ρ on the loss per step."),
            ((late & absent).any(), "Open triangles: the median is above the limit on the steps."),
            (
                x and (late & ~absent & table["upper"].isna()).any(),
                "Small triangles: the upper quartile is above the limit on the steps.",
            ),
            ((diverged & (absent | (not steps))).any(), "Crosses: diverged."),
            (not steps and (absent & ~diverged).any(), f"Gaps: no {plain_name(sweep.y)}."),
        ]
    notes += [
        (lost, f"Left out: {lost:,} of {table['draws'].sum():,} runs, which left float64's range."),
        (True, arrangement_caption(table, sweep.frame)),
        (True, _default_rates(sweep)),
        (failed, f"{failed:,} {'cell' if failed == 1 else 'cells'} failed."),
    ]
    return joined(*(sentence for condition, sentence in notes if condition))


def _default_rates(sweep: Sweep) -> str:
    """Whose learning rates are library defaults, if others are the best in closed form."""
    if "lr_from" not in sweep.frame or not {"default", "theory"} <= set(sweep.frame["lr_from"]):
        return ""
    pairs = sweep.frame[["optimizer", "lr_from"]].drop_duplicates().itertuples(index=False, name=None)
    return default_rates((sweep.labels[name], origin) for name, origin in pairs if name in sweep.labels)


def arrangement_caption(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    """How many values of heterogeneity give how many distinct arrangements, where it is an axis."""
    counts = arrangement_counts(frame) if "heterogeneity" in axes_of(table) else []
    if not counts:
        return ""
    texts = "; ".join("{values:,} values are {distinct:,} of {of:,}".format(**count) for count in counts)
    once = ", drawn once each" if any(count["values"] > count["distinct"] for count in counts) else ""
    return f"Heterogeneity: {texts} distinct arrangements{once}."


def joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _horizontal_lines(sweep: Sweep, x: str) -> list[str]:
    """The meanings of horizontal lines: an absent value of x, or optimizers that x was not swept for."""
    flat = sweep.table.loc[sweep.table[x].isna(), "optimizer"]
    without = [name for name in flat.unique() if name not in sweep.has[x]]
    meanings = [] if flat.isin(without).all() else [setting(x, None)]
    if without:
        meanings.append(f"{plain_name(x)} not swept ({enumerated([sweep.labels[name] for name in without])})")
    return meanings


def _repeated_optimizers(sweep: Sweep, x: str | None) -> list[str]:
    """Settings in the panel titles that only some optimizers have."""
    settings = []
    for name, having in sweep.has.items():
        labels = [label for optimizer, label in sweep.labels.items() if optimizer in having]
        if name != x and sweep.table[name].nunique() > 1 and 0 < len(labels) < len(sweep.labels):
            settings.append(f"{plain_name(name)} ({enumerated(labels)})")
    return settings
