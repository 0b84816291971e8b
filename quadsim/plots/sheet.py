"""The sheet that a figure of a sweep is drawn on: which panels there are, and where they, title and caption stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from quadsim.plots.style import evenly_wrapped, width_of, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 60  # of a figure that can still be read, page by page

Has = Mapping[str, set[str]]  # for each axis the optimizers that have it


def panels_of(table: pd.DataFrame, axes: Sequence[str], has: Has) -> list[dict[str, Any]]:
    """The values of the other axes that get a panel of their own; None for a value that is absent.

    An optimizer without one of the settings is in all panels that differ in it, and gets no panel for the lack of it.
    """
    varied = [name for name in axes if name == "optimizer" or table[name].nunique(dropna=False) > 1]
    combos = [
        {
            name: None if pd.isna(value) else value
            for name, value in zip(varied, values, strict=True)
            if optimizer in has[name]
        }
        for optimizer, *values in table[["optimizer", *varied]].drop_duplicates().itertuples(index=False, name=None)
    ]
    combos = [dict(combo) for combo in dict.fromkeys(tuple(combo.items()) for combo in combos)]
    if len(combos) > 2000:
        raise TooManyPanels(len(combos), varied)
    fewer = [combo for combo in combos if len(combo) < len(varied)]
    within = [combo for combo in fewer if any(combo.items() < other.items() for other in combos)]
    panels = [combo for combo in combos if combo not in within]
    if len(panels) > MOST_PANELS:
        raise TooManyPanels(len(panels), varied)
    return panels


class TooManyPanels(ValueError):
    """More panels than a figure can hold."""

    def __init__(self, count: int, axes: Sequence[str]) -> None:
        first, *others = [name for name in axes if name != "optimizer"] or ["optimizers"]
        listed = ", ".join([first, *others])
        listed = listed if len(listed) <= 60 else listed[:59] + "…"
        super().__init__(
            f"the figure would have {count:,} panels, for {listed}, and {MOST_PANELS} is the most: "
            f"select some values with {first}=…, or choose another x"
        )


def here(table: pd.DataFrame, panel: Mapping[str, Any], has: Has) -> pd.DataFrame:
    """The rows of a panel: those with its values, and those of optimizers that do not have the setting."""
    chosen = np.ones(len(table), dtype=bool)
    for name, value in panel.items():
        same = table[name].isna() if value is None else table[name].eq(value)
        chosen &= same.to_numpy(dtype=bool, na_value=False) | ~table["optimizer"].isin(has[name]).to_numpy()
    return table[chosen]


def columns_of(panels: int) -> int:
    return {1: 1, 2: 2, 4: 2}.get(panels, 3)


def heading(title: str, panels: int) -> list[str]:
    """A title in lines as wide as the sheet; as even ones if the last would be a word or two."""
    room = _wide(panels) - 0.1
    lines = wrapped(title, room, 9.5)
    return lines if len(lines[-1].split()) > 2 else evenly_wrapped(title, room, 9.5)


def _wide(panels: int) -> float:
    return 5.6 if panels == 1 else 7.0


class Sheet:
    """Panels of one size, laid out by hand in inches: labels stand beside a panel, which no automatic layout knows.

    Parameters
    ----------
    titles, columns, tall :
        The title of each panel, how many are in a row, and their height.
    across, up :
        The names of the axes; those across take turns.
    left, beside, bar :
        The room for numbers at the left, for labels beside a panel, and for a bar of colours.
    once :
        Whether labels are beside the first panel of a row alone.
    """

    def __init__(
        self,
        titles: Sequence[str],
        columns: int,
        tall: float,
        *,
        title: str,
        caption: str,
        across: Sequence[str],
        up: str = "",
        left: float = 0.15,
        beside: float = 0.0,
        once: bool = False,
        bar: float = 0.0,
        legend: Sequence[Any] = (),
    ) -> None:
        from matplotlib.figure import Figure

        wide = _wide(len(titles))
        self.columns, self.rows = columns, -(-len(titles) // columns)
        between = 0.16
        labels = beside if once else beside * columns
        room = (wide - left - 0.225 - bar - labels - between * (columns - 1)) / columns + (0.0 if once else beside)
        names = [wrapped(name, room, 8.5) if name else [] for name in titles]
        gap = 0.14 + 0.14 * max(map(len, names)) if any(titles) else 0.12
        whole = self.rows * (tall + gap) - gap
        self.up = evenly_wrapped(up, whole, 8)
        left += 0.125 * len(self.up)
        plot = (wide - left - 0.1 - bar - labels - between * (columns - 1)) / columns
        self.across = [evenly_wrapped(text, plot + (0.0 if once else min(beside, 0.4)), 8) for text in across]
        told, small = heading(title, len(titles)), wrapped(caption, wide - 0.16, 6.5)
        entry = 0.67 + width_of([handle.get_label() for handle in legend])
        many = max(1, min(len(legend), int((wide - 0.1) / entry)))
        above = 0.1 + 0.16 * len(told)
        below = 0.36 + 0.135 * max(map(len, self.across)) + 0.115 * len(small)
        high = above + 0.16 * -(-len(legend) // many) + whole + gap + below
        self.figure = Figure(figsize=(wide, high))
        self.axes: list[Axes] = []
        for number, name in enumerate(names):
            row, column = divmod(number, columns)
            at = left + column * (plot + between + beside), below + (self.rows - 1 - row) * (tall + gap)
            axes = self.figure.add_axes((at[0] / wide, at[1] / high, plot / wide, tall / high))
            axes.tick_params(labelsize=7.5)
            axes.set_title("\n".join(name), loc="left", fontsize=8.5)
            self.axes.append(axes)
        half = min(whole, 3.0) / 2
        self._bar = (wide - 0.1 - bar + 0.12) / wide, (below + whole / 2 - half) / high, 0.13 / wide, 2 * half / high
        edge = 0.08 / wide
        self.figure.suptitle("\n".join(told), x=edge, y=1 - 0.06 / high, ha="left", va="top", fontsize=9.5)
        self.figure.supxlabel("\n".join(small), x=edge, y=0.05 / high, ha="left", va="bottom", fontsize=6.5,
                              color="#555555")  # fmt: skip
        if legend:
            self.figure.legend(
                handles=list(legend), loc="upper left", bbox_to_anchor=(edge, 1 - above / high), ncols=many,
                frameon=False, fontsize=7.5, borderpad=0, borderaxespad=0, handlelength=1.6, columnspacing=1.2,
                labelspacing=0.35,
            )  # fmt: skip

    def bar(self) -> Axes:
        return self.figure.add_axes(self._bar)

    def finish(self) -> None:
        """Name the axes once for each row and column; ticks inside the grid have no numbers."""
        for number, axes in enumerate(self.axes):
            row, column = divmod(number, self.columns)
            if number + self.columns < len(self.axes):
                axes.tick_params(labelbottom=False)
            else:
                axes.set_xlabel("\n".join(self.across[column % len(self.across)]), fontsize=8)
            if column:
                axes.tick_params(labelleft=False)
            elif row == (self.rows - 1) // 2:
                axes.set_ylabel("\n".join(self.up), fontsize=8, y=0.5 if self.rows % 2 else -0.06)
