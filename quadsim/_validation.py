"""Checks of arguments. Every error names the value that was given and what is allowed."""

from __future__ import annotations

import difflib
import math
import numbers
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


MAX_MESSAGE_LENGTH = 200  # characters of an error on the command line, with PREFIX
PREFIX = "quadsim: "
MAX_WORD_LENGTH = 60  # longer words of a message that is too long are shortened


class InputError(ValueError):
    """A value that is not allowed; the message is one printable line of at most 200 characters on the command line."""

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(str(message)))


class InputTypeError(InputError, TypeError):
    """A value of the wrong type."""


def real(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """`value` as a float, if it is a finite number within the bounds."""
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        number = float(value) if is_real else math.nan
    except OverflowError:
        number = math.nan
    if (
        math.isfinite(number)
        and (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (below is None or number < below)
        and (at_most is None or number <= at_most)
    ):
        return number
    bounds = {"above": above, "at least": at_least, "below": below, "at most": at_most}
    allowed = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
    message = f"{name} must be a finite number{' ' + allowed if allowed else ''}, got {shown(value)}"
    raise InputError(message) if is_real else InputTypeError(message)


def whole(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """`value` as an int, if it is a whole number within the bounds."""
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if is_whole and at_least <= value and (at_most is None or value <= at_most):
        return int(value)
    allowed = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
    message = f"{name} must be a whole number {allowed}, got {shown(value)}"
    raise InputError(message) if is_whole else InputTypeError(message)


def steps(name: str, value: Any, *, at_most: int) -> np.ndarray:
    """`value` as an array of int64, if it is a whole number of at least 0, or a list of some."""
    import numpy as np

    message = f"{name} must be whole numbers from 0 to {at_most}"
    if isinstance(value, np.ndarray) and value.ndim <= 1 and value.dtype.kind in "iu":
        value = np.atleast_1d(value)
        checked = [value.min(), value.max()] if value.size else []  # all others lie between them
    else:
        value = [value] if isinstance(value, str | bytes) or not isinstance(value, Iterable) else list(value)
        checked = value
    for item in checked:
        plain = item.item() if isinstance(item, np.generic) else item  # numpy integers are accepted
        if isinstance(plain, bool) or not isinstance(plain, int) or not 0 <= plain <= at_most:
            raise InputError(f"{message}, got {shown(plain)}")
    if len(value) == 0:
        raise InputError(f"{message}, at least one, got none")
    return np.array(value, dtype=np.int64)


def flag(name: str, value: Any) -> bool:
    """`value`, if it is True or False."""
    if isinstance(value, bool) or type(value).__name__ == "bool":  # np.bool's name is bool too
        return bool(value)
    raise InputTypeError(f"{name} must be True or False, got {shown(value)}")


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """`value`, if it is one of the allowed strings; the error suggests the closest one."""
    options = list(allowed)
    if isinstance(value, str) and value in options:
        return value
    close = difflib.get_close_matches(str(value), options, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise InputError(f"unknown {name} {shown(value)}: {hint}allowed are {', '.join(options)}")


def vector(name: str, value: Any, size: int) -> np.ndarray:
    """`value` as a new float64 array of shape (size,), if every entry is finite."""
    import numpy as np

    array = numbers_of(f"{name} must be {size} numbers", value)
    if array.shape != (size,):
        raise InputError(f"{name} must have shape ({size},), got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, got {array[~np.isfinite(array)][0]} in it")
    return array


def numbers_of(message: str, value: Any) -> np.ndarray:
    """`value` as a new float64 array, if it holds only real numbers; errors begin with ``message``."""
    import numpy as np

    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iuf" or np.ma.is_masked(value):
        raise InputTypeError(f"{message}, got {shown(value)}")
    return np.array(array, dtype=np.float64)


def shown(value: Any) -> str:
    """`value` in an error message: on one line, and cut to 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def one_line(text: str, at_most: int = MAX_MESSAGE_LENGTH - len(PREFIX)) -> str:
    """The text on one line of at most ``at_most`` characters, with unprintable characters escaped.

    Long words are shortened first, so that the words after them remain.
    """
    line = printable(" ".join(text.split()))
    if len(line) > at_most:
        half = MAX_WORD_LENGTH // 2 - 1
        line = re.sub(rf"\S{{{MAX_WORD_LENGTH + 1},}}", lambda match: f"{match[0][:half]}…{match[0][-half:]}", line)
    return line if len(line) <= at_most else line[: at_most - 1].rstrip() + "…"


def printable(text: str) -> str:
    """The text with unprintable characters (escape sequences, surrogates, text direction) written as escapes."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
