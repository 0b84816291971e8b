"""Recompute the published figures, each with its verdicts.

  python -m quadsim reproduce                  all figures, into figures/
  python -m quadsim reproduce zhang_four_cases fast=true
  python -m quadsim reproduce four_cases_fairly measure=true     measure again what takes half an hour

The exit code is 1 if a script fails or a verdict is not the recorded one.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from quadsim._validation import InputError
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console, counter, duration, print_error, table
from quadsim.cli.outputs import to_json
from quadsim.keys import Key, select

BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
KEYS = select(
    Key("fast", "flag", "few draws, into figures/fast", default="false"),
    Key("redraw", "flag", "draw from the tables that are there", default="false"),
    Key("measure", "flag", "also measure what takes long; otherwise its recorded tables are used", default="false"),
    Key("workers", "whole", "processes (one for each core)", bounds={"at_least": 1}),
    Key("out", "text", "where figures go (figures)", shape="FOLDER"),
)
NAMES = True
STYLES = {"reproduced": "green", "differs": "yellow", "cannot be checked": "cyan"}
Outcome = tuple["dict[str, Any] | str", float]  # the record of a figure, or an error message; and the seconds


def main(line: CommandLine) -> int:
    fast = line.values["fast"]
    from quadsim import _artifacts
    from quadsim.engine.solver import cores
    from quadsim.reproduce import scripts
    from quadsim.reproduce.markdown import verdict_counts
    from quadsim.reproduce.records import read_records

    workers = line.values.get("workers") or cores()
    paths = scripts.find(line.names)
    homes = {path.resolve().parent.parent / "figures" for path in paths}
    if len(homes) > 1:
        raise InputError("the scripts are of different clones: reproduce those of one clone at a time")
    home = homes.pop()
    folder = Path(line.values.get("out", "figures/fast" if fast else "figures"))
    _artifacts.check_folder(folder)
    if fast and folder.resolve() == home:
        raise InputError(f"fast=true has too few draws for {folder}: leave out= away, or give another folder")
    before = {figure["name"]: figure for figure in read_records(home, skip_damaged=True)}
    began, done, failed = time.perf_counter(), {}, []
    if line.values["measure"] and line.values["redraw"]:
        raise InputError("measure=true measures and redraw=true does not: give one of them")
    options = {name: line.values[name] for name in ("fast", "redraw", "measure")}
    make = partial(_make, folder=folder, recorded=home, **options)
    with counter("figures", len(paths)) as show:
        for path, (outcome, seconds) in _outcomes(paths, make, min(workers, len(paths))):
            if isinstance(outcome, str):
                failed.append(path.stem)
                print_error(f"{path.name} failed: {outcome}")
            else:
                done[path] = outcome
                if not line.json:
                    _show(outcome, seconds)
            show(len(done) + len(failed), path.stem)
    made = [done[path] for path in paths if path in done]
    names = [figure["name"] for figure in made]
    twice = [name for name in names if names.count(name) > 1]
    changed = [change for figure in made for change in _changes(before.get(figure["name"], figure), figure)]
    if line.json:
        print(to_json({"figures": made, "failed": failed, "changed": changed}))
    else:
        took = duration(time.perf_counter() - began)
        summary = f"{len(made)} of {len(paths)} figures in {took}: {verdict_counts(made)}" if made else "no figure"
        console().print(f"{summary}; in {folder}", soft_wrap=True)
    for change in changed:
        print_error(f"not as recorded: {change}")
    if twice:
        print_error(f"two scripts make {twice[0]}: one has overwritten the other")
    return 1 if failed or changed or twice else 0


def _outcomes(paths: list[Path], make: Callable[..., Outcome], workers: int) -> Iterator[tuple[Path, Outcome]]:
    """Each script and its outcome, run in up to so many processes."""
    from quadsim.reproduce import scripts

    if workers == 1:
        for path in paths:
            yield path, make(path)
        return
    order = sorted(paths, key=lambda path: not scripts.is_slow(path))  # slow ones first
    suspects = []
    for path, outcome in _pooled(order, make, workers):
        if outcome is None:
            suspects.append(path)
        else:
            yield path, outcome
    for path in suspects:  # a worker died: run each script that it may have run in a process of its own
        for _, outcome in _pooled([path], make, 1):
            yield path, outcome or ("its process was ended, perhaps for want of memory", 0.0)


def _pooled(paths: list[Path], make: Callable[..., Outcome], workers: int) -> Iterator[tuple[Path, Outcome | None]]:
    """Each script and its outcome; None if the worker died."""
    from concurrent.futures import as_completed

    from quadsim._processes import ProcessPool, WorkerDiedError, exit_on_sigterm, unwind_on_sigterm

    with exit_on_sigterm(), ProcessPool(workers, _set_up_worker) as pool:
        waiting = {pool.submit(unwind_on_sigterm, partial(make, in_worker=True), path): path for path in paths}
        for done in as_completed(waiting):
            try:
                yield waiting[done], pool.result(done)
            except WorkerDiedError:
                yield waiting[done], None


def _make(path: Path, *, folder: Path, fast: bool, in_worker: bool = False, **options: Any) -> Outcome:
    """Run one script, with its output on standard error."""
    from quadsim.reproduce import scripts

    began = time.perf_counter()
    command = shlex.join(["python", f"experiments/{path.name}", *(["fast=true"] if fast else [])])
    outcome: dict[str, Any] | str
    try:
        with contextlib.redirect_stdout(sys.stderr):
            outcome = scripts.load(path).make(folder, command, fast=fast, **options)
    except InputError as error:
        outcome = str(error)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # continue with the other figures
        if isinstance(error, KeyboardInterrupt) and not in_worker:
            raise
        if os.environ.get("QUADSIM_DEBUG"):
            traceback.print_exc()
        line = traceback.extract_tb(error.__traceback__)[-1]
        outcome = f"{type(error).__name__}: {error} ({Path(line.filename).name}:{line.lineno})"
    return outcome, time.perf_counter() - began


def _set_up_worker() -> None:
    """Set one BLAS thread before numpy is imported: several processes with BLAS on all cores are slower than one."""
    for name in BLAS_VARIABLES:
        os.environ.setdefault(name, "1")


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Verdicts that differ from the recorded ones."""
    then = {check["what"]: check["verdict"] for check in before["checks"]}
    return [
        f"{now['name']}, {check['what']}: {check['verdict']}, was: {then[check['what']]}"
        for check in now["checks"]
        if then.get(check["what"], check["verdict"]) != check["verdict"]
    ]


def _show(made: dict[str, Any], seconds: float) -> None:
    from rich.text import Text

    screen = console()
    arxiv = f" (arXiv {made['arxiv']})" if made["arxiv"] else ""
    screen.print(f"{made['name']}: {made['source']}{arxiv}, {duration(seconds)}", style="bold")
    rows = []
    for check in made["checks"]:
        why = f": {check['why']}" if check["why"] else ""
        verdict = Text(check["verdict"], style=STYLES[check["verdict"]]).append(why, style="default")
        rows.append([check["what"], check["published"], check["measured"], verdict])
    columns = ("", "published", "measured", "verdict")
    screen.print(table(columns, rows, left=columns, wrap=columns))
