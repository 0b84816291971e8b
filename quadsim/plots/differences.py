"""Paired differences to the reference: a dot for each seed, median and interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim._format import power_of_ten
from quadsim._quantiles import quantile
from quadsim.plots.layout import GREY
from quadsim.plots.sensitivity import OBJECTIVE_LABELS
from quadsim.plots.style import Style
from quadsim.plots.text import fitted, width_of, wrapped

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MAX_DECADES = 24.0  # differences beyond these are marked at the edge
MAX_ROWS_OF_TWO_LINES = 4
PANEL_WIDTH = 2.0  # inches, for texts in the panel
RATIOS = (
    (0.1, 0.3, 1, 3, 10),
    (0.25, 0.5, 1, 2, 4),
    (0.5, 0.7, 1, 1.4, 2),
    (0.8, 0.9, 1, 1.1, 1.25),
    (0.9, 0.95, 1, 1.05, 1.1),
)


def draw_differences(
    axes: Axes, summary: pd.DataFrame, runs: pd.DataFrame, styles: Mapping[str, Style], objective: str
) -> None:
    """A row for each optimizer except the reference: a dot for each seed, median and interval, the verdict as text."""
    others = summary[summary["against"].notna()]
    reference = "".join(summary.loc[summary["against"].isna(), "label"].head(1))
    title = OBJECTIVE_LABELS[objective][1].format(fitted(reference, 1.2, 8))
    axes.set_title("\n".join(wrapped(title, PANEL_WIDTH, 8)), fontsize=8)
    axes.spines["left"].set_visible(False)
    axes.tick_params(labelsize=7)
    axes.set_yticks([])
    failed = not np.isfinite(runs["score"].to_numpy(dtype=float)).any()
    if others.empty or failed:
        text = "nothing to compare with" if others.empty else "no run has a result"
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", color=GREY)
        axes.set_xticks([])
        return
    values = [runs.loc[runs["optimizer"] == name, "difference"].dropna().to_numpy() for name in others["optimizer"]]
    low, high = _range_of_differences(others, values)
    axes.axvline(0, color=GREY, linewidth=0.9, zorder=0)
    jitter = np.random.default_rng(0)
    white: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
    for number, (row, at) in enumerate(zip(others.to_dict("records"), values, strict=True)):
        colour = styles[row["optimizer"]].colour
        heights = -number + 0.02 + 0.12 * jitter.uniform(-1, 1, at.size)
        inside = (at > low) & (at < high)
        axes.plot(at[inside], heights[inside], "o", color=colour, markersize=2.2, alpha=0.45, markeredgewidth=0)
        for beyond, edge, mark in ((at <= low, low, "<"), (at >= high, high, ">")):
            if beyond.any():  # an empty line that is not clipped would count as a point at the origin
                at_edge: dict[str, Any] = {"markersize": 3, "alpha": 0.6, "clip_on": False, "gid": "beyond"}
                axes.plot(np.full(beyond.sum(), edge), heights[beyond], mark, color=colour, **at_edge)
        ends = np.clip([row["low"], row["high"]], low, high)
        axes.plot(ends, [-number - 0.2] * 2, color=colour, linewidth=2.2, solid_capstyle="butt")
        axes.plot(np.clip(row["difference"], low, high), -number - 0.2, "D", color=colour, markersize=4)
        style: dict[str, Any] = {"color": colour, "fontweight": "bold", "fontsize": 7.5, "va": "center", "bbox": white}
        known = f": {row['verdict']}"
        verdict = row["label"] + known
        if width_of([verdict], 7.5, bold=True) > PANEL_WIDTH:
            two_lines = len(others) <= MAX_ROWS_OF_TWO_LINES
            known = f":\n{row['verdict']}" if two_lines else known
            room = PANEL_WIDTH - (0.1 if two_lines else width_of([known], 7.5, bold=True))
            verdict = fitted(row["label"], room, 7.5, bold=True) + known
        axes.text(0.0, -number + 0.3, verdict, transform=axes.get_yaxis_transform(), **style)
    axes.set(xlim=(low, high), ylim=(0.7 - 1.05 * len(others), 0.55))
    if objective == "mean-log-loss":
        axes.set_xlabel("decades")
    else:
        ratio_ticks(axes, low, high)
    for text, offset, side in (("better", -4, "right"), ("worse", 4, "left")):
        beside: dict[str, Any] = {"xytext": (offset, 3), "textcoords": "offset points", "ha": side}
        axes.annotate(text, (0, 0), xycoords=("data", "axes fraction"), fontsize=6.5, color=GREY, **beside)


def _range_of_differences(others: pd.DataFrame, values: list[np.ndarray]) -> tuple[float, float]:
    """The range of the intervals and of nine in ten dots: a few outliers would flatten the rest."""
    reach = [0.0, *others["low"], *others["high"]]
    for known in values:
        reach += [float(quantile(known, share, "nearest")) for share in (0.05, 0.95) if known.size]
    reach = [float(value) for value in reach if np.isfinite(value)]
    low, high = max(min(reach), -MAX_DECADES), min(max(reach), MAX_DECADES)
    room = max(0.08 * (high - low), 0.02)
    return min(low - room, -3 * room), max(high + room, 3 * room)  # both sides of 0 can be seen


def ratio_ticks(axes: Axes, low: float, high: float) -> None:
    """Label the ticks of an axis in decades with ratios."""
    if high - low >= 1.5:
        step = int(np.ceil((high - low) / 4))
        ticks = np.arange(step * np.ceil(low / step), high + 1e-9, step)
        names = ["1" if k == 0 else power_of_ten(int(k)) for k in ticks]
    else:
        visible = [[ratio for ratio in ratios if low <= np.log10(ratio) <= high] for ratios in RATIOS]
        chosen = next((ratios for ratios in visible if len(ratios) >= 3), visible[-1])
        ticks, names = np.log10(chosen), [f"{ratio:g}" for ratio in chosen]
    axes.set_xticks(ticks, names)
