"""Sweep figures: from a table with one row per run, lines, heat maps or dots, whichever suits the swept axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from quadsim._format import in_words
from quadsim.plots.aggregate import (
    QUARTILES,
    applicable,
    axes_of,
    broken,
    floats,
    free_name,
    medians,
    names_of,
    numbers,
)
from quadsim.plots.captions import joined, line_caption, map_caption, title_of
from quadsim.plots.labels import axis_name, labels_of, panel_title, y_label
from quadsim.plots.layout import PanelGrid, style_context
from quadsim.plots.lines import against
from quadsim.plots.scales import Heights, Scale, log_ticks
from quadsim.plots.style import colours_of
from quadsim.plots.sweep_panels import TooManyPanels, column_count, panels_of, rows_of_panel
from quadsim.plots.text import width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MAX_LINE_PANELS = 12  # up to here, lines with panels are drawn instead of maps that would omit an optimizer


def sweep_figure(
    frame: pd.DataFrame,
    *,
    axes: Sequence[str] = (),
    x: str | None = None,
    y: str = "steps_to_tol",
    title: str | None = None,
    caption: str = "",
) -> Figure:
    """`heat_maps` over two swept axes of numbers, `against` one of them, or `dots` without any.

    Every combination of settings is drawn. If an optimizer lacks one of two axes, lines are drawn if their panels are
    not too many; otherwise the caption names it.

    Parameters
    ----------
    frame :
        One row for each run: settings, optimizer and results.
    axes :
        The swept columns, in order. Runs that differ in other settings are not pooled: medians are over seeds only.
    x :
        The horizontal axis; by default kappa, or the first axis.
    title :
        The title; by default what is drawn.
    """
    x = free_name(x) if x else None
    table = medians(frame, names_of([*axes, *([x] if x else [])]), y)
    names, has = axes_of(table), applicable(table)
    counts = numbers(table, names)
    if x and x not in counts:
        raise ValueError(f"x must be an axis of numbers, got {x}")
    swept = {name: count for name, count in counts.items() if count > 1 or name == x} or counts
    whole = {
        name: n for name, n in swept.items() if not table.loc[table["optimizer"].isin(has[name]), name].isna().any()
    }
    options: dict[str, Any] = {"axes": names, "y": y, "title": title, "caption": caption}
    if not swept:
        return dots(frame, **options)
    left_out = table[list(swept)].isna().any(axis=None) and min(swept.values()) <= MAX_LINE_PANELS
    if len(swept) == len(whole) == 2 and min(swept.values()) >= 3 and not left_out:
        across = x or next(iter(swept))
        return heat_maps(frame, across, next(name for name in swept if name != across), **options)
    first = "kappa" if "kappa" in swept else next(iter(swept))
    if len(swept) == 2 and max(swept.values()) > swept[first]:
        first = max(swept, key=lambda name: swept[name])
    try:
        return against(frame, x or first, **options)
    except TooManyPanels:  # maps need fewer
        longest = sorted(whole, key=lambda name: (name == x, whole[name]), reverse=True)[:2]
        if len(longest) < 2 or (x and x not in whole):
            raise
        return heat_maps(frame, *longest, **options)


def heat_maps(
    frame: pd.DataFrame,
    x: str,
    up: str,
    *,
    axes: Sequence[str] = (),
    y: str = "steps_to_tol",
    title: str | None = None,
    caption: str = "",
) -> Figure:
    """Medians of y as colours over x and another axis: a map for each optimizer and each of the other axes.

    Settings in which runs differ but that are not among `axes` get maps of their own: only seeds are aggregated.
    """
    from matplotlib.colors import LogNorm, Normalize

    x, up = free_name(x), free_name(up)
    table = medians(frame, names_of([*axes, x, up]), y)
    names, has = axes_of(table), applicable(table)
    numeric = numbers(table, names)
    for name in (x, up):
        if name not in numeric:
            raise ValueError(f"a heat map is over two axes of numbers, got {name}")
    whole = table.dropna(subset=[x, up])
    if whole.empty:
        raise ValueError(f"nothing to draw: no run has both {x} and {up}")
    labels = labels_of(frame, table)
    panels = panels_of(whole, [*(name for name in names if name not in (x, up, "optimizer")), "optimizer"], has)
    across, along, heights = Scale.of(whole[x]), Scale.of(whole[up]), Heights.of(whole, y)
    norm = (LogNorm if heights.log else Normalize)(heights.low, heights.high)
    with style_context(8):
        grid = PanelGrid(
            [panel_title(panel) for panel in panels],
            column_count(len(panels)),
            1.75 if len(panels) > 1 else 2.6,
            title=title_of(y, x, up) if title is None else title,
            caption=joined(caption, map_caption(table, x, up, y, frame, labels)),
            xlabels=[axis_name(x)],
            ylabel=axis_name(up),
            left=0.24 + along.width(),
            colorbar=0.48 + heights.width(),
        )
        for panel_axes, panel in zip(grid.axes, panels, strict=True):
            mesh = _map(panel_axes, rows_of_panel(whole, panel, has), x, up, across, along, norm)
        if whole["median"].notna().any():
            bar = grid.figure.colorbar(mesh, cax=grid.colorbar_axes())
            bar.outline.set_visible(False)
            bar.ax.tick_params(labelsize=7.5, which="both", length=2)
            if heights.log:
                log_ticks(bar.ax.yaxis, heights.low, heights.high)
            bar.set_label(y_label(y, frame), fontsize=8)
        grid.label_axes()
    return grid.figure


def _map(axes: Axes, part: pd.DataFrame, x: str, up: str, across: Scale, along: Scale, norm: Any) -> Any:
    """Draw one map: medians as colours, hatched grey where they were not reached, crosses where runs diverged."""
    from matplotlib.collections import PolyCollection

    column, row = np.searchsorted(across.values, floats(part[x])), np.searchsorted(along.values, floats(part[up]))
    median = floats(part["median"])
    cells = np.full((len(along.values), len(across.values)), np.nan)
    cells[row, column] = median
    edges, sides = across.edges(), along.edges()
    mesh = axes.pcolormesh(edges, sides, np.ma.masked_invalid(cells), cmap="viridis_r", norm=norm, linewidth=0,
                           rasterized=cells.size > 5000)  # fmt: skip
    absent = np.isnan(median)
    corners = [
        [(edges[i + a], sides[j + b]) for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))]
        for i, j in zip(column[absent], row[absent], strict=True)
    ]
    if corners:
        grey = PolyCollection(corners, facecolor="#EEEEEE", edgecolor="#BDBDBD", hatch="/////", linewidth=0)
        axes.add_collection(grey, autolim=False)
    crossed = part[absent & broken(part)]
    axes.plot(across.positions(floats(crossed[x])), along.positions(floats(crossed[up])), "x", color="#333333",
              markersize=3.2, markeredgewidth=0.8)  # fmt: skip
    across.set(axes.xaxis, room=0)
    along.set(axes.yaxis, room=0)
    axes.spines[:].set_visible(False)
    return mesh


def dots(
    frame: pd.DataFrame,
    *,
    axes: Sequence[str] = (),
    y: str = "steps_to_tol",
    title: str | None = None,
    caption: str = "",
) -> Figure:
    """A row for each optimizer, the median of y as a dot and quartiles as a bar; a panel for each of the other axes.

    Settings in which runs differ but that are not among `axes` get panels too: only seeds are aggregated.
    """
    table = medians(frame, axes, y)
    labels = labels_of(frame, table)
    has = applicable(table)
    panels = panels_of(table, [name for name in axes_of(table) if name != "optimizer"], has)
    heights = Heights.of(table, y)
    parts = [rows_of_panel(table, panel, has) for panel in panels]
    texts = [_median_texts(part, y) for part in parts]
    with style_context(8):
        beside = width_of([text for of_panel in texts for text in of_panel.values()])
        grid = PanelGrid(
            [panel_title(panel) for panel in panels],
            min(column_count(len(panels)), 2),
            0.1 + 0.21 * len(labels),
            title=title_of(y, "optimizer") if title is None else title,
            caption=joined(caption, line_caption(table, None, y, frame, labels)),
            xlabels=[y_label(y, frame)],
            left=0.2 + width_of(list(labels.values()), 8),
            beside=beside + 0.17 if beside else 0.0,
        )
        for panel_axes, part, of_panel in zip(grid.axes, parts, texts, strict=True):
            _dots(panel_axes, part, heights, labels, of_panel)
        grid.label_axes()
    return grid.figure


def _dots(
    axes: Axes, part: pd.DataFrame, heights: Heights, labels: Mapping[str, str], texts: Mapping[str, str]
) -> None:
    """A row for each optimizer; its median in numbers at the right."""
    colours, order = colours_of(list(labels)), list(labels)
    columns = [floats(part[name]) for name in (*QUARTILES, "limit", "draws")]
    for name, diverged, lower, median, upper, limit, draws in zip(
        part["optimizer"], broken(part), *columns, strict=True
    ):
        colour, row = colours[name], order.index(name)
        end = limit if np.isfinite(limit) else heights.high
        if np.isfinite(lower) and draws > 1:
            axes.plot([lower, upper if np.isfinite(upper) else end], [row, row], color=colour, linewidth=3, alpha=0.35,
                      solid_capstyle="butt")  # fmt: skip
        if np.isfinite(median):
            axes.plot(median, row, "o", color=colour, markersize=5)
        elif name in texts:
            axes.plot(heights.high if diverged else end, row, "x" if diverged else ">", color=colour, markersize=5,
                      markerfacecolor="none")  # fmt: skip
        axes.annotate(texts.get(name, ""), (1, row), xycoords=("axes fraction", "data"), xytext=(5, 0),
                      textcoords="offset points", va="center", fontsize=7.5, color=colour)  # fmt: skip
    for row in range(1, len(labels)):
        axes.axhline(row - 0.5, color="#E5E5E5", linewidth=0.6, zorder=0)
    heights.set(axes.xaxis, below=0.06, above=0.06)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), list(labels.values()))
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.spines["left"].set_visible(False)


def _median_texts(part: pd.DataFrame, y: str) -> dict[str, str]:
    """The median of each optimizer as text."""
    texts = {}
    columns = floats(part["median"]), floats(part["limit"]), broken(part)
    for name, median, limit, diverged in zip(part["optimizer"], *columns, strict=True):
        if np.isfinite(median):
            texts[name] = _steps_text(median) if y == "steps_to_tol" else in_words(median)
        elif diverged:
            texts[name] = "diverged"
        elif np.isfinite(limit):
            texts[name] = f"> {_steps_text(limit)}"
        elif y == "steps_to_tol":
            texts[name] = "not reached"
    return texts


def _steps_text(steps: float) -> str:
    return f"{steps:,.0f}" if steps < 1e7 else in_words(steps)
