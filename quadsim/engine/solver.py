"""`solve`: check the arguments, draw the starts, choose the engine for each optimizer and run it.

This is the only place that decides on an engine. `engine.compiled` runs steps, `engine.closed_form` evaluates linear
methods without them. No plotting, no files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any, NamedTuple, overload

import numpy as np

from quadsim import _validation as checks
from quadsim._random import MAX_SEED
from quadsim._validation import InputError, InputTypeError
from quadsim.engine.closed_form import exact as closed_form
from quadsim.engine.compiled import batching
from quadsim.engine.compiled.kernel_source import requested_names
from quadsim.engine.trajectory import MAX_STEPS, Runs, Trajectory, record_marks
from quadsim.optimizers import Optimizer, schedules
from quadsim.optimizers.schedules import Schedule
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.noise import Noise

ENGINES = ("auto", "compiled", "closed-form")
DEFAULT_MAX_STEPS = 100_000

Problem = BlockQuadratic | Callable[[int], BlockQuadratic]
Progress = Callable[[int], None]


@overload
def solve(problem: Problem, optimizer: Optimizer, *, seed: int = 0, **options: Any) -> Trajectory: ...
@overload
def solve(problem: Problem, optimizer: Sequence[Optimizer], *, seed: Any = 0, **options: Any) -> Runs: ...
@overload
def solve(problem: Problem, optimizer: Optimizer, *, seed: Iterable[int], **options: Any) -> Runs: ...
def solve(  # type: ignore[misc]  # the overloads name only the arguments that the type of the result depends on
    problem: Any,
    optimizer: Any,
    *,
    w0: Any = None,
    e0: Any = None,
    start: str | float = "gaussian",
    seed: Any = 0,
    max_steps: int | None = None,
    tol: float = 1e-6,
    record: str | int = "log",
    engine: str = "auto",
    noise: Noise | None = None,
    schedule: Schedule | str = "constant",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Trajectory | Runs:
    """Run optimizers on a problem, or on the draws of a random problem.

    Parameters
    ----------
    problem : BlockQuadratic, or a function of the seed that returns one
        A function draws a problem for each seed; the same seed also fixes start and noise.
    optimizer : Optimizer, or a list of them
    w0 : array, optional
        The start, of shape (dim,); one for each seed, (seeds, dim); or one for each seed and optimizer,
        (seeds, optimizers, dim). Several starts with one seed all use that seed. By default w* + e₀ with e₀ drawn.
    e0 : array, optional
        The start as its error e₀ = w₀ − w*, without the rounding of w₀; in place of w0, in the same shapes.
    start : "gaussian", "ones" or float
        How e₀ is drawn if neither w0 nor e0 is given, as in `BlockQuadratic.initial_error`.
    seed : int, or a list or range of them
        Fixes the problem if it is drawn, the start if it is not given, the noise, and an optimizer's own randomness.
    max_steps : int, optional
        The last step to take. By default 100,000; closed forms take as many as they need for tol > 0, up to 10¹².
    tol : float
        Stop at the first step with ‖g‖/‖g₀‖ ≤ tol; 0 never stops.
    record : "log", "coarse" or int
        Which steps to keep: about 2000 log-spaced ones (every one at first), about 64 of them, or every k-th.
    engine : "auto", "compiled" or "closed-form"
        "auto" is the closed form where the optimizer has one and there is neither noise nor a changing learning rate.
    noise : Noise, optional
        Minibatches, gradient noise, label noise. Loss, gradient norm and tol are those of the full gradient.
    schedule : Schedule or its name
        The factor on the learning rate at each step.
    threads : int, optional
        Threads for batches of compiled runs, or for the draws of a problem; as many as cores by default.
    progress : callable, optional
        With one problem, called with the step reached: about ten times a second by each batch of compiled runs, and
        by the search for the first passage of a closed form. With draws, called with the number of seeds done.

    Returns
    -------
    Trajectory or Runs
        One problem, optimizer, seed and start give a `Trajectory`; a list of any gives `Runs`, a sequence in the order
        of the seeds (or starts), and of the optimizers within each. A run's numbers depend on its own definition
        alone, not on the runs beside it.

    >>> qs.solve(qs.case(3), qs.FrozenAdam()).steps_to_tol
    15
    >>> qs.solve(qs.case(3), [qs.Adam(lr=lr) for lr in (0.01, 0.1)], seed=range(5)).table()  # doctest: +SKIP
    >>> qs.solve(lambda seed: qs.case(1, seed=seed), qs.GD(), seed=range(100)).table()  # doctest: +SKIP
    """
    optimizers, seeds = _optimizers(optimizer), _seeds(seed)
    starts = _Starts(w0, e0, start, len(optimizers))
    if starts.count > 1 and len(seeds) == 1:
        seeds = seeds * starts.count
    if starts.count not in (1, len(seeds)):
        raise InputError(f"{starts.count} starts and {len(seeds)} seeds do not match: give as many of each, or one")
    conditions = _conditions(max_steps, tol, record, noise, schedule)
    threads = cores() if threads is None else checks.whole("threads", threads, at_least=1)
    if progress is not None and not callable(progress):
        raise InputTypeError(f"progress must be a function of one whole number, got {checks.shown(progress)}")
    engines = [engine_for(one, engine, conditions.changing) for one in optimizers]
    for one in optimizers:
        check_noise(one, conditions.noise)
    seeded = not starts.given or not isinstance(problem, BlockQuadratic)

    def specs(drawn: BlockQuadratic, row: int) -> list[_RunSpec]:
        errors = starts.errors(drawn, row, seeds[row])
        return [_RunSpec(*own, seeds[row], seeded) for own in zip(optimizers, engines, errors, strict=True)]

    if isinstance(problem, BlockQuadratic):
        every = [spec for row in range(len(seeds)) for spec in specs(problem, row)]
        runs = _solve_fixed(problem, every, conditions, threads, progress)
    elif callable(problem):

        def solve_seed(row: int, check: Progress) -> list[Trajectory]:
            drawn = problem(seeds[row])
            if not isinstance(drawn, BlockQuadratic):
                raise InputTypeError(f"problem(seed) must return a BlockQuadratic, got {checks.shown(drawn)}")
            return _solve_fixed(drawn, specs(drawn, row), conditions, 1, check)

        runs = _each_seed(solve_seed, len(seeds), threads, progress)
    else:
        raise InputTypeError(f"problem must be a BlockQuadratic or a function of the seed, got {checks.shown(problem)}")
    several = starts.listed or _is_list(seed) or not isinstance(optimizer, Optimizer)
    return Runs(tuple(runs)) if several else runs[0]


def engine_for(optimizer: Optimizer, engine: str = "auto", changing: bool = False) -> str:
    """The engine that runs this optimizer, "compiled" or "closed-form"; raises if the requested one cannot.

    ``changing`` says that there is noise or a changing learning rate: no method has a closed form then.
    """
    known = closed_form.has_closed_form(optimizer)
    if checks.choice("engine", engine, ENGINES) == "auto":
        return "closed-form" if known and not changing else "compiled"
    if engine == "closed-form" and changing:
        raise InputError(
            "engine=closed-form allows neither noise nor a changing learning rate: use engine=compiled or auto"
        )
    if engine == "closed-form" and not known:
        raise InputError(f"{optimizer.name} has no closed form: use engine=compiled or auto")
    return engine


def step_limit(engine: str, max_steps: int | None, tol: float) -> int | None:
    """The last step to take; None for a closed form that takes as many as it needs to reach tol."""
    if max_steps is None and (engine == "compiled" or tol == 0):
        return DEFAULT_MAX_STEPS
    return max_steps


def check_noise(optimizer: Optimizer, noise: Noise | None) -> None:
    """Raise if the optimizer would be a different method under this noise."""
    if noise is not None and noise.any and optimizer.exact_gradients:
        raise InputError(f"{optimizer.name} needs gradients without noise: use sgd with nesterov, or no noise")


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class _Conditions:
    """What all runs of a call share."""

    max_steps: int | None
    tol: float
    record: str | int
    noise: Noise
    schedule: Schedule

    @property
    def changing(self) -> bool:
        """Whether there is noise or a changing learning rate."""
        return self.noise.any or self.schedule.changes


def _conditions(max_steps: Any, tol: Any, record: Any, noise: Any, schedule: Any) -> _Conditions:
    """The conditions, checked."""
    if max_steps is not None:
        max_steps = checks.whole("max_steps", max_steps, at_least=0, at_most=MAX_STEPS)
    tol = checks.real("tol", tol, at_least=0)
    record_marks(record, 0)  # raises if record is invalid
    noise = Noise() if noise is None else noise
    if not isinstance(noise, Noise):
        raise InputTypeError(f"noise must be a Noise, such as Noise(batch=3), got {checks.shown(noise)}")
    return _Conditions(max_steps, tol, record, noise, schedules.schedule(schedule))


class _RunSpec(NamedTuple):
    """One run to compute. ``seeded`` says that its problem or its start comes from the seed."""

    optimizer: Optimizer
    engine: str
    error: np.ndarray
    seed: int
    seeded: bool


class _Starts:
    """The starts as given: one for all runs, one for each seed, or one for each seed and optimizer."""

    def __init__(self, w0: Any, e0: Any, start: str | float, optimizers: int) -> None:
        if w0 is not None and e0 is not None:
            raise InputError("give w0 or e0, not both: e0 means w0 = minimizer + e0")
        self.name, given = ("w0", w0) if e0 is None else ("e0", e0)
        self.start, self.optimizers, self.given = start, optimizers, given is not None
        depth = _depth(given)
        self.listed = depth > 1
        rows = list(given) if self.listed else [given]
        self.rows = [list(row) if depth > 2 else [row] * optimizers for row in rows]
        self.count = len(self.rows)
        if self.count == 0:
            raise InputError(f"{self.name} must hold at least one start")
        if any(len(row) != optimizers for row in self.rows):
            raise InputError(f"{self.name} must have one start for each of {optimizers} optimizers in each row")

    def errors(self, problem: BlockQuadratic, row: int, seed: int) -> list[np.ndarray]:
        """The initial errors of a seed's runs, one for each optimizer."""
        if not self.given:
            return [problem.initial_error(seed, self.start)] * self.optimizers
        given = self.rows[row % self.count]
        if all(one is given[0] for one in given):
            return [problem.error_of(**{self.name: given[0]})] * self.optimizers
        return [problem.error_of(**{self.name: one}) for one in given]


def _depth(value: Any) -> int:
    """How deeply lists or arrays are nested: 1 for a vector."""
    if isinstance(value, list | tuple):
        return 1 + (_depth(value[0]) if value else 0)
    return np.ndim(value)


def _is_list(value: Any) -> bool:
    scalar = isinstance(value, np.ndarray) and value.ndim == 0
    return isinstance(value, Iterable) and not isinstance(value, str) and not scalar


def _optimizers(given: Any) -> list[Optimizer]:
    listed = list(given) if _is_list(given) else [given]
    for one in listed:
        if not isinstance(one, Optimizer):
            raise InputTypeError(f"optimizer must be one such as GD() or Adam(), got {checks.shown(one)}")
    if not listed:
        raise InputError("optimizer must name at least one")
    return listed


def _seeds(given: Any) -> list[int]:
    listed = list(given) if _is_list(given) else [given]
    if not listed:
        raise InputError("seed must name at least one")
    return [checks.whole("seed", seed, at_least=0, at_most=MAX_SEED) for seed in listed]


def _each_seed(
    solve_seed: Callable[[int, Progress], list[Trajectory]], count: int, threads: int, progress: Progress | None
) -> list[Trajectory]:
    """The runs of all seeds, seed by seed, on threads."""
    cancelled = Event()

    def check(step: int = 0) -> None:
        if cancelled.is_set():
            raise KeyboardInterrupt

    runs = solve_seed(0, check)  # by itself, so that kernels are compiled once
    if progress is not None:
        progress(1)
    with ThreadPoolExecutor(threads) as pool:
        tasks = [pool.submit(solve_seed, row, check) for row in range(1, count)]
        try:
            for done, task in enumerate(tasks, start=2):
                runs += task.result()
                if progress is not None:
                    progress(done)
        except BaseException:  # including Ctrl-C: leaving the pool waits for its threads
            cancelled.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return runs


def _solve_fixed(
    problem: BlockQuadratic, specs: list[_RunSpec], conditions: _Conditions, threads: int, progress: Progress | None
) -> list[Trajectory]:
    """The runs on one problem, in order; each engine takes all of its runs at once."""
    conditions.noise.check(problem)
    found = {}
    for engine, run in (("closed-form", closed_form_runs), ("compiled", compiled_runs)):
        if mine := [spec for spec in specs if spec.engine == engine]:
            found[engine] = iter(run(problem, mine, conditions, threads, progress))
    return [next(found[spec.engine]) for spec in specs]


def closed_form_runs(
    problem: BlockQuadratic, specs: list[_RunSpec], conditions: _Conditions, threads: int, progress: Progress | None
) -> list[Trajectory]:
    """Entry point of the closed-form engine; one run after the other, as closed forms hold the GIL."""
    max_steps = step_limit("closed-form", conditions.max_steps, conditions.tol)
    runs = []
    for spec in specs:
        if progress is not None:
            progress(0)
        run = closed_form.run(
            problem,
            spec.optimizer,
            spec.error,
            seed=spec.seed if spec.seeded else None,
            max_steps=max_steps,
            tol=conditions.tol,
            record=conditions.record,
            progress=progress,
        )
        runs.append(run)
    return runs


def compiled_runs(
    problem: BlockQuadratic, specs: list[_RunSpec], conditions: _Conditions, threads: int, progress: Progress | None
) -> list[Trajectory]:
    """Entry point of the compiled engine: batches of runs, on threads."""
    max_steps = step_limit("compiled", conditions.max_steps, conditions.tol)
    assert max_steps is not None
    conditions.schedule.check(max_steps)
    marks = np.append(record_marks(conditions.record, max_steps), np.iinfo(np.int64).max)  # the kernel reads one ahead
    lanes = []
    for number, (optimizer, _, error, seed, seeded) in enumerate(specs):
        random = conditions.noise.any or "random" in requested_names(type(optimizer))
        resolved = optimizer.with_best_lr(problem, error)
        lanes.append(batching.Lane(number, resolved, error, seed if seeded or random else None))
    job = batching.Job(problem, max_steps, conditions.tol, marks, conditions.noise, conditions.schedule, progress)
    batches = batching.cut(lanes, threads)
    if threads == 1 or len(batches) == 1:
        done = [batching.run(job, batch) for batch in batches]
    else:
        with ThreadPoolExecutor(min(threads, len(batches))) as pool:
            try:
                done = list(pool.map(lambda batch: batching.run(job, batch), batches))
            except BaseException:  # including Ctrl-C: leaving the pool waits for its threads
                job.cancelled.set()
                raise
    by_number = {
        lane.number: run
        for batch, runs in zip(batches, done, strict=True)
        for lane, run in zip(batch, runs, strict=True)
    }
    return [by_number[number] for number in range(len(lanes))]
