"""A tidy table → a figure. A plot function neither runs anything nor saves anything.

One style for all: colour-blind-safe, the same colour for an optimizer everywhere, labels beside the curves.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's palette: told apart by colour-blind readers, and in grey by their lightness.
COLOURS = {
    "gd": "#D55E00", "block-gd": "#009E73", "frozen-adam": "#0072B2", "adam": "#CC79A7", "heavy-ball": "#E69F00",
    "nesterov": "#56B4E9",
}  # fmt: skip
OTHERS = ("#000000", "#7F7F7F", "#8C6D31")
LOWEST, HIGHEST = 1e-200, 1e3  # relative gradient norms beyond these are left out
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "text.parse_math": False,  # a name with a dollar is a name
    "svg.fonttype": "none",  # text stays text: searchable, and in the reader's own font
    "svg.hashsalt": "quadsim",  # the same figure is the same file
}


def convergence(curves: pd.DataFrame, *, title: str = "", caption: str = "", tol: float | None = None) -> Figure:
    """Gradient norm against steps on log axes (`table.curves`): a curve for each lane, a label for each optimizer."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.6, 3.7))
        # Fixed margins: a computed layout would take longer than the rest of the command.
        axes = figure.add_axes((0.115, 0.175, 0.865, 0.705))
        axes.set(xscale="log", yscale="log", xlabel="steps", ylabel="gradient norm / its first value")
        ends: dict[str, tuple[float, float, str, str]] = {}
        for (name, label, _), curve in curves.groupby(["optimizer", "label", "lane"], sort=False):
            colour = COLOURS.get(str(name), OTHERS[len(ends) % len(OTHERS)])
            curve = curve[(curve["step"] > 0) & (curve["relative"] > LOWEST)]  # a log axis has no zero
            inside = curve[curve["relative"] <= HIGHEST]  # a run that explodes would flatten all the others
            if inside.empty:
                continue
            axes.plot(inside["step"], inside["relative"], color=colour)
            last, leaves = inside.iloc[-1], len(inside) < len(curve)
            axes.plot(last["step"], last["relative"], "^" if leaves else "o", color=colour, markersize=4)
            ends.setdefault(str(label), (float(last["step"]), float(last["relative"]), str(label), colour))
        axes.set_title(textwrap.fill(title, 72, break_on_hyphens=False), loc="left")
        if tol and tol > LOWEST:
            axes.axhline(tol, color="#888888", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
            axes.annotate(
                f"tol = {tol:g}", (0, tol), xycoords=("axes fraction", "data"), xytext=(3, 3),
                textcoords="offset points", fontsize=7.5, color="#666666",
            )  # fmt: skip
        _label_ends(axes, list(ends.values()))
        _power_ticks(axes)
        lines = textwrap.wrap(caption, 105, break_long_words=True, max_lines=2, placeholder=" …")
        figure.text(0.012, 0.012, "\n".join(lines), fontsize=6.5, color="#555555")
    return figure


def panels(bands: pd.DataFrame, titles: dict[str, str], *, caption: str = "", tol: float | None = None) -> Figure:
    """Gradient norm against steps (`table.bands`), a panel for each problem: median over draws, quartiles as a band."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        rows = -(-len(titles) // 2)
        figure = Figure(figsize=(7.0, 0.55 + 2.45 * rows), layout="constrained")
        grid = figure.subplots(rows, min(2, len(titles)), squeeze=False).ravel()
        for axes, (problem, title) in zip(grid, titles.items(), strict=False):
            ours = bands[bands["problem"] == problem]
            ends: list[float] = []
            for optimizer, curve in ours.groupby("optimizer", sort=False):
                colour = COLOURS.get(str(optimizer), OTHERS[len(ends) % len(OTHERS)])
                shown = curve[curve["median"] > LOWEST]
                late = np.flatnonzero(shown["upper"] <= (tol or 0))  # where three quarters have arrived the band ends
                band = shown.iloc[: late[0] + 1] if late.size else shown
                axes.fill_between(band["step"], band["lower"], band["upper"], color=colour, alpha=0.2, linewidth=0)
                arrived = np.flatnonzero(shown["median"] <= (tol or 0))
                line = shown.iloc[: arrived[0] + 1] if arrived.size else shown
                axes.plot(line["step"], line["median"], color=colour, label=line["label"].iloc[0])
                ends.append(float(line["step"].iloc[-1]))
            axes.set(yscale="log", xlim=(-0.02 * max(ends), 1.12 * max(ends)))
            axes.set_ylim(tol / 2 if tol else None, 2)
            axes.set_title(title, loc="left")
            axes.set_xlabel("steps")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.locator_params(axis="x", nbins=5)
        for axes in grid[len(titles) :]:
            axes.set_visible(False)
        for axes in grid[::2]:
            axes.set_ylabel("gradient norm / its first value")
        for axes in grid[: len(titles)]:
            _power_ticks(axes, x=False)
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), frameon=False)
        figure.supxlabel("\n".join(textwrap.wrap(caption, 130)), fontsize=6.5, color="#555555", x=0.01, ha="left")
    return figure


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
            _power_ticks(axes, x=False)
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
            colour = [*COLOURS.values(), *OTHERS][number % (len(COLOURS) + len(OTHERS))]
            axes.hist(ours, bins=edges, color=colour)
            axes.set_xscale("log")
            axes.annotate(
                name, (0.01, 0.95), xycoords="axes fraction", va="top", fontsize=8, fontweight="bold", color=colour
            )
            axes.tick_params(labelsize=7)
        _power_ticks(grid[-1], y=False)
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


def _label_ends(axes: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Write each curve's label below its end (step, height, label, colour); labels that would touch move down."""
    from matplotlib.patheffects import withStroke

    character, line = 0.0148, 0.06  # a bold letter's width and a line's height, in fractions of the axes
    low, high = axes.get_ylim()
    room = line * (len(ends) + 0.7)  # the share of the new axis that labels below the lowest end may need
    axes.set_ylim(max(low / (high / low) ** (room / (1 - room)), 1e-300), high)
    placed: list[tuple[float, float, float]] = []
    for step, height, label, colour in sorted(ends):
        x, y = axes.transAxes.inverted().transform(axes.transData.transform((step, height)))
        half = character * len(label) / 2
        if height > 1:  # a rising curve has its own line below it: write beside
            x, y = x + half + 0.02, y + line
        x, y = min(max(x, half), 1 - half), y - line
        while any(abs(x - there) < half + width and abs(y - level) < 0.99 * line for there, level, width in placed):
            y -= line / 4
        placed.append((x, y, half))
        axes.text(
            x, y, label, transform=axes.transAxes, ha="center", va="center", color=colour, fontsize=8.5,
            fontweight="bold", path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )  # fmt: skip


def _power_ticks(axes: Axes, *, x: bool = True, y: bool = True) -> None:
    """Ticks at powers of ten, eight at most, in plain text: quicker to set than formulas, and text in the SVG."""
    from matplotlib.ticker import LogLocator, NullLocator

    superscript = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    for axis in [axes.xaxis] * x + [axes.yaxis] * y:
        axis.set_major_locator(LogLocator(numticks=9))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(
            lambda value, _: "10" + str(round(np.log10(value))).translate(superscript) if value > 0 else ""
        )
