"""`sweep`: every combination of what the keys let vary, into a store; cells with a row are not run again."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import checks, grammar
from quadsim import store as stores
from quadsim.checks import InputError
from quadsim.grammar import Words
from quadsim.verbs.run import command, stem
from quadsim.verbs.screen import console, counter, duration
from quadsim.verbs.store import MAX_LINE_SHOWN, MOST_REASONS, removed_if_unused, tell_damage

if TYPE_CHECKING:
    import pandas as pd

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
            return _tell_plan(words, plan_for(store), path) | tell_damage(store)
    quiet, began = "--json" in words.flags, time.perf_counter()
    with contextlib.ExitStack() as stack:
        unused = stack.enter_context(removed_if_unused(path))
        if "store" not in words.keys:
            FOLDER.mkdir(exist_ok=True)
        store = stack.enter_context(stores.Store.writing(path, RESULTS))
        tell_damage(store)  # what is lost is computed again
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
        print(stores.json_text(result, indent=2))
    else:
        _show(result, path)
    return 0


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
    if plan.stale:
        why = "; ".join(plan.reasons[:MOST_REASONS])
        lines.append(f"{plan.stale:,} cells are there by other code and are computed again ({why})")
    return [stores.printable(line, MAX_LINE_SHOWN) for line in lines]


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _show_plan(plan: Plan, path: Path, stream: Any) -> None:
    for line in _plan_words(plan, path):
        print(line, file=stream, flush=True)


def _tell_plan(words: Words, plan: Plan, path: Path) -> int:
    """What a dry run shows: the plan, and that nothing was run."""
    if "--json" in words.flags:
        print(stores.json_text({"store": str(path), **plan.row()}, indent=2))
        return 0
    _show_plan(plan, path, sys.stdout)
    print("nothing was run: leave out --dry-run to run it")
    return 0


MAX_ROWS_SHOWN = 40  # rows of a table on the screen


def _summary(grid: Grid, store: Store, path: Path) -> dict[str, Any]:
    """How the cells of each setting ended, with the median over its seeds; slopes where κ is swept."""
    from quadsim.plots.medians import ORIGINS, arrangement_counts, fits, quartiles, settled
    from quadsim.sweeps.axes import RESULTS
    from quadsim.sweeps.running import rows_of

    columns = store.columns()
    settings = [name for name in store.varying() if name not in RESULTS]
    wanted = [*grid.swept, *settings, "optimizer", "seed", "status", "steps_to_tol", "last_step", "predicted_rate",
              "tol", "js_distance", "arrangement", "arrangements", *ORIGINS.values()]  # fmt: skip
    frame = rows_of(grid, store, [name for name in dict.fromkeys(wanted) if name in columns])
    rows, names = settled(frame, [name for name in grid.swept if frame[name].nunique(dropna=False) > 1])
    by = rows.groupby(names, sort=False, dropna=False)
    group, table = by.ngroup(), rows[names].drop_duplicates().reset_index(drop=True)
    table["cells"] = by.size().to_numpy()
    for status in dict.fromkeys(rows["status"]):
        table[status] = rows["status"].eq(status).groupby(group).sum()
    if "heterogeneity" in names and "arrangement" in rows:
        table[["arrangement", "arrangements"]] = rows[["arrangement", "arrangements"]].groupby(group).max()
    result: dict[str, Any] = {"store": str(path), "cells": grid.cells, "groups": grid.groups}
    if "heterogeneity" in names:
        result["heterogeneity"] = arrangement_counts(rows)
    result["aggregated"] = {"over": "seed", "fewest": int(table["cells"].min()), "most": int(table["cells"].max())}
    table["median_steps"] = table["limit"] = None
    ran = rows[rows["status"] != "error"].reset_index(drop=True)
    if "steps_to_tol" in ran and len(ran):
        found = quartiles(ran, names, "steps_to_tol")
        ours = table[names].merge(found, on=names, how="left")
        table["median_steps"], table["limit"] = ours["median"], ours["limit"]
        if "kappa" in names:
            result["slopes"] = _records(fits(found, "kappa"))
    result["rows"] = _records(table)
    return result


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as plain values; None for what is absent."""
    plain = {str(name): [_plain(value) for value in table[name]] for name in table}
    return [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]


def _plain(value: Any) -> Any:
    import pandas as pd

    return None if pd.isna(value) else value.item() if hasattr(value, "item") else value


def _show(result: dict[str, Any], path: Path) -> None:
    screen = console()
    rows, low, high = result["rows"], result["aggregated"]["fewest"], result["aggregated"]["most"]
    seeds = f"{low:,} to {high:,} seeds" if low < high else _many(low, "seed")
    if len(rows) <= MAX_ROWS_SHOWN:
        screen.print(_table(rows))
        screen.print(f"median steps are over {seeds}, one row for each setting", highlight=False)
    else:
        screen.print(_table(_counts(rows)))
        screen.print(f"{len(rows):,} settings of {seeds}: plot and export show the medians of each", highlight=False)
    if any(row["slope"] is not None for row in result.get("slopes", [])) and len(result["slopes"]) <= MAX_ROWS_SHOWN:
        slopes = [{key: row[key] for key in row if key not in ("standard_error", "points")} for row in result["slopes"]]
        screen.print(_table(slopes))
    if result.get("heterogeneity"):
        told = "; ".join("{values:,} values, {distinct:,} of {of:,}".format(**one) for one in result["heterogeneity"])
        more = "a larger block_size has more"
        screen.print(f"heterogeneity: {told} distinct arrangements ({more})", highlight=False, soft_wrap=True)
    done = f"{result['computed']:,} cells computed in {duration(result['seconds'])}" if result["computed"] else (
        "nothing was left to compute"
    )  # fmt: skip
    screen.print(f"{done}; rows in {path}", highlight=False, soft_wrap=True)
    screen.print(f"draw it: python -m quadsim plot {path}", highlight=False, soft_wrap=True)


def _counts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many cells ended how, by case and optimizer: counts alone, no medians."""
    by = [name for name in ("case", "optimizer") if name in rows[0]]
    settings = list(rows[0])[: list(rows[0]).index("cells")]
    counted = [
        name for name in rows[0] if name not in (*settings, "arrangement", "arrangements", "median_steps", "limit")
    ]
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        one = found.setdefault(tuple(row[name] for name in by), {name: row[name] for name in by} | {"settings": 0})
        one["settings"] += 1
        for name in counted:
            one[name] = one.get(name, 0) + row[name]
    return list(found.values())


def _table(rows: list[dict[str, Any]]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    names = [name for name in rows[0] if name not in ("limit", "arrangements")]
    for name in names:
        heading = {"median_steps": "median steps", "slope": "slope in κ"}.get(name, stores.printable(name))
        table.add_column(heading, justify="left" if name in ("optimizer", "case") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(name, row) for name in names))
    return table


def _cell(name: str, row: dict[str, Any]) -> str:
    from quadsim.plots.medians import CONDITIONS

    value = row[name]
    if name == "median_steps" and value is None:
        limit = row.get("limit")
        return f"> {limit:,.0f}" if limit is not None else "diverged" if row.get("diverged") else "–"
    if value is None:
        return "none" if name in CONDITIONS else "–"
    if name == "slope":
        return f"{value:.3f}"
    if name == "arrangement":
        return f"{value} of {row['arrangements']}"
    if name == "median_steps":
        return f"{value:,.0f}"
    return (
        f"{value:,}"
        if isinstance(value, int)
        else f"{value:.6g}"
        if isinstance(value, float)
        else stores.printable(value)
    )
