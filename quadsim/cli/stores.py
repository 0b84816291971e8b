"""What the commands on stores share."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from quadsim._validation import InputError
from quadsim.cli.arguments import CommandLine
from quadsim.keys import Key
from quadsim.sweeps.store import printable

if TYPE_CHECKING:
    from quadsim.sweeps.store import Store

STORE_KEY = Key("store", "text", "the file of rows; a word without a key may name it", shape="FILE.db")
MAX_LINE_SHOWN = 1000  # characters of a line on standard output
MAX_ERROR_LINE = 200  # characters of a line on standard error
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


def print_damage(store: Store) -> int:
    """Report what is damaged in a store on standard error; the exit code, 1 if anything is."""
    if not store.damage:
        return 0
    message = f"quadsim: {store.path} is damaged: {store.damage.sentence()}"
    print(printable(" ".join(message.split()), MAX_ERROR_LINE), file=sys.stderr)
    return 1


@contextlib.contextmanager
def removed_if_unused(path: Path) -> Iterator[set[Path]]:
    """Remove a store, and its folder, if they are new and the set that is yielded has not been cleared."""
    beside = [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]
    new = [one for one in (*beside, path.parent) if not one.exists()]
    unused = set(new)
    try:
        yield unused
    finally:
        for one in new:
            with contextlib.suppress(OSError):
                if one in unused:
                    one.rmdir() if one.is_dir() else one.unlink()


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths name one file."""
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except (OSError, ValueError, RuntimeError):  # one of them is missing, or a loop of links
        return False
