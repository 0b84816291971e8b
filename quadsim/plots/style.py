"""The style of all figures: matplotlib settings, colours and strokes of optimizers, ticks at powers of ten."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quadsim import _discovery
from quadsim._format import in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito's palette for solid lines, and black and grey for lines of user-defined rules. Two dozen colours cannot be
# told apart by everyone: optimizers with the same stroke have colours that are distinct also for the colour-blind
# (tests/plots/test_colours.py), all others differ in stroke.
OKABE_ITO = ("#D55E00", "#009E73", "#0072B2", "#CC79A7", "#E69F00", "#56B4E9")
#: Black, grey and brown: colours of lines that no built-in optimizer has.
OTHERS = ("#000000", "#7F7F7F", "#8C6D31")
#: Colours of curves that are not of an optimizer.
PALETTE = (*OKABE_ITO, *OTHERS)
STROKES: dict[str, Any] = {
    "solid": "-", "dashed": (0, (5, 2)), "dotted": (0, (1.5, 1.5)), "dash-dot": (0, (6, 1.5, 1.5, 1.5)),
    "dash-dot-dot": (0, (6, 1.5, 1.5, 1.5, 1.5, 1.5)), "long-dashed": (0, (11, 2.5)),
}  # fmt: skip
UNUSED = (  # colours and strokes for optimizers without their own; the last two strokes are used nowhere else
    ("#000000", "solid"),
    *((colour, stroke) for stroke in ("solid", "dash-dot-dot", "long-dashed")
      for colour in ("#D55E00", "#0072B2", "#E69F00", "#56B4E9", "#009E73")),
)  # fmt: skip
#: Colours of problems.
CASE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
LONG_NUMBER = 1e7  # from here on steps are written in words
#: The settings of matplotlib for all figures.
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
    """How figures show an optimizer.

    Parameters
    ----------
    label : str
    colour : str, optional
        Without one it gets a colour, and a stroke, that the figure does not use yet.
    stroke :
        A line style of matplotlib.

    Examples
    --------
    >>> qs.plots.STYLES["gd"]
    Style(label='GD', colour='#D55E00', stroke='-')
    """

    label: str
    colour: str | None = None
    stroke: Any = "-"  # a line style of matplotlib


#: The style of each built-in optimizer, by name.
STYLES = {info.name: Style(info.label, info.colour, STROKES[info.stroke]) for info in _discovery.optimizers()}


def style_of(name: str) -> Style:
    """The style of an optimizer.

    Parameters
    ----------
    name : str
        A user-defined rule has a label but no colour; any other name is its own label.

    Returns
    -------
    Style

    Examples
    --------
    >>> qs.plots.style_of("adam").label, qs.plots.style_of("theory").label
    ('Adam', 'theory')
    """
    return STYLES.get(name) or Style(_discovery.USER_LABELS.get(name, name))


def styles_of(names: Sequence[str]) -> dict[str, Style]:
    """The style of each optimizer; one without a colour gets a colour and a stroke that the others do not use."""
    styles = {name: style_of(name) for name in names}
    taken = {(style.colour, str(style.stroke)) for style in styles.values()}
    every = [(colour, STROKES[stroke]) for colour, stroke in UNUSED]
    free = itertools.chain((pair for pair in every if (pair[0], str(pair[1])) not in taken), itertools.cycle(every))
    for name, style in styles.items():
        if style.colour is None:
            colour, stroke = next(free)
            styles[name] = replace(style, colour=colour, stroke=stroke)
    return styles


def step_ticks(axes: Axes, count: int = 5) -> None:
    """About so many ticks at whole steps on the x-axis, powers of ten on the y-axis. Call it when limits are set."""
    from matplotlib.ticker import MaxNLocator

    wide = axes.get_xlim()[1] >= LONG_NUMBER
    axes.xaxis.set_major_locator(MaxNLocator(min(count, 3) if wide else count, steps=[1, 2, 2.5, 5, 10], integer=True))
    axes.xaxis.set_major_formatter((lambda value, _: in_words(value)) if wide else "{x:,.0f}")
    power_ticks(axes, x=False)


def power_ticks(axes: Axes, *, x: bool = True, y: bool = True) -> None:
    """At most eight ticks at powers of ten, labelled in plain text: faster than math text, and text in the SVG.

    Parameters
    ----------
    axes : matplotlib Axes
    x, y : bool
        Which of the two axes.

    Examples
    --------
    >>> with qs.plots.canvas() as (figure, (axes,)):
    ...     _ = axes.loglog([1, 1e6], [1, 1e-9])
    ...     qs.plots.power_ticks(axes)
    """
    from matplotlib.ticker import NullLocator

    from quadsim.plots.figure import PowerFormatter, PowerLocator

    for axis in [axes.xaxis] * x + [axes.yaxis] * y:
        axis.set_major_locator(PowerLocator(numticks=9))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(PowerFormatter())
