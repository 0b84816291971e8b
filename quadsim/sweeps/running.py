"""A sweep from beginning to end: plan it, run what the store does not have yet, commit chunk by chunk."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import checks
from quadsim.checks import InputError, InputTypeError
from quadsim.solver import cores
from quadsim.store import HALF, Store
from quadsim.sweeps import axes, cells, cost
from quadsim.sweeps.cost import Pace
from quadsim.sweeps.grid import LIMIT, Grid, Group
from quadsim.sweeps.places import Chunk, Died, Place, Processes, Threads
from quadsim.sweeps.reuse import reuse

if TYPE_CHECKING:
    import pandas as pd

MOST_CELLS = 2000  # of a chunk

Progress = Callable[[int, int], None]  # cells in the store, of how many


@dataclass(frozen=True)
class Plan:
    """What a sweep would do: ``done`` of its cells are in the store already; ``seconds`` is a guess, at most.

    ``stale`` of its cells are in the store by other code and will be computed again; ``reasons`` say why.
    """

    grid: Grid
    done: int
    workers: int
    seconds: float
    stale: int = 0
    reasons: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            "cells": self.grid.cells, "groups": self.grid.groups, "problems": self.grid.problems.count,
            "seeds": len(self.grid.seeds), "cells_of_a_group": len(self.grid.deck), "done": self.done,
            "workers": self.workers, "expected_seconds": self.seconds,
            "engines": {name: sum(c.engine == name for c in self.grid.deck) * self.grid.groups
                        for name in ("exact", "iterate")},
            "left_out": self.grid.left_out, "stale": self.stale, "stale_because": list(self.reasons),
        }  # fmt: skip


def plan(grid: Grid, store: Store | None = None, *, workers: int | None = None, retry: bool = False) -> Plan:
    """What the sweep of this grid would do, given what a store has; nothing is run but one problem made, to look."""
    grid.check()
    workers = workers or usual_threads(grid)
    done = stale = 0
    reasons: tuple[str, ...] = ()
    if store is not None and len(store):
        there = store.keys(errors=not retry)
        done = count(grid, there)
        if done < grid.cells:
            stale = _by_other_code(grid, there)
            reasons = tuple(reuse(store).stale) if stale else ()
    return Plan(grid, done, workers, cost.expected(grid, grid.cells - done) / workers, stale, reasons)


def usual_threads(grid: Grid) -> int:
    """As many as cores, if something is iterated: closed forms hold the interpreter, and threads would only quarrel."""
    return cores() if any(cell.engine == "iterate" for cell in grid.deck) else 1


def run(
    grid: Grid,
    store: Store,
    *,
    place: Place | None = None,
    command: str = "",
    versions: dict[str, str] | None = None,
    retry: bool = False,
    progress: Progress | None = None,
) -> int:
    """Run what the store does not have yet; how many cells that was. Rows are committed as chunks come in.

    With ``retry`` cells that failed before are run again.
    """
    there = store.keys(errors=not retry)
    before = count(grid, there) if there else 0
    store.begin(
        name=grid.name, command=command, keys=grid.keys, swept=grid.swept, cells=grid.cells, versions=versions or {},
        done=before, codes=grid.codes(),
    )  # fmt: skip
    pace = Pace(grid)
    waiting = deque[Chunk]()
    running: dict[Any, Chunk] = {}
    added = 0
    with closing(place or Threads(grid, usual_threads(grid))) as here:
        chunks = _chunks(grid, there, pace, here.chunk_seconds)
        while True:
            alone = next((chunk for chunk in running.values() if chunk.alone), None)
            while len(running) < here.room and alone is None:
                chunk = waiting[0] if waiting else next(chunks, None)
                if chunk is None or (chunk.alone and running):
                    break
                if waiting:
                    waiting.popleft()
                running[here.submit(chunk)] = chunk
                if chunk.alone:
                    break
            if not running:
                if waiting:
                    continue
                break
            for future in here.finished(running):
                chunk = running.pop(future)
                try:
                    done = here.result(future)
                except Died as error:
                    again = _again(chunk, error, here.deaths, grid, store)
                    added += not again
                    waiting += again
                    continue
                added += store.add(done.rows, axes.USUAL, sweep=grid.name)
                pace.learn(chunk.groups, done.seconds)
                if progress is not None:
                    progress(before + added, grid.cells)
    store.end(grid.name)
    return added


def _again(chunk: Chunk, error: Died, deaths: int, grid: Grid, store: Store) -> list[Chunk]:
    """What to do with a chunk whose process died: run it alone; then each of its cells; the one that kills fails."""
    if not chunk.alone:
        return [Chunk(chunk.groups, alone=True)]
    if chunk.size > 1:
        return chunk.split()
    if chunk.died + 1 < deaths:
        return [Chunk(chunk.groups, alone=True, died=chunk.died + 1)]
    store.add(cells.failed(chunk.groups[0], grid.deck, str(error)), axes.USUAL, sweep=grid.name)
    return []


def count(grid: Grid, there: set[bytes]) -> int:
    """How many cells of the grid are there."""
    return sum(key in there for group in grid.walk() for key in group.keys)


def _by_other_code(grid: Grid, there: set[bytes]) -> int:
    """How many cells of the grid are there, computed by other code."""
    halves = {key[:HALF] for key in there}
    return sum(key[:HALF] in halves and key not in there for group in grid.walk() for key in group.keys)


def _chunks(grid: Grid, there: set[bytes], pace: Pace, seconds: float) -> Iterator[Chunk]:
    """What is to be done, in chunks of about so many seconds."""
    groups: list[Group] = []
    long, many = 0.0, 0
    for whole in grid.walk():
        missing = [k for k, key in enumerate(whole.keys) if key not in there] if there else range(len(whole.keys))
        some: list[int] = []
        for k in missing:
            some.append(k)
            long, many = long + pace.of(whole, k), many + 1
            if long >= seconds or many >= MOST_CELLS:
                yield Chunk([*groups, whole.only(some)])
                groups, some, long, many = [], [], 0.0, 0
        if some:
            groups.append(whole.only(some))
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
    progress: Progress | None = None,
    **keys: Any,
) -> pd.DataFrame:
    """Every combination of what the keys let vary, as a table with one row for each cell.

    Parameters
    ----------
    **keys :
        The keys of the command line. A list is an axis, and so is a text such as ``"10:1e6:log25"`` or ``"0..29"``;
        an optimizer's settings are ``**{"adam.beta2": [0.9, 0.99]}``, or ``adam={"beta2": [0.9, 0.99]}``. None as a
        value leaves the key out.
    store : path, optional
        The file that keeps the rows. What is in it is not computed again, unless its code has changed or it is
        damaged, and what was interrupted goes on. Without one, rows are kept in memory.
    threads, workers, cluster :
        Where it runs: threads of this process (as many as cores, by default), or so many processes, or a Dask cluster:
        "tcp://…", "local:4".
    limit : int
        The most cells that a grid may have.
    retry : bool
        Run cells that failed before again.
    progress : callable, optional
        Told how many cells are done, of how many.

    >>> qs.sweep(case=[3, 4], kappa="10:1e6:log25", optimizers=["gd", "frozen-adam"], seed=range(30), store="sweep.db")
    """
    if progress is not None and not callable(progress):
        raise InputTypeError(f"progress must be a function of two counts, got {checks.shown(progress)}")
    retry = checks.flag("retry", retry)
    grid = Grid.read(axes.texts(keys), checks.whole("limit", limit, at_least=1))
    grid.check()
    where = place(grid, threads=threads, workers=workers, cluster=cluster)
    with Store.writing(store, axes.RESULTS) as kept:
        if kept.damage:
            warnings.warn(f"{kept.path} was damaged: {kept.damage.sentence()}; rerunning what is lost", stacklevel=2)
        run(grid, kept, place=where() if where is not None else None, retry=retry, progress=progress)
        return rows_of(grid, kept)


def place(
    grid: Grid, *, threads: int | None = None, workers: int | None = None, cluster: str | None = None
) -> Callable[[], Place] | None:
    """What makes the place that is asked for; None for the usual one."""
    asked = [f"{name}={value}" for name, value in
             (("threads", threads), ("workers", workers), ("cluster", cluster)) if value is not None]  # fmt: skip
    if len(asked) > 1:
        raise InputError(f"{' and '.join(asked)}: give one of them, a sweep runs in one place")
    if threads is not None:
        number = checks.whole("threads", threads, at_least=1, at_most=1024)
        return lambda: Threads(grid, number)
    if workers is None and cluster is None:
        return None
    _check_portable(grid)
    if workers is not None:
        number = checks.whole("workers", workers, at_least=1, at_most=1024)
        return lambda: Processes(grid, number)
    from quadsim.sweeps.cluster import check, connect

    check(cluster)
    assert cluster is not None
    return lambda: connect(grid, cluster)


def _check_portable(grid: Grid) -> None:
    for cell in grid.deck:
        if cell.optimizer.own and "rules" not in grid.keys:
            raise InputError(
                f"{cell.optimizer.name} is known in this process only: put its rule into a file, and give rules=FILE"
            )


def rows_of(grid: Grid, store: Store, columns: list[str] | None = None) -> pd.DataFrame:
    """The rows of this grid, in its order; of some columns, or of all."""
    frame = store.frame(["key", *(axes.ordered(store.columns()) if columns is None else columns)])
    place_of = {key: number for number, key in enumerate(key for group in grid.walk() for key in group.keys)}
    places = frame.pop("key").map(place_of)
    frame = frame[places.notna()].iloc[places.dropna().argsort()].reset_index(drop=True)
    kinds = {name: "Int64" for name in ("steps_to_tol", "last_step", "dim") if name in frame}
    return frame.astype(kinds | {name: "object" for name in ("error",) if name in frame})
