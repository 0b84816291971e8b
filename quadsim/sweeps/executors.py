"""Executors of a sweep: threads and local processes; `cluster` has the executor on Dask.

An executor takes chunks of groups and returns futures. Processes rebuild the grid from its keys, so chunks are small to
send.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol

from quadsim import _progress
from quadsim._processes import NoWorkersError, ProcessPool
from quadsim._validation import InputError
from quadsim.engine.compiled import kernel_cache
from quadsim.sweeps import execute
from quadsim.sweeps.execute import Row
from quadsim.sweeps.grid import LIMIT, Grid, Group
from quadsim.sweeps.run_configs import Cell


@dataclass(eq=False)
class Chunk:
    """Groups that run together. ``alone``: a worker died running it, so nothing else runs at the same time."""

    groups: list[Group]
    alone: bool = False
    deaths: int = 0  # of workers running it, counted for a single cell that runs alone

    @property
    def size(self) -> int:
        return sum(len(group.cells) for group in self.groups)

    def split(self) -> list[Chunk]:
        """A chunk for each cell."""
        return [Chunk([group.only([index])], alone=True) for group in self.groups for index in range(len(group.cells))]


@dataclass(frozen=True)
class Done:
    """The rows of a chunk, and the seconds that it took."""

    rows: list[Row]
    seconds: float


class ExecutorLostError(Exception):
    """The executor cannot run anything any more."""


class Executor(Protocol):
    """Runs chunks of about ``chunk_seconds``, ``capacity`` of them at a time.

    `result` raises `WorkerDiedError` if the worker died; a cell fails after ``max_deaths`` of these.
    """

    capacity: int
    chunk_seconds: float
    max_deaths: int

    def submit(self, chunk: Chunk) -> Any: ...
    def finished(self, futures: Iterable[Any]) -> list[Any]: ...
    def result(self, future: Any) -> Done: ...
    def close(self) -> None: ...


def run_chunk(groups: list[Group], deck: tuple[Cell, ...], check: execute.Check | None = None) -> Done:
    began = time.perf_counter()
    rows = [row for group in groups for row in execute.run(group, deck, check)]
    return Done(rows, time.perf_counter() - began)


def run_in_worker(groups: list[Group], keys: dict[str, str], mark: str) -> Done:
    """Run a chunk in a process that builds the grid from its keys; raise if its code or data differ (``mark``)."""
    grid = _grid(tuple(keys.items()))
    if grid.mark != mark:
        raise InputError("its quadsim, packages, rules or measured spectra differ from those here")
    with _progress.Task("a chunk of a sweep", silent=True):  # the parent shows the sweep
        return run_chunk(groups, grid.deck)


@functools.lru_cache(maxsize=4)
def _grid(keys: tuple[tuple[str, str], ...]) -> Grid:
    return Grid.read(dict(keys), limit=1000 * LIMIT)  # the limit was checked in the parent


class ThreadExecutor:
    """Threads of this process: compiled kernels release the GIL."""

    chunk_seconds = 0.15
    max_deaths = 1

    def __init__(self, grid: Grid, count: int) -> None:
        self.capacity, self._grid, self._cancelled = 2 * count, grid, Event()
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="sweep")

    def _check_cancelled(self, *_: Any) -> None:
        if self._cancelled.is_set():
            raise KeyboardInterrupt

    def submit(self, chunk: Chunk) -> Future:
        return self._pool.submit(run_chunk, chunk.groups, self._grid.deck, self._check_cancelled)

    def finished(self, futures: Iterable[Future]) -> list[Future]:
        return list(wait(futures, return_when=FIRST_COMPLETED).done)

    def result(self, future: Future) -> Done:
        return future.result()

    def close(self) -> None:
        self._cancelled.set()
        self._pool.shutdown(wait=True, cancel_futures=True)


class ProcessExecutor:
    """Processes of this machine."""

    chunk_seconds = 0.25
    max_deaths = 3

    def __init__(self, grid: Grid, count: int, work: Any = run_in_worker) -> None:
        self.capacity, self._grid, self._work = 2 * count, grid, work
        kernel_cache.check_folder()  # logs once here; workers do not log
        self._pool = ProcessPool(count)

    def submit(self, chunk: Chunk) -> Future:
        return self._pool.submit(self._work, chunk.groups, self._grid.keys, self._grid.mark)

    def finished(self, futures: Iterable[Future]) -> list[Future]:
        return list(wait(futures, return_when=FIRST_COMPLETED).done)

    def result(self, future: Future) -> Done:
        try:
            return self._pool.result(future)
        except NoWorkersError as error:
            raise ExecutorLostError(str(error)) from error

    def close(self) -> None:
        self._pool.terminate()  # does not wait for running chunks
