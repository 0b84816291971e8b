"""A tidy table → a figure. A plot function neither runs anything nor saves anything.

One style for all: colour-blind-safe, the same colour for an optimizer everywhere, labels beside the curves.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's palette: told apart by colour-blind readers, and in grey by their lightness.
COLOURS = {"gd": "#D55E00", "block-gd": "#009E73", "frozen-adam": "#0072B2", "adam": "#CC79A7"}
OTHERS = ("#E69F00", "#56B4E9", "#000000")
LOWEST, HIGHEST = 1e-200, 1e3  # relative gradient norms beyond these are left out
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",  # text stays text: searchable, and in the reader's own font
    "svg.hashsalt": "quadsim",  # the same figure is the same file
}


def convergence(curves: pd.DataFrame, *, title: str = "", caption: str = "", tol: float | None = None) -> Figure:
    """Gradient norm against steps on log axes (`table.curves`): a curve for each lane, a label for each optimizer."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.6, 3.7))
        # Fixed margins: a computed layout would take longer than the rest of the command.
        axes = figure.add_axes((0.115, 0.175, 0.865, 0.705))
        axes.set(xscale="log", yscale="log", xlabel="steps", ylabel="gradient norm / its first value")
        ends: dict[str, tuple[float, float, str, str]] = {}
        for (name, label, _), curve in curves.groupby(["optimizer", "label", "lane"], sort=False):
            colour = COLOURS.get(str(name), OTHERS[len(ends) % len(OTHERS)])
            curve = curve[(curve["step"] > 0) & (curve["relative"] > LOWEST)]  # a log axis has no zero
            inside = curve[curve["relative"] <= HIGHEST]  # a run that explodes would flatten all the others
            if inside.empty:
                continue
            axes.plot(inside["step"], inside["relative"], color=colour)
            last, leaves = inside.iloc[-1], len(inside) < len(curve)
            axes.plot(last["step"], last["relative"], "^" if leaves else "o", color=colour, markersize=4)
            ends.setdefault(str(label), (float(last["step"]), float(last["relative"]), str(label), colour))
        axes.set_title(textwrap.fill(title, 72, break_on_hyphens=False), loc="left")
        if tol and tol > LOWEST:
            axes.axhline(tol, color="#888888", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
            axes.annotate(
                f"tol = {tol:g}", (0, tol), xycoords=("axes fraction", "data"), xytext=(3, 3),
                textcoords="offset points", fontsize=7.5, color="#666666",
            )  # fmt: skip
        _label_ends(axes, list(ends.values()))
        _power_ticks(axes)
        lines = textwrap.wrap(caption, 105, break_long_words=True, max_lines=2, placeholder=" …")
        figure.text(0.012, 0.012, "\n".join(lines), fontsize=6.5, color="#555555")
    return figure


def _label_ends(axes: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Write each curve's label below its end (step, height, label, colour); labels that would touch move down."""
    from matplotlib.patheffects import withStroke

    character, line = 0.0148, 0.06  # a bold letter's width and a line's height, in fractions of the axes
    low, high = axes.get_ylim()
    room = line * (len(ends) + 0.7)  # the share of the new axis that labels below the lowest end may need
    axes.set_ylim(max(low / (high / low) ** (room / (1 - room)), 1e-300), high)
    placed: list[tuple[float, float, float]] = []
    for step, height, label, colour in sorted(ends):
        x, y = axes.transAxes.inverted().transform(axes.transData.transform((step, height)))
        half = character * len(label) / 2
        if height > 1:  # a rising curve has its own line below it: write beside
            x, y = x + half + 0.02, y + line
        x, y = min(max(x, half), 1 - half), y - line
        while any(abs(x - there) < half + width and abs(y - level) < 0.99 * line for there, level, width in placed):
            y -= line / 4
        placed.append((x, y, half))
        axes.text(
            x, y, label, transform=axes.transAxes, ha="center", va="center", color=colour, fontsize=8.5,
            fontweight="bold", path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip


def _power_ticks(axes: Axes) -> None:
    """Ticks at powers of ten, eight at most, in plain text: quicker to set than formulas, and text in the SVG."""
    from matplotlib.ticker import LogLocator, NullLocator

    superscript = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(numticks=9))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(
            lambda value, _: "10" + str(round(np.log10(value))).translate(superscript) if value > 0 else ""
        )
