"""Facts: measured numbers that the documentation quotes, read from committed files.

A fact is a function without arguments that returns text, decorated with `fact`. Pages quote it by the role
``{fact}`name```, where name is the name of the function. The README, which is not read by Sphinx, quotes it as
``<!-- fact:name -->text<!-- /fact -->``, and ``python docs/update_readme.py`` writes the text. The facts of a group of
pages are in a module of their own, ``facts_<group>.py``, in this folder.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from quadsim.engine.table import read_csv

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "figures"
QUOTED = re.compile(r"<!-- fact:(\w+) -->(.*?)<!-- /fact -->", re.DOTALL)

FACTS: dict[str, Callable[[], str]] = {}


def fact(function: Callable[[], str]) -> Callable[[], str]:
    """Register a fact under the name of the function."""
    name = function.__name__
    if name in FACTS and FACTS[name].__module__ != function.__module__:
        raise ValueError(f"fact {name} is defined in {FACTS[name].__module__} and in {function.__module__}")
    FACTS[name] = function
    return function


def load() -> dict[str, Callable[[], str]]:
    """All facts: imports every module ``facts_*`` of this folder."""
    for file in sorted(Path(__file__).parent.glob("facts_*.py")):
        importlib.import_module(file.stem)
    return FACTS


@functools.cache
def text(name: str) -> str:
    """The text of a fact."""
    if name not in load():
        raise KeyError(f"no fact {name!r}: define it in docs/_ext/facts_<group>.py and decorate it with @fact")
    value = FACTS[name]()
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"fact {name} must return a text that is not empty, got {value!r}")
    return value


@functools.cache
def table(name: str) -> pd.DataFrame:
    """A table of figures/: ``table("cases-seed-0..99")``. Do not change it in place."""
    return read_csv(FIGURES / f"{name}.csv")


@functools.cache
def record(name: str) -> dict[str, Any]:
    """A JSON file of figures/: ``record("zhang-four-cases")``. Do not change it in place."""
    return json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))


def count(number: float) -> str:
    """A whole number with separators: 32,829."""
    return f"{round(number):,}"


def digits(number: float, significant: int = 2) -> str:
    """A number with so many significant digits, without an exponent: 0.0139, 258, 1.8."""
    shown = float(f"{number:.{significant}g}")
    return f"{shown:,.0f}" if abs(shown) >= 10 ** (significant - 1) else f"{shown:.12f}".rstrip("0").rstrip(".")


def quoted(markdown: str) -> list[tuple[str, str]]:
    """The facts that a text quotes between comments, with the quoted text."""
    return [(match[1], match[2]) for match in QUOTED.finditer(markdown)]


def requote(markdown: str) -> str:
    """The text with every fact between comments replaced by its present value."""
    return QUOTED.sub(lambda match: f"<!-- fact:{match[1]} -->{text(match[1])}<!-- /fact -->", markdown)
