"""Eight lanes at a time: packing runs into the kernel's arrays, running it in slices, unpacking what it left.

Everything here has been checked by `solver` before. The layout of the arrays is the one that `kernels` describes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quadsim import compiler
from quadsim.optimizers import Optimizer
from quadsim.problem import BlockQuadratic
from quadsim.trajectory import EXPLODED, Status, Trajectory

SLICE_SECONDS = 0.1  # how long a run goes on before progress is told and Ctrl-C is heard
FIRST_SLICE = 1_000_000  # multiplications of the first slice, before its time is known


@dataclass(frozen=True)
class Lane:
    """One run: its place in the caller's order, its optimizer with the lr filled in, and its start as an error."""

    number: int
    optimizer: Optimizer
    error: np.ndarray
    seed: int | None


@dataclass(frozen=True)
class Job:
    """What all lanes of a call share."""

    problem: BlockQuadratic
    max_steps: int
    tol: float
    marks: np.ndarray  # the steps to record, and one beyond reach
    progress: Callable[[int], None] | None
    cancelled: threading.Event = field(default_factory=threading.Event)


def cut(lanes: list[Lane]) -> list[list[Lane]]:
    """Tiles of up to eight lanes of one kind of optimizer; one or two left over are quicker alone."""
    kinds: dict[type[Optimizer], list[Lane]] = {}
    for lane in lanes:
        kinds.setdefault(type(lane.optimizer), []).append(lane)
    tiles = []
    for alike in kinds.values():
        for k in range(0, len(alike), compiler.WIDTH):
            tile = alike[k : k + compiler.WIDTH]
            tiles += [tile] if len(tile) > 2 else [[lane] for lane in tile]
    return tiles


def run(job: Job, tile: list[Lane]) -> list[Trajectory]:
    """Run the lanes of one tile to their ends."""
    problem, kind = job.problem, type(tile[0].optimizer)
    width = 1 if len(tile) == 1 else compiler.WIDTH
    kernel = compiler.kernel(kind, width)
    lanes = tile + [tile[-1]] * (width - len(tile))  # padding: computed, and never looked at
    blocks, sizes = np.concatenate([b.ravel() for b in problem.blocks]), np.array(problem.sizes, dtype=np.int64)
    e = _aligned(np.stack([lane.error for lane in lanes], axis=1).ravel())  # (d * width,)
    g, scratch = _aligned(np.zeros_like(e)), np.zeros((4, width))
    kernel.begin(blocks, sizes, e, g, scratch)
    first_norm = scratch[2].copy()
    with np.errstate(over="ignore"):
        limit = EXPLODED * np.maximum(0.5 * scratch[0], problem.lipschitz)
    state, settings, clock, groups = _pack(kernel, problem, lanes, g)
    units = np.zeros(problem.dim, dtype=np.int64) if kind.linear else problem.units()
    watched = np.zeros((units.max() + 1, width), dtype=bool)
    if not kind.linear:  # a linear method may put a unit on its minimum; others are watched
        for k, lane in enumerate(lanes):
            watched[units[lane.error != 0], k] = True
    left = _Left(job.marks.size, problem.dim, width)
    left.status[len(tile) :], left.stopped[len(tile) :] = kernel.MAX_STEPS, 0

    t, length = 0, FIRST_SLICE // sum(n * n for n in problem.sizes) + 1
    while (left.status == kernel.RUNNING).any():
        if job.cancelled.is_set():
            raise KeyboardInterrupt
        began = time.perf_counter()
        until = min(t + length, job.max_steps)
        t = kernel.advance(
            blocks, sizes, e, g, state, settings, clock, groups, t, until, job.max_steps, job.tol, first_norm, limit,
            units, watched, np.zeros(len(watched), dtype=np.int64), job.marks, left.cursor, left.loss_at,
            left.norm_at, left.status, left.stopped, left.final, left.final_loss_norm, scratch,
        )  # fmt: skip
        length = int(length * min(SLICE_SECONDS / max(time.perf_counter() - began, 1e-9), 10)) + 1
        if job.progress is not None:
            job.progress(t)
    statuses = {getattr(kernel, status.name): status for status in Status}
    return [_trajectory(job, lane, left, k, statuses) for k, lane in enumerate(tile)]


class _Left:
    """What the kernel leaves behind, lane by lane."""

    def __init__(self, marks: int, dim: int, width: int) -> None:
        self.cursor = np.zeros(1, dtype=np.int64)
        self.loss_at, self.norm_at = np.zeros((marks, width)), np.zeros((marks, width))
        self.status, self.stopped = np.zeros(width, dtype=np.int64), np.full(width, -1, dtype=np.int64)
        self.final, self.final_loss_norm = np.zeros(dim * width), np.zeros((2, width))


def _pack(kernel: Any, problem: BlockQuadratic, lanes: list[Lane], g: np.ndarray) -> tuple[np.ndarray, ...]:
    """What the rule needs at step 0, given the first gradients: (state, settings, clock, groups)."""
    kind, width = type(lanes[0].optimizer), len(lanes)
    names, sizes = compiler.setting_names(kind), np.array(problem.sizes, dtype=np.int64)
    state = _aligned(np.zeros((len(kind.state), problem.dim * width)))
    if width == 1:  # settings by coordinate, all of them moved in one loop
        groups, clock = np.array([problem.dim], dtype=np.int64), np.zeros((len(kind.clock), 1))
        settings = _aligned(np.zeros((len(names), 1, problem.dim)))
    else:  # settings by block, the lanes' repeated to the length of a row
        groups, clock = sizes, np.zeros((len(kind.clock), kernel.ROW))
        settings = _aligned(np.zeros((len(names), len(sizes), kernel.ROW)))
    for k, lane in enumerate(lanes):
        for s, values in enumerate(lane.optimizer.first_state(g[k::width].copy())):
            state[s, k::width] = values
        clock[:, k::width] = np.reshape(lane.optimizer.first_clock(), (-1, 1))
        for p, name in enumerate(names):
            by_block = np.broadcast_to(getattr(lane.optimizer, name), sizes.shape)
            if width == 1:
                settings[p, 0] = np.repeat(by_block, sizes)
            else:
                settings[p, :, k::width] = by_block[:, None]
    return state, settings, clock, groups


def _trajectory(job: Job, lane: Lane, left: _Left, k: int, statuses: dict[int, Status]) -> Trajectory:
    """Lane k's record: the marks before its end, and the end itself if its values are finite."""
    stopped = int(left.stopped[k])
    before = int(np.searchsorted(job.marks, stopped))
    steps, loss, norms = job.marks[:before].copy(), left.loss_at[:before, k].copy(), left.norm_at[:before, k].copy()
    if np.isfinite(left.final_loss_norm[:, k]).all():
        steps = np.append(steps, stopped)
        loss, norms = np.append(loss, left.final_loss_norm[0, k]), np.append(norms, left.final_loss_norm[1, k])
    status = statuses[int(left.status[k])]
    with np.errstate(divide="ignore"):
        log_loss, log_norms = np.log(loss), np.log(norms)
    return Trajectory(
        steps=steps,
        loss=loss,
        grad_norm=norms,
        log_loss=log_loss,
        log_grad_norm=log_norms,
        status=status,
        steps_to_tol=stopped if status is Status.CONVERGED else None,
        last_step=stopped,
        w=job.problem.minimizer + left.final[k :: left.status.size],
        optimizer=lane.optimizer,
        problem=job.problem.name,
        seed=lane.seed,
        tol=job.tol,
        max_steps=job.max_steps,
        engine="iterate",
    )


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins on a cache line: a vector that straddles two is loaded twice."""
    line = 64
    buffer = np.empty(array.nbytes + line, dtype=np.uint8)
    begin = -buffer.ctypes.data % line
    copy = buffer[begin : begin + array.nbytes].view(np.float64).reshape(array.shape)
    copy[...] = array
    return copy
