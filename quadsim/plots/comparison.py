"""Comparisons: curves at the tuned learning rates, sensitivity to the learning rate, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from quadsim._validation import InputError, choice
from quadsim.plots import inputs
from quadsim.plots.bands import MEASURES, draw_bands, range_of, read
from quadsim.plots.convergence import draw_tol
from quadsim.plots.curve_drawing import Frame
from quadsim.plots.differences import draw_differences, ratio_ticks
from quadsim.plots.given_axes import add_legend, given, refuse
from quadsim.plots.layout import arrange, blank_figure, canvas, legend_above, style_context
from quadsim.plots.sensitivity import OBJECTIVE_LABELS, draw_sensitivity
from quadsim.plots.style import Style, power_ticks, step_ticks, styles_of
from quadsim.plots.text import evenly_wrapped

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["comparison", "curves", "differences", "ratio_ticks"]

TABLES = ("summary", "bands", "tried", "runs")
PANELS = ("curves", "sensitivity", "differences")
MIN_LOSS = 1e-300


def comparison(
    summary: Any,
    bands: pd.DataFrame | None = None,
    tried: pd.DataFrame | None = None,
    runs: pd.DataFrame | None = None,
    *,
    objective: str | None = None,
    titles: Mapping[str, str] | None = None,
    ax: Any = None,
    panel: str = "curves",
    caption: str = "",
    tol: float | None = None,
) -> Figure | Axes:
    """A row of three panels for each problem.

    Left: medians and quartiles against steps at the tuned learning rate. Middle: the objective against the learning
    rate on the tuning seeds; the best is marked, open if it is at the edge of the grid; crosses at the top failed.
    Right: the paired differences to the reference, a dot for each seed, and the median with its interval.

    Parameters
    ----------
    summary :
        A `Comparison`, a list of them, or the table ``summary``.
    bands, tried, runs, objective :
        The other tables and the objective, if ``summary`` is a table.
    titles : dict, optional
        The title of each problem; by default the names of the problems.
    ax : matplotlib Axes, optional
        Axes to draw one panel of one problem into.
    panel : "curves", "sensitivity" or "differences"
        The panel for ``ax``.
    caption : str
        Written below the panels.
    tol : float, optional
        The relative tolerance, drawn as a line for "steps-to-tol".

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> result = qs.compare(qs.case(3), [qs.GD(), qs.BlockGD()], seed=range(6), max_steps=50)
    >>> figure = qs.plots.comparison(result)
    """
    data = _data(summary, bands, tried, runs, objective, titles, tol, function="comparison")
    choice("panel", panel, PANELS)
    if ax is not None:
        refuse(ax, len(data.titles), "problem", "give one comparison, or leave ax out")
        return _alone(data, panel, ax=ax)
    optimizers = max(int(data.summary.groupby("problem").size().max()), 3)
    with style_context(8):
        figure = blank_figure(7.0, 0.4 + len(data.titles) * (2.25 + 0.2 * (optimizers - 3)), caption=caption)
        rows = np.atleast_1d(np.array(figure.subfigures(len(data.titles), 1, hspace=0.0)))
        for part, (problem, title) in zip(rows, data.titles.items(), strict=True):
            axes = part.subplots(1, 3, width_ratios=(1, 1, 1.05))
            for one, name in zip(axes, PANELS, strict=True):
                _draw(one, data, problem, name)
            part.suptitle("\n".join(evenly_wrapped(title, 6.8, 9)), x=0.01, ha="left", fontsize=9)
        legend_above(figure, data.labels)
        arrange(figure)
    return figure


def curves(comparison: Any, *, ax: Any = None, caption: str = "") -> Figure | Axes:
    """Medians and quartiles against steps at the tuned learning rates: the left panel of `comparison`.

    Parameters
    ----------
    comparison : Comparison or list of them
    ax : matplotlib Axes, optional
        Axes to draw into, for one comparison.
    caption : str
        Written below the panels.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> result = qs.compare(qs.case(3), [qs.GD(), qs.BlockGD()], seed=range(6), max_steps=50)
    >>> figure = qs.plots.curves(result)
    """
    return _one(comparison, "curves", ax, caption)


def differences(comparison: Any, *, ax: Any = None, caption: str = "") -> Figure | Axes:
    """Paired differences to the reference, a dot for each seed: the right panel of `comparison`.

    Parameters
    ----------
    comparison : Comparison or list of them
    ax : matplotlib Axes, optional
        Axes to draw into, for one comparison.
    caption : str
        Written below the panels.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> result = qs.compare(qs.case(3), [qs.GD(), qs.BlockGD()], seed=range(6), max_steps=50)
    >>> figure = qs.plots.differences(result)
    """
    return _one(comparison, "differences", ax, caption)


class _Data(NamedTuple):
    """The tables of one or more comparisons, and how they are drawn."""

    summary: pd.DataFrame
    bands: pd.DataFrame
    tried: pd.DataFrame
    runs: pd.DataFrame
    objective: str
    tol: float | None
    titles: Mapping[str, str]
    labels: dict[str, str]
    styles: dict[str, Style]


def _data(
    summary: Any, bands: Any, tried: Any, runs: Any, objective: Any, titles: Any, tol: Any, *, function: str
) -> _Data:
    import pandas as pd

    if isinstance(summary, pd.DataFrame):
        tables = [summary, bands, tried, runs]
        if not all(isinstance(table, pd.DataFrame) for table in tables) or objective is None:
            raise InputError(
                f"{function} takes a comparison (qs.compare), a list of them, or its four tables with objective="
            )
    else:
        given_ones = inputs.comparisons(summary, TABLES, function)
        tables = [pd.concat([getattr(one, name) for one in given_ones], ignore_index=True) for name in TABLES]
        objectives = {one.protocol.objective for one in given_ones}
        if len(objectives) > 1:
            raise InputError(
                f"{function} draws one objective, got {', '.join(sorted(objectives))}: draw them one by one"
            )
        problems = [one.problem for one in given_ones]
        if len(set(problems)) < len(problems):
            twice = next(name for name in problems if problems.count(name) > 1)
            raise InputError(f"two comparisons have the same problem, {twice}: draw them one by one")
        objective, tol = next(iter(objectives)), given_ones[0].protocol.tol if tol is None else tol
    if tables[0].empty or tables[1].empty:
        raise InputError("nothing to draw: the comparison has no runs")
    titles = {str(name): str(name) for name in tables[0]["problem"].unique()} if titles is None else titles
    labels = {str(k): str(v) for k, v in zip(tables[0]["optimizer"], tables[0]["label"], strict=True)}
    objective = choice("objective", objective, OBJECTIVE_LABELS)
    first, second, third, fourth = tables
    return _Data(first, second, third, fourth, objective, tol, titles, labels, styles_of(list(labels)))


def _one(comparison: Any, panel: str, ax: Any, caption: str) -> Figure | Axes:
    data = _data(comparison, None, None, None, None, None, None, function=panel)
    refuse(ax, len(data.titles), "problem", "give one comparison, or leave ax out")
    return _alone(data, panel, ax=ax, caption=caption)


def _alone(data: _Data, panel: str, *, ax: Any = None, caption: str = "") -> Figure | Axes:
    """One of the panels, for each problem; or on the given axes, for the only problem."""
    if ax is not None:
        ((problem, title),) = data.titles.items()
        with given(ax, title) as axes:
            _draw(axes, data, problem, panel)
            axes.set_ylabel(axes.get_title(loc="left") or axes.get_title())
            axes.set_title("", loc="left")
            if panel != "differences":
                add_legend(axes)
        return axes
    count = len(data.titles)
    optimizers = max(int(data.summary.groupby("problem").size().max()), 3)
    sizes: dict[str, Any] = {"width": 7.2 if count > 1 else 5.0, "height": 1.98 + 0.15 * (optimizers - 3)}
    with canvas(columns=2, panels=count, caption=caption, font_size=8, **sizes) as (figure, grid):
        for axes, (problem, title) in zip(grid, data.titles.items(), strict=True):
            _draw(axes, data, problem, panel)
            measure = axes.get_title(loc="left")
            axes.set_ylabel("\n".join(evenly_wrapped(measure.replace("\n", " "), 1.8, 8)))
            axes.set_title("\n".join(evenly_wrapped(title, 3.0 if count > 1 else 4.2, 8.5)), fontsize=8.5)
        if panel != "differences":
            legend_above(figure, data.labels)
    return figure


def _draw(axes: Axes, data: _Data, problem: str, panel: str) -> None:
    """Draw a panel; its title is the quantity."""
    summary, bands, tried, runs = (frame[frame["problem"] == problem] for frame in data[:4])
    if panel == "curves":
        _curves(axes, bands, data)
    elif panel == "differences":
        draw_differences(axes, summary, runs, data.styles, data.objective)
    else:
        draw_sensitivity(axes, tried, data.styles, data.objective, _start(bands), data.labels)
        axes.set_title(OBJECTIVE_LABELS[data.objective][0], fontsize=8)


def _start(bands: pd.DataFrame) -> float:
    """The height at which the curves start."""
    top = float(bands.loc[bands["step"] == 0, "median"].max())
    return top if np.isfinite(top) and top > 0 else 1.0


def _curves(axes: Axes, rows: pd.DataFrame, data: _Data) -> None:
    """Draw the median and the quartiles of each optimizer."""
    top, steps = _start(rows), data.objective == "steps-to-tol"
    tol = data.tol if steps else None
    bands = read(rows, max(tol or 0.0, top * MIN_LOSS, MIN_LOSS), top * 30, log=steps)
    low, high = range_of(bands)
    last = max(float(rows["step"].max()), 10.0)
    xlim = (0.9, 1.1 * last) if steps else (-0.02 * last, 1.04 * last)
    room = 10 ** (0.03 * (np.log10(high) - np.log10(low)))  # above a peak
    frame = Frame(1.75, 1.6, xlim, (min(low, high / 10) / 2, max(top * 6, 1.5 * high, room * high)), log_x=steps)
    axes.set(yscale="log", xscale="log" if steps else "linear", xlim=frame.xlim, ylim=frame.ylim, xlabel="steps")
    draw_bands(axes, bands, data.styles, data.labels, frame, linewidth=1.3, marks_floor=tol is None)
    axes.set_title(MEASURES.get(rows["measure"].iloc[0], "gradient norm / its first value"), fontsize=8)
    if tol is not None:
        draw_tol(axes, tol, labelled=False)
        power_ticks(axes)
    else:
        step_ticks(axes, 4)
    axes.tick_params(labelsize=7)
