"""Where chunks of a sweep run: threads of this process, processes of this machine. (`cluster` has the third place.)

A place takes chunks and gives futures. What they need to know beside the groups, the deck of cells, each process makes
for itself from the grid's keys.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
import time
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from threading import Event
from typing import Any, Protocol

from quadsim import kernel_cache
from quadsim._signals import deaf
from quadsim.checks import InputError
from quadsim.sweeps import cells
from quadsim.sweeps.cells import Row
from quadsim.sweeps.deck import Cell
from quadsim.sweeps.grid import LIMIT, Grid, Group


@dataclass(eq=False)
class Chunk:
    """Some groups, to be run together. ``alone``: it was there when a process died, and runs with nothing beside it."""

    groups: list[Group]
    alone: bool = False
    died: int = 0  # how often a process died under it when it was a single cell, alone

    @property
    def size(self) -> int:
        return sum(len(group.cells) for group in self.groups)

    def split(self) -> list[Chunk]:
        """A chunk for each cell."""
        return [
            Chunk([Group(group.said, group.seed, (number,), (key,))], alone=True)
            for group in self.groups
            for number, key in zip(group.cells, group.keys, strict=True)
        ]


@dataclass(frozen=True)
class Done:
    """What a chunk gave, and the seconds that it took."""

    rows: list[Row]
    seconds: float


class Died(Exception):
    """The process that ran a chunk is gone."""


class Lost(Exception):
    """The whole place is gone; the message is one sentence."""


class Place(Protocol):
    """Takes chunks of about `chunk_seconds`, `room` of them at a time, and gives each back as done."""

    room: int
    chunk_seconds: float
    deaths: int  # that a cell must cause before it is held to be their cause

    def submit(self, chunk: Chunk) -> Any: ...
    def finished(self, futures: Iterable[Any]) -> list[Any]: ...
    def result(self, future: Any) -> Done: ...
    def close(self) -> None: ...


def run_chunk(groups: list[Group], deck: tuple[Cell, ...], heard: cells.Heard | None = None) -> Done:
    began = time.perf_counter()
    rows = [row for group in groups for row in cells.run(group, deck, heard)]
    return Done(rows, time.perf_counter() - began)


def run_elsewhere(groups: list[Group], keys: dict[str, str], mark: str) -> Done:
    """The same in a process that makes the deck for itself; if it is not the one that is meant, nothing is run."""
    grid = _grid(tuple(keys.items()))
    if grid.mark != mark:
        raise InputError("its quadsim, packages, rules or measured spectra are not the same as here")
    return run_chunk(groups, grid.deck)


@functools.lru_cache(maxsize=4)
def _grid(keys: tuple[tuple[str, str], ...]) -> Grid:
    return Grid.read(dict(keys), limit=1000 * LIMIT)  # it was counted where it came from


class Threads:
    """Threads of this process: compiled kernels run side by side."""

    chunk_seconds = 0.15
    deaths = 1

    def __init__(self, grid: Grid, count: int) -> None:
        self.room, self._grid, self._stop = 2 * count, grid, Event()
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="sweep")

    def _heard(self, *_: Any) -> None:
        if self._stop.is_set():
            raise KeyboardInterrupt

    def submit(self, chunk: Chunk) -> Future:
        return self._pool.submit(run_chunk, chunk.groups, self._grid.deck, self._heard)

    def finished(self, futures: Iterable[Future]) -> list[Future]:
        return list(wait(futures, return_when=FIRST_COMPLETED).done)

    def result(self, future: Future) -> Done:
        return future.result()

    def close(self) -> None:
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)


class Processes:
    """Processes of this machine. One that dies takes the pool with it, and a new pool is made."""

    chunk_seconds = 0.25
    deaths = 3

    def __init__(self, grid: Grid, count: int, work: Any = run_elsewhere) -> None:
        self.room, self._grid, self._count, self._work = 2 * count, grid, count, work
        kernel_cache.check_folder()  # logs here, once, what workers do not repeat
        self._context = multiprocessing.get_context("spawn")
        self._begun = self._context.Event()  # set by the first process that gets as far as taking work
        self._pool = self._made()

    def _made(self) -> ProcessPoolExecutor:
        first = os.getpid(), self._begun
        return ProcessPoolExecutor(self._count, mp_context=self._context, initializer=_settle, initargs=first)

    def submit(self, chunk: Chunk) -> Future:
        with deaf():
            try:
                return self._pool.submit(self._work, chunk.groups, self._grid.keys, self._grid.mark)
            except BrokenProcessPool:
                self._renew()
                return self._pool.submit(self._work, chunk.groups, self._grid.keys, self._grid.mark)

    def _renew(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._made()

    def finished(self, futures: Iterable[Future]) -> list[Future]:
        return list(wait(futures, return_when=FIRST_COMPLETED).done)

    def result(self, future: Future) -> Done:
        try:
            return future.result()
        except BrokenProcessPool as error:
            if not self._begun.is_set():
                raise Lost(
                    "processes cannot be started: in a script, what starts them must stand below "
                    "if __name__ == '__main__'"
                ) from error
            raise Died("the process that ran it ended abruptly") from error

    def close(self) -> None:
        for process in list((self._pool._processes or {}).values()):  # a chunk under way is not waited for
            process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)


def _settle(parent: int, begun: Any) -> None:
    """A worker ends when its parent is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    begun.set()
