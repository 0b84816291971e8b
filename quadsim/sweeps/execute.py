"""Run the cells of a group, one problem under one seed: one row for each cell.

A cell that raises becomes a row of status `error` with its message; the others are not affected.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import spectra
from quadsim._validation import InputError
from quadsim.engine import solver, table
from quadsim.engine.closed_form import exact as closed_form
from quadsim.engine.trajectory import Trajectory
from quadsim.optimizers import FrozenAdam
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.build import problem as build_problem
from quadsim.theory import constants, rates

if TYPE_CHECKING:
    from quadsim.sweeps.grid import Group
    from quadsim.sweeps.run_configs import Cell

Row = dict[str, Any]
Check = Callable[..., None]  # called during a run; raises to stop it
MAX_LOG = 700.0  # exp of it is finite in float64
MAX_BATCH = 256  # cells; a batch keeps the records of all its lanes in memory


def run(group: Group, deck: Sequence[Cell], check: Check | None = None) -> list[Row]:
    """The rows of a group, in the order of its cells."""
    began = time.perf_counter()
    try:
        drawn = group.values.get("drawn")  # a user-defined problem
        facts = Facts(drawn.make() if drawn else build_problem(seed=group.seed, **group.values), group.seed)
        known = {**facts.of_problem(), **_arrangement(facts.problem, group.columns)}
    except Exception as error:
        return failed(group, deck, error)
    share = (time.perf_counter() - began) / len(group.cells)
    rows = _run(facts, [deck[number] for number in group.cells], check)
    return _complete(group, deck, known, [{**row, "seconds": row["seconds"] + share} for row in rows])


def failed(group: Group, deck: Sequence[Cell], error: Exception) -> list[Row]:
    """The rows of a group that could not be run at all."""
    return _complete(group, deck, {}, [_failed(error)] * len(group.cells))


def _complete(group: Group, deck: Sequence[Cell], known: Row, rows: Sequence[Row]) -> list[Row]:
    """The rows with the keys and settings of their cells; settings override what is ``known`` of the problem."""
    known, cells = {**known, **group.columns, "seed": group.seed}, [deck[number] for number in group.cells]
    return [{"key": key, **known, **cell.row, **row} for key, cell, row in zip(group.keys, cells, rows, strict=True)]


class Facts:
    """Theoretical constants of a problem and its starts, each computed once for all cells."""

    def __init__(self, problem: BlockQuadratic, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self._of_start: dict[Any, tuple[np.ndarray, Row]] = {}

    def of_problem(self) -> Row:
        distance = _js_distance(tuple(spectrum.tobytes() for spectrum in self.problem.eigenvalues))
        known = {"dim": self.problem.dim, "kappa": self.problem.kappa, "js_distance": distance}
        return _present({**known, "max_block_kappa": max(self.problem.block_kappas)})

    def start(self, kind: str | float) -> tuple[np.ndarray, Row]:
        if kind not in self._of_start:
            e0 = self.problem.initial_error(self.seed, kind)
            row: Row = {}
            with contextlib.suppress(InputError):  # a gradient coordinate is 0: frozen Adam is not defined
                row = {"kappa_eff": constants.kappa_eff(self.problem, e0=e0), "r": constants.r(self.problem, e0=e0)}
            self._of_start[kind] = e0, row
        return self._of_start[kind]


def _run(facts: Facts, cells: list[Cell], check: Check | None) -> list[Row]:
    rows: dict[int, Row] = {}
    batches: dict[Any, list[int]] = {}
    for number, cell in enumerate(cells):
        alone = number if cell.options["engine"] == "closed-form" else None  # closed forms gain nothing from batches
        batches.setdefault((*cell.options.items(), alone), []).append(number)
    for numbers in batches.values():
        for some in (numbers[k : k + MAX_BATCH] for k in range(0, len(numbers), MAX_BATCH)):
            began = time.perf_counter()
            try:
                runs = _solve(facts, [cells[number] for number in some], check)
                seconds = (time.perf_counter() - began) / len(some)
                rows |= {n: _row(facts, cells[n], run, seconds) for n, run in zip(some, runs, strict=True)}
            except Exception as error:
                if len(some) == 1:
                    rows[some[0]] = {**_failed(error), "seconds": time.perf_counter() - began}
                else:  # run each alone to find the one that failed
                    rows |= {number: _run(facts, [cells[number]], check)[0] for number in some}
    return [rows[number] for number in range(len(cells))]


def _solve(facts: Facts, cells: list[Cell], check: Check | None) -> Sequence[Trajectory]:
    """The runs of cells with the same options."""
    optimizers, options = [cell.optimizer for cell in cells], cells[0].options
    common: dict[str, Any] = {
        "seed": facts.seed,
        "record": "coarse",
        "threads": 1,
        "progress": check or False,
        **options,
    }
    return solver.solve(facts.problem, optimizers, e0=facts.start(common.pop("start"))[0], **common)


def _row(facts: Facts, cell: Cell, done: Trajectory, seconds: float) -> Row:
    row = {
        **facts.start(cell.options["start"])[1],
        **{cell.columns[key]: table.cell(value) for key, value in done.optimizer.settings().items()},
        "status": str(done.status),
        "steps_to_tol": done.steps_to_tol,
        "last_step": done.last_step,
        "loss": float(done.loss[-1]) if done.loss.size else None,
        "grad_norm": float(done.grad_norm[-1]) if done.grad_norm.size else None,
        "predicted_rate": _predicted_rate(facts, cell, done),
        "measured_rate": measured_rate(done),
        "seconds": seconds,
    }
    return _present(row)


def _predicted_rate(facts: Facts, cell: Cell, done: Trajectory) -> float | None:
    """The theoretical factor on the loss per step, without noise and at a constant learning rate; None if unknown."""
    changing = cell.options["noise"].any or cell.options["schedule"].changes
    if not closed_form.has_closed_form(cell.optimizer) or changing:
        return None
    try:
        if isinstance(cell.optimizer, FrozenAdam):  # at the lr that was used; the rate depends on the start
            return rates.rate(facts.problem, done.optimizer, e0=facts.start(cell.options["start"])[0])
        return rates.rate(facts.problem, cell.optimizer)
    except InputError:
        return None


def measured_rate(run: Trajectory) -> float | None:
    """The mean factor on the loss per step over the second half of the run: from the last record in its first half."""
    finite = np.isfinite(run.log_loss)  # −∞ at the minimum
    logs, steps = run.log_loss[finite], run.steps[finite]
    if logs.size < 2:
        return None
    middle = min(max(int(np.searchsorted(steps, steps[-1] / 2, side="right")) - 1, 0), logs.size - 2)
    return math.exp(min((logs[-1] - logs[middle]) / int(steps[-1] - steps[middle]), MAX_LOG))


@functools.lru_cache(maxsize=4096)
def _js_distance(spectra_bytes: tuple[bytes, ...]) -> float | None:
    """The mean distance between the blocks' spectra, cached: the draws of a case share it."""
    if len(spectra_bytes) < 2:
        return None
    return spectra.eigenvalue_distance([np.frombuffer(spectrum) for spectrum in spectra_bytes])


def _arrangement(problem: BlockQuadratic, known: Row) -> Row:
    """The number, from 1, of the arrangement that the heterogeneity of this problem selects, and their count."""
    if known.get("heterogeneity") is None:
        return {}
    number, count = spectra.arrangement(problem.eigenvalues, known["heterogeneity"])
    return {"arrangement": number, "arrangements": count}


def _failed(error: BaseException) -> Row:
    message = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, MemoryError):
        message = "out of memory"
    kind = "" if isinstance(error, InputError | MemoryError) else f"{type(error).__name__}: "
    return {"status": "error", "error": kind + message, "seconds": 0.0}


def _present(row: Row) -> Row:
    """Drop None values."""
    return {key: value for key, value in row.items() if value is not None}
