"""A tidy table → a figure. A plot function neither runs anything nor saves anything.

One style for all: colour-blind-safe, the same colour for an optimizer everywhere, labels beside the curves.
"""

from quadsim.plots.bench import speed
from quadsim.plots.comparison import comparison, protocols, sensitivity
from quadsim.plots.runs import convergence, panels
from quadsim.plots.spectra import densities, heat_map, histogram
from quadsim.plots.style import COLOURS, HIGHEST, LOWEST, OTHERS, STYLE
from quadsim.plots.theory import bounds, floors, kappa_eff

__all__ = [
    "COLOURS",
    "HIGHEST",
    "LOWEST",
    "OTHERS",
    "STYLE",
    "bounds",
    "comparison",
    "convergence",
    "densities",
    "floors",
    "heat_map",
    "histogram",
    "kappa_eff",
    "panels",
    "protocols",
    "sensitivity",
    "speed",
]
