"""Checksums of rows, and a record of the damage that they find."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

CHECKSUM_SIZE = 8  # bytes
MAX_ROWS_NAMED = 3  # damaged rows named in a message
STRUCT_CODES: dict[type, str] = {int: "q", float: "d"}

_Layout = tuple[bytes, struct.Struct, list[int], list[int], list[int]]  # names and types; indices by type


def _plain(value: Any) -> Any:
    """Bytes as a JSON value."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    raise TypeError(f"{type(value).__name__} cannot be stored")


_encode = json.JSONEncoder(separators=(",", ":"), default=_plain).encode  # stable across versions of Python


def checksum(values: Any) -> bytes:
    """The checksum of a value that JSON can represent."""
    return hashlib.blake2b(_encode(values).encode("ascii"), digest_size=CHECKSUM_SIZE).digest()


class RowChecksums:
    """Checksums of rows with the given columns.

    A checksum covers the key, the names and types of the values, numbers as 64-bit words and texts as UTF-8, columns in
    alphabetical order (``names``). NULLs and values equal to the default of their column are left out: a column that is
    added later has its default in all existing rows.
    """

    def __init__(self, names: Iterable[str], defaults: Mapping[str, Any]) -> None:
        self.names = sorted(names)
        self._defaults = [(index, defaults[name]) for index, name in enumerate(self.names) if name in defaults]
        self._layouts: dict[tuple[type, ...], _Layout] = {}

    def of(self, key: bytes, values: Sequence[Any]) -> bytes:
        """The checksum of a row whose values are in the order of ``names``."""
        for index, default in self._defaults:
            if values[index] == default and _is_default(values[index], default):
                values = [*values[:index], None, *values[index + 1 :]]
        types = tuple(map(type, values))
        layout = self._layouts.get(types)
        if layout is None:
            values = [_builtin(value) for value in values]
            types = tuple(map(type, values))
            layout = self._layouts[types] = self._layout(types)
        head, form, numbers, texts, blobs = layout
        packed = form.pack(*[values[index] for index in numbers])
        text = "\0".join([values[index] for index in texts]).encode("utf-8", "surrogateescape")
        blob = b"\0".join([values[index] for index in blobs])
        return hashlib.blake2b(b"\0".join((key, head, packed, text, blob)), digest_size=CHECKSUM_SIZE).digest()

    def _layout(self, types: tuple[type, ...]) -> _Layout:
        named = zip(self.names, types, strict=True)
        head = "\0".join(f"{name}:{kind.__name__}" for name, kind in named if kind is not NoneType)
        form = struct.Struct("<" + "".join(STRUCT_CODES.get(kind, "") for kind in types))
        numbers, texts, blobs = (
            [index for index, kind in enumerate(types) if kind in kinds] for kinds in (STRUCT_CODES, (str,), (bytes,))
        )
        return head.encode("utf-8", "surrogateescape"), form, numbers, texts, blobs


def _is_default(value: Any, default: Any) -> bool:
    """Whether an equal value is the column's default bit for bit; SQLite returns the default 0.0 as the integer 0."""
    if type(value) is type(default):
        return repr(value) == repr(default)  # -0.0 equals 0.0
    return type(value) is int and type(default) is float


def _builtin(value: Any) -> Any:
    """A value of the type in which SQLite returns it: np.float64 is a subclass of float."""
    kind: Any
    for kind in (float, int, str, bytes):
        if isinstance(value, kind):
            return kind(value)
    return None if value is None else _plain(value)


@dataclass
class Damage:
    """What is wrong with a store."""

    rows: list[str] = field(default_factory=list)  # rows that fail their checksum, by key or rowid
    missing: int = 0  # committed rows that are not in the table
    lists: list[str] = field(default_factory=list)  # other damage, as phrases

    def __bool__(self) -> bool:
        return bool(self.rows or self.missing or self.lists)

    def sentence(self) -> str:
        parts = []
        if self.rows:
            named = ", ".join(self.rows[:MAX_ROWS_NAMED]) + (", …" if len(self.rows) > MAX_ROWS_NAMED else "")
            parts.append(f"{len(self.rows):,} damaged row{'s' * (len(self.rows) > 1)} ({named})")
        if self.missing:
            parts.append(f"{self.missing:,} row{'s' * (self.missing > 1)} missing")
        return "; ".join([*parts, *self.lists])

    def facts(self) -> dict[str, Any]:
        """The damage as plain values."""
        return {"damaged": self.rows, "missing": self.missing, "other": self.lists}
