"""Console output of the commands: tables on standard output, errors on standard error."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any

from quadsim import _progress
from quadsim import _validation as checks
from quadsim._format import duration
from quadsim._progress import counter

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["console", "counter", "duration", "print_error", "table"]


def console() -> Any:
    """The console for tables: as wide as the terminal, or 140 columns in a pipe."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:  # rich would exit with 1, the code of a failure
            raise BrokenPipeError

        def print(self, *objects: Any, **options: Any) -> None:
            with _progress.hidden():
                super().print(*objects, **options)

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
    with _progress.hidden():
        print(checks.PREFIX + checks.one_line(sentence), file=sys.stderr, flush=True)
