"""Running a sweep: plan it, run the cells missing from the store, commit their rows chunk by chunk."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import _progress
from quadsim import _validation as checks
from quadsim._processes import WorkerDiedError
from quadsim._progress import Task
from quadsim._validation import InputError
from quadsim.engine.solver import cores
from quadsim.sweeps import axes, execute, pilot
from quadsim.sweeps.executors import Chunk, Executor, ProcessExecutor, ThreadExecutor
from quadsim.sweeps.grid import LIMIT, Grid, Group
from quadsim.sweeps.reuse import reuse
from quadsim.sweeps.runtime_model import Pace, Remaining
from quadsim.sweeps.store.database import Store
from quadsim.sweeps.store.verify import KEY_HALF

if TYPE_CHECKING:
    import pandas as pd

MAX_CELLS_PER_CHUNK = 2000

Progress = Callable[[int, int], None]  # cells done, cells in total


@dataclass(frozen=True)
class Plan:
    """What a sweep would do: ``done`` cells are in the store; ``seconds`` is the expected time of the others.

    ``stale`` cells were computed by other code and will be recomputed, for ``reasons``.
    """

    grid: Grid
    done: int
    workers: int
    seconds: float
    stale: int = 0
    reasons: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """The plan as plain values."""
        grid, engines = self.grid, [cell.engine for cell in self.grid.deck]
        return {
            "cells": grid.cells,
            "groups": grid.groups,
            "problems": grid.problems.count,
            "seeds": len(grid.seeds),
            "cells_of_a_group": len(grid.deck),
            "done": self.done,
            "workers": self.workers,
            "expected_seconds": self.seconds,
            "engines": {name: engines.count(name) * grid.groups for name in ("closed-form", "compiled")},
            "left_out": grid.left_out,
            "stale": self.stale,
            "stale_because": list(self.reasons),
        }


def plan(
    grid: Grid,
    store: Store | None = None,
    *,
    workers: int | None = None,
    threads: bool = True,
    starts: str = "threads",
    retry: bool = False,
) -> Plan:
    """What the sweep of this grid would do, given a store, on ``workers`` threads or processes, which it ``starts``.

    A sample of cells is timed for up to a second; nothing is stored.
    """
    grid.check()
    workers = workers or default_threads(grid)
    done = stale = 0
    reasons: tuple[str, ...] = ()
    if store is not None and len(store):
        store.check_current()
        stored = store.keys(errors=not retry)
        done = count(grid, stored)
        if done < grid.cells:
            halves = {key[:KEY_HALF] for key in stored}
            stale = sum(key[:KEY_HALF] in halves and key not in stored for key in grid.iter_keys())
            reasons = tuple(reuse(store).stale) if stale else ()
    seconds = pilot.expected_seconds(grid, grid.cells - done, workers, threads=threads, starts=starts)
    return Plan(grid, done, workers, seconds, stale, reasons)


def default_threads(grid: Grid) -> int:
    """The number of cores if a cell uses a compiled kernel; closed forms hold the GIL, so more threads do not help."""
    return cores() if any(cell.engine == "compiled" for cell in grid.deck) else 1


def run(
    grid: Grid,
    store: Store,
    *,
    executor: Executor | None = None,
    command: str = "",
    versions: dict[str, str] | None = None,
    retry: bool = False,
    progress: Progress | None = None,
    task: Task | None = None,
) -> int:
    """Run the cells missing from the store, and return their number. Rows are committed when their chunk is done.

    ``task`` is shown; `progress` is called with the cells done and the total.

    With ``retry``, cells that failed before are run again.
    """
    stored = store.keys(errors=not retry)
    before = count(grid, stored) if stored else 0
    store.begin(
        name=grid.name,
        command=command,
        keys=grid.keys,
        swept=grid.swept,
        cells=grid.cells,
        versions=versions or {},
        done=before,
        codes=grid.codes(),
    )
    pace, left = Pace(grid), Remaining(grid, before)
    if task is not None:
        task.total, task.start, task.done = grid.cells, before, before
        task.seconds_left = left.seconds
    waiting = deque[Chunk]()
    running: dict[Any, Chunk] = {}
    added = 0
    with closing(executor or ThreadExecutor(grid, default_threads(grid))) as here:
        chunks = _chunks(grid, stored, pace, here.chunk_seconds)
        while True:
            while len(running) < here.capacity and not any(chunk.alone for chunk in running.values()):
                if waiting and running:
                    break  # retried chunks run alone
                next_chunk = waiting.popleft() if waiting else next(chunks, None)
                if next_chunk is None:
                    break
                running[here.submit(next_chunk)] = next_chunk
            if not running:
                break
            for future in here.finished(running):
                chunk = running.pop(future)
                try:
                    done = here.result(future)
                except WorkerDiedError as error:
                    again = _retry_chunks(chunk, error, here.max_deaths, grid, store)
                    added += not again
                    waiting += again
                    continue
                added += store.add(done.rows, axes.COLUMN_DEFAULTS, sweep=grid.name)
                pace.learn(chunk.groups, done.seconds)
                left.learn(chunk.groups, done.rows, done.seconds)
                if task is not None:
                    task.advance(before + added)
                if progress is not None:
                    progress(before + added, grid.cells)
    store.end(grid.name)
    return added


def _retry_chunks(chunk: Chunk, error: WorkerDiedError, max_deaths: int, grid: Grid, store: Store) -> list[Chunk]:
    """What to run after a worker died: the chunk alone, then each cell alone. A cell that kills workers fails."""
    if not chunk.alone:
        return [Chunk(chunk.groups, alone=True)]
    if chunk.size > 1:
        return chunk.split()
    if chunk.deaths + 1 < max_deaths:
        return [Chunk(chunk.groups, alone=True, deaths=chunk.deaths + 1)]
    rows = execute.failed(chunk.groups[0], grid.deck, InputError(str(error)))
    store.add(rows, axes.COLUMN_DEFAULTS, sweep=grid.name)
    return []


def count(grid: Grid, stored: set[bytes]) -> int:
    """The number of cells of the grid that are stored."""
    return sum(key in stored for key in grid.iter_keys())


def _chunks(grid: Grid, stored: set[bytes], pace: Pace, seconds: float) -> Iterator[Chunk]:
    """The cells that are not stored, in chunks that take about ``seconds``."""
    groups: list[Group] = []
    duration, count = 0.0, 0
    for whole in grid.iter_groups():
        indices: list[int] = []
        for index, key in enumerate(whole.keys):
            if key in stored:
                continue
            indices.append(index)
            duration, count = duration + pace.of(whole, index), count + 1
            if duration >= seconds or count >= MAX_CELLS_PER_CHUNK:
                yield Chunk([*groups, whole.only(indices)])
                groups, indices, duration, count = [], [], 0.0, 0
        if indices:
            groups.append(whole.only(indices))
    if groups:
        yield Chunk(groups)


def sweep(
    *,
    store: str | Path | None = None,
    threads: int | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    limit: int = LIMIT,
    retry: bool = False,
    progress: Progress | bool | None = None,
    problem: Any = None,
    **keys: Any,
) -> pd.DataFrame:
    """Run every combination of the values of the keys; a table with one row per cell.

    Parameters
    ----------
    store : path, optional
        The file that keeps the rows. Stored rows are reused, unless their code has changed or they are damaged; an
        interrupted sweep continues. Without a store, rows are kept in memory.
    threads, workers, cluster :
        Where it runs: in threads of this process (default: one per core), in this many processes, or on a Dask
        cluster: "tcp://…", "local:4".
    limit : int
        The maximum number of cells.
    retry : bool
        Rerun cells that failed before.
    progress : bool or callable, optional
        By default a call of more than two seconds shows its progress on standard error; False shows nothing. A function
        is called with the number of cells done and the total.
    problem : BlockQuadratic, function of the seed that returns one, or a list of them
        User-defined problems instead of case= and spectrum=; their names must differ. Stored rows are reused if the
        problem's data are the same.
    **keys :
        The keys of the command line, with Python values. A list is an axis, and so is a text such as
        ``"10:1e6:log25"`` or ``"0..29"``; an optimizer's settings are ``**{"adam.beta2": [0.9, 0.99]}``, or
        ``adam={"beta2": [0.9, 0.99]}``. None as a value leaves the key out.

    Returns
    -------
    DataFrame
        The keys, the settings of the optimizers and the results.

    Examples
    --------
    >>> frame = qs.sweep(case=[3, 4], kappa="10:1000:log3", optimizers=["gd", "frozen-adam"], store="sweep.db")
    >>> len(frame), frame["status"].unique().tolist()
    (12, ['converged'])
    >>> again = qs.sweep(case=[3, 4], kappa="10:1000:log3", optimizers=["gd", "frozen-adam"], store="sweep.db")
    >>> again["steps_to_tol"].equals(frame["steps_to_tol"])
    True
    """
    task = _progress.of_call(progress, "sweep", unit="cells", takes="two counts")
    retry = checks.flag("retry", retry)
    grid = Grid.of(keys, checks.whole("limit", limit, at_least=1), problem)
    grid.check()
    make = executor(grid, threads=threads, workers=workers, cluster=cluster)
    with task, Store.writing(store, axes.RESULTS) as kept:
        if kept.damage:
            warnings.warn(f"{kept.path} was damaged: {kept.damage.sentence()}; recomputing the lost rows", stacklevel=2)
        report = progress if callable(progress) else None
        run(grid, kept, executor=make() if make is not None else None, retry=retry, progress=report, task=task)
        return rows_of(grid, kept)


def executor(
    grid: Grid, *, threads: int | None = None, workers: int | None = None, cluster: str | None = None
) -> Callable[[], Executor] | None:
    """A function that creates the requested executor; None for the default, threads."""
    given = {"threads": threads, "workers": workers, "cluster": cluster}
    texts = [f"{name}={value}" for name, value in given.items() if value is not None]
    if len(texts) > 1:
        raise InputError(f"{' and '.join(texts)}: give one of them, a sweep has one executor")
    if threads is not None:
        number = checks.whole("threads", threads, at_least=1, at_most=1024)
        return lambda: ThreadExecutor(grid, number)
    if workers is None and cluster is None:
        return None
    for cell in grid.deck:
        if cell.optimizer.user_defined and "rules" not in grid.keys:
            raise InputError(
                f"{cell.optimizer.name} is defined only in this process: put its rule into a file and give rules=FILE"
            )
    if workers is not None:
        number = checks.whole("workers", workers, at_least=1, at_most=1024)
        return lambda: ProcessExecutor(grid, number)
    from quadsim.sweeps.cluster import check, connect

    check(cluster)
    assert cluster is not None
    return lambda: connect(grid, cluster)


def rows_of(grid: Grid, store: Store, columns: list[str] | None = None) -> pd.DataFrame:
    """The rows of this grid, in its order; all columns by default."""
    frame = store.frame(["key", *(axes.ordered(store.columns()) if columns is None else columns)])
    order = {key: rank for rank, key in enumerate(grid.iter_keys())}
    ranks = frame.pop("key").map(order)
    frame = frame[ranks.notna()].iloc[ranks.dropna().argsort()].reset_index(drop=True)
    kinds = {"steps_to_tol": "Int64", "last_step": "Int64", "dim": "Int64", "error": "object"}
    return frame.astype({name: kind for name, kind in kinds.items() if name in frame})
