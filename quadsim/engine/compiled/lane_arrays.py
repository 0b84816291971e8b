"""The arrays of a kernel: pack runs into them, advance them, read the results.

`kernel_template.advance` documents the arrays. `engine.solver` has checked the input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np

from quadsim._progress import Task
from quadsim.engine.compiled.kernel_source import requested_names, setting_names
from quadsim.engine.trajectory import DIVERGENCE_FACTOR, Status, Trajectory, record_marks
from quadsim.optimizers import Optimizer
from quadsim.optimizers.schedules import Schedule
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.noise import Noise, run_key

PAGE_BYTES, LINE_BYTES = 4096, 64
STAGGER_BYTES = 512  # between the starts of arrays within their pages

Progress = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Lane:
    """One run: its optimizer, its start as an error, and its seed."""

    optimizer: Optimizer
    error: np.ndarray
    seed: int


@dataclass(frozen=True)
class Job:
    """What the runs of a call on one problem share."""

    problem: BlockQuadratic
    max_steps: Any  # int; None lets a closed form take as many steps as it needs
    tol: float
    record: str | int
    noise: Noise
    schedule: Schedule
    seeded: bool  # whether the problem or the starts come from the seeds
    threads: int
    progress: Progress  # raises KeyboardInterrupt if the call was cancelled
    cancelled: Event
    task: Task | None = None  # of the call, if it is one problem's


class LaneArrays:
    """A batch of lanes as the arguments of a kernel: attributes with the names of the parameters of `advance`."""

    def __init__(self, job: Job, batch: list[Lane], kernel: Any) -> None:
        problem, width = job.problem, kernel.WIDTH
        self.job, self.batch, self.kernel, self.kind = job, batch, kernel, type(batch[0].optimizer)
        self.t, self.last_step, self.tol, self.batch_size = 0, job.max_steps, job.tol, job.noise.batch or 0
        lanes = batch + [batch[-1]] * (width - len(batch))  # padding: computed, but never read
        self.h, self.sizes = _flat(kernel, problem.blocks), np.array(problem.sizes, dtype=np.int64)
        self.rule_address = kernel.rule_address
        self.e = _aligned(np.stack([lane.error for lane in lanes], axis=1).ravel())
        self.g, self.sums = _aligned(np.zeros_like(self.e), 4), np.zeros((4, width))
        kernel.begin(self.h, self.sizes, self.e, self.g, self.sums)
        self.first_norm = self.sums[2].copy()
        with np.errstate(over="ignore"):
            self.max_loss = DIVERGENCE_FACTOR * np.maximum(0.5 * self.sums[0], problem.lipschitz)
        self._pack_rule(lanes)
        self._pack_noise(lanes)
        self.minimizer = _aligned(np.repeat(problem.minimizer, width), 6)
        self.units = np.zeros(problem.dim, dtype=np.int64) if self.kind.homogeneous else problem.units()
        self.checked_units = np.zeros((self.units.max() + 1, width), dtype=bool)
        if not self.kind.homogeneous:  # a homogeneous method may let a unit underflow
            for k, lane in enumerate(lanes):
                self.checked_units[self.units[lane.error != 0], k] = True
        self.magnitudes, self.cursor = np.zeros(len(self.checked_units), dtype=np.int64), np.zeros(1, dtype=np.int64)
        self.marks = np.append(record_marks(job.record, job.max_steps), np.iinfo(np.int64).max)  # one beyond the end
        self.loss_at, self.norm_at = np.zeros((self.marks.size, width)), np.zeros((self.marks.size, width))
        self.status, self.stopped = np.zeros(width, dtype=np.int64), np.full(width, -1, dtype=np.int64)
        self.status[len(batch) :], self.stopped[len(batch) :] = kernel.MAX_STEPS, 0
        self.final, self.final_loss_norm = np.zeros_like(self.e), np.zeros((2, width))

    def _pack_rule(self, lanes: list[Lane]) -> None:
        """The rule's arrays at step 0, given the first gradients: state, settings, shared_state and groups."""
        kind, problem, sizes, width = self.kind, self.job.problem, self.sizes, len(lanes)
        names, optimizers = setting_names(kind), [lane.optimizer for lane in lanes]
        values = [[getattr(optimizer, name) for optimizer in optimizers] for name in names]
        several = any(isinstance(value, tuple) for row in values for value in row)  # one value for each block
        by_coordinate = kind.scope == "coordinate"
        single = by_coordinate and width == 1  # settings by coordinate, so that one loop updates all of them
        by_block = kind.scope == "block" or (by_coordinate and several and not single)
        self.groups = sizes if by_block else np.array([problem.dim], dtype=np.int64)
        columns = self.kernel.ROW_SIZE if by_coordinate and not single else width  # lanes, repeated to fill a row

        shared = np.array([optimizer.first_shared_state() for optimizer in optimizers]).reshape(width, -1).T
        self.shared_state = _aligned(np.tile(shared, columns // width), 7)
        shape = len(names), len(self.groups), problem.dim if single else columns
        self.settings = _aligned(np.zeros(shape), 3)
        for p, row in enumerate(values):
            by_lane = np.array([value if isinstance(value, tuple) else (value,) * len(sizes) for value in row])
            if single:
                self.settings[p, 0] = np.repeat(by_lane[0], sizes)
            else:
                self.settings[p] = np.tile(by_lane.T[: len(self.groups)], columns // width)

        row_bytes = -(-self.e.nbytes // PAGE_BYTES) * PAGE_BYTES + STAGGER_BYTES  # of whole vectors, staggered
        self.state = _aligned(np.zeros((len(kind.state), row_bytes // 8)), 1)
        for k, optimizer in enumerate(optimizers):
            for s, first in enumerate(optimizer.first_state(self.g[k::width].copy())):
                self.state[s, k : self.e.size : width] = first
        self.rule_workspace = np.zeros((4 + len(kind.state), self.groups.max()))

    def _pack_noise(self, lanes: list[Lane]) -> None:
        noise, problem = self.job.noise, self.job.problem
        examples = noise.examples(problem)
        self.sqrt_hessian = _flat(self.kernel, examples)
        self.sqrt_hessian_t = _flat(self.kernel, [block.T for block in examples])
        self.noise = noise.kernel_scales(problem.dim)
        self.offsets, self.keys = np.zeros(0, dtype=np.int64), np.zeros((len(lanes), 2), dtype=np.uint64)
        random = "random" in requested_names(self.kind)
        if random:
            by_block = np.repeat(np.arange(len(self.sizes)), self.sizes)
            offsets = {"block": by_block, "coordinate": np.arange(problem.dim)}
            self.offsets = np.stack([offsets[lane.optimizer.random_by] for lane in lanes], axis=1).ravel()
        self.random = random or noise.any
        if self.random:
            self.keys[:] = [run_key(lane.seed) for lane in lanes]
        self.workspace = _aligned(np.zeros((4, self.e.size)), 5)

    @property
    def running(self) -> bool:
        """Whether a lane has not stopped yet."""
        return bool((self.status == self.kernel.RUNNING).any())

    def advance(self, until: int) -> int:
        """Run to step `until`, or until all lanes stop; return the step reached."""
        job, schedule = self.job, np.ones(1)
        if job.schedule.changes:  # at least two values, since the kernel takes a single one for all steps
            schedule = job.schedule.factors(self.t + 1, max(until, self.t + 2), job.max_steps)
        arguments = {**vars(self), "until": until, "schedule": schedule}
        code = self.kernel.advance.py_func.__code__
        self.t = self.kernel.advance(*(arguments[name] for name in code.co_varnames[: code.co_argcount]))
        return self.t

    def trajectories(self) -> list[Trajectory]:
        with np.errstate(divide="ignore"):  # the logarithm of 0
            statuses = {getattr(self.kernel, status.name): status for status in Status}
            return [self._trajectory(lane, k, statuses[int(self.status[k])]) for k, lane in enumerate(self.batch)]

    def _trajectory(self, lane: Lane, k: int, status: Status) -> Trajectory:
        """Lane k's record: the marks before its end, and the end itself if its values are finite."""
        job, problem, stopped = self.job, self.job.problem, int(self.stopped[k])
        final_loss, final_norm = self.final_loss_norm[:, k].tolist()
        before = int(np.searchsorted(self.marks, stopped))
        end = math.isfinite(final_loss) and math.isfinite(final_norm)
        loss = np.append(self.loss_at[:before, k], [final_loss] * end)
        norms = np.append(self.norm_at[:before, k], [final_norm] * end)
        error = self.final[k :: self.status.size].copy()
        return Trajectory(
            steps=np.append(self.marks[:before], [stopped] * end).astype(np.int64),
            loss=loss,
            grad_norm=norms,
            log_loss=np.log(loss),
            log_grad_norm=np.log(norms),
            status=status,
            steps_to_tol=stopped if status is Status.CONVERGED else None,
            last_step=stopped,
            w=problem.minimizer + error,
            error=error,
            w0=problem.minimizer + lane.error,
            minimizer=problem.minimizer_kind,
            optimizer=lane.optimizer,
            problem=problem.name,
            seed=lane.seed if job.seeded or self.random else None,
            tol=job.tol,
            max_steps=job.max_steps,
            engine="compiled",
            noise=job.noise,
            schedule=job.schedule,
        )


def _flat(kernel: Any, blocks: Sequence[np.ndarray]) -> np.ndarray:
    """The blocks one after the other, in the order in which the kernel reads them."""
    parts = [part for block in blocks for part in _row_groups(kernel, block)]
    return np.concatenate([np.ravel(part) for part in parts]) if parts else np.zeros(0)


def _row_groups(kernel: Any, block: np.ndarray) -> list[np.ndarray]:
    """A block row by row; for one lane, the rows that are computed together column by column, padded with zeros."""
    if kernel.WIDTH > 1:
        return [block]
    parts, i = [], 0
    while i < len(block):
        rows = kernel.MANY_ROWS if i + kernel.MANY_ROWS <= len(block) else kernel.VECTOR_SIZE
        part = np.zeros((len(block), rows))
        part[:, : len(block) - i] = block[i : i + rows].T
        parts.append(part)
        i += rows
    return parts


def _aligned(array: np.ndarray, slot: int = 0) -> np.ndarray:
    """A copy that starts on a cache line, padded to a whole vector, in one of eight slots of a page.

    A vector that straddles two cache lines is loaded twice. Addresses that agree in their last 12 bits look equal to
    the processor at first (4K aliasing), so arrays that are used together have different slots.
    """
    buffer = np.empty(array.nbytes + PAGE_BYTES + LINE_BYTES, dtype=np.uint8)
    start = (slot * STAGGER_BYTES - buffer.ctypes.data) % PAGE_BYTES
    copy = buffer[start : start + array.nbytes].view(np.float64).reshape(array.shape)
    copy[...] = array
    return copy
