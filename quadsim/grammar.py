"""The words of the command line: `key=value`, a verb, a few dashes. Text in, checked values out.

Nothing here runs anything, and nothing heavy is imported: `--help` must be quick.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from quadsim import checks
from quadsim.checks import InputError

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
FLAGS = ("--help", "--version", "--json")


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
        if argument.startswith("-") and "=" not in argument:
            words.flags.add("--help" if argument == "-h" else checks.choice("flag", argument, FLAGS))
        elif "=" in argument:
            key, text = argument.split("=", 1)
            owner, dot, setting = key.strip().lstrip("-").lower().partition(".")
            key = owner.replace("_", "-") + dot + setting if dot else owner
            if not key or not text.strip():
                raise InputError(f"{argument!r} is not key=value: write for example case=3")
            if key in words.keys:
                raise InputError(f"{key} is given twice: {key}={words.keys[key]} and {key}={text}")
            words.keys[key] = text.strip()
        elif not seen_verb:
            words.verb, seen_verb = checks.choice("verb", argument, verbs), True
        else:
            words.bare.append(argument)
    return words


def real(key: str, text: str) -> float:
    """A number: `5000`, `1e-6`."""
    if not NUMBER.fullmatch(text):
        raise InputError(f"{key} must be a number such as 5000 or 1e-6, got {checks.shown(text)}")
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


def blocks_of_numbers(key: str, text: str) -> list[list[float]]:
    """`1,2,3/99,100,101`: blocks parted by a slash."""
    return [[real(key, item) for item in several(key, block)] for block in several(key, text, "/")]
