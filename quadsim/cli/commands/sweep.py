"""Run every combination of the values of keys, into a store; cells with a row are not run again.

  python -m quadsim sweep case=3,4 kappa=10:1e6:log25 seed=0..29
  python -m quadsim sweep case=3 optimizers=adam adam.beta2=0.9,0.99 adam.lr=1e-4:1e-1:log13 store=adam.db
  python -m quadsim sweep case=3,4 batch=none,3 optimizers=sgd,adam max_steps=500 --dry-run

An axis is a,b,… or a:b:log25, a:b:lin21, 0..29; none leaves the key out; several numeric spectra are separated by a
semicolon. The same command continues a sweep that was interrupted. --dry-run shows the plan.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from quadsim import _progress, keys
from quadsim._format import counted
from quadsim.cli import arguments, fair, outputs, stores
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import counter, duration, table
from quadsim.cli.stores import MAX_LINE_SHOWN, MAX_REASONS, print_damage
from quadsim.keys import Key
from quadsim.sweeps.store.text import printable

if TYPE_CHECKING:
    from quadsim.sweeps.grid import Grid
    from quadsim.sweeps.runner import Plan
    from quadsim.sweeps.store.database import Store

FOLDER = Path("figures")  # of stores that are not named
MAX_ROWS_SHOWN = 40  # rows of a table on the screen
NOT_COUNTED = ("arrangement", "arrangements", "median_steps", "limit")  # columns
_WORKERS = {"at_least": 1, "at_most": 1024}
OWN_KEYS = keys.select(
    Key("store", "text", "the file of rows (named after the keys, in figures/)", shape="FILE.db"),
    Key("limit", "whole", "the most cells", default="1e6", bounds={"at_least": 1}),
    Key("retry", "flag", "run cells that failed before again", default="false"),
    Key("threads", "whole", "threads of this process (one for each core)", bounds=_WORKERS),
    Key("workers", "whole", "or processes", bounds=_WORKERS),
    Key("cluster", "text", "or a Dask cluster", shape="local:4|tcp://host:port|tls://host:port"),
)
KEYS = {**keys.select("problem", "measured", "run", keys.KEYS["seed"]._replace(several=True)), **OWN_KEYS}
SETTINGS = True
PARSE = False  # the other keys are axes
FLAGS = ("--dry-run",)


def main(line: CommandLine) -> int:
    from quadsim import _artifacts
    from quadsim.sweeps import runner
    from quadsim.sweeps.axes import RESULTS
    from quadsim.sweeps.executors import ExecutorLostError
    from quadsim.sweeps.grid import Grid
    from quadsim.sweeps.store.connection import store_exists
    from quadsim.sweeps.store.database import Store

    arguments.check_keys(line, KEYS, settings=True)
    arguments.parse(line, OWN_KEYS)
    values = line.values
    texts = {key: text for key, text in line.texts.items() if key not in OWN_KEYS}
    grid = Grid.read(texts, values["limit"])
    placement = {name: values[name] for name in ("threads", "workers", "cluster") if name in values}
    make_executor = runner.executor(grid, **placement)
    grid.check()

    def plan_for(store: Store | None) -> Plan:
        in_threads = "workers" not in values and "cluster" not in values
        starts = "processes" if "workers" in values else "threads"
        if values.get("cluster", "").startswith("local"):
            starts = "local cluster"
        return runner.plan(
            grid, store, workers=_workers(values), threads=in_threads, starts=starts, retry=values["retry"]
        )

    path = Path(values["store"]) if "store" in values else _default_path(texts)
    exists = ("store" in values or FOLDER.exists()) and store_exists(path)
    if "--dry-run" in line.flags:
        if not exists:
            return _print_plan(line, plan_for(None), path)
        with Store(path, new=True) as store:
            return _print_plan(line, plan_for(store), path) | print_damage(store)
    start = time.perf_counter()
    with contextlib.ExitStack() as stack:
        unused = stack.enter_context(stores.removed_if_unused(path))
        if "store" not in values:
            FOLDER.mkdir(exist_ok=True)
        store = stack.enter_context(Store.writing(path, RESULTS))
        print_damage(store)  # lost rows are computed again
        plan = plan_for(store)
        try:
            executor = make_executor() if make_executor is not None and plan.done < grid.cells else None
            unused.clear()
            _show_plan(plan, path, sys.stderr if line.json else sys.stdout)
            with counter("cells", grid.cells, tenths=True, start=plan.done) as show:
                added = runner.run(
                    grid,
                    store,
                    executor=executor,
                    command=outputs.command_line("sweep", grid.keys),
                    versions=_artifacts.versions(),
                    retry=values["retry"],
                    progress=lambda done, _: show(done),
                    task=show.task,  # type: ignore[attr-defined]
                )
        except (KeyboardInterrupt, ExecutorLostError) as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            reason = "interrupted" if interrupted else error
            kept = f"{len(store):,} rows are in {store.path}, and the same command continues"
            print(f"quadsim: {reason}; {kept}", file=sys.stderr)
            return 130 if interrupted else 1
        result = _summary(grid, store, path) | {"computed": added, "seconds": time.perf_counter() - start}
    by_origin = fair.labels_by_origin((cell.optimizer.label, cell.row["lr_from"]) for cell in grid.deck)
    result["lr_from"] = by_origin
    from quadsim.optimizers.lr_origin import is_unfair

    if is_unfair(by_origin):
        _mark_origins(result["rows"], ((cell.optimizer.name, cell.row["lr_from"]) for cell in grid.deck))
    outputs.report(
        line, result, lambda screen: _show(screen, result, path, fair.offer_compare(line, by_origin, len(grid.seeds)))
    )
    return 0


def _default_path(texts: dict[str, str]) -> Path:
    """The store if none is named: the same for the same keys, so that the same command continues."""
    from quadsim import _artifacts

    _artifacts.check_folder(FOLDER)
    return FOLDER / f"{outputs.stem('sweep', texts)}.db"


def _workers(values: dict[str, Any]) -> int | None:
    """The number of workers, if it is given."""
    local = values.get("cluster", "").partition("local:")[2]
    return values.get("threads") or values.get("workers") or (int(local) if local.isdigit() else None)


def _show_plan(plan: Plan, path: Path, stream: TextIO) -> None:
    grid = plan.grid
    exact = plan.row()["engines"]["closed-form"]
    compiled = grid.cells - exact
    engines = f"{exact:,} in closed form, {compiled:,} compiled" if compiled else "all in closed form"
    lines = [
        f"{grid.cells:,} cells ({engines}): {counted(grid.problems.count, 'problem')} × "
        f"{counted(len(grid.seeds), 'seed')}, {grid.groups:,} groups of {len(grid.deck):,} that share a problem"
    ]
    for reason, count in grid.left_out.items():
        lines.append(f"left out: {counted(count, 'combination')} ({reason})")
    left = f"{plan.done:,} are done, {grid.cells - plan.done:,} to do" if plan.done else "new cells"
    lines.append(f"store {path}: {left}, about {duration(plan.seconds)} expected")
    if plan.stale:
        reasons = "; ".join(plan.reasons[:MAX_REASONS])
        lines.append(f"{plan.stale:,} cells were computed by other code and are computed again ({reasons})")
    with _progress.hidden():
        for line in lines:
            print(printable(line, MAX_LINE_SHOWN), file=stream, flush=True)


def _print_plan(line: CommandLine, plan: Plan, path: Path) -> int:
    """The output of a dry run."""
    if line.json:
        print(outputs.to_json({"store": str(path), **plan.row()}))
    else:
        _show_plan(plan, path, sys.stdout)
        print("nothing was run but a sample, for its time: leave out --dry-run to run it")
    return 0


def _summary(grid: Grid, store: Store, path: Path) -> dict[str, Any]:
    """How the cells of each setting ended, with the median over its seeds; slopes if κ is swept."""
    from quadsim.plots.aggregate import arrangement_counts, fits, quartiles, settled
    from quadsim.sweeps.runner import rows_of

    frame = rows_of(grid, store, stores.columns_for_medians(store, *grid.swept))
    rows, names = settled(frame, [name for name in grid.swept if frame[name].nunique(dropna=False) > 1])
    by = rows.groupby(names, sort=False, dropna=False)
    group, settings = by.ngroup(), rows[names].drop_duplicates().reset_index(drop=True)
    settings["cells"] = by.size().to_numpy()
    for status in dict.fromkeys(rows["status"]):
        settings[status] = rows["status"].eq(status).groupby(group).sum()
    if "heterogeneity" in names and "arrangement" in rows:
        settings[["arrangement", "arrangements"]] = rows[["arrangement", "arrangements"]].groupby(group).max()
    result: dict[str, Any] = {"store": str(path), "cells": grid.cells, "groups": grid.groups}
    if "heterogeneity" in names:
        result["heterogeneity"] = arrangement_counts(rows)
    cells = settings["cells"]
    result["aggregated"] = {"over": "seed", "fewest": int(cells.min()), "most": int(cells.max())}
    settings["median_steps"] = settings["limit"] = None
    ran = rows[rows["status"] != "error"].reset_index(drop=True)
    if "steps_to_tol" in ran and len(ran):
        medians = quartiles(ran, names, "steps_to_tol")
        merged = settings[names].merge(medians, on=names, how="left")
        settings["median_steps"], settings["limit"] = merged["median"], merged["limit"]
        if "kappa" in names:
            result["slopes"] = outputs.records(fits(medians, "kappa"))
    result["rows"] = outputs.records(settings)
    return result


def _mark_origins(rows: list[dict[str, Any]], origins: Iterable[tuple[str, str]]) -> None:
    """Say in each row where its learning rate comes from, unless its optimizer has several origins: lr is an axis."""
    found: dict[str, set[str]] = {}
    for name, origin in origins:
        found.setdefault(name, set()).add(origin)
    for number, row in enumerate(rows):
        of = found.get(row["optimizer"], set())
        front = {key: row[key] for key in list(row)[: list(row).index("optimizer") + 1]}
        rows[number] = {**front, "lr_from": next(iter(of)) if len(of) == 1 else None, **row}


def _show(screen: Any, result: dict[str, Any], path: Path, offer: str) -> None:
    rows, low, high = result["rows"], result["aggregated"]["fewest"], result["aggregated"]["most"]
    seeds = f"{low:,} to {high:,} seeds" if low < high else counted(low, "seed")
    if len(rows) <= MAX_ROWS_SHOWN:
        screen.print(_table(rows))
        screen.print(f"median steps are over {seeds}, one row for each setting")
    else:
        screen.print(_table(_counts(rows)))
        screen.print(f"{len(rows):,} settings of {seeds}: plot and export show the medians of each")
    slopes = result.get("slopes", [])
    if any(row["slope"] is not None for row in slopes) and len(slopes) <= MAX_ROWS_SHOWN:
        screen.print(_table(slopes))
    if result.get("heterogeneity"):
        counts = "; ".join(
            "{values:,} values, {distinct:,} of {of:,}".format(**count) for count in result["heterogeneity"]
        )
        line = f"heterogeneity: {counts} distinct arrangements (a larger block_size has more)"
        screen.print(line, soft_wrap=True)
    if offer:
        screen.print(printable(offer, MAX_LINE_SHOWN), soft_wrap=True)
    done = "nothing was left to compute"
    if result["computed"]:
        done = f"{result['computed']:,} cells computed in {duration(result['seconds'])}"
    screen.print(f"{done}; rows in {path}", soft_wrap=True)
    screen.print(f"draw it: python -m quadsim plot {path}", soft_wrap=True)


def _counts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The counts of cells by how they ended, by case and optimizer."""
    import pandas as pd

    frame = pd.DataFrame(rows).assign(settings=1)
    by = [name for name in ("case", "optimizer", "lr_from") if name in frame]
    names = list(rows[0])
    summed = [name for name in names[names.index("cells") :] if name not in NOT_COUNTED]
    totals = frame.groupby(by, sort=False, dropna=False)[["settings", *summed]].sum()
    return outputs.records(totals.reset_index())


def _table(rows: list[dict[str, Any]]) -> Any:
    names = [name for name in rows[0] if name not in ("limit", "arrangements", "standard_error", "points")]
    headings = [
        {"median_steps": "median steps", "lr_from": "lr from", "slope": "slope in κ"}.get(name, printable(name))
        for name in names
    ]
    return table(
        headings, ([_cell(name, row) for name in names] for row in rows), left=("optimizer", "case", "lr_from")
    )


def _cell(name: str, row: dict[str, Any]) -> str:
    from quadsim.plots.aggregate import CONDITIONS

    value = row[name]
    if name == "median_steps" and value is None:
        limit = row.get("limit")
        return f"> {limit:,.0f}" if limit is not None else "diverged" if row.get("diverged") else "–"
    if value is None:
        return "none" if name in CONDITIONS else "–"
    if name == "arrangement":
        return f"{value} of {row['arrangements']}"
    digits = {"slope": ".3f", "median_steps": ",.0f"}.get(name, "," if isinstance(value, int) else ".6g")
    return format(value, digits) if isinstance(value, int | float) else printable(value)
