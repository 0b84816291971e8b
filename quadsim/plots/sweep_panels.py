"""The panels of a sweep figure: one for each combination of values of the axes that are not drawn otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from quadsim._validation import InputError
from quadsim.plots import inputs
from quadsim.plots.aggregate import CONDITIONS, axes_of, medians, names_of, numbers
from quadsim.plots.given_axes import given, refuse
from quadsim.plots.labels import panel_title
from quadsim.plots.layout import canvas
from quadsim.plots.style import style_of, styles_of
from quadsim.plots.text import evenly_wrapped, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_PANELS = 60
MAX_COMBINATIONS = 2000  # of values; with more, the exact number of panels is not computed


class TooManyPanels(InputError):
    """More panels than a figure can hold."""

    def __init__(self, count: int, axes: Sequence[str]) -> None:
        names = [name for name in axes if name != "optimizer"] or ["optimizers"]
        listed = ", ".join(names)
        listed = listed if len(listed) <= 60 else listed[:59] + "…"
        super().__init__(
            f"the figure would have {count:,} panels, for {listed}, and {MAX_PANELS} is the most: "
            f"select some values with {names[0]}=…, or choose another x"
        )


class Sweep:
    """The runs of a sweep, aggregated over seeds.

    ``table`` has the medians; ``has`` the optimizers that have each axis: all for settings of the problem, some for
    those of optimizers; ``labels`` and ``colours`` are by optimizer, in the order of the frame.
    """

    def __init__(self, frame: pd.DataFrame, axes: Sequence[str], y: str, **numeric: str) -> None:
        """`numeric`: further axes, which must be numbers, by the names of parameters."""
        self.frame, self.y = frame, y
        self.table = table = medians(frame, names_of([*inputs.names("axes", axes), *numeric.values()]), y)
        for parameter, name in numeric.items():
            if name not in numbers(table):
                raise InputError(f"{parameter} must be an axis of numbers, got {name}")
        shared, drawn = (*CONDITIONS, "optimizer"), set(table["optimizer"])
        self.has = {
            name: set(table.loc[table[name].notna() | (name in shared), "optimizer"]) for name in axes_of(table)
        }
        self.labels = {str(name): style_of(str(name)).label for name in frame["optimizer"].unique() if name in drawn}
        self.styles = styles_of(list(self.labels))
        self.colours = {name: str(style.colour) for name, style in self.styles.items()}

    def panels(self, table: pd.DataFrame, *drawn: str) -> list[dict[str, Any]]:
        """For each panel the values of the axes that are not `drawn` in it; None for an absent value.

        An optimizer without one of the settings is drawn in all panels that differ in it, and gets no separate panel.
        """
        axes = [name for name in axes_of(table) if name not in drawn]
        varied = [name for name in axes if name == "optimizer" or table[name].nunique(dropna=False) > 1]
        rows = table[["optimizer", *varied]].drop_duplicates().itertuples(index=False, name=None)
        distinct = dict.fromkeys(
            tuple(
                (name, None if pd.isna(value) else value)
                for name, value in zip(varied, values, strict=True)
                if optimizer in self.has[name]
            )
            for optimizer, *values in rows
        )
        combinations = [dict(pairs) for pairs in distinct]
        if len(combinations) > MAX_COMBINATIONS:
            raise TooManyPanels(len(combinations), varied)
        panels = [
            panel
            for panel in combinations
            if len(panel) == len(varied) or not any(panel.items() < other.items() for other in combinations)
        ]
        if len(panels) > MAX_PANELS:
            raise TooManyPanels(len(panels), varied)
        return panels

    def rows(self, table: pd.DataFrame, panel: Mapping[str, Any]) -> pd.DataFrame:
        """The rows with the panel's values, and those of optimizers that do not have the setting."""
        chosen = np.ones(len(table), dtype=bool)
        for name, value in panel.items():
            same = table[name].isna() if value is None else table[name].eq(value)
            chosen &= same.to_numpy(dtype=bool, na_value=False) | ~table["optimizer"].isin(self.has[name]).to_numpy()
        return table[chosen]


def column_count(panels: int) -> int:
    return {1: 1, 2: 2, 4: 2}.get(panels, 3)


@contextmanager
def panel_grid(
    panels: Sequence[Mapping[str, Any]],
    columns: int,
    height: float,
    *,
    title: str,
    caption: str,
    xlabels: Sequence[str],
    ylabel: str = "",
    beside: float = 0.0,
    ax: Any = None,
) -> Iterator[tuple[Any, list[Axes]]]:
    """A `canvas` with titles and axis labels for the panels of a sweep; ticks inside the grid have no labels.

    Parameters
    ----------
    xlabels :
        A panel is drawn for each of them, side by side.
    beside :
        The width of labels beside the panels, which titles and axis labels should not use.
    ax :
        Axes to draw the only panel into.
    """
    count = len(panels) * len(xlabels)
    refuse(ax, count, "setting", "select the rows of one, or leave ax out")
    if ax is not None:
        with given(ax, title) as axes:
            yield axes.get_figure(), [axes]
            axes.set(xlabel=xlabels[0], ylabel=ylabel)
        return
    rows, width = -(-count // columns), 5.6 if count == 1 else 7.0
    room = (width - 0.8 - beside) / columns - 0.1
    titles = [wrapped(panel_title(panel), room, 8.5) for panel in panels]
    gap = 0.14 + 0.14 * max(map(len, titles))
    labels = gap + (0.4 if count % columns and rows > 1 else 0)  # a row that is not full has axis labels above it
    sizes: dict[str, Any] = {"width": width, "height": height + labels / rows, "gap": gap, "font_size": 8}
    with canvas(columns=columns, panels=count, title=title, caption=caption, **sizes) as (figure, grid):
        for lines, axes in zip(titles, grid[:: len(xlabels)], strict=True):
            axes.set_title("\n".join(lines), fontsize=8.5)
        yield figure, grid
        for number, axes in enumerate(grid):
            last, first = number + columns >= count, number % columns == 0
            axes.tick_params(labelsize=7.5, labelbottom=last, labelleft=first)
            if last:
                axes.set_xlabel("\n".join(evenly_wrapped(xlabels[number % len(xlabels)], room, 8)))
        middle = grid[(rows - 1) // 2 * columns]
        lines = evenly_wrapped(ylabel, rows * (height + gap) - gap, 8)
        middle.set_ylabel("\n".join(lines), y=0.5 if rows % 2 else -0.06)
