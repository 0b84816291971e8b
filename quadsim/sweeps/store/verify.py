"""Verification of a store when it is opened: checksums, missing rows, and a copy of the rows that are intact."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from quadsim._validation import InputError, shown
from quadsim.sweeps.store.checksums import checksum
from quadsim.sweeps.store.connection import CommitNote, StoreError, structural_fault
from quadsim.sweeps.store.tables import CHECKED_COLUMNS, CHECKSUM_COLUMN, DATABASE_ERRORS, Tables, Totals, insert_into

KEY_HALF = 12  # bytes: a key is the hash of the cell's definition, then that of the code that computed it
MAX_ROWS_PROBED = 200_000  # rowids read one by one between damaged pages
LISTS = {"sweeps": "list of sweeps", "codes": "list of fingerprints"}  # in messages


class VerifiedStore(Tables):
    """A store with a record of its damage."""

    _seen_version = 0  # PRAGMA data_version: changes when another connection commits
    _last_rowid = 0  # that was verified

    def _verify(self, note: CommitNote | None, fault: str | None) -> None:
        """Verify a store to be read; if it is damaged, continue with a copy of the intact rows."""
        structure = structural_fault(self._connection)
        if not self.checked:
            if structure is not None:
                raise InputError(f"store={shown(str(self.path))} is damaged ({structure[:80]}): it is left unchanged")
            return
        damaged = self._damaged_rows(note, fault, pages_damaged=structure is not None)
        if structure is not None:
            self.damage.lists.append(f"damaged pages ({shown(structure)[1:-1]})")
        if structure is not None or any(damaged.values()):
            self._connection = self._intact_copy()

    def _recover(self, note: CommitNote | None, fault: str | None) -> None:
        """Verify a store to be written to, and delete damaged rows."""
        damaged = self._damaged_rows(note, fault)
        if self.damage:
            with self._transaction():
                self._execute("DELETE FROM totals")
                self._execute("INSERT INTO totals (rows) VALUES (0)")
                for table, numbers in damaged.items():
                    delete = f"DELETE FROM {table} WHERE rowid = ?"
                    self._connection.executemany(delete, [(number,) for number in numbers])
                self._totals = replace(self._totals, rows=self._count("cells"))

    def _damaged_rows(
        self, note: CommitNote | None, fault: str | None, *, pages_damaged: bool = False
    ) -> dict[str, list[int]]:
        """The rowids of damaged rows, by table; damage is recorded, that of lists unless pages are damaged."""
        self._read_totals()
        if note is not None and note.store == self._totals.identity and note.commits > self._totals.commits:
            lost = note.commits - self._totals.commits
            self.damage.lists.append(f"{lost:,} commit{'s' * (lost > 1)} lost with a damaged write-ahead log")
            self.damage.missing += max(note.rows - self._totals.rows, 0)
        elif fault is not None:
            self.damage.lists.append(f"a damaged write-ahead log ({fault}): committed rows may be lost")
        damaged = {}
        for table in ("cells", *CHECKED_COLUMNS):
            damaged[table], count = self._check_rows(table)
            total = getattr(self._totals, "rows" if table == "cells" else table)
            missing = total - count if total >= 0 else 0
            if table == "cells":
                self.damage.missing += max(missing, 0)
                if missing < 0:
                    self.damage.lists.append(f"{-missing:,} rows too many")
            elif (damaged[table] or missing) and not pages_damaged:
                self.damage.lists.append(f"{len(damaged[table]) + max(missing, 0)} damaged in its {LISTS[table]}")
        return damaged

    def _read_totals(self) -> None:
        """Read the totals; raise if the table definitions have changed since they were written."""
        names = list(asdict(Totals("")))
        self._connection.text_factory = _decode
        try:
            found = self._execute(f"SELECT {', '.join(names)}, checksum FROM totals").fetchall()
        except DATABASE_ERRORS:
            found = []
        finally:
            self._connection.text_factory = str
        values = dict(zip(names, found[0], strict=False)) if len(found) == 1 else {}
        if values and checksum(values) == found[0][-1]:
            self._totals = Totals(**values)
        else:
            self.damage.lists.append("damaged totals: missing rows cannot be counted")
            self._totals = Totals(secrets.token_hex(8), rows=-1, sweeps=-1, codes=-1, tables=self._schema_checksum())
        if self._totals.tables != self._schema_checksum():
            raise InputError(f"store={shown(str(self.path))} is damaged (its columns): it is left unchanged")

    def _check_rows(self, table: str, after: int = 0) -> tuple[list[int], int]:
        """The rowids of rows that fail their checksum, and the number of rows, beyond the rowid ``after``."""
        names, checksum_of = self._checksums(table)
        failing, count, last = dict[int, str](), 0, after
        for number, known, *values in self._readable_rows(table, names, after):
            count, last = count + 1, max(last, number)
            if checksum_of(values) != known:
                failing[number] = _row_name(number, values[0])
        if table == "cells":
            self.damage.rows += failing.values()
            self._last_rowid = last
        return list(failing), count

    def _checksums(self, table: str) -> tuple[Sequence[str], Callable[[list[Any]], bytes | None]]:
        """The columns that a row's checksum covers, and the checksum as a function of their values."""
        if table != "cells":
            return CHECKED_COLUMNS[table], checksum
        sums = self._row_checksums()
        return ["key", *sums.names], lambda row: sums.of(row[0], row[1:]) if isinstance(row[0], bytes) else None

    def _readable_rows(self, table: str, names: Sequence[str], after: int = 0) -> Iterator[tuple]:
        """All rows that SQLite can read: from both ends of the table, then one by one between damaged pages.

        Invalid UTF-8 is decoded with surrogate escapes; its checksum shows that it is damaged.
        """
        ends = [after, 0]
        self._connection.text_factory = _decode
        try:
            for end, order in enumerate(("ASC", "DESC")):
                with suppress(*DATABASE_ERRORS):
                    for row in self._execute(self._scan(table, names, f"WHERE rowid > {after} ORDER BY rowid {order}")):
                        ends[end] = row[0]
                        yield row
                    return
            first, last = ends[0] + 1, ends[0] + MAX_ROWS_PROBED if table == "cells" else ends[0]
            one_row = self._scan(table, names, "WHERE rowid = ?")
            for number in range(first, min(ends[1] or last, last)):
                with suppress(*DATABASE_ERRORS):
                    yield from self._execute(one_row, (number,)).fetchall()
        finally:
            self._connection.text_factory = str

    def _intact_copy(self) -> sqlite3.Connection:
        """A temporary copy of a damaged store with its intact rows."""
        copy = sqlite3.connect("", isolation_level=None, check_same_thread=False)  # SQLite's temporary database
        copy.execute("BEGIN")
        for (sql,) in self._execute("SELECT sql FROM sqlite_master WHERE type = 'table'").fetchall():
            copy.execute(sql)
        copy.execute(f"PRAGMA user_version = {self._schema}")
        for table in ("cells", *CHECKED_COLUMNS):
            names, checksum_of = self._checksums(table)
            insert = insert_into(table, ["rowid", CHECKSUM_COLUMN, *names], "OR IGNORE")
            rows = self._readable_rows(table, names)
            copy.executemany(insert, (row for row in rows if checksum_of(list(row[2:])) == row[1]))
        copy.execute("COMMIT")
        self._connection.close()
        self._seen_version = copy.execute("PRAGMA data_version").fetchone()[0]
        return copy

    def _data_version(self) -> int:
        return int(self._execute("PRAGMA data_version").fetchone()[0])

    def _verify_new_rows(self) -> None:
        """Verify rows that another process has committed since the last check."""
        if self._lock is not None or not self.checked:
            return
        version = self._data_version()
        if version != self._seen_version:
            self._seen_version = version
            if self._check_rows("cells", self._last_rowid)[0]:
                raise StoreError(f"the store {self.path} was damaged while it was read: {self.damage.sentence()}")


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _row_name(number: int, key: Any) -> str:
    """The name of a row in a message: the first half of its key, or its rowid if the key is damaged."""
    return key.hex()[: 2 * KEY_HALF] if isinstance(key, bytes) and len(key) == 2 * KEY_HALF else f"row {number}"
