"""The door of a store: which files may be opened, who holds the lock, and the sentence for what goes wrong.

A file that is not ours, or that is damaged, is looked at and left as it is.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Any

from quadsim.checks import InputError, shown

APPLICATION = 0x71756164  # "quad": how SQLite marks whose file it is
SCHEMA = 1
MAGIC = b"SQLite format 3\0"
MOST_TRIES = 20  # to lock a file that others remove as they leave


class StoreError(OSError):
    """What goes wrong with a store on the way: a full disk, a damaged page. The message is one sentence."""


def uri(path: Path) -> str:
    """A door for reading. The last one through it tidies up, where it may: so a store at rest is one file.

    What is not known to be ours is only looked at; where nothing can be written beside a store at rest, it is read as
    it lies.
    """
    free = os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)
    mode = "rw" if free and _mark(path) == APPLICATION else "ro"
    resting = not free and not path.with_name(path.name + "-wal").exists()
    return f"{path.absolute().as_uri()}?mode={mode}{'&immutable=1' if resting else ''}"


def _mark(path: Path) -> int:
    """Whose file it is, as its first page says; 0 also where that is not written yet."""
    with open(path, "rb") as file:
        return int.from_bytes(file.read(72)[68:72], "big")


def is_there(path: Path) -> bool:
    """Whether there is a store to look at; raises where there could be none."""
    check_file(path_of(path), new=True)
    return path.exists()


def check_file(path: Path, *, new: bool) -> None:
    """Raise unless there is a SQLite file, or room for one where it may be new."""
    name = f"store={shown(str(path))}"
    try:
        if path.is_dir():
            raise InputError(f"{name} is a folder: give a file, such as {path / 'sweep.db'}")
        if path.is_symlink() and not path.exists():
            raise InputError(f"{name} is a link to a file that is not there")
        if path.exists() and not path.is_file():
            raise InputError(f"{name} is no file that can hold a store: give another")
        if not path.exists():
            if not new:
                raise InputError(f"{name} is not there")
            if not path.absolute().parent.is_dir():
                raise InputError(f"{name} cannot be written: there is no folder {shown(str(path.parent))}")
            if not os.access(path.absolute().parent, os.W_OK):
                raise InputError(f"{name} cannot be written (Permission denied): give a file in a folder that can")
            return
        with open(path, "rb") as file:
            head = file.read(len(MAGIC))
        if new and not os.access(path, os.W_OK):
            raise InputError(f"{name} cannot be written (Permission denied)")
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if head not in (MAGIC, b"") or (head == b"" and not new):
        raise InputError(f"{name} is not a store of a sweep; it is left as it is: give another file")


def check_base(base: sqlite3.Connection, path: Path) -> None:
    """Raise unless this is a store of ours, whole, of a schema that is known; or an empty file."""
    mark, version = (base.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if (mark, version) == (0, 0) and not base.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        return
    if mark != APPLICATION:
        raise InputError(f"store={shown(str(path))} is another program's database; it is left as it is")
    if version > SCHEMA:
        raise InputError(
            f"store={shown(str(path))} was made by a newer quadsim (schema {version}; this one knows {SCHEMA}): "
            "it is left as it is"
        )
    tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"cells", "sweeps"} <= tables:
        raise InputError(f"store={shown(str(path))} is damaged (its tables are gone): it is left as it is")
    sound = base.execute("PRAGMA quick_check(1)").fetchone()[0]
    if sound != "ok":
        raise InputError(f"store={shown(str(path))} is damaged ({shown(sound)}): it is left as it is")


def told(path: Path, error: Exception) -> Exception:
    """The sentence for what SQLite complains of."""
    code, words = getattr(error, "sqlite_errorcode", 0) & 0xFF, str(error)
    if code == sqlite3.SQLITE_FULL:
        return StoreError(
            f"the disk is full; all that was committed is kept in {path}: make room, and the same command continues"
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or isinstance(error, UnicodeDecodeError):
        return InputError(f"store={shown(str(path))} is damaged ({words}): it is left as it is")
    return StoreError(f"the store {path} cannot be used ({words}); all that was committed before is kept")


def path_of(path: Any) -> Path:
    """Where a store is, links followed: a link and its target are one store, with one lock."""
    if not isinstance(path, str | Path) or not str(path).strip() or "\0" in str(path) or str(path) == ":memory:":
        raise InputError(f"store={shown(str(path) if isinstance(path, Path) else path)} is not the name of a file")
    return Path(path)


def lock_path(path: Path) -> Path:
    path = path.resolve()
    return path.with_name(path.name + ".lock")


def locked(path: Path) -> int:
    """The lock of a store, held until it is closed or the process ends in whatever way."""
    place = lock_path(path)
    for _ in range(MOST_TRIES):
        try:
            handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise InputError(f"store={shown(str(path))} cannot be locked ({error.strerror}: {place.name})") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.read(handle, 100).decode(errors="replace").strip()
            os.close(handle)
            raise InputError(
                f"store={shown(str(path))} is being written by another process{f' ({who})' if who else ''}: "
                "wait for it to end, or give another store; status may be asked meanwhile"
            ) from None
        if _same_file(place, handle):
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()}\n".encode())
            return handle
        os.close(handle)  # its last holder removed it just now
    raise InputError(f"store={shown(str(path))} cannot be locked: others come and go too quickly")


def _same_file(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
