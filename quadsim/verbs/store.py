"""`status`, `export`, `merge`: looking into a store, taking its rows out, bringing several together."""

from __future__ import annotations

import contextlib
import csv
import functools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import grammar
from quadsim.checks import InputError, shown
from quadsim.grammar import Words
from quadsim.store import StoreError, csv_cell, json_text, printable
from quadsim.verbs.screen import console

if TYPE_CHECKING:
    from quadsim.store import Store

AT_ONCE = 20_000  # rows
MAX_LINE_SHOWN = 1000  # characters of a line of status
MOST_LINE = 200  # of a line on standard error
MOST_REASONS = 5  # lines of a kind


def status(words: Words) -> int:
    """`status store=sweep.db`: its sweeps, how far each is, how its cells ended, which rows can be reused.

    Code that the store names is not loaded; rules= loads a user's rules, to check their rows too.
    """
    path = read_store(words, ("rules",), "status store=sweep.db")
    from quadsim.store import HALF, Store

    with Store(path) as store, store.snapshot():
        from quadsim import own
        from quadsim.sweeps.reuse import Progress, reuse

        for file in grammar.several("rules", words.keys["rules"]) if "rules" in words.keys else []:
            own.load(file)
        keys = store.keys()
        progress = Progress({key[:HALF] for key in keys})
        sweeps = []
        for one in store.sweeps():
            count, exact = progress.done(one)
            sweeps.append({**one, "done": count, "exact": exact})
        code = reuse(store)
        result: dict[str, Any] = {
            "store": str(path), "rows": len(store), "bytes": path.stat().st_size, "busy": store.busy,
            "status": _named(store.tally("status")), "optimizer": _named(store.tally("optimizer")),
            "reusable": code.reusable, "stale": code.stale, "unchecked": code.unknown, "sweeps": sweeps,
            "errors": _named(store.tally("error")), "checksums": store.checked, "damage": store.damage.facts(),
        }  # fmt: skip
        result["errors"].pop("none", None)
    if "--json" in words.flags:
        print(json_text(result, indent=2))
    else:
        _show_status(result)
    return tell_damage(store)


def _named(tally: dict[Any, int]) -> dict[str, int]:
    return {"none" if value is None else str(value): count for value, count in tally.items()}


def _show_status(result: dict[str, Any]) -> None:
    screen = console()

    def say(line: str, **how: Any) -> None:
        screen.print(printable(line, MAX_LINE_SHOWN), highlight=False, soft_wrap=True, **how)

    busy = ", being written to now" if result["busy"] else ""
    say(f"{result['store']}: {result['rows']:,} rows, {result['bytes'] / 1e6:.1f} MB{busy}")
    for name in ("status", "optimizer"):
        say(f"{name}: {', '.join(f'{count:,} {value}' for value, count in result[name].items()) or 'none'}")
    if result["rows"]:
        say(f"reusable: {result['reusable']:,} of {result['rows']:,} rows")
    for reason, count in list(result["stale"].items())[:MOST_REASONS]:
        say(f"to be computed again: {count:,} rows ({reason})")
    for reason, count in list(result["unchecked"].items())[:MOST_REASONS]:
        say(f"not checked: {count:,} rows ({reason})")
    if not result["checksums"]:
        say("schema 1: its rows have no checksums; the next sweep or merge into it adds them")
    for sentence, count in list(result["errors"].items())[:MOST_REASONS]:
        say(f"error: {count:,} × {sentence}")
    for one in result["sweeps"]:
        screen.print()
        say(one["command"] or "a sweep from Python", style="bold")
        when = f"began {one['began']}, " + (f"ended {one['ended']} UTC" if one["ended"] else "not ended (UTC)")
        if one["done"] is None:
            say(f"{one['cells']:,} cells planned; {when}")
        else:
            least = "" if one["exact"] else "at least "
            say(f"{least}{one['done']:,} of {one['cells']:,} cells done; {when}")


def tell_damage(store: Store) -> int:
    """Report what is damaged in a store on standard error; the exit code, 1 if anything is."""
    if not store.damage:
        return 0
    line = f"quadsim: {store.path} is damaged: {store.damage.sentence()}"
    print(printable(" ".join(line.split()), MOST_LINE), file=sys.stderr)
    return 1


def export(words: Words) -> int:
    """`export store=sweep.db out=rows.csv`: one row for each cell, in an order that depends on the cells alone.

    Rows that are damaged are left out, and named on standard error; the exit code is then 1.
    """
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
        told = {"store": str(path), "rows": count, "file": str(out), "damage": store.damage.facts()}
        print(json_text(told))
    else:
        console().print(printable(f"wrote {count:,} rows to {out}"), highlight=False, soft_wrap=True)
    return tell_damage(store)


def merge(words: Words) -> int:
    """`merge a.db b.db store=all.db`: the rows of all, each once; what is damaged is left out and named."""
    from quadsim.store import Store, is_there

    others = [Path(word) for word in words.bare]
    grammar.only(Words(keys=words.keys), ("store",), "merge a.db b.db store=all.db")
    if "store" not in words.keys or not others:
        raise InputError("merge needs stores, and where they go: write for example merge a.db b.db store=all.db")
    target = Path(words.keys["store"])
    is_there(target)  # raises where there can be no store
    for other in others:
        if _same(other, target):
            raise InputError(f"{other} is the store that the others go into: name it once, as store=")
    told, code = [], 0
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(Store(other)) for other in others]  # all of them, before anything is written
        unused = stack.enter_context(removed_if_unused(target))
        store = stack.enter_context(Store.writing(target))
        code |= tell_damage(store)
        for other, one in zip(others, opened, strict=True):
            try:
                new, differ = store.merge(one)
            except StoreError as error:
                if unused:  # nothing is kept of a store that is new
                    raise StoreError(f"{str(error).partition(';')[0]}: {target}") from error
                raise
            unused.clear()
            code |= tell_damage(one)
            told.append({"store": str(other), "rows": len(one), "new": new, "differ": differ,
                         "damage": one.damage.facts()})  # fmt: skip
        total = len(store)
    if "--json" in words.flags:
        print(json_text({"store": str(target), "rows": total, "merged": told}, indent=2))
        return code
    screen = console()
    for row in told:
        but = f"; {row['differ']:,} are there with another result, which was kept" if row["differ"] else ""
        line = f"{row['store']}: {row['rows']:,} rows, {row['new']:,} new{but}"
        screen.print(printable(line), highlight=False, soft_wrap=True)
    screen.print(printable(f"{target}: {total:,} rows"), highlight=False, soft_wrap=True)
    return code


@contextlib.contextmanager
def removed_if_unused(path: Path) -> Iterator[set[Path]]:
    """Remove a store that is made herein, and its folder if that is made herein too, unless the set is cleared."""
    beside = [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]
    new = [one for one in (*beside, path.parent) if not one.exists()]
    unused = set(new)
    try:
        yield unused
    finally:
        for one in new:
            with contextlib.suppress(OSError):
                if one in unused:
                    one.rmdir() if one.is_dir() else one.unlink()


def _same(one: Path, other: Path) -> bool:
    """Whether two names are of one file."""
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except (OSError, ValueError, RuntimeError):  # one of them is missing, or a loop of links
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
        if not out.absolute().parent.is_dir():
            raise InputError(f"out={shown(str(out))} cannot be written: there is no folder {shown(str(out.parent))}")
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
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(error.errno, error.strerror or str(error), str(out)) from None
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
        writer.writerow(map(csv_cell, columns))
        safe = functools.lru_cache(maxsize=2**16)(csv_cell)  # texts are few, and repeated in every row
        for bundle in _bundles(store, columns):
            writer.writerows([safe(v) if isinstance(v, str | bytes) else v for v in row] for row in bundle)
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
    schema = pa.schema([(printable(name), kinds[store.kind(name)]) for name in columns])
    with pq.ParquetWriter(path, schema) as writer:
        for bundle in _bundles(store, columns):
            arrays = [
                pa.array([None if v is None else printable(v) if pa.types.is_string(field.type) else v for v in values],
                         type=field.type) for field, values in zip(schema, zip(*bundle, strict=True), strict=True)
            ]  # fmt: skip
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(bundle)
    return count
