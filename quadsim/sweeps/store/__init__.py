"""The store of a sweep: one SQLite file, one row for each cell.

`connection` opens and locks it, `tables` has its schema and transactions, `verify` finds damage by `checksums` and in
the `wal`, `database` reads and writes rows, `merge` joins stores, `text` escapes a store's text for display.
"""
