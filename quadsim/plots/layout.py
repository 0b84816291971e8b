"""Figure layout: a figure with its title, caption and legend; grids of panels; labels beside a panel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.plots.style import STYLE, Style, styles_of
from quadsim.plots.text import all_shortened, evenly_wrapped, width_of, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from quadsim.plots.figure import NotebookFigure

GREY = "#555555"
TITLE_SIZE, CAPTION_SIZE = 9.5, 6.5  # points
EDGE = 0.08  # inches between the left edge of a figure and its title and caption
MAX_CAPTION_LINES = 12
TOP, RIGHT = 0.1, 0.08  # inches beside a single panel without a layout engine


def style_context(font_size: float = 8.5) -> AbstractContextManager[None]:
    """Matplotlib's settings for all figures."""
    import matplotlib

    return matplotlib.rc_context({**STYLE, "font.size": font_size})


def blank_figure(width: float, height: float, title: str = "", caption: str = "") -> NotebookFigure:
    """A figure with `height` inches between its title and its caption, both wrapped to its width."""
    from quadsim.plots.figure import NotebookFigure

    figure = NotebookFigure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.06, h_pad=0.05, wspace=0.03)  # type: ignore[union-attr,call-arg]
    figure.body, figure.caption = height, caption
    lines = [part for line in title.splitlines() for part in evenly_wrapped(line, width - 2 * EDGE, TITLE_SIZE)]
    if lines:
        figure.suptitle("\n".join(lines), x=EDGE / width, ha="left", fontsize=TITLE_SIZE)
    arrange(figure)
    return figure


def arrange(figure: NotebookFigure) -> None:
    """Write the caption with its notes, and give the figure the height for title, legend, panels and caption."""
    width, title_lines = figure.get_figwidth(), len(figure.get_suptitle().splitlines())
    caption = figure.caption.rstrip()
    point = "." if caption and figure.notes and caption[-1] not in ".:;!?" else ""
    text = " ".join(filter(None, [caption + point, *figure.notes]))
    lines = wrapped(text, width - 2 * EDGE, CAPTION_SIZE)
    if len(lines) > MAX_CAPTION_LINES:
        lines = [*lines[: MAX_CAPTION_LINES - 1], lines[MAX_CAPTION_LINES - 1] + " …"]
    above, below = 0.1 + 0.16 * title_lines, 0.06 + 0.115 * len(lines)
    total = above + figure.legend_height + figure.body + below
    figure.set_figheight(total)
    if lines:
        figure.supxlabel("\n".join(lines), x=EDGE / width, ha="left", fontsize=CAPTION_SIZE, color=GREY)
    for legend in figure.legends:
        legend.set_bbox_to_anchor((EDGE / width, 1 - above / total))
    if figure.margins is not None:
        left, bottom = figure.margins
        size = 1 - (left + RIGHT) / width, (figure.body - bottom - TOP) / total
        figure.axes[0].set_position((left / width, (below + bottom) / total, *size))
        for text in (figure._suptitle, figure._supxlabel):  # type: ignore[attr-defined]
            if text is not None:
                text.set_y(1 - 0.05 / total if text is figure._suptitle else 0.05 / total)  # type: ignore[attr-defined]
    elif (engine := figure.get_layout_engine()) is not None:
        engine.set(rect=(0, 0, 1, 1 - figure.legend_height / total))  # type: ignore[call-arg]


def note(axes: Axes, *sentences: str) -> None:
    """Add sentences to the caption of the figure, each once; axes of other figures have no caption."""
    from quadsim.plots.figure import NotebookFigure

    figure: Any = axes.get_figure()
    figure = getattr(figure, "figure", figure)  # of a subfigure
    if isinstance(figure, NotebookFigure):
        figure.notes = tuple(dict.fromkeys((*figure.notes, *sentences)))


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
) -> Iterator[tuple[NotebookFigure, list[Axes]]]:
    """A figure with a grid of panels in the style of quadsim.

    Parameters
    ----------
    rows, columns : int
    title, caption : str
        Written above and below the panels.
    width, height, gap : float
        Of the figure, of a panel and between two rows of panels, in inches.
    panels : int, optional
        The number of panels: as many rows as they need, of at most `columns`.
    font_size : float
    **options :
        Those of `Figure.subplots` (sharey, width_ratios, …).

    Yields
    ------
    figure : Figure
    axes : list of Axes
        One for each panel; the figure is laid out when the block ends.

    Examples
    --------
    >>> with qs.plots.canvas(1, 2, title="two laws") as (figure, axes):
    ...     for one, name in zip(axes, ("linear", "power-law")):
    ...         _ = one.plot(qs.spectra.law(name, 30, kappa=100))
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
        arrange(figure)


def legend_above(figure: NotebookFigure, labels: Mapping[str, str], styles: Mapping[str, Style] | None = None) -> None:
    """Add a legend of optimizers between the title and the panels."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=style.colour, linestyle=style.stroke, linewidth=1.5)
        for style in (styles or styles_of(list(labels))).values()
    ]
    texts = all_shortened(list(labels.values()))
    columns = max(1, min(len(texts), int((figure.get_figwidth() - 0.1) / (0.79 + width_of(texts)))))
    figure.legend_height = 0.1 + 0.16 * -(-len(texts) // columns)
    style: dict[str, Any] = {"fontsize": 7.5, "handlelength": 2.6, "columnspacing": 1.2, "labelspacing": 0.35}
    place: dict[str, Any] = {"bbox_to_anchor": (0, 1), "borderpad": 0, "borderaxespad": 0}
    figure.legend(handles, texts, loc="upper left", ncols=columns, frameon=False, **place, **style)
    arrange(figure)


def label_right(axes: Axes, ends: Sequence[tuple[float, str, str]], *, size: float = 7.5) -> None:
    """Write labels beside a panel, moved apart where they would overlap.

    Call it when the limits are final. The layout is not: it will shrink the panel to about 0.8 of its present size.

    Parameters
    ----------
    axes : matplotlib Axes
    ends : list of (float, str, str)
        The height, the text and the colour of each label.
    size : float
        Of the font, in points.

    Examples
    --------
    >>> with qs.plots.canvas() as (figure, (axes,)):
    ...     _ = axes.plot([1, 2], [1.0, 3.0])
    ...     qs.plots.label_right(axes, [(3.0, "a line", "#0072B2")])
    """
    if not ends:
        return
    from matplotlib.transforms import offset_copy

    figure: Any = axes.get_figure()
    tall = 0.8 * 72 * figure.get_figheight() * axes.get_position().height
    points = [(axes.get_xlim()[1], height) for height, _, _ in ends]
    levels = np.clip(axes.transAxes.inverted().transform(axes.transData.transform(points))[:, 1], 0, 1) * tall
    order = np.argsort(levels, kind="stable")
    beside: dict[str, Any] = {"xycoords": "axes fraction", "annotation_clip": False}
    spacing = size * 1.25 * np.array([ends[i][1].count("\n") + 1 for i in order])
    for i, at in zip(order, spread(levels[order], spacing, tall), strict=True):
        _, text, colour = ends[i]
        if abs(at - levels[i]) > 0.4 * size:
            thin = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 1}
            right = offset_copy(axes.transAxes, figure, x=5.5, y=0, units="points")
            axes.annotate("", (1, levels[i] / tall), xytext=(1, at / tall), textcoords=right, arrowprops=thin, **beside)
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
