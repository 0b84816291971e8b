"""The style of all figures: matplotlib settings, colours and strokes of optimizers, ticks at powers of ten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import _discovery
from quadsim._format import power_of_ten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito's palette for the first six optimizers, Tol's muted and medium-contrast ones for the others:
# colour-blind-safe, and distinct in grey by their lightness. More than a dozen hues cannot be distinct: optimizers with
# similar colours have different strokes.
OKABE_ITO = ("#D55E00", "#009E73", "#0072B2", "#CC79A7", "#E69F00", "#56B4E9")
OTHERS = ("#000000", "#7F7F7F", "#8C6D31")
PALETTE = (*OKABE_ITO, *OTHERS)  # for curves that are not of an optimizer
STROKES: dict[str, Any] = {
    "solid": "-", "dashed": (0, (5, 2)), "dotted": (0, (1.5, 1.5)), "dash-dot": (0, (6, 1.5, 1.5, 1.5)),
}  # fmt: skip
CASE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # for problems
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "text.parse_math": False,  # names may contain dollar signs
    "svg.fonttype": "none",  # text stays searchable
    "svg.hashsalt": "quadsim",  # reproducible files
}


@dataclass(frozen=True)
class Style:
    """How figures show an optimizer. Without a colour it gets one that the figure does not use yet."""

    label: str
    colour: str | None = None
    stroke: Any = "-"  # a line style of matplotlib


STYLES = {info.name: Style(info.label, info.colour, STROKES[info.stroke]) for info in _discovery.optimizers()}


def style_of(name: str) -> Style:
    """The style of an optimizer. A user-defined rule has a label but no colour; any other name is its own label."""
    return STYLES.get(name) or Style(_discovery.USER_LABELS.get(name, name))


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """The colour of each optimizer; those without one get one that is not used yet."""
    registered = (style.colour for style in STYLES.values() if style.colour is not None)
    others = iter((*OTHERS, *OKABE_ITO, *registered))
    chosen = {}
    taken = {style_of(name).colour for name in names}
    for name in names:
        chosen[name] = style_of(name).colour or next((c for c in others if c not in taken), OTHERS[0])
        taken.add(chosen[name])
    return chosen


def step_ticks(axes: Axes, count: int = 5) -> None:
    """About so many ticks at whole steps on the x-axis, powers of ten on the y-axis."""
    axes.locator_params(axis="x", nbins=count)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    power_ticks(axes, x=False)


def power_ticks(axes: Axes, *, x: bool = True, y: bool = True) -> None:
    """At most eight ticks at powers of ten, labelled in plain text: faster than math text, and text in the SVG."""
    from matplotlib.ticker import LogLocator, NullLocator

    for axis in [axes.xaxis] * x + [axes.yaxis] * y:
        axis.set_major_locator(LogLocator(numticks=9))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: power_of_ten(round(np.log10(value))) if value > 0 else "")
