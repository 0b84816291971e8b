"""The store of a sweep: one SQLite file, one row for each cell.

`connection` opens and locks it, `tables` has its schema and transactions, `verify` finds damage by `checksums` and in
the `wal`, `database` reads and writes rows, `merge` joins stores, `text` escapes a store's text for display.
"""

from quadsim.sweeps.store.checksums import Damage
from quadsim.sweeps.store.connection import StoreError, store_exists
from quadsim.sweeps.store.database import KEY_HALF, Store
from quadsim.sweeps.store.merge import merge
from quadsim.sweeps.store.text import csv_cell, csv_table, json_text, printable

__all__ = [
    "KEY_HALF",
    "Damage",
    "Store",
    "StoreError",
    "csv_cell",
    "csv_table",
    "json_text",
    "merge",
    "printable",
    "store_exists",
]
