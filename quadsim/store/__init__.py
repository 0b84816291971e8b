"""The store of a sweep: one SQLite file, one row for each cell. `door` opens it, `rows` writes and reads it."""

from quadsim.store.door import StoreError, is_there
from quadsim.store.rows import HALF, Store

__all__ = ["HALF", "Store", "StoreError", "is_there"]
