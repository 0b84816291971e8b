"""Spectra: densities, eigenvalues of a problem by block, distances between blocks."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from quadsim.plots.style import PALETTE, STYLE, power_ticks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def densities(curves: pd.DataFrame, *, title: str = "", caption: str = "") -> Figure:
    """Densities of eigenvalues (columns block, eigenvalue, density), one row for each block, each on its own range."""
    import matplotlib
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(curves["block"]))
    with matplotlib.rc_context(STYLE):
        columns = 3 if len(names) > 4 else 2
        rows = -(-len(names) // columns)
        figure = Figure(figsize=(7.0, 0.8 + 1.55 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, name in zip(grid, names, strict=False):
            curve = curves[curves["block"] == name]
            peak = curve["density"].max()
            axes.fill_between(
                curve["eigenvalue"], curve["density"], peak * 1e-9, color="#0072B2", alpha=0.25, linewidth=0
            )
            axes.plot(curve["eigenvalue"], curve["density"], color="#0072B2", linewidth=1.0)
            axes.set(yscale="log", ylim=(peak * 1e-9, peak * 3))
            axes.set_title(name, loc="left", fontsize=8.5)
            axes.locator_params(axis="x", nbins=4)
            axes.tick_params(labelsize=7)
            axes.ticklabel_format(axis="x", style="sci", scilimits=(-2, 3))
            axes.xaxis.get_offset_text().set_fontsize(6.5)
            power_ticks(axes, x=False)
        for axes in grid[len(names) :]:
            axes.set_visible(False)
        figure.supylabel("density of eigenvalues", fontsize=8.5)
        figure.suptitle(textwrap.fill(title, 90), x=0.01, ha="left", fontsize=9.5)
        figure.supxlabel("\n".join(textwrap.wrap(caption, 130)), fontsize=6.5, color="#555555", x=0.01, ha="left")
    return figure


def histogram(eigenvalues: pd.DataFrame, *, title: str = "", caption: str = "", bins: int = 40) -> Figure:
    """A problem's eigenvalues (columns block, eigenvalue) by block, on a common log axis."""
    import matplotlib
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(eigenvalues["block"]))
    values = eigenvalues["eigenvalue"]
    edges = np.geomspace(values.min() * (1 - 1e-9), values.max() * (1 + 1e-9), bins + 1)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.6, 0.9 + 0.75 * len(names)), layout="constrained")
        grid = figure.subplots(len(names), 1, sharex=True, sharey=True, squeeze=False).ravel()
        for number, (axes, name) in enumerate(zip(grid, names, strict=True)):
            ours = eigenvalues.loc[eigenvalues["block"] == name, "eigenvalue"]
            colour = PALETTE[number % len(PALETTE)]
            axes.hist(ours, bins=edges, color=colour)
            axes.set_xscale("log")
            axes.annotate(
                name, (0.01, 0.95), xycoords="axes fraction", va="top", fontsize=8, fontweight="bold", color=colour
            )
            axes.tick_params(labelsize=7)
        power_ticks(grid[-1], y=False)
        grid[-1].set_xlabel("eigenvalue")
        figure.supylabel("how many", fontsize=8.5)
        figure.suptitle(textwrap.fill(title, 76), x=0.01, ha="left", fontsize=9.5)
        figure.supxlabel("\n".join(textwrap.wrap(caption, 105)), fontsize=6.5, color="#555555", x=0.01, ha="left")
    return figure


def heat_map(distances: pd.DataFrame, *, title: str = "", caption: str = "") -> Figure:
    """Distances between blocks (columns block, other, distance; a block with itself: its noise), as a shaded matrix."""
    import matplotlib
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(distances["block"]))
    matrix = distances.pivot(index="block", columns="other", values="distance").loc[names, names].to_numpy(dtype=float)
    most = max(float(np.nanmax(matrix)), 0.01)
    digits = 2 if most >= 0.1 else 3
    with matplotlib.rc_context(STYLE):
        side = 0.48 * len(names)
        figure = Figure(figsize=(2.4 + side, 1.9 + side), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(matrix, cmap="cividis_r", vmin=0, vmax=most)
        axes.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=7.5)
        axes.set_yticks(range(len(names)), names, fontsize=7.5)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        for row in range(len(names)):
            for column in range(len(names)):
                value = matrix[row, column]
                told = "" if np.isnan(value) else f"{value:.{digits}f}".replace("0.", ".", 1)
                dark = value > 0.55 * most
                axes.text(column, row, told, ha="center", va="center", fontsize=7, color="white" if dark else "black",
                          fontstyle="italic" if row == column else "normal")  # fmt: skip
        bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=30)
        bar.outline.set_visible(False)
        bar.set_label("Jensen–Shannon distance, nats (at most ln 2)", fontsize=7.5)
        bar.ax.tick_params(labelsize=7)
        axes.set_title(textwrap.fill(title, max(40, int(14 * side))), loc="left", fontsize=9)
        figure.supxlabel(
            "\n".join(textwrap.wrap(caption, max(50, int(24 * side)))), fontsize=6.5, color="#555555", x=0.01, ha="left"
        )
    return figure
