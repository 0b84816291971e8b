"""Merge stores: the rows of all, each once; damaged rows are left out and reported.

python -m quadsim merge a.db b.db store=all.db
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from quadsim._validation import InputError
from quadsim.cli import outputs
from quadsim.cli.arguments import CommandLine
from quadsim.cli.stores import print_damage, print_line, removed_if_unused, same_file
from quadsim.keys import Key, select

KEYS = select(Key("store", "text", "the store that the others go into", shape="all.db"))
NAMES = True


def main(line: CommandLine) -> int:
    from quadsim.sweeps.store.connection import StoreError, store_exists
    from quadsim.sweeps.store.database import Store
    from quadsim.sweeps.store.merge import merge as merge_stores

    paths = [Path(word) for word in line.names]
    if "store" not in line.values or not paths:
        raise InputError("merge needs stores, and where they go: write for example merge a.db b.db store=all.db")
    target = Path(line.values["store"])
    store_exists(target)  # raises if no store can be there
    for path in paths:
        if same_file(path, target):
            raise InputError(f"{path} is the store that the others go into: name it once, as store=")
    rows, code = [], 0
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(Store(path)) for path in paths]  # all, before anything is written
        for source in opened:
            source.check_current()
        unused = stack.enter_context(removed_if_unused(target))
        store = stack.enter_context(Store.writing(target))
        code |= print_damage(store)
        for path, source in zip(paths, opened, strict=True):
            try:
                new, differ = merge_stores(store, source)
            except StoreError as error:
                if unused:  # a new store is removed
                    raise StoreError(f"{str(error).partition(';')[0]}: {target}") from error
                raise
            unused.clear()
            code |= print_damage(source)
            counts = {"rows": len(source), "new": new, "differ": differ}
            rows.append({"store": str(path), **counts, "damage": source.damage.facts()})
        total = len(store)

    def show(screen: Any) -> None:
        for row in rows:
            text = f"{row['store']}: {row['rows']:,} rows, {row['new']:,} new"
            kept = f"; {row['differ']:,} are there with another result, which was kept" if row["differ"] else ""
            print_line(screen, text + kept)
        print_line(screen, f"{target}: {total:,} rows")

    outputs.report(line, {"store": str(target), "rows": total, "merged": rows}, show)
    return code
