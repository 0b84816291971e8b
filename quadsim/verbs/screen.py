"""What verbs share in showing their work to people: tables on standard output, progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def console() -> Any:
    """Where tables are printed: as wide as the terminal, or 140 in a pipe."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:  # rich would exit with 1, which says that something failed
            raise BrokenPipeError

    return Screen(markup=False, width=None if sys.stdout.isatty() else 140)


@contextmanager
def counter(what: str, total: int, label: str = "", *, tenths: bool = False) -> Iterator[Callable[..., None]]:
    """A bar on a terminal, to be told how far the work is (and its label); in a pipe nothing, or a line a tenth."""
    if not sys.stderr.isatty():
        said = [0]

        def say(done: float, label: str = "") -> None:
            if tenths and int(10 * done / total) > said[0]:
                said[0] = int(10 * done / total)
                print(f"{10 * said[0]} % of {total:,} {what}", file=sys.stderr, flush=True)

        yield say
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(what),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)

        def show(done: float, label: str = label) -> None:
            bar.update(task, completed=done, description=label)

        yield show
