"""How fast: microseconds per step and run by size, quadsim beside its peers and the machine's own limit."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from quadsim.plots.style import STYLE

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# quadsim in one of Okabe & Ito's colours, which stands out in grey too; every peer by its name on the axis.
OURS, THEIRS = "#0072B2", "#5A5A5A"
CONTESTANTS = ("quadsim", "numpy", "torch.optim", "optax", "optax vmap", "optax columns")
NAMES = {"gd": "GD", "adam": "Adam"}


def speed(frame: pd.DataFrame, *, title: str = "", caption: str = "") -> Figure:
    """Panels: a column for each size, a row for each number of lanes; in each, the contestants for each optimizer.

    Columns blocks, block_size, optimizer, lanes, threads, contestant, microseconds, fraction (of the machine's dgemm).
    Filled marks are the fewest threads, rings the most; the vertical line is the product alone, at the rate of dgemm.
    """
    import matplotlib
    from matplotlib.figure import Figure

    lanes = list(dict.fromkeys(frame["lanes"]))
    sizes = list(dict.fromkeys(zip(frame["blocks"], frame["block_size"], strict=True)))
    rows = {count: _lines(frame[frame["lanes"] == count]) for count in lanes}
    with matplotlib.rc_context(STYLE):
        heights = [len(rows[count]) for count in lanes]
        figure = Figure(figsize=(7.0, 1.1 + 0.5 * len(lanes) + 0.165 * sum(heights)), layout="constrained")
        grid = figure.subplots(len(lanes), len(sizes), squeeze=False, sharex="col", sharey="row", height_ratios=heights)
        for column, (blocks, size) in enumerate(sizes):
            for axes, count in zip(grid[:, column], lanes, strict=True):
                here = (frame["blocks"] == blocks) & (frame["block_size"] == size) & (frame["lanes"] == count)
                _panel(axes, frame[here], rows[count])
                if column == 0:
                    axes.set_title("one run" if count == 1 else f"{count} lanes", loc="left", fontweight="bold")
            grid[0, column].set_title(f"{blocks} × {size}", loc="right")
            _ticks(grid[-1, column])
        _words(figure, title, f"{_key(frame)}\n{caption}".strip())
    return figure


def _lines(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """What stands on the axis from top to bottom: the contestants for each optimizer."""
    there = set(zip(frame["optimizer"], frame["contestant"], strict=True))
    optimizers = dict.fromkeys(frame["optimizer"])
    return [(name, one) for name in optimizers for one in CONTESTANTS if (name, one) in there]


def _panel(axes: Axes, here: pd.DataFrame, lines: list[tuple[str, str]]) -> None:
    threads = sorted(set(here["threads"]))
    looks = [(4.6, None)] if len(threads) == 1 else [(4.0, None), (7.0, "none")]
    for count in threads:
        rows = here[here["threads"] == count]
        limit = float((rows["microseconds"] * rows["fraction"]).iloc[0])
        axes.axvline(limit, color="#000000" if count == threads[0] else "#AAAAAA", linewidth=1.2, zorder=1)
    for place, (optimizer, contestant) in enumerate(lines):
        rows = here[(here["optimizer"] == optimizer) & (here["contestant"] == contestant)].set_index("threads")
        colour = OURS if contestant == "quadsim" else THEIRS
        if contestant == "quadsim":
            axes.axhspan(place - 0.5, place + 0.5, color="#E3EEF6", linewidth=0, zorder=0)
        for count, (size, fill) in zip((threads[0], threads[-1]), looks, strict=False):
            if count in rows.index:
                time = rows.loc[count, "microseconds"]
                axes.plot(
                    [time], [place], "o", markersize=size, color=colour, markerfacecolor=fill or colour,
                    markeredgewidth=1.0, zorder=3,
                )  # fmt: skip
    firsts = [place for place, (name, _) in enumerate(lines) if place and name != lines[place - 1][0]]
    for place in firsts:
        axes.axhline(place - 0.5, color="#999999", linewidth=0.6, zorder=0)
    axes.set(xscale="log", ylim=(len(lines) - 0.5, -0.5))
    labels = [f"{NAMES.get(name, name)}  {one}" if one == "quadsim" else one for name, one in lines]
    axes.set_yticks(range(len(lines)), labels, fontsize=7.5)
    for label, (_, one) in zip(axes.get_yticklabels(), lines, strict=False):  # the first panel of a row has them
        label.set(color=OURS if one == "quadsim" else "#333333", fontweight="bold" if one == "quadsim" else "normal")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", which="major", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def _ticks(axes: Axes) -> None:
    """Powers of ten, written out, with marks between them; at least one and a half of them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axes.get_xlim()
    middle, least = (low * high) ** 0.5, 10**0.75
    axes.set_xlim(min(low, middle / least), max(high, middle * least))
    axes.xaxis.set_major_locator(LogLocator(numticks=4))
    axes.xaxis.set_minor_locator(LogLocator(subs=range(2, 10) if high < 1000 * low else (1,), numticks=99))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axes.tick_params(axis="x", labelsize=7.5)
    axes.set_xlabel("µs", fontsize=8)


def _key(frame: pd.DataFrame) -> str:
    """What the marks are, in words."""
    threads = sorted(set(frame["threads"]))
    if len(threads) == 1:
        return f"On {_threads(threads[0])}. Line: the product H·w alone, at the rate of dgemm."
    few, many = _threads(threads[0]), _threads(threads[-1])
    return (
        f"Dots: {few}; rings: {many}. Lines: the product H·w alone, at the rate of dgemm, on {few} and (grey) {many}."
    )


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"


def _words(figure: Figure, title: str, caption: str) -> None:
    figure.suptitle(textwrap.fill(title, 95), x=0.01, ha="left", fontsize=9.5)
    lines = "\n".join(textwrap.fill(line, 135) for line in caption.splitlines())
    figure.supxlabel(lines, fontsize=6.5, color="#555555", x=0.01, ha="left")
