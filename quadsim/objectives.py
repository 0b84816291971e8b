"""What is minimised, by its name: a run → a number, and the runs that it takes.

A run that diverged or underflowed counts as infinitely bad. Nothing here chooses anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quadsim import checks
from quadsim.checks import InputError, InputTypeError
from quadsim.optimizers import Optimizer
from quadsim.problem import BlockQuadratic
from quadsim.solver import USUAL_STEPS, solve_draws
from quadsim.trajectory import MOST_RECORDED, MOST_STEPS, Status, Trajectory

OBJECTIVES = ("final-loss", "steps-to-tol", "mean-log-loss")
LEAST_LOSS, LEAST_RELATIVE = 1e-300, 1e-12  # losses below these count as these
KEPT = 2_000_000  # recorded points, and entries of drawn Hessians, held at a time

Draw = Callable[[int], BlockQuadratic]


@dataclass(frozen=True)
class Terms:
    """How runs are made and judged: everything but the problem, the optimizer and the seeds.

    ``objective`` is in decades, and smaller is better:

    - "final-loss": log10 of the loss after ``steps`` steps;
    - "steps-to-tol": log10 of the first step with ‖g‖/‖g₀‖ ≤ tol, infinite if there is none within ``steps``;
    - "mean-log-loss": mean over steps 1 to ``steps`` of log10 max(L/L₀, 1e-12).

    A run that diverged is infinitely bad, and so is one that left float64's range (`underflowed`): its last loss is an
    artefact. Other losses below 1e-300 count as 1e-300.
    """

    objective: str = "final-loss"
    steps: int | None = None
    tol: float = 1e-6
    threads: int | None = None
    how: Mapping[str, Any] = field(default_factory=dict)  # noise, schedule, start: for the solver

    def __post_init__(self) -> None:
        checks.choice("objective", self.objective, OBJECTIVES)
        usual = USUAL_STEPS if self.objective == "steps-to-tol" else 500
        steps = usual if self.steps is None else self.steps
        object.__setattr__(self, "steps", checks.whole("steps", steps, at_least=1, at_most=MOST_STEPS))
        object.__setattr__(self, "tol", checks.real("tol", self.tol, above=0, below=1))
        for key in self.how:
            checks.choice("argument", key, ("noise", "schedule", "start"))

    @property
    def every(self) -> int:
        """Which steps are looked at on the way: every one, or every k-th of a long run."""
        assert self.steps is not None
        return self.steps // MOST_RECORDED + 1

    def score(self, run: Trajectory) -> float:
        """The objective of a run."""
        if diverged(run) or underflowed(run):
            return np.inf
        if self.objective == "final-loss":
            return log_loss(run)
        if self.objective == "steps-to-tol":
            return np.inf if run.steps_to_tol is None else float(np.log10(max(run.steps_to_tol, 1)))
        assert self.steps is not None
        relative = run.loss / run.loss[0] if run.loss[0] else np.zeros_like(run.loss)
        at = np.arange(self.every, self.steps + 1, self.every)  # a run that ended before stays where it was
        return float(np.interp(at, run.steps, np.log10(np.maximum(relative, LEAST_RELATIVE))).mean())

    def runs(
        self, draw: Draw, optimizers: Sequence[Optimizer], seeds: Sequence[int], *, whole: bool, told: Callable
    ) -> Iterator[list[Trajectory]]:
        """The optimizers' runs, seed by seed; recorded on the way, or (not ``whole``) as the objective needs them."""
        assert self.steps is not None
        record: int | str = self.every if whole or self.objective == "mean-log-loss" else self.steps
        tol, points = 0.0, self.steps // int(record) + 2
        if self.objective == "steps-to-tol":
            tol, record = self.tol, "log" if whole else record
        held = max(KEPT // (points * len(optimizers)), 1)
        for first in range(0, len(seeds), held):
            part = seeds[first : first + held]
            lanes = solve_draws(
                draw, optimizers, part, max_steps=self.steps, tol=tol, record=record, threads=self.threads,
                progress=lambda done: told(first + done), **self.how,  # noqa: B023
            )  # fmt: skip
            for place in range(len(part)):
                yield [lanes[place * len(optimizers) + k] for k in range(len(optimizers))]


def log_loss(run: Trajectory) -> float:
    """log10 of the final loss; infinite if the run diverged or underflowed."""
    return np.inf if diverged(run) or underflowed(run) else float(np.log10(max(run.loss[-1], LEAST_LOSS)))


def diverged(run: Trajectory) -> bool:
    return run.status == Status.DIVERGED


def underflowed(run: Trajectory) -> bool:
    """Whether the run, or its last loss, left float64's range, so that the loss there says nothing of the method.

    In exact arithmetic Adam comes back from there to its floor (ledger 5i). A method whose steps are proportional to
    the gradients does not: it has converged, and its loss is below every number that counts.
    """
    if run.optimizer.linear:
        return False
    if run.status == Status.UNDERFLOW:
        return True
    return run.status == Status.MAX_STEPS and bool(run.loss[-1] < LEAST_LOSS) and bool(run.loss[0] > 0)


def remembered(draw: Draw | BlockQuadratic) -> Draw:
    """The draw, with the problems of earlier rounds at hand as long as they are small; a problem draws itself."""
    if isinstance(draw, BlockQuadratic):
        return lambda seed: draw
    if not callable(draw):
        raise InputTypeError(f"draw must be a function of the seed, or a BlockQuadratic, got {checks.shown(draw)}")
    known: dict[int, BlockQuadratic] = {}

    def drawn(seed: int) -> BlockQuadratic:
        if seed in known:
            return known[seed]
        problem = draw(seed)
        if not isinstance(problem, BlockQuadratic):
            raise InputTypeError(f"draw must return a BlockQuadratic, got {checks.shown(problem)}")
        size = sum(n * n for n in problem.sizes)
        if size * (len(known) + 1) <= KEPT:
            known[seed] = problem
        return problem

    return drawn


def seeds_of(name: str, seeds: Any, at_least: int = 1) -> list[int]:
    """The seeds as a list, each once."""
    if isinstance(seeds, str | Mapping) or not isinstance(seeds, Sequence | np.ndarray | range):
        raise InputTypeError(f"{name} must be a list of whole numbers, got {checks.shown(seeds)}")
    listed = [checks.whole(name, seed, at_least=0) for seed in seeds]
    if len(set(listed)) < len(listed):
        twice = next(seed for seed in listed if listed.count(seed) > 1)
        raise InputError(f"{name} must differ from each other, got {twice} twice")
    if len(listed) < at_least:
        raise InputError(f"{name} must name at least {at_least}, got {len(listed)}")
    return listed
