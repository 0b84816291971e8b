"""The table of keys: every key of a problem, of a run and of a cell of a sweep, once.

A key has a name, a kind (how its text is parsed and which values it takes), bounds or choices, a help text, a group
(commands take whole groups) and a reference to the Python function or class that uses it, from whose signature the
default is read. Parsing, sweep axes, `--help` and the columns of sweep tables are derived from this table, so a new key
is one entry here and the code that uses its value. Keys that only one command has are declared in its module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from quadsim import _parsing, _source
from quadsim import _validation as checks
from quadsim._format import shortest
from quadsim._validation import InputError, InputTypeError

MAX_SEVERAL = 10_000  # values of one key on the command line
WHOLE_KINDS = ("whole", "case", "blocks")
AXIS_GROUPS = ("problem", "measured", "run")


class Key(NamedTuple):  # no dataclass, whose import takes milliseconds
    """One key.

    ``choices`` are words, or references "module:NAME" to constants that hold them; ``bounds`` are numbers or such
    references. ``used_by`` is "module:function" or, if the parameter has another name, "module:function.parameter": the
    default is read from its signature unless ``default``, a text, is given. ``several``: the command line takes a list.
    ``requires``: "other" or "other=value", alternatives separated by "|"; without one of them the key has no effect.
    ``names``: the function of `cli.names` that lists the values of a text, for completion.
    """

    name: str
    kind: str
    help: str = ""
    choices: tuple[str, ...] = ()
    bounds: Mapping[str, Any] = {}  # never changed
    used_by: str = ""
    default: str = ""
    several: bool = False
    requires: str = ""
    shape: str = ""
    group: str = ""
    names: str = ""

    @property
    def axis(self) -> bool:
        """Whether a sweep may vary it."""
        return self.group in AXIS_GROUPS and self.kind != "words"

    @property
    def owner(self) -> str:
        """The function or class that takes the value: "module:function"."""
        module, colon, path = self.used_by.partition(":")
        return module + colon + path.partition(".")[0]

    @property
    def parameter(self) -> str:
        return self.used_by.partition(":")[2].partition(".")[2] or self.name

    @property
    def default_value(self) -> Any:
        """The default of the command line, if there is one; otherwise that of the Python signature."""
        if self.default or not self.used_by:
            return self.default or None
        return _source.default(f"{self.owner}.{self.parameter}")

    @property
    def words(self) -> tuple[str, ...]:
        """The allowed words."""
        return tuple(
            str(word) for item in self.choices for word in (_source.constant(item) if ":" in item else (item,))
        )

    @property
    def limits(self) -> dict[str, Any]:
        """The bounds as numbers."""
        return {
            name: _source.constant(bound) if isinstance(bound, str) else bound for name, bound in self.bounds.items()
        }

    def read(self, text: str) -> Any:
        """Parse and check a text."""
        parse = _PARSERS[self.kind]
        if not self.several or self.kind == "words":
            return parse(self, text)
        if ".." in text and self.kind in WHOLE_KINDS:
            items = [str(number) for number in _parsing.whole_range(self.name, text, MAX_SEVERAL)]
        else:
            items = _parsing.several(self.name, text)
        return _distinct(self, [parse(self, item) for item in items])

    def check(self, value: Any) -> Any:
        """Check a Python value as `read` checks a text."""
        if not isinstance(value, str):
            return _CHECKERS.get(self.kind, _check_other)(self, _unboxed(value))
        if not value.strip():
            raise InputError(f"{self.name} has an empty value")
        return self.read(value)


def _distinct(key: Key, values: list[Any]) -> list[Any]:
    for value in values:
        if values.count(value) > 1:
            raise InputError(f"{key.name} names {text(value)} twice")
    return values


def _unboxed(value: Any) -> Any:
    """Numpy scalars as Python numbers."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


# ---- checks of values, by kind


def _check_whole(key: Key, value: Any) -> int:
    value = int(value) if isinstance(value, float) and value.is_integer() else value
    return checks.whole(key.name, value, **({"at_least": 0} | key.limits))


def _check_real(key: Key, value: Any) -> float:
    return checks.real(key.name, value, **key.limits) + 0.0  # no minus before a zero


def _check_case(key: Key, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputTypeError(f"case must be one of {', '.join(key.words)}, got {checks.shown(value)}")
    return int(checks.choice(key.name, str(value), key.words))


def _check_spectrum(key: Key, value: Any) -> Any:
    blocks: list[Any] = list(value) if isinstance(value, Iterable) else [None]
    if not all(isinstance(block, Iterable) and not isinstance(block, str) for block in blocks):
        raise InputTypeError(f"spectrum must be a law, or a list of blocks of numbers, got {checks.shown(value)}")
    return tuple(tuple(checks.real(key.name, _unboxed(number)) for number in block) for block in blocks)


def _check_blocks(key: Key, value: Any) -> Any:
    if not isinstance(value, Iterable):
        return _check_whole(key, value)
    names = tuple(value)
    if names and all(isinstance(name, str) for name in names):
        return names
    raise InputTypeError(f"blocks must be a whole number or names, got {checks.shown(value)}")


def _check_scales(key: Key, value: Any) -> Any:
    return (
        tuple(_check_real(key, item) for item in value) if isinstance(value, tuple | list) else _check_real(key, value)
    )


def _check_other(key: Key, value: Any) -> Any:
    if isinstance(value, os.PathLike) and key.kind == "text":
        return os.fspath(value)
    allowed = f"one of {', '.join(key.words)}" if key.words else "text"
    raise InputTypeError(f"{key.name} must be {allowed}, got {checks.shown(value)}")


_CHECKERS: dict[str, Callable[[Key, Any], Any]] = {
    "whole": _check_whole,
    "real": _check_real,
    "start": _check_real,
    "case": _check_case,
    "spectrum": _check_spectrum,
    "blocks": _check_blocks,
    "scales": _check_scales,
}


# ---- text to value, by kind


def _parse_whole(key: Key, text: str) -> int:
    return _check_whole(key, _parsing.whole(key.name, text))


def _parse_real(key: Key, text: str) -> float:
    return _check_real(key, _parsing.real(key.name, text))


def _parse_choice(key: Key, text: str, name: str = "") -> str:
    return checks.choice(name or key.name, text.lower() if text.lower() in key.words else text, key.words)


def _parse_words(key: Key, text: str) -> list[str]:
    words = _parsing.several(key.name, text)
    if key.choices:
        words = [_parse_choice(key, word, key.name.removesuffix("s")) for word in words]
    return _distinct(key, words)


def _parse_spectrum(key: Key, text: str) -> Any:
    if is_word(text):
        return checks.choice("law", text.lower(), key.words)
    return tuple(tuple(block) for block in _parsing.blocks_of_numbers(key.name, text))


def _parse_blocks(key: Key, text: str) -> Any:
    """The number of blocks of a law, or the names of a network's blocks."""
    return _parse_whole(key, text) if _parsing.NUMBER.fullmatch(text) else tuple(_parsing.several(key.name, text))


def _parse_start(key: Key, text: str) -> Any:
    if _parsing.NUMBER.fullmatch(text):
        return _parse_real(key, text)
    if text not in key.words:
        allowed = f"{', '.join(key.words)}, or a number: the Gaussian start scaled to this norm"
        raise InputError(f"{key.name} must be one of {allowed}, got {checks.shown(text)}")
    return text


def _parse_models(key: Key, text: str) -> str:
    if "," in text:
        raise InputError(f"{key.name}={text}: join models with +, as in {'+'.join(key.words)}")
    return "+".join(_distinct(key, [checks.choice(key.name, model, key.words) for model in text.lower().split("+")]))


def _parse_scales(key: Key, text: str) -> Any:
    scales = tuple(_parse_real(key, scale) for scale in _parsing.several(key.name, text, "/"))
    return scales[0] if len(scales) == 1 else scales


_PARSERS: dict[str, Callable[[Key, str], Any]] = {
    "whole": _parse_whole,
    "real": _parse_real,
    "choice": _parse_choice,
    "case": lambda key, text: int(checks.choice(key.name, text, key.words)),
    "text": lambda key, text: text,
    "words": _parse_words,
    "flag": lambda key, text: _parsing.flag(key.name, text),
    "pair": lambda key, text: _parsing.pair(key.name, text),
    "numbers": lambda key, text: [_parse_real(key, item) for item in _parsing.alternatives(key.name, text)],
    "spectrum": _parse_spectrum,
    "blocks": _parse_blocks,
    "start": _parse_start,
    "models": _parse_models,
    "scales": _parse_scales,
}


# ---- value to text


def text(value: Any) -> str:
    """The canonical text of a value, the same for 5e3 and 5000.

    Whole numbers are written as digits, other numbers as the shortest text that gives the same float64, blocks and
    numbers of a list separated by "/", other items by ",", None as `none`.
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return shortest(value)
    if isinstance(value, tuple | list):
        if any(isinstance(item, tuple | list) for item in value):
            return "/".join(",".join(map(text, block)) for block in value)
        numbers = all(isinstance(item, int | float) for item in value)
        return ("/" if numbers else ",").join(map(text, value))
    return str(value)


def column(value: Any) -> Any:
    """A value as a cell of a table: a number or a text."""
    return text(value) if isinstance(value, tuple | list) else value


def is_word(text: str) -> bool:
    """Whether a spectrum is the name of a law."""
    return bool(re.fullmatch("[a-z-]+", text.lower())) and text.lower() not in ("nan", "inf", "infinity")


# ---- the table

DEFAULT_OPTIMIZERS = "gd,frozen-adam,block-gd"
_CASE, _NOISE = "problems.cases:case", "problems.noise:Noise"
_SCHEDULE, _SOLVE = "optimizers.schedules:Schedule", "engine.solver:solve"
_problem = partial(Key, group="problem", used_by=_CASE)
_measured = partial(Key, group="measured", used_by=_CASE, requires="case=1|case=2")
_noise = partial(Key, group="run", used_by=_NOISE)
_schedule = partial(Key, group="run", used_by=_SCHEDULE)
_solve = partial(Key, group="run", used_by=_SOLVE)
_FRACTION = {"at_least": 0, "at_most": 1}
_UP_TO_MAX_DIM = {"at_least": 1, "at_most": "spectra.synthetic:MAX_DIM"}

TABLE = (
    # the problem
    _problem("case", "case", "a case of arXiv 2402.16788", ("problems.cases:CASES",), used_by="", shape="N"),
    _problem("spectrum", "spectrum", "or your own: the eigenvalues of each block, or the name of a law",
             ("spectra.synthetic:LAWS",), used_by="", shape="a,b/c,d"),
    _measured("network", "text", "measured spectra (see spectra), or a file of your own (.npz, .csv)", shape="NAME",
              names="networks"),
    _problem("blocks", "blocks", "for a law: how many blocks; for Cases 1 and 2: which blocks of the network",
             bounds=_UP_TO_MAX_DIM, used_by="problems.build:from_spectrum", shape="N or a,b"),
    _problem("block_size", "whole", "eigenvalues of each block: 30 in Cases 1 and 2, otherwise 3",
             bounds={"at_least": 1, "at_most": "problems.block_quadratic:LARGEST_BLOCK"}),
    _measured("sampling", "choice", "how eigenvalues are drawn", ("spectra.library:SAMPLINGS",)),
    _measured("sign", "choice", "which nodes count, and how", ("spectra.library:SIGNS",)),
    _measured("pool", "whole", "sampling leading: from the N largest (4/3 of block_size)",
              bounds={"at_least": 1, "at_most": 10**9}, requires="sampling=leading"),
    _measured("threshold", "real", "sampling above: this share of the largest (0.1)",
              bounds={"at_least": 0, "below": 1}, requires="sampling=above"),
    _problem("kappa", "real", "map the eigenvalues to this condition number",
             bounds={"at_least": 1, "at_most": "spectra.synthetic:MAX_EIGENVALUE"}),
    _problem("map", "choice", "how: affine (Cases 1 and 2, own spectra), clusters (Cases 3 and 4), geometric, or "
             "unshifted: Cases 1 and 2 with their own condition number",
             ("spectra.synthetic:MAPS", "problems.cases:UNSHIFTED")),
    _problem("heterogeneity", "real", "partition the same eigenvalues otherwise: 1 sorted chunks, 0 round-robin; there "
             "are finitely many distinct arrangements, 5 in all for three blocks of 3, 51 for three of 30",
             bounds=_FRACTION, requires="span=blocks"),
    _problem("rotation", "real", "0: diagonal blocks, 1: Haar bases", bounds=_FRACTION, requires="basis=haar"),
    _problem("basis", "choice", "haar, or diagonal, which is rotation 0", ("problems.block_quadratic:BASES",)),
    _problem("span", "choice", "blocks: a basis for each block; whole: one basis, the Hessian is one dense block",
             ("problems.block_quadratic:SPANS",)),
    _problem("minimizer", "choice", "gaussian: drawn by the seed, or zero, where weight decay pulls to the answer",
             ("problems.block_quadratic:MINIMIZERS",)),
    _problem("seed", "whole", "fixes problem, start and noise", bounds={"at_least": 0, "at_most": "_random:MAX_SEED"}),
    # the run
    _solve("start", "start", "the initial error w0 - w*: gaussian, ones, or a number: the Gaussian one scaled to this "
           "norm", ("problems.block_quadratic:STARTS",), {"at_least": 1e-100, "at_most": 1e100},
           shape="gaussian|ones|R"),
    _noise("batch", "whole", "gradients of N rows of X, XᵀX/n = H, drawn without replacement", bounds=_UP_TO_MAX_DIM),
    _noise("factor", "choice", "X = √n·H^½ (root) or √n·√Λ·Uᵀ (rotated)", ("problems.noise:FACTORS",),
           requires="batch|noise=labels"),
    _noise("noise", "models", "gaussian: on each component of the gradient; labels: least squares with noisy labels; "
           "gaussian+labels: both; drawn at each step", ("problems.noise:MODELS",), used_by=f"{_NOISE}.model",
           shape="MODEL"),
    _noise("noise.scale", "scales", "of the noise; of both models, S/S", bounds={"at_least": 0},
           used_by=f"{_NOISE}.scale", requires="noise", shape="S"),
    _schedule("schedule", "choice", "of the learning rate; sqrt is 1/√t", ("optimizers.schedules:KINDS",),
              used_by=f"{_SCHEDULE}.kind"),
    _schedule("warmup", "real", "its linear warm-up: steps, or a share of them (0.1 for cosine, otherwise 0)",
              bounds={"at_least": 0}),
    _schedule("every", "real", "schedule step: after so many steps, or this share of them", bounds={"above": 0},
              requires="schedule=step"),
    _schedule("drop", "real", "schedule step: the learning rate is multiplied by this",
              bounds={"above": 0, "at_most": 1}, requires="schedule=step"),
    _solve("tol", "real", "stop at gradient norm T times its first value; 0 runs on", bounds={"at_least": 0},
           shape="T"),
    _solve("max_steps", "whole", "the last step (closed form: as many as it takes, otherwise 100000)",
           bounds={"at_least": 1, "at_most": "engine.trajectory:MAX_STEPS"}),
    _solve("engine", "choice", "closed-form (any step up to 1e12), compiled (step by step), or auto: closed form where "
           "the optimizer has one, without noise and schedule", ("engine.solver:ENGINES",)),
    Key("optimizers", "words", "of {optimizers}", default=DEFAULT_OPTIMIZERS, shape="a,b", group="run",
        names="optimizers"),
    Key("rules", "words", "your own optimizers: a Python file of functions with @quadsim.rule", shape="FILE.py",
        group="run"),
    Key("out", "text", "the folder of figure, tables and settings", default="figures", shape="FOLDER", group="out"),
)  # fmt: skip
KEYS = {key.name: key for key in TABLE}
AXES = tuple(key.name for key in TABLE if key.axis)
PROBLEM_AXES = tuple(name for name in AXES if KEYS[name].group != "run" and name != "seed")
RUN_AXES = tuple(name for name in AXES if KEYS[name].group == "run")
RENAMED = {  # keys of earlier releases, with the first of these that a command has
    "steps": ("max_steps", "lanczos_steps"),
    "rule": ("sampling",),
    "seeds": ("seed",),
    "tuning_seeds": ("tuning_seed",),
    "label_noise": ("noise",),
}


def select(*entries: str | Key) -> dict[str, Key]:
    """The keys of a command by name: keys and groups of the table, followed by keys that are given themselves.

    A given key replaces one of the table that has the same name.
    """
    listed = [key for key in TABLE if key.name in entries or key.group in entries]
    return {key.name: key for key in (*listed, *entries) if isinstance(key, Key)}


def arguments_of(owner: str, values: Mapping[str, Any], keys: Mapping[str, Key] = KEYS) -> dict[str, Any]:
    """The arguments that a function or class takes of these values: ``arguments_of("module:function", …)``."""
    return {keys[name].parameter: value for name, value in values.items() if name in keys and keys[name].owner == owner}


def fulfilled(key: Key, values: Mapping[str, Any]) -> bool:
    """Whether the key has an effect beside these values, as far as `requires` tells."""
    if not key.requires:
        return True
    for condition in key.requires.split("|"):
        name, _, wanted = condition.partition("=")
        value = values.get(name, KEYS[name].default_value)
        if (wanted in text(value).split("+")) if wanted else bool(value):
            return True
    return False


def check_renamed(name: str, value: str, allowed: Iterable[str], *, several: bool = True) -> None:
    """Refuse a key of an earlier release; the error gives its replacement. ``several``: seed= may be a range."""
    new = next((key for key in RENAMED.get(name, ()) if key in allowed), None)
    if new is None or (name == "rule" and value.lower() not in KEYS["sampling"].words):
        return
    if name in ("seeds", "tuning_seeds"):
        first = 30 * (name == "tuning_seeds")  # tuning seeds came after the 30 default ones
        count = int(value) if re.fullmatch("[1-9][0-9]{0,8}", value) else 10
        value = f"{first}..{first + count - 1}" if several else "0"
        value += " (seeds that are not in seed=)" if first else ""
    if name == "label_noise":
        value = f"labels noise.scale={value} (with Gaussian noise S: noise=gaussian+labels noise.scale=S/{value})"
    raise InputError(f"the key is {new}: write {new}={value}")
