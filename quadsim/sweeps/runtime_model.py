"""A model of the run time of cells: from their keys at first, then corrected by the times of finished chunks."""

from __future__ import annotations

import itertools
from typing import Any

from quadsim.engine.solver import DEFAULT_MAX_STEPS
from quadsim.problems.cases import CASES
from quadsim.sweeps.grid import Grid, Group
from quadsim.sweeps.run_configs import Cell

CLOSED_FORM_SECONDS = 5e-4  # of nine dimensions
SECONDS_PER_CUBE = 5e-9  # n³ of each block
SECONDS_PER_STEP = 3e-8  # of one lane
SECONDS_PER_SQUARE = 2e-10  # n² of each block, in each step
MAX_PROBLEMS_SAMPLED = 1000  # to estimate the mean over all


def sizes(values: dict[str, Any]) -> tuple[int, int]:
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


def seconds(cell: Cell, size: tuple[int, int]) -> float:
    """An upper estimate: a compiled run may need all its steps."""
    count, n = size
    if cell.engine == "closed-form":
        return CLOSED_FORM_SECONDS + 1e-6 * count * n + SECONDS_PER_CUBE * count * n**3
    return (
        2e-4
        + (cell.options["max_steps"] or DEFAULT_MAX_STEPS) * (SECONDS_PER_STEP + SECONDS_PER_SQUARE * count * n**2)
        + SECONDS_PER_CUBE * count * n**3
    )


def expected(grid: Grid, cells: int) -> float:
    """Seconds for this many cells of the grid on one core."""
    sample = list(itertools.islice(grid.problems, 0, None, max(1, grid.problems.count // MAX_PROBLEMS_SAMPLED)))
    total = sum(sum(seconds(cell, sizes(values)) for cell in grid.deck) for values in sample)
    return total / (len(sample) * len(grid.deck)) * cells


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
