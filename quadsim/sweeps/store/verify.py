"""Verification of a store when it is opened: checksums, missing rows, and a copy of the rows that are intact."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import Any

from quadsim._validation import InputError, shown
from quadsim.sweeps.store.checksums import RowChecksums, checksum
from quadsim.sweeps.store.connection import SCHEMA_VERSION, CommitNote, StoreError, structural_fault
from quadsim.sweeps.store.tables import (
    CHECKED_COLUMNS,
    CHECKSUM_COLUMN,
    DATABASE_ERRORS,
    ROWS_PER_FETCH,
    Tables,
    Totals,
    insert_into,
    quoted,
)

KEY_HALF = 12  # bytes: a key is the hash of the cell's definition, then that of the code that computed it
MAX_ROWS_PROBED = 200_000  # rowids read one by one between damaged pages


class VerifiedStore(Tables):
    """A store with a record of its damage."""

    _seen_version = 0  # PRAGMA data_version: changes when another connection commits
    _last_rowid = 0  # that was verified

    def _verify(self, note: CommitNote | None, fault: str | None) -> None:
        """Verify everything; a reader of a damaged store continues with a copy of the intact rows."""
        structure = structural_fault(self._connection)
        if self._schema < SCHEMA_VERSION:
            self.checked = False
            if structure is not None:
                raise InputError(f"store={shown(str(self.path))} is damaged ({structure[:80]}): it is left unchanged")
            return
        self._check_tables()
        self._check_wal(note, fault)
        bad = False
        if structure is None:
            try:
                bad = any([self._check_rows(), *self._bad_entries().values()])
            except DATABASE_ERRORS as error:
                structure = str(error)
        if structure is not None:
            self.damage.lists.append(f"damaged pages ({shown(structure)[1:-1]})")
        if structure is not None or bad:
            self._connection = self._intact_copy()

    def _recover(self, note: CommitNote | None, fault: str | None) -> None:
        """Verify a store before writing to it, and delete damaged rows."""
        self._check_tables()
        self._check_wal(note, fault)
        bad, lists = self._check_rows(), self._bad_entries()
        if self.damage:
            with self._transaction():
                self._execute("DELETE FROM totals")
                self._execute("INSERT INTO totals (rows) VALUES (0)")
                for table, numbers in {"cells": bad, **lists}.items():
                    delete = f"DELETE FROM {table} WHERE rowid = ?"
                    self._connection.executemany(delete, [(number,) for number in numbers])
                self._totals = replace(self._totals, rows=self._count("cells"))

    def _check_tables(self) -> None:
        """Read the totals; raise if the table definitions have changed since they were written."""
        names = list(asdict(Totals("")))
        try:
            with self._undecodable_text():
                found = self._execute(f"SELECT {', '.join(names)}, checksum FROM totals").fetchall()
        except DATABASE_ERRORS:
            found = []
        values = dict(zip(names, found[0], strict=False)) if len(found) == 1 else {}
        if values and checksum(values) == found[0][-1]:
            self._totals = Totals(**values)
        else:
            self.damage.lists.append("damaged totals: missing rows cannot be counted")
            self._totals = Totals(secrets.token_hex(8), rows=-1, sweeps=-1, codes=-1, tables=self._schema_checksum())
        if self._totals.tables != self._schema_checksum():
            raise InputError(f"store={shown(str(self.path))} is damaged (its columns): it is left unchanged")

    def _check_wal(self, note: CommitNote | None, fault: str | None) -> None:
        """Compare the totals with the note of the last writer; report a fault of the WAL."""
        if note is not None and note.store == self._totals.identity and note.commits > self._totals.commits:
            lost = note.commits - self._totals.commits
            self.damage.lists.append(f"{lost:,} commit{'s' * (lost > 1)} lost with a damaged write-ahead log")
            self.damage.missing += max(note.rows - self._totals.rows, 0)
        elif fault is not None:
            self.damage.lists.append(f"a damaged write-ahead log ({fault}): committed rows may be lost")

    def _check_rows(self, beyond: int = 0) -> list[int]:
        """The rowids of rows that fail their checksum, among those beyond a rowid."""
        where = f"WHERE rowid > {beyond}" if beyond else ""
        try:
            bad, count, last = self._failing(where)
        except DATABASE_ERRORS:  # invalid UTF-8, or a damaged page
            with self._undecodable_text():
                bad, count, last = self._failing(where)
        self.damage.rows += bad.values()
        if not beyond and self._totals.rows >= 0:
            self.damage.missing += max(self._totals.rows - count, 0)
            if count > self._totals.rows:
                self.damage.lists.append(f"{count - self._totals.rows:,} rows too many")
        self._last_rowid = max(last, beyond)
        return list(bad)

    def _failing(self, where: str) -> tuple[dict[int, str], int, int]:
        """The rows that fail their checksum, by rowid; the number of rows; the last rowid."""
        sums, bad = self._row_checksums(), dict[int, str]()
        count = last = 0
        cursor = self._execute(self._scan(sums.names, where))
        while bundle := cursor.fetchmany(ROWS_PER_FETCH):
            for number, key, known, *values in bundle:
                if _fails(sums, key, values, known):
                    bad[number] = _named(number, key)
            count, last = count + len(bundle), max(last, *(row[0] for row in bundle))
        return bad, count, last

    @contextmanager
    def _undecodable_text(self) -> Iterator[None]:
        """Decode invalid UTF-8 too, with surrogate escapes; its checksum shows that it is damaged."""
        self._connection.text_factory = _decode
        try:
            yield
        finally:
            self._connection.text_factory = str

    def _bad_entries(self) -> dict[str, list[int]]:
        """The rowids of sweeps and fingerprints that fail their checksum, by table."""
        bad: dict[str, list[int]] = {}
        for table, names in CHECKED_COLUMNS.items():
            with self._undecodable_text():
                sql = f"SELECT rowid, {quoted(CHECKSUM_COLUMN)}, {', '.join(names)} FROM {table}"
                rows = self._execute(sql).fetchall()
            bad[table] = [number for number, known, *values in rows if checksum(values) != known]
            total = getattr(self._totals, table)
            gone = total - len(rows) if total >= 0 else 0
            if bad[table] or gone:
                what = {"sweeps": "list of sweeps", "codes": "list of fingerprints"}[table]
                self.damage.lists.append(f"{len(bad[table]) + max(gone, 0)} damaged in its {what}")
        return bad

    def _intact_copy(self) -> sqlite3.Connection:
        """A temporary copy of a damaged store with its intact rows."""
        sums, old = self._row_checksums(), self._connection
        old.text_factory = _decode
        copy = sqlite3.connect("", isolation_level=None, check_same_thread=False)  # SQLite's temporary database
        copy.execute("BEGIN")
        for (sql,) in old.execute("SELECT sql FROM sqlite_master WHERE type = 'table'").fetchall():
            copy.execute(sql)
        copy.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        columns = ["rowid", "key", *map(quoted, (CHECKSUM_COLUMN, *sums.names))]
        insert = insert_into("cells", columns, "OR IGNORE")
        seen: set[int] = set()
        missing, self.damage.rows = self.damage.missing, []
        for number, key, known, *values in self._readable_rows(sums.names):
            if number in seen:
                continue
            seen.add(number)
            if _fails(sums, key, values, known):
                self.damage.rows.append(_named(number, key))
            else:
                copy.execute(insert, (number, key, known, *values))
        if self._totals.rows >= 0:
            self.damage.missing = max(missing, self._totals.rows - len(seen))
        for table, wanted in CHECKED_COLUMNS.items():
            columns = [*wanted, quoted(CHECKSUM_COLUMN)]
            with suppress(*DATABASE_ERRORS):
                for *values, known in old.execute(f"SELECT {', '.join(columns)} FROM {table}"):
                    if checksum(values) == known:
                        copy.execute(insert_into(table, columns, "OR IGNORE"), (*values, known))
        copy.execute("COMMIT")
        old.close()
        self._seen_version = copy.execute("PRAGMA data_version").fetchone()[0]
        return copy

    def _readable_rows(self, names: list[str]) -> Iterator[tuple]:
        """All rows that SQLite can read: from both ends of the table, then one by one between damaged pages."""
        ends = [0, 0]
        for end, order in enumerate(("ASC", "DESC")):
            try:
                for row in self._execute(self._scan(names, f"ORDER BY rowid {order}")):
                    ends[end] = row[0]
                    yield row
                if end == 0:
                    return
            except DATABASE_ERRORS:
                continue
        for number in range(ends[0] + 1, min(ends[1] or ends[0] + MAX_ROWS_PROBED, ends[0] + MAX_ROWS_PROBED)):
            with suppress(*DATABASE_ERRORS):
                yield from self._execute(self._scan(names, "WHERE rowid = ?"), (number,)).fetchall()

    def _data_version(self) -> int:
        return int(self._execute("PRAGMA data_version").fetchone()[0])

    def _verify_new_rows(self) -> None:
        """Verify rows that another process has committed since the last check."""
        if self._lock is not None or not self.checked or not self._schema or str(self.path) == ":memory:":
            return
        version = self._data_version()
        if version != self._seen_version:
            self._seen_version = version
            if self._check_rows(beyond=self._last_rowid):
                raise StoreError(f"the store {self.path} was damaged while it was read: {self.damage.sentence()}")


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _fails(sums: RowChecksums, key: Any, values: list[Any], known: Any) -> bool:
    return not isinstance(key, bytes) or sums.of(key, values) != known


def _named(number: int, key: Any) -> str:
    """The name of a row in a message: the first half of its key, or its rowid if the key is damaged."""
    return key.hex()[: 2 * KEY_HALF] if isinstance(key, bytes) and len(key) == 2 * KEY_HALF else f"row {number}"
