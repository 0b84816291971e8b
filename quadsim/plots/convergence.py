"""Convergence: gradient norm against steps, one curve per run or quartiles over draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.plots.layout import canvas, legend_above
from quadsim.plots.style import colours_of, power_ticks, step_ticks, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

YLABEL = "gradient norm / its first value"
MIN_NORM, MAX_NORM = 1e-200, 1e3  # relative gradient norms beyond these are not drawn


def convergence(curves: pd.DataFrame, *, title: str = "", caption: str = "", tol: float | None = None) -> Figure:
    """Gradient norm against steps on log axes (`table.curves`): a curve for each lane, a label for each optimizer."""
    with canvas(title=title, caption=caption, width=5.6, height=2.6, font_size=8) as (figure, (axes,)):
        axes.set(xscale="log", yscale="log", xlabel="steps", ylabel=YLABEL)
        colours = colours_of(list(curves["optimizer"].unique()))
        ends: dict[str, tuple[float, float, str, str]] = {}
        for (name, label, _), curve in curves.groupby(["optimizer", "label", "lane"], sort=False):
            colour = colours[str(name)]
            curve = curve[(curve["step"] > 0) & (curve["relative"] > MIN_NORM)]  # a log axis has no zero
            inside = curve[curve["relative"] <= MAX_NORM]  # a diverging run would flatten all others
            if inside.empty:
                continue
            axes.plot(inside["step"], inside["relative"], linestyle=style_of(str(name)).stroke, color=colour)
            last, leaves = inside.iloc[-1], len(inside) < len(curve)
            axes.plot(last["step"], last["relative"], "^" if leaves else "o", color=colour, markersize=4)
            ends.setdefault(str(label), (float(last["step"]), float(last["relative"]), str(label), colour))
        if tol and tol > MIN_NORM:
            draw_tol(axes, tol)
            above: dict[str, Any] = {"xytext": (3, 3), "textcoords": "offset points", "color": "#666666"}
            axes.annotate(f"tol = {tol:g}", (0, tol), xycoords=("axes fraction", "data"), fontsize=7.5, **above)
        low, high = axes.dataLim.intervaly
        if low <= high < 1.001 * low:  # no range to scale to: only the line at tol, or a single point
            axes.set_autoscaley_on(False)
            axes.set_ylim(low / 10, 10 * high)
        _label_ends(axes, list(ends.values()))
        power_ticks(axes)
    return figure


def panels(bands: pd.DataFrame, titles: dict[str, str], *, caption: str = "", tol: float | None = None) -> Figure:
    """Gradient norm against steps (`table.bands`), a panel for each problem: median over draws, quartiles as a band."""
    labels = dict(zip(bands["optimizer"], bands["label"], strict=True))
    colours = colours_of(list(labels))
    with canvas(columns=2, panels=len(titles), caption=caption, height=1.83) as (figure, grid):
        legend_above(figure, labels)
        for number, (axes, (problem, title)) in enumerate(zip(grid, titles.items(), strict=True)):
            last = 0.0
            for name, curve in bands[bands["problem"] == problem].groupby("optimizer", sort=False):
                colour, shown = colours[str(name)], curve[curve["median"] > MIN_NORM]
                band, line = (until(shown, column, tol) for column in ("upper", "median"))
                axes.fill_between(band["step"], band["lower"], band["upper"], color=colour, alpha=0.2, linewidth=0)
                axes.plot(line["step"], line["median"], linestyle=style_of(str(name)).stroke, color=colour)
                last = max(last, float(line["step"].iloc[-1]))
            axes.set(yscale="log", xlim=(-0.02 * last, 1.12 * last), title=title, xlabel="steps")
            axes.set_ylim(tol / 2 if tol else None, 2)
            step_ticks(axes)
            if number % 2 == 0:
                axes.set_ylabel(YLABEL)
    return figure


def until(curve: pd.DataFrame, column: str, tol: float | None) -> pd.DataFrame:
    """The curve up to the first point at which a column is at most tol."""
    reached = np.flatnonzero(curve[column] <= (tol or 0))
    return curve.iloc[: reached[0] + 1] if reached.size else curve


def draw_tol(axes: Axes, tol: float) -> None:
    axes.axhline(tol, color="#888888", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)


def _label_ends(axes: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Write each curve's label below its end (step, height, label, colour); labels that would overlap move down."""
    from matplotlib.patheffects import withStroke

    character, line = 0.0148, 0.06  # the width of a bold letter and the height of a line, in fractions of the axes
    low, high = axes.get_ylim()
    room = line * (len(ends) + 0.7)  # the share of the new axis that labels below the lowest end may need
    axes.set_ylim(max(low / (high / low) ** (room / (1 - room)), 1e-300), high)
    outline = [withStroke(linewidth=2.5, foreground="white")]
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8.5, "fontweight": "bold"}
    placed: list[tuple[float, float, float]] = []
    for step, height, label, colour in sorted(ends):
        x, y = axes.transAxes.inverted().transform(axes.transData.transform((step, height)))
        half = character * len(label) / 2
        if height > 1:  # a label below the end of a rising curve would cover it: write beside it
            x, y = x + half + 0.02, y + line
        x, y = float(np.clip(x, half, 1 - half)), y - line
        while any(abs(x - other) < half + width and abs(y - level) < 0.99 * line for other, level, width in placed):
            y -= line / 4
        placed.append((x, y, half))
        axes.text(x, y, label, color=colour, transform=axes.transAxes, path_effects=outline, **style)
