"""The scales of sweep figures: that of a swept axis, and that of the result, which all panels share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from quadsim._format import in_words
from quadsim._quantiles import QUARTILES
from quadsim.plots.aggregate import broken, floats
from quadsim.plots.style import power_ticks

if TYPE_CHECKING:
    from matplotlib.axis import Axis

MIN_LOG_SPAN = 30  # axes whose values span at least this factor are logarithmic
MAX_GAP_RATIO = 8  # axes whose widest gap exceeds this many times the narrowest have evenly spaced values


class Scale:
    """An axis of numbers: "log", "linear", or "even" (evenly spaced values)."""

    def __init__(self, column: pd.Series) -> None:
        self.values = values = np.unique(floats(column.dropna()))
        gaps = np.diff(values)
        self.kind = "linear"
        if values[0] > 0 and (column.name == "kappa" or values[-1] >= MIN_LOG_SPAN * values[0]):
            self.kind = "log"
        elif gaps.size > 1 and gaps.max() > MAX_GAP_RATIO * gaps.min():
            self.kind = "even"

    def positions(self, values: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.values, values).astype(float) if self.kind == "even" else values

    def edges(self) -> np.ndarray:
        """The cell edges of a heat map: half-way between neighbours, on the scale."""
        at = self.positions(self.values)
        at = np.log10(at) if self.kind == "log" else at
        half = np.diff(at) / 2 if at.size > 1 else np.array([0.5])
        edges = np.concatenate([[at[0] - half[0]], at[:-1] + half[: at.size - 1], [at[-1] + half[-1]]])
        return 10**edges if self.kind == "log" else edges

    def set(self, axis: Axis, *, room: float) -> None:
        """Set the ticks, and the limits: beyond the values by a share `room` of the axis, or at the cell edges if 0."""
        log = self.kind == "log"
        at = self.positions(self.values)
        low, high = (at if room and at.size > 1 else self.edges())[[0, -1]]
        low, high = _set_limits(axis, low, high, room, room, log=log)
        if log:
            far = np.diff(np.log10(self.values)).min(initial=1) > 0.12 * np.log10(high / low)
            if far and not _has_powers(low, high):
                axis.set_ticks(self.values, [f"{value:,.4g}" for value in self.values])
        elif self.kind == "linear":
            from matplotlib.ticker import MaxNLocator

            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
            axis.set_major_formatter("{x:,.10g}")
        else:
            stride = -(-len(self.values) // 8)
            axis.set_ticks(np.arange(len(self.values))[::stride], [f"{value:g}" for value in self.values[::stride]])


class Heights:
    """The axis of y: its range, `low` to `high`, and whether it is logarithmic."""

    def __init__(self, table: pd.DataFrame, y: str) -> None:
        lower, median, upper, limit = (floats(table[name]) for name in (*QUARTILES, "limit"))
        if y == "steps_to_tol":
            shown = np.concatenate([lower, median, upper, limit[np.isnan(upper)]])
        else:  # diverged runs would flatten all others
            whole, calm = ~broken(table), (table["diverged"] == 0).to_numpy()
            shown = np.concatenate([lower[whole], median[whole], upper[calm]])
        shown = shown[np.isfinite(shown)]
        self.log = y == "steps_to_tol" or bool(shown.size and shown.min() > 0 and shown.max() >= 3 * shown.min())
        shown = shown[shown > 0] if self.log else shown
        self.low, self.high = (float(shown.min()), float(shown.max())) if shown.size else (1.0, 10.0)
        if self.log:  # constant medians should look constant
            wider = max((6 * self.low / self.high) ** 0.5, 1)
            self.low, self.high = self.low / wider, self.high * wider
        elif self.high - self.low < max(1e-3 * abs(self.high), 1e-12):
            room = max(1e-3 * abs(self.high), 1e-12) / 2
            self.low, self.high = self.low - room, self.high + room

    def set(self, axis: Axis, *, below: float = 0.05, above: float) -> None:
        from matplotlib.ticker import MaxNLocator

        _set_limits(axis, self.low, self.high, below, above, log=self.log)
        if not self.log:
            axis.set_major_locator(MaxNLocator(5))
            axis.set_major_formatter("{x:,.6g}")


def log_ticks(axis: Axis, low: float, high: float) -> None:
    """Ticks at powers of ten; with fewer than two of them in range, at 2 and 5 too, in plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    upright = axis.axis_name == "y"  # type: ignore[attr-defined]
    axis.set_minor_formatter(NullFormatter())
    if _has_powers(low, high):
        power_ticks(axis.axes, x=not upright, y=upright)
        axis.get_major_locator().set_params(numticks=7)  # type: ignore[call-arg]
        return
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=9))
    axis.set_minor_locator(LogLocator(subs=range(2, 10), numticks=99))
    axis.set_major_formatter(lambda value, _: in_words(value))


def _set_limits(axis: Axis, low: float, high: float, below: float, above: float, *, log: bool) -> tuple[float, float]:
    """Set limits with room below and above, as shares of the range; returns the limits."""
    along = axis.axis_name  # type: ignore[attr-defined]
    low, high = (float(np.log10(end)) if log else end for end in (low, high))
    low, high = low - below * (high - low), high + above * (high - low)
    low, high = (10**low, 10**high) if log else (low, high)
    axis.axes.set(**{f"{along}lim": (low, high)})  # before the scale: a log scale warns of limits at 0
    if log:
        axis.axes.set(**{f"{along}scale": "log"})
        log_ticks(axis, low, high)
    return low, high


def _has_powers(low: float, high: float) -> bool:
    return bool(np.floor(np.log10(high) + 1e-9) - np.ceil(np.log10(low) - 1e-9) >= 1)
