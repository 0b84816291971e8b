"""Console output of the commands: tables on standard output, progress and errors on standard error."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quadsim import _validation as checks
from quadsim._format import compact

if TYPE_CHECKING:
    from rich.table import Table


def console() -> Any:
    """The console for tables: as wide as the terminal, or 140 columns in a pipe."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:  # rich would exit with 1, the code of a failure
            raise BrokenPipeError

    return Screen(markup=False, highlight=False, width=None if sys.stdout.isatty() else 140)


def table(
    columns: Iterable[str], rows: Iterable[Any], *, left: Container[str] = (), wrap: Container[str] = (), **options: Any
) -> Table:
    """A table of texts: columns are aligned right but for those in `left`, on one line but for those in `wrap`."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, **options)
    for column in columns:
        made.add_column(column, justify="left" if column in left else "right", no_wrap=column not in wrap)
    for row in rows:
        made.add_row(*row)
    return made


def print_error(sentence: str) -> None:
    """Print one line to standard error."""
    print(checks.PREFIX + checks.one_line(sentence), file=sys.stderr, flush=True)


@contextmanager
def counter(
    what: str, total: int, label: str = "", *, tenths: bool = False, start: int = 0, clock: bool = True
) -> Iterator[Callable[..., None]]:
    """A progress bar: yields a function of the units done and an optional label.

    In a pipe it prints nothing, or with ``tenths`` a line per tenth. Units before ``start`` were done earlier: rate and
    time left do not count them. ``clock=False`` leaves the time left out on a terminal: the label has it.
    """
    began = time.monotonic()

    def pace(done: float) -> tuple[str, str]:
        """Units per second, and the time left."""
        rate = (done - start) / max(time.monotonic() - began, 1e-9)
        left = (total - done) / rate if rate > 0 else 0.0
        return f"{compact(rate, math.inf)} a second", f"{duration(left)} left"

    if not sys.stderr.isatty():
        reported = 10 * start // total if total else 0

        def report(done: float, label: str = "") -> None:
            nonlocal reported
            if tenths and int(10 * done / total) > reported:
                reported = int(10 * done / total)
                rate_and_left = ", ".join(pace(done)[: 2 if done < total else 1])
                print(f"{10 * reported} % of {total:,} {what}, {rate_and_left}", file=sys.stderr, flush=True)

        yield report
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    last = TextColumn("{task.fields[pace]}") if tenths else TimeRemainingColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(what), last)
    with Progress(*columns[: None if clock else -1], console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, completed=start, pace="")

        def show(done: float, label: str = label) -> None:
            bar.update(task, completed=done, description=label, pace=" ".join(pace(done)) if done > start else "")

        yield show


def duration(seconds: float) -> str:
    """`3 s`, `4 min 10 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 6000:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min" if whole < 360_000 else f"{whole / 86_400:,.0f} days"
