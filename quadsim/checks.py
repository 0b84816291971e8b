"""What counts as a valid argument, and the one sentence that says so.

Every error names the value that was given and what is allowed. Nothing here knows what the arguments are for.
"""

from __future__ import annotations

import difflib
import math
import numbers
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


LONGEST = 200  # characters of an error on the command line, with what stands before it
PREFIX = "quadsim: "
LONGEST_WORD = 60  # of a message that is too long


class InputError(ValueError):
    """A value that is not allowed; the message is one printable line of at most 200 characters on the command line."""

    def __init__(self, sentence: object = "") -> None:
        super().__init__(one_line(str(sentence)))


class InputTypeError(InputError, TypeError):
    """A value of the wrong kind."""


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
    bounds = {"above": above, "at least": at_least, "below": below, "at most": at_most}
    wanted = " and ".join(f"{word} {bound:g}" for word, bound in bounds.items() if bound is not None)
    sentence = f"{name} must be a finite number{' ' + wanted if wanted else ''}, got {shown(value)}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputTypeError(sentence)
    try:
        number = float(value)
    except OverflowError:
        raise InputError(sentence) from None
    inside = (
        (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (below is None or number < below)
        and (at_most is None or number <= at_most)
    )
    if not math.isfinite(number) or not inside:
        raise InputError(sentence)
    return number


def whole(name: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """`value` as an int, if it is a whole number within the bounds."""
    wanted = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
    sentence = f"{name} must be a whole number {wanted}, got {shown(value)}"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputTypeError(sentence)
    number = int(value)
    if number < at_least or (at_most is not None and number > at_most):
        raise InputError(sentence)
    return number


def steps(name: str, value: Any, *, at_most: int) -> np.ndarray:
    """`value` as an array of int64, if it is a whole number of at least 0, or a list of some."""
    import numpy as np

    sentence = f"{name} must be whole numbers from 0 to {at_most}"
    if isinstance(value, np.ndarray) and value.ndim <= 1 and value.dtype.kind in "iu":
        value = np.atleast_1d(value)
        looked_at = [value.min(), value.max()] if value.size else []  # which are as good as all of them
    else:
        value = [value] if isinstance(value, str | bytes) or not isinstance(value, Iterable) else list(value)
        looked_at = value
    for item in looked_at:
        plain = item.item() if isinstance(item, np.generic) else item  # numpy's own whole numbers are welcome
        if isinstance(plain, bool) or not isinstance(plain, int) or not 0 <= plain <= at_most:
            raise InputError(f"{sentence}, got {shown(plain)}")
    if len(value) == 0:
        raise InputError(f"{sentence}, at least one, got none")
    return np.array(value, dtype=np.int64)


def flag(name: str, value: Any) -> bool:
    """`value`, if it is True or False."""
    if isinstance(value, bool) or type(value).__name__ == "bool":  # numpy's own is called bool too
        return bool(value)
    raise InputTypeError(f"{name} must be True or False, got {shown(value)}")


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """`value`, if it is one of the allowed words; the nearest one is suggested otherwise."""
    words = list(allowed)
    if isinstance(value, str) and value in words:
        return value
    near = difflib.get_close_matches(str(value), words, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise InputError(f"unknown {name} {shown(value)}: {hint}allowed are {', '.join(words)}")


def vector(name: str, value: Any, size: int) -> np.ndarray:
    """`value` as a new float64 array of shape (size,), if every entry is finite."""
    import numpy as np

    array = numbers_of(f"{name} must be {size} numbers", value)
    if array.shape != (size,):
        raise InputError(f"{name} must have shape ({size},), got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, got {array[~np.isfinite(array)][0]} in it")
    return array


def numbers_of(sentence: str, value: Any) -> np.ndarray:
    """`value` as a new float64 array, if it holds real numbers and nothing else; the sentence is the complaint."""
    import numpy as np

    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "iuf" or np.ma.is_masked(value):
        raise InputTypeError(f"{sentence}, got {shown(value)}")
    return np.array(array, dtype=np.float64)


def shown(value: Any) -> str:
    """`value` as it stands in an error: on one line, and not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def one_line(text: str, at_most: int = LONGEST - len(PREFIX)) -> str:
    """The text on one line, cut to so many characters; control characters and other unprintable ones are escaped.

    Long words are shortened first, so that what follows them stays readable.
    """
    line = printable(" ".join(text.split()))
    if len(line) > at_most:
        half = LONGEST_WORD // 2 - 1
        line = re.sub(rf"\S{{{LONGEST_WORD + 1},}}", lambda found: f"{found[0][:half]}…{found[0][-half:]}", line)
    return line if len(line) <= at_most else line[: at_most - 1].rstrip() + "…"


def printable(text: str) -> str:
    """The text with unprintable characters (escape sequences, surrogates, text direction) written as escapes."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
