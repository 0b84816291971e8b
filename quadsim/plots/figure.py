"""The figures that plot functions return. Imported where a figure is made, because it loads matplotlib."""

from __future__ import annotations

import io

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from quadsim._validation import InputError
from quadsim.plots.style import STYLE

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
    """Ticks at powers of ten; where there is no room for each, at round multiples of exponents."""

    def tick_values(self, vmin: float, vmax: float) -> np.ndarray:
        if not 0 < vmin < vmax:
            return np.asarray(super().tick_values(vmin, vmax))
        low, high = int(np.ceil(np.log10(vmin) - 1e-9)), int(np.floor(np.log10(vmax) + 1e-9))
        most = max(int(self.numticks or 9) - 1, 2)  # type: ignore[call-overload]
        stride = next(step for step in (1, 2, 3, 5, 10, 20, 30, 50, 100, 200) if (high - low) // step < most)
        if high - low < 1:
            return np.asarray(super().tick_values(vmin, vmax))
        exponents = np.arange(-(-low // stride) * stride, high + 1, stride)
        return np.array([float(f"1e{exponent}") for exponent in exponents])
