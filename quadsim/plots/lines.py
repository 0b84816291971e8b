"""Lines against a swept axis: medians with quartiles, theory, marks for missing medians, a label at each end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from quadsim.plots.aggregate import QUARTILES, broken, fits, floats, free_name
from quadsim.plots.captions import caption_of, joined, title_of
from quadsim.plots.curve_drawing import Curve, frame_of, show_coinciding
from quadsim.plots.given_axes import add_legend
from quadsim.plots.inputs import sweep_rows
from quadsim.plots.labels import AXES, axis_name, power, y_label
from quadsim.plots.layout import label_right, legend_above
from quadsim.plots.scales import Heights, Scale
from quadsim.plots.sweep_panels import Sweep, column_count, panel_grid
from quadsim.plots.text import width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MAX_LABEL_WIDTH = 1.9  # inches; a legend holds longer labels


def against(
    frame: pd.DataFrame,
    x: str = "kappa",
    *,
    axes: Sequence[str] = (),
    y: str = "steps_to_tol",
    ax: Any = None,
    title: str | None = None,
    caption: str = "",
) -> Figure | Axes:
    """Medians of y against x with quartiles as a band: a line for each optimizer, a panel for each of the other axes.

    Settings in which runs differ but that are not among `axes` get panels too: only seeds are aggregated. Against kappa
    the label of a line has its slope. Against heterogeneity there is a second panel, against the distance between the
    blocks' spectra that it makes. A value of x that is absent, or an optimizer without x, is a horizontal line.

    Parameters
    ----------
    frame : DataFrame
        The table of `sweep`: one row for each run.
    x : str
        The column of the horizontal axis.
    axes : list of str
        The swept columns, in order.
    y : str
        The column of the vertical axis.
    ax : matplotlib Axes, optional
        Axes to draw into, if the figure has one panel.
    title, caption : str, optional
        Written above and below the panels; the title is by default the names of the axes.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> frame = qs.sweep(case=3, kappa=[10, 100, 1000], optimizers=["gd", "heavy-ball"], seed=range(3))
    >>> figure = qs.plots.against(frame, "kappa")
    """
    x, frame = free_name(x), sweep_rows(frame, "against")
    sweep = Sweep(frame, axes, y, x=x)
    table, labels = sweep.table, sweep.labels
    panels = sweep.panels(table, x, "optimizer")
    xlabels = [axis_name(x)]
    if x == "heterogeneity" and table["js_distance"].notna().any():
        xlabels.append(AXES["js_distance"])
    count = len(panels) * len(xlabels)
    columns = 2 if len(xlabels) == 2 else column_count(count)
    height = 2.15 if count > 1 else 2.9
    lines = _Lines(sweep, x, 72 * height)
    parts = [sweep.rows(lines.table, panel) for panel in panels]
    slopes: list[dict[str, str]] = [{} for _ in panels]
    if x == "kappa" and lines.heights.log:
        table_of_slopes = fits(table, x).dropna(subset="slope")
        fitted = [sweep.rows(table_of_slopes, panel) for panel in panels]
        slopes = [dict(zip(part["optimizer"], map(power, part["slope"]), strict=True)) for part in fitted]
    before = ", slope " if columns == 1 else "\nslope "
    texts = [
        {name: labels[name] + (before + slope[name] if name in slope else "") for name in part["optimizer"].unique()}
        for part, slope in zip(parts, slopes, strict=True)
    ]
    direct = ax is None and columns < 3 and _fit(texts, height) and lines.reach_the_end()
    named = texts[0] if ax is not None else {}
    if not direct:
        texts = [{name: f"κ^{slope}" for name, slope in of_panel.items()} for of_panel in slopes]
        texts = texts if ax is None and _fit(texts, height) else [{} for _ in panels]
    with panel_grid(
        panels,
        columns,
        height,
        title=title_of(y, x, word="against") if title is None else title,
        caption=joined(caption, caption_of(sweep, x)),
        xlabels=xlabels,
        ylabel=y_label(y, frame),
        beside=width_of([text for ends in texts for text in ends.values()], bold=True),
        ax=ax,
    ) as (figure, grid):
        if not direct and ax is None:
            legend_above(figure, labels)
        for number, part in enumerate(parts):
            main, *others = grid[number * len(xlabels) :][: len(xlabels)]
            ends = lines.draw(main, part, named)
            labelled = [name for name in labels if name in ends and name in texts[number]]  # in the order of the marks
            labelled.sort(key=lambda name: ends[name])
            label_right(main, [(ends[name], texts[number][name], sweep.colours[name]) for name in labelled])
            for axes_of_distance in others:
                lines.draw_along_distance(axes_of_distance, part)
        if ax is not None:
            add_legend(grid[0])
    return figure if ax is None else grid[0]


class _Lines:
    """The lines of all panels. An optimizer with missing medians has its own row of marks, at the top of the panels."""

    def __init__(self, sweep: Sweep, x: str, points: float) -> None:
        """Add the marks for medians that were not reached to the table. `points`: the height of a panel."""
        table, steps, diverged = sweep.table, sweep.y == "steps_to_tol", broken(sweep.table)
        self.styles = sweep.styles
        self.x, self.scale, self.heights, self.colours = x, Scale(table[x]), Heights(table, sweep.y), sweep.colours
        lower, median, upper, limit = (floats(table[name]) for name in (*QUARTILES, "limit"))
        median[diverged & (median > self.heights.high)] = np.nan
        late = np.isnan(upper) & (table["reached"] < table["draws"]) & steps
        self.marked = [name for name in sweep.labels if name in set(table.loc[late | diverged, "optimizer"])]
        self.spacing = min(4.5, 0.3 * points / max(len(self.marked), 1))  # between the rows of marks, in points
        share = (5 + self.spacing * len(self.marked)) / points
        self.above = 1.05 * share / (1 - share)  # room for the marks, as a share of the axis below
        self.table = table.assign(
            lower=lower,
            upper=upper,
            limit=limit,
            shown=median,
            broken=diverged,
            missing=np.isnan(median) & (steps | diverged),
            upper_missing=np.isfinite(median) & np.isnan(upper) & np.isfinite(limit),
            mark_height=np.where(diverged | ~np.isfinite(limit), self.heights.high, limit),
        )

    def draw(self, axes: Axes, part: pd.DataFrame, named: Mapping[str, str]) -> dict[str, float]:
        """Draw bands, medians, theory and marks; returns the height at which each optimizer's line ends."""
        ends: dict[str, float] = {}
        curves: list[Curve] = []
        for name, both in part.groupby("optimizer", sort=False):
            colour, stroke = self.colours[str(name)], self.styles[str(name)].stroke
            flat, line = both[both[self.x].isna()], both[both[self.x].notna()].sort_values(self.x)
            at = self.scale.positions(floats(line[self.x]))
            lower, theory = line["lower"], floats(line["predicted"])
            top = line["upper"].fillna(line["limit"])
            banded = (lower + top).notna() & (line["draws"] > 1) & ~(line["missing"] & line["broken"])
            if banded.any():
                axes.fill_between(at, lower, top, where=list(banded), color=colour, alpha=0.18, linewidth=0)
            if at.size == 1 and banded.any():
                axes.vlines(at, lower, top, color=colour, alpha=0.35, linewidth=3)
            size = 2.6 if at.size <= 60 else 0
            label = named.get(str(name), "_")
            shown = floats(line["shown"])
            axes.plot(
                at, shown, color=colour, linestyle=stroke, linewidth=1.4, marker="o", markersize=size, label=label
            )
            if np.isfinite(shown).sum() > 1 and np.isfinite(shown).all():
                curves.append(Curve(at, shown, self.styles[str(name)]))
            if np.isfinite(theory).any():
                theory[np.isinf(theory)] = np.nan
                axes.plot(at, theory, color=colour, linewidth=0.8, linestyle=(0, (4, 2.5)), gid="theory")
            self._mark_missing(axes, at, line, str(name))
            drawn = line["shown"].where(~line["missing"], line["mark_height"]).dropna()
            levels = [*drawn[-1:], *self._draw_levels(axes, flat, str(name))]
            if levels:
                ends[str(name)] = float(levels[0])
        self.scale.set(axes.xaxis, room=0.04)
        self.heights.set(axes.yaxis, above=self.above)
        show_coinciding(axes, curves, frame_of(axes, 3.0, 2.0), 1.4)
        return ends

    def draw_along_distance(self, axes: Axes, part: pd.DataFrame) -> None:
        """Draw the medians against the mean distance between the spectra of the blocks."""
        rows = part.dropna(subset=self.x).sort_values(self.x, kind="stable")
        for name, line in rows.groupby("optimizer", sort=False):
            at, colour, stroke = floats(line["js_distance"]), self.colours[str(name)], self.styles[str(name)].stroke
            axes.plot(at, line["shown"], color=colour, linewidth=0.9, linestyle=stroke, marker="o", markersize=3)
            self._mark_missing(axes, at, line, str(name))
        largest = float(np.log(2))
        axes.axvline(largest, color="#999999", linewidth=0.8, linestyle=":", zorder=0)
        axes.set_xlim(-0.03 * largest, 1.03 * largest)
        axes.set_xticks([0, 0.2, 0.4, 0.6, largest], ["0", "0.2", "0.4", "0.6", "ln 2"])
        self.heights.set(axes.yaxis, above=self.above)

    def reach_the_end(self) -> bool:
        """Whether every line ends near the right side of its panel, where its label is."""
        last = self.table.groupby("optimizer", sort=False)[self.x].max().dropna().to_numpy(dtype=float)
        ends = self.scale.positions(np.append(self.scale.values[[0, -1]], last))
        ends = np.log10(ends) if self.scale.kind == "log" else ends
        return bool((ends[2:] - ends[0] >= 0.8 * (ends[1] - ends[0])).all())

    def _draw_levels(self, axes: Axes, flat: pd.DataFrame, name: str) -> list[float]:
        """Draw horizontal lines where x is absent, dotted and marked if not reached; returns their heights."""
        levels = []
        colour = self.colours[name]
        rows: Any = flat[flat["missing"] | flat["shown"].notna()].to_dict("records")
        for row in rows:
            level = float(row["mark_height"] if row["missing"] else row["shown"])
            axes.axhline(
                level, color=colour, linestyle=":" if row["missing"] else self.styles[name].stroke, linewidth=1.2
            )
            if row["missing"]:
                self._mark(axes, [0.5], [level], "x" if row["broken"] else "^", 4.0, name, axes.get_yaxis_transform())
            elif row["upper"] > row["lower"]:
                axes.axhspan(row["lower"], row["upper"], color=colour, alpha=0.12, linewidth=0)
            levels.append(level)
        return levels

    def _mark_missing(self, axes: Axes, at: np.ndarray, line: pd.DataFrame, name: str) -> None:
        late, diverged = line["missing"] & ~line["broken"], line["missing"] & line["broken"]
        for chosen, mark, size in ((late, "^", 4.0), (line["upper_missing"], "^", 2.6), (diverged, "x", 3.5)):
            if chosen.any():
                self._mark(axes, at[chosen], line.loc[chosen, "mark_height"], mark, size, name, axes.transData)

    def _mark(self, axes: Axes, at: Any, height: Any, mark: str, size: float, name: str, base: Any) -> None:
        """Draw marks in the row of an optimizer."""
        from matplotlib.transforms import ScaledTranslation

        points = self.spacing * self.marked.index(name) if name in self.marked else 0.0
        shift = ScaledTranslation(0, points / 72, axes.get_figure().dpi_scale_trans)  # type: ignore[union-attr]
        style: dict[str, Any] = {"markerfacecolor": "none", "markeredgewidth": 0.8, "clip_on": False}
        axes.plot(at, height, mark, color=self.colours[name], markersize=size, transform=base + shift, **style)


def _fit(texts: Sequence[Mapping[str, str]], height: float) -> bool:
    """Whether the labels of each panel fit beside it."""
    if width_of([text for labels in texts for text in labels.values()], bold=True) > MAX_LABEL_WIDTH:
        return False
    return max(sum(text.count("\n") + 1 for text in labels.values()) for labels in texts) * 0.128 <= height
