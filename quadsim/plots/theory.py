"""Theory beside measurements: losses and their bounds, κ_eff against κ."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.plots import inputs
from quadsim.plots.given_axes import add_legend, given, one_panel, refuse
from quadsim.plots.layout import canvas, label_right
from quadsim.plots.style import CASE_COLOURS, PALETTE, power_ticks, step_ticks, styles_of
from quadsim.plots.text import all_fitted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIN_LOSS = 1e-300
BOUND_COLUMNS = ("optimizer", "label", "seed", "step", "loss", "bound", "rate")


def bounds(curves: Any, *, ax: Any = None, title: str = "", caption: str = "") -> Figure | Axes:
    """Relative loss against steps: measured, its bound and its asymptotic rate; a panel for each optimizer.

    Parameters
    ----------
    curves :
        A table with the columns optimizer, label, seed, step, loss (relative to the first), bound (the guarantee at
        that step, for every start), rate (the asymptotic rate as a straight line).
    ax :
        Axes to draw into, for one optimizer.
    title, caption : str
        Written above and below the panels.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> problem, steps = qs.case(3), np.arange(101)
    >>> run = qs.exact(problem, qs.HeavyBall(), at=steps)
    >>> table = run.to_frame().assign(loss=run.loss / run.loss[0])
    >>> table["bound"] = qs.theory.bound(problem, qs.HeavyBall(), at=steps)
    >>> table["rate"] = qs.theory.rate(problem, qs.HeavyBall()) ** steps
    >>> figure = qs.plots.bounds(table)
    """
    expected = "a table of losses with their bounds"
    curves = inputs.table(curves, BOUND_COLUMNS, function="bounds", expected=expected)
    names = list(dict.fromkeys(curves["optimizer"]))
    refuse(ax, len(names), "optimizer", "select one, or leave ax out")
    colours = {name: str(style.colour) for name, style in styles_of(names).items()}
    if ax is not None:
        with given(ax, title or str(curves["label"].iloc[0])) as axes:
            _bound(axes, curves, colours[names[0]])
            axes.set_ylabel("loss / its first value")
        return axes
    with canvas(columns=2, panels=len(names), title=title, caption=caption, height=1.73) as (figure, grid):
        labels = dict(zip(curves["optimizer"], map(str, curves["label"]), strict=True))
        titles = all_fitted([labels[name] for name in names], 5.6 / min(len(names), 2), 9)
        for number, (axes, name, text) in enumerate(zip(grid, names, titles, strict=True)):
            _bound(axes, curves[curves["optimizer"] == name], colours[name])
            axes.set_title(text)
            if number % 2 == 0:
                axes.set_ylabel("loss / its first value")
    return figure


def _bound(axes: Axes, rows: pd.DataFrame, colour: str) -> None:
    rows = rows.assign(loss=rows["loss"].clip(lower=MIN_LOSS))
    for label, (_, run) in zip_longest(["measured, step by step"], rows.groupby("seed", sort=False)):
        axes.plot(run["step"], run["loss"], color=colour, linewidth=0.9, alpha=0.7, label=label)
    one = rows[rows["seed"] == rows["seed"].iloc[0]]
    axes.plot(one["step"], one["bound"], color="#000000", linewidth=1.3, linestyle=(0, (5, 2)), label="bound")
    low, high = float(rows["loss"].min()), float(np.nanmax([one["bound"].max(), rows["loss"].max()]))
    rate = one[one["rate"] >= low / 3]  # the rate is a line for comparison: it ends where the panel does
    axes.plot(rate["step"], rate["rate"], color="#666666", linewidth=1.0, linestyle=":", label="exact rate")
    axes.set(yscale="log", ylim=(max(low / 3, 5e-324), 3 * high), xlabel="steps")
    step_ticks(axes)
    axes.legend(frameon=False, fontsize=7, loc="upper right")


def kappa_eff(quartiles: Any, *, ax: Any = None, title: str = "", caption: str = "") -> Figure | Axes:
    """κ_eff of frozen Adam against κ, quartiles shaded.

    Parameters
    ----------
    quartiles :
        A table with the columns problem, kappa, lower, median, upper.
    ax :
        Axes to draw into.
    title, caption : str
        Written above and below the panel.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("case 3", 100, 5, 20, 60), ("case 3", 1000, 5, 22, 70)]
    >>> figure = qs.plots.kappa_eff(pd.DataFrame(rows, columns=["problem", "kappa", "lower", "median", "upper"]))
    """
    columns = ("problem", "kappa", "lower", "median", "upper")
    table = inputs.table(quartiles, columns, function="kappa_eff", expected="a table of quartiles of κ_eff")
    colours = [*CASE_COLOURS, *(colour for colour in PALETTE if colour not in CASE_COLOURS)]
    with one_panel(ax, title=title, caption=caption, width=5.6, height=2.8, font_size=9) as (figure, axes):
        ends = []
        names = list(dict.fromkeys(map(str, table["problem"])))
        labels = dict(zip(names, all_fitted(names, 1.4, 8.5, bold=True), strict=True))
        for number, (name, ours) in enumerate(table.groupby("problem", sort=False)):
            colour = colours[number % len(colours)]
            axes.fill_between(ours["kappa"], ours["lower"], ours["upper"], color=colour, alpha=0.2, linewidth=0)
            axes.plot(ours["kappa"], ours["median"], color=colour, label=str(name))
            last = ours["median"].to_numpy()[int(ours["kappa"].to_numpy().argmax())]
            ends.append((float(last), labels[str(name)], colour))
        limits = np.array([table["kappa"].min(), table["kappa"].max()])
        axes.plot(limits, limits, color="#666666", linewidth=1.0, linestyle=":", label="κ_eff = κ")
        ends.append((float(limits[1]), "κ_eff = κ", "#666666"))
        axes.set(xscale="log", yscale="log", xlabel="κ, the condition number for GD")
        axes.set_ylabel("κ_eff, the condition number for frozen Adam")
        power_ticks(axes)
        if ax is None:
            label_right(axes, ends, size=8.5)
        else:
            add_legend(axes)
    return figure if ax is None else axes
