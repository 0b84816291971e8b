"""Merging one store into another."""

from __future__ import annotations

from quadsim.sweeps.store.database import Store, key_range
from quadsim.sweeps.store.tables import quoted

COMPARED_COLUMNS = ("status", "steps_to_tol", "loss", "grad_norm")  # in which two rows of one key must agree


def merge(store: Store, other: Store) -> tuple[int, int]:
    """Add the rows of another store; the number of new rows, and of rows that this store has with another result."""
    columns = other.columns()
    new = different = 0
    for batch in other.batches(["key", *columns]):
        rows, existing = [], store.columns()
        names = ["key", *(quoted(name) if name in existing else "NULL" for name in COMPARED_COLUMNS)]
        same_cell = f"SELECT {', '.join(names)} FROM cells WHERE key BETWEEN ? AND ?"
        for key, *values in batch:
            row = {"key": key, **{k: v for k, v in zip(columns, values, strict=True) if v is not None}}
            results = {known: result for known, *result in store._connection.execute(same_cell, key_range(key))}
            result, failed = results.pop(key, None), row.get("status") == "error"
            if results:  # by other code
                different += 1
                continue
            if result is not None and result[0] == "error":
                if failed:
                    continue
            elif result is not None and not failed:
                different += result != [row.get(name) for name in COMPARED_COLUMNS]
            rows.append(row)
        new += store.add(rows)
    with store._transaction():
        for sweep in other._sweeps():
            known_sweep = store._sweep(sweep["name"]) or sweep
            done = [record["done"] for record in (known_sweep, sweep) if isinstance(record["done"], int)]
            store._upsert_sweep(known_sweep | {"done": max(done, default=None)})
        if other.checked:
            store._insert_codes(other._query("SELECT code, parts FROM codes"))
    return new, different
