"""Opening a store: checks of the file and its schema, the writer lock, and the messages of errors.

A file that is not a store, or whose pages are damaged, is never written to.
"""

from __future__ import annotations

import os
import re
import sqlite3
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadsim._files import FileLock, LockedError
from quadsim._validation import InputError, shown

APPLICATION_ID = 0x71756164  # "quad", in the header of the database
SCHEMA_VERSION = 3  # 2 had other keys and columns; 1 had no checksums, counts and fingerprints either
MAGIC = b"SQLite format 3\0"


class StoreError(OSError):
    """An error of the file system or of SQLite, such as a full disk; the message is one sentence."""


def read_uri(path: Path, *, keep_wal: bool = False) -> str:
    """The URI of a read connection.

    The last connection to close checkpoints the WAL if it can write, so that a closed store is one file. So the mode is
    read-write, unless the file has another application ID or its WAL is evidence of damage (``keep_wal``). On read-only
    media, a store without a WAL is opened as immutable: SQLite would need to create files beside it.
    """
    writable = os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)
    with open(path, "rb") as file:
        ours = file.read(72)[68:] == APPLICATION_ID.to_bytes(4, "big")  # not if it is still in the WAL
    mode = "rw" if writable and ours and not keep_wal else "ro"
    immutable = not writable and not path.with_name(path.name + "-wal").exists()
    return f"{path.absolute().as_uri()}?mode={mode}{'&immutable=1' if immutable else ''}"


def store_exists(path: Path) -> bool:
    """Whether the file exists; raises if it cannot be a store."""
    check_file(path_of(path), new=True)
    return path.exists()


def check_file(path: Path, *, new: bool) -> None:
    """Raise unless the path is a SQLite file, or with ``new`` can become one."""
    name = f"store={shown(str(path))}"
    try:
        if path.is_dir():
            raise InputError(f"{name} is a folder: give a file, such as {path / 'sweep.db'}")
        if path.is_symlink() and not path.exists():
            raise InputError(f"{name} is a symbolic link to a file that does not exist")
        if path.exists() and not path.is_file():
            raise InputError(f"{name} is not a regular file: give another")
        if not path.exists():
            if not new:
                raise InputError(f"{name} does not exist")
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


# The definition of a table as `tables` writes it. Others are refused: SQLite evaluates constraints, collations and
# generated columns when it reads, and a WITHOUT ROWID table has no rowid.
_NAME = r'(?:"(?:[^"]|"")*+"|\w++)'
_DEFAULT = r"(?: DEFAULT (?:-?[\d.]++(?:e[+-]?\d++)?|'(?:[^']|'')*+'))?"
_COLUMN = rf"{_NAME}(?: BLOB| TEXT| INTEGER)?(?: PRIMARY KEY| NOT NULL UNIQUE)?{_DEFAULT}"
TABLE_DEFINITION = re.compile(rf"CREATE TABLE {_NAME} ?\({_COLUMN}(?:, {_COLUMN})*+\)")
_TABLES = {"cells", "sweeps", "codes", "totals"}
TABLES_BY_VERSION = {1: {"cells", "sweeps"}, 2: _TABLES, 3: _TABLES}


def check_schema(connection: sqlite3.Connection, path: Path) -> int:
    """The schema version of a store, 0 for an empty file; raise unless it has exactly the tables of that version."""
    mark, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    if (mark, version) == (0, 0) and not found:
        return 0
    name = f"store={shown(str(path))}"
    if mark != APPLICATION_ID:
        raise InputError(f"{name} is another program's database; it is left unchanged")
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{name} was made by a newer quadsim (schema {version}; this one knows {SCHEMA_VERSION}): "
            "it is left unchanged"
        )
    tables = {table for kind, table, sql in found if kind == "table" and TABLE_DEFINITION.fullmatch(str(sql))}
    others = [name for _, name, _ in found if name not in tables and not str(name).startswith("sqlite_autoindex_")]
    if version and (tables != TABLES_BY_VERSION.get(version) or others):  # a view or trigger would run by itself
        raise InputError(f"{name} is damaged (its tables are not those of a store): it is left unchanged")
    for _, column, *_, hidden in connection.execute("PRAGMA table_xinfo(cells)"):
        if hidden or not str(column).isprintable() or str(column).lower() == "rowid":
            raise InputError(f"{name} is damaged (its columns): it is left unchanged")
    return int(version)


def structural_fault(connection: sqlite3.Connection) -> str | None:
    """The first fault of pages and indices that PRAGMA integrity_check finds; None if there is none."""
    try:
        result = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        result = str(error)
    return None if result == "ok" else " ".join(str(result).split())


def store_error(path: Path, error: Exception) -> Exception:
    """The error to raise for an error of SQLite."""
    code, text = getattr(error, "sqlite_errorcode", 0) & 0xFF, shown(str(error))[1:-1]
    unreadable = isinstance(error, UnicodeDecodeError) or "Could not decode" in text
    if code == sqlite3.SQLITE_FULL:
        advice = "free some space, and the same command continues"
        return StoreError(f"the disk is full; all that was committed is kept in {path}: {advice}")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or unreadable:
        return InputError(f"store={shown(str(path))} is damaged ({text}): it is left unchanged")
    return StoreError(f"the store {path} cannot be used ({text}); committed rows are kept")


def path_of(path: Any) -> Path:
    """The path, if it can be the name of a file."""
    if not isinstance(path, str | Path) or not str(path).strip() or "\0" in str(path) or str(path) == ":memory:":
        raise InputError(f"store={shown(str(path) if isinstance(path, Path) else path)} is not the name of a file")
    return Path(path)


def lock_path(path: Path) -> Path:
    path = path.resolve()
    return path.with_name(path.name + ".lock")


@dataclass(frozen=True)
class CommitNote:
    """What a writer has committed; written to its lock file after each commit."""

    store: str  # the identity of the store
    commits: int
    rows: int

    def line(self) -> str:
        content = f"committed {self.store} {self.commits} {self.rows}"
        return f"{content} {zlib.crc32(content.encode()):08x}\n"

    @classmethod
    def parse(cls, text: str) -> CommitNote | None:
        """The note in the text of a lock file; None without a note whose checksum is right."""
        found = re.search(r"^committed (\S+) ([0-9]+) ([0-9]+) ", text, re.MULTILINE)
        note = cls(found[1], int(found[2]), int(found[3])) if found else None
        return note if note is not None and note.line() in text else None


def last_note(path: Path) -> CommitNote | None:
    """The note of the last writer, if it did not close the store."""
    return CommitNote.parse(FileLock.text_of(lock_path(path)))


class WriterLock:
    """The lock of the one writer of a store."""

    def __init__(self, path: Path) -> None:
        name = f"store={shown(str(path))}"
        try:
            self._lock = FileLock(lock_path(path))
        except LockedError as error:
            holder = f" ({shown(str(error))[1:-1]})" if str(error) else ""
            raise InputError(
                f"{name} is being written by another process{holder}: wait for it to end, or give another store; "
                "status can be called meanwhile"
            ) from None
        except OSError as error:
            raise InputError(f"{name} cannot be locked ({error.strerror}: {lock_path(path).name})") from None
        try:
            self.previous = CommitNote.parse(self._lock.text())
            self._write(self.previous)
        except BaseException as error:  # also KeyboardInterrupt: the caller has no reference to this lock yet
            self.release()
            if isinstance(error, OSError):
                raise StoreError(error.errno, error.strerror, str(lock_path(path))) from None
            raise

    def note(self, note: CommitNote) -> None:
        """Note what is committed. If that fails, the older note remains, which only claims less."""
        with suppress(OSError):
            self._write(note)

    def _write(self, note: CommitNote | None) -> None:
        self._lock.write(f"process {os.getpid()}\n{note.line() if note else ''}")

    def release(self) -> None:
        self._lock.release()
