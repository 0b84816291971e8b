"""`status`, `export`, `merge`: looking into a store, taking its rows out, bringing several together."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import grammar
from quadsim.checks import InputError, shown
from quadsim.grammar import Words
from quadsim.verbs.screen import console

if TYPE_CHECKING:
    from quadsim.store import Store

AT_ONCE = 20_000  # rows


def status(words: Words) -> None:
    """`status store=sweep.db`: its sweeps, how far each is, how its cells ended."""
    path = read_store(words, (), "status store=sweep.db")
    from quadsim.store import Store

    with Store(path) as store:
        sweeps = [{**one, **_progress(store, one)} for one in store.sweeps()]
        result: dict[str, Any] = {
            "store": str(path), "rows": len(store), "bytes": path.stat().st_size, "busy": store.busy,
            "status": store.tally("status"), "optimizer": store.tally("optimizer"), "sweeps": sweeps,
            "errors": store.tally("error"),
        }  # fmt: skip
    result["errors"].pop(None, None)
    if "--json" in words.flags:
        print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))
        return
    screen = console()
    busy = ", being written to now" if result["busy"] else ""
    screen.print(f"{path}: {result['rows']:,} rows, {result['bytes'] / 1e6:.1f} MB{busy}", highlight=False)
    for name in ("status", "optimizer"):
        told = ", ".join(f"{count:,} {value}" for value, count in result[name].items())
        screen.print(f"{name}: {told or 'none'}", highlight=False)
    for sentence, count in list(result["errors"].items())[:5]:
        screen.print(f"error: {count:,} × {sentence}", highlight=False)
    for one in sweeps:
        screen.print(f"\n{one['command'] or 'a sweep from Python'}", style="bold", highlight=False, soft_wrap=True)
        done = "" if one["done"] is None else f"{one['done']:,} of {one['cells']:,} cells done"
        when = f"began {one['began']}, " + (f"ended {one['ended']} UTC" if one["ended"] else "not ended (UTC)")
        screen.print(f"{done or one['why']}; {when}", highlight=False)


def _progress(store: Store, one: dict[str, Any]) -> dict[str, Any]:
    """How many cells of a sweep are there, as the code that is here now would name them."""
    from quadsim.sweeps import Grid
    from quadsim.sweeps.running import count

    try:
        return {"done": count(Grid.read(one["keys"], limit=10**12), store.keys()), "why": None}
    except Exception as error:  # such as a file of rules that is not there
        return {"done": None, "why": f"{one['cells']:,} cells planned, which cannot be counted here ({error})"}


def export(words: Words) -> None:
    """`export store=sweep.db out=rows.csv`: one row for each cell, in an order that depends on the cells alone."""
    path = read_store(words, ("out",), "export store=sweep.db out=rows.csv")
    if "out" not in words.keys:
        raise InputError("export needs out=: a file such as rows.csv or rows.parquet")
    out = Path(words.keys["out"])
    kinds: dict[str, Callable[..., int]] = {".csv": _csv, ".parquet": _parquet}
    if out.suffix.lower() not in kinds:
        raise InputError(f"out={shown(str(out))} must end in {' or '.join(kinds)}")
    from quadsim.store import Store

    with Store(path) as store:
        if _same(out, path):
            raise InputError(f"out={shown(str(out))} is the store itself: give another file")
        count = _written(out, lambda draft: kinds[out.suffix.lower()](store, draft))
    if "--json" in words.flags:
        print(json.dumps({"store": str(path), "rows": count, "file": str(out)}, ensure_ascii=False))
    else:
        console().print(f"wrote {count:,} rows to {out}", highlight=False, soft_wrap=True)


def merge(words: Words) -> None:
    """`merge a.db b.db store=all.db`: the rows of all, each once."""
    from quadsim.store import Store

    others = [Path(word) for word in words.bare]
    grammar.only(Words(keys=words.keys), ("store",), "merge a.db b.db store=all.db")
    if "store" not in words.keys or not others:
        raise InputError("merge needs stores, and where they go: write for example merge a.db b.db store=all.db")
    target = Path(words.keys["store"])
    for other in others:
        if _same(other, target):
            raise InputError(f"{other} is the store that the others go into: name it once, as store=")
        Store(other).close()  # raises where it is none; all of them are looked at before anything is written
    told = []
    with Store.writing(target) as store:
        for other in others:
            with Store(other) as one:
                new, differ = store.merge(one)
                told.append({"store": str(other), "rows": len(one), "new": new, "differ": differ})
        total = len(store)
    if "--json" in words.flags:
        print(json.dumps({"store": str(target), "rows": total, "merged": told}, indent=2, ensure_ascii=False))
        return
    screen = console()
    for row in told:
        but = f"; {row['differ']:,} are there with another result, which was kept" if row["differ"] else ""
        screen.print(f"{row['store']}: {row['rows']:,} rows, {row['new']:,} new{but}", highlight=False)
    screen.print(f"{target}: {total:,} rows", highlight=False)


def _same(one: Path, other: Path) -> bool:
    """Whether two names are of one file."""
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except (OSError, ValueError):  # one of them is not there
        return False


def read_store(words: Words, keys: tuple[str, ...], example: str, others: bool = False) -> Path:
    """The store, as a key or as a bare word."""
    bare = list(words.bare)
    if bare and "store" not in words.keys:
        words.keys["store"] = bare.pop(0)
    if not others:
        grammar.only(Words(bare=bare, keys=words.keys), ("store", *keys), example)
    elif bare:
        raise InputError(f"{bare[0]!r} is not key=value: write for example {example}")
    if "store" not in words.keys:
        raise InputError(f"which store? write for example {example}")
    return Path(words.keys["store"])


def _written(out: Path, fill: Callable[[Path], int]) -> int:
    """Fill a file beside its place, and move it there when it is whole."""
    try:
        if out.is_dir():
            raise InputError(f"out={shown(str(out))} is a folder: give a file")
        out.exists()  # raises where the name is too long
        if "\0" in str(out):
            raise ValueError("a NUL in the name")
        handle, name = tempfile.mkstemp(prefix=".draft-", suffix=out.suffix, dir=out.absolute().parent)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"out={shown(str(out))} cannot be written ({reason})") from None
    os.close(handle)
    draft = Path(name)
    try:
        count = fill(draft)
        os.chmod(draft, 0o644)
        os.replace(draft, out)
        return count
    finally:
        draft.unlink(missing_ok=True)


def _bundles(store: Store, columns: list[str]) -> Iterator[list[tuple]]:
    import itertools

    from quadsim.sweeps.axes import RESULTS

    rows = store.rows(columns, [name for name in columns if name not in RESULTS])
    while bundle := list(itertools.islice(rows, AT_ONCE)):
        yield bundle


def _csv(store: Store, path: Path) -> int:
    from quadsim.sweeps.axes import ordered

    columns, count = ordered(store.columns()), 0
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for bundle in _bundles(store, columns):
            writer.writerows(bundle)
            count += len(bundle)
    return count


def _parquet(store: Store, path: Path) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("a .parquet file needs pyarrow: pip install 'quadsim[parquet]', or write a .csv") from None
    from quadsim.sweeps.axes import ordered

    columns, count = ordered(store.columns()), 0
    kinds = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string()}
    schema = pa.schema([(name, kinds[store.kind(name)]) for name in columns])
    with pq.ParquetWriter(path, schema) as writer:
        for bundle in _bundles(store, columns):
            values = dict(zip(columns, zip(*bundle, strict=True), strict=True))
            arrays = [
                pa.array([None if v is None else str(v) if pa.types.is_string(field.type) else v
                          for v in values[field.name]], type=field.type) for field in schema
            ]  # fmt: skip
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(bundle)
    return count
