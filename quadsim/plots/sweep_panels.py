"""The panels of a sweep figure: one for each combination of values of the axes that are not drawn otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

MAX_PANELS = 60
MAX_COMBINATIONS = 2000  # beyond this the exact number of panels is not worked out

Applicable = Mapping[str, set[str]]  # for each axis, the optimizers that have it


class TooManyPanels(ValueError):
    """More panels than a figure can hold."""

    def __init__(self, count: int, axes: Sequence[str]) -> None:
        first, *others = [name for name in axes if name != "optimizer"] or ["optimizers"]
        listed = ", ".join([first, *others])
        listed = listed if len(listed) <= 60 else listed[:59] + "…"
        super().__init__(
            f"the figure would have {count:,} panels, for {listed}, and {MAX_PANELS} is the most: "
            f"select some values with {first}=…, or choose another x"
        )


def panels_of(table: pd.DataFrame, axes: Sequence[str], has: Applicable) -> list[dict[str, Any]]:
    """For each panel the values of these axes; None for an absent value.

    An optimizer without one of the settings is drawn in all panels that differ in it, and gets no panel of its own.
    """
    varied = [name for name in axes if name == "optimizer" or table[name].nunique(dropna=False) > 1]
    combinations = [
        {
            name: None if pd.isna(value) else value
            for name, value in zip(varied, values, strict=True)
            if optimizer in has[name]
        }
        for optimizer, *values in table[["optimizer", *varied]].drop_duplicates().itertuples(index=False, name=None)
    ]
    combinations = [dict(items) for items in dict.fromkeys(tuple(one.items()) for one in combinations)]
    if len(combinations) > MAX_COMBINATIONS:
        raise TooManyPanels(len(combinations), varied)
    panels = [
        one
        for one in combinations
        if len(one) == len(varied) or not any(one.items() < other.items() for other in combinations)
    ]
    if len(panels) > MAX_PANELS:
        raise TooManyPanels(len(panels), varied)
    return panels


def rows_of_panel(table: pd.DataFrame, panel: Mapping[str, Any], has: Applicable) -> pd.DataFrame:
    """The rows with the panel's values, and those of optimizers that do not have the setting."""
    chosen = np.ones(len(table), dtype=bool)
    for name, value in panel.items():
        same = table[name].isna() if value is None else table[name].eq(value)
        chosen &= same.to_numpy(dtype=bool, na_value=False) | ~table["optimizer"].isin(has[name]).to_numpy()
    return table[chosen]


def column_count(panels: int) -> int:
    return {1: 1, 2: 2, 4: 2}.get(panels, 3)
