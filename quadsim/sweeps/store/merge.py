"""Merging one store into another."""

from __future__ import annotations

from functools import partial
from typing import Any

from quadsim.sweeps.store.database import Store, key_range
from quadsim.sweeps.store.tables import quoted

COMPARED_COLUMNS = ("status", "steps_to_tol", "loss", "grad_norm")  # in which two rows of one key must agree


def merge(store: Store, other: Store) -> tuple[int, int]:
    """Add the rows of another store; the number of new rows, and of rows that this store has with another result."""
    columns = other.columns()
    new = different = 0
    for batch in other.batches(["key", *columns]):
        rows = []
        for key, *values in batch:
            row = {"key": key, **{k: v for k, v in zip(columns, values, strict=True) if v is not None}}
            if _has_other_code(store, key):
                different += 1
            else:
                rows.append(row)
        results = _results(store, [row["key"] for row in rows])
        failed = {key for key, result in results.items() if result[0] == "error"}
        for row in rows:
            both = row["key"] in results and row["key"] not in failed and row.get("status") != "error"
            different += both and results[row["key"]] != tuple(row.get(name) for name in COMPARED_COLUMNS)
        new += store.add(row for row in rows if not (row.get("status") == "error" and row["key"] in failed))
    with store._transaction():
        for sweep in other._sweeps():
            if not store._update_sweep(sweep["name"], partial(_most_done, sweep)):
                store._upsert_sweep(sweep)
        if other.checked:
            store._insert_codes(other._query("SELECT code, parts FROM codes"))
    return new, different


def _has_other_code(store: Store, key: bytes) -> bool:
    """Whether the store has the cell of this key, computed by other code."""
    sql = "SELECT 1 FROM cells WHERE key BETWEEN ? AND ? AND key <> ? LIMIT 1"
    return store._connection.execute(sql, (*key_range(key), key)).fetchone() is not None


def _results(store: Store, keys: list[bytes]) -> dict[bytes, tuple]:
    existing = store.columns()
    names = [quoted(name) if name in existing else "NULL" for name in COMPARED_COLUMNS]
    sql = f"SELECT {', '.join(names)} FROM cells WHERE key = ?"
    return {key: row for key in keys for row in store._connection.execute(sql, (key,))}


def _most_done(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {"done": max((each["done"] for each in (one, other) if isinstance(each["done"], int)), default=None)}
