"""The expected time of a sweep: cells of a spread sample are run for about a second, and their rows are dropped.

Runs that take long are timed over their first steps. Whether a run ends early is read from its rate of convergence. A
kernel that is not compiled yet counts with the time that compiling takes, and its steps by the model.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from quadsim.engine.compiled import batching, kernel_source
from quadsim.engine.solver import cores
from quadsim.optimizers import GD, Optimizer
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.build import problem as build_problem
from quadsim.sweeps import execute, runtime_model
from quadsim.sweeps.grid import Grid, Group
from quadsim.sweeps.run_configs import Cell
from quadsim.sweeps.runtime_model import Cost, Kind, Size

MAX_SECONDS = 1.0  # for the sample
MAX_SHARE = 0.05  # of the expected time of the sweep
MAX_RUN_SECONDS = 0.3  # of one run of the sample, which is stopped then
MIN_ROUNDS, MAX_ROUNDS = 3, 100  # samples of each kind
TARGET_SECONDS = 0.05  # of the steps of a sample
LANES = 32  # cells that run side by side
SETTLED = 1.0  # a method that is not homogeneous and decays by less than e over its steps will not reach tol
# Processor seconds of compiling, on the machine of `REFERENCE_SECONDS`: of a kernel, more with noise; of the generic
# kernel; of a rule alone; and for each character by which the text of a rule is longer than that of GD.
COMPILE_SECONDS, NOISY_SECONDS, GENERIC_SECONDS, RULE_SECONDS, CHARACTER_SECONDS = 2.1, 1.6, 2.1, 0.2, 5e-4
REFERENCE_SECONDS = 0.0013  # of `_calibrate`
# Time of a step in the fastest kernel, relative to the generic one. Measured: 0.02 to 0.07 in batches of 9 dimensions,
# 0.2 to 0.3 of one lane, 0.4 to 0.7 in blocks of 30.
FASTER = 0.2
UNKNOWN_STEPS, UNKNOWN_SPEED = 0.7, 2.0  # kinds that were not timed: share of their steps; times the model
END_SECONDS = 0.3  # processor seconds of the table of results, with the import of pandas
# Processor seconds until workers run cells: of the processes of one round of cores, of Dask with a local cluster.
START_SECONDS = {"threads": 0.0, "processes": 1.0, "local cluster": 3.0}
CALIBRATION_SECONDS = 0.05
PHI = (0.7548776662466927, 0.5698402909980532)  # a sequence that fills a square evenly


class _StopError(Exception):
    """A run of the sample took too long."""


@dataclass
class _Ratio:
    """Seconds measured and by the model."""

    measured: float = 0.0
    guessed: float = 0.0

    def add(self, measured: float, guessed: float) -> None:
        self.measured, self.guessed = self.measured + measured, self.guessed + guessed

    def value(self, otherwise: float) -> float:
        return self.measured / self.guessed if self.guessed else otherwise


@dataclass
class _Sample:
    """What was timed: corrections of the model."""

    build: _Ratio = field(default_factory=_Ratio)
    fixed: defaultdict[Kind, _Ratio] = field(default_factory=lambda: defaultdict(_Ratio))
    steps: defaultdict[Kind, _Ratio] = field(default_factory=lambda: defaultdict(_Ratio))
    loading: float = 0.0  # seconds for kernels and packages, which the sweep finds loaded


@dataclass(frozen=True)
class _Made:
    """A problem that is there already, in place of a user-defined one."""

    problem: BlockQuadratic

    def make(self) -> BlockQuadratic:
        return self.problem


def expected_seconds(
    grid: Grid, cells: int, workers: int, *, threads: bool = True, starts: str = "threads", budget: float = MAX_SECONDS
) -> float:
    """The seconds that this many cells of the grid take, with the sample; with ``threads``, closed forms run one after
    the other. ``starts`` is what the sweep starts, a key of `START_SECONDS`.
    """
    if not cells:
        return 0.0
    problems = runtime_model.sampled_problems(grid)
    whole, share = runtime_model.totals(grid, problems), cells / grid.cells
    began, sample, slices = time.perf_counter(), _Sample(), _slices(grid.deck)
    cold = _cold_kernels(grid, problems[0], {kind: cost.steps for kind, cost in whole.cells.items()})
    cold = _cold_kernels(grid, problems[0], {kind: whole.cells[kind].steps / FASTER for kind in cold})
    warm = {kind: found for kind, found in slices.items() if kind not in cold}
    running = share * _seconds(whole, sample, workers, threads)
    for number in range(MAX_ROUNDS * max(len(warm), 1)):
        kinds = list(warm)
        spent = time.perf_counter() - began - sample.loading
        if not kinds or spent > budget or (number >= MIN_ROUNDS * len(kinds) and spent > MAX_SHARE * running):
            break
        kind = kinds[number % len(kinds)]
        _add(sample, grid, problems, kind, warm[kind], number // len(kinds))
        running = share * _seconds(whole, sample, workers, threads)
    slow = {kind: share * whole.cells[kind].steps * sample.steps[kind].value(0.0) for kind in warm}
    late = _cold_kernels(grid, problems[0], slow)  # of runs that take too long in the kernels that there are
    for kind in late.keys() - cold.keys():
        running -= (1 - FASTER) * (slow[kind] - batching.MAX_SLOWER_SECONDS) / workers
    compiling = sum(sum(seconds.values()) for seconds in (late | cold).values())
    others = START_SECONDS[starts] * max(workers / cores(), 1.0) + END_SECONDS + compiling
    expected = running + others * _calibrate() / REFERENCE_SECONDS
    return expected + time.perf_counter() - began


def _seconds(whole: runtime_model.Totals, sample: _Sample, workers: int, threads: bool) -> float:
    """The time of the whole grid: the model with the corrections of the sample."""
    build = whole.build * sample.build.value(UNKNOWN_SPEED)
    serial, parallel = build, 0.0
    any_fixed, any_steps = _pooled(sample.fixed), _pooled(sample.steps)
    for kind, cost in whole.cells.items():
        serial += cost.fixed * sample.fixed[kind].value(any_fixed.get(kind[1], UNKNOWN_SPEED))
        parallel += cost.steps * sample.steps[kind].value(any_steps.get(kind[1], UNKNOWN_SPEED * UNKNOWN_STEPS))
    together = (serial + parallel) / workers
    return max(serial, together) if threads else together  # Python holds the GIL


def _pooled(ratios: dict[Kind, _Ratio]) -> dict[str, float]:
    """The correction of each engine, over the kinds that were timed."""
    engines = {kind[1] for kind, ratio in ratios.items() if ratio.guessed}
    of = {engine: [ratio for kind, ratio in ratios.items() if kind[1] == engine] for engine in engines}
    return {e: sum(one.measured for one in some) / sum(one.guessed for one in some) for e, some in of.items()}


def _slices(deck: tuple[Cell, ...]) -> dict[Kind, list[list[Cell]]]:
    """The cells of each kind that run side by side: those with equal options, up to `LANES` of them."""
    grouped: defaultdict[tuple[Kind, Any], list[Cell]] = defaultdict(list)
    for cell in deck:
        grouped[runtime_model.kind(cell), tuple(cell.options.items())].append(cell)
    found: defaultdict[Kind, list[list[Cell]]] = defaultdict(list)
    for (kind, _), cells in grouped.items():
        found[kind] += [cells[k : k + LANES] for k in range(0, len(cells), LANES)]
    return found


def _add(
    sample: _Sample, grid: Grid, problems: list[dict[str, Any]], kind: Kind, slices: list[list[Cell]], number: int
) -> None:
    """Time one slice of cells of a kind on one problem; a problem or a run that fails takes no time."""
    first, second = ((0.5 + number * phi) % 1 for phi in PHI)
    values, cells = problems[int(first * len(problems))], slices[int(second * len(slices))]
    seed = grid.seeds[number % len(grid.seeds)] if len(problems) == 1 else grid.seeds[0]
    size, start = runtime_model.sizes(values), cells[0].options["start"]
    try:
        if not sample.build.guessed:  # reads measured spectra
            began = time.perf_counter()
            _build(grid, values, seed, start)
            sample.loading += time.perf_counter() - began
        began = time.perf_counter()
        problem = _build(grid, values, seed, start)
        took = time.perf_counter() - began
        size = len(problem.sizes), max(problem.sizes)
        sample.build.add(took, runtime_model.build_seconds(size))
        fixed, steps = _time(sample, problem, kind, cells, size, seed)
    except Exception:
        fixed, steps = 0.0, 0.0
    costs = [runtime_model.cost(cell, size) for cell in cells]
    sample.fixed[kind].add(fixed, sum(cost.fixed for cost in costs))
    sample.steps[kind].add(steps, sum(cost.steps for cost in costs))


def _build(grid: Grid, values: dict[str, Any], seed: int, start: Any) -> BlockQuadratic:
    """The problem, with the constants that a group computes once."""
    drawn = grid.user_problems.get(values.get("problem", ""))
    problem = drawn.with_seed(seed).make() if drawn else build_problem(seed=seed, **values)
    facts = execute.Facts(problem, seed)
    facts.of_problem()
    facts.start(start)
    return problem


def _time(sample: _Sample, problem: BlockQuadratic, kind: Kind, cells: list[Cell], size: Size, seed: int) -> Cost:
    """The seconds of these cells, of their steps and of everything else."""
    closed = kind[1] == "closed-form"
    if not sample.fixed[kind].guessed:
        sample.loading += _run(problem, cells[:1] if closed else cells, seed, None if closed else 1)[0]
    if closed:
        return Cost(_run(problem, cells, seed)[0], 0.0)
    end, per_step = runtime_model.max_steps(cells[0]), len(cells) * runtime_model.step_seconds(size)
    fixed, _ = _run(problem, cells, seed, 1)
    count = min(end, max(int(TARGET_SECONDS / (per_step * (sample.steps[kind].value(1.0) or 1.0))), 16))
    took, rows = _run(problem, cells, seed, count)
    last = [row["last_step"] for row in rows if "last_step" in row]
    if not last:  # failed, or stopped
        return Cost(fixed, max(took - fixed, 0.0) / count * end if took >= MAX_RUN_SECONDS else 0.0)
    full = max(_last_step(cell, row, count, end) for cell, row in zip(cells, rows, strict=True))
    return Cost(fixed, max(took - fixed, 0.0) / max(*last, 1) * full)


def _last_step(cell: Cell, row: dict[str, Any], count: int, end: int) -> float:
    """The step at which a run will end, from its first ``count`` steps."""
    last, tol, rate = row.get("last_step", 0), cell.options["tol"], row.get("measured_rate")
    if last < count or count == end:
        return last
    decay = -math.log(rate) if rate else 0.0  # of the loss, in each step
    if not tol or decay <= 0 or (not cell.optimizer.homogeneous and decay * count < SETTLED):
        return end
    return min(max(-2 * math.log(tol) / decay, 1.2 * count), end)


def _run(
    problem: BlockQuadratic, cells: list[Cell], seed: int, last_step: int | None = None
) -> tuple[float, list[dict[str, Any]]]:
    """Run the cells up to a step, by the code that runs the sweep: the seconds and the rows."""
    if last_step is not None:
        cells = [replace(cell, options={**cell.options, "max_steps": last_step}) for cell in cells]
    group = Group({"drawn": _Made(problem)}, {}, seed, tuple(range(len(cells))), (b"",) * len(cells))
    began = time.perf_counter()

    def check(_: int) -> None:
        if time.perf_counter() - began > MAX_RUN_SECONDS:
            raise _StopError

    rows = execute.run(group, cells, check)
    return time.perf_counter() - began, rows


def _cold_kernels(
    grid: Grid, values: dict[str, Any], step_seconds: dict[Kind, float]
) -> dict[Kind, dict[batching.Form, float]]:
    """The kernels to compile for each kind of cell that has any, with the processor seconds of each."""
    count, n = runtime_model.sizes(values)
    cold: dict[Kind, dict[batching.Form, float]] = {}
    for kind, slices in _slices(grid.deck).items():
        if kind[1] == "compiled" and kind in step_seconds:
            forms: set[batching.Form] = set()
            for cells in slices:
                optimizers, options = [cell.optimizer for cell in cells], cells[0].options
                long = runtime_model.max_steps(cells[0]), (count * n, count * n**2), step_seconds[kind]
                forms |= batching.cold_forms(optimizers, options["noise"].any, *long)
            if forms:
                cold[kind] = {form: compile_seconds(type(slices[0][0].optimizer), form) for form in forms}
    return cold


def compile_seconds(optimizer: type[Optimizer], form: batching.Form) -> float:
    """The processor seconds of compiling a kernel, on the machine of `REFERENCE_SECONDS`."""
    characters = max(len(kernel_source.rule_text(optimizer)) - len(kernel_source.rule_text(GD)), 0)
    if form.generic:
        return GENERIC_SECONDS + NOISY_SECONDS * form.noisy + RULE_SECONDS + CHARACTER_SECONDS * characters
    return COMPILE_SECONDS + NOISY_SECONDS * form.noisy + CHARACTER_SECONDS * characters


def _calibrate() -> float:
    """Seconds for a fixed amount of interpreted code: how fast this machine is, and how much of it others use.

    No BLAS: its threads wait for each other, on a busy machine a hundred times as long as they compute.
    """
    times: list[float] = []
    began, used = time.perf_counter(), time.thread_time()
    while time.perf_counter() - began < CALIBRATION_SECONDS or not times:
        start, total = time.thread_time(), 0
        for number in range(60_000):
            total += number & 3
        times.append(time.thread_time() - start)
    return min(times) * max((time.perf_counter() - began) / max(time.thread_time() - used, 1e-9), 1.0)
