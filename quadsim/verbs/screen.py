"""What verbs share in showing their work to people: tables on standard output, progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def console() -> Any:
    """Where tables are printed: as wide as the terminal, or 140 in a pipe."""
    from rich.console import Console

    return Console(markup=False, width=None if sys.stdout.isatty() else 140)


@contextmanager
def counter(what: str, total: int, label: str = "") -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, to be told how far the work is; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda done: None
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
        yield lambda done: bar.update(task, completed=done)
