"""Rows of a store as a pandas table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from quadsim.sweeps.store.text import printable

DTYPES = {"null": "float64", "integer": "Int64", "real": "float64", "text": "object"}  # each can hold those before it


def table(names: list[str], batches: Iterable[list[tuple]]) -> pd.DataFrame:
    """A table of these columns; control and invisible characters in texts are escaped."""
    parts: dict[str, list[tuple[str, Any]]] = {name: [] for name in names}
    for batch in batches:
        for name, values in zip(names, zip(*batch, strict=True), strict=True):
            parts[name].append(_column(values))
    return pd.DataFrame({name: _concatenated(pieces) for name, pieces in parts.items()}, columns=names)


def _column(values: tuple[Any, ...]) -> tuple[str, Any]:
    """The type of some values, and the values as a column."""
    types = {type(value) for value in values} - {type(None)}
    kind = "text" if types - {int, float} else "real" if float in types else "integer" if types else "null"
    if kind == "text":
        values = tuple(printable(value) if isinstance(value, str) else value for value in values)
    return kind, pd.Series(values, dtype=DTYPES[kind])


def _concatenated(parts: list[tuple[str, Any]]) -> pd.Series:
    """Parts of one column, with the most general of their types."""
    kind = max((kind for kind, _ in parts), key=list(DTYPES).index, default="null")
    pieces = [piece.astype(DTYPES[kind]) for _, piece in parts]
    if kind == "text":
        pieces = [piece.where(piece.notna(), None) for piece in pieces]
    return pd.concat(pieces, ignore_index=True) if pieces else pd.Series(dtype=DTYPES[kind])
