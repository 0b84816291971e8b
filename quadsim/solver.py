"""Running optimizers: problem + optimizer + start → `Trajectory`, one run or many lanes of one problem at once.

The arithmetic is the compiled kernel's. Here arguments are checked, lanes are packed into tiles, and
long runs are cut into slices so that progress can be shown and Ctrl-C is heard. No plotting, no files.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import checks, compiler
from quadsim.checks import InputError, InputTypeError
from quadsim.optimizers import Optimizer
from quadsim.problem import BlockQuadratic
from quadsim.trajectory import Status, Trajectory

if TYPE_CHECKING:
    import pandas as pd

MOST_STEPS = 10**12
MOST_RECORDED = 4096
LOG_POINTS = 2000
SLICE_SECONDS = 0.1  # how long a run goes on before progress is told and Ctrl-C is heard
FIRST_SLICE = 1_000_000  # multiplications of the first slice, before its time is known
EXPLODED = 1e100  # a loss this many times the first one (or the largest eigenvalue) will not come back
STATUSES = (None, Status.CONVERGED, Status.MAX_STEPS, Status.DIVERGED, Status.UNDERFLOW)  # by the kernel's codes

Progress = Callable[[int], None]


def solve(
    problem: BlockQuadratic,
    optimizer: Optimizer,
    *,
    w0: Any = None,
    seed: int = 0,
    max_steps: int = 100_000,
    tol: float = 1e-6,
    record: str | int = "log",
    progress: Progress | None = None,
) -> Trajectory:
    """Run one optimizer on one problem.

    Parameters
    ----------
    w0 : (dim,) array, optional
        The start; by default the standard Gaussian point of `seed`.
    max_steps : int
        The last step to take.
    tol : float
        Stop at the first step with ‖g‖/‖g₀‖ ≤ tol; 0 runs on.
    record : "log" or int
        Which steps to keep: log-spaced (every one up to about 150), or every k-th.
    progress : callable, optional
        Told the step reached, about ten times a second.
    """
    starts = None if w0 is None else [w0]
    seeds = None if w0 is not None else [seed]
    lanes = solve_lanes(
        problem, [optimizer], w0=starts, seeds=seeds, max_steps=max_steps, tol=tol, record=record, progress=progress
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
    seeds: Sequence[int] | None = None,
    max_steps: int = 100_000,
    tol: float = 1e-6,
    record: str | int = "log",
    threads: int | None = None,
    progress: Progress | None = None,
) -> Lanes:
    """Run many optimizers, starts or both on one problem, side by side.

    Lane k runs ``optimizers[k]`` from ``w0[k]`` (or from the Gaussian point of ``seeds[k]``); a list of one serves all
    lanes. Optimizers of different kinds may be mixed. A lane's numbers depend on its own definition alone.

    >>> qs.solve_lanes(problem, [qs.Adam(lr=lr) for lr in rates], seeds=[0]).table()
    """
    max_steps = checks.whole("max_steps", max_steps, at_least=0, at_most=MOST_STEPS)
    tol = checks.real("tol", tol, at_least=0)
    threads = _cores() if threads is None else checks.whole("threads", threads, at_least=1)
    marks = record_marks(record, max_steps)
    if progress is not None and not callable(progress):
        raise InputTypeError(f"progress must be a function of the step reached, got {checks.shown(progress)}")
    lanes = _lanes(problem, optimizers, w0, seeds)
    tiles = [tile for group in _by_kind(lanes) for tile in _tiles(group)]
    shared = _Shared(problem, max_steps, tol, marks, progress)
    if threads == 1 or len(tiles) == 1:
        done = [_run_tile(shared, tile) for tile in tiles]
    else:
        with ThreadPoolExecutor(min(threads, len(tiles))) as pool:
            try:
                done = list(pool.map(lambda tile: _run_tile(shared, tile), tiles))
            except BaseException:  # Ctrl-C above all: leaving the pool waits for its threads
                shared.cancelled.set()
                raise
    by_lane = {
        lane.number: run for tile, runs in zip(tiles, done, strict=True) for lane, run in zip(tile, runs, strict=True)
    }
    return Lanes(tuple(by_lane[number] for number in range(len(lanes))))


def record_marks(record: str | int, max_steps: int) -> np.ndarray:
    """The steps to record, 0 first: at most a few thousand however long the run."""
    if isinstance(record, str) and record == "log":
        marks = np.geomspace(1, max(max_steps, 1), LOG_POINTS).round().astype(np.int64)
        marks = np.unique(np.concatenate([[0], marks[marks <= max_steps]]))
    elif isinstance(record, str):
        raise InputError(f"record must be 'log' or a whole number of at least 1, got {checks.shown(record)}")
    else:
        every = checks.whole("record", record, at_least=1)
        if max_steps // every >= MOST_RECORDED:
            raise InputError(
                f"record={every} would keep {max_steps // every + 1} points of {max_steps} steps: "
                f"use record={max_steps // MOST_RECORDED + 1} or more, or record='log'"
            )
        marks = np.arange(0, max_steps + 1, every, dtype=np.int64)
    return np.append(marks, np.iinfo(np.int64).max)  # the kernel reads one mark ahead


@dataclass(frozen=True)
class _Lane:
    number: int
    optimizer: Optimizer
    error: np.ndarray
    seed: int | None


@dataclass(frozen=True)
class _Shared:
    problem: BlockQuadratic
    max_steps: int
    tol: float
    marks: np.ndarray
    progress: Progress | None
    cancelled: threading.Event = field(default_factory=threading.Event)


def _lanes(problem: BlockQuadratic, optimizers: Any, w0: Any, seeds: Any) -> list[_Lane]:
    if not isinstance(problem, BlockQuadratic):
        raise InputTypeError(f"problem must be a BlockQuadratic, got {checks.shown(problem)}")
    optimizers = [optimizers] if isinstance(optimizers, Optimizer) else _listed("optimizers", optimizers)
    for optimizer in optimizers:
        if not isinstance(optimizer, Optimizer):
            raise InputTypeError(f"optimizer must be one such as GD() or Adam(), got {checks.shown(optimizer)}")
    if w0 is not None and seeds is not None:
        raise InputError("give w0 or seeds, not both")
    if w0 is not None:
        starts = [checks.vector("w0", start, problem.dim) for start in _listed("w0", w0)]
        seeds = [None] * len(starts)
    else:
        seeds = [0] if seeds is None else _listed("seeds", seeds)
        starts = [problem.start(seed) for seed in seeds]
    count = max(len(optimizers), len(starts))
    if len(optimizers) not in (1, count) or len(starts) not in (1, count) or not optimizers or not starts:
        raise InputError(
            f"{len(optimizers)} optimizers and {len(starts)} starts make no lanes: give as many of each, or one"
        )
    lanes = []
    for number in range(count):
        start = number % len(starts)
        error = starts[start] - problem.minimizer
        optimizer = optimizers[number % len(optimizers)].resolved(problem, error)
        lanes.append(_Lane(number, optimizer, error, seeds[start]))
    return lanes


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputTypeError(f"{name} must be a list, one item for each lane, got {checks.shown(values)}")
    return list(values)


def _by_kind(lanes: list[_Lane]) -> list[list[_Lane]]:
    """The lanes of each kind of optimizer, in their order."""
    kinds: dict[type[Optimizer], list[_Lane]] = {}
    for lane in lanes:
        kinds.setdefault(type(lane.optimizer), []).append(lane)
    return list(kinds.values())


def _tiles(lanes: list[_Lane]) -> list[list[_Lane]]:
    """Tiles of up to eight lanes; one or two left over are quicker alone."""
    full = [lanes[k : k + compiler.WIDTH] for k in range(0, len(lanes), compiler.WIDTH)]
    if len(full[-1]) <= 2:
        return full[:-1] + [[lane] for lane in full[-1]]
    return full


def _run_tile(shared: _Shared, tile: list[_Lane]) -> list[Trajectory]:
    """Run up to eight lanes of one rule to their ends."""
    problem, kind = shared.problem, type(tile[0].optimizer)
    width = 1 if len(tile) == 1 else compiler.WIDTH
    kernel = compiler.kernel(kind, width)
    blocks, sizes = np.concatenate([b.ravel() for b in problem.blocks]), np.array(problem.sizes, dtype=np.int64)
    padded = tile + [tile[-1]] * (width - len(tile))
    e = np.stack([lane.error for lane in padded], axis=1).ravel()  # (d * width,), the lanes of a coordinate together
    e, g, final = _aligned(e), _aligned(np.zeros_like(e)), np.zeros_like(e)
    scratch = np.zeros((4, width))
    kernel.begin(blocks, sizes, e, g, scratch)
    first_norm = scratch[2].copy()

    names, row = compiler.setting_names(kind), kernel.ROW
    groups = np.array([problem.dim]) if width == 1 else sizes
    state = _aligned(np.zeros((len(kind.state), problem.dim * width)))
    clock = np.zeros((len(kind.clock), 1 if width == 1 else row))
    settings = _aligned(np.zeros((len(names), len(groups), problem.dim if width == 1 else row)))
    watched = np.zeros((len(sizes), width), dtype=bool)
    for k, lane in enumerate(padded):
        for s, values in enumerate(lane.optimizer.first_state(g[k::width].copy())):
            state[s, k::width] = values
        clock[:, k::width] = np.reshape(lane.optimizer.first_clock(), (-1, 1))
        for p, name in enumerate(names):
            by_block = np.broadcast_to(getattr(lane.optimizer, name), sizes.shape)
            if width == 1:
                settings[p, 0] = np.repeat(by_block, sizes)
            else:
                settings[p, :, k::width] = by_block[:, None]
        if not kind.linear:
            watched[:, k] = [part.any() for part in problem.split(lane.error)]

    with np.errstate(over="ignore"):
        limit = EXPLODED * np.maximum(0.5 * scratch[0], problem.lipschitz)
    marks, cursor = shared.marks, np.zeros(1, dtype=np.int64)
    loss_at, norm_at = np.zeros((marks.size, width)), np.zeros((marks.size, width))
    status, stopped = np.zeros(width, dtype=np.int64), np.full(width, -1, dtype=np.int64)
    status[len(tile) :], stopped[len(tile) :] = 2, 0  # padding does not run
    final_loss_norm = np.zeros((2, width))

    t, length = 0, FIRST_SLICE // sum(n * n for n in problem.sizes) + 1
    while (status == 0).any():
        if shared.cancelled.is_set():
            raise KeyboardInterrupt
        began = time.perf_counter()
        until = min(t + length, shared.max_steps)
        t = kernel.advance(
            blocks, sizes, e, g, state, settings, clock, groups, t, until, shared.max_steps, shared.tol,
            first_norm, limit, watched, marks, cursor, loss_at, norm_at, status, stopped, final, final_loss_norm,
            scratch,
        )  # fmt: skip
        length = int(length * min(SLICE_SECONDS / max(time.perf_counter() - began, 1e-9), 10)) + 1
        if shared.progress is not None:
            shared.progress(t)
    return [
        _trajectory(shared, lane, k, stopped, status, loss_at, norm_at, final, final_loss_norm)
        for k, lane in enumerate(tile)
    ]


def _trajectory(
    shared: _Shared,
    lane: _Lane,
    k: int,
    stopped: np.ndarray,
    status: np.ndarray,
    loss_at: np.ndarray,
    norm_at: np.ndarray,
    final: np.ndarray,
    final_loss_norm: np.ndarray,
) -> Trajectory:
    """Lane k's record: the marks before its end, and the end itself if its values are finite."""
    before = int(np.searchsorted(shared.marks, stopped[k]))
    steps, loss, norms = shared.marks[:before], loss_at[:before, k], norm_at[:before, k]
    if np.isfinite(final_loss_norm[:, k]).all():
        steps = np.append(steps, stopped[k])
        loss, norms = np.append(loss, final_loss_norm[0, k]), np.append(norms, final_loss_norm[1, k])
    ended = STATUSES[status[k]]
    assert ended is not None
    return Trajectory(
        steps=steps,
        loss=loss.copy(),
        grad_norm=norms.copy(),
        status=ended,
        last_step=int(stopped[k]),
        w=shared.problem.minimizer + final[k :: status.size],
        optimizer=lane.optimizer,
        problem=shared.problem.name,
        seed=lane.seed,
        tol=shared.tol,
        max_steps=shared.max_steps,
    )


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins on a cache line: a vector that straddles two is loaded twice."""
    line = 64
    buffer = np.empty(array.nbytes + line, dtype=np.uint8)
    begin = -buffer.ctypes.data % line
    copy = buffer[begin : begin + array.nbytes].view(np.float64).reshape(array.shape)
    copy[...] = array
    return copy


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
