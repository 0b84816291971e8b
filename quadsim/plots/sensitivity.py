"""The objective of a search against the learning rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim._quantiles import QUARTILES
from quadsim._validation import InputError, choice
from quadsim.plots import inputs
from quadsim.plots.curve_drawing import Curve, Frame, draw_curves
from quadsim.plots.given_axes import add_legend, given, refuse
from quadsim.plots.layout import GREY, canvas, legend_above
from quadsim.plots.style import Style, power_ticks, styles_of
from quadsim.plots.text import evenly_wrapped

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIN_RELATIVE = 1e-300  # values further below the start than this are not drawn
MAX_FAILED_SHARE = 0.4  # of the panel, for the crosses of failed trials
TRIAL_COLUMNS = (  # of the table of trials; the others are settings
    "problem", "optimizer", "label", "lr", "level", *QUARTILES, "diverged", "underflow", "log_loss", "best",
)  # fmt: skip
OBJECTIVE_LABELS = {
    "final-loss": ("final loss", "final loss / that of {}"),
    "steps-to-tol": ("steps to tol", "steps / those of {}"),
    "mean-log-loss": ("mean of log₁₀ L/L₀", "mean of log₁₀ L/L₀, less that of {}"),
}


def sensitivity(
    tuned: Any,
    *,
    objective: str | None = None,
    titles: Mapping[str, str] | None = None,
    ax: Any = None,
    caption: str = "",
) -> Figure | Axes:
    """The objective against the learning rate: median and quartiles over the tuning seeds, a panel for each problem.

    The best learning rate is marked, open if it is at the edge of the grid; crosses at the top failed.

    Parameters
    ----------
    tuned :
        What `qs.tune` or `qs.compare` returned, a list of them, or the table of their trials.
    objective :
        That of the search; needed for a table only.
    titles :
        The title of each problem's panel; by default the names of the problems.
    ax :
        Axes to draw into, for one problem.
    caption : str
        Written below the panels.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> tuned = qs.tune(qs.case(3), qs.GD(), seed=range(3), max_steps=50)
    >>> figure = qs.plots.sensitivity(tuned)
    """
    tried, objective = _trials(tuned, objective)
    names = zip(tried["optimizer"], tried["label"], strict=True)
    labels = {str(name): str(label) for name, label in names}
    titles = {str(name): str(name) for name in tried["problem"].unique()} if titles is None else titles
    refuse(ax, len(titles), "problem", "give one problem's, or leave ax out")
    styles = styles_of(list(labels))
    if ax is not None:
        ((problem, title),) = titles.items()
        with given(ax, title) as axes:
            draw_sensitivity(axes, tried[tried["problem"] == problem], styles, objective, None, labels)
            axes.set_title(title)
            axes.set_ylabel(OBJECTIVE_LABELS[objective][0])
            add_legend(axes)
        return axes
    width, room = (7.2, 3.0) if len(titles) > 1 else (5.0, 4.2)
    sizes: dict[str, Any] = {"width": width, "height": 1.98, "font_size": 8}
    with canvas(columns=2, panels=len(titles), caption=caption, **sizes) as (figure, grid):
        for axes, (problem, title) in zip(grid, titles.items(), strict=True):
            draw_sensitivity(axes, tried[tried["problem"] == problem], styles, objective, None)
            axes.set_title("\n".join(evenly_wrapped(title, room, 8.5)), fontsize=8.5)
            axes.set_ylabel(OBJECTIVE_LABELS[objective][0])
        legend_above(figure, labels)
    return figure


def _trials(tuned: Any, objective: str | None) -> tuple[pd.DataFrame, str]:
    """The trials and their objective."""
    import pandas as pd

    parts = [tuned] if hasattr(tuned, "to_frame") or hasattr(tuned, "tried") else tuned
    parts = list(parts.values()) if isinstance(parts, Mapping) else parts
    if not isinstance(parts, pd.DataFrame) and isinstance(parts, list | tuple):
        objectives = {getattr(part, "objective", None) or getattr(getattr(part, "protocol", None), "objective", None)
                      for part in parts} - {None}  # fmt: skip
        if objective is None and len(objectives) > 1:
            raise InputError(
                f"sensitivity draws one objective, got {', '.join(sorted(map(str, objectives)))}: draw them one by one"
            )
        objective = objective or next(iter(objectives), None)
        parts = [part.tried if hasattr(part, "bands") else part for part in parts]
    columns = ("problem", "optimizer", "label", "lr", *QUARTILES, "best")
    tried = inputs.table(parts, columns, function="sensitivity", expected="what qs.tune or qs.compare returned")
    if objective is None:
        raise InputError(f"sensitivity needs objective= for a table: one of {', '.join(OBJECTIVE_LABELS)}")
    return tried.drop(columns="part", errors="ignore"), choice("objective", objective, OBJECTIVE_LABELS)


def draw_sensitivity(
    axes: Axes,
    tried: pd.DataFrame,
    styles: Mapping[str, Style],
    objective: str,
    start: float | None,
    labels: Mapping[str, str] | None = None,
) -> None:
    """Draw median and quartiles of the objective against the learning rate, the best marked, failures at the top."""
    axes.set(xscale="log", xlabel="learning rate")
    axes.tick_params(labelsize=7)
    if tried.empty:
        axes.text(0.5, 0.5, "all learning rates given", transform=axes.transAxes, ha="center", color=GREY)
        axes.set(xticks=[], yticks=[])
        return
    linear = objective == "mean-log-loss"
    trials = [(str(name), _along_lr(curve)) for name, curve in tried.groupby("optimizer", sort=False)]
    bottom, ceiling, span = _range_of_objective([curve for _, curve in trials], objective, start)
    row = min(0.035, MAX_FAILED_SHARE / len(trials)) * span  # for the crosses of an optimizer
    high = ceiling + 0.05 * span + row * len(trials)

    def height(value: Any) -> Any:
        return value if linear else 10.0**value

    rates = np.concatenate([curve["lr"].to_numpy(dtype=float) for _, curve in trials])
    xlim = float(rates.min()) / 1.6, float(rates.max()) * 1.6
    frame = Frame(1.8, 1.7, xlim, (height(bottom), height(high)), log_x=True, log_y=not linear)
    curves, shown = [], [curve[curve["median"] <= ceiling] for _, curve in trials]
    for k, ((name, curve), inside) in enumerate(zip(trials, shown, strict=True)):
        colour = styles[name].colour
        lr, lower, median, upper = (inside[key].to_numpy(dtype=float) for key in ("lr", *QUARTILES))
        lower, median, upper = (height(np.clip(values, bottom, ceiling)) for values in (lower, median, upper))
        axes.fill_between(lr, lower, upper, color=colour, alpha=0.15, linewidth=0)
        curves.append(Curve(lr, median, styles[name]))
        failed = curve.loc[~(curve["median"] <= ceiling), "lr"]
        at = np.full(failed.size, height(high - 0.03 * span - row * k))
        axes.plot(failed, at, "x", color=colour, markersize=3.5, markeredgewidth=0.9)
        for rate, best in inside.loc[inside["best"].astype(bool), ["lr", "median"]].to_numpy(dtype=float):
            fill = "white" if rate in (curve["lr"].iloc[0], curve["lr"].iloc[-1]) and len(curve) > 1 else colour
            level = height(np.clip(best, bottom, ceiling))
            axes.plot(rate, level, "o", markersize=6, markerfacecolor=fill, color=colour, zorder=5)
    lines = draw_curves(axes, curves, frame, 1.0, marker=".", markersize=3)
    for (name, _), line in zip(trials, lines, strict=True):
        line.set_label(name if labels is None else labels[name])
    axes.set(xlim=xlim, ylim=frame.ylim, yscale="linear" if linear else "log")
    power_ticks(axes, y=not linear)
    if not any(len(inside) for inside in shown):
        axes.set_yticks([])
    axes.xaxis.get_major_locator().set_params(numticks=6)  # type: ignore[call-arg]


def _range_of_objective(curves: list[pd.DataFrame], objective: str, start: float | None) -> list[float]:
    """The least and the greatest value to draw, with a margin below, and the span between them.

    A learning rate slightly too large may end 50 decades above the others and would flatten them.
    """
    medians = [curve["median"].to_numpy(dtype=float) for curve in curves]
    finite = np.concatenate([median[np.isfinite(median)] for median in medians])
    best, worst = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    if objective == "final-loss":
        first = [median[0] for median in medians]  # a tiny learning rate stays at the start
        worst = min(worst, 1 + (np.log10(start) if start else max([*(h for h in first if np.isfinite(h)), best])))
        best = max(best, worst + np.log10(MIN_RELATIVE))
    elif objective == "mean-log-loss":
        worst = min(worst, 0.5)
    within = [curve.loc[curve["median"] <= worst, "lower"].to_numpy(dtype=float) for curve in curves]
    below = np.concatenate([lower[np.isfinite(lower)] for lower in within])
    least = max(min(best, float(below.min(initial=best))), worst + np.log10(MIN_RELATIVE))
    span = max(worst - least, 0.5)
    return [least - 0.08 * span, worst, span]


def _along_lr(curve: pd.DataFrame) -> pd.DataFrame:
    """The trials with the other settings of the best one, by learning rate."""
    best = curve[curve["best"]].iloc[0]
    for name in curve.columns:
        if name not in TRIAL_COLUMNS and best[name] == best[name]:  # a setting of another optimizer is NaN here
            curve = curve[curve[name] == best[name]]
    return curve.sort_values("lr")
