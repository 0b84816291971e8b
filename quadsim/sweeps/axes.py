"""A grid's axes: what the keys of the command line, or arguments of the same names, let vary.

Every value has one text, so that 5e3 and 5000 are the same cell: whole numbers as digits, others as the shortest text
that gives the float64 back.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quadsim import checks, grammar, problem, request, schedules, solver, spectra
from quadsim.cases import CASES, MAPS
from quadsim.checks import InputError, InputTypeError
from quadsim.noise import FACTORS
from quadsim.optimizers import OPTIMIZERS, Optimizer
from quadsim.streams import MOST_SEED
from quadsim.trajectory import MOST_STEPS

PROBLEM_KEYS = (
    "case", "spectrum", "network", "blocks", "block_size", "rule", "sign", "pool", "threshold", "kappa", "map",
    "heterogeneity", "rotation", "basis", "minimizer",
)  # fmt: skip
CELL_KEYS = ("start", "batch", "factor", "noise", "label_noise", "schedule", "warmup", "every", "drop", "tol", "steps",
             "engine")  # fmt: skip
AXES = (*PROBLEM_KEYS, "seed", *CELL_KEYS)
KEYS = (*AXES, "optimizers", "rules")
MOST_VALUES = 1_000_000  # of one axis
MOST_SEEDS = 10**9
LISTS = ("spectrum", "blocks")  # a value may be a list itself: several are parted by a semicolon

WHOLE: dict[str, dict[str, int]] = {
    "case": {"at_least": min(CASES), "at_most": max(CASES)}, "block_size": {"at_least": 1, "at_most": spectra.MOST},
    "pool": {"at_least": 1, "at_most": spectra.MOST}, "seed": {"at_least": 0, "at_most": MOST_SEED},
    "steps": {"at_least": 1, "at_most": MOST_STEPS}, "batch": {"at_least": 1, "at_most": spectra.MOST},
}  # fmt: skip
REAL: dict[str, dict[str, float]] = {
    "threshold": {"at_least": 0, "below": 1}, "kappa": {"at_least": 1, "at_most": spectra.LARGEST},
    "heterogeneity": {"at_least": 0, "at_most": 1}, "rotation": {"at_least": 0, "at_most": 1}, "tol": {"at_least": 0},
    "noise": {"at_least": 0}, "label_noise": {"at_least": 0}, "warmup": {"at_least": 0}, "every": {"above": 0},
    "drop": {"above": 0, "at_most": 1},
}  # fmt: skip
WORDS: dict[str, Iterable[str]] = {
    "rule": spectra.RULES, "sign": spectra.SIGNS, "map": MAPS, "basis": problem.BASES,
    "minimizer": problem.MINIMIZERS, "engine": solver.ENGINES, "factor": FACTORS, "schedule": schedules.KINDS,
}  # fmt: skip

SETTINGS = (  # columns that say what a cell is; other settings of optimizers follow
    *AXES, "kappa_from", "optimizer", "lr", "lr_from", "momentum_from",
)  # fmt: skip
USUAL: dict[str, Any] = {"noise": 0.0, "label_noise": 0.0, "schedule": "constant", "warmup": 0.0}  # by default
RESULTS = (
    "status", "steps_to_tol", "last_step", "loss", "grad_norm", "dim", "max_block_kappa", "kappa_eff", "r",
    "js_distance", "arrangement", "arrangements", "predicted_rate", "measured_rate", "seconds", "error",
)  # fmt: skip

Value = str | None  # None: the key is left out, which the word `none` says


def values(key: str, text: str) -> tuple[Value, ...]:
    """An axis: `v`, `v,v,…`, `a:b:logN`, `a:b:linN`, or `i..j` for whole numbers; `none` leaves the key out."""
    found = tuple(_one(key, item) for item in _items(key, text))
    if len(set(found)) == len(found):
        return found
    if ":" in text:  # whole numbers, rounded from a range, may meet
        return tuple(dict.fromkeys(found))
    twice = next(item for item in found if found.count(item) > 1)
    raise InputError(f"{key}={checks.shown(text)} names {twice or 'none'} twice")


def seeds(text: str) -> Sequence[int]:
    """The seeds: `3`, `0..29`, `3,5,8`."""
    if ".." in text:
        first, _, last = text.partition("..")
        low, high = (checks.whole("seed", grammar.whole("seed", end), **WHOLE["seed"]) for end in (first, last))
        if high < low:
            raise InputError(f"seed={text} is empty: write for example seed={high}..{low}")
        checks.whole("the number of seeds", high - low + 1, at_least=1, at_most=MOST_SEEDS)
        return range(low, high + 1)
    return [0 if value is None else int(value) for value in values("seed", text)]


def count(key: str, text: str) -> int:
    """How many values an axis has, at most, without making them."""
    found = grammar.RANGE.fullmatch(text.strip())
    if found:
        return int(found[4]) if len(found[4]) < 20 else 10**20
    ends = text.split("..")
    if len(ends) == 2 and (key in WHOLE or key == "blocks") and all(map(grammar.NUMBER.fullmatch, ends)):
        return max(int(min(float(ends[1]), 1e30) - float(ends[0])) + 1, 1)
    return 1 + text.count(";" if ";" in text and key in LISTS else ",")


def _items(key: str, text: str) -> list[str]:
    if ";" in text and key in LISTS:
        return grammar.several(key, text, ";")
    if key == "spectrum":
        listed = grammar.several(key, text)
        return listed if len(listed) > 1 and all(is_word(item) for item in listed) else [text]
    if key == "blocks" and ".." in text:
        return [str(number) for number in _range(key, text)]
    if key == "blocks":
        listed = grammar.several(key, text)
        return listed if all(item.isascii() and item.isdigit() for item in listed) else [text]
    if ".." in text and key in WHOLE:
        return [str(seed) for seed in _range(key, text)]
    if key in WORDS or key == "network":
        return grammar.several(key, text)
    found = grammar.alternatives(key, text, MOST_VALUES)
    return [str(round(float(item))) for item in found] if ":" in text and key in WHOLE else found


def _range(key: str, text: str) -> range:
    first, _, last = text.partition("..")
    low, high = grammar.whole(key, first), grammar.whole(key, last)
    if high < low:
        raise InputError(f"{key}={text} is empty: write for example {key}={high}..{low}")
    checks.whole(f"the number of values of {key}", high - low + 1, at_least=1, at_most=MOST_VALUES)
    return range(low, high + 1)


def _one(key: str, text: str) -> Value:
    """The one text of a value, checked as far as it can be without the others."""
    if text.lower() == "none":
        return None
    if key in WHOLE:
        return str(checks.whole(key, grammar.whole(key, text), **WHOLE[key]))
    if key in REAL:
        return number(checks.real(key, grammar.real(key, text), **REAL[key]))
    if key in WORDS:
        return checks.choice(key, text, WORDS[key])
    if key == "start":
        request.read_conditions({"start": text})
        return number(float(text)) if grammar.NUMBER.fullmatch(text) else text
    if key == "spectrum" and not is_word(text):
        return "/".join(",".join(number(x) for x in block) for block in grammar.blocks_of_numbers(key, text))
    if key == "spectrum":
        return checks.choice("law", text.lower(), spectra.LAWS)
    if key == "blocks" and text.isascii() and text.isdigit():
        return str(int(text))
    return text


def is_word(text: str) -> bool:
    """Whether a spectrum is the name of a law."""
    return bool(re.fullmatch("[a-z-]+", text.lower())) and text.lower() not in ("nan", "inf", "infinity")


def number(value: float) -> str:
    """The shortest text of a float64."""
    value = float(value) + 0.0  # no minus before a zero
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else repr(value)


def texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Arguments from Python as the keys of the command line: `kappa=[10, 100]` is kappa=10,100."""
    keys: dict[str, str] = {}

    def put(key: str, text: str) -> None:
        if key in keys:
            raise InputError(f"{key} is given twice: {key}={keys[key]} and {key}={text}")
        keys[key] = text

    for name, value in given.items():
        owner, dot, setting = name.partition(".")
        if dot:
            put(f"{owner.replace('_', '-')}.{setting}", _text(name, value))
        elif name == "optimizers":
            for key, text in _optimizers(value):
                put(key, text)
        elif isinstance(value, Mapping):  # adam={"beta2": [0.9, 0.99]}
            for setting, several in value.items():
                put(f"{name.replace('_', '-')}.{setting}", _text(f"{name}.{setting}", several))
        else:
            put(name, _text(name, value))
    return keys


def _optimizers(value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, Mapping):
        raise InputTypeError(f"optimizers must be a list such as ['gd', 'adam'], got {checks.shown(value)}")
    listed = [value] if isinstance(value, str | bytes | Optimizer | type) else value
    if not isinstance(listed, Iterable):
        raise InputTypeError(f"optimizers must be a list such as ['gd', 'adam'], got {checks.shown(value)}")
    names = []
    for one in listed:
        if isinstance(one, str):
            names.append(one)
            continue
        kind = one if isinstance(one, type) else type(one)
        if not issubclass(kind, Optimizer) or OPTIMIZERS.get(kind.name) is not kind:
            raise InputTypeError(f"optimizer must be a name, or one such as GD() or Adam(), got {checks.shown(one)}")
        names.append(kind.name)
        if isinstance(one, Optimizer):
            usual = kind().settings()
            for setting, chosen in one.settings().items():
                if chosen != usual[setting]:
                    yield f"{kind.name}.{setting}", _item(setting, chosen)
    if not names:
        raise InputError("optimizers must name at least one")
    yield "optimizers", ",".join(names)


def _text(name: str, value: Any) -> str:
    """A value, or a list of values, as the text of the command line."""
    if isinstance(value, range) and name == "seed" and value.step == 1 and value:
        return f"{value.start}..{value.stop - 1}"
    if hasattr(value, "ndim") and value.ndim == 0:
        value = value.item()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | tuple | list | Path):
        value = list(itertools.islice(value, MOST_VALUES + 1))
        if len(value) > MOST_VALUES:
            raise InputError(f"{name} must have at most {MOST_VALUES} values")
    if name == "spectrum" and not isinstance(value, str):
        nested = [_depth(value)] if isinstance(value, Iterable) else [0]
        if nested[0] == 2:
            return "/".join(",".join(_item(name, x) for x in block) for block in value)
        if nested[0] == 3:
            return ";".join(_text(name, one) for one in value)
    if name == "blocks" and isinstance(value, Iterable) and not isinstance(value, str):
        listed = list(value)
        if listed and all(isinstance(item, Iterable) and not isinstance(item, str) for item in listed):
            return ";".join(",".join(map(str, item)) for item in listed)
    if isinstance(value, str | bytes | Path) or not isinstance(value, Iterable):
        return _item(name, value)
    items = [_item(name, item) for item in value]
    if not items:
        raise InputError(f"{name} has no values: give at least one")
    return ",".join(items)


def _depth(value: Any) -> int:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return 0
    return 1 + max((_depth(item) for item in value), default=0)


def _item(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, str | Path):
        if not str(value).strip():
            raise InputError(f"{name} has an empty value")
        return str(value)
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "true" if value else "false"
    if isinstance(value, tuple):  # one learning rate for each block
        return "/".join(_item(name, item) for item in value)
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    if isinstance(plain, int):
        return str(plain)
    if isinstance(plain, float) and math.isfinite(plain):
        return number(plain)
    raise InputTypeError(f"{name} must be numbers or words, got {checks.shown(value)}")


def typed(key: str, text: Value) -> Any:
    """A value as it stands in a table."""
    if text is None:
        return None
    kind: Callable[[str], Any] = (
        int if key in WHOLE else float if key in REAL or (key == "start" and grammar.NUMBER.fullmatch(text)) else str
    )
    return kind(text) if key != "blocks" or not text.isdigit() else int(text)


def column(optimizer: str, setting: str) -> str:
    """Where an optimizer's setting stands in a table: under its own name, if that is free."""
    taken = setting.lower() in (*SETTINGS, *RESULTS, "key") and setting != "lr"  # columns are told apart without case
    return f"{optimizer}.{setting}" if taken else setting


def ordered(columns: Iterable[str]) -> list[str]:
    """Columns in an order that does not depend on what came first: settings, the optimizers' own, results."""
    there = set(columns)
    own = sorted(there - {*SETTINGS, *RESULTS})
    return [*(name for name in SETTINGS if name in there), *own, *(name for name in RESULTS if name in there)]
