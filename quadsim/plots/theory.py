"""Theory beside measurements: losses and their bounds, κ_eff against κ."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.plots.layout import canvas
from quadsim.plots.style import CASE_COLOURS, power_ticks, step_ticks, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def bounds(curves: pd.DataFrame, *, title: str = "", caption: str = "") -> Figure:
    """Relative loss against steps: measured, its bound and its asymptotic rate; a panel for each optimizer.

    Columns optimizer, label, seed, step, loss (relative to the first), bound (the guarantee at that step, for every
    start), rate (the asymptotic rate as a straight line).
    """
    names = list(dict.fromkeys(curves["optimizer"]))
    with canvas(columns=2, panels=len(names), title=title, caption=caption, height=1.73) as (figure, grid):
        for number, (axes, name) in enumerate(zip(grid, names, strict=True)):
            ours, colour = curves[curves["optimizer"] == name], style_of(name).colour or "#000000"
            for label, (_, run) in zip_longest(["measured, step by step"], ours.groupby("seed", sort=False)):
                axes.plot(run["step"], run["loss"], color=colour, linewidth=0.9, alpha=0.7, label=label)
            one = ours[ours["seed"] == ours["seed"].iloc[0]]
            axes.plot(one["step"], one["bound"], color="#000000", linewidth=1.3, linestyle=(0, (5, 2)), label="bound")
            axes.plot(one["step"], one["rate"], color="#666666", linewidth=1.0, linestyle=":", label="exact rate")
            low = max(float(ours["loss"].min()), 1e-16)
            axes.set(yscale="log", ylim=(low / 3, 3 * float(np.nanmax(one["bound"]))), xlabel="steps")
            axes.set_title(str(one["label"].iloc[0]))
            step_ticks(axes)
            axes.legend(frameon=False, fontsize=7, loc="upper right")
            if number % 2 == 0:
                axes.set_ylabel("loss / its first value")
    return figure


def kappa_eff(quartiles: pd.DataFrame, *, title: str = "", caption: str = "") -> Figure:
    """κ_eff of frozen Adam against κ (columns problem, kappa, lower, median, upper), quartiles shaded."""
    with canvas(title=title, caption=caption, width=5.6, height=2.8, font_size=9) as (figure, (axes,)):
        for colour, (name, ours) in zip(CASE_COLOURS, quartiles.groupby("problem", sort=False), strict=False):
            axes.fill_between(ours["kappa"], ours["lower"], ours["upper"], color=colour, alpha=0.2, linewidth=0)
            axes.plot(ours["kappa"], ours["median"], color=colour)
            labelled = ours.iloc[int(0.72 * len(ours))]
            at = labelled["kappa"], labelled["median"]
            bold: dict[str, Any] = {"fontsize": 8.5, "fontweight": "bold", "ha": "right", "color": colour}
            axes.annotate(str(name), at, xytext=(0, 8), textcoords="offset points", **bold)
        ends = np.array([quartiles["kappa"].min(), quartiles["kappa"].max()])
        axes.plot(ends, ends, color="#666666", linewidth=1.0, linestyle=":")
        axes.set(xscale="log", yscale="log", xlabel="κ, the condition number for GD")
        axes.set_ylabel("κ_eff, the condition number for frozen Adam")
        middle = ends[0] ** 0.35 * ends[1] ** 0.65
        below: dict[str, Any] = {"xytext": (6, -10), "textcoords": "offset points", "color": "#666666"}
        axes.annotate("κ_eff = κ", (middle, middle), fontsize=8, **below)
        power_ticks(axes)
    return figure
