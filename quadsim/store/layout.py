"""The tables of a store, and the transactions in which they change.

`cells` has a row for each cell, `sweeps` one for each sweep that filled the store, `codes` the fingerprints of the code
that computed rows. Every row has a checksum. `totals` says how many rows there must be.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from quadsim.store.checksums import Damage, RowSums, checksum
from quadsim.store.door import APPLICATION, SCHEMA, Lock, Note, told

AT_ONCE = 20_000  # rows read together
CHECKSUM = "(checksum)"  # a column; no setting of an optimizer can have this name
SWEEPS = ("name", "command", "keys", "swept", "cells", "versions", "began", "ended", "done")
ENTRIES = {"sweeps": SWEEPS, "codes": ("code", "parts")}  # what the checksums of other tables cover
BROKEN = (sqlite3.Error, UnicodeDecodeError)  # the second, where SQLite's own words are damaged too


@dataclass(frozen=True)
class Totals:
    """How much a store must hold; ``tables`` is the checksum of the definition of its tables."""

    identity: str
    rows: int = 0
    sweeps: int = 0
    codes: int = 0
    commits: int = 0
    tables: str = ""


class Layout:
    """An open database with the tables of a store."""

    path: Path
    damage: Damage
    checked = True
    _base: sqlite3.Connection
    _schema: int
    _totals: Totals
    _lock: Lock | None = None
    _first: tuple[str, ...] = ()  # columns that a new store has

    def _lay_out(self) -> None:
        if self._schema == SCHEMA:
            return
        self._totals = Totals(secrets.token_hex(8))
        with self._whole():
            if self._schema == 0:
                columns = ["key BLOB NOT NULL UNIQUE", f"{quoted(CHECKSUM)} BLOB", *map(quoted, self._first)]
                self._base.execute(f"CREATE TABLE cells ({', '.join(columns)})")
                self._base.execute(
                    "CREATE TABLE sweeps (name TEXT PRIMARY KEY, command TEXT, keys TEXT, swept TEXT, cells INTEGER, "
                    f"versions TEXT, began TEXT, ended TEXT, done INTEGER, {quoted(CHECKSUM)} BLOB)"
                )
            else:
                self._base.execute(f"ALTER TABLE cells ADD COLUMN {quoted(CHECKSUM)} BLOB")
                self._base.execute("ALTER TABLE sweeps ADD COLUMN done INTEGER")
                self._base.execute(f"ALTER TABLE sweeps ADD COLUMN {quoted(CHECKSUM)} BLOB")
            self._base.execute(f"CREATE TABLE codes (code BLOB PRIMARY KEY, parts TEXT, {quoted(CHECKSUM)} BLOB)")
            names = [*asdict(self._totals), "checksum"]
            self._base.execute(f"CREATE TABLE totals ({', '.join(names)})")
            self._base.execute(f"INSERT INTO totals VALUES ({', '.join('?' * len(names))})", [None] * len(names))
            if self._schema == 1:
                self._add_checksums()
            self._base.execute(f"PRAGMA application_id = {APPLICATION}")
            self._base.execute(f"PRAGMA user_version = {SCHEMA}")
            self._totals = replace(self._totals, tables=self._tables())
        self._schema = SCHEMA

    def _add_checksums(self) -> None:
        """Give the rows of a store of schema 1 their checksums."""
        sums = self._sums()
        set_row = f"UPDATE cells SET {quoted(CHECKSUM)} = ? WHERE rowid = ?"
        known = [
            (sums.of_sorted(key, values), number)
            for number, key, _, *values in self._base.execute(self._scan(sums.names))
        ]
        self._base.executemany(set_row, known)
        for row in self._base.execute(f"SELECT {', '.join(SWEEPS)} FROM sweeps").fetchall():
            self._put_sweep(dict(zip(SWEEPS, row, strict=True)))
        self._totals = replace(self._totals, rows=len(known), sweeps=self._count("sweeps"))

    def _tables(self) -> str:
        """The checksum of the definition of all tables."""
        found = self._base.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        return checksum(sorted(map(list, found))).hex()

    def _count(self, table: str) -> int:
        return int(self._base.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def _defaults(self) -> dict[str, Any]:
        """The values, by column, of rows that were written before the column was added."""
        found = self._base.execute("PRAGMA table_info(cells)").fetchall()
        return {name: _read_literal(text) for _, name, _, _, text, _ in found if text is not None}

    def _sums(self) -> RowSums:
        return RowSums(self.columns(), self._defaults())

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """All of what follows, or nothing of it."""
        before = self._totals
        try:
            self._base.execute("BEGIN IMMEDIATE")
            yield
            self._totals = replace(self._totals, commits=self._totals.commits + 1)
            values = asdict(self._totals)
            self._base.execute(
                f"UPDATE totals SET {', '.join(f'{name} = ?' for name in values)}, checksum = ?",
                [*values.values(), checksum(values)],
            )
            self._base.execute("COMMIT")
        except BaseException as error:
            self._totals = before
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise told(self.path, error) from error
            raise
        if self._lock is not None:
            self._lock.note(Note(self._totals.identity, self._totals.commits, self._totals.rows))

    def columns(self) -> list[str]:
        """The names of the columns, `key` and checksum left out."""
        return [name for _, name, *_ in self._base.execute("PRAGMA table_info(cells)") if name not in ("key", CHECKSUM)]

    def _scan(self, names: list[str], where: str = "") -> str:
        sums = quoted(CHECKSUM) if self._schema == SCHEMA else "NULL"
        wanted = ", ".join(["rowid", "key", sums, *map(quoted, names)])
        return f"SELECT {wanted} FROM cells NOT INDEXED {where}"

    def _put_sweep(self, one: dict[str, Any]) -> None:
        values = [one[name] for name in SWEEPS]
        names, marks = ", ".join((*SWEEPS, quoted(CHECKSUM))), ", ".join("?" * (len(SWEEPS) + 1))
        changes = ", ".join(f"{name} = excluded.{name}" for name in (*SWEEPS[1:], quoted(CHECKSUM)))
        self._base.execute(
            f"INSERT INTO sweeps ({names}) VALUES ({marks}) ON CONFLICT (name) DO UPDATE SET {changes}",
            (*values, checksum(values)),
        )


def _read_literal(text: str) -> Any:
    """The value of a column's default; as text where it is none of ours."""
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
