"""Performance profiles: the share of draws on which each optimizer is within a factor of the best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.plots import inputs
from quadsim.plots.curve_drawing import Curve, draw_curves, frame_of
from quadsim.plots.given_axes import add_legend, given
from quadsim.plots.layout import canvas, legend_above
from quadsim.plots.style import power_ticks, styles_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

YLABEL = "share of draws"
COLUMNS = ("optimizer", "label", "factor", "share")
MIN_FACTOR = 2.0  # at the right end of the axis, if all are as good as the best
PANEL = (4.9, 2.7)  # inches, about


def profile(
    profile: Any, *, title: str = "", caption: str = "", unit: str = "", ax: Axes | None = None
) -> Figure | Axes:
    """Curves of a performance profile: share of draws against the factor behind the best.

    Curves that coincide are drawn as dashes in turn.

    Parameters
    ----------
    profile : Comparison, a list of them, or DataFrame
        A comparison, one for each problem, or the table of `performance_profile`.
    title, caption : str
        Written above and below the panel.
    unit : str
        What the factor is of, for the label of the axis; by default steps or loss for comparisons, otherwise result.
    ax : matplotlib Axes, optional
        Axes to draw into, with a legend.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> result = qs.compare(qs.case(3), [qs.GD(), qs.BlockGD()], seed=range(6), max_steps=50)
    >>> figure = qs.plots.profile(result)
    """
    profile, unit = _table(profile, unit)
    labels = dict(zip(profile["optimizer"], profile["label"], strict=True))
    if ax is not None:
        with given(ax, title) as axes:
            _draw(axes, profile, labels, unit)
            add_legend(axes)
        return axes
    with canvas(title=title, caption=caption, width=5.6, height=2.6, font_size=8) as (figure, (axes,)):
        _draw(axes, profile, labels, unit)
        if labels:
            legend_above(figure, labels)
    return figure


def _table(given: Any, unit: str) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    expected = "a comparison (qs.compare), a list of comparisons, or the table of qs.performance_profile"
    if not isinstance(given, pd.DataFrame):
        first, *others = inputs.comparisons(given, ("profile", "protocol"), "profile")
        unit = unit or ("steps" if first.protocol.objective == "steps-to-tol" else "loss")
        given = first.profile(*others)
    return inputs.table(given, COLUMNS, function="profile", expected=expected), unit or "result"


def _draw(axes: Axes, profile: pd.DataFrame, labels: dict[str, str], unit: str) -> None:
    styles = styles_of(list(labels))
    last = max(float(profile["factor"].max()), MIN_FACTOR) if len(profile) else 10.0
    axes.set(xscale="log", xlim=(1, last), ylim=(-0.03, 1.03), ylabel=YLABEL, xlabel=f"{unit} / the best {unit}")
    curves = {}
    for name, rows in profile.groupby("optimizer", sort=False):
        factor, share = (rows[key].to_numpy(dtype=float) for key in ("factor", "share"))
        corners = np.append(np.repeat(factor, 2)[1:], last), np.repeat(share, 2)
        curves[str(name)] = Curve(*corners, styles[str(name)])
    lines = draw_curves(axes, list(curves.values()), frame_of(axes, *PANEL), 1.4)
    for name, line in zip(curves, lines, strict=True):
        line.set_label(labels[name])
    if last >= 100:
        power_ticks(axes, y=False)
    else:
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50) if tick <= last]
        axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
        axes.minorticks_off()
