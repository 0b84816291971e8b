"""A model of the run time of cells, from their keys. Measured times of cells correct it.

The numbers are those of one machine; only their ratios matter once cells were timed. `pilot` times a sample before the
run, and `Pace` learns from every finished chunk.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from typing import Any, NamedTuple

from quadsim.engine.solver import DEFAULT_MAX_STEPS
from quadsim.problems.cases import CASES
from quadsim.sweeps.grid import Grid, Group
from quadsim.sweeps.run_configs import Cell

BUILD_SECONDS, BUILD_PER_CUBE = 7e-4, 8e-9  # of a problem: its random bases are n³ of each block
CLOSED_FORM_SECONDS = 8e-4  # of nine dimensions
SECONDS_PER_CUBE = 5e-9  # n³ of each block
COMPILED_SECONDS = 4e-4  # of a lane besides its steps
SECONDS_PER_STEP = 3e-8  # of one lane
SECONDS_PER_SQUARE = 2e-10  # n² of each block, in each step
MAX_PROBLEMS_SAMPLED = 1000  # to estimate the mean over all

Kind = tuple[str, str]  # optimizer and engine: cells of a kind have one correction
Size = tuple[int, int]  # the number of blocks and their size


class Cost(NamedTuple):
    """Seconds of a cell: of its steps, if all are taken, and of everything else."""

    fixed: float
    steps: float


def kind(cell: Cell) -> Kind:
    return cell.optimizer.name, cell.engine


def sizes(values: dict[str, Any]) -> Size:
    """The number of blocks of a problem and their size, from its keys."""
    spectrum, blocks = values.get("spectrum"), values.get("blocks")
    if "case" in values:
        recipe = CASES[values["case"]]
        count, size = len(recipe.blocks if blocks is None else blocks) or 3, values.get("block_size", recipe.block_size)
    elif isinstance(spectrum, tuple):
        count, size = len(spectrum), max(len(block) for block in spectrum)
    else:
        count, size = blocks if isinstance(blocks, int) else 3, values.get("block_size", 3)
    return (1, count * size) if values.get("span") == "whole" else (count, size)


def build_seconds(size: Size) -> float:
    count, n = size
    return BUILD_SECONDS + BUILD_PER_CUBE * count * n**3


def step_seconds(size: Size) -> float:
    """Of one step of one lane."""
    count, n = size
    return SECONDS_PER_STEP + SECONDS_PER_SQUARE * count * n**2


def max_steps(cell: Cell) -> int:
    return int(cell.options["max_steps"] or DEFAULT_MAX_STEPS)


def cost(cell: Cell, size: Size) -> Cost:
    """The cost of a cell without that of building its problem."""
    count, n = size
    if cell.engine == "closed-form":
        return Cost(CLOSED_FORM_SECONDS + 1e-6 * count * n + SECONDS_PER_CUBE * count * n**3, 0.0)
    return Cost(COMPILED_SECONDS + SECONDS_PER_CUBE * count * n**3, max_steps(cell) * step_seconds(size))


def seconds(cell: Cell, size: Size) -> float:
    """An upper estimate: a compiled run may need all its steps."""
    return build_seconds(size) + sum(cost(cell, size))


class Totals(NamedTuple):
    """The cost of all cells of a grid by the model: of building its problems, and of each kind of cell."""

    build: float
    cells: dict[Kind, Cost]


def sampled_problems(grid: Grid) -> list[dict[str, Any]]:
    """The keys of up to `MAX_PROBLEMS_SAMPLED` problems, spread over all."""
    return list(itertools.islice(grid.problems, 0, None, max(1, grid.problems.count // MAX_PROBLEMS_SAMPLED)))


def totals(grid: Grid, problems: list[dict[str, Any]] | None = None) -> Totals:
    """The cost of the whole grid by the model."""
    problems = sampled_problems(grid) if problems is None else problems
    found, scale = Counter(map(sizes, problems)), grid.groups / len(problems)
    cells: defaultdict[Kind, Cost] = defaultdict(lambda: Cost(0.0, 0.0))
    for size, count in found.items():
        for cell in grid.deck:
            one, name = cost(cell, size), kind(cell)
            before = cells[name]
            cells[name] = Cost(before.fixed + scale * count * one.fixed, before.steps + scale * count * one.steps)
    return Totals(sum(scale * count * build_seconds(size) for size, count in found.items()), dict(cells))


class Pace:
    """The run time of cells, corrected by the times of finished chunks."""

    def __init__(self, grid: Grid) -> None:
        self._deck = grid.deck
        self._correction = {"closed-form": 4.0, "compiled": 4.0}  # so that the first chunks are short

    def of(self, group: Group, index: int) -> float:
        """Seconds for a cell of the group, by its index there."""
        cell = self._deck[group.cells[index]]
        return seconds(cell, sizes(group.values)) * self._correction[cell.engine]

    def learn(self, groups: list[Group], took: float) -> None:
        guessed = dict.fromkeys(self._correction, 0.0)
        for group in groups:
            for index, number in enumerate(group.cells):
                guessed[self._deck[number].engine] += self.of(group, index)
        total = sum(guessed.values())
        off = min(max(took / total, 0.25), 4.0)
        for engine, share in guessed.items():
            self._correction[engine] *= off ** (0.5 * share / total)


class Remaining:
    """The time left of a sweep that runs, from the times of its rows: cells count by their cost, not by their number.

    The kinds of cells that have not run yet are corrected like the others of their engine.
    """

    def __init__(self, grid: Grid, done: int) -> None:
        whole, share = totals(grid), 1 - done / grid.cells
        count = len(grid.deck)
        self._build = whole.build / grid.cells  # of each cell
        self._deck, self._began, self._spent = grid.deck, time.monotonic(), 0.0
        per_kind = Counter(map(kind, grid.deck))
        self._left = {
            name: share * (sum(one) + whole.build * per_kind[name] / count) for name, one in whole.cells.items()
        }
        self._seen = {name: [0.0, 0.0] for name in self._left}  # seconds measured, and by the model

    def learn(self, groups: list[Group], rows: list[dict[str, Any]], took: float) -> None:
        """Count a finished chunk: its rows are in the order of its cells."""
        self._spent += took
        measured = sum(row["seconds"] for row in rows) or 1.0
        numbers = ((number, sizes(group.values)) for group in groups for number in group.cells)
        for (number, size), row in zip(numbers, rows, strict=True):
            name = kind(self._deck[number])
            guessed = sum(cost(self._deck[number], size)) + self._build
            self._seen[name][0] += row["seconds"] * took / measured
            self._seen[name][1] += guessed
            self._left[name] -= guessed

    def seconds(self) -> float | None:
        """Seconds left at the rate so far; None before the first chunk."""
        if not self._spent:
            return None
        by_engine = {engine: [0.0, 0.0] for _, engine in self._seen}
        for (_, engine), (measured, guessed) in self._seen.items():
            by_engine[engine][0] += measured
            by_engine[engine][1] += guessed
        overall = self._spent / sum(guessed for _, guessed in by_engine.values())
        left = 0.0
        for name, guess in self._left.items():
            measured, guessed = self._seen[name] if self._seen[name][1] else by_engine[name[1]]
            left += max(guess, 0.0) * (measured / guessed if guessed else overall)
        speed = self._spent / max(time.monotonic() - self._began, 1e-9)  # chunks that run at the same time
        return left / speed
