"""Opening a store: which files may be opened, who holds the lock, and the sentence for each error.

A file that is not ours, or whose pages are damaged, is never written to.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadsim.checks import InputError, shown

APPLICATION = 0x71756164  # "quad": how SQLite marks whose file it is
SCHEMA = 2  # 1 had no checksums, counts and fingerprints
MAGIC = b"SQLite format 3\0"
MOST_TRIES = 20  # to lock a file that others remove as they leave
MOST_NOTED = 200  # bytes of a lock file


class StoreError(OSError):
    """An error on the way, such as a full disk. The message is one sentence."""


def uri(path: Path, *, keep_log: bool = False) -> str:
    """Read connection; the last one to close checkpoints the WAL if it can write, so that a closed store is one file.

    A file that is not known to be ours is opened read-only, and so is one whose log is to be kept (``keep_log``). Where
    nothing can be written beside a closed store, it is read as an immutable file.
    """
    free = os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)
    mode = "rw" if free and not keep_log and _mark(path) == APPLICATION else "ro"
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
        raise InputError(f"{name} is not a store of a sweep; it is left unchanged: give another file")


# The definition of a table as `layout` writes it: SQLite evaluates constraints, collations and generated columns when
# it reads, and a table without rowid has no row numbers.
_NAME = r'(?:"(?:[^"]|"")*+"|\w++)'
_DEFAULT = r"(?: DEFAULT (?:-?[\d.]++(?:e[+-]?\d++)?|'(?:[^']|'')*+'))?"
_COLUMN = rf"{_NAME}(?: BLOB| TEXT| INTEGER)?(?: PRIMARY KEY| NOT NULL UNIQUE)?{_DEFAULT}"
DEFINITION = re.compile(rf"CREATE TABLE {_NAME} ?\({_COLUMN}(?:, {_COLUMN})*+\)")
TABLES = {1: {"cells", "sweeps"}, 2: {"cells", "sweeps", "codes", "totals"}}


def check_base(base: sqlite3.Connection, path: Path) -> int:
    """The schema of a store, 0 for an empty file; raise unless it is a store of ours whose tables are all there."""
    mark, version = (base.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    there = base.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    if (mark, version) == (0, 0) and not there:
        return 0
    name = f"store={shown(str(path))}"
    if mark != APPLICATION:
        raise InputError(f"{name} is another program's database; it is left unchanged")
    if version > SCHEMA:
        raise InputError(
            f"{name} was made by a newer quadsim (schema {version}; this one knows {SCHEMA}): it is left unchanged"
        )
    tables = {table for kind, table, sql in there if kind == "table" and DEFINITION.fullmatch(str(sql))}
    others = [(kind, table) for kind, table, _ in there
              if table not in tables and not str(table).startswith("sqlite_autoindex_")]  # fmt: skip
    if version and (tables != TABLES.get(version) or others):  # also: no view or trigger that would run on its own
        raise InputError(f"{name} is damaged (its tables are not those of a store): it is left unchanged")
    for _, column, *_, hidden in base.execute("PRAGMA table_xinfo(cells)"):
        if hidden or not str(column).isprintable() or str(column).lower() == "rowid":
            raise InputError(f"{name} is damaged (its columns): it is left unchanged")
    return int(version)


def structural_fault(base: sqlite3.Connection) -> str | None:
    """What SQLite finds wrong with the pages and the index of a database."""
    try:
        sound = base.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        sound = str(error)
    return None if sound == "ok" else " ".join(str(sound).split())


def told(path: Path, error: Exception) -> Exception:
    """The sentence for what SQLite complains of."""
    code, words = getattr(error, "sqlite_errorcode", 0) & 0xFF, shown(str(error))[1:-1]
    unreadable = isinstance(error, UnicodeDecodeError) or "Could not decode" in words
    if code == sqlite3.SQLITE_FULL:
        return StoreError(
            f"the disk is full; all that was committed is kept in {path}: make room, and the same command continues"
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or unreadable:
        return InputError(f"store={shown(str(path))} is damaged ({words}): it is left unchanged")
    return StoreError(f"the store {path} cannot be used ({words}); all that was committed before is kept")


def path_of(path: Any) -> Path:
    """Where a store is, links followed: a link and its target are one store, with one lock."""
    if not isinstance(path, str | Path) or not str(path).strip() or "\0" in str(path) or str(path) == ":memory:":
        raise InputError(f"store={shown(str(path) if isinstance(path, Path) else path)} is not the name of a file")
    return Path(path)


def lock_path(path: Path) -> Path:
    path = path.resolve()
    return path.with_name(path.name + ".lock")


@dataclass(frozen=True)
class Note:
    """What a writer has committed, as its lock file says."""

    store: str  # the identity of the store
    commits: int
    rows: int

    def line(self) -> str:
        words = f"committed {self.store} {self.commits} {self.rows}"
        return f"{words} {zlib.crc32(words.encode()):08x}\n"


def noted(path: Path) -> Note | None:
    """What the last writer of a store noted, if it did not close the store; None where there is no sound note."""
    try:
        with open(lock_path(path), "rb") as file:
            return _read_note(file.read(MOST_NOTED))
    except OSError:
        return None


def _read_note(content: bytes) -> Note | None:
    for line in content.decode("ascii", "replace").splitlines():
        words = line.split()
        if len(words) == 5 and words[2].isdigit() and words[3].isdigit():
            note = Note(words[1], int(words[2]), int(words[3]))
            if note.line() == line + "\n":
                return note
    return None


class Lock:
    """The lock of a store, held until it is released or the process ends in whatever way."""

    def __init__(self, path: Path) -> None:
        self._path = lock_path(path)
        for _ in range(MOST_TRIES):
            try:
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                reason = f"{error.strerror}: {self._path.name}"
                raise InputError(f"store={shown(str(path))} cannot be locked ({reason})") from None
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                who = os.read(self._handle, 100).decode(errors="replace").partition("\n")[0].strip()
                os.close(self._handle)
                by = f" ({shown(who)[1:-1]})" if who else ""
                raise InputError(
                    f"store={shown(str(path))} is being written by another process{by}: wait for it to end, "
                    "or give another store; status may be asked meanwhile"
                ) from None
            if _same_file(self._path, self._handle):
                break
            os.close(self._handle)  # its last holder removed it just now
        else:
            raise InputError(f"store={shown(str(path))} cannot be locked: others come and go too quickly")
        try:
            self.previous = _read_note(os.pread(self._handle, MOST_NOTED, 0))
            self._write(self.previous.line() if self.previous else "")
        except OSError as error:
            self.release()
            raise StoreError(error.errno, error.strerror, str(self._path)) from None
        except BaseException:  # KeyboardInterrupt: nobody has this object yet
            self.release()
            raise

    def note(self, note: Note) -> None:
        """Note what is committed. A note that cannot be written is an older one, which alarms nobody."""
        with suppress(OSError):
            self._write(note.line())

    def _write(self, line: str) -> None:
        content = f"process {os.getpid()}\n{line}".encode()
        os.pwrite(self._handle, content, 0)
        os.ftruncate(self._handle, len(content))

    def release(self) -> None:
        self._path.unlink(missing_ok=True)  # while it is held, so that nobody else's is taken away
        os.close(self._handle)


def _same_file(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
