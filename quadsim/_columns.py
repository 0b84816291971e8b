"""Tables as columns of plain values, written as pandas would write them: importing pandas takes longer than a run."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Column = list[Any]


class Columns(NamedTuple):
    """A table: columns of equal length by name."""

    values: dict[str, Column]

    def to_csv(self, path: str | Path, *, index: bool = False) -> None:
        """Write the bytes that ``pandas.DataFrame.to_csv`` writes; there is no index."""
        if index:
            raise ValueError("a table of columns has no index")
        texts = [_texts(column) for column in self.values.values()]
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.values)
            writer.writerows(zip(*texts, strict=True))


def from_rows(rows: Iterable[Mapping[str, Any]], whole: Iterable[str] = ()) -> Columns:
    """The table of some rows: columns in the order of their first appearance, None where a row has no value.

    Whole numbers beside missing values are written as floats, as in a DataFrame, except in the columns ``whole``.
    """
    listed, kept = list(rows), set(whole)
    names = dict.fromkeys(name for row in listed for name in row)
    columns = {name: [row.get(name) for row in listed] for name in names}
    return Columns({name: values if name in kept else _as_in_pandas(values) for name, values in columns.items()})


def _as_in_pandas(column: Column) -> Column:
    """Whole numbers as floats if one of the others is a float or missing."""
    kinds = {type(value) for value in column}
    if int in kinds and kinds & {float, type(None)} and kinds <= {int, float, type(None)}:
        return [None if value is None else float(value) for value in column]
    return column


def _texts(column: Column) -> Column:
    """The values for a CSV writer, which writes None as an empty cell and floats by repr."""
    return [None if isinstance(value, float) and math.isnan(value) else value for value in column]
