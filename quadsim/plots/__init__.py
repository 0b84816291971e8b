"""A tidy table → a figure. A plot function neither runs anything nor saves anything.

One style for all: colour-blind-safe, the same colour for an optimizer everywhere, labels beside the curves.
"""

from quadsim.plots.bench import speed
from quadsim.plots.comparison import comparison, protocols, sensitivity
from quadsim.plots.lines import against
from quadsim.plots.medians import medians, slopes
from quadsim.plots.runs import convergence, panels
from quadsim.plots.spectra import densities, heat_map, histogram
from quadsim.plots.style import COLOURS, HIGHEST, LOWEST, OTHERS, STYLE
from quadsim.plots.sweeps import dots, heat_maps, sweep_figure
from quadsim.plots.theory import bounds, floors, kappa_eff

__all__ = [
    "COLOURS",
    "HIGHEST",
    "LOWEST",
    "OTHERS",
    "STYLE",
    "against",
    "bounds",
    "comparison",
    "convergence",
    "densities",
    "dots",
    "floors",
    "heat_map",
    "heat_maps",
    "histogram",
    "kappa_eff",
    "medians",
    "panels",
    "protocols",
    "sensitivity",
    "slopes",
    "speed",
    "sweep_figure",
]
