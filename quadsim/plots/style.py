"""What all figures share: one style, one colour for an optimizer everywhere, ticks and labels, the width of texts."""

from __future__ import annotations

from collections.abc import Sequence
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
CASE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # for problems
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


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """The colour of each optimizer: its own everywhere, and one of the others for those that have none."""
    others = iter([*OTHERS, *COLOURS.values()] * len(names))
    taken = {COLOURS[name] for name in names if name in COLOURS}
    chosen = {}
    for name in names:
        chosen[name] = COLOURS.get(name) or next((c for c in others if c not in taken), OTHERS[0])
        taken.add(chosen[name])
    return chosen


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

    for axis in [axes.xaxis] * x + [axes.yaxis] * y:
        axis.set_major_locator(LogLocator(numticks=9))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: power_of_ten(round(np.log10(value))) if value > 0 else "")


def power_of_ten(exponent: int) -> str:
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def width_of(texts: Sequence[str], size: float = 7.5, *, bold: bool = False) -> float:
    """The inches that the widest of some texts needs."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(weight="bold" if bold else "normal", size=size)
    lines = [line for text in texts for line in text.splitlines()]
    widths = (text_to_path.get_text_width_height_descent(line, font, False)[0] for line in lines)
    return 1.06 * max(widths, default=0.0) / 72  # letters set on whole pixels are up to 6% wider than they are drawn


def wrapped(text: str, inches: float, size: float) -> list[str]:
    """A text in lines as full as some width allows; "case 3" and "β2 = 1" stay in one."""
    kept = text.replace(" = ", "\u00a0=\u00a0").replace(" (β", "\u00a0(β").replace("case ", "case\u00a0")
    lines: list[str] = []
    for word in kept.split(" "):
        if lines and width_of([f"{lines[-1]} {word}"], size) <= inches:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [line.replace("\u00a0", " ") for line in lines]


def evenly_wrapped(text: str, inches: float, size: float) -> list[str]:
    """No more lines than `wrapped` makes, of as even a width as that allows."""
    best = wrapped(text, inches, size)
    for share in np.arange(0.95, 0.45, -0.05) if len(best) > 1 else ():
        lines = wrapped(text, share * inches, size)
        if len(lines) > len(best) or width_of(lines, size) > share * inches:
            break
        best = lines
    return best
