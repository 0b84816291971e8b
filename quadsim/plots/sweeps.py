"""Sweep figures: from a table with one row per run, lines, heat maps or dots, whichever suits the swept axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from quadsim._format import in_words
from quadsim._validation import InputError
from quadsim.plots.aggregate import QUARTILES, axes_of, broken, floats, free_name, numbers
from quadsim.plots.captions import caption_of, joined, title_of
from quadsim.plots.inputs import sweep_rows
from quadsim.plots.labels import axis_name, y_label
from quadsim.plots.lines import against
from quadsim.plots.scales import Heights, Scale, log_ticks
from quadsim.plots.sweep_panels import Sweep, TooManyPanels, column_count, panel_grid
from quadsim.plots.text import all_fitted

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
    ax: Any = None,
    title: str | None = None,
    caption: str = "",
) -> Figure | Axes:
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
    ax :
        Axes to draw into, if the figure has one panel.
    title :
        The title; by default the names of the axes.
    y : str
        The column of results.
    caption : str
        Written below the panels.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> frame = qs.sweep(case=3, kappa=[10, 100, 1000], optimizers=["gd", "heavy-ball"], seed=range(3))
    >>> figure = qs.plots.sweep_figure(frame)
    """
    frame = sweep_rows(frame, "sweep_figure")
    sweep = Sweep(frame, axes, y, **({"x": free_name(x)} if x else {}))
    table, x = sweep.table, free_name(x) if x else None
    counts = numbers(table)
    swept = {name: count for name, count in counts.items() if count > 1 or name == x} or counts
    whole = [name for name in swept if not table.loc[table["optimizer"].isin(sweep.has[name]), name].isna().any()]
    options: dict[str, Any] = {"axes": axes_of(table), "y": y, "title": title, "caption": caption, "ax": ax}
    if not swept:
        return dots(frame, **options)
    left_out = table[list(swept)].isna().any(axis=None) and min(swept.values()) <= MAX_LINE_PANELS
    if len(swept) == len(whole) == 2 and min(swept.values()) >= 3 and not left_out:
        across = x or next(iter(swept))
        return heat_maps(frame, across, next(name for name in swept if name != across), **options)
    first = "kappa" if "kappa" in swept else next(iter(swept))
    if (len(swept) == 2 or swept[first] < 3) and max(swept.values()) > swept[first]:
        first = max(swept, key=lambda name: swept[name])
    try:
        return against(frame, x or first, **options)
    except TooManyPanels:  # maps need fewer
        longest = sorted(whole, key=lambda name: (name == x, swept[name]), reverse=True)[:2]
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
    ax: Any = None,
    title: str | None = None,
    caption: str = "",
) -> Figure | Axes:
    """Medians of y as colours over x and another axis: a map for each optimizer and each of the other axes.

    Settings in which runs differ but that are not among `axes` get separate maps: only seeds are aggregated.

    Parameters
    ----------
    frame : DataFrame
        The table of `sweep`: one row for each run.
    x, up : str
        The columns of the horizontal and of the vertical axis.
    axes : list of str
        The swept columns, in order.
    y : str
        The column of results.
    ax : matplotlib Axes, optional
        Axes to draw into, if the figure has one panel.
    title, caption : str, optional
        Written above and below the panels; the title is by default the names of the axes.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> frame = qs.sweep(case=3, kappa=[10, 100, 1000], heterogeneity=[0, 0.5, 1], optimizers=["gd", "frozen-adam"])
    >>> figure = qs.plots.heat_maps(frame, "kappa", "heterogeneity")
    """
    from matplotlib.colors import LogNorm, Normalize

    x, up, frame = free_name(x), free_name(up), sweep_rows(frame, "heat_maps")
    sweep = Sweep(frame, axes, y, x=x, up=up)
    whole = sweep.table.dropna(subset=[x, up])
    if whole.empty:
        raise InputError(f"nothing to draw: no run has both {x} and {up}")
    panels = sweep.panels(whole, x, up)
    heights = Heights(whole, y)
    norm = (LogNorm if heights.log else Normalize)(heights.low, heights.high)
    with panel_grid(
        panels,
        column_count(len(panels)),
        1.75 if len(panels) > 1 else 2.6,
        title=title_of(y, x, up) if title is None else title,
        caption=joined(caption, caption_of(sweep, x, up)),
        xlabels=[axis_name(x)],
        ylabel=axis_name(up),
        beside=0.9,
        ax=ax,
    ) as (figure, grid):
        across, along = Scale(whole[x]), Scale(whole[up])
        for panel_axes, panel in zip(grid, panels, strict=True):
            mesh = _map(panel_axes, sweep.rows(whole, panel), x, up, across, along, norm)
        if whole["median"].notna().any():
            bar = figure.colorbar(mesh, ax=grid, aspect=20, pad=0.02, shrink=min(1, 4 / figure.get_figheight()))
            bar.outline.set_visible(False)
            bar.ax.tick_params(labelsize=7.5, which="both", length=2)
            if heights.log:
                log_ticks(bar.ax.yaxis, heights.low, heights.high)
            bar.set_label(y_label(y, frame))
    return figure if ax is None else grid[0]


def _map(axes: Axes, part: pd.DataFrame, x: str, up: str, across: Scale, along: Scale, norm: Any) -> Any:
    """Draw one map: medians as colours, hatched grey where they were not reached, crosses where runs diverged."""
    from matplotlib.collections import PolyCollection

    column, row = np.searchsorted(across.values, floats(part[x])), np.searchsorted(along.values, floats(part[up]))
    median = floats(part["median"])
    cells = np.full((len(along.values), len(across.values)), np.nan)
    cells[row, column] = median
    edges, sides = across.edges(), along.edges()
    style: dict[str, Any] = {"cmap": "viridis_r", "linewidth": 0, "rasterized": cells.size > 5000}
    mesh = axes.pcolormesh(edges, sides, np.ma.masked_invalid(cells), norm=norm, **style)
    absent = np.isnan(median)
    corners = [
        [(edges[i + a], sides[j + b]) for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))]
        for i, j in zip(column[absent], row[absent], strict=True)
    ]
    if corners:
        grey = PolyCollection(corners, facecolor="#EEEEEE", edgecolor="#BDBDBD", hatch="/////", linewidth=0)
        axes.add_collection(grey, autolim=False)
    crossed = part[absent & broken(part)]
    at = across.positions(floats(crossed[x])), along.positions(floats(crossed[up]))
    axes.plot(*at, "x", color="#333333", markersize=3.2, markeredgewidth=0.8)
    across.set(axes.xaxis, room=0)
    along.set(axes.yaxis, room=0)
    axes.spines[:].set_visible(False)
    return mesh


def dots(
    frame: pd.DataFrame,
    *,
    axes: Sequence[str] = (),
    y: str = "steps_to_tol",
    ax: Any = None,
    title: str | None = None,
    caption: str = "",
) -> Figure | Axes:
    """A row for each optimizer, the median of y as a dot and quartiles as a bar; a panel for each of the other axes.

    Settings in which runs differ but that are not among `axes` get panels too: only seeds are aggregated.

    Parameters
    ----------
    frame : DataFrame
        The table of `sweep`: one row for each run.
    axes : list of str
        The swept columns, in order.
    y : str
        The column of results.
    ax : matplotlib Axes, optional
        Axes to draw into, if the figure has one panel.
    title, caption : str, optional
        Written above and below the panels; the title is by default the names of the axes.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> frame = qs.sweep(case=[3, 4], optimizers=["gd", "frozen-adam"], seed=range(3))
    >>> figure = qs.plots.dots(frame, axes=["case"])
    """
    frame = sweep_rows(frame, "dots")
    sweep = Sweep(frame, axes, y)
    table = sweep.table
    panels = sweep.panels(table, "optimizer")
    heights = Heights(table, y)
    with panel_grid(
        panels,
        min(column_count(len(panels)), 2),
        0.1 + 0.21 * len(sweep.labels),
        title=title_of(y, "optimizer") if title is None else title,
        caption=joined(caption, caption_of(sweep)),
        xlabels=[y_label(y, frame)],
        beside=0.9,
        ax=ax,
    ) as (figure, grid):
        for panel_axes, panel in zip(grid, panels, strict=True):
            _dots(panel_axes, sweep.rows(table, panel), heights, sweep)
    return figure if ax is None else grid[0]


def _dots(axes: Axes, part: pd.DataFrame, heights: Heights, sweep: Sweep) -> None:
    """A row for each optimizer; its median in numbers at the right."""
    order = list(sweep.labels)
    columns = [floats(part[name]) for name in (*QUARTILES, "limit", "draws")]
    for name, diverged, lower, median, upper, limit, draws in zip(
        part["optimizer"], broken(part), *columns, strict=True
    ):
        colour, row = sweep.colours[name], order.index(name)
        end = limit if np.isfinite(limit) else heights.high
        if np.isfinite(lower) and draws > 1:
            ends = [lower, upper if np.isfinite(upper) else end]
            axes.plot(ends, [row, row], color=colour, linewidth=3, alpha=0.35, solid_capstyle="butt")
        text = _median_text(median, limit, diverged, steps=sweep.y == "steps_to_tol")
        if np.isfinite(median):
            axes.plot(median, row, "o", color=colour, markersize=5)
        elif text:
            mark = "x" if diverged else ">"
            at = heights.high if diverged else end
            axes.plot(at, row, mark, color=colour, markersize=5, markerfacecolor="none")
        beside: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        axes.annotate(text, (1, row), xytext=(5, 0), va="center", fontsize=7.5, color=colour, **beside)
    for row in range(1, len(order)):
        axes.axhline(row - 0.5, color="#E5E5E5", linewidth=0.6, zorder=0)
    heights.set(axes.xaxis, below=0.06, above=0.06)
    axes.set_ylim(len(order) - 0.5, -0.5)
    labels = all_fitted(list(sweep.labels.values()), 1.6, 8)
    axes.set_yticks(range(len(order)), labels)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _median_text(median: float, limit: float, diverged: bool, *, steps: bool) -> str:
    """The median of an optimizer as text."""
    if np.isfinite(median):
        return f"{median:,.0f}" if steps and median < 1e7 else in_words(median)
    if diverged:
        return "diverged"
    if np.isfinite(limit):
        return f"> {limit:,.0f}" if limit < 1e7 else f"> {in_words(limit)}"
    return "not reached" if steps else ""
