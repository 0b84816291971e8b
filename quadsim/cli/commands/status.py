"""Describe a store: its sweeps, how far each is, how its cells ended, which rows can be reused.

  python -m quadsim status sweep.db
  python -m quadsim status store=sweep.db rules=mine.py    check the rows of user-defined rules too

Code that the store names is not loaded; rules= loads user-defined rules.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from quadsim import keys
from quadsim.cli import outputs
from quadsim.cli.arguments import CommandLine
from quadsim.cli.stores import MAX_REASONS, STORE_KEY, print_damage, print_line, store_path

KEYS = keys.select(STORE_KEY, keys.KEYS["rules"])
NAMES = True


def main(line: CommandLine) -> int:
    from quadsim.sweeps.store.database import Store
    from quadsim.sweeps.store.verify import KEY_HALF

    path = store_path(line)
    with Store(path) as store, store.snapshot():
        from quadsim.optimizers import from_keys
        from quadsim.sweeps.reuse import Progress, reuse

        from_keys.load_rules(line.values.get("rules", ()))
        stored = store.keys()
        progress = Progress({key[:KEY_HALF] for key in stored})
        sweeps = []
        for sweep in store.sweeps():
            done, exact = progress.done(sweep)
            sweeps.append({**sweep, "done": done, "exact": exact})
        code = reuse(store)
        result: dict[str, Any] = {
            "store": str(path),
            "rows": len(store),
            "bytes": path.stat().st_size,
            "busy": store.busy,
            **{column: _named(store.tally(column)) for column in ("status", "optimizer")},
            "reusable": code.reusable,
            "stale": code.stale,
            "unchecked": code.unknown,
            "sweeps": sweeps,
            "errors": _named(store.tally("error")),
            "checksums": store.checked,
            "damage": store.damage.facts(),
        }
        result["errors"].pop("none", None)
    outputs.report(line, result, lambda screen: _show(screen, result))
    return print_damage(store)


def _named(tally: dict[Any, int]) -> dict[str, int]:
    return {"none" if value is None else str(value): count for value, count in tally.items()}


def _show(screen: Any, result: dict[str, Any]) -> None:
    write = partial(print_line, screen)
    busy = ", being written to now" if result["busy"] else ""
    write(f"{result['store']}: {result['rows']:,} rows, {result['bytes'] / 1e6:.1f} MB{busy}")
    for name in ("status", "optimizer"):
        write(f"{name}: {', '.join(f'{count:,} {value}' for value, count in result[name].items()) or 'none'}")
    if result["rows"]:
        write(f"reusable: {result['reusable']:,} of {result['rows']:,} rows")
    for key, state in (("stale", "to be computed again"), ("unchecked", "not checked")):
        for reason, count in list(result[key].items())[:MAX_REASONS]:
            write(f"{state}: {count:,} rows ({reason})")
    if not result["checksums"]:
        write("schema 1: its rows have no checksums")
    for message, count in list(result["errors"].items())[:MAX_REASONS]:
        write(f"error: {count:,} × {message}")
    for sweep in result["sweeps"]:
        screen.print()
        write(sweep["command"] or "a sweep from Python", style="bold")
        when = f"began {sweep['began']}, " + (f"ended {sweep['ended']} UTC" if sweep["ended"] else "not ended (UTC)")
        cells = f"{sweep['cells']:,} cells planned"
        if sweep["done"] is not None:
            cells = f"{'' if sweep['exact'] else 'at least '}{sweep['done']:,} of {sweep['cells']:,} cells done"
        write(f"{cells}; {when}")
