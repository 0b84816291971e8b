"""What all figures share: one style, one colour for an optimizer everywhere, ticks and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito's palette for the first six, Tol's muted and medium-contrast ones for the others: told apart by
# colour-blind readers, and in grey by their lightness. More than a dozen hues cannot be: what is near another one in
# colour has another stroke.
COLOURS = {
    "gd": "#D55E00", "block-gd": "#009E73", "frozen-adam": "#0072B2", "adam": "#CC79A7", "heavy-ball": "#E69F00",
    "nesterov": "#56B4E9",
    "sgd": "#994400", "adamw": "#AA4499", "amsgrad": "#882255", "nadam": "#CC6677", "adam-variance": "#332288",
    "rmsprop": "#999933", "adagrad": "#997700", "signgd": "#661100", "signum": "#44AA99", "lion": "#BB9933",
    "adam-mini": "#117733", "adasgd": "#994455", "muon": "#225555", "skip-update": "#6699CC", "magma": "#004488",
}  # fmt: skip
_DASHED, _DOTTED, _BOTH = (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5))
LINES: dict[str, Any] = {
    "sgd": _DASHED, "adamw": _DASHED, "amsgrad": _DOTTED, "nadam": _BOTH, "adam-variance": _DASHED,
    "rmsprop": _DOTTED, "adagrad": _BOTH, "signgd": _DOTTED, "signum": _DASHED, "lion": _BOTH,
    "adam-mini": _DASHED, "adasgd": _DOTTED, "muon": _BOTH, "skip-update": _DASHED, "magma": _DOTTED,
}  # fmt: skip
OTHERS = ("#000000", "#7F7F7F", "#8C6D31")
PALETTE = (*list(COLOURS.values())[:6], *OTHERS)  # for what is no optimizer
LOWEST, HIGHEST = 1e-200, 1e3  # relative gradient norms beyond these are left out
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "text.parse_math": False,  # a name with a dollar is a name
    "svg.fonttype": "none",  # text stays text: searchable, and in the reader's own font
    "svg.hashsalt": "quadsim",  # the same figure is the same file
}


def label_ends(axes: Axes, ends: list[tuple[float, float, str, str]]) -> None:
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


def power_ticks(axes: Axes, *, x: bool = True, y: bool = True) -> None:
    """Ticks at powers of ten, eight at most, in plain text: quicker to set than formulas, and text in the SVG."""
    from matplotlib.ticker import LogLocator, NullLocator

    superscript = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    for axis in [axes.xaxis] * x + [axes.yaxis] * y:
        axis.set_major_locator(LogLocator(numticks=9))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(
            lambda value, _: "10" + str(round(np.log10(value))).translate(superscript) if value > 0 else ""
        )
