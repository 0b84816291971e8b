"""Run every combination of the values of keys, into a store; cells with a row are not run again.

  python -m quadsim sweep case=3,4 kappa=10:1e6:log25 seed=0..29
  python -m quadsim sweep case=3 optimizers=adam adam.beta2=0.9,0.99 adam.lr=1e-4:1e-1:log13 store=adam.db
  python -m quadsim sweep case=3,4 batch=none,3 optimizers=sgd,adam max_steps=500 --dry-run

An axis is a,b,… or a:b:log25, a:b:lin21, 0..29; none leaves the key out; several numeric spectra are parted by a
semicolon. The same command continues a sweep that was interrupted. --dry-run shows the plan.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim.cli import arguments
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console, counter, duration
from quadsim.cli.outputs import command_line, stem
from quadsim.cli.stores import MAX_LINE_SHOWN, MAX_REASONS, print_damage, removed_if_unused
from quadsim.keys import Key
from quadsim.sweeps import store as stores

if TYPE_CHECKING:
    import pandas as pd

    from quadsim.sweeps import Grid, Plan
    from quadsim.sweeps.store import Store

FOLDER = Path("figures")  # of stores that are not named
_WORKERS = {"at_least": 1, "at_most": 1024}
OWN_KEYS = {
    key.name: key
    for key in (
        Key("store", "text", "the file of rows (named after the keys, in figures/)", shape="FILE.db"),
        Key("limit", "whole", "the most cells", default="1e6", bounds={"at_least": 1}),
        Key("retry", "flag", "run cells that failed before again", default="false"),
        Key("threads", "whole", "threads of this process (one for each core)", bounds=_WORKERS),
        Key("workers", "whole", "or processes", bounds=_WORKERS),
        Key("cluster", "text", "or a Dask cluster", shape="local:4|tcp://host:port|tls://host:port"),
    )
}
KEYS = {**keys.select("problem", "measured", "run"), **OWN_KEYS}
SETTINGS = True
PARSE = False  # the other keys are axes
FLAGS = ("--dry-run",)


def main(line: CommandLine) -> int:
    from quadsim import _artifacts, sweeps
    from quadsim.sweeps.axes import RESULTS
    from quadsim.sweeps.executors import ExecutorLostError

    arguments.check_keys(line, KEYS, settings=True)
    arguments.parse(line, OWN_KEYS)
    values = line.values
    texts = {key: text for key, text in line.texts.items() if key not in OWN_KEYS}
    grid = sweeps.Grid.read(texts, values["limit"])
    make = _executor(values, grid)
    grid.check()

    def plan_for(store: Store | None) -> Plan:
        return sweeps.plan(grid, store, workers=_workers(values), retry=values["retry"])

    path = Path(values["store"]) if "store" in values else _default_path(texts)
    exists = ("store" in values or FOLDER.exists()) and stores.store_exists(path)
    if "--dry-run" in line.flags:
        if not exists:
            return _print_plan(line, plan_for(None), path)
        with stores.Store(path, new=True) as store:
            return _print_plan(line, plan_for(store), path) | print_damage(store)
    start = time.perf_counter()
    with contextlib.ExitStack() as stack:
        unused = stack.enter_context(removed_if_unused(path))
        if "store" not in values:
            FOLDER.mkdir(exist_ok=True)
        store = stack.enter_context(stores.Store.writing(path, RESULTS))
        print_damage(store)  # lost rows are computed again
        plan = plan_for(store)
        try:
            executor = make() if make is not None and plan.done < grid.cells else None
            unused.clear()
            _show_plan(plan, path, sys.stderr if line.json else sys.stdout)
            with counter("cells", grid.cells, tenths=True, start=plan.done) as show:
                added = sweeps.run(
                    grid,
                    store,
                    executor=executor,
                    command=command_line("sweep", grid.keys),
                    versions=_artifacts.versions(),
                    retry=values["retry"],
                    progress=lambda done, _: show(done),
                )
        except KeyboardInterrupt:
            return _stopped("interrupted", store, 130)
        except ExecutorLostError as error:
            return _stopped(str(error), store, 1)
        result = _summary(grid, store, path) | {"computed": added, "seconds": time.perf_counter() - start}
    if line.json:
        print(stores.json_text(result, indent=2))
    else:
        _show(result, path)
    return 0


def _default_path(texts: dict[str, str]) -> Path:
    """The store if none is named: the same for the same keys, so that the same command continues."""
    from quadsim import _artifacts

    _artifacts.check_folder(FOLDER)
    return FOLDER / f"{stem('sweep', texts)}.db"


def _executor(values: dict[str, Any], grid: Grid) -> Callable[[], Any] | None:
    from quadsim import sweeps

    return sweeps.executor(grid, **{name: values[name] for name in ("threads", "workers", "cluster") if name in values})


def _workers(values: dict[str, Any]) -> int | None:
    """The number of workers, if it is given."""
    local = values.get("cluster", "").partition("local:")[2]
    return values.get("threads") or values.get("workers") or (int(local) if local.isdigit() else None)


def _stopped(reason: str, store: Store, code: int) -> int:
    print(
        f"quadsim: {reason}; {len(store):,} rows are in {store.path}, and the same command continues", file=sys.stderr
    )  # fmt: skip
    return code


def _plan_lines(plan: Plan, path: Path) -> list[str]:
    grid = plan.grid
    exact = plan.row()["engines"]["closed-form"]
    how = "all in closed form" if exact == grid.cells else f"{exact:,} in closed form, {grid.cells - exact:,} compiled"
    lines = [
        f"{grid.cells:,} cells ({how}): {_many(grid.problems.count, 'problem')} × {_many(len(grid.seeds), 'seed')}, "
        f"{grid.groups:,} groups of {len(grid.deck):,} that share a problem"
    ]
    for sentence, count in grid.left_out.items():
        lines.append(f"left out: {_many(count, 'combination')} ({sentence})")
    bound = "" if exact == grid.cells else "at most "
    left = f"{plan.done:,} are done, {grid.cells - plan.done:,} to do" if plan.done else "new cells"
    lines.append(f"store {path}: {left}, {bound}about {duration(plan.seconds)} expected")
    if plan.stale:
        reasons = "; ".join(plan.reasons[:MAX_REASONS])
        lines.append(f"{plan.stale:,} cells were computed by other code and are computed again ({reasons})")
    return [stores.printable(line, MAX_LINE_SHOWN) for line in lines]


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _show_plan(plan: Plan, path: Path, stream: Any) -> None:
    for line in _plan_lines(plan, path):
        print(line, file=stream, flush=True)


def _print_plan(line: CommandLine, plan: Plan, path: Path) -> int:
    """The output of a dry run."""
    if line.json:
        print(stores.json_text({"store": str(path), **plan.row()}, indent=2))
        return 0
    _show_plan(plan, path, sys.stdout)
    print("nothing was run: leave out --dry-run to run it")
    return 0


MAX_ROWS_SHOWN = 40  # rows of a table on the screen


def _summary(grid: Grid, store: Store, path: Path) -> dict[str, Any]:
    """How the cells of each setting ended, with the median over its seeds; slopes where κ is swept."""
    from quadsim.plots.aggregate import ORIGINS, arrangement_counts, fits, quartiles, settled
    from quadsim.sweeps.axes import RESULTS
    from quadsim.sweeps.runner import rows_of

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
        counts = "; ".join("{values:,} values, {distinct:,} of {of:,}".format(**one) for one in result["heterogeneity"])
        more = "a larger block_size has more"
        screen.print(f"heterogeneity: {counts} distinct arrangements ({more})", highlight=False, soft_wrap=True)
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
    from quadsim.plots.aggregate import CONDITIONS

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
