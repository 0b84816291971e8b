"""Text to values: numbers, flags, lists and ranges in the syntax of the command line."""

from __future__ import annotations

import math
import re

from quadsim import _validation as checks
from quadsim._validation import InputError

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def real(key: str, text: str) -> float:
    """A number: `5000`, `1e-6`."""
    if not NUMBER.fullmatch(text):
        raise InputError(f"{key} must be a number such as 5000 or 1e-6, got {checks.shown(text)}")
    if float(text) == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        raise InputError(f"{key} must be a number that float64 can hold, got {checks.shown(text)}")
    return checks.real(key, float(text))


def whole(key: str, text: str) -> int:
    """A whole number: `100000`, `1e5`."""
    value = real(key, text)
    if value != int(value):
        raise InputError(f"{key} must be a whole number, got {checks.shown(text)}")
    return (
        int(text) if len(text) < 25 and text.lstrip("+-").isdigit() else int(value)
    )  # exact: a float rounds large ones


def flag(key: str, text: str) -> bool:
    """`true` or `false`."""
    return checks.choice(key, text.lower(), ("true", "false")) == "true"


def several(key: str, text: str, separator: str = ",") -> list[str]:
    """`a,b,c`."""
    items = [item.strip() for item in text.split(separator)]
    if not all(items):
        raise InputError(f"{key} has an empty item in {checks.shown(text)}: write for example {key}=a{separator}b")
    return items


RANGE = re.compile(r"([^:]*):([^:]*):(log|lin)([0-9]+)")


def alternatives(key: str, text: str, most: int = 1000) -> list[str]:
    """The texts of the values of `v`, `v,v,…`, or of N numbers from a to b, both included: `a:b:logN`, `a:b:linN`."""
    if ":" not in text:
        return several(key, text)
    match = RANGE.fullmatch(text.strip())
    if not match:
        raise InputError(f"{key} must be a list or a range such as 1e-4:1:log9 or 0.8:1:lin5, got {checks.shown(text)}")
    first, last = real(key, match[1].strip()), real(key, match[2].strip())
    count = int(match[4]) if len(match[4]) < 10 else 10**9
    checks.whole(f"the number of values of {key}", count, at_least=2, at_most=most)
    if first == last:
        raise InputError(f"{key}={text} is one value: write {key}={match[1]}")
    if match[3] == "log":
        checks.real(f"an end of {key}={text}", min(first, last), above=0)
        low, high = math.log(first), math.log(last)
        inner = [math.exp(low + (high - low) * k / (count - 1)) for k in range(1, count - 1)]
    else:
        inner = [first + (last - first) * (k / (count - 1)) for k in range(1, count - 1)]
    inner = [float(f"{value:.15g}") for value in inner]  # 100 and not 100.00000000000001
    return [repr(value) for value in (first, *inner, last)]


def blocks_of_numbers(key: str, text: str) -> list[list[float]]:
    """`1,2,3/99,100,101`: blocks separated by a slash."""
    return [[real(key, item) for item in several(key, block)] for block in several(key, text, "/")]


def pair(key: str, text: str) -> tuple[int, int]:
    """`2x128`."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise InputError(f"{key} must be two whole numbers such as 2x128, got {checks.shown(text)}")
    return checks.whole(key, int(parts[0]), at_least=1), checks.whole(key, int(parts[1]), at_least=1)


def whole_range(key: str, text: str, most: int) -> range:
    """`i..j`, both included."""
    first, _, last = text.partition("..")
    if not first.strip() or not last.strip():
        raise InputError(f"{key}={text} has one end: write for example {key}=0..9")
    low, high = whole(key, first), whole(key, last)
    if high < low:
        raise InputError(f"{key}={text} is empty: write for example {key}={high}..{low}")
    checks.whole(f"the number of values of {key}", high - low + 1, at_least=1, at_most=most)
    return range(low, high + 1)
