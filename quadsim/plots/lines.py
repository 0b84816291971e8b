"""Lines against a swept axis: medians with quartiles, theory, what was not reached, and a label at each end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from quadsim.plots.canvas import spread
from quadsim.plots.findings import finding, joined, key, name_of_y
from quadsim.plots.medians import (
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
from quadsim.plots.scales import Heights, Scale
from quadsim.plots.sheet import Sheet, columns_of, here, panels_of
from quadsim.plots.style import LINES, STYLE, colours_of, width_of
from quadsim.plots.words import AXES, axis_name, labels_of, place, power

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
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Medians of y against x with quartiles as a band: a line for each optimizer, a panel for each of the other axes.

    Settings in which runs differ but that are not among `axes` get panels too: only seeds are aggregated. Against kappa
    the label of a line has its slope. Against heterogeneity there is a second panel, against the distance between the
    blocks' spectra that it makes. A value of x that is absent, or an optimizer without x, is a horizontal line.
    """
    import matplotlib
    from matplotlib.lines import Line2D

    x = free_name(x)
    table = medians(frame, names_of([*axes, x]), y)
    names = axes_of(table)
    if x not in numbers(table, names):
        raise ValueError(f"x must be an axis of numbers, got {x}")
    called = labels_of(frame, table, labels)
    colours = colours_of(list(called))
    each = 2 if x == "heterogeneity" and table["js_distance"].notna().any() else 1
    has = applicable(table)
    panels = panels_of(table, [name for name in names if name not in (x, "optimizer")], has)
    parts = [here(table, panel, has) for panel in panels]
    scale, heights = Scale.of(table[x]), Heights.of(table, y)
    slopes: list[dict[str, str]] = [{} for _ in panels]
    if x == "kappa" and heights.log:
        found = fits(table, x).dropna(subset="slope")
        ours = [here(found, panel, has) for panel in panels]
        slopes = [dict(zip(part["optimizer"], map(power, part["slope"]), strict=True)) for part in ours]
    columns = 2 if each == 2 else columns_of(len(panels))
    tall = 2.15 if len(panels) * each > 1 else 2.9
    with matplotlib.rc_context({**STYLE, "font.size": 8}):
        before = ", slope " if columns == 1 else "\nslope "
        texts = [
            {name: called[name] + (before + told[name] if name in told else "") for name in part["optimizer"].unique()}
            for part, told in zip(parts, slopes, strict=True)
        ]
        legend = []
        if columns == 3 or not _fit(texts, tall) or not _all_reach_the_end(table, x, scale):
            texts = [{name: f"κ^{slope}" for name, slope in told.items()} for told in slopes]
            texts = texts if _fit(texts, tall) else [{} for _ in panels]
            legend = [
                Line2D([], [], color=colours[name], linestyle=LINES.get(name, "-"), linewidth=1.5, label=label)
                for name, label in called.items()
            ]
        beside = width_of([text for ends in texts for text in ends.values()], bold=True)
        sheet = Sheet(
            [told for panel in panels for told in (place(panel), "")[:each]], columns, tall,
            title=finding(table, x, y, panels, called, each=each) if title is None else title,
            caption=joined(caption, key(table, x, y, frame, called)),
            across=[axis_name(x), AXES["js_distance"]][:each], up=name_of_y(y, frame), legend=legend,
            left=0.24 + heights.width(), beside=beside + 0.17 if beside else 0.0, once=each == 2,
        )  # fmt: skip
        marks = _Marks.of(table, y, list(called), 72 * tall)
        for number, part in enumerate(parts):
            main = sheet.axes[number * each]
            ends = _lines(main, part, x, scale, heights, colours, marks, steps=y == "steps_to_tol")
            _label_ends(main, ends, texts[number], colours)
            if each == 2:
                _along_distance(sheet.axes[2 * number + 1], part, x, heights, colours, marks, steps=y == "steps_to_tol")
        sheet.finish()
    return sheet.figure


@dataclass(frozen=True)
class _Marks:
    """Who has marks for what was not reached: each optimizer has a row of its own at the top of all panels."""

    names: list[str]
    apart: float  # points
    above: float  # room for them, beside the height of what is below

    @staticmethod
    def of(table: pd.DataFrame, y: str, names: Sequence[str], tall: float) -> _Marks:
        absent = table["upper"].isna() & (table["reached"] < table["draws"]) & (y == "steps_to_tol")
        those = set(table.loc[absent | broken(table), "optimizer"])
        apart = min(4.5, 0.3 * tall / max(len(those), 1))
        share = (5 + apart * len(those)) / tall
        return _Marks([name for name in names if name in those], apart, 1.05 * share / (1 - share))

    def row(self, name: str) -> float:
        """How many points above a limit the marks of an optimizer are."""
        return self.apart * self.names.index(name) if name in self.names else 0.0


@dataclass(frozen=True)
class _Points:
    """The medians of a line, absent where they were not reached, and the marks for those."""

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
    """Bands, medians, theory and what was not reached; the height at which each optimizer's line ends."""
    ends: dict[str, float] = {}
    for name, both in part.groupby("optimizer", sort=False):
        colour, stroke = colours[str(name)], LINES.get(str(name), "-")
        flat, line = both[both[x].isna()], both[both[x].notna()].sort_values(x)
        at = scale.place(floats(line[x]))
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
    """Marks for what was not reached, some points above the limit."""
    from matplotlib.transforms import ScaledTranslation

    shift = ScaledTranslation(0, points / 72, axes.get_figure().dpi_scale_trans)  # type: ignore[union-attr]
    axes.plot(at, height, mark, color=colour, markerfacecolor="none", markersize=size, markeredgewidth=0.8,
              transform=(axes.transData if base is None else base) + shift, clip_on=False)  # fmt: skip


def _level(
    axes: Axes, flat: pd.DataFrame, heights: Heights, colour: str, stroke: Any, points: float, *, steps: bool
) -> list[float]:
    """A horizontal line where x is absent, dotted and marked where the median was not reached; its height."""
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
    """The medians once more, against the mean distance between the blocks' spectra."""
    for name, line in part[part[x].notna()].sort_values(x, kind="stable").groupby("optimizer", sort=False):
        colour, at, points = colours[str(name)], floats(line["js_distance"]), _Points.of(line, heights, steps=steps)
        axes.plot(at, points.median, color=colour, linewidth=0.9, linestyle=LINES.get(str(name), "-"), marker="o",
                  markersize=3)  # fmt: skip
        points.mark(axes, at, colour, marks, str(name))
    most = float(np.log(2))
    axes.axvline(most, color="#999999", linewidth=0.8, linestyle=":", zorder=0)
    axes.set_xlim(-0.03 * most, 1.03 * most)
    axes.set_xticks([0, 0.2, 0.4, 0.6, most], ["0", "0.2", "0.4", "0.6", "ln 2"])
    heights.set(axes.yaxis, above=marks.above)


def _fit(texts: Sequence[Mapping[str, str]], tall: float) -> bool:
    return max(len(ends) * _lines_in(ends) for ends in texts) * 0.128 <= tall


def _lines_in(texts: Mapping[str, str]) -> int:
    return max((text.count("\n") + 1 for text in texts.values()), default=1)


def _all_reach_the_end(table: pd.DataFrame, x: str, scale: Scale) -> bool:
    """Whether every line ends so far to the right that a label beside the panel is beside its end."""
    last = table.groupby("optimizer", sort=False)[x].max().dropna().to_numpy(dtype=float)
    ends = scale.place(np.append(scale.values[[0, -1]], last))
    ends = np.log10(ends) if scale.kind == "log" else ends
    return bool((ends[2:] - ends[0] >= 0.8 * (ends[1] - ends[0])).all())


def _label_ends(axes: Axes, ends: Mapping[str, float], texts: Mapping[str, str], colours: Mapping[str, str]) -> None:
    """Write labels beside the panel at the heights of the lines' ends, pushed apart where they would touch."""
    known = [name for name in colours if name in ends and name in texts]  # in the order of the marks above a limit
    if not known:
        return
    names = sorted(known, key=lambda name: ends[name])
    tall = axes.get_position().height * axes.get_figure().get_figheight() * 72  # type: ignore[union-attr]
    wanted = axes.transAxes.inverted().transform(axes.transData.transform([(1, ends[name]) for name in names]))[:, 1]
    wanted = np.clip(wanted, 0, 1) * tall
    for name, at, level in zip(names, spread(wanted, 9.2 * _lines_in(texts), tall), wanted, strict=True):
        colour = colours[name]
        if abs(at - level) > 3:
            thin = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 1.5}
            axes.annotate("", (1, level / tall), xycoords="axes fraction", xytext=(8, at - level),
                          textcoords="offset points", arrowprops=thin, annotation_clip=False)  # fmt: skip
        axes.annotate(texts[name], (1, 0), xycoords="axes fraction", xytext=(9, at), textcoords="offset points",
                      va="center", color=colour, fontsize=7.5, fontweight="bold", linespacing=1.0,
                      annotation_clip=False)  # fmt: skip
