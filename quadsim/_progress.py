"""Progress of long calls, on standard error: a bar on a terminal, a line in a notebook, rare lines in a log.

A call opens a `Task` and assigns what it has done; this costs microseconds. A thread that runs while there are tasks
looks at them several times a second and draws the outermost one once it has lasted `DELAY` seconds. So calls within
calls show one bar, and a call that reports nothing for a while, such as a matrix decomposition, has a bar too.
Nothing is drawn in child processes, or with QUADSIM_PROGRESS=false. rich is imported when a bar is drawn.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

from quadsim import _progress_bars
from quadsim import _validation as checks
from quadsim._validation import InputTypeError

DELAY = 1.5  # seconds before a call is shown: with the import of rich, calls of more than two seconds are
COMPILE_DELAY = 0.5  # before a compilation is
POLL_SECONDS, FRAME_SECONDS = 0.2, 0.1  # between two looks at the tasks, without a bar and with one
MAX_IDLE_POLLS = 5  # without a task, before the thread ends

F = TypeVar("F", bound=Callable[..., Any])


class Task:
    """What a call is doing: ``done`` of ``total`` units (None: unknown). A context manager.

    ``seconds_left`` overrides the time left that the average rate gives. A ``background`` task is shown only where
    there is no other one; a ``silent`` one, and all that begins within it, is not shown.
    """

    def __init__(
        self,
        label: str,
        total: float | None = None,
        unit: str = "%",
        *,
        start: float = 0,
        delay: float = DELAY,
        silent: bool = False,
        background: bool = False,
        overlay: bool = False,
    ) -> None:
        self.label, self.total, self.unit, self.start, self.done = label, total, unit, start, start
        self.delay, self.silent, self.background, self.overlay = delay, silent, background, overlay
        self.seconds_left: Callable[[], float | None] | None = None
        self.began = _progress_bars.clock()
        self._shares: list[float] = []

    def __enter__(self) -> Self:
        with _tasks_lock:
            _tasks.append(self)
        _watch()
        return self

    def __exit__(self, *_: object) -> None:
        with _tasks_lock:
            began = self.began
            if self in _tasks:
                _tasks.remove(self)
            visible = [task for task in _tasks if not task.background]
            for task in _tasks if not visible and _shown is not None else ():
                task.began = _progress_bars.clock()  # a background task is shown again only if it lasts
        if not visible and (_shown is not None or _progress_bars.clock() - began > COMPILE_DELAY / 2):
            _erase()  # waits for a bar that is being drawn

    def advance(self, done: float, label: str | None = None) -> None:
        self.done = done
        if label is not None:
            self.label = label

    def part(self, number: int, parts: int) -> Callable[[float], None]:
        """A function of the share done of one of several equal parts, which may run at the same time."""
        self.total, self.unit = 1.0, "%"
        shares = self._shares = self._shares or [0.0] * parts

        def report(share: float) -> None:
            shares[number] = share
            self.done = sum(shares) / parts

        return report

    def left(self) -> float | None:
        """Seconds left; None if unknown."""
        if self.seconds_left is not None:
            return self.seconds_left()
        if self.total is None or self.done <= self.start:
            return None
        return (_progress_bars.clock() - self.began) * (self.total - self.done) / (self.done - self.start)


def of_call(progress: Any, label: str, total: float | None = None, unit: str = "%", *, takes: str) -> Task:
    """The task of a public function, given its argument ``progress``: None or True shows it, False does not.

    A callable reports by itself, and the function calls it; ``takes`` describes its arguments.
    """
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputTypeError(f"progress must be a function of {takes}, or True or False, got {checks.shown(progress)}")
    return Task(label, total, unit, silent=progress is False or callable(progress))


def shows_progress(label: str) -> Callable[[F], F]:
    """A decorator: calls of this function are tasks of unknown length."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            with Task(label):
                return function(*arguments, **options)

        return call  # type: ignore[return-value]

    return decorate


def compiling(name: str, cached: bool = True) -> Task:
    """The task of compiling the kernel of an optimizer: its label replaces that of the call that needs it."""
    when = "first use on this machine; cached afterwards" if cached else "in each process, without a cache"
    return Task(f"compiling the kernel of {name} ({when})", delay=COMPILE_DELAY, overlay=True)


@contextmanager
def counter(
    what: str, total: float, label: str = "", *, tenths: bool = False, start: float = 0, clock: bool = True
) -> Iterator[Callable[..., None]]:
    """A task of the command line: yields a function of the units done and an optional label.

    With ``tenths``, a log has a line for each tenth from the beginning, with the rate. Units before ``start`` were done
    earlier: rate and time left do not count them. ``clock=False`` leaves the time left out: the label has it.
    """
    with Task(label, total, what, start=start) as task:
        if not clock:
            task.seconds_left = lambda: None
        line = _progress_bars.TenthLines(task) if tenths and _progress_bars.shown_as() == "log" else None
        task.silent = line is not None

        def show(done: float, label: str | None = None) -> None:
            task.advance(done, label)
            if line is not None:
                line.print_if_due()

        show.task = task  # type: ignore[attr-defined]
        yield show


@contextmanager
def hidden() -> Iterator[None]:
    """Print in this block: the bar is erased before, and drawn again after it."""
    with _shown_lock:
        _erase()
        yield


# ---- what is shown, and where

_tasks: list[Task] = []  # in the order in which they began
_tasks_lock = threading.Lock()
_shown: Any = None  # the display that is drawn now
_shown_lock = threading.RLock()
_watcher: threading.Thread | None = None


def _watch() -> None:
    """Start the thread that draws, unless it runs."""
    global _watcher
    if _watcher is not None:
        return
    with _tasks_lock:
        if _watcher is None:
            _watcher = threading.Thread(target=_run, name="quadsim-progress", daemon=True)
            try:
                _watcher.start()
            except RuntimeError:  # no more threads, or none on this platform
                _watcher = None


def _run() -> None:
    global _watcher
    idle = 0
    while True:
        time.sleep(POLL_SECONDS if _shown is None else FRAME_SECONDS)
        with _tasks_lock:
            idle = 0 if _tasks else idle + 1
            if idle > MAX_IDLE_POLLS:
                _watcher = None
                return
        draw()


def draw() -> None:
    """Draw the tasks as they are now."""
    global _shown
    with _shown_lock:
        with _tasks_lock:
            tasks = list(_tasks)
        loud = [task for task in tasks if not task.silent]
        outermost = next((task for task in tasks if not task.background), None)
        if not loud or (outermost is not None and outermost.silent):
            _erase()
            return
        try:
            if _shown is None:
                if all(_progress_bars.clock() - task.began < task.delay for task in loud):
                    return
                _shown = _progress_bars.DISPLAYS[_progress_bars.shown_as()]()
            _shown.show(*_chosen(loud))
        except Exception:  # a stream that was closed, or a terminal that rich cannot write to
            for task in tasks:
                task.silent = True
            _erase()


def _chosen(tasks: list[Task]) -> tuple[Task, str]:
    """The task to show, and its label: that of a compilation if there is one."""
    overlays = [task for task in tasks if task.overlay]
    plain = [task for task in tasks if not task.overlay] or overlays
    chosen = next((task for task in plain if not task.background), plain[0])
    return chosen, (overlays[-1] if overlays else chosen).label


def _erase() -> None:
    global _shown
    with _shown_lock:
        shown, _shown = _shown, None
        if shown is not None:
            with suppress(Exception):
                shown.erase()


def _reset() -> None:
    """In a forked process: no task, no thread, no lock that another thread held."""
    global _tasks_lock, _shown_lock, _shown, _watcher
    _tasks.clear()
    _tasks_lock, _shown_lock, _shown, _watcher = threading.Lock(), threading.RLock(), None, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
