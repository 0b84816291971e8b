"""Random streams, each named by what it draws and not by what uses it.

`stream(0, "basis", 2)` is the generator of the basis of block 2 under seed 0. So GD and Adam see the same draws, and
a new use of randomness changes no other numbers.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from quadsim import _parsing
from quadsim import _validation as checks
from quadsim._validation import InputError, InputTypeError

MAX_SEED = 2**63 - 1  # the largest int64
MAX_SEEDS = 1_000_000  # of a text


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """The generator of the stream ``name`` under ``seed``."""
    seed = checked_seed(seed)
    key = tuple(zlib.crc32(word.encode()) if isinstance(word, str) else word for word in name)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def checked_seed(seed: Any) -> int:
    """The seed, if it is an integer from 0 to MAX_SEED."""
    if isinstance(seed, str) or (isinstance(seed, Iterable) and getattr(seed, "ndim", None) != 0):
        several = "solve, compare, tune and sweep take several"
        raise InputTypeError(f"seed must be a whole number here, got {checks.shown(seed)}: {several}")
    return checks.whole("seed", seed, at_least=0, at_most=MAX_SEED)


def seed_list(name: str, given: Any, *, at_least: int = 1, distinct: bool = True) -> list[int]:
    """The seeds of an int, a range, a list or array of ints, or a text as on the command line: "0..29", "3,5,8"."""
    if isinstance(given, str):
        seeds = _of_text(name, given)
    elif isinstance(given, Iterable) and getattr(given, "ndim", None) != 0 and not isinstance(given, Mapping | bytes):
        seeds = list(given)
    else:
        seeds = [given]
    seeds = [checks.whole(name, number, at_least=0, at_most=MAX_SEED) for number in seeds]
    if distinct and len(set(seeds)) < len(seeds):
        twice = next(number for number in seeds if seeds.count(number) > 1)
        raise InputError(f"{name} must hold distinct seeds, got {twice} twice")
    if len(seeds) < at_least:
        raise InputError(f"{name} must hold at least {at_least} seed{'s' * (at_least > 1)}, got {len(seeds)}")
    return seeds


def _of_text(name: str, text: str) -> list[int]:
    if ".." in text:
        return list(_parsing.whole_range(name, text, MAX_SEEDS))
    if not re.fullmatch(r"\s*[0-9]+\s*(,\s*[0-9]+\s*)*", text):
        raise InputError(f"{name} must be whole numbers such as 7, 0..29 or 3,5,8, got {checks.shown(text)}")
    return [_parsing.whole(name, item) for item in _parsing.several(name, text)]


def refuse_seeds(keys: Mapping[str, Any], *, several: bool = True) -> None:
    """Raise if ``seeds`` or ``tuning_seeds`` is among the arguments: the name is seed, and a range names several."""
    for name, first in (("seeds", 0), ("tuning_seeds", 30)):  # tuning seeds follow the 30 default ones
        if name not in keys:
            continue
        value, one = keys[name], name.removesuffix("s")
        if not several:
            raise InputTypeError(f"{name}={checks.shown(value)}: write {one}=0, one whole number")
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_SEEDS:
            end = first + value
            ends = f"{end}" if first == 0 else f"{first}, {end}"
            raise InputTypeError(f'{name}={value}: write {one}=range({ends}) or {one}="{first}..{end - 1}"')
        raise InputTypeError(f"the argument is {one}, not {name}: write {one}={checks.shown(value)}")
