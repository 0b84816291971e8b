"""Runs: gradient norm against steps, one curve for a run or quartiles over draws."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from quadsim.plots.style import COLOURS, HIGHEST, LINES, LOWEST, OTHERS, STYLE, label_ends, power_ticks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


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
            axes.plot(inside["step"], inside["relative"], linestyle=LINES.get(str(name), "-"), color=colour)
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
        label_ends(axes, list(ends.values()))
        power_ticks(axes)
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
                stroke = LINES.get(str(optimizer), "-")
                axes.plot(line["step"], line["median"], linestyle=stroke, color=colour, label=line["label"].iloc[0])
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
            power_ticks(axes, x=False)
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), frameon=False)
        figure.supxlabel("\n".join(textwrap.wrap(caption, 130)), fontsize=6.5, color="#555555", x=0.01, ha="left")
    return figure
