"""Figure layout: a figure with its title, caption and legend; grids of panels; labels beside a panel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.plots.style import STYLE
from quadsim.plots.text import evenly_wrapped, width_of, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

GREY = "#555555"
TITLE_SIZE, CAPTION_SIZE = 9.5, 6.5  # points
EDGE = 0.08  # inches between the left edge of a figure and its title and caption
MAX_CAPTION_LINES = 12


def style_context(font_size: float = 8.5) -> AbstractContextManager[None]:
    """Matplotlib's settings for all figures."""
    import matplotlib

    return matplotlib.rc_context(
        {**STYLE, "axes.titlelocation": "left", "axes.titlesize": 9, "font.size": font_size},
    )


@dataclass(frozen=True)
class Frame:
    """The title above a figure and the caption below it, wrapped to its width."""

    width: float
    title: list[str]
    caption: list[str]

    @staticmethod
    def of(width: float, title: str, caption: str) -> Frame:
        lines = wrapped(caption, width - 2 * EDGE, CAPTION_SIZE)
        if len(lines) > MAX_CAPTION_LINES:
            lines = [*lines[: MAX_CAPTION_LINES - 1], lines[MAX_CAPTION_LINES - 1] + " …"]
        return Frame(width, evenly_wrapped(title, width - 2 * EDGE, TITLE_SIZE), lines)

    @property
    def above(self) -> float:
        """Inches for the title."""
        return 0.1 + 0.16 * len(self.title)

    @property
    def below(self) -> float:
        """Inches for the caption."""
        return 0.06 + 0.115 * len(self.caption)

    def figure(self, height: float, *, constrained: bool = True) -> Figure:
        """A figure with so many inches between title and caption; without constrained layout they are placed here."""
        from matplotlib.figure import Figure

        total = self.above + height + self.below
        figure = Figure(figsize=(self.width, total), layout="constrained" if constrained else None)
        tops: dict[str, Any] = {} if constrained else {"y": 1 - 0.06 / total, "va": "top"}
        bottoms: dict[str, Any] = {} if constrained else {"y": 0.05 / total, "va": "bottom"}
        left = EDGE / self.width
        if constrained:
            figure.get_layout_engine().set(w_pad=0.06, h_pad=0.05, wspace=0.03)  # type: ignore[union-attr,call-arg]
        if self.title:
            figure.suptitle("\n".join(self.title), x=left, ha="left", fontsize=TITLE_SIZE, **tops)
        if self.caption:
            figure.supxlabel("\n".join(self.caption), x=left, ha="left", fontsize=CAPTION_SIZE, color=GREY, **bottoms)
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
        How many of the panels are used, if not all; the others are hidden.
    options :
        Those of `Figure.subplots` (sharey, width_ratios, …).
    """
    with style_context(font_size):
        figure = Frame.of(width, title, caption).figure(rows * height + (rows - 1) * gap + 0.62)
        grid = list(figure.subplots(rows, columns, squeeze=False, **options).ravel())
        used = len(grid) if panels is None else panels
        for axes in grid[used:]:
            axes.set_visible(False)
        yield figure, grid[:used]


def legend_above(figure: Figure, labels: Mapping[str, str], colours: Mapping[str, str]) -> None:
    """A legend at the upper right, outside the panels: colours by the labels of optimizers."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colours[name], linewidth=2, label=label) for name, label in labels.items()]
    figure.legend(handles=handles, loc="outside upper right", ncols=min(len(handles), 6), frameon=False, fontsize=8)


class PanelGrid:
    """Panels of one size at fixed positions in inches, with room for labels beside each.

    Constrained layout does not align panels that have labels of different widths, and takes longer than drawing.

    Parameters
    ----------
    titles, columns, height :
        The title of each panel, the number of columns, and the height of a panel.
    xlabels, ylabel :
        The axis labels; xlabels are used by the columns in turn.
    left, beside, colorbar :
        Widths for the tick labels at the left, for labels beside a panel, and for a colour bar.
    beside_first :
        Whether labels are beside the first panel of a row only.
    """

    def __init__(
        self,
        titles: Sequence[str],
        columns: int,
        height: float,
        *,
        title: str,
        caption: str,
        xlabels: Sequence[str],
        ylabel: str = "",
        left: float = 0.15,
        beside: float = 0.0,
        beside_first: bool = False,
        colorbar: float = 0.0,
        legend: Sequence[Line2D] = (),
    ) -> None:
        width = 5.6 if len(titles) == 1 else 7.0
        frame = Frame.of(width, title, caption)
        self.columns, self.rows = columns, -(-len(titles) // columns)
        between = 0.16
        outside = beside if beside_first else beside * columns
        room = (width - left - 0.225 - colorbar - outside - between * (columns - 1)) / columns
        names = [wrapped(name, room + (0.0 if beside_first else beside), 8.5) if name else [] for name in titles]
        gap = 0.14 + 0.14 * max(map(len, names)) if any(titles) else 0.12
        grid = self.rows * (height + gap) - gap
        self.ylabel = evenly_wrapped(ylabel, grid, 8)
        left += 0.125 * len(self.ylabel)
        panel = (width - left - 0.1 - colorbar - outside - between * (columns - 1)) / columns
        self.xlabels = [
            evenly_wrapped(text, panel + (0.0 if beside_first else min(beside, 0.4)), 8) for text in xlabels
        ]
        legend_columns = max(1, min(len(legend), int((width - 0.1) / _legend_entry_width(legend))))
        legend_height = 0.16 * -(-len(legend) // legend_columns)
        below = 0.3 + 0.135 * max(map(len, self.xlabels)) + frame.below
        self.figure = frame.figure(legend_height + gap + grid + below - frame.below, constrained=False)
        total = self.figure.get_figheight()
        self.axes: list[Axes] = []
        for number, name in enumerate(names):
            row, column = divmod(number, columns)
            x, y = left + column * (panel + between + beside), below + (self.rows - 1 - row) * (height + gap)
            axes = self.figure.add_axes((x / width, y / total, panel / width, height / total))
            axes.tick_params(labelsize=7.5)
            axes.set_title("\n".join(name), loc="left", fontsize=8.5)
            self.axes.append(axes)
        half = min(grid, 3.0) / 2
        self._colorbar = (
            (width - 0.1 - colorbar + 0.12) / width,
            (below + grid / 2 - half) / total,
            0.13 / width,
            2 * half / total,
        )
        if legend:
            self.figure.legend(
                handles=list(legend), loc="upper left", bbox_to_anchor=(EDGE / width, 1 - frame.above / total),
                ncols=legend_columns, frameon=False, fontsize=7.5, borderpad=0, borderaxespad=0, handlelength=1.6,
                columnspacing=1.2, labelspacing=0.35,
            )  # fmt: skip

    def colorbar_axes(self) -> Axes:
        return self.figure.add_axes(self._colorbar)

    def label_axes(self) -> None:
        """Label the axes once per row and column; ticks inside the grid have no labels."""
        for number, axes in enumerate(self.axes):
            row, column = divmod(number, self.columns)
            if number + self.columns < len(self.axes):
                axes.tick_params(labelbottom=False)
            else:
                axes.set_xlabel("\n".join(self.xlabels[column % len(self.xlabels)]), fontsize=8)
            if column:
                axes.tick_params(labelleft=False)
            elif row == (self.rows - 1) // 2:
                axes.set_ylabel("\n".join(self.ylabel), fontsize=8, y=0.5 if self.rows % 2 else -0.06)


def _legend_entry_width(legend: Sequence[Line2D]) -> float:
    return 0.67 + width_of([str(handle.get_label()) for handle in legend])


def label_right(axes: Axes, ends: Sequence[tuple[float, str, str]], *, size: float = 7.5) -> None:
    """Write labels (height, text, colour) beside a panel, moved apart where they would overlap.

    Call it when the limits are final.
    """
    if not ends:
        return
    figure, position = axes.get_figure(), axes.get_position()
    shrinks = figure.get_layout_engine() is not None  # type: ignore[union-attr]
    tall = position.height * figure.get_figheight() * 72 * (0.8 if shrinks else 1)  # type: ignore[union-attr]
    wide = position.width * figure.get_figwidth() * 72 * (0.8 if shrinks else 1)  # type: ignore[union-attr]
    points = [(axes.get_xlim()[1], height) for height, _, _ in ends]
    levels = np.clip(axes.transAxes.inverted().transform(axes.transData.transform(points))[:, 1], 0, 1) * tall
    order = np.argsort(levels, kind="stable")
    spacing = size * 1.25 * np.array([ends[i][1].count("\n") + 1 for i in order])
    for i, at in zip(order, spread(levels[order], spacing, tall), strict=True):
        _, text, colour = ends[i]
        if abs(at - levels[i]) > 0.4 * size:
            thin = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 1}
            axes.annotate("", (1, levels[i] / tall), xycoords="axes fraction", xytext=(1 + 6 / wide, at / tall),
                          textcoords="axes fraction", arrowprops=thin, annotation_clip=False)  # fmt: skip
        axes.annotate(text, (1, at / tall), xycoords="axes fraction", xytext=(7, 0), textcoords="offset points",
                      va="center", color=colour, fontsize=size, fontweight="bold", linespacing=1.0,
                      annotation_clip=False)  # fmt: skip


def spread(wanted: np.ndarray, spacing: np.ndarray | float, high: float) -> np.ndarray:
    """The heights in [0, high] with this spacing that are nearest to the wanted (ascending) ones."""
    gaps = np.broadcast_to(spacing, wanted.shape)
    steps = np.concatenate([[0.0], np.cumsum((gaps[1:] + gaps[:-1]) / 2)])
    pools: list[list[float]] = []
    for value in wanted - steps:  # isotonic regression: pool adjacent violators
        pools.append([value])
        while len(pools) > 1 and np.mean(pools[-2]) > np.mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    level = np.concatenate([np.full(len(pool), np.mean(pool)) for pool in pools])
    return np.clip(level, 0, max(high - steps[-1], 0)) + steps
