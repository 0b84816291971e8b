"""A tidy table → a figure. A plot function neither runs anything nor saves anything.

One style for all: colour-blind-safe, the same colour for an optimizer everywhere, labels beside the curves.
"""

from quadsim.plots.bench import speed
from quadsim.plots.canvas import canvas, label_right
from quadsim.plots.comparison import comparison, protocols, sensitivity
from quadsim.plots.lines import against
from quadsim.plots.medians import medians, slopes
from quadsim.plots.runs import convergence, panels
from quadsim.plots.spectra import densities, heat_map, histogram
from quadsim.plots.style import CASE_COLOURS, COLOURS, HIGHEST, LINES, LOWEST, OTHERS, PALETTE, STYLE, power_ticks
from quadsim.plots.sweeps import dots, heat_maps, sweep_figure
from quadsim.plots.theory import bounds, kappa_eff

__all__ = [
    "CASE_COLOURS",
    "COLOURS",
    "HIGHEST",
    "LINES",
    "LOWEST",
    "OTHERS",
    "PALETTE",
    "STYLE",
    "against",
    "bounds",
    "canvas",
    "comparison",
    "convergence",
    "densities",
    "dots",
    "heat_map",
    "heat_maps",
    "histogram",
    "kappa_eff",
    "label_right",
    "medians",
    "panels",
    "power_ticks",
    "protocols",
    "sensitivity",
    "slopes",
    "speed",
    "sweep_figure",
]
