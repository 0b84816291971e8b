"""Adversarial search: the smallest margin of an inequality over problems, starts and settings.

Random draws are weak evidence for an inequality: they rarely come near a stability threshold. A claim declares what an
adversary may choose (`Axis`) and the margin (`Search`); `search` minimises the margin by differential evolution from a
Latin hypercube, polishes with the Nelder–Mead method and confirms the best points. It uses no theory and no known
counterexample. scipy's differential_evolution has no confirmation of candidates and no restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from quadsim._validation import InputError

ISLANDS = 4  # independent searches for each claim, which can run in parallel
MIN_POPULATION, MEMBERS_PER_AXIS = 8, 6
MAX_CONFIRMED = 2  # lowest margins that are confirmed in each generation, and as many others
POLISH_SHARE = 0.1  # of the evaluations
SCALE_RANGE = (0.3, 0.8)  # of the scale factor of differential evolution
CROSSOVER = 0.9
PATIENCE, MIN_IMPROVEMENT = 15, 1e-3  # restart after so many generations without this relative improvement
RANDOM_BASE_SHARE = 0.3  # of mutants: their base is a random member instead of the best


@dataclass(frozen=True)
class Axis:
    """A named quantity that the adversary chooses: `count` numbers, uniform in [low, high] or in their logarithm."""

    name: str
    low: float
    high: float
    count: int | None = None
    log: bool = False

    @property
    def width(self) -> int:
        """Number of coordinates of the unit cube that it takes."""
        return self.count or 1

    def decode(self, unit: np.ndarray) -> np.ndarray:
        """Map points of the unit cube (points, width) to values (points,), or (points, count) if there is a count."""
        ends = np.array([self.low, self.high])
        low, high = np.log(ends) if self.log else ends
        values = low + (high - low) * unit
        values = np.clip(np.exp(values), self.low, self.high) if self.log else values
        return values if self.count else values[:, 0]

    def part(self, number: int, parts: int) -> Axis:
        """One of several equal parts of the axis."""
        unit = np.array([[number / parts], [(number + 1) / parts]])
        low, high = replace(self, count=None).decode(unit).tolist()
        return replace(self, low=low, high=high)


class Option(Axis):
    """One of several values, numbered from 0: ``Option("v0", 2)``."""

    def __init__(self, name: str, options: int) -> None:
        super().__init__(name, 0, options)

    def decode(self, unit: np.ndarray) -> np.ndarray:
        return np.minimum(self.high * unit[:, 0], self.high - 1).astype(int)


class Matrix(Axis):
    """A symmetric positive definite matrix DCD, H_11 = 1.

    D holds scales between 1/`high` and `high`. C has a unit diagonal and correlations of both signs, uniform in the
    logarithm from 1e-3 to 1: weak couplings, where cycles of Adam at large β2 lose their stability, are as likely as
    strong ones. Eigenvalues of C below `low` are lifted to it.
    """

    def __init__(self, name: str, size: int, scales: float = 4.0, least: float = 1e-3) -> None:
        super().__init__(name, least, scales, size)

    @property
    def width(self) -> int:
        return (self.count or 1) * ((self.count or 1) + 1) // 2 - 1

    def decode(self, unit: np.ndarray) -> np.ndarray:
        n = self.count or 1
        signed = 2 * unit - 1
        scales = np.hstack([np.ones((len(unit), 1)), self.high ** signed[:, : n - 1]])
        correlations = np.sign(signed[:, n - 1 :]) * 10 ** (3 * (np.abs(signed[:, n - 1 :]) - 1))
        matrix = np.zeros((len(unit), n, n))
        matrix[:, *np.triu_indices(n, 1)] = correlations
        matrix += matrix.swapaxes(1, 2) + np.eye(n)
        matrix = lift_eigenvalues(matrix, self.low) * (scales[:, :, None] * scales[:, None, :])
        matrix = matrix / matrix[:, :1, :1]
        return (matrix + matrix.swapaxes(1, 2)) / 2


def lift_eigenvalues(matrices: np.ndarray, least: float) -> np.ndarray:
    """Symmetric matrices (points, n, n), with eigenvalues below `least` raised to it."""
    values, vectors = np.linalg.eigh(matrices)
    lifted = np.einsum("kij,kj,klj->kil", vectors, np.maximum(values, least), vectors)
    return np.where((values[:, 0] < least)[:, None, None], lifted, matrices)


# Axes of many searches: a block of size three, and an error.
BLOCK, ERROR = Matrix("h", 3), Axis("e", -1, 1, 3)


@dataclass(frozen=True)
class Search:
    """What an adversary may choose, and the margin that it minimises.

    Attributes
    ----------
    axes : sequence of Axis
        The problem, the start and the settings.
    margin : callable
        The margin at one point, given the values of the axes by name, as Python numbers or arrays. A negative margin or
        NaN is a violation; it is infinite where the claim makes no statement. With ``batch`` it takes arrays with one
        row for each point.
    confirm : callable, optional
        A slower and more accurate margin, from a long run instead of a short one. Only confirmed margins are reported.
    evaluations : int
        Default number of evaluations of the margin, in all islands together.
    rounding : float, optional
        Violations up to this are attributed to rounding; by default the rounding of the claim.
    strata : str, optional
        The axis that the islands divide among them, so that a margin that is small at one end of it does not attract
        all islands to that end.
    """

    axes: Sequence[Axis]
    margin: Callable[..., Any]
    confirm: Callable[..., Any] | None = None
    evaluations: int = 4000
    rounding: float | None = None
    batch: bool = False
    strata: str | None = None

    def of_island(self, island: int) -> Search:
        """The search with the axis `strata` confined to the island's part of it."""
        axes = [axis.part(island, ISLANDS) if axis.name == self.strata else axis for axis in self.axes]
        return replace(self, axes=axes)

    @property
    def width(self) -> int:
        return sum(axis.width for axis in self.axes)

    def decode(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """The values of the axes at points of the unit cube (points, width)."""
        ends = np.cumsum([axis.width for axis in self.axes])
        return {
            axis.name: axis.decode(points[:, end - axis.width : end]) for axis, end in zip(self.axes, ends, strict=True)
        }

    def margins(self, points: np.ndarray, *, confirmed: bool = False) -> np.ndarray:
        """The margin at each point of the unit cube."""
        function = self.confirm if confirmed and self.confirm else self.margin
        values = self.decode(points)
        with np.errstate(all="ignore"):
            if self.batch:
                margins = function(**values)
            else:
                columns = [value.tolist() if value.ndim == 1 else value for value in values.values()]
                rows = (dict(zip(values, row, strict=True)) for row in zip(*columns, strict=True))
                margins = np.array([_admissible(function, row) for row in rows])
        return np.where(np.isnan(margins), -np.inf, margins)


class Worst(NamedTuple):
    """The smallest confirmed margin, its point, and the number of evaluations."""

    margin: float
    at: dict[str, Any]
    evaluations: int


def search(task: Search, rng: np.random.Generator, evaluations: int, island: int = 0) -> Worst:
    """One island: minimise the margin with about this many evaluations, confirmations included."""
    task = task.of_island(island)
    local = int(POLISH_SHARE * evaluations)
    point, margin, spent = _evolve(task, rng, evaluations - local)
    if local > task.width and np.isfinite(margin):
        polished, more = _polish(task, point, local)
        spent += more
        confirmed = float(task.margins(polished[None], confirmed=True)[0])
        if confirmed < margin:
            point, margin = polished, confirmed
    at = {name: np.asarray(value[0]).tolist() for name, value in task.decode(point[None]).items()}
    return Worst(margin, at, spent)


def least(islands: Sequence[Worst]) -> Worst:
    """The worst of several islands, with the evaluations of all."""
    worst = min(islands, key=lambda island: island.margin)
    return worst._replace(evaluations=sum(island.evaluations for island in islands))


def _evolve(task: Search, rng: np.random.Generator, evaluations: int) -> tuple[np.ndarray, float, int]:
    """Differential evolution (Storn and Price 1997) in the unit cube with reflecting bounds, restarted when it stalls.

    Returns the best point, its margin and the number of evaluations.
    """
    count = int(np.clip(MEMBERS_PER_AXIS * task.width, MIN_POPULATION, max(MIN_POPULATION, evaluations // 8)))
    points = _latin_hypercube(rng, count, task.width)
    margins, spent = _confirmed_margins(task, rng, points, np.inf)
    record, stalled = (points[0], np.inf), 0
    while spent + count <= evaluations:
        lowest = float(margins.min())
        if stalled >= PATIENCE:
            record = min(record, (points[np.argmin(margins)], lowest), key=lambda pair: pair[1])
            points = _latin_hypercube(rng, count, task.width)
            (margins, more), stalled = _confirmed_margins(task, rng, points, np.inf), 0
            spent += more
            continue
        partners = np.array([rng.choice(count, 3, replace=False) for _ in range(count)])
        best = points[np.argmin(margins)]
        base = np.where(rng.uniform(size=(count, 1)) < RANDOM_BASE_SHARE, points[partners[:, 0]], best)
        scale = rng.uniform(*SCALE_RANGE, size=(count, 1))
        mutants = np.abs(base + scale * (points[partners[:, 1]] - points[partners[:, 2]]))
        mutants = np.clip(1 - np.abs(1 - mutants), 0, 1)
        crossed = rng.uniform(size=points.shape) < CROSSOVER
        crossed[np.arange(count), rng.integers(task.width, size=count)] = True
        trial = np.where(crossed, mutants, points)
        trial_margins, more = _confirmed_margins(task, rng, trial, lowest)
        spent += more
        improved = trial_margins.min() < lowest - MIN_IMPROVEMENT * max(abs(lowest), MIN_IMPROVEMENT)
        stalled = 0 if improved else stalled + 1
        points = np.where((trial_margins <= margins)[:, None], trial, points)
        margins = np.minimum(trial_margins, margins)
    best, margin = min(record, (points[np.argmin(margins)], float(margins.min())), key=lambda pair: pair[1])
    return best, margin, spent


def _latin_hypercube(rng: np.random.Generator, count: int, width: int) -> np.ndarray:
    strata = np.array([rng.permutation(count) for _ in range(width)]).T
    return (strata + rng.uniform(size=strata.shape)) / count


def _confirmed_margins(
    task: Search, rng: np.random.Generator, points: np.ndarray, best: float
) -> tuple[np.ndarray, int]:
    """The margins at points, and the number of evaluations.

    A margin below the best so far counts only if it is confirmed, since a long transient would mislead the search: the
    lowest margins and some others are confirmed, the rest are discarded.
    """
    margins = task.margins(points)
    lowest = np.argsort(margins, kind="stable")
    lowest = lowest[margins[lowest] < best]
    if task.confirm is None or not lowest.size:
        return margins, len(points)
    chosen = np.append(lowest[:MAX_CONFIRMED], rng.permutation(lowest[MAX_CONFIRMED:])[:MAX_CONFIRMED])
    margins[lowest] = np.inf
    margins[chosen] = task.margins(points[chosen], confirmed=True)
    return margins, len(points) + chosen.size


def _polish(task: Search, start: np.ndarray, evaluations: int) -> tuple[np.ndarray, int]:
    """The Nelder–Mead method from a point, within the unit cube; the best point and the number of evaluations."""
    from scipy.optimize import minimize

    def margin(x: np.ndarray) -> float:
        return float(task.margins(np.clip(x, 0, 1)[None])[0])

    simplex = np.vstack([start, start + 0.02 * np.where(start > 0.5, -1, 1)[:, None] * np.eye(start.size)])
    options: Any = {"maxfev": evaluations, "initial_simplex": simplex}
    with np.errstate(all="ignore"):
        result = minimize(margin, start, method="Nelder-Mead", options=options)
    return np.clip(result.x, 0, 1), int(result.nfev)


def _admissible(function: Callable[..., Any], row: dict[str, Any]) -> float:
    """The margin at one point; infinite where the problem is invalid, such as a block that is too ill-conditioned."""
    try:
        return float(function(**row))
    except InputError:
        return np.inf
