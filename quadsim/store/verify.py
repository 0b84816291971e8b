"""Verification of a store: every checksum when it is opened, what is missing, and a copy of what is intact."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import Any

from quadsim.checks import InputError, shown
from quadsim.store.checksums import RowSums, checksum
from quadsim.store.door import SCHEMA, Note, StoreError, structural_fault
from quadsim.store.layout import AT_ONCE, BROKEN, CHECKSUM, ENTRIES, Layout, Totals, quoted

HALF = 12  # bytes of a key that say what a cell is; as many more say by what code it was computed
MOST_PROBED = 200_000  # rows looked for one by one between damaged pages


class Verified(Layout):
    """A store that knows what is damaged in it."""

    _version = 0  # of the data, as SQLite counts what other processes commit
    _last = 0  # the number of the last row that was verified

    def _verify(self, note: Note | None, fault: str | None) -> None:
        """Verify everything; a reader of a damaged store goes on with a copy of what is intact."""
        structure = structural_fault(self._base)
        if self._schema < SCHEMA:
            self.checked = False
            if structure is not None:
                raise InputError(f"store={shown(str(self.path))} is damaged ({structure[:80]}): it is left unchanged")
            return
        self._check_tables()
        self._check_log(note, fault)
        bad: list[int] = []
        lists: dict[str, list[int]] = {}
        if structure is None:
            try:
                bad, lists = self._check_rows(), self._bad_entries()
            except BROKEN as error:
                structure = str(error)
        if structure is not None:
            self.damage.lists.append(f"damaged pages ({shown(structure)[1:-1]})")
        if structure is not None or bad or lists:
            self._base = self._intact()

    def _recover(self, note: Note | None, fault: str | None) -> None:
        """Verify a store that is about to be written to, and remove what is damaged."""
        self._check_tables()
        self._check_log(note, fault)
        bad, lists = self._check_rows(), self._bad_entries()
        if self.damage:
            with self._whole():
                self._base.execute("DELETE FROM totals")
                self._base.execute("INSERT INTO totals (rows) VALUES (0)")
                self._base.executemany("DELETE FROM cells WHERE rowid = ?", [(number,) for number in bad])
                for table, numbers in lists.items():
                    self._base.executemany(f"DELETE FROM {table} WHERE rowid = ?", [(number,) for number in numbers])
                self._totals = replace(
                    self._totals, rows=self._count("cells"), sweeps=self._count("sweeps"), codes=self._count("codes"),
                    tables=self._tables(),
                )  # fmt: skip

    def _check_tables(self) -> None:
        """Read the totals; raise if the definition of the tables is not the one that they were written with."""
        names = list(asdict(Totals("")))
        try:
            with self._any_text():
                found = self._base.execute(f"SELECT {', '.join(names)}, checksum FROM totals").fetchall()
        except BROKEN:
            found = []
        values = dict(zip(names, found[0], strict=False)) if len(found) == 1 else {}
        if values and checksum(values) == found[0][-1]:
            self._totals = Totals(**values)
        else:
            self.damage.lists.append("damaged totals: missing rows cannot be counted")
            self._totals = Totals(secrets.token_hex(8), rows=-1, sweeps=-1, codes=-1, tables=self._tables())
        if self._totals.tables != self._tables():
            raise InputError(f"store={shown(str(self.path))} is damaged (its columns): it is left unchanged")

    def _check_log(self, note: Note | None, fault: str | None) -> None:
        """Compare what is there with what the last writer noted, and with what the log holds."""
        if note is not None and note.store == self._totals.identity and note.commits > self._totals.commits:
            lost = note.commits - self._totals.commits
            self.damage.lists.append(f"{lost:,} commit{'s' * (lost > 1)} lost with a damaged write-ahead log")
            self.damage.missing += max(note.rows - self._totals.rows, 0)
        elif fault is not None:
            self.damage.lists.append(f"a damaged write-ahead log ({fault}): committed rows may be lost")

    def _check_rows(self, beyond: int = 0) -> list[int]:
        """The numbers of the rows that fail their checksum, among those after one."""
        where = f"WHERE rowid > {beyond}" if beyond else ""
        try:
            bad, count, last = self._failing(where)
        except BROKEN:  # text that is no UTF-8, or a damaged page
            with self._any_text():
                bad, count, last = self._failing(where)
        self.damage.rows += bad.values()
        if not beyond and self._totals.rows >= 0:
            self._count_missing(count)
        self._last = max(last, beyond)
        return list(bad)

    def _failing(self, where: str) -> tuple[dict[int, str], int, int]:
        """The rows that fail their checksum, by number; how many rows there are, and the last number."""
        sums, bad = self._sums(), dict[int, str]()
        count = last = 0
        cursor = self._base.execute(self._scan(sums.names, where))
        while bundle := cursor.fetchmany(AT_ONCE):
            for number, key, known, *values in bundle:
                if _fails(sums, key, values, known):
                    bad[number] = _named(number, key)
            count, last = count + len(bundle), max(last, *(row[0] for row in bundle))
        return bad, count, last

    @contextmanager
    def _any_text(self) -> Iterator[None]:
        """Read text that is no UTF-8 too: its checksum says that it is damaged."""
        self._base.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        try:
            yield
        finally:
            self._base.text_factory = str

    def _count_missing(self, count: int) -> None:
        if count < self._totals.rows:
            self.damage.missing += self._totals.rows - count
        elif count > self._totals.rows:
            self.damage.lists.append(f"{count - self._totals.rows:,} rows too many")

    def _bad_entries(self) -> dict[str, list[int]]:
        """The numbers of the sweeps and fingerprints that fail their checksum, by table."""
        found: dict[str, list[int]] = {}
        for table, names in ENTRIES.items():
            question = f"SELECT rowid, {quoted(CHECKSUM)}, {', '.join(names)} FROM {table}"
            with self._any_text():
                rows = self._base.execute(question).fetchall()
            bad = [number for number, known, *values in rows if checksum(values) != known]
            gone = getattr(self._totals, table) - len(rows) if getattr(self._totals, table) >= 0 else 0
            if bad:
                found[table] = bad
            if bad or gone:
                what = {"sweeps": "list of sweeps", "codes": "list of fingerprints"}[table]
                self.damage.lists.append(f"{len(bad) + max(gone, 0)} damaged in its {what}")
        return found

    def _intact(self) -> sqlite3.Connection:
        """A private copy of a damaged store with all that is intact in it."""
        sums, old = self._sums(), self._base
        names = sums.names
        old.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        definitions = [sql for (sql,) in old.execute("SELECT sql FROM sqlite_master WHERE type = 'table'")]
        copy = sqlite3.connect("", isolation_level=None, check_same_thread=False)  # a temporary file of SQLite's own
        copy.execute("BEGIN")
        for sql in definitions:
            copy.execute(sql)
        copy.execute(f"PRAGMA user_version = {SCHEMA}")
        columns = ", ".join(["rowid", "key", quoted(CHECKSUM), *map(quoted, names)])
        insert = f"INSERT OR IGNORE INTO cells ({columns}) VALUES ({', '.join('?' * (3 + len(names)))})"
        seen: set[int] = set()
        missing, self.damage.rows = self.damage.missing, []
        for row in self._salvaged(names):
            number, key, known, *values = row
            if number in seen:
                continue
            seen.add(number)
            if _fails(sums, key, values, known):
                self.damage.rows.append(_named(number, key))
            else:
                copy.execute(insert, row)
        if self._totals.rows >= 0:
            self.damage.missing = max(missing, self._totals.rows - len(seen))
        for table, wanted in ENTRIES.items():
            with suppress(*BROKEN):
                for *values, known in old.execute(f"SELECT {', '.join(wanted)}, {quoted(CHECKSUM)} FROM {table}"):
                    if checksum(values) == known:
                        copy.execute(f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * (len(wanted) + 1))})",
                                     (*values, known))  # fmt: skip
        copy.execute("COMMIT")
        old.close()
        self._version = copy.execute("PRAGMA data_version").fetchone()[0]
        return copy

    def _salvaged(self, names: list[str]) -> Iterator[tuple]:
        """All rows that SQLite can still read: from both ends, and then one by one between damaged pages."""
        ends = [0, 0]
        for end, order in enumerate(("ASC", "DESC")):
            try:
                for row in self._base.execute(self._scan(names, f"ORDER BY rowid {order}")):
                    ends[end] = row[0]
                    yield row
                if end == 0:
                    return
            except BROKEN:
                continue
        for number in range(ends[0] + 1, min(ends[1] or ends[0] + MOST_PROBED, ends[0] + MOST_PROBED)):
            with suppress(*BROKEN):
                yield from self._base.execute(self._scan(names, "WHERE rowid = ?"), (number,)).fetchall()

    def _data_version(self) -> int:
        return int(self._base.execute("PRAGMA data_version").fetchone()[0])

    def _check_new(self) -> None:
        """Verify rows that another process has added since."""
        if self._lock is not None or not self.checked or not self._schema or str(self.path) == ":memory:":
            return
        version = self._data_version()
        if version != self._version:
            self._version = version
            if self._check_rows(beyond=self._last):
                raise StoreError(f"the store {self.path} was damaged while it was read: {self.damage.sentence()}")


def _fails(sums: RowSums, key: Any, values: list[Any], known: Any) -> bool:
    return not isinstance(key, bytes) or sums.of_sorted(key, values) != known


def _named(number: int, key: Any) -> str:
    """A row as a message names it: by its key, or by its number where the key is damaged too."""
    return key.hex()[: 2 * HALF] if isinstance(key, bytes) and len(key) == 2 * HALF else f"row {number}"
