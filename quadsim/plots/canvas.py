"""A sheet with panels, a title that states the finding and a caption; labels beside the ends of lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.plots.style import STYLE, evenly_wrapped, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY = "#555555"


@contextmanager
def canvas(
    rows: int = 1, columns: int = 1, *, title: str, caption: str, width: float = 7.0, tall: float = 2.5, **options: Any
) -> Iterator[tuple[Figure, list[Axes]]]:
    """`with canvas(1, 2, title=…, caption=…) as (figure, (left, right)):` panels `tall` inches high, in our style.

    Titles of more than a line are wrapped; options are those of `Figure.subplots` (sharey, width_ratios, …).
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**STYLE, "axes.titlelocation": "left", "axes.titlesize": 9, "font.size": 8.5}):
        heading, small = evenly_wrapped(title, width - 0.16, 10), wrapped(caption, width - 0.16, 6.5)
        high = 0.12 + 0.17 * len(heading) + rows * (tall + 0.62) + 0.11 * len(small)
        figure = Figure(figsize=(width, high), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.06, h_pad=0.05, wspace=0.03)  # type: ignore[union-attr,call-arg]
        grid = figure.subplots(rows, columns, squeeze=False, **options)
        edge = 0.08 / width
        figure.suptitle("\n".join(heading), x=edge, ha="left", fontsize=10)
        figure.supxlabel("\n".join(small), x=edge, ha="left", fontsize=6.5, color=GREY)
        yield figure, list(grid.ravel())


def label_right(axes: Axes, ends: Sequence[tuple[float, str, str]], *, size: float = 7.5) -> None:
    """Write labels (height, text, colour) beside the panel, pushed apart where they would touch.

    To be called when the limits are final; `None` for a text leaves it out.
    """
    if not ends:
        return
    tall = axes.get_position().height * axes.get_figure().get_figheight() * 72 * 0.8  # type: ignore[union-attr]
    shown = axes.transAxes.inverted().transform(
        axes.transData.transform([(axes.get_xlim()[1], end[0]) for end in ends])
    )
    heights = np.clip(shown[:, 1], 0, 1) * tall
    order = np.argsort(heights, kind="stable")
    apart = size * 1.25 * np.array([ends[i][1].count("\n") + 1 for i in order])
    for i, at in zip(order, spread(heights[order], apart, tall), strict=True):
        _, text, colour = ends[i]
        level = heights[i]
        if abs(at - level) > 0.6 * size:
            thin = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 1}
            axes.annotate("", (1, level / tall), xycoords="axes fraction", xytext=(1.03, at / tall),
                          textcoords="axes fraction", arrowprops=thin, annotation_clip=False)  # fmt: skip
        axes.annotate(text, (1, at / tall), xycoords="axes fraction", xytext=(6, 0), textcoords="offset points",
                      va="center", color=colour, fontsize=size, fontweight="bold", linespacing=1.0,
                      annotation_clip=False)  # fmt: skip


def spread(wanted: np.ndarray, apart: np.ndarray | float, high: float) -> np.ndarray:
    """The heights from 0 to high, so far apart, that are nearest to the wanted (ascending) ones."""
    gaps = np.broadcast_to(apart, wanted.shape)
    steps = np.concatenate([[0.0], np.cumsum((gaps[1:] + gaps[:-1]) / 2)])
    pools: list[list[float]] = []
    for value in wanted - steps:  # isotonic regression: neighbours out of order share their mean
        pools.append([value])
        while len(pools) > 1 and np.mean(pools[-2]) > np.mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    level = np.concatenate([np.full(len(pool), np.mean(pool)) for pool in pools])
    return np.clip(level, 0, max(high - steps[-1], 0)) + steps
