"""Figure layout: a figure with its title, caption and legend; grids of panels; labels beside a panel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.plots.style import STYLE, colours_of, style_of
from quadsim.plots.text import evenly_wrapped, width_of, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY = "#555555"
TITLE_SIZE, CAPTION_SIZE = 9.5, 6.5  # points
EDGE = 0.08  # inches between the left edge of a figure and its title and caption
MAX_CAPTION_LINES = 12


def style_context(font_size: float = 8.5) -> AbstractContextManager[None]:
    """Matplotlib's settings for all figures."""
    import matplotlib

    return matplotlib.rc_context({**STYLE, "font.size": font_size})


def blank_figure(width: float, height: float, title: str = "", caption: str = "") -> Figure:
    """A figure with `height` inches between its title and its caption, both wrapped to its width."""
    from matplotlib.figure import Figure

    lines = wrapped(caption, width - 2 * EDGE, CAPTION_SIZE)
    if len(lines) > MAX_CAPTION_LINES:
        lines = [*lines[: MAX_CAPTION_LINES - 1], lines[MAX_CAPTION_LINES - 1] + " …"]
    title_lines = evenly_wrapped(title, width - 2 * EDGE, TITLE_SIZE)
    above, below = 0.1 + 0.16 * len(title_lines), 0.06 + 0.115 * len(lines)
    figure = Figure(figsize=(width, above + height + below), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.05, wspace=0.03)  # type: ignore[union-attr,call-arg]
    if title_lines:
        figure.suptitle("\n".join(title_lines), x=EDGE / width, ha="left", fontsize=TITLE_SIZE)
    if lines:
        figure.supxlabel("\n".join(lines), x=EDGE / width, ha="left", fontsize=CAPTION_SIZE, color=GREY)
    return figure


@contextmanager
def canvas(
    rows: int = 1,
    columns: int = 1,
    *,
    title: str = "",
    caption: str = "",
    width: float = 7.0,
    height: float = 2.5,
    gap: float = 0.62,
    panels: int | None = None,
    font_size: float = 8.5,
    **options: Any,
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure with a grid of panels: `with canvas(1, 2, title=…, caption=…) as (figure, (left, right)):`.

    Parameters
    ----------
    width, height, gap :
        Of the figure, of a panel and between two rows of panels, in inches.
    panels :
        The number of panels: as many rows as they need, of at most `columns`.
    options :
        Those of `Figure.subplots` (sharey, width_ratios, …).
    """
    if panels:
        columns = min(columns, panels)
        rows = -(-panels // columns)
    with style_context(font_size):
        figure = blank_figure(width, rows * height + (rows - 1) * gap + 0.62, title, caption)
        grid = list(figure.subplots(rows, columns, squeeze=False, **options).ravel())
        for axes in grid[panels or len(grid) :]:
            axes.remove()
        yield figure, grid[:panels]


def legend_above(figure: Figure, labels: Mapping[str, str], *, strokes: bool = True) -> None:
    """Add a legend of optimizers between the title and the panels, and its height to that of the figure."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, linestyle=style_of(name).stroke if strokes else "-", linewidth=1.5)
        for name, colour in colours_of(list(labels)).items()
    ]
    width, title_lines = figure.get_figwidth(), len(figure.get_suptitle().splitlines())
    columns = max(1, min(len(labels), int((width - 0.1) / (0.67 + width_of(list(labels.values()))))))
    height = 0.1 + 0.16 * -(-len(labels) // columns)
    total = figure.get_figheight() + height
    figure.set_figheight(total)
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - height / total))  # type: ignore[union-attr,call-arg]
    at = EDGE / width, 1 - (0.1 + 0.16 * title_lines) / total
    texts: dict[str, Any] = {"fontsize": 7.5, "handlelength": 1.6, "columnspacing": 1.2, "labelspacing": 0.35}
    place: dict[str, Any] = {"bbox_to_anchor": at, "borderpad": 0, "borderaxespad": 0}
    figure.legend(handles, list(labels.values()), loc="upper left", ncols=columns, frameon=False, **place, **texts)


def label_right(axes: Axes, ends: Sequence[tuple[float, str, str]], *, size: float = 7.5) -> None:
    """Write labels (height, text, colour) beside a panel, moved apart where they would overlap.

    Call it when the limits are final. The layout is not: it will shrink the panel to about 0.8 of its present size.
    """
    if not ends:
        return
    wide, tall = 0.8 * 72 * axes.get_figure().get_size_inches() * axes.get_position().size  # type: ignore[union-attr]
    points = [(axes.get_xlim()[1], height) for height, _, _ in ends]
    levels = np.clip(axes.transAxes.inverted().transform(axes.transData.transform(points))[:, 1], 0, 1) * tall
    order = np.argsort(levels, kind="stable")
    beside: dict[str, Any] = {"xycoords": "axes fraction", "annotation_clip": False}
    spacing = size * 1.25 * np.array([ends[i][1].count("\n") + 1 for i in order])
    for i, at in zip(order, spread(levels[order], spacing, tall), strict=True):
        _, text, colour = ends[i]
        if abs(at - levels[i]) > 0.4 * size:
            thin = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 1}
            end = 1 + 6 / wide, at / tall
            axes.annotate("", (1, levels[i] / tall), xytext=end, textcoords="axes fraction", arrowprops=thin, **beside)
        style = {"color": colour, "fontsize": size, "fontweight": "bold", "linespacing": 1.0, "va": "center", **beside}
        axes.annotate(text, (1, at / tall), xytext=(7, 0), textcoords="offset points", **style)


def spread(wanted: np.ndarray, spacing: np.ndarray | float, high: float) -> np.ndarray:
    """The heights in [0, high] that are nearest to the wanted ones (ascending) and have at least this spacing."""
    gaps = np.broadcast_to(spacing, wanted.shape)
    steps = np.concatenate([[0.0], np.cumsum((gaps[1:] + gaps[:-1]) / 2)])
    pools: list[list[float]] = []
    for value in wanted - steps:  # isotonic regression: pool adjacent violators
        pools.append([value])
        while len(pools) > 1 and np.mean(pools[-2]) > np.mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    level = np.concatenate([np.full(len(pool), np.mean(pool)) for pool in pools])
    return np.clip(level, 0, max(high - steps[-1], 0)) + steps
