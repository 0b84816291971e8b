"""Performance profiles: the share of draws on which each optimizer is within a factor of the best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadsim.plots.layout import canvas, legend_above
from quadsim.plots.style import colours_of, power_ticks, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

YLABEL = "share of draws"


def profile(
    profile: pd.DataFrame, *, title: str = "", caption: str = "", unit: str = "result", ax: Axes | None = None
) -> Figure | Axes:
    """Curves of a performance profile: share of draws against the factor behind the best.

    Curves that coincide are drawn with decreasing widths, so that each of them is visible.

    Parameters
    ----------
    profile : DataFrame
        The table of `performance_profile`.
    title, caption : str
        Written above and below the panel.
    unit : str
        What the factor is of, for the label of the axis: steps, loss.
    ax : matplotlib Axes, optional
        Axes to draw into, with a legend.

    Returns
    -------
    Figure or Axes
        The new figure, or ``ax``.

    Examples
    --------
    >>> result = qs.compare(qs.case(3), [qs.GD(), qs.BlockGD()], seed=range(6), max_steps=50)
    >>> figure = qs.plots.profile(qs.performance_profile(result), unit="loss")
    """
    labels = dict(zip(profile["optimizer"], profile["label"], strict=True))
    if ax is not None:
        _draw(ax, profile, labels, unit)
        if labels:
            ax.legend(fontsize="small", frameon=False)
        return ax
    with canvas(title=title, caption=caption, width=5.6, height=2.6, font_size=8) as (figure, (axes,)):
        _draw(axes, profile, labels, unit)
        if labels:
            legend_above(figure, labels)
    return figure


def _draw(axes: Axes, profile: pd.DataFrame, labels: dict[str, str], unit: str) -> None:
    colours = colours_of(list(labels))
    for number, (name, curve) in enumerate(profile.groupby("optimizer", sort=False)):
        style: dict[str, Any] = {"color": colours[str(name)], "linestyle": style_of(str(name)).stroke}
        width = 1.4 + 0.7 * (len(labels) - 1 - number) if len(labels) <= 4 else 1.4
        axes.step(curve["factor"], curve["share"], where="post", label=labels[str(name)], linewidth=width, **style)
    last = float(profile["factor"].max()) if len(profile) else 10.0
    axes.set(xscale="log", xlim=(1, last), ylim=(-0.03, 1.03), ylabel=YLABEL, xlabel=f"{unit} / the best {unit}")
    if last >= 100:
        power_ticks(axes, y=False)
    else:
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50) if tick <= last]
        axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
        axes.minorticks_off()
