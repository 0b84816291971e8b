"""Write the rows of a store to a file: in an order that depends on the cells alone.

  python -m quadsim export sweep.db out=rows.csv
  python -m quadsim export sweep.db out=rows.parquet

Damaged rows are left out and reported; the exit code is then 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from quadsim._validation import InputError, shown
from quadsim.cli import outputs
from quadsim.cli.arguments import CommandLine
from quadsim.cli.stores import STORE_KEY, print_damage, print_line, same_file, store_path
from quadsim.keys import Key, select
from quadsim.sweeps.store.text import csv_cell, printable

if TYPE_CHECKING:
    from quadsim.sweeps.store.database import Store

KEYS = select(STORE_KEY, Key("out", "text", "the file", shape="rows.csv|rows.parquet"))
NAMES = True


def main(line: CommandLine) -> int:
    path = store_path(line)
    if "out" not in line.values:
        raise InputError("export needs out=: a file such as rows.csv or rows.parquet")
    out = Path(line.values["out"])
    writers = {".csv": _csv, ".parquet": _parquet}
    if out.suffix.lower() not in writers:
        raise InputError(f"out={shown(str(out))} must end in {' or '.join(writers)}")
    from quadsim.sweeps.axes import RESULTS, ordered
    from quadsim.sweeps.store.database import Store

    with Store(path) as store:
        if same_file(out, path):
            raise InputError(f"out={shown(str(out))} is the store itself: give another file")
        columns = ordered(store.columns())
        batches = store.batches(columns, [name for name in columns if name not in RESULTS])
        count = _write(out, lambda draft: writers[out.suffix.lower()](draft, store, columns, batches))
    result = {"store": str(path), "rows": count, "file": str(out), "damage": store.damage.facts()}
    outputs.report(line, result, lambda screen: print_line(screen, f"wrote {count:,} rows to {out}"))
    return print_damage(store)


def _write(out: Path, fill: Callable[[Path], int]) -> int:
    """Check the path and write the file atomically; returns the result of `fill`."""
    import tempfile

    from quadsim import _files
    from quadsim.sweeps.store.connection import StoreError

    try:
        if out.is_dir():
            raise InputError(f"out={shown(str(out))} is a folder: give a file")
        if not out.absolute().parent.is_dir():
            raise InputError(f"out={shown(str(out))} cannot be written: there is no folder {shown(str(out.parent))}")
        with tempfile.TemporaryFile(dir=out.absolute().parent):
            pass
    except OSError as error:
        raise InputError(f"out={shown(str(out))} cannot be written ({error.strerror or error})") from None
    try:
        return _files.write_atomically(out, fill)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(error.errno, error.strerror or str(error), str(out)) from None


def _csv(path: Path, store: Store, columns: list[str], batches: Iterator[list[tuple]]) -> int:
    """Write the rows; the number of rows."""
    import csv
    import functools

    count = 0
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(csv_cell, columns))
        safe = functools.lru_cache(maxsize=2**16)(csv_cell)  # few distinct texts repeat in every row
        for batch in batches:
            writer.writerows([safe(v) if isinstance(v, str | bytes) else v for v in row] for row in batch)
            count += len(batch)
    return count


def _parquet(path: Path, store: Store, columns: list[str], batches: Iterator[list[tuple]]) -> int:
    """Write the rows; the number of rows."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("a .parquet file needs pyarrow: pip install 'quadsim[parquet]', or write a .csv") from None
    types = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string()}
    schema = pa.schema([(printable(name), types[store.kind(name)]) for name in columns])

    def array(values: tuple, field: pa.Field) -> pa.Array:
        if pa.types.is_string(field.type):
            values = tuple(None if value is None else printable(value) for value in values)
        return pa.array(values, type=field.type)

    count = 0
    with pq.ParquetWriter(path, schema) as writer:
        for batch in batches:
            arrays = list(map(array, zip(*batch, strict=True), schema))
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(batch)
    return count
