"""Running optimizers: problem + optimizer + start → `Trajectory`; one run, many lanes of one problem, or many draws.

Here arguments are checked, starts are drawn and learning rates filled in; `tiles` runs the kernel. No plotting, no
files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import checks, closed, compiler, schedules, tiles
from quadsim.checks import InputError, InputTypeError
from quadsim.noise import Noise
from quadsim.optimizers import Optimizer
from quadsim.problem import BlockQuadratic
from quadsim.schedules import Schedule
from quadsim.streams import MOST_SEED
from quadsim.tiles import Lane
from quadsim.trajectory import MOST_STEPS, Trajectory, record_marks

if TYPE_CHECKING:
    import pandas as pd

ENGINES = ("exact", "iterate")
USUAL_STEPS = 100_000

Progress = Callable[[int], None]


def solve(
    problem: BlockQuadratic,
    optimizer: Optimizer,
    *,
    w0: Any = None,
    e0: Any = None,
    seed: int = 0,
    max_steps: int = USUAL_STEPS,
    tol: float = 1e-6,
    record: str | int = "log",
    noise: Noise | None = None,
    schedule: Schedule | str = "constant",
    progress: Progress | None = None,
) -> Trajectory:
    """Run one optimizer on one problem.

    Parameters
    ----------
    w0 : (dim,) array, optional
        The start; by default w* + e₀ with the standard Gaussian e₀ of `seed`.
    e0 : (dim,) array, optional
        The start as its error e₀ = w₀ − w*, which is not rounded as w₀ is; in place of w0.
    seed : int
        Fixes the start, if it is not given, and everything that is random on the way.
    max_steps : int
        The last step to take.
    tol : float
        Stop at the first step with ‖g‖/‖g₀‖ ≤ tol; 0 runs on.
    record : "log", "coarse" or int
        Which steps to keep: log-spaced (every one at first), some sixty of these, or every k-th.
    noise : Noise, optional
        Minibatches, noise of the gradient, noisy labels. Loss, gradient norm and tol are those of the full gradient.
    schedule : Schedule or its name
        The factor on the learning rate at each step.
    progress : callable, optional
        Told the step reached, about ten times a second; with several tiles of lanes, each tells its own.
    """
    lanes = solve_lanes(
        problem,
        [optimizer],
        w0=None if w0 is None else [w0],
        e0=None if e0 is None else [e0],
        seeds=[seed],
        max_steps=max_steps,
        tol=tol,
        record=record,
        noise=noise,
        schedule=schedule,
        progress=progress,
    )
    return lanes[0]


@dataclass(frozen=True)
class Lanes:
    """The runs of `solve_lanes`, in the order of the lanes: a sequence of `Trajectory`, and one table."""

    trajectories: tuple[Trajectory, ...]

    def __len__(self) -> int:
        return len(self.trajectories)

    def __getitem__(self, lane: int) -> Trajectory:
        return self.trajectories[lane]

    def __iter__(self) -> Iterator[Trajectory]:
        return iter(self.trajectories)

    def table(self) -> pd.DataFrame:
        """One row for each lane: its settings and how it ended."""
        from quadsim import table

        return table.summary(self.trajectories)


def solve_lanes(
    problem: BlockQuadratic,
    optimizers: Sequence[Optimizer],
    *,
    w0: Sequence[Any] | None = None,
    e0: Sequence[Any] | None = None,
    seeds: Sequence[int] | None = None,
    max_steps: int = USUAL_STEPS,
    tol: float = 1e-6,
    record: str | int = "log",
    noise: Noise | None = None,
    schedule: Schedule | str = "constant",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Lanes:
    """Run many optimizers, starts or both on one problem, side by side.

    Lane k runs ``optimizers[k]`` from ``w0[k]``, or from the error ``e0[k]``, or from the Gaussian start of
    ``seeds[k]``, which also fixes what is random on the way; a list of one serves all lanes. Optimizers of different
    kinds may be mixed. A lane's numbers depend on its own definition alone.

    >>> qs.solve_lanes(problem, [qs.Adam(lr=lr) for lr in rates], seeds=[0]).table()
    """
    max_steps = checks.whole("max_steps", max_steps, at_least=0, at_most=MOST_STEPS)
    tol = checks.real("tol", tol, at_least=0)
    threads = cores() if threads is None else checks.whole("threads", threads, at_least=1)
    marks = np.append(record_marks(record, max_steps), np.iinfo(np.int64).max)  # the kernel reads one mark ahead
    if progress is not None and not callable(progress):
        raise InputTypeError(f"progress must be a function of the step reached, got {checks.shown(progress)}")
    noise, schedule = _conditions(problem, noise, schedule, max_steps)
    lanes = _lanes(problem, optimizers, w0, e0, seeds, noise)
    cut, job = tiles.cut(lanes, threads), tiles.Job(problem, max_steps, tol, marks, noise, schedule, progress)
    if threads == 1 or len(cut) == 1:
        done = [tiles.run(job, tile) for tile in cut]
    else:
        with ThreadPoolExecutor(min(threads, len(cut))) as pool:
            try:
                done = list(pool.map(lambda tile: tiles.run(job, tile), cut))
            except BaseException:  # Ctrl-C above all: leaving the pool waits for its threads
                job.cancelled.set()
                raise
    by_lane = {
        lane.number: run for tile, runs in zip(cut, done, strict=True) for lane, run in zip(tile, runs, strict=True)
    }
    return Lanes(tuple(by_lane[number] for number in range(len(lanes))))


def solve_draws(
    draw: Callable[[int], BlockQuadratic],
    optimizers: Sequence[Optimizer],
    seeds: Sequence[int],
    *,
    max_steps: int | None = USUAL_STEPS,
    tol: float = 1e-6,
    record: str | int = "log",
    engine: str | None = "iterate",
    noise: Noise | None = None,
    schedule: Schedule | str = "constant",
    start: str | float = "gaussian",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Lanes:
    """Every optimizer on every draw of a problem: ``draw(seed)`` is the problem; the seed draws start and noise too.

    Runs are in the order of the seeds, and of the optimizers within each; `progress` is told how many seeds are done.
    ``start`` is the kind of initial error, as in `BlockQuadratic.initial_error`.
    ``engine`` is "iterate", "exact", or None for "exact" where there is a closed form. Without ``max_steps``, exact
    runs take as many steps as they need, and iterated ones 100,000 at most.

    >>> qs.solve_draws(lambda seed: qs.case(1, seed=seed), [qs.GD(), qs.FrozenAdam()], seeds=range(100)).table()
    """
    listed = [checks.whole("seed", seed, at_least=0) for seed in _listed("seeds", seeds)]
    if not listed:
        raise InputError("seeds must name at least one draw")
    threads = cores() if threads is None else checks.whole("threads", threads, at_least=1)

    optimizers = _checked(optimizers)
    if not optimizers:
        raise InputError("optimizers must name at least one")
    noisy = (noise is not None and noise.any) or schedules.schedule(schedule).changes
    engines = [engine_for(optimizer, engine, noisy) for optimizer in optimizers]
    by_closed_form, by_loop = ([o for o, e in zip(optimizers, engines, strict=True) if e == name] for name in ENGINES)

    cancelled = Event()

    def heard(step: int = 0) -> None:
        if cancelled.is_set():
            raise KeyboardInterrupt

    def one(seed: int) -> list[Trajectory]:
        problem, known = draw(seed), []
        how: dict[str, Any] = {"tol": tol, "record": record}
        e0 = None if start == "gaussian" else problem.initial_error(seed, start)
        for optimizer in by_closed_form:
            heard()
            known.append(closed.exact(problem, optimizer, e0=e0, seed=seed, max_steps=max_steps, progress=heard, **how))
        steps = USUAL_STEPS if max_steps is None else max_steps
        looped: Any = []
        if by_loop:
            how |= {"noise": noise, "schedule": schedule, "e0": None if e0 is None else [e0]}
            looped = solve_lanes(problem, by_loop, seeds=[seed], max_steps=steps, threads=1, progress=heard, **how)
        runs = {"exact": iter(known), "iterate": iter(looped)}
        return [next(runs[name]) for name in engines]

    runs = one(listed[0])  # alone, so that kernels are compiled once
    if progress is not None:
        progress(1)
    with ThreadPoolExecutor(threads) as pool:
        tasks = [pool.submit(one, seed) for seed in listed[1:]]
        try:
            for done, task in enumerate(tasks, start=2):
                runs += task.result()
                if progress is not None:
                    progress(done)
        except BaseException:  # Ctrl-C above all: leaving the pool waits for its threads
            cancelled.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Lanes(tuple(runs))


def engine_for(optimizer: Optimizer, engine: str | None = None, noisy: bool = False) -> str:
    """The engine to run this optimizer with: the one asked for, or "exact" where it has a closed form.

    With noise, or a learning rate that changes, nothing has one.
    """
    known = closed.has_closed_form(optimizer)
    if engine is None:
        return "exact" if known and not noisy else "iterate"
    if engine == "exact" and noisy:
        raise InputError("engine exact knows neither noise nor a changing learning rate: use engine iterate")
    if checks.choice("engine", engine, ENGINES) == "exact" and not known:
        raise InputError(f"{optimizer.name} has no closed form: use engine iterate for it, or leave engine out")
    return engine


def check_noise(optimizer: Optimizer, noise: Noise | None) -> None:
    """Raise where an optimizer would be another method under this noise."""
    if noise is not None and noise.any and optimizer.exact_gradients:
        raise InputError(f"{optimizer.name} needs gradients without noise: use sgd with nesterov, or no noise")


def _conditions(
    problem: BlockQuadratic, noise: Noise | None, schedule: Schedule | str, max_steps: int
) -> tuple[Noise, Schedule]:
    if not isinstance(problem, BlockQuadratic):
        raise InputTypeError(f"problem must be a BlockQuadratic, got {checks.shown(problem)}")
    noise = Noise() if noise is None else noise
    if not isinstance(noise, Noise):
        raise InputTypeError(f"noise must be a Noise, such as Noise(batch=3), got {checks.shown(noise)}")
    noise.check(problem)
    schedule = schedules.schedule(schedule)
    schedule.check(max_steps)
    return noise, schedule


def _lanes(problem: BlockQuadratic, optimizers: Any, w0: Any, e0: Any, seeds: Any, noise: Noise) -> list[Lane]:
    optimizers = _checked(optimizers)
    for optimizer in optimizers:
        check_noise(optimizer, noise)
    seeds = [0] if seeds is None else _listed("seeds", seeds)
    seeds = [checks.whole("seed", seed, at_least=0, at_most=MOST_SEED) for seed in seeds]
    errors: list[np.ndarray | None] = [None]
    if w0 is not None and e0 is not None:
        raise InputError("give w0 or e0, not both: e0 means w0 = minimizer + e0")
    if w0 is not None:
        errors = [problem.error_of(w0=start) for start in _listed("w0", w0)]
    elif e0 is not None:
        errors = [problem.error_of(e0=error) for error in _listed("e0", e0)]
    counts = [len(optimizers), len(errors), len(seeds)]
    if any(count not in (1, max(counts)) for count in counts):
        kinds = f"{len(optimizers)} optimizers, {len(errors)} starts and {len(seeds)} seeds"
        raise InputError(f"{kinds} make no lanes: give as many of each, or one")
    lanes, drawn = [], {}
    for number in range(max(counts)):
        given, seed = errors[number % len(errors)], seeds[number % len(seeds)]
        optimizer = optimizers[number % len(optimizers)]
        if given is None and seed not in drawn:
            drawn[seed] = problem.initial_error(seed)
        error = drawn[seed] if given is None else given
        random = noise.any or "random" in compiler.asked_for(type(optimizer))
        optimizer = optimizer.resolved(problem, error)
        lanes.append(Lane(number, optimizer, error, seed if given is None or random else None))
    return lanes


def _checked(optimizers: Any) -> list[Optimizer]:
    listed = [optimizers] if isinstance(optimizers, Optimizer) else _listed("optimizers", optimizers)
    for optimizer in listed:
        if not isinstance(optimizer, Optimizer):
            raise InputTypeError(f"optimizer must be one such as GD() or Adam(), got {checks.shown(optimizer)}")
    return listed


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputTypeError(f"{name} must be a list, one item for each lane, got {checks.shown(values)}")
    return list(values)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
