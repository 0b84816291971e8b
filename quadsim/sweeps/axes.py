"""The axes of a grid: the values of each key, from the texts of the command line or from Python values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from quadsim import _parsing, keys
from quadsim import _validation as checks
from quadsim._validation import InputError, InputTypeError
from quadsim.keys import AXES, KEYS, Key
from quadsim.optimizers import OPTIMIZERS, Optimizer

MAX_VALUES = 1_000_000  # of one axis
MAX_SEEDS = 10**9
LIST_KINDS = ("spectrum", "blocks")  # a value may be a list, so a semicolon separates values
SETTINGS = (  # columns that describe a cell; other settings of optimizers follow
    "problem", *AXES, "kappa_from", "optimizer", "lr", "lr_from", "momentum_from",
)  # fmt: skip
COLUMN_DEFAULTS: dict[str, Any] = {"schedule": "constant", "warmup": 0.0}  # where a row leaves them out
RESULTS = (
    "status", "steps_to_tol", "last_step", "loss", "grad_norm", "dim", "max_block_kappa", "kappa_eff", "r",
    "js_distance", "arrangement", "arrangements", "predicted_rate", "measured_rate", "seconds", "error",
)  # fmt: skip

Axis = tuple[Any, ...]  # values; None leaves the key out, as the word `none` does


# ---- from the texts of the command line


def values(name: str, text: str) -> Axis:
    """An axis: `v`, `v,v,…`, `a:b:logN`, `a:b:linN`, or `i..j` for whole numbers; `none` leaves the key out."""
    key = KEYS[name]
    found = tuple(None if is_none(item) else key.read(item) for item in _items(key, text))
    if ":" in text:  # whole numbers, rounded from a range, may coincide
        return tuple(dict.fromkeys(found))
    return distinct(name, found, text)


def seeds(given: Any) -> Sequence[int]:
    """The seeds: `3`, `0..29`, `3,5,8`; from Python also a range or a list."""
    if isinstance(given, str) and ".." in given:
        given = _parsing.whole_range("seed", given, MAX_SEEDS)
    if isinstance(given, range) and given.step == 1 and given:
        return range(KEYS["seed"].check(given.start), KEYS["seed"].check(given.stop - 1) + 1)
    return [0 if value is None else value for value in axis("seed", given)]


def count(name: str, text: str) -> int:
    """An upper bound on the number of values of an axis, without parsing them."""
    found = _parsing.RANGE.fullmatch(text.strip())
    if found:
        return int(found[4]) if len(found[4]) < 20 else 10**20
    kind = KEYS[name].kind if name in KEYS else ""
    ends = text.split("..")
    if len(ends) == 2 and kind in keys.WHOLE_KINDS and all(map(_parsing.NUMBER.fullmatch, ends)):
        return max(int(min(float(ends[1]), 1e30) - float(ends[0])) + 1, 1)
    return 1 + text.count(";" if ";" in text and kind in LIST_KINDS else ",")


def _items(key: Key, text: str) -> list[str]:
    """The texts of an axis, one for each value."""
    if ";" in text and key.kind in LIST_KINDS:
        return _parsing.several(key.name, text, ";")
    if ".." in text and key.kind in keys.WHOLE_KINDS:
        return [str(number) for number in _parsing.whole_range(key.name, text, MAX_VALUES)]
    if key.kind in LIST_KINDS:  # several laws or numbers of blocks; anything else is one list
        listed = _parsing.several(key.name, text)
        single = keys.is_word if key.kind == "spectrum" else _parsing.NUMBER.fullmatch
        return listed if all(single(item) for item in listed) else [text]
    if key.kind in ("choice", "text", "models"):
        return _parsing.several(key.name, text)
    found = _parsing.alternatives(key.name, text, MAX_VALUES)
    return [str(round(float(item))) for item in found] if ":" in text and key.kind in keys.WHOLE_KINDS else found


def distinct(name: str, found: Axis, given: Any) -> Axis:
    """The values; raises if one occurs twice."""
    if len(set(found)) < len(found):
        twice = next(value for value in found if found.count(value) > 1)
        raise InputError(f"{name}={checks.shown(given)} names {keys.text(twice)} twice")
    return found


# ---- from Python values


def axis(name: str, given: Any) -> Axis:
    """An axis from Python: a value, a list of values, or a text as on the command line."""
    key = KEYS[name]
    if isinstance(given, str):
        return values(name, given) if given.strip() else (key.check(given),)
    return distinct(name, tuple(None if is_none(item) else key.check(item) for item in _listed(key, given)), given)


def listed(name: str, given: Any) -> list[Any]:
    """The items of a list that is not empty; a single value is a list of one."""
    if isinstance(given, Mapping):
        raise InputTypeError(f"{name} must be a value or a list of values, got {checks.shown(given)}")
    if getattr(given, "ndim", None) == 0 or not isinstance(given, Iterable) or isinstance(given, str | bytes):
        return [given]
    items = list(itertools.islice(given, MAX_VALUES + 1))
    if len(items) > MAX_VALUES:
        raise InputError(f"{name} must have at most {MAX_VALUES} values")
    if not items:
        raise InputError(f"{name} has no values: give at least one")
    return items


def is_none(item: Any) -> bool:
    """Whether a value leaves its key out: None, or the word `none`."""
    return item is None or (isinstance(item, str) and item.lower() == "none")


def _listed(key: Key, given: Any) -> list[Any]:
    """The values of an axis. A spectrum is a list of lists, and the blocks of a network are a list of names."""
    items = listed(key.name, given)
    if key.kind == "spectrum" and _depth(items) < 3 and not any(isinstance(item, str | None) for item in items):
        return [items if _depth(items) == 2 else [items]]
    if key.kind == "blocks" and all(isinstance(item, str) and not item.isdigit() for item in items):
        return [items]
    return items


def _depth(value: Any) -> int:
    if isinstance(value, str) or getattr(value, "ndim", None) == 0 or not isinstance(value, Iterable):
        return 0
    return 1 + max((_depth(item) for item in value), default=0)


def product(axes: Mapping[str, Axis]) -> Iterator[dict[str, Any]]:
    """Every combination of the values of some axes, without None values."""
    for chosen in itertools.product(*axes.values()):
        yield {name: value for name, value in zip(axes, chosen, strict=True) if value is not None}


def definition(values: Mapping[str, Any]) -> str:
    """The identity of a problem or of conditions: their values as text, by key."""
    return "".join(f"{key}={keys.text(value)}\n" for key, value in sorted(values.items()))


def optimizers(given: Any) -> tuple[list[str], dict[str, Any]]:
    """The names of optimizers, and the settings that differ from their defaults in optimizers given as objects."""
    if isinstance(given, Mapping) or not isinstance(given, Iterable | Optimizer | type):
        raise InputTypeError(f"optimizers must be a list such as ['gd', 'adam'], got {checks.shown(given)}")
    if isinstance(given, str):
        return _parsing.several("optimizers", given), {}
    names: list[str] = []
    settings: dict[str, Any] = {}
    for item in [given] if isinstance(given, bytes | Optimizer | type) else given:
        if isinstance(item, str):
            names.append(item)
            continue
        kind = item if isinstance(item, type) else type(item)
        if not issubclass(kind, Optimizer) or OPTIMIZERS.get(kind.name) is not kind:
            raise InputTypeError(f"optimizer must be a name, or one such as GD() or Adam(), got {checks.shown(item)}")
        names.append(kind.name)
        if isinstance(item, Optimizer):
            defaults = kind().settings()
            settings |= {f"{kind.name}.{key}": [v] for key, v in item.settings().items() if v != defaults[key]}
    if not names:
        raise InputError("optimizers must name at least one")
    return names, settings


def axis_text(name: str, found: Sequence[Any]) -> str:
    """An axis as written on the command line."""
    if isinstance(found, range):
        return f"{found[0]}..{found[-1]}"
    kind = KEYS[name].kind if name in KEYS else ""
    return (";" if kind in LIST_KINDS and len(found) > 1 else ",").join(map(keys.text, found))


# ---- columns of the table


def column(optimizer: str, setting: str) -> str:
    """The column of an optimizer's setting: the name of the setting, unless another column has that name."""
    taken = setting.lower() in (*SETTINGS, *RESULTS, "key") and setting != "lr"  # SQLite ignores case
    return f"{optimizer}.{setting}" if taken else setting


def ordered(columns: Iterable[str]) -> list[str]:
    """Columns in a fixed order: settings, those of single optimizers, results."""
    present = set(columns)
    others = sorted(present - {*SETTINGS, *RESULTS})
    return [name for name in (*SETTINGS, *others, *RESULTS) if name in present]
