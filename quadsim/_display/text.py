"""Parts of a repr: calls that can be evaluated, names, numbers, counts. ASCII, so that any console can print them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields
from typing import Any

from quadsim._validation import one_line

MAX_NAME = 40  # characters of a name
MAX_LENGTH = 300  # characters of a repr
MAX_VALUES = 6  # of a tuple
LN_10 = math.log(10)


def call(item: Any, values: dict[str, Any] | None = None, *, positional: str = "") -> str:
    """The call that makes this record, with the settings that differ from their defaults: Adam(lr=0.1, beta2=0.99).

    It can be evaluated, but for a tuple of more than `MAX_VALUES` numbers, which is shortened by three dots.
    """
    values = changed(item) if values is None else values
    parts = [value(given) if name == positional else f"{name}={value(given)}" for name, given in values.items()]
    return f"{type(item).__name__}({', '.join(parts)})"


def changed(item: Any) -> dict[str, Any]:
    """The fields of a record that differ from their defaults, or have none."""
    values = {one.name: getattr(item, one.name) for one in fields(item) if one.init and one.repr}
    defaults = {one.name: one.default for one in fields(item)}
    return {
        name: given for name, given in values.items() if defaults[name] is MISSING or not _same(given, defaults[name])
    }


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and repr(value) == repr(default))


def value(given: Any) -> str:
    """A setting as Python text; of a long tuple only the first and the last numbers."""
    if isinstance(given, tuple) and len(given) > MAX_VALUES:
        parts = [*map(repr, given[:3]), "...", repr(given[-1])]
        return f"({', '.join(parts)})"
    return repr(given)


def name(given: object) -> str:
    """A name in quotes, on one line and shortened."""
    return repr(one_line(str(given), MAX_NAME))


def number(given: float | None) -> str:
    """Four significant digits; "none" for None."""
    return "none" if given is None else f"{given:.4g}"


def rate(lr: Any) -> str:
    """A learning rate, or the range of those of the blocks."""
    if not isinstance(lr, tuple):
        return number(lr)
    return f"{number(min(lr))} to {number(max(lr))}, by block" if min(lr) < max(lr) else number(lr[0])


def setting(given: object) -> str:
    """A number in four significant digits, any other setting as it is written."""
    return number(given) if isinstance(given, float) else rate(given) if isinstance(given, tuple) else str(given)


def from_log(log: float) -> str:
    """The number with this natural logarithm, in three digits; also outside float64's range."""
    if not math.isfinite(log) or abs(log) < 690:
        return f"{math.exp(log) if log < math.inf else log:.3g}"
    exponent = math.floor(log / LN_10)
    return f"{10 ** (log / LN_10 - exponent):.2f}e{exponent:+d}"


def listed(items: Iterable[object], at_most: int = 3) -> str:
    """The first names, and how many more: gd, adam, lion and 4 more."""
    names = [one_line(str(item), MAX_NAME) for item in items]
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more


def span(numbers: Sequence[int]) -> str:
    """Whole numbers: 7, 0..29, or 3, 5, 9 and 4 more."""
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}..{numbers[-1]}"
    return listed(numbers)


def sizes(given: Sequence[int]) -> str:
    """The sizes of blocks: 3, or 1 to 9."""
    return f"{min(given)} to {max(given)}" if min(given) < max(given) else str(given[0])


def lines(first: str, rows: Iterable[str]) -> str:
    """A first line and as many others as fit into `MAX_LENGTH`, with the number of those left out."""
    listed = list(rows)
    for count in range(len(listed), -1, -1):
        more = [f"  and {len(listed) - count} more"] if count < len(listed) else []
        text = "\n".join(["<" + first, *(f"  {row}" for row in listed[:count]), *more]) + ">"
        if len(text) <= MAX_LENGTH or count == 0:
            return text
    raise AssertionError
