"""Where progress is shown: a bar on a terminal, a line in a notebook, rare lines in a log.

Text goes to standard error, never to standard output. rich is imported when a bar is drawn; IPython is not imported.
"""

from __future__ import annotations

import math
import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from quadsim._format import compact, duration
from quadsim._validation import PREFIX

if TYPE_CHECKING:
    from quadsim._progress import Task

LOG_DELAY = 30.0  # seconds before the first line in a log
LOG_TENTH_SECONDS = 10.0  # between two lines for tenths
LOG_SECONDS = 300.0  # between two lines without a new tenth
NOTEBOOK_SECONDS = 0.25  # between two changes of a notebook's line
VARIABLE = "QUADSIM_PROGRESS"  # environment variable
SAFE_TERMS = ("dumb", "unknown")  # terminals without cursor movement

clock = time.monotonic


def shown_as() -> str:
    """Where progress goes: "terminal", "notebook", "log", or "nowhere"."""
    stream = sys.stderr
    if os.environ.get(VARIABLE, "").lower() in ("0", "false", "off", "no") or _in_child_process():
        return "nowhere"
    if _notebook() is not None:
        return "notebook"
    try:
        terminal = stream is not None and stream.isatty() and os.environ.get("TERM", "").lower() not in SAFE_TERMS
        return "terminal" if terminal else "log" if stream is not None and not stream.closed else "nowhere"
    except (OSError, ValueError, AttributeError):  # closed, or not a complete stream
        return "nowhere"


def _in_child_process() -> bool:
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _notebook() -> Any:
    """IPython's shell if it is that of a notebook: it has a kernel. IPython is not imported."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get_ipython() if get_ipython is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


def amount(task: Task) -> str:
    if task.total is None:
        return f"{task.done:,.0f} {task.unit}" if task.done else ""
    if task.unit == "%":
        return f"{100 * task.done / task.total:.0f} %"
    return f"{task.done:,.0f}/{task.total:,.0f} {task.unit}"


def time_left(task: Task) -> str:
    seconds = task.left()
    return "" if seconds is None else f"{duration(seconds)} left"


class Bar:
    """A bar of rich, erased at its end. The cursor stays visible, so that a killed process need not restore it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        class Screen(Console):
            def show_cursor(self, show: bool = True) -> bool:
                return False

        texts = (TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("amount", "left"))
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), *texts)
        # Redirecting standard output from this thread would conflict with contextlib.redirect_stdout in others.
        self._bar = Progress(
            *columns, console=Screen(file=sys.stderr, force_terminal=True), auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._row: Any = None

    def show(self, task: Task, label: str) -> None:
        if self._row is None:
            self._row = self._bar.add_task("", total=None, amount="", left="")
        self._bar.update(
            self._row,
            description=label,
            total=task.total,
            completed=task.done,
            amount=amount(task),
            left=time_left(task),
        )
        self._bar.start()  # once
        self._bar.refresh()

    def erase(self) -> None:
        self._bar.stop()


class NotebookLine:
    """One line of output that is replaced, and empty at the end; with a carriage return where that fails."""

    WIDTH = 30  # characters of the bar

    def __init__(self) -> None:
        self._handle: Any = None
        self._last, self._drawn = "", 0.0

    def show(self, task: Task, label: str) -> None:
        if clock() - self._drawn < NOTEBOOK_SECONDS:
            return
        share = min(max(task.done / task.total, 0.0), 1.0) if task.total else None
        filled = 0 if share is None else round(self.WIDTH * share)
        bar = "" if share is None else "█" * filled + "░" * (self.WIDTH - filled)
        self._write(" ".join(part for part in (label, bar, amount(task), time_left(task)) if part))
        self._drawn = clock()

    def _write(self, text: str) -> None:
        if text == self._last:
            return
        display = getattr(sys.modules.get("IPython.display"), "display", None)
        if display is not None and self._handle is None:
            self._handle = display({"text/plain": text}, raw=True, display_id=True)
        elif self._handle is not None:
            self._handle.update({"text/plain": text}, raw=True)
        else:
            sys.stderr.write("\r" + text.ljust(len(self._last)))
            sys.stderr.flush()
        self._last = text

    def erase(self) -> None:
        self._write("")
        if self._handle is None:
            sys.stderr.write("\r")
            sys.stderr.flush()


class LogLines:
    """A line after `LOG_DELAY`, then one for each tenth, and at least one every `LOG_SECONDS`."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._tenth, self._printed = 0, 0.0

    def show(self, task: Task, label: str) -> None:
        now = clock()
        if task is not self._task:
            self._task, self._tenth, self._printed = task, 0, 0.0
        tenth = int(10 * task.done / task.total) if task.total else 0
        first = not self._printed and now - task.began >= LOG_DELAY
        again = self._printed and (
            (tenth > self._tenth and now - self._printed >= LOG_TENTH_SECONDS) or now - self._printed >= LOG_SECONDS
        )
        if first or again:
            self._tenth, self._printed = tenth, now
            parts = (amount(task), f"{duration(now - task.began)} so far", time_left(task))
            print_line(PREFIX + ", ".join(part for part in (label, *parts) if part))

    def erase(self) -> None:
        pass


class Nowhere(LogLines):
    def show(self, task: Task, label: str) -> None:
        pass


class TenthLines:
    """For a log: a line for each tenth, with the rate and the time left."""

    def __init__(self, task: Task) -> None:
        self.task, self.reported = task, self._tenth(task)

    @staticmethod
    def _tenth(task: Task) -> int:
        return int(10 * task.done / task.total) if task.total else 0

    def print_if_due(self) -> None:
        task, tenth = self.task, self._tenth(self.task)
        if tenth <= self.reported or not task.total:
            return
        self.reported = tenth
        speed = f"{compact((task.done - task.start) / max(clock() - task.began, 1e-9), math.inf)} a second"
        left = f", {time_left(task)}" if task.done < task.total else ""
        print_line(f"{10 * tenth} % of {task.total:,} {task.unit}, {speed}{left}")


DISPLAYS = {"terminal": Bar, "notebook": NotebookLine, "log": LogLines, "nowhere": Nowhere}


def print_line(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # standard error was closed
        print(text, file=sys.stderr, flush=True)
