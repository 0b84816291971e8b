"""How long cells take: guessed from their keys before anything runs, then learned from the chunks that come in."""

from __future__ import annotations

import itertools

from quadsim.cases import CASES
from quadsim.solver import USUAL_STEPS
from quadsim.sweeps.deck import Cell
from quadsim.sweeps.grid import Grid, Group

EXACT = 5e-4  # seconds of a closed form in nine dimensions
CUBED = 5e-9  # and for every n³ of its blocks
STEP = 3e-8  # of an iterated step of one lane
SQUARED = 2e-10  # and for every n² of its blocks
SAMPLED = 1000  # problems that stand for all


def sizes(said: dict[str, str]) -> tuple[int, int]:
    """How many blocks a problem has, and of what size, as its keys say."""
    if "case" in said:
        recipe = CASES[int(said["case"])]
        names = said.get("blocks", "").split(",") if "blocks" in said else recipe.blocks
        count, size = len(names) or 3, int(said.get("block_size", recipe.block_size))
    elif "/" in said.get("spectrum", "") or "," in said.get("spectrum", ""):
        blocks = said["spectrum"].split("/")
        count, size = len(blocks), max(block.count(",") + 1 for block in blocks)
    else:
        text = said.get("blocks", "3")
        count, size = int(text) if text.isdigit() else 3, int(said.get("block_size", 3))
    return (1, count * size) if said.get("basis") == "whole" else (count, size)


def seconds(cell: Cell, size: tuple[int, int]) -> float:
    """At most, roughly: an iterated run may take all its steps."""
    count, n = size
    if cell.engine == "exact":
        return EXACT + 1e-6 * count * n + CUBED * count * n**3
    return 2e-4 + (cell.steps or USUAL_STEPS) * (STEP + SQUARED * count * n**2) + CUBED * count * n**3


def expected(grid: Grid, cells: int) -> float:
    """Seconds for so many cells of the grid, one after the other."""
    total, each = 0.0, max(1, grid.problems.count // SAMPLED)
    seen = 0
    for said in itertools.islice(grid.problems, 0, None, each):
        total += sum(seconds(cell, sizes(said)) for cell in grid.deck)
        seen += 1
    return total / (seen * len(grid.deck)) * cells


class Pace:
    """What cells cost, corrected by what chunks took."""

    def __init__(self, grid: Grid) -> None:
        self._deck = grid.deck
        self._factor = {"exact": 4.0, "iterate": 4.0}  # first chunks are short

    def of(self, group: Group, place: int) -> float:
        """Seconds for the cell at this place of the group."""
        cell = self._deck[group.cells[place]]
        return seconds(cell, sizes(group.said)) * self._factor[cell.engine]

    def learn(self, groups: list[Group], took: float) -> None:
        guessed = dict.fromkeys(self._factor, 0.0)
        for group in groups:
            for place, number in enumerate(group.cells):
                guessed[self._deck[number].engine] += self.of(group, place)
        total = sum(guessed.values())
        off = min(max(took / total, 0.25), 4.0)
        for engine, share in guessed.items():
            self._factor[engine] *= off ** (0.5 * share / total)
