"""The evaluation protocol: objectives by name, and the runs that they need.

A run that diverged or underflowed has an infinite objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quadsim import _validation as checks
from quadsim._validation import InputTypeError
from quadsim.engine.solver import DEFAULT_MAX_STEPS, ENGINES, solve
from quadsim.engine.trajectory import MAX_RECORDED, MAX_STEPS, Status, Trajectory
from quadsim.optimizers import Optimizer
from quadsim.problems.block_quadratic import BlockQuadratic

OBJECTIVES = ("final-loss", "steps-to-tol", "mean-log-loss")
MIN_LOSS, MIN_RELATIVE_LOSS = 1e-300, 1e-12  # smaller losses are replaced by these
MAX_HELD = 2_000_000  # recorded points, and entries of drawn Hessians, in memory at a time
CONDITIONS = ("start", "noise", "schedule")  # the other arguments of `solve` that a protocol takes

Draw = Callable[[int], BlockQuadratic]
Progress = Callable[[str, int, int], None]  # of (label of the round, seeds done, seeds in the round)


@dataclass(frozen=True)
class EvaluationProtocol:
    """How optimizers are run and scored: everything but problem, optimizer and seeds.

    The objective of a run that diverged is infinite, and so is that of one that underflowed, whose last loss is an
    artefact of float64. Other losses below 1e-300 are replaced by 1e-300.

    Parameters
    ----------
    objective : "final-loss", "steps-to-tol" or "mean-log-loss"
        In decades; smaller is better. log10 of the loss after ``max_steps`` steps; log10 of the first step with
        ‖g‖/‖g₀‖ ≤ tol, infinite if there is none within ``max_steps``; the mean over steps 1 to ``max_steps`` of
        log10 max(L/L₀, 1e-12).
    max_steps : int, optional
        By default 500, and 100,000 for "steps-to-tol".
    tol : float
    threads : int, optional
    how : dict
        start, noise, schedule: as in `solve`.
    engine : str
        As in `solve`.

    Examples
    --------
    >>> from quadsim.comparison.evaluation import EvaluationProtocol
    >>> EvaluationProtocol().max_steps, EvaluationProtocol("steps-to-tol").max_steps
    (500, 100000)
    """

    objective: str = "final-loss"
    max_steps: int | None = None
    tol: float = 1e-6
    threads: int | None = None
    how: Mapping[str, Any] = field(default_factory=dict)  # by name in `CONDITIONS`
    engine: str = "compiled"  # of the runs, as in `solve`

    def __post_init__(self) -> None:
        checks.choice("objective", self.objective, OBJECTIVES)
        checks.choice("engine", self.engine, ENGINES)
        default = DEFAULT_MAX_STEPS if self.objective == "steps-to-tol" else 500
        max_steps = default if self.max_steps is None else self.max_steps
        object.__setattr__(self, "max_steps", checks.whole("max_steps", max_steps, at_least=1, at_most=MAX_STEPS))
        object.__setattr__(self, "tol", checks.real("tol", self.tol, above=0, below=1))
        for key in self.how:
            checks.choice("argument", key, CONDITIONS)

    @property
    def record_every(self) -> int:
        """The interval between recorded steps: 1, or more for a long run."""
        assert self.max_steps is not None
        return self.max_steps // MAX_RECORDED + 1

    def score(self, run: Trajectory) -> float:
        """The objective of a run.

        Parameters
        ----------
        run : Trajectory

        Returns
        -------
        float

        Examples
        --------
        >>> from quadsim.comparison.evaluation import EvaluationProtocol
        >>> score = EvaluationProtocol("steps-to-tol").score(qs.solve(qs.case(3), qs.FrozenAdam()))
        >>> round(10**score)
        15
        """
        final = log_loss(run)
        if self.objective == "final-loss" or np.isposinf(final):
            return final
        if self.objective == "steps-to-tol":
            return np.inf if run.steps_to_tol is None else float(np.log10(max(run.steps_to_tol, 1)))
        assert self.max_steps is not None
        relative = run.loss / run.loss[0] if run.loss[0] else np.zeros_like(run.loss)
        steps = np.arange(self.record_every, self.max_steps + 1, self.record_every)
        # A run that ended earlier keeps its last loss.
        return float(np.interp(steps, run.steps, np.log10(np.maximum(relative, MIN_RELATIVE_LOSS))).mean())

    def runs(
        self,
        draw: Draw,
        optimizers: list[Optimizer],
        seeds: list[int],
        progress: Progress,
        label: str,
        *,
        whole: bool = False,
    ) -> Iterator[list[Trajectory]]:
        """The runs of several optimizers, seed by seed.

        Parameters
        ----------
        draw : function
            From a seed to a problem.
        optimizers : list of Optimizer
        seeds : list of int
        progress : function
            Called with the label, the number of seeds done and their total.
        label : str
        whole : bool
            Record the path even if the objective does not need it.

        Yields
        ------
        list of Trajectory
            The runs of a seed, in the order of the optimizers.

        Examples
        --------
        >>> from quadsim.comparison.evaluation import EvaluationProtocol
        >>> protocol = EvaluationProtocol("steps-to-tol", engine="auto")
        >>> quiet = lambda label, done, total: None
        >>> optimizers = [qs.GD(), qs.FrozenAdam()]
        >>> rows = protocol.runs(lambda seed: qs.case(3, seed=seed), optimizers, [0, 1], quiet, "runs")
        >>> [[run.steps_to_tol for run in row] for row in rows]
        [[31657, 15], [25558, 55]]
        """
        assert self.max_steps is not None
        record: int | str = self.record_every if whole or self.objective == "mean-log-loss" else self.max_steps
        tol, points = 0.0, self.max_steps // int(record) + 2
        if self.objective == "steps-to-tol":
            tol, record = self.tol, "log" if whole else record
        count = max(MAX_HELD // (points * len(optimizers)), 1)
        for first in range(0, len(seeds), count):
            runs = solve(
                draw,
                optimizers,
                seed=seeds[first : first + count],
                max_steps=self.max_steps,
                tol=tol,
                record=record,
                engine=self.engine,
                threads=self.threads,
                progress=lambda done: progress(label, first + done, len(seeds)),  # noqa: B023
                **self.how,
            )
            for begin in range(0, len(runs), len(optimizers)):
                yield list(runs[begin : begin + len(optimizers)])


def of_rounds(show: Callable[[float, str], None]) -> Progress:
    """Progress of rounds whose number is not known in advance: calls `show` with a share done and the label."""
    before = 0.0  # the share of earlier rounds

    def report(label: str, done: int, total: int) -> None:
        nonlocal before
        share = 1.0 if label == "confirming" else 0.25  # of the rest: each round a quarter, the last one all
        now = before + (1 - before) * share * done / total
        show(now, label)
        if done == total:
            before = now

    return report


def log_loss(run: Trajectory) -> float:
    """log10 of the final loss; infinite if the run diverged or underflowed."""
    return np.inf if diverged(run) or underflowed(run) else float(np.log10(max(run.loss[-1], MIN_LOSS)))


def diverged(run: Trajectory) -> bool:
    return run.status == Status.DIVERGED


def underflowed(run: Trajectory) -> bool:
    """Whether the run, or its last loss, underflowed, so that its final loss is an artefact of float64.

    In exact arithmetic Adam returns to its floor (ledger 5i). A method whose steps are proportional to the gradients
    does not: it has converged.
    """
    if run.optimizer.homogeneous:
        return False
    if run.status == Status.UNDERFLOW:
        return True
    return run.status == Status.MAX_STEPS and bool(run.loss[-1] < MIN_LOSS) and bool(run.loss[0] > 0)


def cached_draw(problem: Draw | BlockQuadratic) -> Draw:
    """The problem as a function of the seed, with a cache of small problems; a fixed problem serves all seeds."""
    if isinstance(problem, BlockQuadratic):
        return lambda seed: problem
    if not callable(problem):
        raise InputTypeError(f"problem must be a BlockQuadratic or a function of the seed, got {checks.shown(problem)}")
    cache: dict[int, BlockQuadratic] = {}

    def draw(seed: int) -> BlockQuadratic:
        if seed in cache:
            return cache[seed]
        drawn = problem(seed)
        if not isinstance(drawn, BlockQuadratic):
            raise InputTypeError(f"problem(seed) must return a BlockQuadratic, got {checks.shown(drawn)}")
        size = sum(n * n for n in drawn.sizes)
        if size * (len(cache) + 1) <= MAX_HELD:
            cache[seed] = drawn
        return drawn

    return draw
