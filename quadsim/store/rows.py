"""The store of a sweep: one SQLite file, one row for each cell, written once and never changed.

A row is there or it is not: a missing one is to be computed, and there is no state in between to get stuck in. Rows are
committed in bundles, each whole or not at all, so that a kill or a power cut loses what was under way and nothing that
was reported as done. One process writes at a time, held by a lock that the system releases when the process ends;
reading is free for all. Nothing here knows what the columns mean, beyond their names.

Every row has a checksum, and the table of totals says how many rows there must be; both are verified when a store is
opened. What fails is listed in `Store.damage`: a reader goes on with the rows that are intact, and a writer removes the
others, so that they are computed again. Reading a store executes nothing that is named in it.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from quadsim.checks import InputError, shown
from quadsim.store import wal
from quadsim.store.checksums import Damage, RowSums, checksum
from quadsim.store.door import (
    SCHEMA,
    Lock,
    StoreError,
    check_base,
    check_file,
    lock_path,
    noted,
    path_of,
    structural_fault,
    told,
    uri,
)
from quadsim.store.layout import AT_ONCE, BROKEN, CHECKSUM, SWEEPS, quoted
from quadsim.store.text import printable
from quadsim.store.verify import HALF, Verified

if TYPE_CHECKING:
    import pandas as pd


class Store(Verified):
    """A file of rows. ``Store(path)`` reads one that is there; ``Store.writing(path)`` makes it if need be.

    ``damage`` says what failed its checksum or is missing. ``checked`` is False for a store of schema 1, which has no
    checksums; writing to it adds them.
    """

    _keep_log = False  # whether the log is evidence of damage

    def __init__(self, path: str | Path, *, new: bool = False) -> None:
        self.path, self.damage = path_of(path), Damage()
        check_file(self.path, new=False)
        note, fault = noted(self.path), self._log_fault()
        self._keep_log = note is not None or fault is not None
        self._open(writing=False)
        if not self._schema and (fault is not None or (note is not None and note.rows)):
            self.close()
            raise StoreError(
                f"store={shown(str(path))} has lost all its rows: {wal.log_path(self.path).name} is damaged"
            )
        if not new and not self._schema:
            self.close()
            raise InputError(f"store={shown(str(path))} has nothing in it yet: its sweep was stopped too early")
        if self._schema:
            try:
                self._verify(note, fault)
            except BROKEN as error:
                self.close()
                raise told(self.path, error) from error
            except BaseException:
                self.close()
                raise
        if note is not None and not self.damage and self._schema:
            self._base.close()  # all that was noted is there: the log need not be kept
            self._keep_log = False
            self._open(writing=False)

    @classmethod
    @contextmanager
    def writing(cls, path: str | Path | None, columns: Iterable[str] = ()) -> Iterator[Self]:
        """Hold the store alone, to add rows to it; None is a store in memory. A new one has these columns, and others
        as rows bring them.
        """
        store = cls.__new__(cls)
        store._first, store.damage = tuple(columns), Damage()
        store.path, fault, there = Path(":memory:") if path is None else path_of(path), None, False
        if path is not None:
            check_file(store.path, new=True)
            there = store.path.exists() and store.path.stat().st_size > 0
            fault = store._log_fault()
            if there:
                store._look()
            store._lock = Lock(store.path)
        try:
            empty = not there or store._schema == 0
            store._open(writing=True)
            if store._lock is not None and not empty:
                store._recover(store._lock.previous, fault)
            elif store._lock is not None and (fault or (store._lock.previous and store._lock.previous.rows)):
                store.damage.lists.append("all rows lost with a damaged write-ahead log")
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
        try:
            if hasattr(self, "_base"):
                self._base.close()  # the last connection checkpoints the log, which takes long enough to interrupt
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def _log_fault(self) -> str | None:
        """What is wrong with a log that no writer has left a note about."""
        return None if lock_path(self.path).exists() else wal.fault(self.path)

    def _look(self) -> None:
        """Look at a file before it is opened for writing; raise unless it is a store whose pages are sound."""
        self._open(writing=False)
        try:
            fault = structural_fault(self._base) if self._schema else None
        finally:
            self._base.close()
        if fault is not None:
            name = shown(str(self.path))
            raise InputError(
                f"store={name} is damaged and left unchanged: merge it into a new one to save its rows ({fault:.60})"
            )

    def _open(self, *, writing: bool) -> None:
        at = (":memory:" if self._lock is None else self.path.absolute()) if writing else None
        try:
            self._base = sqlite3.connect(
                at or uri(self.path, keep_log=self._keep_log), uri=not writing, isolation_level=None, timeout=30,
                check_same_thread=False,
            )  # fmt: skip
            self._base.execute("PRAGMA trusted_schema = OFF")
            self._schema = check_base(self._base, self.path)
            self._version = self._data_version()
            if writing:
                self._base.execute("PRAGMA journal_mode = WAL")
                self._base.execute("PRAGMA synchronous = FULL")
                self._base.execute("PRAGMA wal_autocheckpoint = 200")  # a damaged log then loses little
                self._lay_out()
        except BROKEN as error:
            if hasattr(self, "_base"):
                self._base.close()
            raise told(self.path, error) from error
        except InputError:
            self._base.close()
            raise

    def _ask(self, question: str, values: Iterable[Any] = ()) -> Iterator[tuple]:
        try:
            self._check_new()
            cursor = self._base.execute(question, tuple(values))
            while bundle := cursor.fetchmany(AT_ONCE):
                yield from bundle
        except BROKEN as error:
            raise told(self.path, error) from error

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read one state of the store, whatever another process adds meanwhile."""
        self._base.execute("BEGIN")
        try:
            yield
        finally:
            self._base.execute("ROLLBACK")

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

    def add(
        self, rows: Iterable[dict[str, Any]], usual: dict[str, Any] | None = None, *, sweep: str | None = None
    ) -> int:
        """Add these rows, each with its `key`, all or none of them; how many were new.

        A row whose key is there already is left out, unless that one is an error. It takes the place of one of the same
        cell by other code. ``usual`` are the values, by column, that a row has which does not say. ``sweep`` is the one
        that computed them.
        """
        rows = list(rows)
        if not rows:
            return 0
        with self._whole():
            there = {name.lower(): name for name in ("key", *self.columns())}
            widened = False
            for name in dict.fromkeys(name for row in rows for name in row):
                if name.lower() not in there:
                    there[name.lower()] = name
                    value = (usual or {}).get(name)
                    default = "" if value is None else f" DEFAULT {_literal(value)}"
                    self._base.execute(f"ALTER TABLE cells ADD COLUMN {quoted(name)}{default}")
                    widened = True
            defaults = self._defaults()
            by_names: dict[tuple[str, ...], list[list[Any]]] = {}
            for row in rows:
                by_names.setdefault(tuple(row), []).append([_kept(value) for value in row.values()])
            before = self._base.total_changes
            other = "DELETE FROM cells WHERE key BETWEEN ? AND ? AND key <> ?"
            self._base.executemany(other, [(*_of_one_cell(row["key"]), row["key"]) for row in rows])
            if "status" in there:
                gone = [(row["key"],) for row in rows]
                self._base.executemany("DELETE FROM cells WHERE key = ? AND status = 'error'", gone)
            removed = self._base.total_changes - before
            for names, values in by_names.items():
                columns, marks = ", ".join(map(quoted, (*names, CHECKSUM))), ", ".join("?" * (len(names) + 1))
                insert = f"INSERT OR IGNORE INTO cells ({columns}) VALUES ({marks})"
                self._base.executemany(insert, _summed([there[name.lower()] for name in names], values, defaults))
            new = self._base.total_changes - before - removed
            self._totals = replace(self._totals, rows=self._totals.rows + new - removed)
            if widened:
                self._totals = replace(self._totals, tables=self._tables())
            if sweep is not None and new:
                self._change_sweep(sweep, lambda one: {"done": (one["done"] or 0) + new})
            return new

    def rows(self, columns: Iterable[str] | None = None, order: Iterable[str] = ()) -> Iterator[tuple]:
        """The rows' values in these columns (all by default), in the order of others; `key` decides between equals."""
        names = [quoted(name) for name in (self.columns() if columns is None else columns)]
        by = ", ".join([*(quoted(name) for name in order), "key"])
        return self._ask(f"SELECT {', '.join(names) or 'NULL'} FROM cells ORDER BY {by}")

    def frame(self, columns: Iterable[str] | None = None, order: Iterable[str] = ()) -> pd.DataFrame:
        """The rows as a table, in bundles: a million rows take some hundred megabytes.

        Control and invisible characters in texts are escaped.
        """
        import itertools

        import pandas as pd

        names = self.columns() if columns is None else list(columns)
        rows = self.rows(names, order)
        parts: dict[str, list[tuple[str, Any]]] = {name: [] for name in names}
        while bundle := list(itertools.islice(rows, AT_ONCE)):
            for name, values in zip(names, zip(*bundle, strict=True), strict=True):
                parts[name].append(_column(values))
        return pd.DataFrame({name: _joined(pieces) for name, pieces in parts.items()}, columns=names)

    def varying(self) -> list[str]:
        """The columns that do not have one value in all rows; an absent value counts."""
        names = self.columns()
        everything, found = len(self), []
        for start in range(0, len(names), 200):  # SQLite returns at most 2,000 columns
            some = names[start : start + 200]
            asked = ", ".join(f"min({c}), max({c}), count({c})" for c in map(quoted, some))
            [values] = self._ask(f"SELECT {asked} FROM cells")
            for name, low, high, count in zip(some, values[::3], values[1::3], values[2::3], strict=True):
                if low != high or 0 < count < everything:
                    found.append(name)
        return found

    def tally(self, column: str) -> dict[Any, int]:
        """How many rows have each value of this column."""
        if column not in self.columns():
            return {}
        question = f"SELECT {quoted(column)}, count(*) FROM cells GROUP BY 1 ORDER BY 2 DESC"
        return dict(self._ask(question))

    def kind(self, column: str) -> str:
        """What a column's values are: "integer", "real" (also some whole numbers among them), or "text"."""
        kinds = {kind for (kind,) in self._ask(f"SELECT DISTINCT typeof({quoted(column)}) FROM cells")} - {"null"}
        return "text" if kinds - {"integer", "real"} else "integer" if kinds == {"integer"} else "real"

    def sweeps(self) -> list[dict[str, Any]]:
        """The sweeps that filled the store, oldest first, with control and invisible characters escaped."""
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
        names = ", ".join(SWEEPS if self._schema == SCHEMA else (*SWEEPS[:-1], "NULL"))
        return [dict(zip(SWEEPS, row, strict=True)) for row in self._ask(f"SELECT {names} FROM sweeps ORDER BY rowid")]

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
        """Note that a sweep begins, or goes on: its keys, the columns that vary, its fingerprints by code half."""
        new = {
            "name": name, "command": command, "keys": json.dumps(keys), "swept": json.dumps(swept), "cells": cells,
            "versions": json.dumps(versions), "began": _now(), "ended": None, "done": done,
        }  # fmt: skip
        with self._whole():
            if not self._change_sweep(name, lambda _: {"ended": None, "done": done}):
                self._put_sweep(new)
            self._put_codes((code, json.dumps(parts, sort_keys=True)) for code, parts in (codes or {}).items())
            self._totals = replace(self._totals, sweeps=self._count("sweeps"))
        self._base.execute("PRAGMA wal_checkpoint(PASSIVE)")  # tables and lists outlive a damaged log

    def end(self, name: str) -> None:
        """Note that a sweep is done."""
        with self._whole():
            self._change_sweep(name, lambda _: {"ended": _now()})

    def _change_sweep(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
        """Change some values of a sweep; whether there is one of this name."""
        row = self._base.execute(f"SELECT {', '.join(SWEEPS)} FROM sweeps WHERE name = ?", (name,)).fetchone()
        if row is not None:
            one = dict(zip(SWEEPS, row, strict=True))
            self._put_sweep(one | change(one))
        return row is not None

    def codes(self) -> dict[bytes, dict[str, Any]]:
        """The fingerprints of the code that computed rows, by the code half of their keys."""
        found = {}
        for code, text in self._ask("SELECT code, parts FROM codes") if self._schema == SCHEMA else ():
            with suppress(ValueError, TypeError, RecursionError):
                parts = json.loads(text)
                if isinstance(parts, dict):
                    found[code] = parts
        return found

    def _put_codes(self, codes: Iterable[tuple[bytes, str]]) -> None:
        rows = [(code, text, checksum([code, text])) for code, text in codes]
        self._base.executemany("INSERT OR IGNORE INTO codes VALUES (?, ?, ?)", rows)
        self._totals = replace(self._totals, codes=self._count("codes"))

    def by_code(self) -> dict[bytes, int]:
        """How many rows each code computed, by the code half of their keys."""
        return dict(self._ask(f"SELECT substr(key, {HALF + 1}), count(*) FROM cells GROUP BY 1 ORDER BY 2 DESC"))

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

        for key, *values in other._ask(f"SELECT {', '.join(map(quoted, ('key', *names)))} FROM cells"):
            bundle.append({"key": key, **{k: v for k, v in zip(names, values, strict=True) if v is not None}})
            if len(bundle) == AT_ONCE:
                flush()
        flush()
        with self._whole():
            for one in other._sweeps():
                if not self._change_sweep(one["name"], functools.partial(_further, one)):
                    self._put_sweep(one)
            if other._schema == SCHEMA:
                self._put_codes(other._ask("SELECT code, parts FROM codes"))
            self._totals = replace(self._totals, sweeps=self._count("sweeps"))
        return new, differ

    def _by_other_code(self, key: bytes) -> bool:
        question = "SELECT 1 FROM cells WHERE key BETWEEN ? AND ? AND key <> ? LIMIT 1"
        return self._base.execute(question, (*_of_one_cell(key), key)).fetchone() is not None

    def _results(self, keys: Iterable[bytes]) -> dict[bytes, tuple]:
        there = self.columns()
        names = [quoted(name) if name in there else "NULL" for name in COMPARED]
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
    if kind == "text":
        values = tuple(printable(value) if isinstance(value, str) else value for value in values)
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


def _summed(names: list[str], rows: list[list[Any]], defaults: dict[str, Any]) -> Iterator[list[Any]]:
    """The rows, each with its checksum at the end."""
    key = names.index("key")
    sums = RowSums([*names[:key], *names[key + 1 :]], defaults)
    for row in rows:
        yield [*row, sums.of(row[key], [*row[:key], *row[key + 1 :]])]


def _further(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """How far a sweep is that two stores have, at least."""
    return {"done": max((each["done"] for each in (one, other) if isinstance(each["done"], int)), default=None)}


def _escaped(value: Any) -> Any:
    """Plain values with all their texts printable."""
    if isinstance(value, dict):
        return {printable(name): _escaped(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_escaped(one) for one in value]
    return printable(value) if isinstance(value, str) else value


def _is_sweep(one: dict[str, Any]) -> bool:
    """Whether these are the values of a sweep: a store may come from anybody."""
    texts = [one.get(name) for name in ("name", "command", "began")]
    keys, versions, swept = one.get("keys"), one.get("versions"), one.get("swept")
    return (
        all(isinstance(text, str) for text in texts)
        and isinstance(one["ended"], str | None)
        and isinstance(one["cells"], int)
        and isinstance(one["done"], int | None)
        and isinstance(swept, list)
        and all(isinstance(name, str) for name in swept)
        and all(isinstance(d, dict) and all(isinstance(v, str) for v in d.values()) for d in (keys, versions))
    )


def _literal(value: Any) -> str:
    return repr(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
