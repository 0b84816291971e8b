"""Eight lanes at a time: packing runs into the kernel's arrays, running it in slices, unpacking what it left.

Everything here has been checked by `solver` before. The layout of the arrays is the one that `kernels` describes.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from quadsim import compiler, diagnosis
from quadsim.noise import Noise, run_key
from quadsim.optimizers import Optimizer
from quadsim.problem import BlockQuadratic
from quadsim.schedules import Schedule
from quadsim.trajectory import EXPLODED, Status, Trajectory

SLICE_SECONDS = 0.1  # how long a run goes on before progress is told and Ctrl-C is heard
LITTLE = 20_000_000  # multiplications of a run that takes far less time than compiling a kernel for it
FIRST_SLICE = 1_000_000  # multiplications of the first slice, before its time is known
LOOK_BACK = 16  # steps in which NaN may have been on its way
PAGE, SHIFT = 4096, 512  # bytes
LONGEST_SLICE = 4_000_000  # steps; a schedule has a number for each


@dataclass(frozen=True)
class Lane:
    """One run: its place in the caller's order, its optimizer with the lr filled in, and its start as an error."""

    number: int
    optimizer: Optimizer
    error: np.ndarray
    seed: int | None

    @property
    def noise_seed(self) -> int:
        """The seed of its random numbers."""
        return 0 if self.seed is None else self.seed


@dataclass(frozen=True)
class Job:
    """What all lanes of a call share."""

    problem: BlockQuadratic
    max_steps: int
    tol: float
    marks: np.ndarray  # the steps to record, and one beyond reach
    noise: Noise
    schedule: Schedule
    progress: Callable[[int], None] | None
    cancelled: threading.Event = field(default_factory=threading.Event)


def cut(lanes: list[Lane], threads: int = 1) -> list[list[Lane]]:
    """Tiles of lanes of one kind of optimizer: 32, where that leaves work for all threads, or 8.

    One or two left over are quicker alone.
    """
    kinds: dict[type[Optimizer], list[Lane]] = {}
    for lane in lanes:
        kinds.setdefault(type(lane.optimizer), []).append(lane)
    tiles = []
    for alike in kinds.values():
        wide = compiler.wide_pays(alike[0].error.size)
        left = alike
        while wide and len(left) > (compiler.WIDE // 2 if len(left) < len(alike) else compiler.WIDE * threads // 2):
            tiles.append(left[: compiler.WIDE])
            left = left[compiler.WIDE :]
        for k in range(0, len(left), compiler.WIDTH):
            tile = left[k : k + compiler.WIDTH]
            tiles += [tile] if len(tile) > 2 else [[lane] for lane in tile]
    return tiles


def run(job: Job, tile: list[Lane]) -> list[Trajectory]:
    """Run the lanes of one tile to their ends."""
    running = _Running(job, tile)
    length = FIRST_SLICE // sum(n * n for n in job.problem.sizes) + 1
    while running.any:
        if job.cancelled.is_set():
            raise KeyboardInterrupt
        began = time.perf_counter()
        try:
            t = running.advance(min(running.t + length, job.max_steps))
        except Exception as error:  # only a rule can raise one
            diagnosis.tell_raised(running.kind, error)
            raise
        faster = SLICE_SECONDS / max(time.perf_counter() - began, 1e-9)
        length = min(int(length * min(faster, 10)) + 1, LONGEST_SLICE)
        if job.progress is not None:
            job.progress(t)
    done = running.trajectories()
    for lane, trajectory in zip(tile, done, strict=True):
        if trajectory.status is Status.DIVERGED and lane.optimizer.own and not np.isfinite(trajectory.w).all():
            _find_nan(job, lane, trajectory.last_step)
    return done


class _Running:
    """The lanes of one tile, as arrays, on their way."""

    def __init__(self, job: Job, tile: list[Lane]) -> None:
        problem, self.job, self.tile, self.t = job.problem, job, tile, 0
        self.kind = type(tile[0].optimizer)
        width, alike = _fitting(job, tile)
        self.kernel = kernel = compiler.kernel(self.kind, width, job.noise.any, alike)
        lanes = tile + [tile[-1]] * (width - len(tile))  # padding: computed, and never looked at
        self.blocks, self.sizes = _flat(kernel, problem.blocks), np.array(problem.sizes, dtype=np.int64)
        self.e = _aligned(np.stack([lane.error for lane in lanes], axis=1).ravel())  # (d * width,)
        self.g, self.scratch = _aligned(np.zeros_like(self.e), 4), np.zeros((4, width))
        kernel.begin(self.blocks, self.sizes, self.e, self.g, self.scratch)
        self.first_norm = self.scratch[2].copy()
        with np.errstate(over="ignore"):
            self.limit = EXPLODED * np.maximum(0.5 * self.scratch[0], problem.lipschitz)
        self.state, self.settings, self.clock, self.groups = _pack(kernel, problem, lanes, self.g)
        self.minimizer = _aligned(np.repeat(problem.minimizer, width), 6)
        self._pack_noise(lanes)
        self.room = np.zeros((4 + len(self.kind.state), self.groups.max()))
        self.units = np.zeros(problem.dim, dtype=np.int64) if self.kind.linear else problem.units()
        self.watched = np.zeros((self.units.max() + 1, width), dtype=bool)
        if not self.kind.linear:  # a linear method may put a unit on its minimum; others are watched
            for k, lane in enumerate(lanes):
                self.watched[self.units[lane.error != 0], k] = True
        self.left = _Left(job.marks.size, problem.dim, width)
        self.left.status[len(tile) :], self.left.stopped[len(tile) :] = kernel.MAX_STEPS, 0

    def _pack_noise(self, lanes: list[Lane]) -> None:
        noise, problem, width = self.job.noise, self.job.problem, len(lanes)
        examples = noise.examples(problem)
        self.factor, self.across = _flat(self.kernel, examples), _flat(self.kernel, [a.T for a in examples])
        self.scales = np.array([noise.noise, noise.label_noise / np.sqrt(problem.dim)])
        random = "random" in compiler.asked_for(self.kind)
        self.places = np.zeros(self.e.size if random else 0, dtype=np.int64)
        if random:
            by = {
                "block": np.repeat(np.arange(len(problem.sizes)), problem.sizes),
                "coordinate": np.arange(problem.dim),
            }
            for k, lane in enumerate(lanes):
                self.places[k::width] = by[lane.optimizer.random_by]
        self.keys = np.zeros((width, 2), dtype=np.uint64)
        if noise.any or random:
            self.keys[:] = [run_key(lane.noise_seed) for lane in lanes]
        self.work = _aligned(np.zeros((4, self.e.size)), 5)

    @property
    def any(self) -> bool:
        """Whether a lane has not ended yet."""
        return bool((self.left.status == self.kernel.RUNNING).any())

    def advance(self, until: int) -> int:
        """Run on to step `until`, or to the lanes' ends; the step reached."""
        job, left = self.job, self.left
        factors = np.ones(1)
        if job.schedule.changes:
            factors = job.schedule.factors(
                self.t + 1, max(until, self.t + 2), job.max_steps
            )  # two: one would be for all
        self.t = self.kernel.advance(
            self.blocks, self.sizes, self.minimizer, self.e, self.g, self.state, self.settings, self.clock, self.groups,
            factors, self.factor, self.across, self.scales, job.noise.batch or 0, self.keys, self.places, self.work,
            self.room, self.t, until, job.max_steps, job.tol, self.first_norm, self.limit, self.units, self.watched,
            np.zeros(len(self.watched), dtype=np.int64), job.marks, left.cursor, left.loss_at, left.norm_at,
            left.status, left.stopped, left.final, left.final_loss_norm, self.scratch,
        )  # fmt: skip
        return self.t

    def trajectories(self) -> list[Trajectory]:
        statuses = {getattr(self.kernel, status.name): status for status in Status}
        with np.errstate(divide="ignore"):  # the logarithm of 0
            return [_trajectory(self.job, lane, self.left, k, statuses) for k, lane in enumerate(self.tile)]


def _find_nan(job: Job, lane: Lane, step: int) -> None:
    """Go back to before a rule of the user's own gave NaN, and tell the line that did, if one did."""
    quiet = replace(job, marks=job.marks[-1:], progress=None)
    for before in range(step - 1, max(step - LOOK_BACK, -1), -1):
        again = _Running(quiet, [lane])
        again.advance(before)
        if not np.isnan(again.state).any() and not np.isnan(again.clock).any():
            break
    kind, e, g, state, clock = again.kind, again.e.copy(), again.g.copy(), again.state.copy(), again.clock.copy()
    again.advance(before + 1)  # for the noise and the clock of this step
    seen, problem = again.work[0] if job.noise.any else g, job.problem
    factor = job.schedule.factors(before + 1, before + 1, job.max_steps)[0]
    ends = {"coordinate": np.arange(problem.dim + 1), "block": np.cumsum([0, *problem.sizes])}
    for low, high in itertools.pairwise(ends.get(kind.scope, np.array([0, problem.dim]))):
        part = low if kind.scope == "coordinate" else slice(low, high)
        block = np.searchsorted(np.cumsum(problem.sizes), low, side="right")
        given = {"g": seen[part], "w": (e + problem.minimizer)[part], "random": again.work[3][part]}
        given |= {"step": np.zeros(high - low), "t": float(before + 1)}
        given |= {name: state[s][part] for s, name in enumerate(kind.state)}
        for name in compiler.setting_names(kind):
            value = float(np.broadcast_to(getattr(lane.optimizer, name), len(problem.sizes))[block])
            given[name] = value * factor if name == "lr" else value
        if kind.tick is not None and low == 0:
            earlier = given | {name: clock[c, 0] for c, name in enumerate(kind.clock)}
            diagnosis.find_nan(
                kind.tick, {name: earlier[name] for name in compiler.names_of(kind.tick)}, (), before + 1
            )
        given |= {name: again.clock[c, 0] for c, name in enumerate(kind.clock)}
        changed = () if kind.scope == "coordinate" else ("step", *kind.state)
        diagnosis.find_nan(kind.rule, {name: given[name] for name in compiler.names_of(kind.rule)}, changed, before + 1)


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
    row = -(-problem.dim * width * 8 // PAGE) * PAGE // 8 + SHIFT // 8  # rows of whole vectors, one place further each
    state = _aligned(np.zeros((len(kind.state), row)), 1)
    if kind.scope != "coordinate":
        groups = sizes if kind.scope == "block" else np.array([problem.dim], dtype=np.int64)
        clock, settings = np.zeros((len(kind.clock), width)), np.zeros((len(names), len(groups), width))
    elif width == 1:  # settings by coordinate, all of them moved in one loop
        groups, clock = np.array([problem.dim], dtype=np.int64), np.zeros((len(kind.clock), 1))
        settings = _aligned(np.zeros((len(names), 1, problem.dim)))
    else:  # settings by block if they differ, the lanes' repeated to the length of a row
        differ = any(isinstance(getattr(lane.optimizer, name), tuple) for lane in lanes for name in names)
        groups = sizes if differ else np.array([problem.dim], dtype=np.int64)
        clock = _aligned(np.zeros((len(kind.clock), kernel.ROW)), 7)
        settings = _aligned(np.zeros((len(names), len(groups), kernel.ROW)), 3)
    optimizers = [lane.optimizer for lane in lanes]
    for k, optimizer in enumerate(optimizers):
        for s, values in enumerate(optimizer.first_state(g[k::width].copy())):
            state[s, k : problem.dim * width : width] = values
    first = np.array([optimizer.first_clock() for optimizer in optimizers]).reshape(width, -1).T  # (names, lanes)
    clock[:] = np.tile(first, clock.shape[1] // width)
    for p, name in enumerate(names):
        chosen = [getattr(optimizer, name) for optimizer in optimizers]
        if any(isinstance(value, tuple) for value in chosen):
            by_lane = np.array([np.broadcast_to(value, sizes.shape) for value in chosen]).T  # (blocks, lanes)
        else:
            by_lane = np.tile(chosen, (len(groups), 1))
        if kind.scope == "coordinate" and width == 1:
            settings[p, 0] = np.repeat(by_lane[:, 0], sizes if len(by_lane) == len(sizes) > 1 else problem.dim)
        else:
            settings[p] = np.tile(by_lane, settings.shape[2] // width)
    return state, settings, clock, groups


def _fitting(job: Job, tile: list[Lane]) -> tuple[int, bool]:
    """The width of the kernel for a tile, and whether its lanes are alike to it.

    The narrowest that holds the tile; for little work one that need not be compiled, which takes seconds. A lane's
    numbers are the same in all of them.
    """
    kind, alike = type(tile[0].optimizer), _alike(tile)
    fitting = [(width, same) for width in (1, compiler.WIDTH, compiler.WIDE) if len(tile) <= width
               for same in dict.fromkeys((alike, False))]  # fmt: skip
    if job.max_steps * compiler.WIDE * sum(n * n for n in job.problem.sizes) < LITTLE:
        there = (which for which in fitting if compiler.is_there(kind, which[0], job.noise.any, which[1]))
        return next(there, fitting[0])
    return fitting[0]


def _alike(tile: list[Lane]) -> bool:
    """Whether all lanes have the same settings but for their learning rates, and the same first clock."""
    kind = type(tile[0].optimizer)
    names = [name for name in compiler.setting_names(kind) if name != "lr"]
    if kind.tick is not None and "lr" in compiler.names_of(kind.tick):
        names.append("lr")
    of = [([getattr(lane.optimizer, name) for name in names], repr(lane.optimizer.first_clock())) for lane in tile]
    return len(tile) == 1 or all(one == of[0] for one in of)


def _trajectory(job: Job, lane: Lane, left: _Left, k: int, statuses: dict[int, Status]) -> Trajectory:
    """Lane k's record: the marks before its end, and the end itself if its values are finite."""
    stopped, (last_loss, last_norm) = int(left.stopped[k]), left.final_loss_norm[:, k].tolist()
    before = int(np.searchsorted(job.marks, stopped))
    count = before + (math.isfinite(last_loss) and math.isfinite(last_norm))
    steps, loss, norms = np.empty(count, dtype=np.int64), np.empty(count), np.empty(count)
    steps[:before], loss[:before], norms[:before] = (
        job.marks[:before],
        left.loss_at[:before, k],
        left.norm_at[:before, k],
    )
    steps[before:], loss[before:], norms[before:] = stopped, last_loss, last_norm
    status, error = statuses[int(left.status[k])], left.final[k :: left.status.size].copy()
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
        w=job.problem.minimizer + error,
        error=error,
        w0=job.problem.minimizer + lane.error,
        minimizer=job.problem.minimizer_kind,
        optimizer=lane.optimizer,
        problem=job.problem.name,
        seed=lane.seed,
        tol=job.tol,
        max_steps=job.max_steps,
        engine="iterate",
        noise=job.noise,
        schedule=job.schedule,
    )


def _flat(kernel: Any, blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Blocks one after the other, in the order in which the kernel reads them."""
    parts = [part for block in blocks for part in _in_order(kernel, block)]
    return np.concatenate([np.ravel(part) for part in parts]) if parts else np.zeros(0)


def _in_order(kernel: Any, block: np.ndarray) -> list[np.ndarray]:
    """A block's parts: row by row; for one lane the rows that are computed together column by column, filled up."""
    if kernel.WIDTH > 1:
        return [block]
    parts, i = [], 0
    while i < len(block):
        rows = kernel.MANY if i + kernel.MANY <= len(block) else kernel.VECTOR
        part = np.zeros((len(block), rows))
        part[:, : len(block) - i] = block[i : i + rows].T
        parts.append(part)
        i += rows
    return parts


def _aligned(array: np.ndarray, place: int = 0) -> np.ndarray:
    """A copy that begins on a cache line, with room for a whole vector at its end, at one of eight places in a page.

    A vector that straddles two lines is loaded twice; and a processor takes addresses that agree in their last 12 bits
    for the same one, until it knows better: arrays that are used together lie at different places.
    """
    buffer = np.empty(array.nbytes + PAGE + 64, dtype=np.uint8)
    begin = (place * SHIFT - buffer.ctypes.data) % PAGE
    copy = buffer[begin : begin + array.nbytes].view(np.float64).reshape(array.shape)
    copy[...] = array
    return copy
