"""The store of a sweep: one SQLite file, one row for each cell, written once and never changed.

A row is there or it is not: a missing one is to be computed, and there is no state in between to get stuck in. Rows are
committed in bundles, each whole or not at all, so that a kill or a power cut loses what was under way and nothing that
was reported as done. One process writes at a time, held by a lock that the system releases when the process ends;
reading is free for all. Nothing here knows what the columns mean, beyond their names.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from quadsim.checks import InputError, shown
from quadsim.store.door import (
    APPLICATION,
    SCHEMA,
    check_base,
    check_file,
    lock_path,
    locked,
    path_of,
    told,
    uri,
)

if TYPE_CHECKING:
    import pandas as pd

HALF = 12  # bytes of a key that say what a cell is; as many more say by what code it was computed
AT_ONCE = 20_000  # rows read together


BROKEN = (sqlite3.Error, UnicodeDecodeError)  # the second, where SQLite's own words are damaged too


class Store:
    """A file of rows. ``Store(path)`` reads one that is there; ``Store.writing(path)`` makes it if need be."""

    _first: tuple[str, ...] = ()  # columns that a new store has

    def __init__(self, path: str | Path, *, new: bool = False) -> None:
        self.path, self._lock = path_of(path), -1
        check_file(self.path, new=False)
        self._open(writing=False)
        if not new and not next(self._ask("PRAGMA user_version"))[0]:
            self.close()
            raise InputError(f"store={shown(str(path))} has nothing in it yet: its sweep was stopped too early")

    @classmethod
    @contextmanager
    def writing(cls, path: str | Path | None, columns: Iterable[str] = ()) -> Iterator[Self]:
        """Hold the store alone, to add rows to it; None is a store in memory. A new one has these columns, and others
        as rows bring them.
        """
        store = cls.__new__(cls)
        store._first = tuple(columns)
        store.path, store._lock = Path(":memory:") if path is None else path_of(path), -1
        if path is not None:
            check_file(store.path, new=True)
            if store.path.exists() and store.path.stat().st_size:  # looked at before anything is opened for writing
                cls(store.path, new=True).close()
            store._lock = locked(store.path)
        try:
            store._open(writing=True)
            yield store
        except sqlite3.Error as error:
            raise told(store.path, error) from error
        finally:
            store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if hasattr(self, "_base"):
            self._base.close()
        if self._lock >= 0:
            lock_path(self.path).unlink(missing_ok=True)  # while it is held, so that nobody else's is taken away
            os.close(self._lock)
            self._lock = -1

    def _open(self, *, writing: bool) -> None:
        try:
            self._base = sqlite3.connect(
                *((":memory:" if self._lock < 0 else self.path.absolute(),) if writing else (uri(self.path),)),
                uri=not writing, isolation_level=None, check_same_thread=False, timeout=30,
            )  # fmt: skip
            check_base(self._base, self.path)
            if writing:
                self._base.execute("PRAGMA journal_mode = WAL")
                self._base.execute("PRAGMA synchronous = FULL")
                self._lay_out()
        except BROKEN as error:
            if hasattr(self, "_base"):
                self._base.close()
            raise told(self.path, error) from error
        except InputError:
            self._base.close()
            raise

    def _lay_out(self) -> None:
        if self._base.execute("PRAGMA user_version").fetchone()[0]:
            return
        with self._whole():
            columns = ", ".join(["key BLOB NOT NULL UNIQUE", *map(_quoted, self._first)])
            self._base.execute(f"CREATE TABLE cells ({columns})")
            self._base.execute(
                "CREATE TABLE sweeps (name TEXT PRIMARY KEY, command TEXT, keys TEXT, swept TEXT, cells INTEGER, "
                "versions TEXT, began TEXT, ended TEXT)"
            )
            self._base.execute(f"PRAGMA application_id = {APPLICATION}")
            self._base.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """All of what follows, or nothing of it."""
        try:
            self._base.execute("BEGIN IMMEDIATE")
            yield
            self._base.execute("COMMIT")
        except BaseException as error:
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise told(self.path, error) from error
            raise

    def columns(self) -> list[str]:
        """The names of the columns, `key` left out."""
        return [name for _, name, *_ in self._ask("PRAGMA table_info(cells)") if name != "key"]

    def _ask(self, question: str, values: Iterable[Any] = ()) -> Iterator[tuple]:
        try:
            cursor = self._base.execute(question, tuple(values))
            while bundle := cursor.fetchmany(AT_ONCE):
                yield from bundle
        except BROKEN as error:
            raise told(self.path, error) from error

    @property
    def busy(self) -> bool:
        """Whether a process is writing to it now."""
        try:
            handle = os.open(lock_path(self.path), os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(handle)

    def __len__(self) -> int:
        return int(next(self._ask("SELECT count(*) FROM cells"))[0])

    def keys(self, *, errors: bool = True) -> set[bytes]:
        """The keys of all rows; without those that failed, if `errors` is False."""
        which = "" if errors or "status" not in self.columns() else " WHERE status <> 'error'"
        return {key for (key,) in self._ask(f"SELECT key FROM cells{which}")}

    def add(self, rows: Iterable[dict[str, Any]], usual: dict[str, Any] | None = None) -> int:
        """Add these rows, each with its `key`, all or none of them; how many were new.

        A row whose key is there already is left out, unless that one is an error. It takes the place of one of the same
        cell by other code. ``usual`` are the values, by column, that a row has which does not say.
        """
        rows = list(rows)
        if not rows:
            return 0
        with self._whole():
            there = {name.lower(): name for name in ("key", *self.columns())}
            for name in dict.fromkeys(name for row in rows for name in row):
                if name.lower() not in there:
                    there[name.lower()] = name
                    value = (usual or {}).get(name)
                    default = "" if value is None else f" DEFAULT {_literal(value)}"
                    self._base.execute(f"ALTER TABLE cells ADD COLUMN {_quoted(name)}{default}")
            before = self._base.total_changes
            by_names: dict[tuple[str, ...], list[list[Any]]] = {}
            for row in rows:
                by_names.setdefault(tuple(row), []).append([_kept(value) for value in row.values()])
            other = "DELETE FROM cells WHERE key BETWEEN ? AND ? AND key <> ?"
            self._base.executemany(other, [(*_of_one_cell(row["key"]), row["key"]) for row in rows])
            if "status" in there:
                gone = [(row["key"],) for row in rows]
                self._base.executemany("DELETE FROM cells WHERE key = ? AND status = 'error'", gone)
            removed = self._base.total_changes - before
            for names, values in by_names.items():
                columns, marks = ", ".join(map(_quoted, names)), ", ".join("?" * len(names))
                self._base.executemany(f"INSERT OR IGNORE INTO cells ({columns}) VALUES ({marks})", values)
            return self._base.total_changes - before - removed

    def rows(self, columns: Iterable[str] | None = None, order: Iterable[str] = ()) -> Iterator[tuple]:
        """The rows' values in these columns (all by default), in the order of others; `key` decides between equals."""
        names = [_quoted(name) for name in (self.columns() if columns is None else columns)]
        by = ", ".join([*(_quoted(name) for name in order), "key"])
        return self._ask(f"SELECT {', '.join(names) or 'NULL'} FROM cells ORDER BY {by}")

    def frame(self, columns: Iterable[str] | None = None, order: Iterable[str] = ()) -> pd.DataFrame:
        """The rows as a table, in bundles: a million rows take some hundred megabytes."""
        import itertools

        import pandas as pd

        names = self.columns() if columns is None else list(columns)
        rows = self.rows(names, order)
        parts: dict[str, list[tuple[str, Any]]] = {name: [] for name in names}
        while bundle := list(itertools.islice(rows, AT_ONCE)):
            for name, values in zip(names, zip(*bundle, strict=True), strict=True):
                parts[name].append(_column(values))
        return pd.DataFrame({name: _joined(pieces) for name, pieces in parts.items()}, columns=names)

    def tally(self, column: str) -> dict[Any, int]:
        """How many rows have each value of this column."""
        if column not in self.columns():
            return {}
        question = f"SELECT {_quoted(column)}, count(*) FROM cells GROUP BY 1 ORDER BY 2 DESC"
        return dict(self._ask(question))

    def kind(self, column: str) -> str:
        """What a column's values are: "integer", "real" (also some whole numbers among them), or "text"."""
        kinds = {kind for (kind,) in self._ask(f"SELECT DISTINCT typeof({_quoted(column)}) FROM cells")} - {"null"}
        return "text" if kinds - {"integer", "real"} else "integer" if kinds == {"integer"} else "real"

    def sweeps(self) -> list[dict[str, Any]]:
        """The sweeps that filled the store, oldest first."""
        names = ("name", "command", "keys", "swept", "cells", "versions", "began", "ended")
        found = [dict(zip(names, row, strict=True)) for row in self._ask(f"SELECT {', '.join(names)} FROM sweeps")]
        try:
            return [{**one, **{key: json.loads(one[key]) for key in ("keys", "swept", "versions")}} for one in found]
        except (ValueError, TypeError):
            raise InputError(f"store={shown(str(self.path))} is damaged (its list of sweeps)") from None

    def begin(
        self, *, name: str, command: str, keys: dict[str, str], swept: list[str], cells: int, versions: dict[str, str]
    ) -> None:
        """Note that a sweep begins, or goes on: its keys, and the columns that vary in it."""
        values = json.dumps(keys), json.dumps(swept), cells, json.dumps(versions), _now()
        with self._whole():
            self._base.execute(
                "INSERT INTO sweeps VALUES (?, ?, ?, ?, ?, ?, ?, NULL) ON CONFLICT (name) DO UPDATE SET ended = NULL",
                (name, command, *values),
            )

    def end(self, name: str) -> None:
        """Note that a sweep is done."""
        with self._whole():
            self._base.execute("UPDATE sweeps SET ended = ? WHERE name = ?", (_now(), name))

    def merge(self, other: Store) -> tuple[int, int]:
        """Add the rows of another store; how many were new, and how many are here with another result."""
        names = other.columns()
        new = differ = 0
        bundle: list[dict[str, Any]] = []

        def flush() -> None:
            nonlocal new, differ
            mine = [row for row in bundle if not self._by_other_code(row["key"])]
            differ += len(bundle) - len(mine)
            bundle[:] = mine
            before = self._results(row["key"] for row in bundle)
            failed = {key for key, result in before.items() if result[0] == "error"}
            for row in bundle:
                ended = row["key"] in before and row["key"] not in failed and row.get("status") != "error"
                differ += ended and before[row["key"]] != _result(row)
            new += self.add(row for row in bundle if not (row.get("status") == "error" and row["key"] in failed))
            bundle.clear()

        for key, *values in other._ask(f"SELECT {', '.join(map(_quoted, ('key', *names)))} FROM cells"):
            bundle.append({"key": key, **{k: v for k, v in zip(names, values, strict=True) if v is not None}})
            if len(bundle) == AT_ONCE:
                flush()
        flush()
        with self._whole():
            for row in other._ask("SELECT * FROM sweeps"):
                self._base.execute("INSERT OR IGNORE INTO sweeps VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        return new, differ

    def _by_other_code(self, key: bytes) -> bool:
        question = "SELECT 1 FROM cells WHERE key BETWEEN ? AND ? AND key <> ? LIMIT 1"
        return self._base.execute(question, (*_of_one_cell(key), key)).fetchone() is not None

    def _results(self, keys: Iterable[bytes]) -> dict[bytes, tuple]:
        there = self.columns()
        names = [_quoted(name) if name in there else "NULL" for name in COMPARED]
        question = f"SELECT {', '.join(names)} FROM cells WHERE key = ?"
        return {key: row for key in keys for row in self._base.execute(question, (key,))}


COMPARED = ("status", "steps_to_tol", "loss", "grad_norm")  # what two rows of one key must have alike


def _of_one_cell(key: bytes) -> tuple[bytes, bytes]:
    """The least and the largest key of the same cell."""
    return key[:HALF], key[:HALF] + b"\xff" * max(len(key) - HALF, HALF)


def _result(row: dict[str, Any]) -> tuple:
    return tuple(row.get(name) for name in COMPARED)


KINDS = {"absent": "float64", "whole": "Int64", "real": "float64", "text": "object"}  # each can hold those before it


def _column(values: tuple[Any, ...]) -> tuple[str, Any]:
    """What kind of values they are, and the values as a column."""
    import pandas as pd

    types = {type(value) for value in values} - {type(None)}
    kind = "text" if types - {int, float} else "real" if float in types else "whole" if types else "absent"
    return kind, pd.Series(values, dtype=KINDS[kind])


def _joined(parts: list[tuple[str, Any]]) -> pd.Series:
    """Pieces of one column, of the most general kind among them."""
    import pandas as pd

    kind = max((kind for kind, _ in parts), key=list(KINDS).index, default="absent")
    pieces = [piece.astype(KINDS[kind]) for _, piece in parts]
    if kind == "text":
        pieces = [piece.where(piece.notna(), None) for piece in pieces]
    return pd.concat(pieces, ignore_index=True) if pieces else pd.Series(dtype=KINDS[kind])


def _kept(value: Any) -> Any:
    """A value as SQLite can keep it: a flag as the word of the command line; what is not finite is absent."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return None
    return value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    return repr(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
