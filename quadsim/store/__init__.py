"""The store of a sweep: one SQLite file, one row for each cell.

`door` opens and locks it, `rows` writes and reads it, `checksums` and `wal` find damage, `text` makes its own text safe
to show.
"""

from quadsim.store.checksums import Damage
from quadsim.store.door import StoreError, is_there
from quadsim.store.rows import HALF, Store
from quadsim.store.text import csv_cell, csv_table, json_text, printable

__all__ = ["HALF", "Damage", "Store", "StoreError", "csv_cell", "csv_table", "is_there", "json_text", "printable"]
