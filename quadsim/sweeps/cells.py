"""Running the cells of a group, one problem under one seed: a row for each cell, whatever happens.

Linear optimizers take their closed form; others run side by side as lanes. A cell that raises becomes a row of status
`error` with its message, and the others are not touched.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quadsim import closed, request, solver, spectra, table, theory
from quadsim.checks import InputError
from quadsim.optimizers import FrozenAdam, Optimizer
from quadsim.problem import BlockQuadratic
from quadsim.sweeps.axes import column, typed
from quadsim.sweeps.deck import Cell
from quadsim.sweeps.grid import Group
from quadsim.sweeps.problems import in_full
from quadsim.trajectory import Trajectory

Row = dict[str, Any]
Heard = Callable[..., None]  # called on the way: raises where the work is to stop
MOST_LOG = 700.0  # of a number that float64 can hold
MOST_LANES = 256  # at once: a tile keeps what its lanes record


def run(group: Group, deck: Sequence[Cell], heard: Heard | None = None) -> list[Row]:
    """The rows of a group, in the order of its cells."""
    cells = [deck[number] for number in group.cells]
    began, known = time.perf_counter(), _said(group)
    try:
        problem = request.read_problem(group.said, group.seed)
        facts = Facts(problem, group.seed)
        known = {**facts.of_problem(), **_arrangement(problem, known), **known}
    except Exception as error:
        rows = [_failed(error) for _ in cells]
    else:
        share = (time.perf_counter() - began) / len(cells)
        rows = _run(facts, cells, group.seed, heard)
        rows = [{**row, "seconds": row["seconds"] + share} for row in rows]
    return [
        {"key": key, **known, **_settings(cell), **row} for key, cell, row in zip(group.keys, cells, rows, strict=True)
    ]


def failed(group: Group, deck: Sequence[Cell], sentence: str) -> list[Row]:
    """The rows of a group that could not be run at all."""
    said, row = _said(group), _failed(InputError(sentence))
    return [
        {"key": key, **said, **_settings(deck[number]), **row}
        for key, number in zip(group.keys, group.cells, strict=True)
    ]


class Facts:
    """What theory knows of a problem and its starts, each computed once for all cells."""

    def __init__(self, problem: BlockQuadratic, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self._of_start: dict[Any, tuple[np.ndarray, Row]] = {}

    def of_problem(self) -> Row:
        distance = _js_distance(self.problem.eigenvalues)
        known = {"dim": self.problem.dim, "kappa": self.problem.kappa, "js_distance": distance}
        return _there({**known, "max_block_kappa": max(self.problem.block_kappas)})

    def start(self, kind: str | float) -> tuple[np.ndarray, Row]:
        if kind not in self._of_start:
            e0 = self.problem.initial_error(self.seed, kind)
            row: Row = {}
            with contextlib.suppress(InputError):  # a gradient of 0 in some coordinate: frozen Adam cannot start there
                row = {"kappa_eff": theory.kappa_eff(self.problem, e0=e0), "r": theory.r(self.problem, e0=e0)}
            self._of_start[kind] = e0, row
        return self._of_start[kind]


def _run(facts: Facts, cells: list[Cell], seed: int, heard: Heard | None) -> list[Row]:
    rows: dict[int, Row] = {}
    lanes: dict[Any, list[int]] = {}
    for number, cell in enumerate(cells):
        if cell.engine == "iterate":
            lanes.setdefault(_batch_key(cell), []).append(number)
        else:
            rows[number] = _alone(facts, cell, seed, heard)
    for numbers in lanes.values():
        for some in (numbers[k : k + MOST_LANES] for k in range(0, len(numbers), MOST_LANES)):
            began = time.perf_counter()
            try:
                runs = iterated_runs(facts, [cells[number] for number in some], seed, heard)
            except Exception:  # one of them, and it will be found
                rows |= {number: _alone(facts, cells[number], seed, heard) for number in some}
                continue
            seconds = (time.perf_counter() - began) / len(some)
            for number, done in zip(some, runs, strict=True):
                rows[number] = _row(facts, cells[number], done, seconds)
    return [rows[number] for number in range(len(cells))]


def _alone(facts: Facts, cell: Cell, seed: int, heard: Heard | None) -> Row:
    began = time.perf_counter()
    try:
        if cell.engine == "iterate":
            [done] = iterated_runs(facts, [cell], seed, heard)
        else:
            done = exact_run(facts, cell, heard)
        return _row(facts, cell, done, time.perf_counter() - began)
    except Exception as error:
        return {**_failed(error), "seconds": time.perf_counter() - began}


def exact_run(facts: Facts, cell: Cell, heard: Heard | None) -> Trajectory:
    """Entry point of the engine `exact`; `code` follows what it uses."""
    return closed.exact(
        facts.problem, cell.optimizer, e0=facts.start(cell.start)[0], max_steps=cell.steps, tol=cell.tol,
        record="coarse", progress=heard,
    )  # fmt: skip


def _batch_key(cell: Cell) -> tuple[Any, ...]:
    """What lanes that run side by side have in common."""
    return cell.tol, cell.steps, cell.noise, cell.schedule


def iterated_runs(facts: Facts, cells: list[Cell], seed: int, heard: Heard | None) -> Sequence[Trajectory]:
    """Entry point of the engine `iterate`, for cells with one batch key; `code` follows what it uses."""
    tol, steps, noise, schedule = _batch_key(cells[0])
    errors = [facts.start(cell.start)[0] for cell in cells]
    return solver.solve_lanes(
        facts.problem, [cell.optimizer for cell in cells], e0=errors, seeds=[seed], max_steps=steps, tol=tol,
        record="coarse", noise=noise, schedule=schedule, threads=1, progress=heard,
    ).trajectories  # fmt: skip


def _row(facts: Facts, cell: Cell, done: Trajectory, seconds: float) -> Row:
    row = {
        **facts.start(cell.start)[1],
        **_columns(done.optimizer),
        "status": str(done.status),
        "steps_to_tol": done.steps_to_tol,
        "last_step": done.last_step,
        "loss": float(done.loss[-1]) if done.loss.size else None,
        "grad_norm": float(done.grad_norm[-1]) if done.grad_norm.size else None,
        "predicted_rate": _predicted_rate(facts, cell, done),
        "measured_rate": measured_rate(done),
        "seconds": seconds,
    }
    return _there(row)


def _predicted_rate(facts: Facts, cell: Cell, done: Trajectory) -> float | None:
    """The factor on the loss per step that theory knows, without noise and at a constant learning rate."""
    if not closed.has_closed_form(cell.optimizer) or cell.noise.any or cell.schedule.changes:
        return None
    try:
        if isinstance(cell.optimizer, FrozenAdam):  # with the lr that was found: its rate depends on the start
            return theory.rate(facts.problem, done.optimizer, e0=facts.start(cell.start)[0])
        return theory.rate(facts.problem, cell.optimizer)
    except InputError:
        return None


def measured_rate(run: Trajectory) -> float | None:
    """The mean factor on the loss per step over the second half of the run: from the last record in its first half."""
    there = np.isfinite(run.log_loss)  # it may have reached the minimum itself
    logs, steps = run.log_loss[there], run.steps[there]
    if logs.size < 2:
        return None
    middle = min(max(int(np.searchsorted(steps, steps[-1] / 2, side="right")) - 1, 0), logs.size - 2)
    return math.exp(min((logs[-1] - logs[middle]) / int(steps[-1] - steps[middle]), MOST_LOG))


@functools.lru_cache(maxsize=4096)
def _js_of(parts: tuple[bytes, ...]) -> float | None:
    return spectra.eigenvalue_distance([np.frombuffer(part) for part in parts]) if len(parts) > 1 else None


def _js_distance(eigenvalues: Sequence[np.ndarray]) -> float | None:
    """The mean distance between the blocks' spectra; the draws of a case share it, so it is computed once."""
    return _js_of(tuple(part.tobytes() for part in eigenvalues))


def _said(group: Group) -> Row:
    """The columns that say what the problem is. One that κ is not set for has the κ of its spectrum."""
    said = {key: typed(key, text) for key, text in in_full(group.said).items()}
    return {**said, "kappa_from": "given" if "kappa" in said else "spectrum", "seed": group.seed}


def _arrangement(problem: BlockQuadratic, said: Row) -> Row:
    """Which of the distinct arrangements the heterogeneity of this problem selects, from 1, and of how many."""
    if said.get("heterogeneity") is None:
        return {}
    number, count = spectra.arrangement(problem.eigenvalues, said["heterogeneity"])
    return {"arrangement": number, "arrangements": count}


def _settings(cell: Cell) -> Row:
    """The columns that say what runs on it."""
    conditions: Row = {key: typed(key, text) for key, text in cell.said.items()}
    if cell.noise.batch is not None or cell.noise.label_noise:
        conditions["factor"] = cell.noise.factor
    if "schedule" in conditions or "warmup" in conditions:
        conditions |= {"schedule": cell.schedule.kind, "warmup": cell.schedule.warmup}
        if cell.schedule.kind == "step":
            conditions |= {"every": cell.schedule.every, "drop": cell.schedule.drop}
    return {
        "optimizer": cell.optimizer.name,
        **_there(_columns(cell.optimizer)),
        **cell.origins,
        **conditions,
        **_there({"start": cell.start, "tol": cell.tol, "steps": cell.steps, "engine": cell.engine}),
    }


def _columns(optimizer: Optimizer) -> Row:
    """An optimizer's settings by column; two that differ in case only would be one column."""
    found: Row = {}
    for key, value in optimizer.settings().items():
        name = column(optimizer.name, key)
        twice = name.lower() in {other.lower() for other in found}
        found[f"{optimizer.name}.{key}" if twice else name] = table.cell(value)
    return found


def _failed(error: BaseException) -> Row:
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, MemoryError):
        words = "there is not enough memory"
    kind = "" if isinstance(error, InputError | MemoryError) else f"{type(error).__name__}: "
    return {"status": "error", "error": kind + words, "seconds": 0.0}


def _there(row: Row) -> Row:
    """Without what is absent: an absent value has no place in a row."""
    return {key: value for key, value in row.items() if value is not None}
