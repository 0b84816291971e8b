"""`reproduce`: the published figures made anew, each with its verdicts; the README's tables kept in step."""

from __future__ import annotations

import json
import multiprocessing
import os
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from quadsim import checks, grammar
from quadsim.checks import InputError
from quadsim.grammar import Words
from quadsim.verbs.screen import console, counter, duration

BLAS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
KEYS = ("fast", "out", "redraw", "workers")
STYLES = {"reproduced": "green", "differs": "yellow", "cannot be checked": "cyan"}


def reproduce(words: Words) -> int:
    """`reproduce`, `reproduce zhang_four_cases fast=true`: what was published beside what came out; exit code 1 if a
    script failed, or if a verdict is not the one that is recorded in figures/."""
    names, words.bare = words.bare, []
    keys = grammar.only(words, KEYS, "reproduce zhang_four_cases fast=true")
    fast, redraw = (grammar.flag(key, keys.get(key, "false")) for key in ("fast", "redraw"))
    from quadsim import reproduction, results
    from quadsim.solver import cores

    workers = checks.whole("workers", grammar.whole("workers", keys.get("workers", str(cores()))), at_least=1)
    paths = reproduction.scripts(names)
    home = paths[0].resolve().parents[1] / "figures"
    folder = Path(keys["out"]) if "out" in keys else home / "fast" if fast else home
    results.check_folder(folder)
    before = {one["name"]: one for one in reproduction.recorded(home)}
    began, made, failed = time.perf_counter(), [], []
    with counter("figures", len(paths)) as show:
        for path, outcome, seconds in _outcomes(paths, folder, fast, redraw, min(workers, len(paths))):
            if isinstance(outcome, str):
                failed.append(path.stem)
                print(f"quadsim: {path.name} failed: {outcome}", file=sys.stderr, flush=True)
            else:
                made.append(outcome)
                if "--json" not in words.flags:
                    _show(outcome, seconds)
            show(len(made) + len(failed), path.stem)
    made.sort(key=lambda one: [path.stem.replace("_", "-") for path in paths].index(one["name"]))
    changed = [sentence for one in made for sentence in _changes(before.get(one["name"]), one)]
    readme = home.parent / "README.md"
    if folder.resolve() == home and readme.is_file() and made:
        _keep_in_step(readme, reproduction.recorded(home))
    if "--json" in words.flags:
        print(json.dumps({"figures": made, "failed": failed, "changed": changed}, indent=2, ensure_ascii=False))
    else:
        screen = console()
        took = duration(time.perf_counter() - began)
        told = f"{len(made)} of {len(paths)} figures in {took}: {reproduction.count(made)}" if made else "no figure"
        screen.print(f"{told}; in {folder}", highlight=False, soft_wrap=True)
    for sentence in changed:
        print(f"quadsim: not as recorded: {sentence}", file=sys.stderr)
    return 1 if failed or changed else 0


def _outcomes(
    paths: list[Path], folder: Path, fast: bool, redraw: bool, workers: int
) -> Iterator[tuple[Path, dict[str, Any] | str, float]]:
    """Each script, what is known of its figure or what went wrong, and its seconds; so many processes at a time."""
    from quadsim import reproduction

    if workers == 1:
        for path in paths:
            yield path, *_make(path, folder, fast, redraw)
        return
    spawn = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    with ProcessPoolExecutor(workers, spawn, _settle) as pool:
        try:
            order = sorted(paths, key=lambda path: path.stem not in reproduction.LONG)  # so that none is left alone
            waiting = {pool.submit(_make, path, folder, fast, redraw): path for path in order}
            for done in as_completed(waiting):
                try:
                    yield waiting[done], *done.result()
                except BrokenProcessPool:
                    yield waiting[done], "its process was ended, perhaps for want of memory", 0.0
        except BaseException:  # Ctrl-C above all: leaving the pool waits for its processes
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _make(path: Path, folder: Path, fast: bool, redraw: bool) -> tuple[dict[str, Any] | str, float]:
    """One script's figure, or what went wrong; and how long it took."""
    from quadsim import reproduction

    began = time.perf_counter()
    command = shlex.join(["python", f"experiments/{path.name}", *(["fast=true"] if fast else [])])
    outcome: dict[str, Any] | str
    try:
        outcome = reproduction.load(path).make(folder, command, fast=fast, redraw=redraw)
    except InputError as error:
        outcome = str(error)
    except Exception as error:  # of whatever kind: the other figures are not to suffer
        if os.environ.get("QUADSIM_DEBUG"):
            traceback.print_exc()
        line = traceback.extract_tb(error.__traceback__)[-1]
        outcome = f"{type(error).__name__}: {error} ({Path(line.filename).name}:{line.lineno})"
    return outcome, time.perf_counter() - began


def _settle() -> None:
    """What a worker does first, before numpy is imported."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    for name in BLAS:  # processes that each take all cores for small matrices are slower than one
        os.environ.setdefault(name, "1")


def _changes(before: dict[str, Any] | None, now: dict[str, Any]) -> list[str]:
    """Verdicts that are not the recorded ones."""
    if before is None:
        return []
    then = {one["what"]: one["verdict"] for one in before["checks"]}
    return [
        f"{now['name']}, {one['what']}: {one['verdict']}, was: {then[one['what']]}"
        for one in now["checks"]
        if then.get(one["what"], one["verdict"]) != one["verdict"]
    ]


def _keep_in_step(readme: Path, made: list[dict[str, Any]]) -> None:
    from quadsim import reproduction

    text = readme.read_text(encoding="utf-8")
    anew = reproduction.in_step(text, made)
    if anew != text:
        draft = readme.with_suffix(".md.draft")
        draft.write_text(anew, encoding="utf-8")
        os.replace(draft, readme)


def _show(made: dict[str, Any], seconds: float) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    screen = console()
    where = f" (arXiv {made['arxiv']})" if made["arxiv"] else ""
    screen.print(f"{made['name']}: {made['source']}{where}, {duration(seconds)}", style="bold", highlight=False)
    shown = Table("", "published", "came out", "verdict", box=box.SIMPLE_HEAD)
    for one in made["checks"]:
        verdict = Text(one["verdict"], style=STYLES[one["verdict"]]).append(
            f": {one['why']}" if one["why"] else "", style="default"
        )
        shown.add_row(one["what"], one["published"], one["found"], verdict)
    screen.print(shown, highlight=False)
