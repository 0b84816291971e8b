"""What the commands on stores share: the key store=, errors, console output."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim._validation import InputError
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import print_error
from quadsim.keys import Key
from quadsim.sweeps.store.text import printable

if TYPE_CHECKING:
    from quadsim.sweeps.store.database import Store

STORE_KEY = Key("store", "text", "the file of rows; a word without a key may name it", shape="FILE.db")
RUN_COLUMNS = ("optimizer", "seed", "tol", "status", "steps_to_tol", "last_step", "predicted_rate")
SPECTRUM_COLUMNS = ("js_distance", "arrangement", "arrangements")
MAX_LINE_SHOWN = 1000  # characters of a line on standard output
MAX_REASONS = 5  # lines of a kind


def store_path(line: CommandLine) -> Path:
    """The store: the key, or the first word that is not key=value."""
    names = list(line.names)
    if names and "store" not in line.texts:
        line.texts["store"] = names.pop(0)
    if names:
        raise InputError(f"{names[0]!r} is not key=value: write for example {line.command} store=sweep.db")
    if "store" not in line.texts:
        raise InputError(f"which store? write for example {line.command} store=sweep.db")
    return Path(line.texts["store"])


def columns_for_medians(store: Store, *names: str) -> list[str]:
    """The columns that medians and figures need, and these: all settings in which rows differ, and results."""
    from quadsim.plots.aggregate import ORIGINS
    from quadsim.sweeps.axes import RESULTS

    settings = [name for name in store.varying() if name not in RESULTS]
    wanted = dict.fromkeys([*names, *settings, *RUN_COLUMNS, *SPECTRUM_COLUMNS, *ORIGINS.values()])
    stored = store.columns()
    return [name for name in wanted if name in stored]


def print_damage(store: Store) -> int:
    """Report the damage of a store on standard error; the exit code, 1 if there is any."""
    if store.damage:
        print_error(f"{store.path} is damaged: {store.damage.sentence()}")
    return int(bool(store.damage))


def print_line(screen: Any, text: str, **options: Any) -> None:
    """Print text of a store on one line, escaped."""
    screen.print(printable(text, MAX_LINE_SHOWN), soft_wrap=True, **options)


@contextlib.contextmanager
def removed_if_unused(path: Path) -> Iterator[list[Path]]:
    """Remove a store and its folder afterwards if they are new, unless the list that is yielded was cleared."""
    files = [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]
    unused = [file for file in (*files, path.parent) if not file.exists()]
    try:
        yield unused
    finally:
        for file in unused:
            with contextlib.suppress(OSError):
                file.rmdir() if file.is_dir() else file.unlink()


def same_file(path: Path, other: Path) -> bool:
    """Whether two paths name the same file."""
    try:
        return path.resolve() == other.resolve() or path.samefile(other)
    except (OSError, ValueError, RuntimeError):  # a file is missing, or a loop of links
        return False
