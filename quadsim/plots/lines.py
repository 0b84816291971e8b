"""Lines against a swept axis: medians with quartiles, theory, marks for missing medians, a label at each end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from quadsim.plots.aggregate import (
    QUARTILES,
    applicable,
    axes_of,
    broken,
    fits,
    floats,
    free_name,
    medians,
    names_of,
    numbers,
)
from quadsim.plots.captions import joined, line_caption, title_of
from quadsim.plots.labels import AXES, axis_name, labels_of, panel_title, power, y_label
from quadsim.plots.layout import PanelGrid, label_right, style_context
from quadsim.plots.scales import Heights, Scale
from quadsim.plots.style import colours_of, style_of
from quadsim.plots.sweep_panels import column_count, panels_of, rows_of_panel
from quadsim.plots.text import width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def against(
    frame: pd.DataFrame,
    x: str = "kappa",
    *,
    axes: Sequence[str] = (),
    y: str = "steps_to_tol",
    title: str | None = None,
    caption: str = "",
) -> Figure:
    """Medians of y against x with quartiles as a band: a line for each optimizer, a panel for each of the other axes.

    Settings in which runs differ but that are not among `axes` get panels too: only seeds are aggregated. Against kappa
    the label of a line has its slope. Against heterogeneity there is a second panel, against the distance between the
    blocks' spectra that it makes. A value of x that is absent, or an optimizer without x, is a horizontal line.
    """
    from matplotlib.lines import Line2D

    x = free_name(x)
    table = medians(frame, names_of([*axes, x]), y)
    names = axes_of(table)
    if x not in numbers(table, names):
        raise ValueError(f"x must be an axis of numbers, got {x}")
    labels = labels_of(frame, table)
    colours = colours_of(list(labels))
    has = applicable(table)
    panels = panels_of(table, [name for name in names if name not in (x, "optimizer")], has)
    parts = [rows_of_panel(table, panel, has) for panel in panels]
    scale, heights = Scale.of(table[x]), Heights.of(table, y)
    slopes: list[dict[str, str]] = [{} for _ in panels]
    if x == "kappa" and heights.log:
        fitted = fits(table, x).dropna(subset="slope")
        ours = [rows_of_panel(fitted, panel, has) for panel in panels]
        slopes = [dict(zip(part["optimizer"], map(power, part["slope"]), strict=True)) for part in ours]
    each = 2 if x == "heterogeneity" and table["js_distance"].notna().any() else 1  # panels per combination
    columns = 2 if each == 2 else column_count(len(panels))
    height = 2.15 if len(panels) * each > 1 else 2.9
    with style_context(8):
        before = ", slope " if columns == 1 else "\nslope "
        texts = [
            {
                name: labels[name] + (before + slope[name] if name in slope else "")
                for name in part["optimizer"].unique()
            }
            for part, slope in zip(parts, slopes, strict=True)
        ]
        legend = []
        if columns == 3 or not _fit(texts, height) or not _all_reach_the_end(table, x, scale):
            texts = [{name: f"κ^{slope}" for name, slope in of_panel.items()} for of_panel in slopes]
            texts = texts if _fit(texts, height) else [{} for _ in panels]
            legend = [
                Line2D([], [], color=colours[name], linestyle=style_of(name).stroke, linewidth=1.5, label=label)
                for name, label in labels.items()
            ]
        beside = width_of([text for ends in texts for text in ends.values()], bold=True)
        grid = PanelGrid(
            [text for panel in panels for text in (panel_title(panel), "")[:each]],
            columns,
            height,
            title=title_of(y, x, word="against") if title is None else title,
            caption=joined(caption, line_caption(table, x, y, frame, labels)),
            xlabels=[axis_name(x), AXES["js_distance"]][:each],
            ylabel=y_label(y, frame),
            legend=legend,
            left=0.24 + heights.width(),
            beside=beside + 0.17 if beside else 0.0,
            beside_first=each == 2,
        )
        marks = _Marks.of(table, y, list(labels), 72 * height)
        for number, part in enumerate(parts):
            main = grid.axes[number * each]
            ends = _lines(main, part, x, scale, heights, colours, marks, steps=y == "steps_to_tol")
            known = [name for name in colours if name in ends and name in texts[number]]  # in the order of the marks
            known.sort(key=lambda name: ends[name])
            label_right(main, [(ends[name], texts[number][name], colours[name]) for name in known])
            if each == 2:
                _along_distance(grid.axes[2 * number + 1], part, x, heights, colours, marks, steps=y == "steps_to_tol")
        grid.label_axes()
    return grid.figure


@dataclass(frozen=True)
class _Marks:
    """Optimizers with marks for medians that were not reached: each has its own row at the top of all panels."""

    names: list[str]
    spacing: float  # points
    above: float  # room for the marks, as a share of the axis below

    @staticmethod
    def of(table: pd.DataFrame, y: str, names: Sequence[str], height: float) -> _Marks:
        absent = table["upper"].isna() & (table["reached"] < table["draws"]) & (y == "steps_to_tol")
        marked = set(table.loc[absent | broken(table), "optimizer"])
        spacing = min(4.5, 0.3 * height / max(len(marked), 1))
        share = (5 + spacing * len(marked)) / height
        return _Marks([name for name in names if name in marked], spacing, 1.05 * share / (1 - share))

    def row(self, name: str) -> float:
        """The height of an optimizer's marks above the limit, in points."""
        return self.spacing * self.names.index(name) if name in self.names else 0.0


@dataclass(frozen=True)
class _Points:
    """The medians of a line, NaN where they were not reached, and the marks for those."""

    median: np.ndarray
    diverged: np.ndarray
    gone: np.ndarray  # the median was not reached
    partly: np.ndarray  # the upper quartile was not reached
    beyond: np.ndarray  # the height of a mark

    @staticmethod
    def of(line: pd.DataFrame, heights: Heights, *, steps: bool) -> _Points:
        median, upper, limit = (floats(line[name]) for name in ("median", "upper", "limit"))
        diverged = broken(line)
        median[diverged & (median > heights.high)] = np.nan
        gone = np.isnan(median) & (steps | diverged)
        partly = np.isfinite(median) & np.isnan(upper) & np.isfinite(limit)
        return _Points(median, diverged, gone, partly, np.where(diverged | ~np.isfinite(limit), heights.high, limit))

    def mark(self, axes: Axes, at: np.ndarray, colour: str, marks: _Marks, name: str) -> None:
        kinds = (self.gone & ~self.diverged, "^", 4.0), (self.partly, "^", 2.6), (self.gone & self.diverged, "x", 3.5)
        for chosen, mark, size in kinds:
            if chosen.any():
                _mark(axes, at[chosen], self.beyond[chosen], mark, size, colour, marks.row(name))


def _lines(
    axes: Axes,
    part: pd.DataFrame,
    x: str,
    scale: Scale,
    heights: Heights,
    colours: Mapping[str, str],
    marks: _Marks,
    *,
    steps: bool,
) -> dict[str, float]:
    """Draw bands, medians, theory and marks; returns the height at which each optimizer's line ends."""
    ends: dict[str, float] = {}
    for name, both in part.groupby("optimizer", sort=False):
        colour, stroke = colours[str(name)], style_of(str(name)).stroke
        flat, line = both[both[x].isna()], both[both[x].notna()].sort_values(x)
        at = scale.positions(floats(line[x]))
        lower, upper, limit, theory = (floats(line[c]) for c in ("lower", "upper", "limit", "predicted"))
        points = _Points.of(line, heights, steps=steps)
        top = np.where(np.isfinite(upper), upper, limit)
        banded = np.isfinite(lower + top) & (line["draws"] > 1).to_numpy() & ~(points.gone & points.diverged)
        if banded.any():
            axes.fill_between(at, lower, top, where=list(banded), color=colour, alpha=0.18, linewidth=0)
        if at.size == 1 and banded.any():
            axes.vlines(at, lower, top, color=colour, alpha=0.35, linewidth=3)
        axes.plot(at, points.median, color=colour, linestyle=stroke, linewidth=1.4, marker="o",
                  markersize=2.6 if at.size <= 60 else 0)  # fmt: skip
        if np.isfinite(theory).any():
            axes.plot(at, np.where(np.isfinite(theory), theory, np.nan), color=colour, linewidth=0.8,
                      linestyle=(0, (4, 2.5)), gid="theory")  # fmt: skip
        points.mark(axes, at, colour, marks, str(name))
        drawn = np.where(points.gone, points.beyond, points.median)
        row = marks.row(str(name))
        levels = [*drawn[np.isfinite(drawn)][-1:], *_level(axes, flat, heights, colour, stroke, row, steps=steps)]
        if levels:
            ends[str(name)] = float(levels[0])
    scale.set(axes.xaxis, room=0.04)
    heights.set(axes.yaxis, above=marks.above)
    return ends


def _mark(
    axes: Axes, at: np.ndarray, height: np.ndarray, mark: str, size: float, colour: str, points: float, base: Any = None
) -> None:
    """Draw marks some points above the limit."""
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(0, points / 72, axes.get_figure().dpi_scale_trans)  # type: ignore[union-attr]
    axes.plot(at, height, mark, color=colour, markerfacecolor="none", markersize=size, markeredgewidth=0.8,
              transform=(axes.transData if base is None else base) + shift, clip_on=False)  # fmt: skip


def _level(
    axes: Axes, flat: pd.DataFrame, heights: Heights, colour: str, stroke: Any, points: float, *, steps: bool
) -> list[float]:
    """Draw a horizontal line where x is absent, dotted and marked if not reached; returns its height."""
    levels = []
    columns = (floats(flat[c]) for c in (*QUARTILES, "limit"))
    for lower, median, upper, limit, diverged in zip(*columns, broken(flat), strict=True):
        reached = np.isfinite(median) and not (diverged and median > heights.high)
        if not reached and not (steps or diverged):
            continue
        beyond = heights.high if diverged or not np.isfinite(limit) else limit
        level = float(median if reached else beyond)
        axes.axhline(level, color=colour, linestyle=stroke if reached else ":", linewidth=1.2)
        if not reached:
            middle = np.array([0.5]), np.array([level])
            _mark(axes, *middle, "x" if diverged else "^", 4.0, colour, points, axes.get_yaxis_transform())
        elif upper > lower:
            axes.axhspan(lower, upper, color=colour, alpha=0.12, linewidth=0)
        levels.append(level)
    return levels


def _along_distance(
    axes: Axes,
    part: pd.DataFrame,
    x: str,
    heights: Heights,
    colours: Mapping[str, str],
    marks: _Marks,
    *,
    steps: bool,
) -> None:
    """Draw the medians against the mean distance between the spectra of the blocks."""
    for name, line in part[part[x].notna()].sort_values(x, kind="stable").groupby("optimizer", sort=False):
        colour, at, points = colours[str(name)], floats(line["js_distance"]), _Points.of(line, heights, steps=steps)
        axes.plot(at, points.median, color=colour, linewidth=0.9, linestyle=style_of(str(name)).stroke, marker="o",
                  markersize=3)  # fmt: skip
        points.mark(axes, at, colour, marks, str(name))
    largest = float(np.log(2))
    axes.axvline(largest, color="#999999", linewidth=0.8, linestyle=":", zorder=0)
    axes.set_xlim(-0.03 * largest, 1.03 * largest)
    axes.set_xticks([0, 0.2, 0.4, 0.6, largest], ["0", "0.2", "0.4", "0.6", "ln 2"])
    heights.set(axes.yaxis, above=marks.above)


def _fit(texts: Sequence[Mapping[str, str]], height: float) -> bool:
    """Whether the labels of each panel fit beside it."""
    return max(sum(text.count("\n") + 1 for text in labels.values()) for labels in texts) * 0.128 <= height


def _all_reach_the_end(table: pd.DataFrame, x: str, scale: Scale) -> bool:
    """Whether every line ends near the right side of its panel, where its label is."""
    last = table.groupby("optimizer", sort=False)[x].max().dropna().to_numpy(dtype=float)
    ends = scale.positions(np.append(scale.values[[0, -1]], last))
    ends = np.log10(ends) if scale.kind == "log" else ends
    return bool((ends[2:] - ends[0] >= 0.8 * (ends[1] - ends[0])).all())
