"""`solve`: check the arguments, draw the starts, choose the engine for each optimizer and run it.

This is the only place that chooses an engine. `engine.compiled` runs steps; `engine.closed_form` evaluates linear
methods without running steps. No plotting, no files.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any, overload

import numpy as np

from quadsim import _progress
from quadsim import _validation as checks
from quadsim._random import seed_list
from quadsim._validation import InputError, InputTypeError
from quadsim.engine.closed_form import exact as closed_form
from quadsim.engine.compiled import batching
from quadsim.engine.compiled.lane_arrays import Job, Lane, Progress
from quadsim.engine.trajectory import Runs, Trajectory, checked_limits, record_marks
from quadsim.optimizers import Optimizer, schedules
from quadsim.optimizers.lr_origin import lr_origin
from quadsim.optimizers.schedules import Schedule
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.noise import Noise

ENGINES = ("auto", "compiled", "closed-form")
DEFAULT_MAX_STEPS = 100_000

Problem = BlockQuadratic | Callable[[int], BlockQuadratic]


@overload
def solve(problem: Problem, optimizer: Optimizer, *, seed: int = 0, **options: Any) -> Trajectory: ...
@overload
def solve(problem: Problem, optimizer: Sequence[Optimizer], *, seed: Any = 0, **options: Any) -> Runs: ...
@overload
def solve(problem: Problem, optimizer: Optimizer, *, seed: Iterable[int] | str, **options: Any) -> Runs: ...
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
    progress: Progress | bool | None = None,
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
    seed : int, a list or range of them, or text such as "0..29"
        Fixes the problem if it is drawn, the start if it is not given, the noise, and the randomness of an optimizer.
    max_steps : int, optional
        The last step to take. By default 100,000; closed forms take as many as they need for tol > 0, up to 10¹².
    tol : float
        Stop at the first step with ‖g‖/‖g₀‖ ≤ tol; 0 never stops.
    record : "log", "coarse" or int
        The steps to record: about 2000 log-spaced steps (every step at first), about 64, or every k-th step.
    engine : "auto", "compiled" or "closed-form"
        "auto" is the closed form where the optimizer has one and there is neither noise nor a changing learning rate.
    noise : Noise, optional
        Minibatches, gradient noise, label noise. Loss, gradient norm and tol are those of the full gradient.
    schedule : Schedule or its name
        The factor on the learning rate at each step.
    threads : int, optional
        Threads for batches of compiled runs, or for the draws of a problem; as many as cores by default.
    progress : bool or callable, optional
        By default a call of more than two seconds shows its progress on standard error; False shows nothing. A function
        is, with one problem, called with the step reached: about ten times a second by each batch of compiled runs, and
        by the search for the first passage of a closed form. With draws, called with the number of seeds done.

    Returns
    -------
    Trajectory or Runs
        One problem, optimizer, seed and start give a `Trajectory`; a list of any gives `Runs`, a sequence in the order
        of the seeds (or starts), and of the optimizers within each. A run's numbers do not depend on the other runs of
        the call.

    Examples
    --------
    >>> qs.solve(qs.case(3), qs.FrozenAdam()).steps_to_tol
    15
    >>> runs = qs.solve(qs.case(4), [qs.GD(), qs.HeavyBall(), qs.Nesterov()], tol=1e-8)
    >>> {run.optimizer.name: run.steps_to_tol for run in runs}
    {'gd': 44740, 'heavy-ball': 898, 'nesterov': 1050}
    >>> runs = qs.solve(lambda seed: qs.case(3, seed=seed), [qs.GD(), qs.FrozenAdam()], seed=range(5))
    >>> runs.table()["steps_to_tol"].tolist()
    [31657, 15, 25558, 55, 27455, 1526, 34076, 105, 33276, 390]
    """
    optimizers = _listed("optimizer", optimizer)
    for item in optimizers:
        if not isinstance(item, Optimizer):
            raise InputTypeError(f"optimizer must be one such as GD() or Adam(), got {checks.shown(item)}")
    seeds = seed_list("seed", seed, distinct=False)
    starts = _Starts(w0, e0, start, len(optimizers))
    if starts.count > 1 and len(seeds) == 1:
        seeds = seeds * starts.count
    if starts.count not in (1, len(seeds)):
        raise InputError(f"{starts.count} starts and {len(seeds)} seeds do not match: give as many of each, or one")
    max_steps, tol = checked_limits(max_steps, tol, record)
    noise = Noise() if noise is None else noise
    if not isinstance(noise, Noise):
        raise InputTypeError(f"noise must be a Noise, such as Noise(batch=3), got {checks.shown(noise)}")
    schedule = schedules.schedule(schedule)
    threads = cores() if threads is None else checks.whole("threads", threads, at_least=1)
    task = _progress.of_call(progress, "solve", takes="one whole number")
    report = progress if callable(progress) else None
    engines = [engine_for(item, engine, noise.any or schedule.changes) for item in optimizers]
    for item in optimizers:
        check_noise(item, noise)
    drawn = not isinstance(problem, BlockQuadratic)
    if drawn and not callable(problem):
        raise InputTypeError(f"problem must be a BlockQuadratic or a function of the seed, got {checks.shown(problem)}")
    seeded, cancelled = drawn or not starts.given, Event()

    def check(step: int) -> None:
        if cancelled.is_set():
            raise KeyboardInterrupt
        if report is not None and not drawn:
            report(step)

    def solve_rows(quadratic: BlockQuadratic, rows: Iterable[int], threads: int) -> list[Trajectory]:
        noise.check(quadratic)
        job = Job(quadratic, max_steps, tol, record, noise, schedule, seeded, threads, check, cancelled)
        job = job if drawn else replace(job, task=task)
        lanes = []
        for row in rows:
            errors = starts.errors(quadratic, row, seeds[row])
            lanes += [Lane(item, error, seeds[row]) for item, error in zip(optimizers, errors, strict=True)]
        return _run_lanes(job, lanes, engines * (len(lanes) // len(engines)))

    def solve_seed(row: int) -> list[Trajectory]:
        quadratic = problem(seeds[row])
        if not isinstance(quadratic, BlockQuadratic):
            raise InputTypeError(f"problem(seed) must return a BlockQuadratic, got {checks.shown(quadratic)}")
        return solve_rows(quadratic, [row], 1)

    def count(done: int) -> None:
        task.advance(done)
        if report is not None:
            report(done)

    with task:
        if drawn:  # the first seed by itself, so that a rule that does not compile fails only once
            task.total, task.unit = len(seeds), "draws"
            by_seed = _map_on_threads(solve_seed, range(len(seeds)), threads, cancelled, alone=1, progress=count)
            runs = list(itertools.chain(*by_seed))
        else:
            runs = solve_rows(problem, range(len(seeds)), threads)
    several = starts.listed or _is_list(seed) or isinstance(seed, str) or not isinstance(optimizer, Optimizer)
    return Runs(tuple(runs)) if several else runs[0]


def engine_for(optimizer: Optimizer, engine: str = "auto", changing: bool = False) -> str:
    """The engine that runs this optimizer, "compiled" or "closed-form"; raises if the requested one cannot.

    ``changing``: there is noise or a changing learning rate, and so no method has a closed form.
    """
    has_closed_form = closed_form.has_closed_form(optimizer)
    if checks.choice("engine", engine, ENGINES) == "auto":
        return "closed-form" if has_closed_form and not changing else "compiled"
    if engine == "closed-form" and changing:
        raise InputError(
            "engine=closed-form allows neither noise nor a changing learning rate: use engine=compiled or auto"
        )
    if engine == "closed-form" and not has_closed_form:
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


class _Starts:
    """The given starts: one for all runs, one for each seed, or one for each seed and optimizer."""

    def __init__(self, w0: Any, e0: Any, start: str | float, optimizers: int) -> None:
        if w0 is not None and e0 is not None:
            raise InputError("give w0 or e0, not both: e0 means w0 = minimizer + e0")
        self.name, given = ("w0", w0) if e0 is None else ("e0", e0)
        if given is not None and start != "gaussian":
            raise InputError(f"give {self.name} or start, not both: start says how e0 is drawn")
        self.start, self.optimizers, self.given = start, optimizers, given is not None
        depth = _depth(given)
        self.listed = depth > 1
        rows = list(given) if self.listed else [given]
        self.rows = [list(row) if depth > 2 else [row] for row in rows]
        self.count = len(self.rows)
        if self.count == 0:
            raise InputError(f"{self.name} must hold at least one start")
        if depth > 2 and any(len(row) != optimizers for row in self.rows):
            raise InputError(f"{self.name} must have one start for each of {optimizers} optimizers in each row")

    def errors(self, problem: BlockQuadratic, row: int, seed: int) -> list[np.ndarray]:
        """The initial errors of a seed's runs, one for each optimizer."""
        if not self.given:
            return [problem.initial_error(seed, self.start)] * self.optimizers
        errors = [problem.error_of(**{self.name: start}) for start in self.rows[row % self.count]]
        return errors if len(errors) == self.optimizers else errors * self.optimizers


def _depth(value: Any) -> int:
    """How deeply lists or arrays are nested: 1 for a vector."""
    if isinstance(value, list | tuple):
        return 1 + (_depth(value[0]) if value else 0)
    return np.ndim(value)


def _is_list(value: Any) -> bool:
    scalar = isinstance(value, np.ndarray) and value.ndim == 0
    return isinstance(value, Iterable) and not isinstance(value, str) and not scalar


def _listed(name: str, given: Any) -> list[Any]:
    listed = list(given) if _is_list(given) else [given]
    if not listed:
        raise InputError(f"{name} must name at least one")
    return listed


def _map_on_threads(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    threads: int,
    cancelled: Event,
    *,
    alone: int = 0,
    progress: Progress | None = None,
) -> list[Any]:
    """The function of each item, in order, the first ``alone`` of them before the others.

    ``progress`` is called with the number of items done. An exception, also Ctrl-C, cancels all calls.
    """
    results: list[Any] = []
    with ThreadPoolExecutor(threads) as pool:
        try:
            for part in (items[:alone], items[alone:]):
                for result in pool.map(function, part):
                    results.append(result)
                    if progress is not None:
                        progress(len(results))
        except BaseException:  # leaving the pool waits for its threads
            cancelled.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def _run_lanes(job: Job, lanes: list[Lane], engines: list[str]) -> list[Trajectory]:
    """The runs in order; each engine takes all of its runs at once."""
    by_engine = {}
    for engine, run in (("closed-form", closed_form_runs), ("compiled", compiled_runs)):
        if selected := [lane for lane, used in zip(lanes, engines, strict=True) if used == engine]:
            by_engine[engine] = iter(run(job, selected))
    return [next(by_engine[engine]) for engine in engines]


def closed_form_runs(job: Job, lanes: list[Lane]) -> list[Trajectory]:
    """Entry point of the closed-form engine; one run after the other, as closed forms hold the GIL."""
    options: dict[str, Any] = {"tol": job.tol, "record": job.record, "progress": job.progress}
    options["max_steps"] = step_limit("closed-form", job.max_steps, job.tol)
    runs: list[Trajectory] = []
    for lane in lanes:
        job.progress(0)
        if job.task is not None:
            job.task.label = f"solve: {lane.optimizer.label}, closed form {len(runs) + 1} of {len(lanes)}"
        seed = lane.seed if job.seeded else None
        runs.append(closed_form.run(job.problem, lane.optimizer, lane.error, seed, **options))
    return runs


def compiled_runs(job: Job, lanes: list[Lane]) -> list[Trajectory]:
    """Entry point of the compiled engine: batches of runs, on threads."""
    job = replace(job, max_steps=step_limit("compiled", job.max_steps, job.tol))
    job.schedule.check(job.max_steps)
    record_marks(job.record, job.max_steps)  # raises if these are too many
    origins = [lr_origin(lane.optimizer) for lane in lanes]
    lanes = [replace(lane, optimizer=lane.optimizer.with_best_lr(job.problem, lane.error)) for lane in lanes]
    batches = batching.cut(lanes, job.threads)
    threads = min(job.threads, len(batches))
    if threads == 1:
        done = [_run_batch(job, batches, number) for number in range(len(batches))]
    else:
        numbers = range(len(batches))
        done = _map_on_threads(lambda number: _run_batch(job, batches, number), numbers, threads, job.cancelled)
    runs = dict(zip(itertools.chain(*batches), itertools.chain(*done), strict=True))
    return [replace(runs[lane], lr_from=origin) for lane, origin in zip(lanes, origins, strict=True)]


def _run_batch(job: Job, batches: list[list[Lane]], number: int) -> list[Trajectory]:
    """Run one of the batches; the steps that it reports count for its share of the call."""
    if job.task is None:
        return batching.run(job, batches[number])
    task, report, reported = job.task, job.task.part(number, len(batches)), job.progress
    label = f"solve: {batches[number][0].optimizer.label}"

    def progress(step: int) -> None:
        report(step / max(job.max_steps, 1))
        task.label = f"{label}, step {step:,}" if len(batches) == 1 else label
        reported(step)

    done = batching.run(replace(job, progress=progress), batches[number])
    report(1.0)
    return done
