"""Figures from tidy tables. Plot functions compute no results and save no files.

All figures have one colour-blind-safe style; an optimizer has the same colour and stroke everywhere.
"""

import importlib
from typing import TYPE_CHECKING, Any

from quadsim import _discovery
from quadsim.plots.bands import panels
from quadsim.plots.bench import speed
from quadsim.plots.comparison import comparison, curves, differences
from quadsim.plots.convergence import convergence
from quadsim.plots.layout import canvas, label_right
from quadsim.plots.profiles import profile
from quadsim.plots.sensitivity import sensitivity
from quadsim.plots.spectra import densities, heat_map, histogram
from quadsim.plots.style import CASE_COLOURS, OTHERS, PALETTE, STYLE, STYLES, Style, power_ticks, style_of
from quadsim.plots.theory import bounds, kappa_eff

if TYPE_CHECKING:
    from quadsim.plots.aggregate import medians, slopes
    from quadsim.plots.lines import against
    from quadsim.plots.sweeps import dots, heat_maps, sweep_figure

__all__ = [
    "CASE_COLOURS",
    "OTHERS",
    "PALETTE",
    "STYLE",
    "STYLES",
    "Style",
    "against",
    "bounds",
    "canvas",
    "comparison",
    "convergence",
    "curves",
    "densities",
    "differences",
    "dots",
    "heat_map",
    "heat_maps",
    "histogram",
    "kappa_eff",
    "label_right",
    "medians",
    "panels",
    "power_ticks",
    "profile",
    "sensitivity",
    "slopes",
    "speed",
    "style_of",
    "sweep_figure",
]


# Their modules import pandas, which takes longer than drawing a run.
_LAZY = {
    "medians": "aggregate",
    "slopes": "aggregate",
    "against": "lines",
    "dots": "sweeps",
    "heat_maps": "sweeps",
    "sweep_figure": "sweeps",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return _discovery.public_names(globals())
