"""Comparisons: curves at the tuned learning rates, sensitivity to the learning rate, and paired differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim._quantiles import QUARTILES, quantile
from quadsim.plots.convergence import draw_tol, until
from quadsim.plots.layout import GREY, blank_figure, canvas, legend_above, style_context
from quadsim.plots.style import colours_of, power_of_ten, power_ticks, step_ticks
from quadsim.plots.text import evenly_wrapped, wrapped

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIN_RELATIVE = 1e-24  # values further below the start than this are not drawn
RATIOS = (
    (0.1, 0.3, 1, 3, 10),
    (0.25, 0.5, 1, 2, 4),
    (0.5, 0.7, 1, 1.4, 2),
    (0.8, 0.9, 1, 1.1, 1.25),
    (0.9, 0.95, 1, 1.05, 1.1),
)
TRIAL_COLUMNS = (  # of the table of trials; the others are settings
    "problem", "optimizer", "label", "lr", "level", *QUARTILES, "diverged", "underflow", "log_loss", "best",
)  # fmt: skip
OBJECTIVE_LABELS = {
    "final-loss": ("final loss", "final loss / that of {}"),
    "steps-to-tol": ("steps to tol", "steps / those of {}"),
    "mean-log-loss": ("mean of log₁₀ L/L₀", "mean of log₁₀ L/L₀, less that of {}"),
}


def comparison(
    summary: pd.DataFrame,
    bands: pd.DataFrame,
    tried: pd.DataFrame,
    runs: pd.DataFrame,
    *,
    objective: str,
    titles: dict[str, str],
    caption: str = "",
    tol: float | None = None,
) -> Figure:
    """The tables of one or more `Comparison`: a row for each problem, named in `titles` with its finding.

    Left: medians and quartiles against steps at the tuned learning rate. Middle: the objective against the learning
    rate on the tuning seeds; the best is marked, open if it is at the edge of the grid; crosses at the top failed.
    Right: the paired differences to the reference, a dot for each seed, and the median with its interval.
    """
    labels = dict(zip(summary["optimizer"], summary["label"], strict=True))
    colours = colours_of(list(labels))
    optimizers = max(int(summary.groupby("problem").size().max()), 3)
    with style_context(8):
        figure = blank_figure(7.0, 0.4 + len(titles) * (2.25 + 0.12 * (optimizers - 3)), caption=caption)
        rows = np.atleast_1d(np.array(figure.subfigures(len(titles), 1, hspace=0.0)))
        for part, (problem, title) in zip(rows, titles.items(), strict=True):
            ours = [frame[frame["problem"] == problem] for frame in (summary, bands, tried, runs)]
            left, middle, right = part.subplots(1, 3, width_ratios=(1, 1, 1.05))
            top = _curves(left, ours[1], colours, tol if objective == "steps-to-tol" else None)
            _sensitivity(middle, ours[2], colours, objective, top)
            _differences(right, ours[0], ours[3], colours, objective)
            part.suptitle("\n".join(evenly_wrapped(title, 6.8, 9)), x=0.01, ha="left", fontsize=9)
        legend_above(figure, labels, strokes=False)
    return figure


def sensitivity(tried: pd.DataFrame, *, objective: str, titles: dict[str, str], caption: str = "") -> Figure:
    """The objective against the learning rate (the tables of one or more `Tuned`), a panel for each problem."""
    labels = dict(zip(tried["optimizer"], tried["label"], strict=True))
    colours = colours_of(list(labels))
    width, room = (7.2, 3.0) if len(titles) > 1 else (5.0, 4.4)
    sizes: dict[str, Any] = {"width": width, "height": 1.98, "font_size": 8}
    with canvas(columns=2, panels=len(titles), caption=caption, **sizes) as (figure, grid):
        for axes, (problem, title) in zip(grid, titles.items(), strict=True):
            _sensitivity(axes, tried[tried["problem"] == problem], colours, objective, None)
            axes.set_title("\n".join(wrapped(title, room, 8.5)), fontsize=8.5)
        legend_above(figure, labels, strokes=False)
    return figure


def _curves(axes: Axes, bands: pd.DataFrame, colours: dict[str, str], tol: float | None) -> float:
    """Draw the median and the quartiles of each optimizer; returns the height at which they start."""
    top = float(bands.loc[bands["step"] == 0, "median"].max())
    low, high = top * MIN_RELATIVE, top * 30
    least = top
    for name, curve in bands.groupby("optimizer", sort=False):
        inside = until(curve.assign(**{key: curve[key].clip(low, high) for key in QUARTILES}), "median", tol)
        colour = colours[str(name)]
        axes.fill_between(inside["step"], inside["lower"], inside["upper"], color=colour, alpha=0.2, linewidth=0)
        axes.plot(inside["step"], inside["median"], color=colour, linewidth=1.3)
        least = min(least, float(inside["lower"].min()))
    names = {"loss": "loss", "relative loss": "loss / its first value"}
    axes.set(yscale="log", ylim=(max(least, low) / 2, top * 6), xlabel="steps")
    axes.set_title(names.get(bands["measure"].iloc[0], "gradient norm / its first value"), fontsize=8)
    if tol is not None:
        draw_tol(axes, tol)
        axes.set_xlim(0.9, max(1.1 * float(bands["step"].max()), 10))
        axes.set_xscale("log")
        power_ticks(axes)
    else:
        step_ticks(axes, 4)
    axes.tick_params(labelsize=7)
    return top


def _sensitivity(axes: Axes, tried: pd.DataFrame, colours: dict[str, str], objective: str, start: float | None) -> None:
    """Draw median and quartiles of the objective against the learning rate, the best marked, failures at the top."""
    axes.set(xscale="log", xlabel="learning rate")
    axes.set_title(OBJECTIVE_LABELS[objective][0], fontsize=8)
    axes.tick_params(labelsize=7)
    if tried.empty:
        axes.text(0.5, 0.5, "all learning rates given", transform=axes.transAxes, ha="center", color=GREY)
        axes.set(xticks=[], yticks=[])
        return
    linear = objective == "mean-log-loss"
    curves = [(str(name), _along_lr(curve)) for name, curve in tried.groupby("optimizer", sort=False)]
    bottom, ceiling, span = _range_of_objective([curve["median"] for _, curve in curves], objective, start)

    def height(value: Any) -> Any:
        return value if linear else 10.0**value

    for k, (name, curve) in enumerate(curves):
        lr, shown, colour = curve["lr"], curve["median"] <= ceiling, colours[name]
        lower, median, upper = (height(curve[key].clip(bottom, ceiling)) for key in QUARTILES)
        axes.fill_between(lr, lower, upper, where=shown, color=colour, alpha=0.15, linewidth=0)
        axes.plot(lr[shown], median[shown], color=colour, linewidth=1.0, marker=".", markersize=3)
        top = np.full((~shown).sum(), height(ceiling - 0.035 * span * k))
        axes.plot(lr[~shown], top, "x", color=colour, markersize=3.5, markeredgewidth=0.9)
        for at, best in curve.loc[curve["best"] & shown, ["lr", "median"]].to_numpy():
            fill = "white" if at in (lr.iloc[0], lr.iloc[-1]) and len(curve) > 1 else colour
            level = height(np.clip(best, bottom, ceiling))
            axes.plot(at, level, "o", markersize=6, clip_on=False, markerfacecolor=fill, color=colour, zorder=5)
    axes.set_ylim(height(bottom), height(ceiling + 0.03 * span))
    if not linear:
        axes.set_yscale("log")
    power_ticks(axes, y=not linear)
    axes.xaxis.get_major_locator().set_params(numticks=6)  # type: ignore[call-arg]


def _range_of_objective(medians: list[pd.Series], objective: str, start: float | None) -> list[float]:
    """Bottom and top of the axis, and its span without margins.

    A learning rate slightly too large may end 50 decades above the others and would flatten them.
    """
    finite = np.concatenate([median[np.isfinite(median)] for median in medians])
    best, worst = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    if objective == "final-loss":
        first = [median.iloc[0] for median in medians]  # a tiny learning rate stays at the start
        worst = min(worst, 1 + (np.log10(start) if start else max([*(h for h in first if np.isfinite(h)), best])))
        best = max(best, worst + np.log10(MIN_RELATIVE))
    elif objective == "mean-log-loss":
        worst = min(worst, 0.5)
    span = max(worst - best, 0.5)
    return [best - 0.08 * span, worst + 0.12 * span, span]


def _along_lr(curve: pd.DataFrame) -> pd.DataFrame:
    """The trials with the other settings of the best one, by learning rate."""
    best = curve[curve["best"]].iloc[0]
    for name in curve.columns:
        if name not in TRIAL_COLUMNS and best[name] == best[name]:  # a setting of another optimizer is NaN here
            curve = curve[curve[name] == best[name]]
    return curve.sort_values("lr")


def _differences(
    axes: Axes, summary: pd.DataFrame, runs: pd.DataFrame, colours: dict[str, str], objective: str
) -> None:
    """A row for each optimizer except the reference: a dot for each seed, median and interval, the verdict as text."""
    others = summary[summary["against"].notna()]
    reference = "".join(summary.loc[summary["against"].isna(), "label"].head(1))
    axes.set_title(OBJECTIVE_LABELS[objective][1].format(reference), fontsize=8)
    axes.spines["left"].set_visible(False)
    axes.tick_params(labelsize=7)
    axes.set_yticks([])
    if others.empty:
        axes.text(0.5, 0.5, "nothing to compare with", transform=axes.transAxes, ha="center", color=GREY)
        axes.set_xticks([])
        return
    values = [runs.loc[runs["optimizer"] == name, "difference"].dropna().to_numpy() for name in others["optimizer"]]
    low, high = _range_of_differences(others, values)
    axes.axvline(0, color=GREY, linewidth=0.9, zorder=0)
    jitter = np.random.default_rng(0)
    white: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    for number, (row, at) in enumerate(zip(others.to_dict("records"), values, strict=True)):
        colour = colours[row["optimizer"]]
        heights = -number + 0.02 + 0.12 * jitter.uniform(-1, 1, at.size)
        inside = (at > low) & (at < high)
        axes.plot(at[inside], heights[inside], "o", color=colour, markersize=2.2, alpha=0.45, markeredgewidth=0)
        for beyond, edge, mark in ((at <= low, low, "<"), (at >= high, high, ">")):
            axes.plot(np.full(beyond.sum(), edge), heights[beyond], mark, color=colour, markersize=3, alpha=0.6)
        ends = np.clip([row["low"], row["high"]], low, high)
        axes.plot(ends, [-number - 0.2] * 2, color=colour, linewidth=2.2, solid_capstyle="butt")
        axes.plot(np.clip(row["difference"], low, high), -number - 0.2, "D", color=colour, markersize=4)
        style: dict[str, Any] = {"color": colour, "fontweight": "bold", "fontsize": 7.5, "va": "center", "bbox": white}
        verdict = f"{row['label']}: {row['verdict']}"
        axes.text(0.0, -number + 0.3, verdict, transform=axes.get_yaxis_transform(), **style)
    axes.set(xlim=(low, high), ylim=(-len(others) + 0.55, 0.5))
    if objective == "mean-log-loss":
        axes.set_xlabel("decades")
    else:
        ratio_ticks(axes, low, high)
    for text, offset, side in (("better", -4, "right"), ("worse", 4, "left")):
        beside: dict[str, Any] = {"xytext": (offset, 3), "textcoords": "offset points", "ha": side}
        axes.annotate(text, (0, -0.02), xycoords=("data", "axes fraction"), fontsize=6.5, color=GREY, **beside)


def _range_of_differences(others: pd.DataFrame, values: list[np.ndarray]) -> tuple[float, float]:
    """The range of the intervals and of nine in ten dots: a few outliers would flatten the rest."""
    reach = [0.0, *others["low"], *others["high"]]
    for known in values:
        reach += [float(quantile(known, share, "nearest")) for share in (0.05, 0.95) if known.size]
    reach = [float(value) for value in reach if np.isfinite(value)]
    low, high = max(min(reach), np.log10(MIN_RELATIVE)), min(max(reach), -np.log10(MIN_RELATIVE))
    room = max(0.08 * (high - low), 0.02)
    return min(low - room, -3 * room), max(high + room, 3 * room)  # both sides of 0 can be seen


def ratio_ticks(axes: Axes, low: float, high: float) -> None:
    """Label the ticks of an axis in decades with ratios."""
    if high - low >= 1.5:
        step = int(np.ceil((high - low) / 4))
        ticks = np.arange(step * np.ceil(low / step), high + 1e-9, step)
        names = ["1" if k == 0 else power_of_ten(int(k)) for k in ticks]
    else:
        visible = [[ratio for ratio in ratios if low <= np.log10(ratio) <= high] for ratios in RATIOS]
        chosen = next((ratios for ratios in visible if len(ratios) >= 3), visible[-1])
        ticks, names = np.log10(chosen), [f"{ratio:g}" for ratio in chosen]
    axes.set_xticks(ticks, names)
