"""Benchmarks: microseconds per step and run by size, quadsim beside other libraries and the machine's limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.plots import inputs
from quadsim.plots.given_axes import given, refuse
from quadsim.plots.layout import canvas
from quadsim.plots.style import style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

QUADSIM_COLOUR, OTHER_COLOUR = "#0072B2", "#5A5A5A"  # distinct in grey too
COLUMNS = ("blocks", "block_size", "optimizer", "lanes", "threads", "contestant", "microseconds", "fraction")
LIBRARIES = ("quadsim", "numpy", "torch.optim", "optax", "optax vmap", "optax columns")


def speed(frame: Any, *, ax: Any = None, title: str = "", caption: str = "") -> Figure | Axes:
    """Microseconds per step and run: a column of panels for each size, a row for each number of lanes.

    In each panel the libraries for each optimizer. Filled marks are the fewest threads, rings the most; the vertical
    line is the matrix product alone, at the rate of dgemm.

    Parameters
    ----------
    frame :
        A table with the columns blocks, block_size, optimizer, lanes, threads, contestant, microseconds, fraction (of
        the machine's dgemm).
    ax : matplotlib Axes, optional
        Axes to draw one size and one number of lanes into.
    title, caption : str
        Written above and below the panels.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"blocks": 3, "block_size": 3, "optimizer": "gd", "lanes": 64, "threads": 1, "fraction": 0.2}
    >>> times = {"quadsim": 0.1, "numpy": 1.0}
    >>> rows = [{**row, "contestant": name, "microseconds": time} for name, time in times.items()]
    >>> figure = qs.plots.speed(pd.DataFrame(rows))
    """
    frame = inputs.table(frame, COLUMNS, function="speed", expected="the table of timings")
    lanes = list(dict.fromkeys(frame["lanes"]))
    sizes = list(dict.fromkeys(zip(frame["blocks"], frame["block_size"], strict=True)))
    rows = {count: _rows(frame[frame["lanes"] == count]) for count in lanes}
    heights = [len(rows[count]) for count in lanes]
    refuse(ax, len(lanes) * len(sizes), "size and number of lanes", "select the rows of one of them")
    if ax is not None:
        with given(ax, title) as axes:
            _panel(axes, frame, rows[lanes[0]])
            _ticks(axes)
        return axes
    caption = f"{_key(frame)} {caption}".strip()
    options: dict[str, Any] = {"sharex": "col", "sharey": "row", "height_ratios": heights, "gap": 0.35, "font_size": 9}
    height = 0.165 * sum(heights) / len(lanes)
    with canvas(len(lanes), len(sizes), title=title, caption=caption, height=height, **options) as (figure, panels):
        grid = np.array(panels, dtype=object).reshape(len(lanes), len(sizes))
        for column, (blocks, size) in enumerate(sizes):
            for axes, count in zip(grid[:, column], lanes, strict=True):
                here = (frame["blocks"] == blocks) & (frame["block_size"] == size) & (frame["lanes"] == count)
                _panel(axes, frame[here], rows[count])
                if column == 0:
                    axes.set_title("one run" if count == 1 else f"{count} lanes", loc="left", fontweight="bold")
            grid[0, column].set_title(f"{blocks} × {size}", loc="right")
            _ticks(grid[-1, column])
    return figure


def _rows(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """The rows of a panel from top to bottom: (optimizer, library)."""
    measured = set(zip(frame["optimizer"], frame["contestant"], strict=True))
    optimizers = dict.fromkeys(frame["optimizer"])
    return [(name, library) for name in optimizers for library in LIBRARIES if (name, library) in measured]


def _panel(axes: Axes, frame: pd.DataFrame, rows: list[tuple[str, str]]) -> None:
    threads = sorted(set(frame["threads"]))
    marks = [(4.6, None)] if len(threads) == 1 else [(4.0, None), (7.0, "none")]
    for count in threads:
        ours = frame[frame["threads"] == count]
        limit = float((ours["microseconds"] * ours["fraction"]).iloc[0])
        axes.axvline(limit, color="#000000" if count == threads[0] else "#AAAAAA", linewidth=1.2, zorder=1)
    for height, (optimizer, library) in enumerate(rows):
        ours = frame[(frame["optimizer"] == optimizer) & (frame["contestant"] == library)].set_index("threads")
        colour = QUADSIM_COLOUR if library == "quadsim" else OTHER_COLOUR
        if library == "quadsim":
            axes.axhspan(height - 0.5, height + 0.5, color="#E3EEF6", linewidth=0, zorder=0)
        for count, (size, fill) in zip((threads[0], threads[-1]), marks, strict=False):
            if count in ours.index:
                style: dict[str, Any] = {"markersize": size, "markerfacecolor": fill or colour, "markeredgewidth": 1.0}
                axes.plot([ours.loc[count, "microseconds"]], [height], "o", color=colour, zorder=3, **style)
    for height in [k for k in range(1, len(rows)) if rows[k][0] != rows[k - 1][0]]:
        axes.axhline(height - 0.5, color="#999999", linewidth=0.6, zorder=0)
    axes.set(xscale="log", ylim=(len(rows) - 0.5, -0.5))
    labels = [f"{style_of(name).label}  {library}" if library == "quadsim" else library for name, library in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=7.5)
    for label, (_, library) in zip(axes.get_yticklabels(), rows, strict=False):  # only the first column has labels
        ours = library == "quadsim"
        label.set(color=QUADSIM_COLOUR if ours else "#333333", fontweight="bold" if ours else "normal")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", which="major", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def _ticks(axes: Axes) -> None:
    """Powers of ten, written out, with minor ticks; the axis spans at least one and a half decades."""
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
    """The meaning of the marks."""
    threads = sorted(set(frame["threads"]))
    if len(threads) == 1:
        return f"On {_threads(threads[0])}. Line: the product H·w alone, at the rate of dgemm."
    few, many = _threads(threads[0]), _threads(threads[-1])
    return (
        f"Dots: {few}; rings: {many}. Lines: the product H·w alone, at the rate of dgemm, on {few} and (grey) {many}."
    )


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"
