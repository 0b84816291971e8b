"""Axes that a user gives: checked, drawn into without changing global settings, and their legend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quadsim._validation import InputError, InputTypeError, shown
from quadsim.plots.layout import canvas
from quadsim.plots.text import evenly_wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIMIT = 0.9  # the share of an axes' width that its title may have


def check(ax: Any) -> Axes:
    """`ax`, if it is one set of two-dimensional axes with straight scales."""
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        if hasattr(ax, "subplots"):
            raise InputTypeError("ax must be axes of matplotlib, got a figure: give ax=figure.subplots()")
        if hasattr(ax, "__len__") and not isinstance(ax, str):
            raise InputTypeError(f"ax must be one set of axes, got {len(ax)} of them: give one, such as ax=axes[0]")
        raise InputTypeError(f"ax must be axes of matplotlib, such as those of plt.subplots(), got {shown(ax)}")
    if ax.name != "rectilinear":
        kind = "3-D" if ax.name == "3d" else ax.name
        raise InputError(
            f"ax must be two-dimensional with straight axes, got {kind} axes: give those of plt.subplots()"
        )
    if ax.get_figure() is None:
        raise InputError("ax was removed from its figure: give axes that are part of one")
    return ax


def refuse(ax: Any, panels: int, what: str, advice: str) -> None:
    """Raise if axes are given for a figure of several panels."""
    if ax is not None:
        check(ax)
        if panels != 1:
            raise InputError(f"ax holds one panel, and this figure has {panels}, one for each {what}: {advice}")


@contextmanager
def one_panel(ax: Any, *, title: str = "", caption: str = "", **options: Any) -> Iterator[tuple[Any, Axes]]:
    """A figure with one panel (`canvas` takes the options), or the given axes and their figure.

    On given axes the title becomes theirs, and the caption is left out.
    """
    if ax is None:
        with canvas(title=title, caption=caption, **options) as (figure, (axes,)):
            yield figure, axes
        return
    with given(ax, title) as axes:
        yield axes.get_figure(), axes


@contextmanager
def given(ax: Any, title: str = "") -> Iterator[Axes]:
    """The given axes; names in them may contain dollar signs."""
    import matplotlib

    axes = check(ax)
    with matplotlib.rc_context({"text.parse_math": False}):
        yield axes
        for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
            text.set_parse_math(False)
    if title:
        inches = axes.get_window_extent().width / axes.get_figure().dpi  # type: ignore[union-attr]
        size = float(axes.title.get_fontsize())
        lines = [part for line in title.splitlines() for part in evenly_wrapped(line, LIMIT * inches, size)]
        axes.set_title("\n".join(lines))


def add_legend(axes: Axes) -> None:
    """A legend of all labelled curves, if there are several labels; calls on the same axes share it."""
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(reversed(labels), reversed(handles), strict=True))
    if len(unique) > 1:
        names = list(dict.fromkeys(labels))
        legend = axes.legend([unique[name] for name in names], names, fontsize="small", framealpha=0.8)
        for text in legend.get_texts():
            text.set_parse_math(False)


def union(limits: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Limits of a log axis that contain both; those of an axis that was linear may be below zero."""
    positive = [end for end in (*limits, *other) if end > 0]
    return min(positive), max(positive)
