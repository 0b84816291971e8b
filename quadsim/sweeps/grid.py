"""A grid of cells: every problem, under every seed, with every optimizer and condition that the axes name.

The cells of one problem and seed are a group, and all groups have the same deck of cells: optimizers with their
settings, starts, noise, tolerances. Groups are counted without being made, and made one at a time: seeds outermost, so
that bases drawn for a seed serve all its problems, and a sweep that is cut short has few draws of everything.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from quadsim import checks, grammar, request, solver
from quadsim.cases import CASES
from quadsim.checks import InputError
from quadsim.noise import Noise
from quadsim.optimizers import OPTIMIZERS, Optimizer, by_name
from quadsim.schedules import Schedule
from quadsim.sweeps import axes, code
from quadsim.sweeps.axes import CELL_KEYS, PROBLEM_KEYS, Value

LIMIT = 1_000_000  # cells; the key limit= raises it
MEASURED_KEYS = ("network", "rule", "sign", "pool", "threshold")
MOST_TRIED = 200  # problems that are made before a sweep begins, in search of one that can be


@dataclass(frozen=True)
class Cell:
    """What runs on a problem: an optimizer under conditions. ``said`` are the keys that say so."""

    optimizer: Optimizer
    lr_from: str
    engine: str
    tol: float
    steps: int | None
    start: str | float
    noise: Noise
    schedule: Schedule
    said: dict[str, str]
    name: bytes = field(default=b"")  # what tells it from all other cells of its problem, the code included

    @property
    def together(self) -> tuple[Any, ...]:
        """What lanes that run side by side have alike."""
        return self.tol, self.steps, self.noise, self.schedule


@dataclass(frozen=True)
class Group:
    """One problem, by its keys and its seed, and which cells of the deck are to run on it."""

    said: dict[str, str]
    seed: int
    cells: tuple[int, ...]
    keys: tuple[bytes, ...]

    def only(self, places: Sequence[int]) -> Group:
        """The same group with some of its cells."""
        cells, keys = tuple(self.cells[place] for place in places), tuple(self.keys[place] for place in places)
        return Group(self.said, self.seed, cells, keys)


@dataclass(frozen=True)
class Grid:
    """A grid, from keys with their texts as on the command line: ``Grid.read({"case": "3,4", "kappa": "10,100"})``."""

    keys: dict[str, str]
    axes: dict[str, tuple[Value, ...]]
    seeds: Sequence[int]
    deck: tuple[Cell, ...]
    left_out: dict[str, int]  # combinations that make no cell, by what is wrong with them

    @classmethod
    def read(cls, keys: dict[str, str], limit: int = LIMIT) -> Grid:
        for key in keys:
            if "." not in key and key not in axes.KEYS:
                _refuse(key, keys)
        found = {key: axes.values(key, keys[key]) for key in axes.AXES if key in keys and key != "seed"}
        given = {key: found[key] for key in keys if key in found}  # in the order in which they were given
        seeds = axes.seeds(keys.get("seed", "0"))
        names, dotted = _optimizers(keys)
        most = math.prod(len(values) for values in given.values()) * len(seeds)
        decked = math.prod(len(given.get(key, ())) or 1 for key in CELL_KEYS)
        per_name = [
            math.prod(len(values) for key, values in dotted.items() if key.partition(".")[0] == name) for name in names
        ]
        _check_count(most * sum(per_name), limit, sure=False)
        _check_count(decked * sum(per_name), limit, sure=False)
        deck, left_out = _deck(keys, given, names, dotted)
        grid = cls(keys, {**given, **dotted}, seeds, deck, left_out)
        _check_count(grid.cells, limit, sure=True)
        return grid

    @property
    def problem_axes(self) -> dict[str, tuple[Value, ...]]:
        return {key: values for key, values in self.axes.items() if key in PROBLEM_KEYS}

    @property
    def swept(self) -> list[str]:
        """The columns that vary, in the order in which they were given: the axes, without the seed."""
        names = [
            axes.column(*key.split(".", 1)) if "." in key else key
            for key, values in self.axes.items()
            if len(values) > 1
        ]
        return list(dict.fromkeys([*names, *(["optimizer"] if len({c.optimizer.name for c in self.deck}) > 1 else [])]))

    def problems(self) -> Iterator[dict[str, str]]:
        """What each problem is, by its keys; axes that have no effect on one do not multiply it."""
        names, values = list(self.problem_axes), list(self.problem_axes.values())
        several = {key for key, each in self.problem_axes.items() if len(each) > 1}
        seen: set[str] | None = set() if several & {*MEASURED_KEYS, "blocks", "map", "heterogeneity"} else None
        for chosen in itertools.product(*values):
            said = {key: text for key, text in zip(names, chosen, strict=True) if text is not None}
            said = self._with_effect(said, several)
            if seen is not None:
                name = json.dumps(said, sort_keys=True)
                if name in seen:
                    continue
                seen.add(name)
            yield said

    def _with_effect(self, said: dict[str, str], several: set[str]) -> dict[str, str]:
        """Without what has no effect on this problem, but has on others of the grid."""
        if not several:
            return said
        measured = "case" in said and CASES[int(said["case"])].network is not None
        gone = set()
        if "case" in several and not measured and any(_measured(text) for text in self.axes["case"]):
            gone |= {*MEASURED_KEYS, "blocks"}
        if "kappa" not in said and "kappa" in several and not measured:
            gone.add("map")
        if said.get("basis") == "whole" and "basis" in several:
            gone.add("heterogeneity")
        if gone & said.keys():
            return {key: text for key, text in said.items() if key not in gone}
        return said

    @cached_property
    def problem_count(self) -> int:
        raw = math.prod(len(values) for values in self.problem_axes.values())
        several = {key for key, each in self.problem_axes.items() if len(each) > 1}
        prunes = several & {*MEASURED_KEYS, "blocks", "map", "heterogeneity"}
        return sum(1 for _ in self.problems()) if prunes and len(several) > 1 else raw

    @property
    def groups(self) -> int:
        return self.problem_count * len(self.seeds)

    @property
    def cells(self) -> int:
        return self.groups * len(self.deck)

    @cached_property
    def name(self) -> str:
        """What tells this grid from others, whatever the order of its keys and the way its numbers are written."""
        told = {key: sorted(map(str, values)) for key, values in self.axes.items()}
        told["seed"] = [str(seed) for seed in ([self.seeds[0], self.seeds[-1], len(self.seeds)])]
        told["optimizers"] = sorted({cell.optimizer.name for cell in self.deck})
        if not isinstance(self.seeds, range):
            told["seed"] = sorted(map(str, self.seeds))
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def mark(self) -> str:
        """What tells the deck, and the code that runs it, from others."""
        return hashlib.sha256(b"\n\n".join(cell.name for cell in self.deck)).hexdigest()

    def walk(self) -> Iterator[Group]:
        """All groups with all their cells, and the cells' keys."""
        everything = tuple(range(len(self.deck)))
        problems: Any = ((said, self._hashed(said)) for said in self.problems())
        if len(self.seeds) > 1:
            problems = list(problems)
        for seed in self.seeds:
            for said, begun in problems:
                of_seed = begun.copy()
                of_seed.update(f"seed={seed}\n".encode())
                keys = []
                for cell in self.deck:
                    one = of_seed.copy()
                    one.update(cell.name)
                    keys.append(one.digest()[:16])
                yield Group(said, seed, everything, tuple(keys))

    def _hashed(self, said: dict[str, str]) -> Any:
        usual = {"rotation": "1", "basis": "blocks"}
        lines = [f"{key}={text}\n" for key, text in sorted(said.items()) if usual.get(key) != text]
        data = code.of_data(said.get("case"), said.get("network"))
        return hashlib.sha256("".join([*lines, f"data={data}\n"] if data else lines).encode())

    def check(self) -> None:
        """Raise if no problem of the grid can be made: what is wrong with the first is then wrong with all."""
        first: Exception | None = None
        for said in itertools.islice(self.problems(), MOST_TRIED):
            try:
                request.read_problem(said, self.seeds[0])
                return
            except Exception as error:
                first = first or error
        if isinstance(first, InputError) and self.problem_count <= MOST_TRIED:
            raise first


def _measured(text: Value) -> bool:
    return text is not None and CASES[int(text)].network is not None


def _refuse(key: str, keys: dict[str, str]) -> None:
    """An unknown axis; a setting of an optimizer is told as such."""
    names = grammar.several("optimizers", keys.get("optimizers", request.DEFAULT_OPTIMIZERS))
    for name in names:
        kind = OPTIMIZERS.get(name.lower().replace("_", "-"))
        if kind is not None and key in kind().settings():
            raise InputError(f"{key} is a setting of an optimizer: write for example {kind.name}.{key}={keys[key]}")
    checks.choice("axis", key, axes.KEYS)


def _check_count(count: int, limit: int, *, sure: bool) -> None:
    """Raise if there are too many cells; a bound that counts cells twice may be a hundred times above."""
    if count > limit * (1 if sure else 100):
        raise InputError(
            f"the grid has {'' if sure else 'up to '}{count:,} cells, and the limit is {limit:,}: "
            f"take fewer values, or give limit={count}"
        )


def _optimizers(keys: dict[str, str]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """The optimizers' names, and the texts of the settings that are given."""
    dotted = {key: grammar.alternatives(key, text, axes.MOST_VALUES) for key, text in keys.items() if "." in key}
    said = {key: text for key, text in keys.items() if key in ("optimizers", "rules")}
    made = request.read_optimizers(said | {key: texts[0] for key, texts in dotted.items()})
    for key, texts in dotted.items():
        if len(set(texts)) < len(texts):
            twice = next(text for text in texts if texts.count(text) > 1)
            raise InputError(f"{key}={checks.shown(keys[key])} names {twice} twice")
    return [optimizer.name for optimizer in made], {key: tuple(texts) for key, texts in dotted.items()}


def _deck(
    keys: dict[str, str], given: dict[str, tuple[Value, ...]], names: list[str], dotted: dict[str, tuple[str, ...]]
) -> tuple[tuple[Cell, ...], dict[str, int]]:
    """Every optimizer with all its settings under all conditions, each cell once; and why others are left out."""
    conditions = [(said, request.read_conditions(said)) for said in _conditions(given)]
    rules = {"rules": keys["rules"]} if "rules" in keys else {}
    cells: dict[bytes, Cell] = {}
    left_out: dict[str, int] = {}
    for name in names:
        mine = {key: texts for key, texts in dotted.items() if key.partition(".")[0] == name}
        there = len(cells)
        refused = InputError(f"{name} has no cells")
        for chosen in itertools.product(*mine.values()):
            said = {key: text for key, text in zip(mine, chosen, strict=True) if text.lower() != "none"}
            try:
                optimizer = by_name(name, **dict(request.read_setting(key, text) for key, text in said.items()))
            except InputError as error:
                if sum(len(texts) > 1 for texts in mine.values()) < 2:
                    raise  # the value is wrong by itself
                refused = error
                left_out[str(error)] = left_out.get(str(error), 0) + len(conditions)
                continue
            said = said | rules if optimizer.own else said
            for words, how in conditions:
                try:
                    cell = _cell(optimizer, said, words, how)
                    cells.setdefault(cell.name, cell)
                except InputError as error:  # an engine that the optimizer does not have, noise that it cannot take
                    refused = error
                    left_out[str(error)] = left_out.get(str(error), 0) + 1
        if len(cells) == there:
            raise refused
    return tuple(cells.values()), left_out


def _conditions(given: dict[str, tuple[Value, ...]]) -> list[dict[str, str]]:
    """Every combination of the keys that are not the problem's; without what has no effect in it, if it has in others.

    What none of them can use is refused, as one run would refuse it.
    """
    mine = {key: values for key, values in given.items() if key in CELL_KEYS}
    several = any(len(values) > 1 for values in mine.values())
    found: dict[str, dict[str, str]] = {}
    refused: InputError | None = None
    for chosen in itertools.product(*mine.values()):
        said = {key: text for key, text in zip(mine, chosen, strict=True) if text is not None}
        if several and "batch" not in said and float(said.get("label_noise", 0)) == 0:
            said.pop("factor", None)
        if several and said.get("schedule") != "step":
            said = {key: text for key, text in said.items() if key not in ("every", "drop")}
        try:
            request.read_conditions(said)
        except InputError as error:
            refused = error
            continue
        found.setdefault(json.dumps(said, sort_keys=True), said)
    used = set().union(*found.values()) if found else set()
    for key, values in mine.items():
        if key not in used and any(text is not None for text in values):
            why = {"factor": "batch= or label_noise=", "every": "schedule=step", "drop": "schedule=step"}.get(key)
            raise refused or InputError(f"{key}={','.join(map(str, values))} has no use without {why}")
    if refused is not None:
        raise refused
    return list(found.values())


def _cell(optimizer: Optimizer, dotted: dict[str, str], said: dict[str, str], how: dict[str, Any]) -> Cell:
    noise, schedule = how["noise"], how["schedule"]
    engine = solver.engine_for(optimizer, said.get("engine"), noise.any or schedule.changes)
    solver.check_noise(optimizer, noise)
    tol, steps = float(said.get("tol", "1e-6")), int(said["steps"]) if "steps" in said else None
    if steps is None and (engine == "iterate" or tol == 0):
        steps = solver.USUAL_STEPS
    lr_from = "theory" if optimizer.lr is None else "given" if f"{optimizer.name}.lr" in dotted else "default"
    told = [
        optimizer.name, *(f"{key}={value!r}" for key, value in optimizer.settings().items()), engine, repr(tol),
        repr(steps), repr(how["start"]), repr(noise if noise.any else None), str(schedule),
        code.of_engine(type(optimizer), engine, noise.any),
    ]  # fmt: skip
    words = {"optimizers": optimizer.name, **said, **dotted}
    return Cell(optimizer, lr_from, engine, tol, steps, said=words, name="\n".join(told).encode(), **how)
