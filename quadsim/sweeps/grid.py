"""A grid of cells: every problem, under every seed, with all run configurations.

The cells of one problem and seed are a group. Groups are counted without being built, and built one at a time. The
outermost loop is over seeds, so bases drawn for a seed serve all its problems, and an interrupted sweep has a few draws
of every setting.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from quadsim import _parsing
from quadsim import _validation as checks
from quadsim import keys as key_table
from quadsim._random import refuse_seeds
from quadsim._validation import InputError
from quadsim.keys import AXES, DEFAULT_OPTIMIZERS, KEYS, PROBLEM_AXES, RUN_AXES
from quadsim.optimizers import from_keys
from quadsim.problems.build import problem as build_problem
from quadsim.sweeps import axes, fingerprint, run_configs
from quadsim.sweeps.axes import Axis
from quadsim.sweeps.problem_axes import Problems, UserProblem, Values, user_problems, with_defaults
from quadsim.sweeps.run_configs import Cell
from quadsim.sweeps.store.verify import KEY_HALF

LIMIT = 1_000_000  # cells; the key limit= raises it
MAX_OVERCOUNT = 20  # combinations per cell: several may turn out to be the same cell
MAX_TRIED = 200  # problems built before a sweep, in search of a valid one
GRID_KEYS = (*AXES, "optimizers", "rules")


@dataclass(frozen=True)
class Group:
    """One problem, by its keys and seed, and the run configurations to run on it."""

    values: Values
    columns: dict[str, Any]  # of the problem
    seed: int
    cells: tuple[int, ...]
    keys: tuple[bytes, ...]

    def only(self, indices: Sequence[int]) -> Group:
        """The same group with some of its cells."""
        cells, keys = tuple(self.cells[index] for index in indices), tuple(self.keys[index] for index in indices)
        return replace(self, cells=cells, keys=keys)


@dataclass(frozen=True)
class Grid:
    """A grid: ``Grid.read({"case": "3,4", "kappa": "10,100"})``, or ``Grid.of({"case": [3, 4], "kappa": [10, 100]})``.

    ``keys`` are the texts that give the same grid on the command line, except for user-defined problems.
    """

    keys: dict[str, str]
    axes: dict[str, Axis]
    seeds: Sequence[int]
    problems: Problems
    deck: tuple[Cell, ...]
    left_out: dict[str, int]  # number of invalid combinations, by error message
    user_problems: dict[str, UserProblem] = field(default_factory=dict)  # by name

    @classmethod
    def read(cls, keys: dict[str, str], limit: int = LIMIT) -> Grid:
        """The grid of these texts. With the key ``problem`` it has run configurations but no problems."""
        return replace(cls.of(keys, limit), keys=dict(keys))

    @classmethod
    def of(cls, given: Mapping[str, Any], limit: int = LIMIT, problem: Any = None) -> Grid:
        """The grid of values from Python, or of texts as on the command line."""
        flat = _flattened(given)
        _check_keys(flat)
        names, settings = axes.optimizers(flat.get("optimizers", DEFAULT_OPTIMIZERS))
        if key := next((key for key in settings if key in flat), None):
            raise InputError(f"{key} is given twice: {settings[key][0]} and {checks.shown(flat[key])}")
        settings |= {key: value for key, value in flat.items() if "." in key and key not in KEYS}
        _check_count(*combinations(flat, names), limit)
        rules = _paths(flat.get("rules"))
        from_keys.load_rules(rules)
        names = from_keys.checked_names(names)
        seeds = axes.seeds(flat.get("seed", range(1)))
        values = {key: axes.axis(key, value) for key, value in flat.items() if key in AXES and key != "seed"}
        dotted = run_configs.read_settings(names, settings)
        counts = {key: len(axis) for key, axis in (*values.items(), *dotted.items())}
        _check_count(*_count({**counts, "seed": _length(seeds)}, names), limit)
        record = {key: axes.axis_text(key, axis) for key, axis in (*values.items(), *dotted.items())}
        record |= {"seed": axes.axis_text("seed", seeds)} if "seed" in flat else {}
        record |= {"optimizers": ",".join(names)} | ({"rules": ",".join(rules)} if rules else {})
        cells, left_out = run_configs.read(values, names, dotted)
        problems = Problems({key: axis for key, axis in values.items() if key in PROBLEM_AXES})
        user = {} if problem is None else user_problems(problem, seeds[0])
        if user:
            if problems.axes:
                raise InputError(f"{next(iter(problems.axes))} is for case= and spectrum=, not for problem=")
            record["problem"] = ",".join(user)
        if user or "problem" in flat:
            problems = Problems({"problem": tuple(user)})
        grid = cls(record, {**values, **dotted}, seeds, problems, cells, left_out, user)
        _check_count(grid.cells, len(cells), limit, overcount=1)
        return grid

    @property
    def swept(self) -> list[str]:
        """The columns that vary, in the order given: the axes without the seed."""
        names = [
            axes.column(*key.split(".", 1)) if "." in key and key not in KEYS else key
            for key, axis in (*self.problems.axes.items(), *self.axes.items())
            if len(axis) > 1
        ]
        return list(dict.fromkeys([*names, *(["optimizer"] if len({c.optimizer.name for c in self.deck}) > 1 else [])]))

    @property
    def groups(self) -> int:
        return self.problems.count * _length(self.seeds)

    @property
    def cells(self) -> int:
        return self.groups * len(self.deck)

    @cached_property
    def name(self) -> str:
        """The identity of this grid, independent of the order of its keys and the notation of its numbers."""
        parts = {key: sorted(axes.axis_text(key, [value]) for value in axis) for key, axis in self.axes.items()}
        parts["optimizers"] = sorted({cell.optimizer.name for cell in self.deck})
        ends = [self.seeds[0], self.seeds[-1], len(self.seeds)]
        parts["seed"] = [str(seed) for seed in (ends if isinstance(self.seeds, range) else sorted(self.seeds))]
        if self.user_problems:
            parts["problem"] = sorted(problem.digest for problem in self.user_problems.values())
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def mark(self) -> str:
        """The identity of the run configurations, the code that runs them and the data that problems draw from."""
        lines = [cell.name + cell.code.digest for cell in self.deck]
        lines += [f"{name}={digest}".encode() for name, digest in self._data]
        return hashlib.sha256(b"\n\n".join(lines)).hexdigest()

    @property
    def _data(self) -> list[tuple[str, str]]:
        """The names of the measured spectra that its problems draw from, with their hashes."""
        named = itertools.product(self.axes.get("case", (None,)), self.axes.get("network", (None,)))
        return sorted({fingerprint.of_data(case, network) for case, network in named})

    def codes(self) -> dict[bytes, dict[str, Any]]:
        """The fingerprints of its cells, by the code half of their keys."""
        codes = {cell.code.digest: cell.code for cell in self.deck}.values()
        return {
            fingerprint.code_half(code, digest): code.parts() | ({"data": {name: digest}} if name else {})
            for code in codes
            for name, digest in self._data
        }

    def iter_groups(self) -> Iterator[Group]:
        """All groups with all their cells and keys: half of a key hashes the cell's definition, half its code."""
        everything = tuple(range(len(self.deck)))
        halves: dict[str, list[bytes]] = {}
        problems: Iterable[Any] = map(_described, self.problems)
        if len(self.seeds) > 1:
            problems = list(problems)
        for seed in self.seeds:
            for values, columns, text, data in problems:
                if "problem" in values:
                    drawn = self.user_problems[values["problem"]].with_seed(seed)
                    text += f"data={drawn.digest}\n"
                    values = {**values, "drawn": drawn}
                begun = hashlib.sha256(f"{text}seed={seed}\n".encode())
                if data not in halves:
                    halves[data] = [fingerprint.code_half(cell.code, data) for cell in self.deck]
                keys = []
                for cell, half in zip(self.deck, halves[data], strict=True):
                    whole = begun.copy()
                    whole.update(cell.name)
                    keys.append(whole.digest()[:KEY_HALF] + half)
                yield Group(values, columns, seed, everything, tuple(keys))

    def iter_keys(self) -> Iterator[bytes]:
        """The keys of all cells."""
        return (key for group in self.iter_groups() for key in group.keys)

    def check(self) -> None:
        """Raise the error of the first problem if no problem of the grid can be built."""
        first: Exception | None = None
        for values in itertools.islice(self.problems, MAX_TRIED):
            try:
                if not self.user_problems:
                    build_problem(seed=self.seeds[0], **values)
                return
            except Exception as error:
                first = first or error
        if isinstance(first, InputError) and self.problems.count <= MAX_TRIED:
            raise first


def _described(values: Values) -> tuple[Values, dict[str, Any], str, str]:
    """The keys of a problem, its columns, its definition, and the hash of its data."""
    full = with_defaults(values)
    columns = {key: key_table.column(value) for key, value in full.items()}
    columns["kappa_from"] = "given" if "kappa" in full else "spectrum"
    return values, columns, axes.definition(full), fingerprint.of_data(values.get("case"), values.get("network"))[1]


def _length(seeds: Sequence[int]) -> int:
    return seeds.stop - seeds.start if isinstance(seeds, range) else len(seeds)  # len() of a range has a limit


def _flattened(given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys with settings of optimizers written out: adam={"beta2": …} is adam.beta2=…."""
    flat: dict[str, Any] = {}
    for name, value in given.items():
        nested = isinstance(value, Mapping) and name not in GRID_KEYS
        for key, one in ((f"{name}.{k}", v) for k, v in value.items()) if nested else ((name, value),):
            owner, dot, setting = key.partition(".")
            key = f"{owner.replace('_', '-')}.{setting}" if dot and key not in KEYS else key
            if key in flat:
                raise InputError(f"{key} is given twice: {checks.shown(flat[key])} and {checks.shown(one)}")
            flat[key] = one
    return flat


def _paths(rules: Any) -> list[str]:
    if isinstance(rules, str):
        return _parsing.several("rules", rules)
    return [] if rules is None else [str(path) for path in axes.listed("rules", rules)]


def _check_keys(keys: Mapping[str, Any]) -> None:
    """Raise for an unknown key; the message points out a setting of an optimizer."""
    refuse_seeds(keys)
    for key, value in keys.items():
        if key in (*GRID_KEYS, "problem") or "." in key:
            continue
        key_table.check_renamed(key, str(value), GRID_KEYS)
        from_keys.refuse_bare_setting(key, value, keys.get("optimizers", DEFAULT_OPTIMIZERS))
        checks.choice("key", key, GRID_KEYS)


def combinations(keys: Mapping[str, Any], names: Sequence[str]) -> tuple[int, int]:
    """Upper bounds on the combinations of the texts and seeds among these keys: in total, for one problem and seed."""
    counts = {key: axes.count(key, text) for key, text in keys.items() if isinstance(text, str)}
    seeds = keys.get("seed")
    return _count(counts | ({"seed": _length(seeds)} if isinstance(seeds, range) and seeds.step == 1 else {}), names)


def _count(counts: Mapping[str, int], names: Sequence[str]) -> tuple[int, int]:
    """The number of combinations, in total and for one problem and seed, by the number of values of each key."""
    owners = [name.strip().lower().replace("_", "-") for name in names]
    settings = sum(math.prod(n for key, n in counts.items() if key.split(".")[0] == name) for name in owners)
    of_one = settings * math.prod(counts.get(key, 1) for key in RUN_AXES)
    return of_one * math.prod(counts.get(key, 1) for key in (*PROBLEM_AXES, "seed")), of_one


def _check_count(count: int, of_one: int, limit: int, overcount: int = MAX_OVERCOUNT) -> None:
    """Raise if there are far too many combinations, or too many for one problem, before any is built."""
    if count > overcount * limit or of_one > limit:
        count_text, limit_text = (f"{count:,}", count) if count < 10**18 else (f"{count:.3g}", f"{count:.3g}")
        raise InputError(
            f"the grid has {count_text} cells, and the limit is {limit:,}: use fewer values, or give limit={limit_text}"
        )
