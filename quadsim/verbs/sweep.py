"""`sweep`: every combination of what the keys let vary, into a store; what is there already is not run again."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import checks, grammar
from quadsim.checks import InputError
from quadsim.grammar import Words
from quadsim.verbs.run import command, stem
from quadsim.verbs.screen import console, counter, duration

if TYPE_CHECKING:
    from quadsim.store import Store
    from quadsim.sweeps import Grid, Plan
    from quadsim.sweeps.places import Place

FOLDER = Path("figures")  # of stores that are not named
OWN_KEYS = ("store", "threads", "workers", "cluster", "limit", "retry")


def sweep(words: Words) -> int:
    """`sweep case=3,4 kappa=10:1e6:log25 seed=0..29`: the plan, progress, the store, a summary."""
    from quadsim.sweeps.axes import RESULTS
    from quadsim.sweeps.places import Lost

    keys = {key: text for key, text in words.keys.items() if key not in OWN_KEYS}
    if words.bare:
        raise InputError(f"{words.bare[0]!r} is not key=value: write for example sweep case=3,4 kappa=10:1e6:log25")
    if "out" in keys:
        raise InputError(f"out={keys['out']} is not for sweep: store= names its file, and plot and export take out=")
    from quadsim import results, sweeps
    from quadsim import store as stores

    limit = grammar.whole("limit", words.keys.get("limit", str(sweeps.LIMIT)))
    retry = grammar.flag("retry", words.keys.get("retry", "false"))
    grid = sweeps.Grid.read(keys, checks.whole("limit", limit, at_least=1))
    make = _place(words.keys, grid)
    grid.check()

    def plan_for(store: Store | None) -> Plan:
        return sweeps.plan(grid, store, workers=_workers(words.keys), retry=retry)

    path = Path(words.keys["store"]) if "store" in words.keys else _usual_path(keys)
    there = ("store" in words.keys or FOLDER.exists()) and stores.is_there(path)
    if "--dry-run" in words.flags:
        if not there:
            return _tell_plan(words, plan_for(None), path)
        with stores.Store(path, new=True) as store:
            return _tell_plan(words, plan_for(store), path)
    quiet, began = "--json" in words.flags, time.perf_counter()
    with contextlib.ExitStack() as stack:
        if "store" not in words.keys:
            FOLDER.mkdir(exist_ok=True)
        unused = stack.enter_context(_removed_if_unused(path, not there))
        store = stack.enter_context(stores.Store.writing(path, RESULTS))
        plan = plan_for(store)
        try:
            place = make() if make is not None and plan.done < grid.cells else None
            unused.clear()
            _show_plan(plan, path, sys.stderr if quiet else sys.stdout)
            with counter("cells", grid.cells, tenths=True, start=plan.done) as show:
                added = sweeps.run(
                    grid,
                    store,
                    place=place,
                    command=command("sweep", grid.keys),
                    versions=results.versions(),
                    retry=retry,
                    progress=lambda done, _: show(done),
                )
        except KeyboardInterrupt:
            return _stopped("interrupted", store, 130)
        except Lost as error:
            return _stopped(str(error), store, 1)
        result = _summary(grid, store, path) | {"computed": added, "seconds": time.perf_counter() - began}
    if quiet:
        print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _show(result, path)
    return 0


@contextlib.contextmanager
def _removed_if_unused(path: Path, new: bool) -> Iterator[set[Path]]:
    """A new store is removed in the end if it is still in the set: as where a cluster did not answer."""
    unused = {path} if new else set()
    try:
        yield unused
    finally:
        for one in unused:
            one.unlink(missing_ok=True)


def _usual_path(keys: dict[str, str]) -> Path:
    """Where rows go if no store is named: the same for the same keys, so that the same command continues."""
    from quadsim import results

    results.check_folder(FOLDER)
    return FOLDER / f"{stem('sweep', keys)}.db"


def _place(keys: dict[str, str], grid: Grid) -> Callable[[], Place] | None:
    from quadsim import sweeps

    counts = {key: grammar.whole(key, keys[key]) for key in ("threads", "workers") if key in keys}
    return sweeps.place(grid, cluster=keys.get("cluster"), **counts)


def _workers(keys: dict[str, str]) -> int | None:
    """How many run side by side, as far as the keys say."""
    local = keys.get("cluster", "").partition("local:")[2]
    counted = keys.get("threads") or keys.get("workers") or local
    return int(float(counted)) if counted else None


def _stopped(why: str, store: Store, code: int) -> int:
    print(
        f"quadsim: {why}; {len(store):,} rows are in {store.path}, and the same command continues", file=sys.stderr
    )  # fmt: skip
    return code


def _plan_words(plan: Plan, path: Path) -> list[str]:
    grid = plan.grid
    exact = plan.row()["engines"]["exact"]
    how = "all in closed form" if exact == grid.cells else f"{exact:,} in closed form, {grid.cells - exact:,} iterated"
    lines = [
        f"{grid.cells:,} cells ({how}): {_many(grid.problems.count, 'problem')} × {_many(len(grid.seeds), 'seed')}, "
        f"{grid.groups:,} groups of {len(grid.deck):,} that share a problem"
    ]
    for sentence, count in grid.left_out.items():
        lines.append(f"left out: {_many(count, 'combination')} ({sentence})")
    bound = "" if exact == grid.cells else "at most "
    left = f"{plan.done:,} are there, {grid.cells - plan.done:,} to do" if plan.done else "new cells"
    lines.append(f"store {path}: {left}, {bound}about {duration(plan.seconds)} expected")
    return lines


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _show_plan(plan: Plan, path: Path, stream: Any) -> None:
    for line in _plan_words(plan, path):
        print(line, file=stream, flush=True)


def _tell_plan(words: Words, plan: Plan, path: Path) -> int:
    """What a dry run shows: the plan, and that nothing was run."""
    if "--json" in words.flags:
        print(json.dumps({"store": str(path), **plan.row()}, indent=2, ensure_ascii=False, allow_nan=False))
        return 0
    _show_plan(plan, path, sys.stdout)
    print("nothing was run: leave out --dry-run to run it")
    return 0


def _summary(grid: Grid, store: Store, path: Path) -> dict[str, Any]:
    """How the cells of the grid ended, by optimizer and by what else is not a number; slopes where κ is swept."""
    from quadsim import plots
    from quadsim.sweeps.running import rows_of

    columns = store.columns()
    wanted = ["optimizer", "status", "steps_to_tol", "kappa", "predicted_rate", "tol", "js_distance", *grid.swept]
    frame = rows_of(grid, store, [name for name in dict.fromkeys(wanted) if name in columns])
    by = [name for name in grid.swept if name == "case" or frame[name].dtype == object]
    slopes = plots.slopes(frame, grid.swept) if "kappa" in grid.swept else None
    rows = []
    for names, part in frame.groupby(by or ["optimizer"], sort=False, dropna=False):
        known = dict(zip(by or ["optimizer"], names if isinstance(names, tuple) else (names,), strict=True))
        told = part["status"].value_counts()
        reached = part["steps_to_tol"].dropna() if "steps_to_tol" in part else part["status"][:0]
        row: dict[str, Any] = {**{key: _plain(value) for key, value in known.items()}, "cells": len(part)}
        row |= {str(status): int(count) for status, count in told.items()}
        row["median_steps"] = float(reached.median()) if len(reached) > len(part) / 2 else None
        if slopes is not None:
            ours = slopes
            for key, value in known.items():
                ours = ours[ours[key] == value] if key in ours else ours
            row["slope"] = float(ours["slope"].iloc[0]) if len(ours) == 1 and ours["slope"].notna().all() else None
        rows.append(row)
    return {"store": str(path), "cells": grid.cells, "groups": grid.groups, "rows": rows}


def _plain(value: Any) -> Any:
    return None if value is None or value != value else value.item() if hasattr(value, "item") else value


def _show(result: dict[str, Any], path: Path) -> None:
    from rich import box
    from rich.table import Table

    screen = console()
    table = Table(box=box.SIMPLE_HEAD)
    names = list(dict.fromkeys(name for row in result["rows"] for name in row))
    names = [*(name for name in names if name not in ("median_steps", "slope")),
             *(name for name in ("median_steps", "slope") if name in names)]  # fmt: skip
    for name in names:
        words = {"median_steps": "median steps", "slope": "slope in κ"}.get(name, name)
        table.add_column(words, justify="left" if name in ("optimizer", "case") else "right", no_wrap=True)
    for row in result["rows"]:
        table.add_row(*(_cell(name, row.get(name)) for name in names))
    screen.print(table)
    done = f"{result['computed']:,} cells computed in {duration(result['seconds'])}" if result["computed"] else (
        "nothing was left to compute"
    )  # fmt: skip
    screen.print(f"{done}; rows in {path}", highlight=False, soft_wrap=True)
    screen.print(f"draw it: python -m quadsim plot {path}", highlight=False, soft_wrap=True)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–" if name == "median_steps" else ""
    if name == "slope":
        return f"{value:.3f}"
    return f"{value:,.0f}" if name == "median_steps" else f"{value:,}" if isinstance(value, int) else str(value)
