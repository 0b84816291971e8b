"""Parts of an HTML repr: escaped text, tables, and small figures as SVG.

Self-contained: inline styles, no script, no link. Text and lines have the notebook's own text colour, so that they can
be read on light and on dark backgrounds.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadsim._format import power_of_ten
from quadsim._validation import one_line

MAX_TEXT = 80  # characters of a cell
WIDTH, HEIGHT = 340, 150  # of a small figure, in pixels
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 8, 32  # its margins
BUCKETS = 100  # of a curve; the lowest and the highest point of each are drawn
MAX_LABEL = 20  # characters of a block's name in a figure
MARKS = 2500  # of a figure of spectra
STROKES = {"solid": "", "dashed": "5 3", "dotted": "2 2", "dash-dot": "7 2 2 2"}
TEXT = 'font-family="sans-serif" font-size="10" fill="currentColor"'


def escape(text: object, at_most: int = MAX_TEXT) -> str:
    """The text on one line, shortened, with <, >, & and quotes escaped."""
    return html.escape(one_line(str(text), at_most))


def colour(given: str | None) -> str:
    """A colour such as #0072B2; the colour of the text in place of anything else."""
    return given if isinstance(given, str) and re.fullmatch("#[0-9A-Fa-f]{6}", given) else "currentColor"


def card(title: str, *parts: str) -> str:
    """A bold title, and parts side by side where the page is wide enough."""
    inside = "".join(part for part in parts if part)
    flex = "display:flex;flex-wrap:wrap;gap:4px 24px;align-items:flex-start"
    return f'<div><div><b>{title}</b></div><div style="{flex}">{inside}</div></div>'


def note(text: str) -> str:
    """A line of small text below the other parts."""
    return f'<div style="flex-basis:100%;max-width:60em;font-size:85%;opacity:.8">{escape(text, 400)}</div>'


def facts(rows: dict[str, object]) -> str:
    """A table of names and values; without those that are None."""
    cells = [
        f"<tr>{_cell('th', escape(key), True)}{_cell('td', escape(value), True)}</tr>"
        for key, value in rows.items()
        if value is not None
    ]
    return _table("".join(cells))


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, more: int = 0, colours: Sequence[str] = ()
) -> str:
    """A table; ``more`` rows are left out. ``colours``: of a stroke before the first cell of each row."""
    head = "".join(_cell("th", escape(name), number == 0) for number, name in enumerate(columns))
    body = []
    for number, row in enumerate(rows):
        swatch = f'<span style="color:{colours[number]}">&#9632;</span> ' if colours else ""
        cells = [_cell("td", (swatch if k == 0 else "") + escape(value), k == 0) for k, value in enumerate(row)]
        body.append(f"<tr>{''.join(cells)}</tr>")
    if more:
        body.append(f'<tr><td colspan="{len(columns)}" style="text-align:left">and {more:,} more</td></tr>')
    return _table(f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody>")


def _table(rows: str) -> str:
    return f'<div style="overflow-x:auto"><table style="color:inherit;font-size:inherit">{rows}</table></div>'


def _cell(tag: str, content: str, left: bool) -> str:
    side = "left" if left else "right"
    return f'<{tag} style="text-align:{side};padding:1px 6px;white-space:nowrap">{content}</{tag}>'


@dataclass(frozen=True)
class Curve:
    """A line of a small figure: points in decades on both axes, its colour, and its stroke."""

    x: np.ndarray
    y: np.ndarray
    colour: str = "currentColor"
    stroke: str = "solid"
    mark: int = -1  # the point with a circle


def curves(given: Sequence[Curve], xlabel: str, ylabel: str) -> str:
    """A small figure of curves on log axes; empty if no point is finite."""
    finite = [(curve, np.isfinite(curve.x) & np.isfinite(curve.y)) for curve in given]
    finite = [(curve, kept) for curve, kept in finite if kept.any()]
    if not finite:
        return ""
    across = _Axis.of(np.concatenate([curve.x[kept] for curve, kept in finite]))
    up = _Axis.of(np.concatenate([curve.y[kept] for curve, kept in finite]))
    parts = []
    for curve, kept in finite:
        x, y = across.at(curve.x, LEFT, WIDTH - RIGHT), up.at(curve.y, HEIGHT - BOTTOM, TOP)
        dash = f' stroke-dasharray="{STROKES[curve.stroke]}"' if STROKES.get(curve.stroke) else ""
        line = " ".join(f"{a:.0f},{b:.1f}" for a, b in zip(*_thinned(x[kept], y[kept]), strict=True))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{curve.colour}" stroke-width="1.5"{dash}/>')
        if kept[curve.mark]:
            at = f'cx="{x[curve.mark]:.0f}" cy="{y[curve.mark]:.1f}"'
            parts.append(f'<circle {at} r="2.5" fill="{curve.colour}"/>')
    return _svg(f"{ylabel} against {xlabel}", HEIGHT, [*_frame(across, up, xlabel, ylabel), *parts])


def spectra(blocks: Sequence[np.ndarray], labels: Sequence[str]) -> str:
    """A row for each block with a mark at each number's logarithm; equal pixels are drawn once."""
    logs = [np.log10(values) for values in blocks]
    axis = _Axis.of(np.concatenate(logs))
    first = 10 + 5.5 * min(max(map(len, labels)), MAX_LABEL)  # pixels: where the axis begins
    step = max(1.0, len(logs) * (WIDTH - first) / MARKS)  # pixels between marks
    row = min(22, max(8, 132 / len(logs)))
    parts, bottom = [], TOP + row * len(logs)
    for number, (values, label) in enumerate(zip(logs, labels, strict=True)):
        at = np.unique(np.round(axis.at(values, first, WIDTH - RIGHT) / step) * step)
        y = TOP + row * number
        path = "".join(f"M{x:.0f},{y:.0f}v{row * 0.75:.0f}" for x in at)
        parts.append(f'<path d="{path}" stroke="currentColor" stroke-width="{max(step, 1.5):.1f}"/>')
        beside = f'x="{first - 6:.0f}" y="{y + row * 0.7:.0f}" text-anchor="end"'
        parts.append(f"<text {beside} {TEXT}>{escape(label, MAX_LABEL)}</text>")
    ticks = _ticks(axis, first, WIDTH - RIGHT, bottom + 4)
    below = f'x="{(first + WIDTH) / 2:.0f}" y="{bottom + 28:.0f}" text-anchor="middle"'
    return _svg("eigenvalues by block", bottom + 32, [*parts, *ticks, f"<text {below} {TEXT}>eigenvalue</text>"])


@dataclass(frozen=True)
class _Axis:
    """A range of decades."""

    low: float
    high: float

    @staticmethod
    def of(values: np.ndarray) -> _Axis:
        low, high = float(values.min()), float(values.max())
        return _Axis(low, high) if high - low > 1e-9 else _Axis(low - 0.5, high + 0.5)

    def at(self, values: Any, first: float, last: float) -> Any:
        return first + (np.asarray(values) - self.low) / (self.high - self.low) * (last - first)

    def ticks(self, at_most: int = 5) -> Iterator[tuple[float, str]]:
        """Powers of ten in the range, or its ends if there are fewer than two."""
        low, high = int(np.ceil(self.low - 1e-9)), int(np.floor(self.high + 1e-9))
        if high - low < 1:
            yield from ((end, f"{10.0**end:.3g}") for end in (self.low, self.high))
            return
        every = -(-(high - low) // (at_most - 1))
        yield from ((float(power), _power(power)) for power in range(low, high + 1, every))


def _power(exponent: int) -> str:
    """10⁻⁶, or 10^-2e8 far outside float64's range."""
    return power_of_ten(exponent) if abs(exponent) < 1e5 else f"10^{exponent:.0e}".replace("e+0", "e")


def _frame(across: _Axis, up: _Axis, xlabel: str, ylabel: str) -> Iterator[str]:
    yield from _ticks(across, LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM)
    yield f'<path d="M{LEFT},{TOP}V{HEIGHT - BOTTOM}" stroke="currentColor" stroke-opacity=".5" fill="none"/>'
    for value, label in up.ticks():
        y = up.at(value, HEIGHT - BOTTOM, TOP)
        yield f'<text x="{LEFT - 4}" y="{y + 3:.0f}" text-anchor="end" {TEXT}>{label}</text>'
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="translate(9,{middle:.0f}) rotate(-90)" text-anchor="middle"'
    yield f"<text {turned} {TEXT}>{escape(ylabel, 30)}</text>"
    x = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text x="{x:.0f}" y="{HEIGHT - 4}" text-anchor="middle" {TEXT}>{escape(xlabel, 50)}</text>'


def _ticks(axis: _Axis, first: float, last: float, y: float) -> Iterator[str]:
    """A horizontal axis with its labels."""
    yield f'<path d="M{first:.0f},{y:.0f}H{last:.0f}" stroke="currentColor" stroke-opacity=".5" fill="none"/>'
    for value, label in axis.ticks():
        x = axis.at(value, first, last)
        anchor = "end" if x > WIDTH - 20 else "middle"
        yield f'<text x="{x:.0f}" y="{y + 12:.0f}" text-anchor="{anchor}" {TEXT}>{label}</text>'


def _svg(label: str, height: float, parts: Iterable[str]) -> str:
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    return f'<svg {size} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest point of each bucket of pixels, in order; all if they are few."""
    if x.size <= 2 * BUCKETS:
        return x, y
    bucket = np.floor(x / (WIDTH / BUCKETS)).astype(int)
    starts = np.flatnonzero(np.diff(bucket, prepend=bucket[0] - 1))
    ends = np.append(starts[1:], x.size)
    kept = {0, x.size - 1}
    for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
        kept |= {first + int(np.argmin(y[first:last])), first + int(np.argmax(y[first:last]))}
    order = np.array(sorted(kept))
    return x[order], y[order]
