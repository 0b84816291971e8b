"""Medians with quartiles as bands against steps, within limits; a panel for each problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim._validation import InputError, choice
from quadsim.plots import inputs
from quadsim.plots.convergence import ABOVE, BELOW, MAX_NORM, MIN_NORM, YLABEL, draw_tol, say
from quadsim.plots.curve_drawing import Curve, Frame, draw_curves, thinned
from quadsim.plots.given_axes import add_legend, given, refuse
from quadsim.plots.layout import canvas, legend_above, note
from quadsim.plots.style import Style, power_ticks, step_ticks, styles_of
from quadsim.plots.text import default_rates, evenly_wrapped

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = ("problem", "optimizer", "step", "lower", "median", "upper")
BEYOND = "Arrowhead at the right: the quartiles go on beyond the panel."
MEASURES = {"loss": "loss", "relative loss": "loss / its first value"}  # of comparisons; others: gradient norm
LINE = 0.15  # inches, of a title
PANEL = (2.7, 1.5)  # inches, about: of a panel in `panels`


def panels(
    bands: Any,
    titles: Mapping[str, str] | None = None,
    *,
    ax: Any = None,
    caption: str = "",
    tol: float | None = None,
    xscale: str = "linear",
) -> Figure | Axes:
    """Gradient norm (of a comparison: what it records) against steps, a panel for each problem.

    Lines are medians over draws, bands are quartiles.

    Parameters
    ----------
    bands :
        A run, a list of runs, a comparison or a list of them, or the table of `qs.table.bands(runs)`.
    titles :
        The title of each problem's panel; by default the names of the problems.
    ax :
        Axes to draw into, for one problem.
    tol :
        The relative tolerance, where curves end.
    xscale :
        "linear", where curves to the right of 1.12 times the last median are cut and marked, or "log".
    caption : str
        Written below the panels.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> runs = qs.solve(qs.case(3), [qs.GD(), qs.FrozenAdam()], seed=range(5))
    >>> figure = qs.plots.panels(qs.table.bands(runs), tol=1e-6)
    """
    origins = inputs.rate_origins(bands)
    rates = default_rates(origins)
    bands = inputs.bands(bands, COLUMNS, "panels")
    measures = list(bands["measure"].unique()) if "measure" in bands else []
    if len(measures) > 1:
        raise InputError(f"panels draws one quantity, got {' and '.join(measures)}: draw them one by one")
    ylabel = MEASURES.get(measures[0], YLABEL) if measures else YLABEL
    log = choice("xscale", xscale, ("linear", "log")) == "log"
    names = bands["label"] if "label" in bands else bands["optimizer"]
    labels = {str(key): str(label) for key, label in zip(bands["optimizer"], names, strict=True)}
    titles = {str(name): str(name) for name in bands["problem"].unique()} if titles is None else titles
    refuse(ax, len(titles), "problem", "select the rows of one problem, or leave ax out")
    styles = styles_of(list(labels))
    if ax is not None:
        ((problem, title),) = titles.items()
        marked = {label for label, origin in origins if rates and origin == "default"}
        labels = {name: f"{label}, default lr" if label in marked else label for name, label in labels.items()}
        with given(ax, title) as axes:
            _panel(axes, bands[bands["problem"] == problem], styles, labels, tol, log)
            axes.set_ylabel(ylabel)
            add_legend(axes)
        return axes
    room = (7.0 - 0.8) / min(len(titles), 2) - 0.15
    lines = [[one for part in title.splitlines() for one in evenly_wrapped(part, room, 9)] for title in titles.values()]
    height = 1.83 + LINE * max(max(map(len, lines)) - 3, 0)
    with canvas(columns=2, panels=len(titles), caption=caption or rates, height=height) as (figure, grid):
        legend_above(figure, labels)
        for number, (axes, problem, wrapped) in enumerate(zip(grid, titles, lines, strict=True)):
            _panel(axes, bands[bands["problem"] == problem], styles, labels, tol, log)
            axes.set_title("\n".join(wrapped))
            axes.set_ylabel("\n".join(evenly_wrapped(ylabel, 1.4, 8.5)) if number % 2 == 0 else "")
    return figure


def _panel(
    axes: Axes, rows: pd.DataFrame, styles: Mapping[str, Style], labels: Mapping[str, str], tol: float | None, log: bool
) -> None:
    """Draw the medians and quartiles of one problem, up to tol."""
    floor = max(tol or 0.0, MIN_NORM)
    bands = read(rows, floor, MAX_NORM, log=log)
    ends = [float((band.upper_x if log else band.x)[-1]) for band in bands.values() if band.x.size]
    last = max([*ends, 1.0])
    xlim = (0.85, 1.2 * max(last, 2)) if log else (-0.02 * last, 1.12 * last)
    lowest, highest = range_of(bands)
    frame = Frame(*PANEL, xlim, (tol / 2 if tol else lowest / 2, 2 * max(highest, 1)), log_x=log)
    axes.set(yscale="log", xscale="log" if log else "linear", xlim=frame.xlim, ylim=frame.ylim, xlabel="steps")
    draw_bands(axes, bands, styles, labels, frame, marks_floor=not tol)
    if tol:
        draw_tol(axes, tol, labelled=False)
    if log:
        power_ticks(axes)
    else:
        step_ticks(axes)


@dataclass(frozen=True)
class Band:
    """A median and its quartiles within limits. `end`: "v" or "^" where the median leaves them, otherwise empty."""

    x: np.ndarray
    median: np.ndarray
    end: str
    upper_x: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    above: bool


def read(rows: pd.DataFrame, floor: float, ceiling: float, *, log: bool) -> dict[str, Band]:
    """The bands of a problem by optimizer; a curve ends where it reaches the floor or leaves the ceiling for good.

    A curve that ends below the ceiling is drawn above it too.
    """
    bands = {}
    ends_below = rows.groupby("optimizer")["median"].transform("last") <= ceiling
    peaks = rows.loc[ends_below & np.isfinite(rows["median"].astype(float)), "median"]
    ceiling = max(ceiling, float(peaks.max())) if len(peaks) else ceiling
    for name, part in rows.groupby("optimizer", sort=False):
        step, lower, median, upper = (part[key].to_numpy(dtype=float) for key in ("step", "lower", "median", "upper"))
        keep = (step > 0) if log and (step > 0).any() else np.ones(step.size, dtype=bool)
        step, lower, median, upper = (values[keep] for values in (step, lower, median, upper))
        x, line, end = _within(step, median, floor, ceiling)
        upper_x, high, _ = _within(step, np.minimum(upper, ceiling), floor, ceiling)
        low = 10 ** np.interp(upper_x, step, np.log10(np.clip(lower, floor, ceiling)))
        bands[str(name)] = Band(x, line, end, upper_x, np.minimum(low, high), high, bool((upper > ceiling).any()))
    return bands


def range_of(bands: Mapping[str, Band]) -> tuple[float, float]:
    """The least and the greatest value that is drawn."""
    values = [part for band in bands.values() for part in (band.median, band.lower, band.upper) if part.size]
    return (min(float(part.min()) for part in values), max(float(part.max()) for part in values)) if values else (1, 1)


def draw_bands(
    axes: Axes,
    bands: Mapping[str, Band],
    styles: Mapping[str, Style],
    labels: Mapping[str, str],
    frame: Frame,
    *,
    marks_floor: bool = True,
    linewidth: float = 1.6,
) -> None:
    """Draw medians and bands; what leaves the panel is marked."""
    visible = {name: band for name, band in bands.items() if band.x.size}
    if not visible:
        say(axes, "no curve: every run diverged")
    curves = [Curve(band.x, band.median, styles[name]) for name, band in visible.items()]
    lines = draw_curves(axes, curves, frame, linewidth)
    right = frame.xlim[1]
    for (name, band), line in zip(visible.items(), lines, strict=True):
        style = styles[name]
        mark: dict[str, Any] = {"color": style.colour, "markersize": 4, "clip_on": False, "zorder": 3}
        line.set_label(labels[name])
        x, low, high = band.upper_x, band.lower, band.upper
        if x.size and x[-1] > right:
            inside = x < right
            ends = [10 ** np.interp(right, x, np.log10(values)) for values in (low, high)]
            x, low, high = (np.append(v[inside], end) for v, end in zip((x, low, high), (right, *ends), strict=True))
            axes.plot(right, ends[1], ">", gid="beyond", **mark)
            note(axes, BEYOND)
        x, low, high = thinned(x, low, high, frame)
        axes.fill_between(x, low, high, color=style.colour, alpha=0.2, linewidth=0, gid="band")
        if band.x.size == 1 and not band.end:
            axes.plot(band.x, band.median, "o", **mark | {"markersize": 3})
        if band.end == "^":
            axes.plot(band.x[-1], band.median[-1], "^", **mark)
            note(axes, ABOVE)
        elif band.end == "v" and marks_floor:
            axes.plot(band.x[-1], band.median[-1], "v", markerfacecolor="none", **mark)
            note(axes, BELOW)


def _within(x: np.ndarray, y: np.ndarray, floor: float, ceiling: float) -> tuple[np.ndarray, np.ndarray, str]:
    """The curve up to the first point that is not between floor and ceiling; its end is interpolated.

    Returns x, y, and "v" or "^" for the side on which it ends.
    """
    y = np.where(np.isnan(y), np.inf, y)
    outside = np.flatnonzero((y <= floor) | (y > ceiling))
    if not outside.size:
        return x, y, ""
    k = int(outside[0])
    end, mark = (floor, "v") if y[k] <= floor else (ceiling, "^")
    at = x[k]
    if k and np.isfinite(y[k]):
        before, after = np.log10(y[k - 1]), np.log10(max(y[k], 1e-320))
        at = x[k - 1] + (x[k] - x[k - 1]) * (np.log10(end) - before) / (after - before)
    if not k and mark == "^":
        return x[:0], y[:0], mark
    return np.append(x[:k], at), np.append(y[:k], end), mark
