"""Describe a store: its sweeps, how far each is, how its cells ended, which rows can be reused.

  python -m quadsim status sweep.db
  python -m quadsim status store=sweep.db rules=mine.py    check the rows of a user's rules too

Code that the store names is not loaded; rules= loads a user's rules.
"""

from __future__ import annotations

from typing import Any

from quadsim import keys
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console
from quadsim.cli.stores import MAX_LINE_SHOWN, MAX_REASONS, STORE_KEY, print_damage, store_path
from quadsim.sweeps.store import json_text, printable

KEYS = {"store": STORE_KEY, **keys.select("rules")}
NAMES = True


def main(line: CommandLine) -> int:
    path = store_path(line)
    from quadsim.sweeps.store import KEY_HALF, Store

    with Store(path) as store, store.snapshot():
        from quadsim.optimizers import from_keys
        from quadsim.sweeps.reuse import Progress, reuse

        from_keys.load_rules(line.values.get("rules", ()))
        keys = store.keys()
        progress = Progress({key[:KEY_HALF] for key in keys})
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
    if line.json:
        print(json_text(result, indent=2))
    else:
        _show_status(result)
    return print_damage(store)


def _named(tally: dict[Any, int]) -> dict[str, int]:
    return {"none" if value is None else str(value): count for value, count in tally.items()}


def _show_status(result: dict[str, Any]) -> None:
    screen = console()

    def write(line: str, **options: Any) -> None:
        screen.print(printable(line, MAX_LINE_SHOWN), highlight=False, soft_wrap=True, **options)

    busy = ", being written to now" if result["busy"] else ""
    write(f"{result['store']}: {result['rows']:,} rows, {result['bytes'] / 1e6:.1f} MB{busy}")
    for name in ("status", "optimizer"):
        write(f"{name}: {', '.join(f'{count:,} {value}' for value, count in result[name].items()) or 'none'}")
    if result["rows"]:
        write(f"reusable: {result['reusable']:,} of {result['rows']:,} rows")
    for reason, count in list(result["stale"].items())[:MAX_REASONS]:
        write(f"to be computed again: {count:,} rows ({reason})")
    for reason, count in list(result["unchecked"].items())[:MAX_REASONS]:
        write(f"not checked: {count:,} rows ({reason})")
    if not result["checksums"]:
        write("schema 1: its rows have no checksums; the next sweep or merge into it adds them")
    for sentence, count in list(result["errors"].items())[:MAX_REASONS]:
        write(f"error: {count:,} × {sentence}")
    for one in result["sweeps"]:
        screen.print()
        write(one["command"] or "a sweep from Python", style="bold")
        when = f"began {one['began']}, " + (f"ended {one['ended']} UTC" if one["ended"] else "not ended (UTC)")
        if one["done"] is None:
            write(f"{one['cells']:,} cells planned; {when}")
        else:
            least = "" if one["exact"] else "at least "
            write(f"{least}{one['done']:,} of {one['cells']:,} cells done; {when}")
