"""The table of keys: every key of a problem, of a run and of a cell of a sweep, once.

A key has a name, a kind (how its text is read and which values it takes), bounds or choices, a help text, a group
(commands take whole groups) and the place of its default: the signature of the Python function or class that uses it,
from which the default is read. Parsing, sweep axes, `--help` and the columns of sweep tables all come from here, so a
new key is one entry here and the code that uses its value. Keys that only one command has are in its module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from quadsim import _parsing, _source
from quadsim import _validation as checks
from quadsim._format import shortest
from quadsim._validation import InputError, InputTypeError

Bound = int | float | str  # a reference to a constant, or a number


@dataclass(frozen=True)
class Key:
    """One key.

    ``default`` is "module:function.parameter", whose default is read from the source, or the default as text.
    ``choices`` are words, or references "module:NAME" to constants that have them. ``axis``: a sweep may vary it.
    ``several``: the command line takes a list. ``requires``: "other" or "other=value", alternatives parted by "|":
    without one of them the key has no effect.
    """

    name: str
    kind: str
    help: str = ""
    group: str = ""
    default: str = ""
    choices: tuple[str, ...] = ()
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    axis: bool = False
    several: bool = False
    requires: str = ""
    shape: str = ""

    @property
    def owner(self) -> str:
        """The function or class that takes the value: "module:function"."""
        return self.default.rpartition(".")[0] if ":" in self.default else ""

    @property
    def parameter(self) -> str:
        return self.default.rpartition(".")[2] if ":" in self.default else self.name

    @cached_property
    def default_value(self) -> Any:
        """The default of the Python signature; the literal one otherwise."""
        return _source.default(self.default) if ":" in self.default else self.default or None

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words that it takes."""
        return tuple(str(word) for one in self.choices for word in (_source.constant(one) if ":" in one else (one,)))

    @cached_property
    def limits(self) -> dict[str, Any]:
        """The bounds as numbers."""
        return {name: _source.constant(one) if isinstance(one, str) else one for name, one in self.bounds.items()}

    def read(self, text: str) -> Any:
        """The value of a text."""
        if self.several and self.kind != "words":
            return _distinct(self, [_READERS[self.kind](self, item) for item in self._items(text)])
        return _READERS[self.kind](self, text)

    def check(self, value: Any) -> Any:
        """A value from Python, checked as one from text."""
        if isinstance(value, str):
            return self.read(value) if value.strip() else _refuse_empty(self)
        plain = value.item() if getattr(value, "ndim", None) == 0 else value
        return _CHECKERS.get(self.kind, _check_other)(self, plain)

    def _items(self, text: str) -> list[str]:
        if ".." in text and self.kind in WHOLE_KINDS:
            return [str(number) for number in _parsing.whole_range(self.name, text, MAX_SEVERAL)]
        return _parsing.several(self.name, text)


MAX_SEVERAL = 10_000  # values of one key on the command line
WHOLE_KINDS = ("whole", "case", "blocks")


def _distinct(key: Key, values: list[Any]) -> list[Any]:
    for value in values:
        if values.count(value) > 1:
            raise InputError(f"{key.name} names {text(value)} twice")
    return values


def _refuse_empty(key: Key) -> Any:
    raise InputError(f"{key.name} has an empty value")


# ---- text to value, by kind


def _read_whole(key: Key, text: str) -> int:
    return checks.whole(key.name, _parsing.whole(key.name, text), **({"at_least": 0} | key.limits))


def _read_real(key: Key, text: str) -> float:
    return checks.real(key.name, _parsing.real(key.name, text), **key.limits) + 0.0  # no minus before a zero


def _read_choice(key: Key, text: str, name: str | None = None) -> str:
    return checks.choice(name or key.name, text.lower() if text.lower() in key.words else text, key.words)


def _read_words(key: Key, text: str) -> list[str]:
    words = _parsing.several(key.name, text)
    return _distinct(
        key, [_read_choice(key, word, key.name.removesuffix("s")) for word in words] if key.choices else words
    )


def _read_spectrum(key: Key, text: str) -> Any:
    if is_word(text):
        return checks.choice("law", text.lower(), key.words)
    return tuple(tuple(block) for block in _parsing.blocks_of_numbers(key.name, text))


def _read_blocks(key: Key, text: str) -> Any:
    """How many blocks a law has, or the names of a network's blocks."""
    if _parsing.NUMBER.fullmatch(text):
        return _read_whole(key, text)
    return tuple(_parsing.several(key.name, text))


def _read_start(key: Key, text: str) -> Any:
    if _parsing.NUMBER.fullmatch(text):
        return _read_real(key, text)
    if text not in key.words:
        allowed = f"{', '.join(key.words)}, or a number: the Gaussian start scaled to this norm"
        raise InputError(f"{key.name} must be one of {allowed}, got {checks.shown(text)}")
    return text


def _read_models(key: Key, text: str) -> str:
    return "+".join(_distinct(key, [checks.choice(key.name, one, key.words) for one in text.lower().split("+")]))


def _read_scales(key: Key, text: str) -> Any:
    scales = [_read_real(key, one) for one in _parsing.several(key.name, text, "/")]
    return scales[0] if len(scales) == 1 else tuple(scales)


_READERS: dict[str, Callable[[Key, str], Any]] = {
    "whole": _read_whole,
    "real": _read_real,
    "choice": _read_choice,
    "case": lambda key, text: int(checks.choice(key.name, text, key.words)),
    "text": lambda key, text: text,
    "words": _read_words,
    "flag": lambda key, text: _parsing.flag(key.name, text),
    "pair": lambda key, text: _parsing.pair(key.name, text),
    "numbers": lambda key, text: [
        checks.real(key.name, _parsing.real(key.name, one), **key.limits)
        for one in _parsing.alternatives(key.name, text)
    ],
    "spectrum": _read_spectrum,
    "blocks": _read_blocks,
    "start": _read_start,
    "models": _read_models,
    "scales": _read_scales,
}


# ---- values from Python, by kind


def _check_whole(key: Key, value: Any) -> int:
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    return checks.whole(key.name, value, **({"at_least": 0} | key.limits))


def _check_real(key: Key, value: Any) -> float:
    return checks.real(key.name, value, **key.limits) + 0.0


def _check_case(key: Key, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputTypeError(f"case must be one of {', '.join(key.words)}, got {checks.shown(value)}")
    return int(checks.choice(key.name, str(value), key.words))


def _check_spectrum(key: Key, value: Any) -> Any:
    if not isinstance(value, Iterable):
        raise InputTypeError(f"spectrum must be a law, or a list of blocks of numbers, got {checks.shown(value)}")
    blocks = [list(block) if isinstance(block, Iterable) and not isinstance(block, str) else block for block in value]
    if not all(isinstance(block, list) for block in blocks):
        raise InputTypeError(f"spectrum must be a law, or a list of blocks of numbers, got {checks.shown(value)}")
    return tuple(tuple(_plain(key, number) for number in block) for block in blocks)


def _plain(key: Key, value: Any) -> float:
    return checks.real(key.name, value.item() if getattr(value, "ndim", None) == 0 else value)


def _check_blocks(key: Key, value: Any) -> Any:
    if isinstance(value, Iterable):
        names = tuple(value)
        if names and all(isinstance(name, str) for name in names):
            return names
        raise InputTypeError(f"blocks must be a whole number or names, got {checks.shown(value)}")
    return _check_whole(key, value)


def _check_scales(key: Key, value: Any) -> Any:
    return tuple(_check_real(key, one) for one in value) if isinstance(value, tuple | list) else _check_real(key, value)


def _check_other(key: Key, value: Any) -> Any:
    import os

    if isinstance(value, os.PathLike) and key.kind == "text":
        return os.fspath(value)
    raise InputTypeError(f"{key.name} must be {'text' if key.kind == 'text' else key.kind}, got {checks.shown(value)}")


_CHECKERS: dict[str, Callable[[Key, Any], Any]] = {
    "whole": _check_whole,
    "real": _check_real,
    "start": _check_real,
    "case": _check_case,
    "spectrum": _check_spectrum,
    "blocks": _check_blocks,
    "scales": _check_scales,
}


# ---- value to text


def text(value: Any) -> str:
    """The one text of a value, so that 5e3 and 5000 are the same: whole numbers as digits, other numbers as the
    shortest text that gives the float64 back, parts of a value parted by "/" and ",", None as `none`."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return shortest(value)
    if isinstance(value, tuple | list):
        nested = any(isinstance(item, tuple | list) for item in value)
        numbers = all(isinstance(item, int | float) for item in value)
        if nested:
            return "/".join(",".join(text(item) for item in block) for block in value)
        return ("/" if numbers else ",").join(text(item) for item in value)
    return str(value)


def column(value: Any) -> Any:
    """A value as a cell of a table: a number or a text."""
    return text(value) if isinstance(value, tuple | list) else value


def is_word(text: str) -> bool:
    """Whether a spectrum is the name of a law."""
    return bool(re.fullmatch("[a-z-]+", text.lower())) and text.lower() not in ("nan", "inf", "infinity")


# ---- the table

_CASES = "for Cases 1 and 2: "
_SAMPLE, _CASE, _SOLVE = "spectra.library:sample", "problems.cases:case", "engine.solver:solve"
_NOISE, _SCHEDULE = "problems.noise:Noise", "optimizers.schedules:Schedule"
DEFAULT_OPTIMIZERS = "gd,frozen-adam,block-gd"
_SHARE = {"at_least": 0, "at_most": 1}
_MAX_DIM = "spectra.synthetic:MAX_DIM"

TABLE = (
    # the problem
    Key("case", "case", "a case of arXiv 2402.16788", "problem", choices=("problems.cases:CASES",), axis=True,
        shape="N"),
    Key("spectrum", "spectrum", "or your own: the eigenvalues of each block, or the name of a law", "problem",
        choices=("spectra.synthetic:LAWS",), axis=True, shape="a,b/c,d"),
    Key("network", "text", "measured spectra (see spectra), or a file of your own (.npz, .csv)", "measured",
        f"{_CASE}.network", axis=True, shape="NAME", requires="case=1|case=2"),
    Key("blocks", "blocks", "for a law: how many blocks; for Cases 1 and 2: which blocks of the network", "problem",
        "problems.build:from_spectrum.blocks", bounds={"at_least": 1, "at_most": _MAX_DIM}, axis=True,
        shape="N or a,b"),
    Key("block_size", "whole", "eigenvalues of each block: 30 in Cases 1 and 2, otherwise 3", "problem",
        f"{_CASE}.block_size", bounds={"at_least": 1, "at_most": "problems.block_quadratic:LARGEST_BLOCK"}, axis=True),
    Key("sampling", "choice", "how eigenvalues are drawn", "measured", f"{_CASE}.sampling",
        ("spectra.library:SAMPLINGS",), axis=True, requires="case=1|case=2"),
    Key("sign", "choice", "which nodes count, and how", "measured", f"{_CASE}.sign", ("spectra.library:SIGNS",),
        axis=True, requires="case=1|case=2"),
    Key("pool", "whole", "sampling leading: from the N largest (4/3 of block_size)", "measured", f"{_CASE}.pool",
        bounds={"at_least": 1, "at_most": _MAX_DIM}, axis=True, requires="sampling=leading"),
    Key("threshold", "real", "sampling above: this share of the largest (0.1)", "measured", f"{_CASE}.threshold",
        bounds={"at_least": 0, "below": 1}, axis=True, requires="sampling=above"),
    Key("kappa", "real", "map the eigenvalues to this condition number", "problem", f"{_CASE}.kappa",
        bounds={"at_least": 1, "at_most": "spectra.synthetic:MAX_EIGENVALUE"}, axis=True),
    Key("map", "choice", "how: affine (Cases 1 and 2, own spectra), clusters (Cases 3 and 4), geometric, or unshifted: "
        "Cases 1 and 2 with their own condition number", "problem", f"{_CASE}.map",
        ("spectra.synthetic:MAPS", "problems.cases:UNSHIFTED"), axis=True),
    Key("heterogeneity", "real", "partition the same eigenvalues otherwise: 1 sorted chunks, 0 round-robin; there are "
        "finitely many distinct arrangements, 5 in all for three blocks of 3, 51 for three of 30", "problem",
        f"{_CASE}.heterogeneity", bounds=_SHARE, axis=True, requires="span=blocks"),
    Key("rotation", "real", "0: diagonal blocks, 1: Haar bases", "problem", f"{_CASE}.rotation", bounds=_SHARE,
        axis=True, requires="basis=haar"),
    Key("basis", "choice", "haar, or diagonal, which is rotation 0", "problem", f"{_CASE}.basis",
        ("problems.block_quadratic:BASES",), axis=True),
    Key("span", "choice", "blocks: a basis for each block; whole: one basis, the Hessian is one dense block", "problem",
        f"{_CASE}.span", ("problems.block_quadratic:SPANS",), axis=True),
    Key("minimizer", "choice", "gaussian: drawn by the seed, or zero, where weight decay pulls to the answer",
        "problem", f"{_CASE}.minimizer", ("problems.block_quadratic:MINIMIZERS",), axis=True),
    Key("seed", "whole", "fixes problem, start and noise", "problem", f"{_CASE}.seed",
        bounds={"at_least": 0, "at_most": "_random:MAX_SEED"}, axis=True),
    # the run
    Key("start", "start", "the initial error w0 - w*: gaussian, ones, or a number: the Gaussian one scaled to this "
        "norm", "run", f"{_SOLVE}.start", ("problems.block_quadratic:STARTS",),
        bounds={"at_least": 1e-100, "at_most": 1e100}, axis=True, shape="gaussian|ones|R"),
    Key("batch", "whole", "gradients of N rows of X, XᵀX/n = H, drawn without replacement", "run", f"{_NOISE}.batch",
        bounds={"at_least": 1, "at_most": _MAX_DIM}, axis=True),
    Key("factor", "choice", "X = √n·H^½ (root) or √n·√Λ·Uᵀ (rotated)", "run", f"{_NOISE}.factor",
        ("problems.noise:FACTORS",), axis=True, requires="batch|noise=labels"),
    Key("noise", "models", "gaussian: on each component of the gradient; labels: least squares with noisy labels; "
        "gaussian+labels: both; drawn at each step", "run", f"{_NOISE}.model", ("problems.noise:MODELS",), axis=True,
        shape="MODEL"),
    Key("noise.scale", "scales", "of the noise; of both models, S/S", "run", f"{_NOISE}.scale", bounds={"at_least": 0},
        axis=True, requires="noise", shape="S"),
    Key("schedule", "choice", "of the learning rate; sqrt is 1/√t", "run", f"{_SCHEDULE}.kind",
        ("optimizers.schedules:KINDS",), axis=True),
    Key("warmup", "real", "its linear warm-up: steps, or a share of them (0.1 for cosine, otherwise 0)", "run",
        f"{_SCHEDULE}.warmup", bounds={"at_least": 0}, axis=True),
    Key("every", "real", "schedule step: after so many steps, or this share of them", "run", f"{_SCHEDULE}.every",
        bounds={"above": 0}, axis=True, requires="schedule=step"),
    Key("drop", "real", "schedule step: the learning rate is multiplied by this", "run", f"{_SCHEDULE}.drop",
        bounds={"above": 0, "at_most": 1}, axis=True, requires="schedule=step"),
    Key("tol", "real", "stop at gradient norm T times its first value; 0 runs on", "run", f"{_SOLVE}.tol",
        bounds={"at_least": 0}, axis=True, shape="T"),
    Key("max_steps", "whole", "the last step (closed form: as many as it takes, otherwise 100000)", "run",
        f"{_SOLVE}.max_steps", bounds={"at_least": 1, "at_most": "engine.trajectory:MAX_STEPS"}, axis=True),
    Key("engine", "choice", "closed-form (any step up to 1e12), compiled (step by step), or auto: closed form where "
        "the optimizer has one, without noise and schedule", "run", f"{_SOLVE}.engine", ("engine.solver:ENGINES",),
        axis=True),
    Key("optimizers", "words", "of {optimizers}", "run", DEFAULT_OPTIMIZERS, shape="a,b"),
    Key("rules", "words", "and of your own: a Python file of functions with @quadsim.rule before them", "run",
        shape="FILE"),
    Key("out", "text", "the folder of figure, tables and settings", "out", "figures", shape="FOLDER"),
)  # fmt: skip
KEYS = {key.name: key for key in TABLE}
AXES = tuple(key.name for key in TABLE if key.axis)
PROBLEM_AXES = tuple(
    key.name for key in TABLE if key.axis and key.group in ("problem", "measured") and key.name != "seed"
)
RUN_AXES = tuple(key.name for key in TABLE if key.axis and key.group == "run")
RENAMED = {  # keys of earlier releases
    "steps": "max_steps", "rule": "sampling", "seeds": "seed", "tuning_seeds": "tuning_seed", "label_noise": "noise",
}  # fmt: skip


def select(*names: str) -> dict[str, Key]:
    """Keys by their names, or by the names of their groups."""
    return {key.name: key for key in TABLE if key.name in names or key.group in names}


def arguments_of(owner: str, values: Mapping[str, Any], keys: Mapping[str, Key] = KEYS) -> dict[str, Any]:
    """Of these values, what a function or class takes, by its parameters: ``arguments_of("module:function", …)``."""
    return {keys[name].parameter: value for name, value in values.items() if name in keys and keys[name].owner == owner}


def fulfilled(key: Key, values: Mapping[str, Any]) -> bool:
    """Whether these values let a key have an effect, as far as `requires` says."""
    if not key.requires:
        return True
    for one in key.requires.split("|"):
        name, _, wanted = one.partition("=")
        value = values.get(name, KEYS[name].default_value)
        if (wanted in text(value).split("+")) if wanted else bool(value):
            return True
    return False


def check_renamed(name: str, value: str, allowed: Iterable[str]) -> None:
    """Refuse a key of an earlier release with what to write in its place."""
    if name not in RENAMED or RENAMED[name] not in allowed:
        return
    if name in ("seeds", "tuning_seeds") and value.isascii() and value.isdigit() and int(value[:9]) > 0:
        value = f"0..{int(value) - 1}"
    if name == "label_noise":
        value = f"labels noise.scale={value}"
    raise InputError(f"write {RENAMED[name]}={value}")
