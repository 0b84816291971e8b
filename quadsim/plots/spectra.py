"""Spectra: densities, eigenvalues of a problem by block, distances between blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim._validation import InputError
from quadsim.plots import inputs
from quadsim.plots.given_axes import add_legend, given, one_panel, refuse
from quadsim.plots.layout import canvas
from quadsim.plots.style import PALETTE, power_ticks
from quadsim.plots.text import all_fitted, evenly_wrapped, width_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_SHARE = 200  # a density's Gaussians have this fraction of the block's range as their width
POINTS = 400  # of a density
MIN_DENSITY = 1e-9  # of the peak, the bottom of the axis
DISTANCE = "Jensen–Shannon distance, nats (at most ln 2)"


def densities(curves: Any, *, ax: Any = None, title: str = "", caption: str = "") -> Figure | Axes:
    """Spectral densities: a panel for each block, each with its own range.

    Parameters
    ----------
    curves :
        A measured network, or a table with the columns block, eigenvalue, and density or weight. Eigenvalues with
        weights get a Gaussian each, of a 200th of the block's range.
    ax :
        Axes to draw into, for one block.
    title, caption : str
        Written above and below the panels.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> figure = qs.plots.densities(qs.spectra.load("gpt2").block("layer3.query"))
    """
    expected = "a measured network (qs.spectra.load), or a table with block, eigenvalue and density or weight"
    curves = inputs.table(curves, ("block", "eigenvalue"), function="densities", expected=expected)
    if "density" not in curves and "weight" not in curves:
        raise InputError(f"densities needs the column density or weight: give {expected}")
    names = list(dict.fromkeys(curves["block"]))
    refuse(ax, len(names), "block", "select one, such as table[table['block'] == name]")
    if ax is not None:
        with given(ax, title or str(names[0])) as axes:
            _density(axes, curves)
            axes.set(xlabel="eigenvalue", ylabel="density of eigenvalues")
        return axes
    columns = 4 if len(names) > 12 else 3 if len(names) > 4 else 2
    sizes: dict[str, Any] = {"columns": columns, "height": 1.05, "gap": 0.5}
    with canvas(panels=len(names), title=title, caption=caption, **sizes) as (figure, grid):
        titles = all_fitted(list(map(str, names)), 6.65 / min(columns, len(names)) - 0.5, 8.5)
        for axes, name, text in zip(grid, names, titles, strict=True):
            _density(axes, curves[curves["block"] == name])
            axes.set_title(text, fontsize=8.5)
            axes.locator_params(axis="x", nbins=4 if columns < 4 else 2)
            axes.tick_params(labelsize=7)
        figure.supylabel("density of eigenvalues", fontsize=8.5)
    return figure


def _density(axes: Axes, rows: pd.DataFrame) -> None:
    at = rows["eigenvalue"].to_numpy(dtype=float)
    if "density" in rows:
        density = rows["density"].to_numpy(dtype=float)
    else:
        nodes, weights = at, rows["weight"].to_numpy(dtype=float)
        width = max(float(np.ptp(nodes)), 1e-3 * float(np.abs(nodes).max()), 1e-300) / WIDTH_SHARE
        at = np.linspace(nodes.min() - 4 * width, nodes.max() + 4 * width, POINTS)
        bells = np.exp(-0.5 * ((at[:, None] - nodes) / width) ** 2)
        density = bells @ weights / (weights.sum() * width * np.sqrt(2 * np.pi))
    peak = float(density.max()) or 1.0
    axes.fill_between(at, np.maximum(density, peak * MIN_DENSITY), peak * MIN_DENSITY, color="#0072B2", alpha=0.25,
                      linewidth=0)  # fmt: skip
    axes.plot(at, np.maximum(density, peak * MIN_DENSITY), color="#0072B2", linewidth=1.0)
    axes.set(yscale="log", ylim=(peak * MIN_DENSITY, peak * 3))
    axes.ticklabel_format(axis="x", style="sci", scilimits=(-2, 3))
    axes.xaxis.get_offset_text().set_fontsize(6.5)
    power_ticks(axes, x=False)


def histogram(eigenvalues: Any, *, ax: Any = None, title: str = "", caption: str = "", bins: int = 40) -> Figure | Axes:
    """Eigenvalues of a problem by block, on a common log axis.

    Parameters
    ----------
    eigenvalues :
        A problem, or a table with the columns block and eigenvalue.
    ax :
        Axes to draw into, with the blocks' counts on top of each other.
    title, caption : str
        Written above and below the panels.
    bins : int

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> figure = qs.plots.histogram(qs.case(1))
    """
    expected = "a problem, or a table with block and eigenvalue"
    table = inputs.table(eigenvalues, ("block", "eigenvalue"), function="histogram", expected=expected)
    if table["block"].dtype.kind in "iu":
        table = table.assign(block="block " + table["block"].astype(str))
    names, values = list(dict.fromkeys(table["block"])), table["eigenvalue"].to_numpy(dtype=float)
    if not (values > 0).all():
        raise InputError(f"histogram has a log axis: eigenvalues must be above 0, got {values[~(values > 0)][0]:g}")
    low, high = float(values.min()), float(values.max())
    wider = max((1.5 * low / high) ** 0.5, 1 + 1e-9)  # equal eigenvalues are a bar, not the whole axis
    edges = np.geomspace(low / wider, high * wider, bins + 1)
    groups = [table.loc[table["block"] == name, "eigenvalue"].to_numpy(dtype=float) for name in names]
    colours = [PALETTE[number % len(PALETTE)] for number in range(len(names))]
    if ax is not None:
        with given(ax, title) as axes:
            labels = [str(name) for name in names]
            axes.hist(groups, bins=list(edges), color=colours, label=labels, stacked=True)
            axes.set(xscale="log", xlabel="eigenvalue", ylabel="count")
            if len(names) <= len(PALETTE):
                add_legend(axes)
        return axes
    sizes: dict[str, Any] = {"width": 5.6, "height": 0.68 if len(names) <= 12 else 0.36, "gap": 0.07}
    with canvas(len(names), title=title, caption=caption, sharex=True, sharey=True, **sizes) as (figure, grid):
        tallest = max(int(np.histogram(ours, bins=edges)[0].max()) for ours in groups)
        texts = all_fitted(list(map(str, names)), 4.2, 8, bold=True)
        for axes, text, ours, colour in zip(grid, texts, groups, colours, strict=True):
            axes.hist(ours, bins=list(edges), color=colour)
            axes.set(xscale="log", ylim=(0, tallest / (0.72 if len(names) <= 12 else 0.5)))  # names above the bars
            bold: dict[str, Any] = {"va": "top", "fontsize": 8, "fontweight": "bold", "color": colour}
            axes.text(0.01, 1.0, text, transform=axes.transAxes, **bold)
            axes.locator_params(axis="y", nbins=3 if len(names) <= 12 else 1, integer=True)
            axes.tick_params(labelsize=7)
        _eigenvalue_ticks(grid[-1], low, high)
        grid[-1].set_xlabel("eigenvalue")
        figure.supylabel("count", fontsize=8.5)
    return figure


def _eigenvalue_ticks(axes: Axes, low: float, high: float) -> None:
    """Powers of ten if the axis has at least two of them."""
    from quadsim.plots.scales import log_ticks

    log_ticks(axes.xaxis, low, high)


def heat_map(distances: Any, *, ax: Any = None, title: str = "", caption: str = "") -> Figure | Axes:
    """Distances between blocks as a shaded matrix.

    The distance of a block to itself is that between two of its probes: the noise.

    Parameters
    ----------
    distances :
        A table with the columns block, other and distance.
    ax :
        Axes to draw into; the colour bar takes some of their space.
    title, caption : str
        Written above and below the matrix.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> distances = qs.spectra.js_matrix(qs.spectra.load("gpt2"), ["embedding", "layer3.query", "layer3.value"])
    >>> figure = qs.plots.heat_map(distances)
    """
    columns = ("block", "other", "distance")
    expected = "a table with block, other and distance"
    table = inputs.table(distances, columns, function="heat_map", expected=expected)
    names = list(dict.fromkeys([*table["block"], *table["other"]]))
    if table.duplicated(["block", "other"]).any():
        raise InputError("heat_map needs one distance for each pair of blocks: some pairs occur twice")
    matrix = table.pivot(index="block", columns="other", values="distance").reindex(index=names, columns=names)
    values = matrix.to_numpy(dtype=float)
    cell = 0.95 if len(names) <= 3 else 0.48 if len(names) <= 16 else 0.15
    size = 7.5 if cell > 0.2 else 6.5
    labels = all_fitted(list(map(str, names)), 1.7, size)
    beside, flat = width_of(labels, size), width_of(labels, size) < cell - 0.08
    below = 0.2 if flat else 0.75 * beside + 0.2 if cell > 0.2 else beside + 0.25
    side = cell * len(names)
    sizes: dict[str, Any] = {"width": side + beside + 1.15, "height": side + below - 0.45, "font_size": 9}
    sizes["width"] = max(sizes["width"], 4.2)
    with one_panel(ax, title=title, caption=caption, **sizes) as (figure, axes):
        largest = float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
        image = axes.imshow(values, cmap="cividis_r", vmin=0, vmax=largest or 0.01)
        turned: dict[str, Any] = {} if flat else {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
        turned = turned if cell > 0.2 else {"rotation": 90}
        axes.set_xticks(range(len(names)), labels, fontsize=size, **turned)
        axes.set_yticks(range(len(names)), labels, fontsize=size)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        if cell > 0.2:
            _write_values(axes, values, largest)
        bar = figure.colorbar(image, ax=axes, shrink=0.9, aspect=max(8, 10 * side / 1.5), pad=0.03)
        bar.outline.set_visible(False)
        bar.locator = _few_ticks()
        bar.set_label("\n".join(evenly_wrapped(DISTANCE, max(0.85 * side, 1.2), 7.5)), fontsize=7.5)
        bar.ax.tick_params(labelsize=7)
    return figure if ax is None else axes


def _write_values(axes: Axes, values: np.ndarray, largest: float) -> None:
    digits = "2f" if largest >= 0.1 else "3f" if largest >= 0.01 else "0e"
    for (row, column), value in np.ndenumerate(values):
        text = "" if np.isnan(value) else f"{value:.{digits}}".replace("0.", ".", 1) if value else "0"
        colour, slant = "white" if value > 0.55 * largest else "black", "italic" if row == column else "normal"
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour, fontstyle=slant)


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(5)
