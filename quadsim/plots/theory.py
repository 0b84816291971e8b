"""Theory beside what happens: losses under their bounds, κ_eff against κ."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from quadsim.plots.style import CASE_COLOURS, COLOURS, STYLE, power_ticks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def bounds(curves: pd.DataFrame, *, title: str = "", caption: str = "") -> Figure:
    """Loss beside its first value against steps: measured, under its bound, above its exact rate. A panel an optimizer.

    Columns optimizer, label, seed, step, loss (beside the first), bound (the guarantee at that step, for every start),
    rate (the asymptotic rate as a straight line).
    """
    import matplotlib
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(curves["optimizer"]))
    with matplotlib.rc_context(STYLE):
        rows = -(-len(names) // 2)
        figure = Figure(figsize=(7.0, 0.8 + 2.35 * rows), layout="constrained")
        grid = figure.subplots(rows, min(2, len(names)), squeeze=False).ravel()
        for axes, name in zip(grid, names, strict=False):
            ours, colour = curves[curves["optimizer"] == name], COLOURS.get(name, "#000000")
            for number, (_, run) in enumerate(ours.groupby("seed", sort=False)):
                label = "measured, step by step" if number == 0 else None
                axes.plot(run["step"], run["loss"], color=colour, linewidth=0.9, alpha=0.7, label=label)
            one = ours[ours["seed"] == ours["seed"].iloc[0]]
            axes.plot(one["step"], one["bound"], color="#000000", linewidth=1.3, linestyle=(0, (5, 2)), label="bound")
            axes.plot(one["step"], one["rate"], color="#666666", linewidth=1.0, linestyle=":", label="exact rate")
            low = max(float(ours["loss"].min()), 1e-16)
            axes.set(yscale="log", ylim=(low / 3, 3 * float(np.nanmax(one["bound"]))), xlabel="steps")
            axes.set_title(str(one["label"].iloc[0]), loc="left")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.locator_params(axis="x", nbins=5)
            power_ticks(axes, x=False)
        for axes in grid[len(names) :]:
            axes.set_visible(False)
        for axes in grid[::2]:
            axes.set_ylabel("loss / its first value")
        for axes in grid[: len(names)]:
            axes.legend(frameon=False, fontsize=7, loc="upper right")
        _words(figure, title, caption)
    return figure


def kappa_eff(quartiles: pd.DataFrame, *, title: str = "", caption: str = "") -> Figure:
    """What frozen Adam sees against what GD sees (columns problem, kappa, lower, median, upper), quartiles shaded."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.6, 3.9), layout="constrained")
        axes = figure.subplots()
        for colour, (name, ours) in zip(CASE_COLOURS, quartiles.groupby("problem", sort=False), strict=False):
            axes.fill_between(ours["kappa"], ours["lower"], ours["upper"], color=colour, alpha=0.2, linewidth=0)
            axes.plot(ours["kappa"], ours["median"], color=colour)
            _beside(axes, ours["kappa"], ours["median"], str(name), colour)
        ends = np.array([quartiles["kappa"].min(), quartiles["kappa"].max()])
        axes.plot(ends, ends, color="#666666", linewidth=1.0, linestyle=":")
        axes.set(xscale="log", yscale="log", xlabel="κ, the condition number that GD sees")
        axes.set_ylabel("κ_eff, the one that frozen Adam sees")
        axes.annotate(
            "κ_eff = κ", (ends[0] ** 0.35 * ends[1] ** 0.65, ends[0] ** 0.35 * ends[1] ** 0.65), xytext=(6, -10),
            textcoords="offset points", fontsize=8, color="#666666",
        )  # fmt: skip
        power_ticks(axes)
        _words(figure, title, caption)
    return figure


def _beside(axes: Axes, x: pd.Series, y: pd.Series, label: str, colour: str) -> None:
    """A curve's label above its last third."""
    at = int(0.72 * len(x))
    axes.annotate(
        label, (x.iloc[at], y.iloc[at]), xytext=(0, 8), textcoords="offset points", color=colour, fontsize=8.5,
        fontweight="bold", ha="right",
    )  # fmt: skip


def _words(figure: Figure, title: str, caption: str) -> None:
    width = figure.get_figwidth()
    figure.suptitle(textwrap.fill(title, int(13 * width)), x=0.01, ha="left", fontsize=9.5)
    lines = "\n".join(textwrap.wrap(caption, int(18.5 * width)))
    figure.supxlabel(lines, fontsize=6.5, color="#555555", x=0.01, ha="left")
