"""Parameter sweeps: a table with a row for each run → the figure that the swept axes call for, and maps and dots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from quadsim.plots.findings import joined, key, key_of_maps, name_of_y, ranking, topic
from quadsim.plots.lines import against
from quadsim.plots.medians import (
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
from quadsim.plots.scales import Heights, Scale, log_ticks
from quadsim.plots.sheet import Sheet, TooManyPanels, columns_of, here, panels_of
from quadsim.plots.style import STYLE, colours_of, width_of
from quadsim.plots.words import axis_name, labels_of, number, place

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FEW_PANELS = 12


def sweep_figure(
    frame: pd.DataFrame,
    *,
    axes: Sequence[str] = (),
    x: str | None = None,
    y: str = "steps_to_tol",
    title: str | None = None,
    caption: str = "",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """What the swept axes call for: `heat_maps` over two axes of numbers, `against` one of them, or `dots`.

    Every combination of settings is drawn. Where an optimizer has no place on a map, lines are drawn if their panels
    are not too many; otherwise the caption names it.

    Parameters
    ----------
    frame :
        One row for each run: settings, optimizer, and how it ended.
    axes :
        The swept columns, in order. Other settings in which runs differ separate them too: medians are over seeds only.
    x :
        The horizontal axis, if another one than kappa or the first is wanted.
    title :
        Instead of the sentence that is made from the data.
    labels :
        What optimizers are called, beyond `words.LABELS`.
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
    words: dict[str, Any] = {"axes": names, "y": y, "title": title, "caption": caption, "labels": labels}
    if not swept:
        return dots(frame, **words)
    left_out = table[list(swept)].isna().any(axis=None) and min(swept.values()) <= FEW_PANELS
    if len(swept) == len(whole) == 2 and min(swept.values()) >= 3 and not left_out:
        across = x or next(iter(swept))
        return heat_maps(frame, across, next(name for name in swept if name != across), **words)
    first = "kappa" if "kappa" in swept else next(iter(swept))
    if len(swept) == 2 and max(swept.values()) > swept[first]:
        first = max(swept, key=lambda name: swept[name])
    try:
        return against(frame, x or first, **words)
    except TooManyPanels:  # maps need fewer
        longest = sorted(whole, key=lambda name: (name == x, whole[name]), reverse=True)[:2]
        if len(longest) < 2 or (x and x not in whole):
            raise
        return heat_maps(frame, *longest, **words)


def heat_maps(
    frame: pd.DataFrame,
    x: str,
    up: str,
    *,
    axes: Sequence[str] = (),
    y: str = "steps_to_tol",
    title: str | None = None,
    caption: str = "",
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Medians of y as colours over x and another axis: a map for each optimizer and each of the other axes.

    Settings in which runs differ but that are not among `axes` get maps of their own: only seeds are aggregated.
    """
    import matplotlib
    from matplotlib.colors import LogNorm, Normalize

    x, up = free_name(x), free_name(up)
    table = medians(frame, names_of([*axes, x, up]), y)
    names, has = axes_of(table), applicable(table)
    there = numbers(table, names)
    for name in (x, up):
        if name not in there:
            raise ValueError(f"a heat map is over two axes of numbers, got {name}")
    whole = table.dropna(subset=[x, up])
    if whole.empty:
        raise ValueError(f"there is nothing to draw: no run has both {x} and {up}")
    called = labels_of(frame, table, labels)
    panels = panels_of(whole, [*(name for name in names if name not in (x, up, "optimizer")), "optimizer"], has)
    across, along, heights = Scale.of(whole[x]), Scale.of(whole[up]), Heights.of(whole, y)
    norm = (LogNorm if heights.log else Normalize)(heights.low, heights.high)
    with matplotlib.rc_context({**STYLE, "font.size": 8}):
        sheet = Sheet(
            [place(panel, called) for panel in panels], columns_of(len(panels)), 1.75 if len(panels) > 1 else 2.6,
            title=topic(x, up, y) if title is None else title,
            caption=joined(caption, key_of_maps(table, x, up, y, frame, called)),
            across=[axis_name(x)], up=axis_name(up), left=0.24 + along.width(), bar=0.48 + heights.width(),
        )  # fmt: skip
        for panel_axes, panel in zip(sheet.axes, panels, strict=True):
            mesh = _map(panel_axes, here(whole, panel, has), x, up, across, along, norm)
        if whole["median"].notna().any():
            bar = sheet.figure.colorbar(mesh, cax=sheet.bar())
            bar.outline.set_visible(False)
            bar.ax.tick_params(labelsize=7.5, which="both", length=2)
            if heights.log:
                log_ticks(bar.ax.yaxis, heights.low, heights.high)
            bar.set_label(name_of_y(y, frame), fontsize=8)
        sheet.finish()
    return sheet.figure


def _map(axes: Axes, part: pd.DataFrame, x: str, up: str, across: Scale, along: Scale, norm: Any) -> Any:
    """One map: colours where there is a median, hatched grey where it was not reached, a cross where it diverged."""
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
    axes.plot(across.place(floats(crossed[x])), along.place(floats(crossed[up])), "x", color="#333333",
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
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """A row for each optimizer, the median of y as a dot and quartiles as a bar; a panel for each of the other axes.

    Settings in which runs differ but that are not among `axes` get panels too: only seeds are aggregated.
    """
    import matplotlib

    table = medians(frame, axes, y)
    called = labels_of(frame, table, labels)
    has = applicable(table)
    panels = panels_of(table, [name for name in axes_of(table) if name != "optimizer"], has)
    heights = Heights.of(table, y)
    parts = [here(table, panel, has) for panel in panels]
    told = [_told(part, y) for part in parts]
    with matplotlib.rc_context({**STYLE, "font.size": 8}):
        beside = width_of([text for texts in told for text in texts.values()])
        sheet = Sheet(
            [place(panel) for panel in panels], min(columns_of(len(panels)), 2), 0.1 + 0.21 * len(called),
            title=ranking(table, y, panels, called) if title is None else title,
            caption=joined(caption, key(table, None, y, frame, called)), across=[name_of_y(y, frame)],
            left=0.2 + width_of(list(called.values()), 8), beside=beside + 0.17 if beside else 0.0,
        )  # fmt: skip
        for panel_axes, part, texts in zip(sheet.axes, parts, told, strict=True):
            _dots(panel_axes, part, heights, called, texts)
        sheet.finish()
    return sheet.figure


def _dots(axes: Axes, part: pd.DataFrame, heights: Heights, labels: Mapping[str, str], told: Mapping[str, str]) -> None:
    """A row for each optimizer; its median in numbers at the right."""
    colours, places = colours_of(list(labels)), {name: place for place, name in enumerate(labels)}
    columns = [floats(part[name]) for name in (*QUARTILES, "limit", "draws")]
    for name, diverged, lower, median, upper, limit, draws in zip(
        part["optimizer"], broken(part), *columns, strict=True
    ):
        colour, row = colours[name], places[name]
        end = limit if np.isfinite(limit) else heights.high
        if np.isfinite(lower) and draws > 1:
            axes.plot([lower, upper if np.isfinite(upper) else end], [row, row], color=colour, linewidth=3, alpha=0.35,
                      solid_capstyle="butt")  # fmt: skip
        if np.isfinite(median):
            axes.plot(median, row, "o", color=colour, markersize=5)
        elif name in told:
            axes.plot(heights.high if diverged else end, row, "x" if diverged else ">", color=colour, markersize=5,
                      markerfacecolor="none")  # fmt: skip
        axes.annotate(told.get(name, ""), (1, row), xycoords=("axes fraction", "data"), xytext=(5, 0),
                      textcoords="offset points", va="center", fontsize=7.5, color=colour)  # fmt: skip
    for row in range(1, len(labels)):
        axes.axhline(row - 0.5, color="#E5E5E5", linewidth=0.6, zorder=0)
    heights.set(axes.xaxis, below=0.06, above=0.06)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), list(labels.values()))
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.spines["left"].set_visible(False)


def _told(part: pd.DataFrame, y: str) -> dict[str, str]:
    """Each optimizer's median in numbers."""
    told = {}
    columns = floats(part["median"]), floats(part["limit"]), broken(part)
    for name, median, limit, diverged in zip(part["optimizer"], *columns, strict=True):
        if np.isfinite(median):
            told[name] = _exact(median) if y == "steps_to_tol" else number(median)
        elif diverged:
            told[name] = "diverged"
        elif np.isfinite(limit):
            told[name] = f"> {_exact(limit)}"
        elif y == "steps_to_tol":
            told[name] = "not reached"
    return told


def _exact(steps: float) -> str:
    return f"{steps:,.0f}" if steps < 1e7 else number(steps)
