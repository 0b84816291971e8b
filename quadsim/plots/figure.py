"""The figures that plot functions return. Imported where a figure is made, because it loads matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, LogLocator, MaxNLocator

from quadsim._format import power_of_ten
from quadsim._validation import InputError
from quadsim.plots.style import STYLE
from quadsim.plots.text import missing_glyphs_ignored

DPI = 110  # of a figure in a notebook


class NotebookFigure(Figure):
    """A figure that a notebook shows as the value of a cell, with or without `%matplotlib inline`.

    It is not registered with pyplot: nothing must be closed, no display is needed, and no backend is chosen.
    """

    body: float = 0.0  # inches between title and caption, without a legend
    caption: str = ""
    notes: tuple[str, ...] = ()  # sentences that drawing adds to the caption
    legend_height: float = 0.0
    margins: tuple[float, float] | None = None  # left and below the single panel, in inches; None: a layout engine

    def _repr_png_(self) -> bytes:
        import matplotlib

        buffer = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.savefig(buffer, format="png", dpi=DPI)
        return buffer.getvalue()

    def draw(self, renderer: RendererBase) -> None:
        with missing_glyphs_ignored():
            super().draw(renderer)

    def show(self, warn: bool = True) -> None:
        """Show the figure in a notebook; anywhere else there is no window for it."""
        try:
            from IPython import get_ipython
            from IPython.display import display
        except ImportError:
            shell = None
        else:
            shell = get_ipython()
        if not hasattr(shell, "kernel"):
            raise InputError(
                "this figure has no window: save it with savefig('figure.png'), or end a notebook cell with it"
            )
        display(self)


class PowerLocator(LogLocator):
    """Ticks at powers of ten; where there is no room for each, at round multiples of exponents.

    An axis with fewer than two powers of ten has ticks at round numbers.
    """

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        if not 0 < vmin < vmax:
            return super().tick_values(vmin, vmax)
        low, high = int(np.ceil(np.log10(vmin) - 1e-9)), int(np.floor(np.log10(vmax) + 1e-9))
        if high - low < 1:
            return self._round_numbers(vmin, vmax)
        most = max(int(self.numticks or 9) - 1, 2)
        stride = next(step for step in (1, 2, 3, 5, 10, 20, 30, 50, 100, 200) if (high - low) // step < most)
        exponents = np.arange(-(-low // stride) * stride, high + 1, stride)
        return [float(f"1e{exponent}") for exponent in exponents]

    @staticmethod
    def _round_numbers(vmin: float, vmax: float) -> Sequence[float]:
        """1, 2 and 5 times powers of ten if two of them are between the limits, otherwise multiples of one number."""
        exponents = np.arange(np.floor(np.log10(vmin)), np.ceil(np.log10(vmax)) + 1)
        ticks = [float(f"{digit}e{exponent:.0f}") for exponent in exponents for digit in (1, 2, 5)]
        inside = [tick for tick in ticks if vmin <= tick <= vmax]
        return inside if len(inside) > 1 else MaxNLocator(4, min_n_ticks=2).tick_values(vmin, vmax)


class PowerFormatter(Formatter):
    """10⁻⁶ for powers of ten; plain numbers, with as many digits as tell them apart, on an axis with others."""

    def format_ticks(self, values: list[float]) -> list[str]:
        ticks = [float(value) for value in values]
        if not ticks or min(ticks) <= 0:
            return ["" for _ in ticks]
        exponents = np.log10(ticks)
        if len(ticks) > 1 and np.allclose(exponents, np.round(exponents), rtol=0, atol=1e-9):
            return [power_of_ten(round(exponent)) for exponent in exponents]
        texts = (_plain(ticks, digits) for digits in range(1, 17))
        return next((found for found in texts if len(set(found)) == len(set(ticks))), _plain(ticks, 17))

    def __call__(self, x: float, pos: int | None = None) -> str:
        return power_of_ten(round(np.log10(x))) if x > 0 else ""


def _plain(values: list[float], digits: int) -> list[str]:
    return [f"{value:,.0f}" if value >= 10 and value == int(value) < 1e6 else f"{value:.{digits}g}" for value in values]
