"""The process pool, and signal handling in parents and workers.

Ctrl-C sends SIGINT to every process of a terminal. Workers are started with SIGINT blocked, so that only the parent
raises KeyboardInterrupt; it then terminates its workers. A worker also ends when its parent has died.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, Self


class WorkerDiedError(Exception):
    """A worker process ended abruptly (killed, out of memory, segmentation fault) while it ran a task."""


class NoWorkersError(OSError):
    """No worker process could be started."""


@contextmanager
def sigint_blocked() -> Iterator[None]:
    """Processes and threads started in this block never receive SIGINT; one that arrives is raised on exit."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # starting it later would unblock SIGINT in the starting thread
    received: list[int] = []
    in_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda *_: received.append(1)) if in_main_thread else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if in_main_thread:
            signal.signal(signal.SIGINT, handler)
    if received:
        raise KeyboardInterrupt


@contextmanager
def exit_on_sigterm(error: type[BaseException] = SystemExit) -> Iterator[None]:
    """SIGTERM and SIGHUP raise an error, so that `finally` blocks run: temporary files are removed, pools closed.

    A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    """

    def end(number: int, _: object) -> None:
        raise error(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    handlers = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


class ProcessPool:
    """Worker processes; leaving the block by an exception terminates them instead of waiting for their tasks.

    If a worker dies, all running tasks raise `WorkerDiedError`, and the next `submit` starts new workers.
    ``initializer`` runs first in each worker.
    """

    def __init__(self, workers: int, initializer: Callable[[], None] | None = None) -> None:
        self._workers, self._initializer = workers, initializer
        self._context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
        self._started = self._context.Event()  # set by the first worker that runs
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        options = self._started, self._initializer
        return ProcessPoolExecutor(self._workers, self._context, initializer=_set_up_worker, initargs=options)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        with sigint_blocked():
            try:
                return self._pool.submit(function, *arguments)
            except BrokenProcessPool:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = self._new()
                return self._pool.submit(function, *arguments)

    def result(self, future: Future) -> Any:
        """The result of a task; raises what it raised, `WorkerDiedError`, or `NoWorkersError`."""
        try:
            return future.result()
        except BrokenProcessPool as error:
            if not self._started.is_set():
                raise NoWorkersError(
                    "processes cannot be started: in a script, the code that starts them must be below "
                    "if __name__ == '__main__'"
                ) from error
            raise WorkerDiedError("the process that ran it ended abruptly") from error

    def terminate(self) -> None:
        """End all workers now, and with them all running tasks."""
        for process in list((self._pool._processes or {}).values()):  # Python 3.14 has terminate_workers()
            process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._pool.shutdown(wait=True)
        else:
            self.terminate()


class _TerminatedError(BaseException):
    """A worker received SIGTERM; not an Exception or SystemExit, which a task may catch."""


def unwind_on_sigterm(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task in a worker; SIGTERM ends the worker after the `finally` blocks, which remove temporary files."""
    try:
        with exit_on_sigterm(_TerminatedError):
            return function(*arguments)
    except _TerminatedError as error:
        os._exit(error.args[0])


def _set_up_worker(started: Any, initializer: Callable[[], None] | None) -> None:
    def exit_with_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()
    if initializer is not None:
        initializer()
    started.set()
