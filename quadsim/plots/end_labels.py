"""Labels at the ends of curves, where they touch neither each other nor the edges of the panel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from quadsim.plots.text import width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from quadsim.plots.curve_drawing import Frame

SIZE = 8.5  # points
LINE = 1.2 * SIZE / 72  # inches
GAP = 0.07  # inches between a label and the end of its curve
MAX_LABELS, MAX_WIDTH = 8, 1.9  # more labels, or longer ones (in inches), make a legend
ROWS = 5  # the lines below the end of a curve that its label may be on


class EndLabel(NamedTuple):
    """The end of a curve, and its label."""

    x: float
    y: float
    text: str
    colour: str


def room_below(low: float, high: float, height: float, rows: int) -> float:
    """The lower limit of a log axis of this height in inches with room for some labels below `low`."""
    share = min((GAP + rows * LINE) / height, 0.8)
    decades = float(np.log10(high) - np.log10(low)) * share / (1 - share)
    return max(10.0 ** max(float(np.log10(low)) - decades, -320.0), 1e-320)


def places(
    labels: Sequence[EndLabel], curves: Sequence[tuple[np.ndarray, np.ndarray]], frame: Frame, taken: Sequence[Any] = ()
) -> list[tuple[float, float]] | None:
    """The centre of each label in inches from the corner of the panel; None if they do not fit.

    `curves` are points to keep clear of where possible, `taken` boxes (left, bottom, right, top), both in inches.
    """
    if len(labels) > MAX_LABELS:
        return None
    points = np.concatenate([_dense(*curve) for curve in curves]) if curves else np.empty((0, 2))
    occupied = [tuple(box) for box in taken]
    chosen: dict[int, tuple[float, float]] = {}
    for k in sorted(range(len(labels)), key=lambda k: (labels[k].x, -labels[k].y)):
        width = width_of([labels[k].text], SIZE, bold=True)
        if width > min(MAX_WIDTH, frame.width):
            return None
        at = float(frame.across(labels[k].x)), float(frame.up(labels[k].y))
        best = None
        for x, y in _candidates(at, width, frame):
            box = x - width / 2, y - LINE / 2, x + width / 2, y + LINE / 2
            if box[1] < 0 or box[3] > frame.height or any(_overlap(box, other) for other in occupied):
                continue
            covered = (points > (box[0], box[1])).all(axis=1) & (points < (box[2], box[3])).all(axis=1)
            away = abs(x - at[0]) / 3 + abs(y - at[1])
            cost = away + 0.05 * min(int(covered.sum()), 12)
            if best is None or cost < best[0]:
                best = cost, (x, y), box
        if best is None:
            return None
        chosen[k] = best[1]
        occupied.append(best[2])
    return [chosen[k] for k in range(len(labels))]


def write(axes: Axes, labels: Sequence[EndLabel], centres: Sequence[tuple[float, float]], frame: Frame) -> None:
    from matplotlib.patheffects import withStroke

    outline = [withStroke(linewidth=2.5, foreground="white")]
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SIZE, "fontweight": "bold", "zorder": 5}
    for label, (x, y) in zip(labels, centres, strict=True):
        at = x / frame.width, y / frame.height
        axes.text(*at, label.text, color=label.colour, transform=axes.transAxes, path_effects=outline, **style)


def _candidates(at: tuple[float, float], width: float, frame: Frame) -> list[tuple[float, float]]:
    """Centres of a label, the usual place first: below the end of the curve, beside it, above it."""
    x, y = at
    below = [(x + side * width / 2, y - GAP - LINE * (row + 0.5)) for row in range(ROWS) for side in (0, -1, 1)]
    beside = [(x + side * (width / 2 + GAP), y + row * LINE) for row in (0, 1, -1, 2, -2) for side in (1, -1)]
    above = [(x + side * width / 2, y + GAP + LINE * (row + 0.5)) for row in range(ROWS) for side in (0, -1, 1)]
    half = width / 2
    within = [(float(np.clip(x, half, max(frame.width - half, half))), y) for x, y in below + above]
    return within + [(x, y) for x, y in beside if half <= x <= frame.width - half]


def _dense(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Points along a curve, near enough for a label not to slip between them."""
    if x.size < 2:
        return np.column_stack([x, y])
    along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    at = np.linspace(0, along[-1], int(min(along[-1] / 0.06, 2000)) + 2)
    return np.column_stack([np.interp(at, along, x), np.interp(at, along, y)])


def _overlap(box: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
