"""Checksums of rows, and the damage that they find."""

from __future__ import annotations

import hashlib
import json
import operator
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

SIZE = 8  # bytes
MOST_NAMED = 3  # damaged rows that a sentence names


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    raise TypeError(f"{type(value).__name__} cannot be stored")


_encode = json.JSONEncoder(separators=(",", ":"), default=_plain).encode  # stable across versions of Python


def checksum(values: Any) -> bytes:
    """The checksum of plain values."""
    return hashlib.blake2b(_encode(values).encode("ascii"), digest_size=SIZE).digest()


class RowSums:
    """Checksums of rows that have these columns.

    What is hashed is the key, the names and types of the values that a row has, its numbers as 64-bit words and its
    texts as UTF-8, columns in alphabetical order. Absent values have no part in it, and neither have those that equal
    the default of their column: columns are added later, and the rows that are there then have the default.
    """

    def __init__(self, names: Sequence[str], defaults: Mapping[str, Any]) -> None:
        self.names = sorted(names)
        places = {name: place for place, name in enumerate(names)}
        self._order = [places[name] for name in self.names]
        self._defaults = [(place, defaults[name]) for place, name in enumerate(self.names) if name in defaults]
        self._layouts: dict[tuple[type, ...], tuple[bytes, Any, struct.Struct, Any]] = {}

    def of(self, key: bytes, values: Sequence[Any]) -> bytes:
        """The checksum of a row whose values are in the order of the names that were given."""
        return self.of_sorted(key, [values[place] for place in self._order])

    def of_sorted(self, key: bytes, values: Sequence[Any]) -> bytes:
        """The same for values in alphabetical order."""
        for place, default in self._defaults:
            if values[place] == default and _is_default(values[place], default):
                values = [*values[:place], None, *values[place + 1 :]]
        types = tuple(map(type, values))
        layout = self._layouts.get(types)
        if layout is None:
            values = [_builtin(value) for value in values]
            types = tuple(map(type, values))
            layout = self._layouts[types] = self._layout(types)
        head, numbers, form, texts = layout
        packed = form.pack(*numbers(values)) if numbers is not None else b""
        joined = "\0".join(texts(values)).encode("utf-8", "surrogateescape") if texts is not None else b""
        rest = b"\0".join(value for value in values if isinstance(value, bytes)) if bytes in types else b""
        return hashlib.blake2b(b"\0".join((key, head, packed, joined, rest)), digest_size=SIZE).digest()

    def _layout(self, types: tuple[type, ...]) -> tuple[bytes, Any, struct.Struct, Any]:
        there = [place for place, kind in enumerate(types) if kind is not NoneType]
        head = "\0".join(f"{self.names[place]}:{types[place].__name__}" for place in there)
        numbers = [place for place in there if types[place] in FORMS]
        texts = [place for place in there if types[place] is str]
        form = struct.Struct("<" + "".join(FORMS[types[place]] for place in numbers))
        return head.encode("utf-8", "surrogateescape"), _getter(numbers), form, _getter(texts)


def _is_default(value: Any, default: Any) -> bool:
    """Whether an equal value is a column's default to the bit; SQLite gives the default 0.0 as the whole number 0."""
    if type(value) is type(default):
        return repr(value) == repr(default)  # -0.0 equals 0.0
    return type(value) is int and type(default) is float


FORMS = {int: "q", float: "d"}


def _getter(places: list[int]) -> Any:
    """What takes the values at these places, as a tuple; None for no place."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    return (lambda values: (values[places[0]],)) if places else None


def _builtin(value: Any) -> Any:
    """A value as SQLite gives it back: numpy's float64 is a float."""
    kind: Any
    for kind in (float, int, str, bytes):
        if isinstance(value, kind):
            return kind(value)
    return None if value is None else _plain(value)


@dataclass
class Damage:
    """What is wrong with a store, as far as it can be read at all."""

    rows: list[str] = field(default_factory=list)  # that fail their checksum, by key or number
    missing: int = 0  # rows that were committed and are gone
    lists: list[str] = field(default_factory=list)  # what else is damaged

    def __bool__(self) -> bool:
        return bool(self.rows or self.missing or self.lists)

    def sentence(self) -> str:
        parts = []
        if self.rows:
            named = ", ".join(self.rows[:MOST_NAMED]) + (", …" if len(self.rows) > MOST_NAMED else "")
            parts.append(f"{len(self.rows):,} damaged row{'s' * (len(self.rows) > 1)} ({named})")
        if self.missing:
            parts.append(f"{self.missing:,} row{'s' * (self.missing > 1)} missing")
        return "; ".join([*parts, *self.lists])

    def facts(self) -> dict[str, Any]:
        """The damage as plain values."""
        return {"damaged": self.rows, "missing": self.missing, "other": self.lists}
