"""The words of the command line: `key=value`, a verb, a few dashes. Text in, checked values out.

Nothing here runs anything, and nothing heavy is imported: `--help` must be quick.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from quadsim import checks
from quadsim.checks import InputError

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # all but tab and line breaks
FLAGS = ("--help", "--version", "--json", "--dry-run")


@dataclass
class Words:
    """A command line, taken apart: verb, bare words after it, keys with their texts, flags."""

    verb: str = "run"
    bare: list[str] = field(default_factory=list)
    keys: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)


def read(arguments: Iterable[str], verbs: Iterable[str]) -> Words:
    """Take the words apart; the first bare word is the verb, and no verb means `run`."""
    words = Words()
    seen_verb = False
    for argument in arguments:
        if any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise InputError(f"{checks.shown(argument)} is not UTF-8")
        if found := CONTROL.search(argument):
            raise InputError(f"{checks.shown(argument)} holds the control character {found[0]!r}: remove it")
        if argument.startswith("-") and "=" not in argument:
            words.flags.add("--help" if argument == "-h" else checks.choice("flag", argument, FLAGS))
        elif "=" in argument:
            key, text = argument.split("=", 1)
            owner, dot, setting = key.strip().lstrip("-").lower().partition(".")
            key = owner.replace("_", "-") + dot + setting if dot else owner
            if not key or not text.strip():
                raise InputError(f"{checks.shown(argument)} is not key=value: write for example case=3")
            if key in words.keys:
                values = (checks.shown(value) for value in (words.keys[key], text))
                raise InputError(f"{key} is given twice: {' and '.join(values)}")
            words.keys[key] = text.strip()
        elif not seen_verb:
            words.verb, seen_verb = checks.choice("verb", argument, verbs), True
        else:
            words.bare.append(argument)
    return words


def only(words: Words, keys: Iterable[str], example: str, *, settings: bool = False) -> dict[str, str]:
    """The keys, if the command takes all of them and there are no bare words.

    ``settings``: the command takes settings of optimizers (``adam.lr``) too, and checks them where it reads them.
    """
    if words.bare:
        raise InputError(f"{checks.shown(words.bare[0])} is not key=value: write for example {example}")
    for key in words.keys:
        if not (settings and "." in key):
            checks.choice("key", key, keys)
    return words.keys


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
    return int(text) if len(text) < 25 and text.lstrip("+-").isdigit() else int(value)  # exact, where a float is not


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
    """`v`, `v,v,…`, or N numbers from a to b, both included: `a:b:logN`, `a:b:linN`. As texts, one for each value."""
    if ":" not in text:
        return several(key, text)
    found = RANGE.fullmatch(text.strip())
    if not found:
        raise InputError(f"{key} must be a list or a range such as 1e-4:1:log9 or 0.8:1:lin5, got {checks.shown(text)}")
    first, last = real(key, found[1].strip()), real(key, found[2].strip())
    count = checks.whole(
        f"the number of values of {key}", int(found[4]) if len(found[4]) < 10 else 10**9, at_least=2, at_most=most
    )
    if first == last:
        raise InputError(f"{key}={text} is one value: write {key}={found[1]}")
    if found[3] == "log":
        checks.real(f"an end of {key}={text}", min(first, last), above=0)
        low, high = math.log(first), math.log(last)
        inner = [math.exp(low + (high - low) * k / (count - 1)) for k in range(1, count - 1)]
    else:
        inner = [first + (last - first) * (k / (count - 1)) for k in range(1, count - 1)]
    inner = [float(f"{value:.15g}") for value in inner]  # 100 and not 100.00000000000001
    return [repr(value) for value in (first, *inner, last)]


def blocks_of_numbers(key: str, text: str) -> list[list[float]]:
    """`1,2,3/99,100,101`: blocks parted by a slash."""
    return [[real(key, item) for item in several(key, block)] for block in several(key, text, "/")]


def pair(key: str, text: str) -> tuple[int, int]:
    """`2x128`."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise InputError(f"{key} must be two whole numbers such as 2x128, got {checks.shown(text)}")
    return checks.whole(key, int(parts[0]), at_least=1), checks.whole(key, int(parts[1]), at_least=1)


def seeds(key: str, text: str) -> list[int]:
    """`30` (that is 0 to 29), `10..39`, or `3,5,8`."""
    if ".." in text:
        first, _, last = text.partition("..")
        low, high = whole(key, first), whole(key, last)
        if high < low:
            raise InputError(f"{key}={text} is empty: write for example {key}={high}..{low}")
        _few(key, high - low + 1)
        return list(range(low, high + 1))
    if "," in text:
        listed = [whole(key, item) for item in several(key, text)]
        if len(set(listed)) < len(listed):
            raise InputError(f"{key}={checks.shown(text)} names a seed twice")
        return listed
    return list(range(_few(key, whole(key, text))))


def _few(key: str, count: int) -> int:
    return checks.whole(f"the number of {key}", count, at_least=1, at_most=10_000)
