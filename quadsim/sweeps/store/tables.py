"""The tables of a store, and its transactions.

`cells` has one row per cell, `sweeps` one per sweep that wrote to the store, `codes` the fingerprints of the code that
computed the rows. Every row has a checksum. `totals` has one row with the number of rows of each table.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quadsim._validation import InputError, shown
from quadsim.sweeps.store.checksums import Damage, RowChecksums, checksum
from quadsim.sweeps.store.connection import APPLICATION_ID, SCHEMA_VERSION, CommitNote, WriterLock, store_error

CHECKSUM_COLUMN = "(checksum)"  # no setting of an optimizer can have this name
SWEEP_COLUMNS = ("name", "command", "keys", "swept", "cells", "versions", "began", "ended", "done")
CHECKED_COLUMNS = {"sweeps": SWEEP_COLUMNS, "codes": ("code", "parts")}  # what the checksums of these tables cover
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the second if the text of an error message is damaged


@dataclass(frozen=True)
class Totals:
    """The number of rows in each table; ``tables`` is the checksum of the table definitions."""

    identity: str
    rows: int = 0
    sweeps: int = 0
    codes: int = 0
    commits: int = 0
    tables: str = ""


class Tables:
    """An open database with the tables of a store."""

    path: Path
    damage: Damage
    _connection: sqlite3.Connection
    _schema = 0  # version; 0 without tables
    _totals: Totals
    _lock: WriterLock | None = None
    _initial_columns: tuple[str, ...] = ()  # of `cells` in a new store

    @property
    def checked(self) -> bool:
        """Whether its rows have checksums, which schema 1 has not."""
        return self._schema > 1

    @property
    def current(self) -> bool:
        """Whether it can be written to: not if it was written by an earlier release, whose keys and columns differ."""
        return self._schema in (0, SCHEMA_VERSION)

    def check_current(self) -> None:
        """Raise for a store of an earlier release, which can only be read."""
        if not self.current:
            name = f"store={shown(str(self.path))}"
            raise InputError(
                f"{name} was written by an earlier release, whose columns differ: give another store "
                "(status, export and plot read this one)"
            )

    def _create_tables(self) -> None:
        if self._schema:
            return
        self._totals = Totals(secrets.token_hex(8))
        checksum_column = f"{quoted(CHECKSUM_COLUMN)} BLOB"
        with self._transaction():
            columns = ", ".join(["key BLOB NOT NULL UNIQUE", checksum_column, *map(quoted, self._initial_columns)])
            self._execute(f"CREATE TABLE cells ({columns})")
            self._execute(
                "CREATE TABLE sweeps (name TEXT PRIMARY KEY, command TEXT, keys TEXT, swept TEXT, cells INTEGER, "
                f"versions TEXT, began TEXT, ended TEXT, done INTEGER, {checksum_column})"
            )
            self._execute(f"CREATE TABLE codes (code BLOB PRIMARY KEY, parts TEXT, {checksum_column})")
            self._execute(f"CREATE TABLE totals ({', '.join(asdict(self._totals))}, checksum)")
            self._execute("INSERT INTO totals (rows) VALUES (0)")
            self._execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._schema = SCHEMA_VERSION

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._connection.execute(sql, values)

    def _schema_checksum(self) -> str:
        """The checksum of all table definitions."""
        found = self._execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        return checksum(sorted(map(list, found))).hex()

    def _count(self, table: str) -> int:
        return int(self._execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def _defaults(self) -> dict[str, Any]:
        """The default of each column that has one: its value in rows that are older than the column."""
        columns = self._execute("PRAGMA table_info(cells)")
        return {name: _read_literal(text) for _, name, _, _, text, _ in columns if text is not None}

    def _row_checksums(self) -> RowChecksums:
        return RowChecksums(self.columns(), self._defaults())

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction: commits the block together with the totals, or rolls all of it back."""
        before = self._totals
        with self._store_errors():
            try:
                self._execute("BEGIN IMMEDIATE")
                yield
                values = asdict(self._totals) | {table: self._count(table) for table in CHECKED_COLUMNS}
                values |= {"commits": before.commits + 1, "tables": self._schema_checksum()}
                self._totals = Totals(**values)
                changes = ", ".join(f"{name} = ?" for name in (*values, "checksum"))
                self._execute(f"UPDATE totals SET {changes}", [*values.values(), checksum(values)])
                self._execute("COMMIT")
            except BaseException:
                self._totals = before
                if self._connection.in_transaction:
                    self._execute("ROLLBACK")
                raise
        if self._lock is not None:
            self._lock.note(CommitNote(self._totals.identity, self._totals.commits, self._totals.rows))

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Raise errors of SQLite as errors of the store."""
        try:
            yield
        except DATABASE_ERRORS as error:
            raise store_error(self.path, error) from error

    def columns(self) -> list[str]:
        """The names of the columns, without the key and the checksum."""
        names = [name for _, name, *_ in self._execute("PRAGMA table_info(cells)")]
        return [name for name in names if name not in ("key", CHECKSUM_COLUMN)]

    def _scan(self, table: str, names: Iterable[str], where: str = "") -> str:
        """The query for rowids, checksums and these columns, in the order of the table."""
        columns = ", ".join(map(quoted, ("rowid", CHECKSUM_COLUMN, *names)))
        return f"SELECT {columns} FROM {table} NOT INDEXED {where}"

    def _upsert_sweep(self, one: dict[str, Any]) -> None:
        values, names = [one[name] for name in SWEEP_COLUMNS], (*SWEEP_COLUMNS, CHECKSUM_COLUMN)
        changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in names[1:])
        insert = insert_into("sweeps", names)
        self._execute(f"{insert} ON CONFLICT (name) DO UPDATE SET {changes}", (*values, checksum(values)))


def _read_literal(text: str) -> Any:
    """The value of a column default; text if it is not a literal that this package writes."""
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text


def insert_into(table: str, names: Sequence[str], conflict: str = "") -> str:
    """The statement that inserts a row with these columns."""
    return f"INSERT {conflict} INTO {table} ({', '.join(map(quoted, names))}) VALUES ({', '.join('?' * len(names))})"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
