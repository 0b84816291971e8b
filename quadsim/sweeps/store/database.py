"""Rows of a store: one SQLite file, one row per cell, written once and never changed.

A cell without a row has to be computed; there is no other state. Rows are committed in batches, so a kill or a power
cut loses only cells that are running. One process writes at a time (`WriterLock`); any number read. The columns have no
meaning here beyond their names.

Every row has a checksum, and `totals` has the number of rows; both are verified when a store is opened, and failures
are listed in `Store.damage`. A reader continues with the intact rows. A writer deletes damaged rows, so that they are
computed again. Reading a store executes nothing that it names.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from quadsim._files import FileLock
from quadsim._validation import InputError, shown
from quadsim.sweeps.store import connection, wal
from quadsim.sweeps.store.checksums import Damage, RowChecksums, checksum
from quadsim.sweeps.store.connection import StoreError, WriterLock
from quadsim.sweeps.store.tables import CHECKSUM_COLUMN, SWEEP_COLUMNS, insert_into, quoted
from quadsim.sweeps.store.text import printable
from quadsim.sweeps.store.verify import KEY_HALF, VerifiedStore

if TYPE_CHECKING:
    import pandas as pd

ROWS_PER_FETCH = 20_000  # rows
MAX_COLUMNS_PER_QUERY = 200  # SQLite returns at most 2,000 values


class Store(VerifiedStore):
    """A file of rows: ``Store(path)`` opens an existing one for reading, ``Store.writing(path)`` any for writing.

    ``damage`` lists what fails its checksum or is missing. ``checked`` is False for a store of schema 1, which has no
    checksums. Stores of earlier schemas are read, but not written to.
    """

    _keep_wal = False  # whether the WAL may be evidence of damage

    def __init__(self, path: str | Path, *, new: bool = False) -> None:
        self.path, self.damage = connection.path_of(path), Damage()
        connection.check_file(self.path, new=False)
        note, fault = connection.last_note(self.path), self._wal_fault()
        self._keep_wal = note is not None or fault is not None
        try:
            self._open(writing=False)
            if self._schema:
                with self._store_errors():
                    self._verify_snapshot(note, fault)
            elif fault is not None or (note is not None and note.rows):
                log = wal.wal_path(self.path).name
                raise StoreError(f"store={shown(str(path))} has lost all its rows: {log} is damaged")
            elif not new:
                raise InputError(f"store={shown(str(path))} is empty: its sweep was stopped before it stored anything")
            if note is not None and not self.damage and self._schema:
                self._connection.close()  # nothing that was noted is missing, so the WAL may be checkpointed
                self._keep_wal = False
                self._open(writing=False)
        except BaseException:
            self.close()
            raise

    @classmethod
    @contextmanager
    def writing(cls, path: str | Path | None, columns: Iterable[str] = ()) -> Iterator[Self]:
        """Open a store as its only writer; None is a store in memory.

        A new store has these columns; `add` adds others.
        """
        store = cls.__new__(cls)
        store._initial_columns, store.damage = tuple(columns), Damage()
        store.path, fault, note = Path(":memory:") if path is None else connection.path_of(path), None, None
        if path is not None:
            connection.check_file(store.path, new=True)
            fault = store._wal_fault()
            if store.path.exists() and store.path.stat().st_size > 0:
                store._check_before_writing()
            store._lock = WriterLock(store.path)
            note = store._lock.previous
        try:
            has_tables = bool(store._schema)
            store._open(writing=True)
            if has_tables:
                store._recover(note, fault)
            elif fault or (note and note.rows):
                store.damage.lists.append("all rows lost with a damaged write-ahead log")
            yield store
        except sqlite3.Error as error:
            raise connection.store_error(store.path, error) from error
        finally:
            store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        try:
            if hasattr(self, "_connection"):
                self._connection.close()  # may checkpoint the WAL, which takes long enough to be interrupted
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def _verify_snapshot(self, note: connection.CommitNote | None, fault: str | None) -> None:
        """Verify one state of the store: totals and rows of different commits would look like damage."""
        opened = self._connection
        opened.execute("BEGIN")
        try:
            self._verify(note, fault)
        finally:
            if self._connection is opened:  # not replaced by a copy of the intact rows
                opened.execute("ROLLBACK")

    def _wal_fault(self) -> str | None:
        """The fault of a WAL for which no writer has left a note."""
        return None if connection.lock_path(self.path).exists() else wal.fault(self.path)

    def _check_before_writing(self) -> None:
        """Raise unless a file is a store of this release without structural faults; it is opened read-only for that."""
        try:
            self._open(writing=False)
            self.check_current()
            fault = connection.structural_fault(self._connection) if self._schema else None
        finally:
            self.close()
        if fault is not None:
            advice = "left unchanged: merge it into a new one to save its rows"
            raise InputError(f"store={shown(str(self.path))} is damaged and {advice} ({fault:.60})")

    def _open(self, *, writing: bool) -> None:
        path: Any = ":memory:" if self._lock is None else self.path.absolute()
        if not writing:
            path = connection.read_uri(self.path, keep_wal=self._keep_wal)
        with self._store_errors():
            self._connection = sqlite3.connect(
                path, timeout=30, isolation_level=None, check_same_thread=False, uri=not writing
            )
            self._execute("PRAGMA trusted_schema = OFF")
            self._schema = connection.check_schema(self._connection, self.path)
            self._seen_version = self._data_version()
            if writing:
                self._execute("PRAGMA journal_mode = WAL")
                self._execute("PRAGMA synchronous = FULL")
                self._execute("PRAGMA wal_autocheckpoint = 200")  # pages: a small WAL loses little if it is damaged
                self._create_tables()

    def _query(self, sql: str) -> Iterator[tuple]:
        with self._store_errors():
            self._verify_new_rows()
            yield from self._execute(sql)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A read transaction: all queries see one state of the store."""
        self._execute("BEGIN")
        try:
            yield
        finally:
            self._execute("ROLLBACK")

    @property
    def busy(self) -> bool:
        """Whether a process holds the writer lock."""
        return FileLock.is_held(connection.lock_path(self.path))

    def __len__(self) -> int:
        return int(next(self._query("SELECT count(*) FROM cells"))[0])

    def keys(self, *, errors: bool = True) -> set[bytes]:
        """The keys of all rows, with ``errors=False`` only of those that did not fail."""
        which = "" if errors or "status" not in self.columns() else " WHERE status <> 'error'"
        return {key for (key,) in self._query(f"SELECT key FROM cells{which}")}

    def add(
        self, rows: Iterable[dict[str, Any]], defaults: dict[str, Any] | None = None, *, sweep: str | None = None
    ) -> int:
        """Add rows in one transaction, each with its ``key``; the number of new ones.

        A row whose key exists is ignored, unless the existing row is an error. A row replaces that of the same cell by
        other code. ``defaults`` are the defaults of columns that are new: their values in existing rows. ``sweep`` is
        the name of the sweep that computed the rows.
        """
        rows = list(rows)
        if not rows:
            return 0
        with self._transaction():
            names = self._add_columns(rows, defaults or {})
            before = self._connection.total_changes
            keys = [(row["key"], *key_range(row["key"])) for row in rows]
            failed = " OR status = 'error'" if "status" in names else ""
            delete = f"DELETE FROM cells WHERE key BETWEEN ?2 AND ?3 AND (key <> ?1{failed})"
            self._connection.executemany(delete, keys)
            removed = self._connection.total_changes - before
            self._insert_rows(rows, names)
            new = self._connection.total_changes - before - removed
            self._totals = replace(self._totals, rows=self._totals.rows + new - removed)
            if new and (record := self._sweep(sweep)) is not None:
                self._upsert_sweep(record | {"done": (record["done"] or 0) + new})
            return new

    def _add_columns(self, rows: list[dict[str, Any]], defaults: dict[str, Any]) -> dict[str, str]:
        """Add the columns that rows have and the table has not; all columns by their names in lower case."""
        names = {name.lower(): name for name in ("key", *self.columns())}
        for name in dict.fromkeys(name for row in rows for name in row):
            if name.lower() not in names:  # two names may differ in case only, which SQLite does not distinguish
                names[name.lower()] = name
                default = "" if defaults.get(name) is None else f" DEFAULT {_literal(defaults[name])}"
                self._execute(f"ALTER TABLE cells ADD COLUMN {quoted(name)}{default}")
        return names

    def _insert_rows(self, rows: list[dict[str, Any]], names: dict[str, str]) -> None:
        by_columns: dict[tuple[str, ...], list[tuple[bytes, dict[str, Any]]]] = {}
        for row in rows:
            values = {names[name.lower()]: _storable(value) for name, value in row.items() if name != "key"}
            by_columns.setdefault(tuple(sorted(values)), []).append((row["key"], values))
        defaults = self._defaults()
        for columns, some in by_columns.items():
            checksums = RowChecksums(columns, defaults)
            insert = insert_into("cells", ("key", CHECKSUM_COLUMN, *columns), "OR IGNORE")
            ordered = ((key, [values[name] for name in columns]) for key, values in some)
            self._connection.executemany(insert, ((key, checksums.of(key, row), *row) for key, row in ordered))

    def rows(self, columns: Iterable[str] | None = None, order: Iterable[str] = ()) -> Iterator[tuple]:
        """The values of all rows in these columns (default: all), ordered by the columns ``order``, then by key."""
        names = [quoted(name) for name in (self.columns() if columns is None else columns)]
        by = ", ".join([*(quoted(name) for name in order), "key"])
        return self._query(f"SELECT {', '.join(names) or 'NULL'} FROM cells ORDER BY {by}")

    def frame(self, columns: Iterable[str] | None = None, order: Iterable[str] = ()) -> pd.DataFrame:
        """The rows as a table; control and invisible characters in texts are escaped.

        Rows are read in batches: a million rows take some hundred megabytes.
        """
        from quadsim.sweeps.store.frames import table

        names = self.columns() if columns is None else list(columns)
        return table(names, self.batches(names, order))

    def batches(self, columns: list[str], order: Iterable[str] = ()) -> Iterator[list[tuple]]:
        """`rows` in lists of at most `ROWS_PER_FETCH`."""
        rows = self.rows(columns, order)
        while batch := list(itertools.islice(rows, ROWS_PER_FETCH)):
            yield batch

    def varying(self) -> list[str]:
        """The columns with more than one value; NULL counts as a value."""
        names, values = self.columns(), list[Any]()
        for start in range(0, len(names), MAX_COLUMNS_PER_QUERY):
            columns = map(quoted, names[start : start + MAX_COLUMNS_PER_QUERY])
            differs = ", ".join(f"min({c}) <> max({c}) OR count({c}) BETWEEN 1 AND count(*) - 1" for c in columns)
            values += next(self._query(f"SELECT {differs} FROM cells"))
        return [name for name, differs in zip(names, values, strict=True) if differs]

    def tally(self, column: str) -> dict[Any, int]:
        """The number of rows with each value of a column, most frequent first."""
        if column not in self.columns():
            return {}
        return dict(self._query(f"SELECT {quoted(column)}, count(*) FROM cells GROUP BY 1 ORDER BY 2 DESC"))

    def kind(self, column: str) -> str:
        """The type of a column: "integer", "real" (possibly with integers among the values) or "text"."""
        kinds = {kind for (kind,) in self._query(f"SELECT DISTINCT typeof({quoted(column)}) FROM cells")} - {"null"}
        return "text" if kinds - {"integer", "real"} else "integer" if kinds == {"integer"} else "real"

    def sweeps(self) -> list[dict[str, Any]]:
        """The sweeps that wrote to the store, oldest first; control and invisible characters are escaped."""
        found = []
        for one in self._sweeps():
            try:
                read = {**one, **{key: json.loads(one[key]) for key in ("keys", "swept", "versions")}}
            except (ValueError, TypeError, RecursionError):
                read = {}
            if not _is_sweep(read):
                raise InputError(f"store={shown(str(self.path))} is damaged (its list of sweeps)")
            found.append(_escaped(read))
        return found

    def _sweeps(self) -> list[dict[str, Any]]:
        names = ", ".join(SWEEP_COLUMNS if self.checked else (*SWEEP_COLUMNS[:-1], "NULL"))
        rows = self._query(f"SELECT {names} FROM sweeps ORDER BY rowid")
        return [dict(zip(SWEEP_COLUMNS, row, strict=True)) for row in rows]

    def begin(
        self,
        *,
        name: str,
        command: str,
        keys: dict[str, str],
        swept: list[str],
        cells: int,
        versions: dict[str, str],
        done: int = 0,
        codes: dict[bytes, dict[str, Any]] | None = None,
    ) -> None:
        """Record that a sweep starts or continues: its keys, its axes, its fingerprints by code half."""
        texts = {"keys": json.dumps(keys), "swept": json.dumps(swept), "versions": json.dumps(versions)}
        new = {"name": name, "command": command, "cells": cells, "began": _now(), **texts}
        with self._transaction():
            self._upsert_sweep({**(self._sweep(name) or new), "ended": None, "done": done})
            self._insert_codes((code, json.dumps(parts, sort_keys=True)) for code, parts in (codes or {}).items())
        self._execute("PRAGMA wal_checkpoint(PASSIVE)")  # so that a damaged WAL cannot lose the tables

    def end(self, name: str) -> None:
        """Record that a sweep is complete."""
        with self._transaction():
            if (record := self._sweep(name)) is not None:
                self._upsert_sweep(record | {"ended": _now()})

    def _sweep(self, name: str | None) -> dict[str, Any] | None:
        """The record of the sweep of this name."""
        return next((record for record in self._sweeps() if record["name"] == name), None)

    def codes(self) -> dict[bytes, dict[str, Any]]:
        """The fingerprints of the code that computed rows, by the code half of their keys."""
        found = {}
        for code, text in self._query("SELECT code, parts FROM codes") if self.checked else ():
            with suppress(ValueError, TypeError, RecursionError):
                parts = json.loads(text)
                if isinstance(parts, dict):
                    found[code] = parts
        return found

    def _insert_codes(self, codes: Iterable[tuple[bytes, str]]) -> None:
        rows = [(code, text, checksum([code, text])) for code, text in codes]
        self._connection.executemany("INSERT OR IGNORE INTO codes VALUES (?, ?, ?)", rows)

    def rows_by_code(self) -> dict[bytes, int]:
        """The number of rows by the code half of their keys."""
        return dict(self._query(f"SELECT substr(key, {KEY_HALF + 1}), count(*) FROM cells GROUP BY 1 ORDER BY 2 DESC"))


def key_range(key: bytes) -> tuple[bytes, bytes]:
    """The smallest and the largest key of the same cell, by any code."""
    return key[:KEY_HALF], key[:KEY_HALF] + b"\xff" * max(len(key) - KEY_HALF, KEY_HALF)


def _storable(value: Any) -> Any:
    """A value as SQLite can store it: a bool as text, NULL for a float that is not finite."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return None
    return value


def _escaped(value: Any) -> Any:
    """A JSON value with all its texts printable."""
    if isinstance(value, dict):
        return {printable(name): _escaped(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_escaped(one) for one in value]
    return printable(value) if isinstance(value, str) else value


def has_types(record: dict[str, Any], **types: Any) -> bool:
    """Whether a record has values of these types: a store may come from an untrusted source."""
    return all(name in record and isinstance(record[name], kind) for name, kind in types.items())


def _is_sweep(one: dict[str, Any]) -> bool:
    """Whether the values have the types of a sweep's record."""
    if not has_types(one, keys=dict, swept=list, versions=dict):
        return False
    texts = (*one["swept"], *one["keys"].values(), *one["versions"].values())
    plain = has_types(one, name=str, command=str, cells=int, began=str, ended=str | None, done=int | None)
    return plain and all(isinstance(text, str) for text in texts)


def _literal(value: Any) -> str:
    return repr(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
