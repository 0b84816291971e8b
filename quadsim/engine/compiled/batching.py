"""Batches of lanes: split lanes into batches, choose a kernel for each, run it."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from quadsim.engine.compiled import compiler
from quadsim.engine.compiled.kernel_source import FORMS, WIDTHS, Form, setting_names
from quadsim.engine.compiled.lane_arrays import Job, Lane, LaneArrays
from quadsim.engine.compiled.nan_search import find_nan
from quadsim.engine.trajectory import Trajectory
from quadsim.optimizers import Optimizer, rule_errors
from quadsim.optimizers.rule_source import parameter_names

_, NARROW_WIDTH, WIDE_WIDTH = WIDTHS
SLICE_SECONDS = 0.1  # between two calls of progress, and two checks for Ctrl-C
FIRST_SLICE_WORK = 1_000_000  # multiplications of the first slice, before its time is known
MAX_SLICE_STEPS = 4_000_000  # a schedule has one number per step
MAX_SMALL_WORK = 200_000_000  # multiplications: a job below it takes far less time than compiling a kernel
MAX_SLOWER_SECONDS = 0.5  # total time of runs in slower kernels before the fastest one is compiled


def cut(lanes: list[Lane], threads: int = 1) -> list[list[Lane]]:
    """Batches of lanes with one kind of optimizer: of 32 if that leaves work for all threads, otherwise of 8.

    One or two remaining lanes are faster alone.
    """
    by_kind: defaultdict[type[Optimizer], list[Lane]] = defaultdict(list)
    for lane in lanes:
        by_kind[type(lane.optimizer)].append(lane)
    batches = []
    for remaining in by_kind.values():
        wide, min_wide = _wide_is_faster(remaining[0].error.size), WIDE_WIDTH * threads // 2
        while wide and len(remaining) > min_wide:
            batches.append(remaining[:WIDE_WIDTH])
            remaining, min_wide = remaining[WIDE_WIDTH:], WIDE_WIDTH // 2
        for k in range(0, len(remaining), NARROW_WIDTH):
            batch = remaining[k : k + NARROW_WIDTH]
            batches += [batch] if len(batch) > 2 else [[lane] for lane in batch]
    return batches


@functools.cache
def _wide_is_faster(dim: int) -> bool:
    """Whether wide kernels are faster: always with AVX-512, otherwise for small problems."""
    from llvmlite import binding

    return dim <= 64 or binding.get_host_cpu_features().get("avx512f", False)


def run(job: Job, batch: list[Lane]) -> list[Trajectory]:
    """Run the lanes of a batch to their ends."""
    kind, width = type(batch[0].optimizer), next(width for width in WIDTHS if len(batch) <= width)
    fastest = Form(width, job.noise.any, _share_settings(batch))
    form = _available_form(job, kind, fastest)
    kernel, started = compiler.kernel(kind, *form), time.perf_counter()
    parts = [batch] if form.width >= len(batch) else [[lane] for lane in batch]
    done = [run for part in parts for run in _run(job, part, kernel)]
    if form != fastest:
        _slower_seconds[kind, fastest] += time.perf_counter() - started
    return done


def _run(job: Job, batch: list[Lane], kernel: Any) -> list[Trajectory]:
    arrays = LaneArrays(job, batch, kernel)
    slice_steps = FIRST_SLICE_WORK // _work_per_step(job) + 1
    while arrays.running:
        started = time.perf_counter()
        try:
            t = arrays.advance(min(arrays.t + slice_steps, job.max_steps))
        except Exception as error:  # only a rule can raise
            rule_errors.raise_with_line(arrays.kind, error)
            raise
        speedup = SLICE_SECONDS / max(time.perf_counter() - started, 1e-9)
        slice_steps = min(int(slice_steps * min(speedup, 10)) + 1, MAX_SLICE_STEPS)
        job.progress(t)
    done = arrays.trajectories()
    for lane, trajectory in zip(batch, done, strict=True):
        if lane.optimizer.user_defined and not np.isfinite(trajectory.error).all():
            find_nan(job, lane, trajectory.last_step)
    return done


def _work_per_step(job: Job) -> int:
    """Multiplications in one step of one lane."""
    return sum(n * n for n in job.problem.sizes)


# ---- which kernel runs a batch: a lane's numbers are the same in all of them

# Time spent in other kernels than the fastest one.
_slower_seconds: defaultdict[tuple[type[Optimizer], Form], float] = defaultdict(float)


@contextmanager
def fastest_kernels() -> Iterator[None]:
    """Compile the fastest kernel for small jobs too: for measurements and tests."""
    global MAX_SMALL_WORK
    previous, MAX_SMALL_WORK = MAX_SMALL_WORK, 0
    try:
        yield
    finally:
        MAX_SMALL_WORK = previous


def _share_settings(batch: list[Lane]) -> bool:
    """Whether all lanes have the same settings except their learning rates, and the same first shared_state."""
    kind = type(batch[0].optimizer)
    names = [name for name in setting_names(kind) if name != "lr"]
    if kind.once_per_step is not None and "lr" in parameter_names(kind.once_per_step):
        names.append("lr")
    optimizers = [lane.optimizer for lane in batch]
    return len({(*(getattr(one, name) for name in names), repr(one.first_shared_state())) for one in optimizers}) == 1


def _available_form(job: Job, kind: type[Optimizer], fastest: Form) -> Form:
    """The fastest form; for a small job one that is compiled already, or the generic one.

    Compiling takes seconds, for the rule of a generic kernel a fraction of one. So small jobs use these kernels until
    they have spent MAX_SLOWER_SECONDS in them.
    """
    small = job.max_steps * WIDE_WIDTH * _work_per_step(job) < MAX_SMALL_WORK
    if not small or _slower_seconds[kind, fastest] > MAX_SLOWER_SECONDS:
        return fastest
    compiled = (form for form in _slower_forms(fastest) if compiler.is_compiled(kind, *form))
    return next(compiled, Form(1, fastest.noisy, generic=True))


def _slower_forms(fastest: Form) -> list[Form]:
    """All forms that can run the batches of the fastest one, including itself, from fast to slow."""
    usable = [
        form
        for form in FORMS
        if form.noisy >= fastest.noisy
        and (form.width == 1 or (form.width >= fastest.width and form.shared_settings <= fastest.shared_settings))
    ]
    return sorted(
        usable,
        key=lambda form: (form.generic, form.noisy, form.width < fastest.width, form.width, -form.shared_settings),
    )


def cold_forms(
    optimizers: list[Optimizer], noisy: bool, max_steps: int, sizes: tuple[int, int], seconds: float
) -> set[Form]:
    """The forms that runs of these optimizers side by side will compile.

    ``sizes`` are the dimension and the multiplications of a step; ``seconds`` is the time of all such runs together.
    """
    dim, work_per_step = sizes
    kind = type(optimizers[0])
    missing: set[Form] = set()
    small = max_steps * WIDE_WIDTH * work_per_step < MAX_SMALL_WORK
    error = np.zeros(dim)
    for batch in cut([Lane(one, error, 0) for one in optimizers]):
        fastest = Form(next(width for width in WIDTHS if len(batch) <= width), noisy, _share_settings(batch))
        if compiler.is_compiled(kind, *fastest):
            continue
        if small and not any(compiler.is_compiled(kind, *form) for form in _slower_forms(fastest)):
            missing.add(Form(1, noisy, generic=True))
        if not small or seconds > MAX_SLOWER_SECONDS:
            missing.add(fastest)
    return missing
