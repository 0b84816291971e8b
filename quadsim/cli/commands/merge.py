"""Merge stores: the rows of all, each once; damaged rows are left out and reported.

python -m quadsim merge a.db b.db store=all.db
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from quadsim._validation import InputError
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console
from quadsim.cli.stores import print_damage, removed_if_unused, same_file
from quadsim.keys import Key
from quadsim.sweeps.store import StoreError, json_text, printable

KEYS = {"store": Key("store", "text", "the store that the others go into", shape="all.db")}
NAMES = True


def main(line: CommandLine) -> int:
    from quadsim.sweeps.store import Store, store_exists
    from quadsim.sweeps.store import merge as merge_stores

    others = [Path(word) for word in line.names]
    if "store" not in line.values or not others:
        raise InputError("merge needs stores, and where they go: write for example merge a.db b.db store=all.db")
    target = Path(line.values["store"])
    store_exists(target)  # raises where there can be no store
    for other in others:
        if same_file(other, target):
            raise InputError(f"{other} is the store that the others go into: name it once, as store=")
    merged, code = [], 0
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(Store(other)) for other in others]  # all of them, before anything is written
        unused = stack.enter_context(removed_if_unused(target))
        store = stack.enter_context(Store.writing(target))
        code |= print_damage(store)
        for other, one in zip(others, opened, strict=True):
            try:
                new, differ = merge_stores(store, one)
            except StoreError as error:
                if unused:  # nothing is kept of a store that is new
                    raise StoreError(f"{str(error).partition(';')[0]}: {target}") from error
                raise
            unused.clear()
            code |= print_damage(one)
            merged.append({"store": str(other), "rows": len(one), "new": new, "differ": differ,
                         "damage": one.damage.facts()})  # fmt: skip
        total = len(store)
    if line.json:
        print(json_text({"store": str(target), "rows": total, "merged": merged}, indent=2))
        return code
    screen = console()
    for row in merged:
        but = f"; {row['differ']:,} are there with another result, which was kept" if row["differ"] else ""
        text = f"{row['store']}: {row['rows']:,} rows, {row['new']:,} new{but}"
        screen.print(printable(text), highlight=False, soft_wrap=True)
    screen.print(printable(f"{target}: {total:,} rows"), highlight=False, soft_wrap=True)
    return code
