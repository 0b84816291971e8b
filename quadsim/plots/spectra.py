"""Spectra: densities, eigenvalues of a problem by block, distances between blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.plots.layout import canvas
from quadsim.plots.style import PALETTE, power_ticks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def densities(curves: pd.DataFrame, *, title: str = "", caption: str = "") -> Figure:
    """Spectral densities (columns block, eigenvalue, density): a panel for each block, each with its own range."""
    names = list(dict.fromkeys(curves["block"]))
    sizes: dict[str, Any] = {"columns": 3 if len(names) > 4 else 2, "height": 1.05, "gap": 0.5}
    with canvas(panels=len(names), title=title, caption=caption, **sizes) as (figure, grid):
        for axes, name in zip(grid, names, strict=True):
            curve = curves[curves["block"] == name]
            peak = curve["density"].max()
            at, density = curve["eigenvalue"], curve["density"]
            axes.fill_between(at, density, peak * 1e-9, color="#0072B2", alpha=0.25, linewidth=0)
            axes.plot(at, density, color="#0072B2", linewidth=1.0)
            axes.set(yscale="log", ylim=(peak * 1e-9, peak * 3))
            axes.set_title(name, fontsize=8.5)
            axes.locator_params(axis="x", nbins=4)
            axes.tick_params(labelsize=7)
            axes.ticklabel_format(axis="x", style="sci", scilimits=(-2, 3))
            axes.xaxis.get_offset_text().set_fontsize(6.5)
            power_ticks(axes, x=False)
        figure.supylabel("density of eigenvalues", fontsize=8.5)
    return figure


def histogram(eigenvalues: pd.DataFrame, *, title: str = "", caption: str = "", bins: int = 40) -> Figure:
    """Eigenvalues of a problem (columns block, eigenvalue) by block, on a common log axis."""
    names = list(dict.fromkeys(eigenvalues["block"]))
    values = eigenvalues["eigenvalue"]
    edges = np.geomspace(values.min() * (1 - 1e-9), values.max() * (1 + 1e-9), bins + 1)
    sizes: dict[str, Any] = {"width": 5.6, "height": 0.68, "gap": 0.07}
    with canvas(len(names), title=title, caption=caption, sharex=True, sharey=True, **sizes) as (figure, grid):
        for number, (axes, name) in enumerate(zip(grid, names, strict=True)):
            ours = eigenvalues.loc[eigenvalues["block"] == name, "eigenvalue"]
            colour = PALETTE[number % len(PALETTE)]
            axes.hist(ours, bins=list(edges), color=colour)
            axes.set_xscale("log")
            axes.text(0.01, 0.95, name, transform=axes.transAxes, va="top", fontsize=8, fontweight="bold", color=colour)
            axes.tick_params(labelsize=7)
        power_ticks(grid[-1], y=False)
        grid[-1].set_xlabel("eigenvalue")
        figure.supylabel("count", fontsize=8.5)
    return figure


def heat_map(distances: pd.DataFrame, *, title: str = "", caption: str = "") -> Figure:
    """Distances between blocks as a shaded matrix (columns block, other, distance).

    The distance of a block to itself is that between two of its probes: the noise.
    """
    names = list(dict.fromkeys(distances["block"]))
    matrix = distances.pivot(index="block", columns="other", values="distance").loc[names, names].to_numpy(dtype=float)
    largest = max(float(np.nanmax(matrix)), 0.01)
    digits = 2 if largest >= 0.1 else 3
    side = 0.48 * len(names)
    with canvas(title=title, caption=caption, width=2.4 + side, height=0.7 + side, font_size=9) as (figure, (axes,)):
        image = axes.imshow(matrix, cmap="cividis_r", vmin=0, vmax=largest)
        axes.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=7.5)
        axes.set_yticks(range(len(names)), names, fontsize=7.5)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        for (row, column), value in np.ndenumerate(matrix):
            text = "" if np.isnan(value) else f"{value:.{digits}f}".replace("0.", ".", 1)
            colour, slant = "white" if value > 0.55 * largest else "black", "italic" if row == column else "normal"
            axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour, fontstyle=slant)
        bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=30)
        bar.outline.set_visible(False)
        bar.set_label("Jensen–Shannon distance, nats (at most ln 2)", fontsize=7.5)
        bar.ax.tick_params(labelsize=7)
    return figure
