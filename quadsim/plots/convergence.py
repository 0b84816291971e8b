"""Convergence: gradient norm against steps, a curve for each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim._format import power_of_ten
from quadsim.plots import end_labels, inputs
from quadsim.plots.curve_drawing import Curve, Frame, draw_curves
from quadsim.plots.end_labels import EndLabel
from quadsim.plots.given_axes import add_legend, one_panel, union
from quadsim.plots.layout import GREY, arrange, legend_above, note
from quadsim.plots.style import Style, power_ticks, styles_of
from quadsim.plots.text import default_rates, evenly_wrapped, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

YLABEL = "gradient norm / its first value"
MIN_NORM, MAX_NORM = 1e-300, 1e3  # relative gradient norms beyond these are not drawn
WIDTH, HEIGHT = 5.6, 2.6  # inches: of the figure, and of its panel with the labels of the axes below
BELOW = f"Open downward triangle: the curve goes on below {power_of_ten(-300)}, or to zero."
ABOVE = "Upward triangle: the curve goes on above the panel."
EMPTY = "no curve: no run has a step after its first with a gradient norm above zero"


def convergence(
    runs: Any, *, ax: Any = None, title: str = "", caption: str = "", tol: float | None = None
) -> Figure | Axes:
    """Gradient norm against steps on log axes: a curve for each run, a label for each optimizer.

    Parameters
    ----------
    runs :
        A run, a list of runs, or their table (`qs.table.curves`).
    ax :
        Axes to draw into, with a legend, instead of a new figure with a label at the end of each curve.
    title, caption : str
        Written above and below the panel.
    tol :
        The relative tolerance, drawn as a line.

    Returns
    -------
    figure or axes :
        The new figure, or `ax`.

    Examples
    --------
    >>> runs = qs.solve(qs.case(3), [qs.GD(), qs.FrozenAdam()])
    >>> figure = qs.plots.convergence(runs, tol=1e-6)
    >>> figure.savefig("runs.png")
    """
    lanes, origins = inputs.lanes(runs, "convergence"), inputs.rate_origins(runs)
    rates = default_rates(origins)
    marked = {label for label, origin in origins if rates and origin == "default"}
    with one_panel(ax, title=title, caption=caption, width=WIDTH, height=HEIGHT, font_size=8) as (figure, axes):
        parts = [part for part in _lanes(lanes) if part.curve.x.size]
        if not parts:
            say(axes, EMPTY)
        lowest = tol if tol and tol > MIN_NORM else None
        frame = _frame_of([part.curve for part in parts], lowest, axes, ax)
        axes.set(xscale="log", yscale="log", xlim=frame.xlim, ylim=frame.ylim, xlabel="steps", ylabel=YLABEL)
        lines = draw_curves(axes, [part.curve for part in parts], frame)
        for part, line in zip(parts, lines, strict=True):
            _mark_end(axes, part)
            if ax is not None:
                line.set_label(f"{part.label}, default lr" if part.label in marked else part.label)
        if lowest:
            draw_tol(axes, lowest)
        if ax is not None:
            add_legend(axes)
        else:
            _finish(figure, axes, parts, frame, lowest)
            if rates and not caption:
                note(axes, rates)
        power_ticks(axes)
    return figure if ax is None else axes


class _Lane:
    """A run's curve within the limits, and how it ends."""

    def __init__(self, label: str, style: Style, steps: np.ndarray, norms: np.ndarray) -> None:
        later = steps > 0
        most = np.inf if later.any() and norms[later][-1] <= MAX_NORM else MAX_NORM  # a peak is drawn, divergence cut
        visible = later & (norms <= most) & (norms >= MIN_NORM) & np.isfinite(norms)
        self.label = label
        self.curve = Curve(steps[visible], norms[visible], style)
        last = norms[later][-1] if later.any() else 1.0
        self.end = "^" if not last <= MAX_NORM else "v" if last < MIN_NORM else "o"


def _lanes(lanes: Sequence[tuple[str, str, np.ndarray, np.ndarray]]) -> list[_Lane]:
    styles = styles_of(list(dict.fromkeys(name for name, _, _, _ in lanes)))
    return [
        _Lane(label, styles[name], steps, np.where(np.isnan(norms), np.inf, norms))
        for name, label, steps, norms in lanes
    ]


def _mark_end(axes: Axes, lane: _Lane) -> None:
    x, y, colour = lane.curve.x[-1], lane.curve.y[-1], lane.curve.style.colour
    fill = "none" if lane.end == "v" else colour
    axes.plot(x, y, lane.end, color=colour, markersize=4, markerfacecolor=fill, zorder=3)
    note(axes, *{"^": [ABOVE], "v": [BELOW]}.get(lane.end, []))


def _frame_of(curves: Sequence[Curve], tol: float | None, axes: Axes, ax: Any) -> Frame:
    """The panel of `convergence`, with a margin around the data."""
    last = max([float(curve.x.max()) for curve in curves], default=1.0)
    heights = np.concatenate([curve.y for curve in curves]) if curves else np.array([1.0])
    low, high = min(float(heights.min()), tol or np.inf), max(float(heights.max()), tol or 0)
    low, high = (low / 10, high * 10) if high < 1.001 * low else (low, high)
    low, high = max(low * (low / high) ** 0.04, 5e-324), high * (high / low) ** 0.04
    xlim = max(last, 2.0) ** -0.05, max(last, 2.0) ** 1.05
    if ax is None:
        size = WIDTH - 0.35 - _tick_width(low, high) - 0.08, HEIGHT - 0.42 + 0.52
    else:
        window = axes.get_window_extent()
        dpi = axes.figure.dpi
        size = window.width / dpi, window.height / dpi
        if axes.has_data():  # curves that were drawn before stay inside
            xlim = union(xlim, axes.get_xlim())
            low, high = union((low, high), axes.get_ylim())
    return Frame(*size, xlim, (low, high), log_x=True)


def _tick_width(low: float, high: float) -> float:
    ends = (power_of_ten(int(np.floor(np.log10(max(end, 1e-320))))) for end in (low, high))
    return width_of(list(ends), 8)


def _finish(figure: Any, axes: Axes, lanes: Sequence[_Lane], frame: Frame, tol: float | None) -> None:
    """Set the limits with room for labels, and write these; a legend replaces labels that do not fit."""
    first: dict[str, EndLabel] = {}
    for lane in lanes:
        x, y = float(lane.curve.x[-1]), float(lane.curve.y[-1])
        first.setdefault(lane.label, EndLabel(x, y, lane.label, str(lane.curve.style.colour)))
    labels, centres, spacious = list(first.values()), None, frame
    names = {lane.label: lane for lane in lanes}
    for rows in range(1, 5):
        low = end_labels.room_below(*frame.ylim, frame.height, rows)
        spacious = Frame(frame.width, frame.height, frame.xlim, (low, frame.ylim[1]), log_x=True)
        taken = []
        if tol:
            at, wide = float(spacious.up(tol)), width_of([_tol_text(tol)], 7.5) + 0.1
            taken = [(0, at - 0.02, wide, at + 0.17)]
        points = [(spacious.across(lane.curve.x), spacious.up(lane.curve.y)) for lane in lanes]
        centres = end_labels.places(labels, points, spacious, taken)
        if centres is not None:
            break
    figure.set_layout_engine("none")
    figure.margins = 0.35 + _tick_width(*spacious.ylim), 0.42
    if centres is None:
        spacious = frame
        legend_above(figure, {name: name for name in names}, {name: lane.curve.style for name, lane in names.items()})
    elif labels:
        end_labels.write(axes, labels, centres, spacious)
    arrange(figure)
    axes.set(xlim=spacious.xlim, ylim=spacious.ylim)


def draw_tol(axes: Axes, tol: float, *, labelled: bool = True) -> None:
    """A line at the tolerance."""
    axes.axhline(tol, color="#888888", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    if labelled:
        above: dict[str, Any] = {"xytext": (3, 3), "textcoords": "offset points", "color": "#666666"}
        axes.annotate(_tol_text(tol), (0, tol), xycoords=("axes fraction", "data"), fontsize=7.5, **above)


def say(axes: Axes, sentence: str) -> None:
    """Write in the panel why it has no curve."""
    inches = axes.get_window_extent().width / axes.get_figure().dpi  # type: ignore[union-attr]
    lines = "\n".join(evenly_wrapped(sentence, 0.7 * inches, 8))
    axes.text(0.5, 0.5, lines, transform=axes.transAxes, ha="center", va="center", fontsize=8, color=GREY)


def _tol_text(tol: float) -> str:
    return f"tol = {tol:g}"
