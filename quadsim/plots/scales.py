"""The scales of a figure of a sweep: that of a swept axis, and that of the result, which all panels share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from quadsim.plots.medians import QUARTILES, broken, floats
from quadsim.plots.style import power_ticks, width_of
from quadsim.plots.words import number

if TYPE_CHECKING:
    from matplotlib.axis import Axis

LOG_FROM = 30  # an axis whose values span at least this factor is logarithmic
UNEVEN_FROM = 8  # one whose widest gap is this many times its narrowest gives each value a place of its own


@dataclass(frozen=True)
class Scale:
    """An axis of numbers: "log", "linear", or "even", with a place for each value."""

    kind: str
    values: np.ndarray

    @staticmethod
    def of(column: pd.Series) -> Scale:
        values = np.unique(floats(column.dropna()))
        if values[0] > 0 and (column.name == "kappa" or values[-1] >= LOG_FROM * values[0]):
            return Scale("log", values)
        gaps = np.diff(values)
        uneven = gaps.size > 1 and gaps.max() > UNEVEN_FROM * gaps.min()
        return Scale("even" if uneven else "linear", values)

    def place(self, values: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.values, values).astype(float) if self.kind == "even" else values

    def edges(self) -> np.ndarray:
        """The ends of a cell around each value: half-way to its neighbours, on the scale."""
        at = self.place(self.values)
        at = np.log10(at) if self.kind == "log" else at
        half = np.diff(at) / 2 if at.size > 1 else np.array([0.5])
        edges = np.concatenate([[at[0] - half[0]], at[:-1] + half[: at.size - 1], [at[-1] + half[-1]]])
        return 10**edges if self.kind == "log" else edges

    def width(self) -> float:
        """The inches that the widest tick's number needs."""
        if self.kind == "log":
            return _width_at_log_ticks(*self.edges()[[0, -1]])
        return width_of([f"{value:,.4g}" for value in self.values]) + 0.02

    def set(self, axis: Axis, *, room: float) -> None:
        """Limits with some room beside the values, or where their cells end; and ticks."""
        log = self.kind == "log"
        at = self.place(self.values)
        low, high = (at if room and at.size > 1 else self.edges())[[0, -1]]
        low, high = _set_limits(axis, low, high, room, room, log=log)
        if log:
            far = np.diff(np.log10(self.values)).min(initial=1) > 0.12 * np.log10(high / low)
            if far and not _has_powers(low, high):
                axis.set_ticks(self.values, [f"{value:,.4g}" for value in self.values])
        elif self.kind == "linear":
            from matplotlib.ticker import MaxNLocator

            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
            axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        else:
            stride = -(-len(self.values) // 8)
            axis.set_ticks(np.arange(len(self.values))[::stride], [f"{value:g}" for value in self.values[::stride]])


@dataclass(frozen=True)
class Heights:
    """The axis of y: its ends and whether it is logarithmic."""

    low: float
    high: float
    log: bool

    @staticmethod
    def of(table: pd.DataFrame, y: str) -> Heights:
        lower, median, upper, limit = (floats(table[name]) for name in (*QUARTILES, "limit"))
        if y == "steps_to_tol":
            shown = np.concatenate([lower, median, upper, limit[np.isnan(upper)]])
        else:  # a run that explodes would flatten all the others
            whole, calm = ~broken(table), (table["diverged"] == 0).to_numpy()
            shown = np.concatenate([lower[whole], median[whole], upper[calm]])
        shown = shown[np.isfinite(shown)]
        log = y == "steps_to_tol" or bool(shown.size and shown.min() > 0 and shown.max() >= 3 * shown.min())
        shown = shown[shown > 0] if log else shown
        if not shown.size:
            return Heights(1.0, 10.0, log)
        low, high = float(shown.min()), float(shown.max())
        if log:
            wider = max((6 * low / high) ** 0.5, 1)  # what is level should look so
            return Heights(low / wider, high * wider, log)
        least = max(1e-3 * abs(high), 1e-12)
        room = least / 2 if high - low < least else 0.0
        return Heights(low - room, high + room, log)

    def width(self) -> float:
        """The inches that the widest tick's number needs."""
        from matplotlib.ticker import MaxNLocator

        if self.log:
            return _width_at_log_ticks(self.low, self.high)
        return width_of([f"{tick:,.6g}" for tick in MaxNLocator(5).tick_values(self.low, self.high)]) + 0.02

    def set(self, axis: Axis, *, below: float = 0.05, above: float) -> None:
        from matplotlib.ticker import MaxNLocator

        _set_limits(axis, self.low, self.high, below, above, log=self.log)
        if not self.log:
            axis.set_major_locator(MaxNLocator(5))
            axis.set_major_formatter(lambda value, _: f"{value:,.6g}")


def log_ticks(axis: Axis, low: float, high: float) -> None:
    """Powers of ten; where fewer than two of them lie in between, 2 and 5 as well, in plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    upright = axis.axis_name == "y"  # type: ignore[attr-defined]
    axis.set_minor_formatter(NullFormatter())
    if _has_powers(low, high):
        power_ticks(axis.axes, x=not upright, y=upright)
        axis.get_major_locator().set_params(numticks=7)  # type: ignore[call-arg]
        return
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=9))
    axis.set_minor_locator(LogLocator(subs=range(2, 10), numticks=99))
    axis.set_major_formatter(lambda value, _: number(value))


def _set_limits(axis: Axis, low: float, high: float, below: float, above: float, *, log: bool) -> tuple[float, float]:
    """Limits with some room, in shares of what is between two ends; these limits."""
    along = axis.axis_name  # type: ignore[attr-defined]
    low, high = (float(np.log10(end)) if log else end for end in (low, high))
    low, high = low - below * (high - low), high + above * (high - low)
    low, high = (10**low, 10**high) if log else (low, high)
    axis.axes.set(**{f"{along}lim": (low, high)})  # before the scale, so that zeros are no matter to it
    if log:
        axis.axes.set(**{f"{along}scale": "log"})
        log_ticks(axis, low, high)
    return low, high


def _has_powers(low: float, high: float) -> bool:
    return bool(np.floor(np.log10(high) + 1e-9) - np.ceil(np.log10(low) - 1e-9) >= 1)


def _width_at_log_ticks(low: float, high: float) -> float:
    return width_of(["10⁻⁸"] if _has_powers(low, high) else [number(low), number(high)]) + 0.02
