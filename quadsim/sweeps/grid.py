"""A grid of cells: every problem, under every seed, with the whole deck of cells.

The cells of one problem and seed are a group. Groups are counted without being made, and made one at a time: seeds
outermost, so that bases drawn for a seed serve all its problems, and a sweep that is cut short has few draws of
everything.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from quadsim import checks, grammar, request
from quadsim.checks import InputError
from quadsim.optimizers import OPTIMIZERS
from quadsim.store import HALF
from quadsim.sweeps import axes, code, deck
from quadsim.sweeps.axes import CELL_KEYS, PROBLEM_KEYS, Value
from quadsim.sweeps.deck import Cell
from quadsim.sweeps.problems import Problems, Said, in_full

LIMIT = 1_000_000  # cells; the key limit= raises it
SLACK = 20  # how many times over the combinations may be counted that turn out to be the same cells
MOST_TRIED = 200  # problems that are made before a sweep begins, in search of one that can be


@dataclass(frozen=True)
class Group:
    """One problem, by its keys and its seed, and which cells of the deck are to run on it."""

    said: Said
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
    problems: Problems
    deck: tuple[Cell, ...]
    left_out: dict[str, int]  # combinations that make no cell, by what is wrong with them

    @classmethod
    def read(cls, keys: dict[str, str], limit: int = LIMIT) -> Grid:
        for key in keys:
            if "." not in key and key not in axes.KEYS:
                _refuse(key, keys)
        _check_most(keys, limit)
        given = {key: axes.values(key, text) for key, text in keys.items() if key in axes.AXES and key != "seed"}
        seeds = axes.seeds(keys.get("seed", "0"))
        names, dotted = deck.read_optimizers(keys)
        cells, left_out = deck.read(given, names, dotted)
        problems = Problems({key: values for key, values in given.items() if key in PROBLEM_KEYS})
        grid = cls(keys, {**given, **dotted}, seeds, problems, cells, left_out)
        if grid.cells > limit:
            raise _too_many(grid.cells, limit)
        return grid

    @property
    def swept(self) -> list[str]:
        """The columns that vary, in the order in which they were given: the axes, without the seed."""
        names = [
            axes.column(*key.split(".", 1)) if "." in key else key
            for key, values in self.axes.items()
            if len(values) > 1
        ]
        return list(dict.fromkeys([*names, *(["optimizer"] if len({c.optimizer.name for c in self.deck}) > 1 else [])]))

    @property
    def groups(self) -> int:
        return self.problems.count * len(self.seeds)

    @property
    def cells(self) -> int:
        return self.groups * len(self.deck)

    @cached_property
    def name(self) -> str:
        """What tells this grid from others, whatever the order of its keys and the way its numbers are written."""
        told = {key: sorted(map(str, values)) for key, values in self.axes.items()}
        told["optimizers"] = sorted({cell.optimizer.name for cell in self.deck})
        ends = [self.seeds[0], self.seeds[-1], len(self.seeds)]
        told["seed"] = [str(seed) for seed in (ends if isinstance(self.seeds, range) else sorted(self.seeds))]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def mark(self) -> str:
        """Distinguishes this deck, the code that runs it and the data that it draws from."""
        lines = [cell.name + cell.code.digest for cell in self.deck]
        lines += [f"{name}={digest}".encode() for name, digest in self._data]
        return hashlib.sha256(b"\n\n".join(lines)).hexdigest()

    @property
    def _data(self) -> list[tuple[str, str]]:
        """The files of measured spectra that its problems draw from, each with its hash."""
        named = itertools.product(self.axes.get("case", (None,)), self.axes.get("network", (None,)))
        return sorted({code.of_data(case, network) for case, network in named})

    def codes(self) -> dict[bytes, dict[str, Any]]:
        """The fingerprints of its cells, by the code half of their keys."""
        kinds = {cell.code.digest: cell.code for cell in self.deck}.values()
        return {
            code.code_half(kind, digest, HALF): {**kind.parts(), **({"data": {name: digest}} if name else {})}
            for kind in kinds
            for name, digest in self._data
        }

    def walk(self) -> Iterator[Group]:
        """All groups with all their cells and keys: half of a key says what the cell is, half by what code."""
        everything = tuple(range(len(self.deck)))
        halves: dict[str, list[bytes]] = {}
        problems: Any = ((said, *_hashed(said)) for said in self.problems)
        if len(self.seeds) > 1:
            problems = list(problems)
        for seed in self.seeds:
            for said, begun, data in problems:
                of_seed = begun.copy()
                of_seed.update(f"seed={seed}\n".encode())
                if data not in halves:
                    halves[data] = [code.code_half(cell.code, data, HALF) for cell in self.deck]
                keys = []
                for cell, half in zip(self.deck, halves[data], strict=True):
                    one = of_seed.copy()
                    one.update(cell.name)
                    keys.append(one.digest()[:HALF] + half)
                yield Group(said, seed, everything, tuple(keys))

    def check(self) -> None:
        """Raise if no problem of the grid can be made: what is wrong with the first is then wrong with all."""
        first: Exception | None = None
        for said in itertools.islice(self.problems, MOST_TRIED):
            try:
                request.read_problem(said, self.seeds[0])
                return
            except Exception as error:
                first = first or error
        if isinstance(first, InputError) and self.problems.count <= MOST_TRIED:
            raise first


def _hashed(said: Said) -> tuple[Any, str]:
    """The beginning of the keys of a problem's cells, and the hash of its data."""
    lines = [f"{key}={text}\n" for key, text in sorted(in_full(said).items())]
    return hashlib.sha256("".join(lines).encode()), code.of_data(said.get("case"), said.get("network"))[1]


def _refuse(key: str, keys: dict[str, str]) -> None:
    """An unknown axis; a setting of an optimizer is told as such."""
    names = grammar.several("optimizers", keys.get("optimizers", request.DEFAULT_OPTIMIZERS))
    for name in names:
        kind = OPTIMIZERS.get(name.lower().replace("_", "-"))
        if kind is not None and key in kind().settings():
            raise InputError(f"{key} is a setting of an optimizer: write for example {kind.name}.{key}={keys[key]}")
    checks.choice("axis", key, axes.KEYS)


def combinations(keys: dict[str, str]) -> tuple[int, int]:
    """How many combinations the keys have, at most, and how many of them for one problem, without making any."""
    counts = {key: axes.count(key, text) for key, text in keys.items() if key not in ("optimizers", "rules")}
    names = keys.get("optimizers", request.DEFAULT_OPTIMIZERS).lower().replace("_", "-").split(",")
    settings = sum(math.prod(n for key, n in counts.items() if key.split(".")[0] == name.strip()) for name in names)
    of_one = settings * math.prod(counts.get(key, 1) for key in CELL_KEYS)
    return of_one * math.prod(counts.get(key, 1) for key in (*PROBLEM_KEYS, "seed")), of_one


def _check_most(keys: dict[str, str], limit: int) -> None:
    """Raise if there are far too many combinations, or too many for one problem, before any is made."""
    everything, of_one = combinations(keys)
    if everything > SLACK * limit or of_one > limit:
        raise _too_many(everything, limit)


def _too_many(count: int, limit: int) -> InputError:
    told = f"{count:,}" if count < 10**18 else f"{count:.3g}"
    more = f"or give limit={count if count < 10**18 else f'{count:.3g}'}"
    return InputError(f"the grid has {told} cells, and the limit is {limit:,}: take fewer values, {more}")
