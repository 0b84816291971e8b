"""Curves in a panel: oscillations as envelopes, and curves that coincide as dashes in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.plots.layout import note
from quadsim.plots.style import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BIN = 0.03  # inches: shorter periods merge into an area
MIN_RANGE = 0.016  # inches: the width of a line; smaller oscillations do not widen it
MIN_TRAVERSALS = 5  # of its range within three bins, for a curve that oscillates
MIN_RUN, MAX_GAP = 3, 3  # bins of an envelope, and between two envelopes that are joined
TOUCHING = 0.012  # inches between curves that cover each other
MIN_ZONE = 8  # bins along which curves must coincide
DASH = 0.09  # inches
OSCILLATES = "Band with a line through it: range and median of a curve that oscillates faster than can be drawn."
COINCIDE = "Dashes of several colours in turn: curves that coincide."


@dataclass(frozen=True)
class Curve:
    """Finite points, ascending in x."""

    x: np.ndarray
    y: np.ndarray
    style: Style


@dataclass(frozen=True)
class Frame:
    """The panel that curves are drawn in: its size in inches, its limits, and which of its axes are logarithmic."""

    width: float
    height: float
    xlim: tuple[float, float]
    ylim: tuple[float, float]
    log_x: bool = False
    log_y: bool = True

    def across(self, x: Any) -> np.ndarray:
        return self.width * _share(x, self.xlim, self.log_x)

    def up(self, y: Any) -> np.ndarray:
        return self.height * _share(y, self.ylim, self.log_y)


def _share(values: Any, limits: tuple[float, float], log: bool) -> np.ndarray:
    values, low, high = np.asarray(values, dtype=float), *limits
    if log:
        values, low, high = np.log10(np.maximum(values, 1e-320)), np.log10(low), np.log10(high)
    return (values - low) / ((high - low) or 1.0)


def draw_curves(axes: Axes, curves: Sequence[Curve], frame: Frame, linewidth: float = 1.6, **options: Any) -> list[Any]:
    """Draw curves; returns a line for each. Options are those of `Axes.plot`, such as marker."""
    paths = [_path(curve, frame) for curve in curves]
    lines = []
    for k, (curve, (x, y, ranges)) in enumerate(zip(curves, paths, strict=True)):
        colour, solid = curve.style.colour, curve.style.stroke == "-"
        for at, low, high in ranges:
            axes.fill_between(at, low, high, color=colour, alpha=0.3, linewidth=0, gid="envelope", zorder=1.5)
        width = linewidth * (1.2 - 0.3 * k / (len(curves) - 1)) if len(curves) > 1 else linewidth
        order = 2.0 if solid else 2.2  # a solid line is seen through the gaps of others
        style: dict[str, Any] = {"linestyle": curve.style.stroke, "linewidth": width, "color": colour, "zorder": order}
        lines += axes.plot(x, y, **style, **options)
    if any(ranges for _, _, ranges in paths):
        note(axes, OSCILLATES)
    shown = [Curve(x, y, curve.style) for curve, (x, y, _) in zip(curves, paths, strict=True)]
    show_coinciding(axes, shown, frame, linewidth)
    return lines


def frame_of(axes: Axes, width: float, height: float) -> Frame:
    """The panel with its present limits and scales, of about this size in inches."""
    log_x, log_y = axes.get_xscale() == "log", axes.get_yscale() == "log"
    return Frame(width, height, axes.get_xlim(), axes.get_ylim(), log_x=log_x, log_y=log_y)


def show_coinciding(axes: Axes, curves: Sequence[Curve], frame: Frame, linewidth: float) -> None:
    """Draw dashes in turn over curves where they cover each other."""
    zones = _zones(curves, [(frame.across(curve.x), frame.up(curve.y)) for curve in curves])
    for members, first, last in zones:
        for turn, k in enumerate(members):
            _interleave(axes, curves[k], frame, (first, last), turn, len(members), linewidth)
    if zones:
        note(axes, COINCIDE)


def _interleave(
    axes: Axes,
    curve: Curve,
    frame: Frame,
    ends: tuple[float, float],
    turn: int,
    of: int,
    linewidth: float,
) -> None:
    """Draw dashes over the part of a curve between two distances from the left, in inches, with gaps for the others."""
    x, y = curve.x, curve.y
    across = frame.across(x)
    inside = np.flatnonzero((across >= ends[0] - BIN) & (across <= ends[1] + BIN))
    if inside.size < 2:  # between two points
        first, last = np.searchsorted(across, ends)
        inside = np.arange(max(first - 1, 0), min(last + 1, x.size))
    dash = DASH * 72 / linewidth
    style: dict[str, Any] = {"linestyle": (turn * dash, (dash, (of - 1) * dash)), "dash_capstyle": "butt"}
    axes.plot(
        x[inside], y[inside], color=curve.style.colour, linewidth=linewidth, zorder=2.4, gid="coincident", **style
    )


def _path(curve: Curve, frame: Frame) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, ...]]]:
    """The line to draw, and the envelopes along it: (x, lower, upper) for each stretch that oscillates."""
    x, y = curve.x, curve.y
    if x.size < 3 * MIN_TRAVERSALS:
        return x, y, []
    at, height = frame.across(x), frame.up(y)
    index = np.floor((at - at[0]) / BIN).astype(np.int64)
    starts = np.flatnonzero(np.diff(index, prepend=index[0] - 1))
    bins = index[starts]
    if bins.size < MIN_RUN:
        return x, y, []
    low, high = np.minimum.reduceat(height, starts), np.maximum.reduceat(height, starts)
    moves = np.add.reduceat(np.abs(np.diff(height, prepend=height[0])), starts)
    low, high = _rolling(low, np.minimum), _rolling(high, np.maximum)
    travel, span = _rolling(moves, np.add), high - low
    dense = (span > MIN_RANGE) & (travel > MIN_TRAVERSALS * span)
    runs = _runs(dense, bins)
    ends = np.append(starts[1:], x.size)
    line_x, line_y, ranges, done = [], [], [], 0
    for first, last in runs:
        left, right = starts[first], ends[last]
        line_x.append(x[done:left])
        line_y.append(y[done:left])
        inside = range(first, last + 1)
        middle = np.array([(starts[k] + ends[k] - 1) // 2 for k in inside])
        middle[0], middle[-1] = left, right - 1
        windows = [slice(starts[max(k - 1, first)], ends[min(k + 1, last)]) for k in inside]
        envelope = [np.array([kind(y[part]) for part in windows]) for kind in (np.min, np.max, np.median)]
        ranges.append((x[middle], *envelope[:2]))
        line_x.append(x[middle])
        line_y.append(envelope[2])
        done = right
    line_x.append(x[done:])
    line_y.append(y[done:])
    if runs and done == x.size:  # the end of the curve itself, where its mark is
        line_x.append(x[-1:])
        line_y.append(y[-1:])
    return np.concatenate(line_x), np.concatenate(line_y), ranges


def thinned(x: np.ndarray, low: np.ndarray, high: np.ndarray, frame: Frame) -> tuple[np.ndarray, ...]:
    """A band, widened to the range of its limits where they oscillate."""
    if x.size < 2 * MIN_RUN:
        return x, low, high
    index = np.floor(frame.across(x) / BIN).astype(np.int64)
    starts = np.flatnonzero(np.diff(index, prepend=index[0] - 1))
    turns = max(np.abs(np.diff(frame.up(values), n=2)).sum() for values in (low, high))
    if x.size < 2 * starts.size or starts.size < MIN_RUN or turns < 2 * frame.height:
        return x, low, high
    middle = (starts + np.append(starts[1:], x.size) - 1) // 2
    middle[0], middle[-1] = 0, x.size - 1
    low = _rolling(np.minimum.reduceat(low, starts), np.minimum)
    high = _rolling(np.maximum.reduceat(high, starts), np.maximum)
    return x[middle], low, high


def _rolling(values: np.ndarray, combine: np.ufunc) -> np.ndarray:
    """`combine` of each value and its neighbours."""
    result = values.copy()
    result[1:] = combine(result[1:], values[:-1])
    result[:-1] = combine(result[:-1], values[1:])
    return result


def _runs(dense: np.ndarray, bins: np.ndarray) -> list[tuple[int, int]]:
    """The first and last of each stretch of dense bins; short gaps are closed, short stretches left out."""
    where = np.flatnonzero(dense)
    if not where.size:
        return []
    breaks = np.flatnonzero(np.diff(bins[where]) > MAX_GAP + 1)
    firsts, lasts = where[np.append(0, breaks + 1)], where[np.append(breaks, where.size - 1)]
    return [(int(a), int(b)) for a, b in zip(firsts, lasts, strict=True) if b - a + 1 >= MIN_RUN]


def _zones(
    curves: Sequence[Curve], paths: Sequence[tuple[np.ndarray, np.ndarray]]
) -> list[tuple[tuple[int, ...], float, float]]:
    """Where curves of several colours coincide: which of them, and from where to where in inches.

    Two of them, one solid and the other not, need no further marks.
    """
    if len(curves) < 2:
        return []
    grids = [_on_grid(*path) for path in paths]
    left, right = min(first for first, _ in grids), max(first + heights.size for first, heights in grids)
    table = np.full((len(curves), right - left), np.nan)
    for row, (first, heights) in zip(table, grids, strict=True):
        row[first - left : first - left + heights.size] = heights
    zones, open_since = [], dict[tuple[int, ...], int]()
    for column in range(right - left + 1):
        now = set(_groups(table[:, column])) if column < right - left else set()
        for members in [members for members in open_since if members not in now]:
            start = open_since.pop(members)
            if column - start >= min(MIN_ZONE, right - left):
                zones.append((members, (left + start - 0.5) * BIN, (left + column - 0.5) * BIN))
        for members in now:
            open_since.setdefault(members, column)
    steep = [k for k, (_, heights) in enumerate(grids) if 0 < heights.size < MIN_ZONE]
    for k in steep:  # nearly vertical
        same = tuple(j for j in steep if all(map(np.array_equal, paths[j], paths[k])))
        if len(same) > 1 and same[0] == k:
            zones.append((same, -np.inf, np.inf))
    return [zone for zone in zones if _hidden([curves[k].style for k in zone[0]])]


def _groups(heights: np.ndarray) -> list[tuple[int, ...]]:
    """Indices of the curves that are at about the same height, at least two in each group."""
    order = np.argsort(heights)
    order = order[~np.isnan(heights[order])]
    parts = np.split(order, np.flatnonzero(np.diff(heights[order]) > TOUCHING) + 1)
    return [tuple(sorted(map(int, part))) for part in parts if part.size > 1]


def _hidden(styles: Sequence[Style]) -> bool:
    """Whether one of the curves covers another of another colour."""
    solid = sum(style.stroke == "-" for style in styles)
    return len({style.colour for style in styles}) > 1 and not (len(styles) == 2 and solid == 1)


def _on_grid(across: np.ndarray, up: np.ndarray) -> tuple[int, np.ndarray]:
    """The heights of a path at whole multiples of a bin's width, and the first multiple."""
    if not across.size:
        return 0, np.empty(0)
    first, last = int(np.floor(across[0] / BIN + 0.5)), int(np.floor(across[-1] / BIN + 0.5))
    return first, np.interp(np.arange(first, last + 1) * BIN, across, up)
