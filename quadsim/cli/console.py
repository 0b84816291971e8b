"""Console output of the commands: tables on standard output, progress on standard error."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from quadsim._format import compact


def console() -> Any:
    """The console for tables: as wide as the terminal, or 140 columns in a pipe."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:  # rich would exit with 1, the code of a failure
            raise BrokenPipeError

    return Screen(markup=False, width=None if sys.stdout.isatty() else 140)


@contextmanager
def counter(
    what: str, total: int, label: str = "", *, tenths: bool = False, start: int = 0
) -> Iterator[Callable[..., None]]:
    """A progress bar: yields a function of the units done and an optional label.

    In a pipe it prints nothing, or with ``tenths`` a line per tenth. Units before ``start`` were done earlier: rate and
    time left do not count them.
    """
    began = time.monotonic()

    def pace(done: float) -> tuple[float, float]:
        """Units per second, and the seconds left."""
        rate = (done - start) / max(time.monotonic() - began, 1e-9)
        return rate, (total - done) / rate if rate > 0 else 0.0

    if not sys.stderr.isatty():
        reported = [int(10 * start / total) if total else 0]

        def report(done: float, label: str = "") -> None:
            if tenths and int(10 * done / total) > reported[0]:
                reported[0] = int(10 * done / total)
                rate, left = pace(done)
                line = f"{10 * reported[0]} % of {total:,} {what}, {per_second(rate)}"
                print(line + (f", {duration(left)} left" if done < total else ""), file=sys.stderr, flush=True)

        yield report
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(what),
        *((TextColumn("{task.fields[rate]}"), TextColumn("{task.fields[left]}")) if tenths else
          (TimeRemainingColumn(),)),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, completed=start, rate="", left="")

        def show(done: float, label: str = label) -> None:
            rate, left = pace(done)
            fields: dict[str, Any] = (
                {"rate": per_second(rate), "left": f"{duration(left)} left"} if tenths and done > start else {}
            )
            bar.update(task, completed=done, description=label, **fields)

        yield show


def per_second(rate: float) -> str:
    return f"{compact(rate, math.inf)} a second"


def duration(seconds: float) -> str:
    """`3 s`, `4 min 10 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 6000:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min" if whole < 360_000 else f"{whole / 86_400:,.0f} days"
