"""`reproduce`: the published figures made anew, each with its verdicts; the README's tables kept in step."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shlex
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadsim import checks, grammar
from quadsim._signals import deaf
from quadsim.checks import InputError
from quadsim.grammar import Words
from quadsim.verbs.screen import console, counter, duration

BLAS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
KEYS = ("fast", "out", "redraw", "workers")
STYLES = {"reproduced": "green", "differs": "yellow", "cannot be checked": "cyan"}
Outcome = tuple["dict[str, Any] | str", float]  # what is known of a figure, or what went wrong; and the seconds


@dataclass(frozen=True)
class Task:
    """Where figures go, and how they are made."""

    folder: Path
    fast: bool
    redraw: bool


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
    homes = {path.resolve().parent.parent / "figures" for path in paths}
    if len(homes) > 1:
        raise InputError("the scripts are of different clones: reproduce those of one at a time")
    home = homes.pop()
    folder = Path(keys.get("out", "figures/fast" if fast else "figures"))
    results.check_folder(folder)
    if fast and folder.resolve() == home:
        raise InputError(f"fast=true has too few draws for {folder}: leave out= away, or give another folder")
    before = {one["name"]: one for one in reproduction.recorded(home, damaged=True)}
    began, done, failed = time.perf_counter(), {}, []
    with counter("figures", len(paths)) as show:
        for path, (outcome, seconds) in _outcomes(paths, Task(folder, fast, redraw), min(workers, len(paths))):
            if isinstance(outcome, str):
                failed.append(path.stem)
                _complain(f"{path.name} failed: {outcome}")
            else:
                done[path] = outcome
                if "--json" not in words.flags:
                    _show(outcome, seconds)
            show(len(done) + len(failed), path.stem)
    made = [done[path] for path in paths if path in done]
    twice = [one["name"] for one in made if [other["name"] for other in made].count(one["name"]) > 1]
    changed = [sentence for one in made for sentence in _changes(before.get(one["name"]), one)]
    if "--json" in words.flags:
        print(json.dumps({"figures": made, "failed": failed, "changed": changed}, indent=2, ensure_ascii=False))
    else:
        took = duration(time.perf_counter() - began)
        told = f"{len(made)} of {len(paths)} figures in {took}: {reproduction.count(made)}" if made else "no figure"
        console().print(f"{told}; in {folder}", highlight=False, soft_wrap=True)
    for sentence in changed:
        _complain(f"not as recorded: {sentence}")
    if twice:
        _complain(f"two scripts make {twice[0]}: one has overwritten the other")
    kept = True
    in_clone = folder.resolve() == home and Path.cwd() == home.parent  # elsewhere, nothing outside `folder` is written
    if in_clone and {one["name"].replace("-", "_") for one in made} & set(reproduction.ORDER):
        kept = _keep_in_step(home.parent / "README.md", reproduction.recorded(home, damaged=True))
    return 1 if failed or changed or twice or not kept else 0


def _complain(sentence: str) -> None:
    print(checks.PREFIX + checks.one_line(sentence), file=sys.stderr, flush=True)


def _outcomes(paths: list[Path], task: Task, workers: int) -> Iterator[tuple[Path, Outcome]]:
    """Each script and what came of it; so many processes at a time."""
    from quadsim import reproduction

    if workers == 1:
        for path in paths:
            yield path, _make(path, task)
        return
    order = sorted(paths, key=lambda path: path.stem not in reproduction.LONG)  # long ones are not left to the end
    suspects = []
    for path, outcome in _pooled(order, task, workers):
        if outcome is None:
            suspects.append(path)
        else:
            yield path, outcome
    for path in suspects:  # a process was ended: which of those that ran is to blame shows in processes of their own
        for _, outcome in _pooled([path], task, 1):
            yield path, outcome or ("its process was ended, perhaps for want of memory", 0.0)


def _pooled(paths: list[Path], task: Task, workers: int) -> Iterator[tuple[Path, Outcome | None]]:
    """Each script and what came of it; None where the process was ended."""
    spawn = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    with _ends_by_signals(), ProcessPoolExecutor(workers, spawn, _settle) as pool:
        try:
            with deaf():
                waiting = {pool.submit(_make, path, task, in_worker=True): path for path in paths}
            for done in as_completed(waiting):
                try:
                    yield waiting[done], done.result()
                except BrokenProcessPool:
                    yield waiting[done], None
        except BaseException:  # Ctrl-C above all: leaving the pool waits for its processes
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


class _Ended(BaseException):
    """A worker was told to end: what it has begun to write is tidied up on the way out."""


def _make(path: Path, task: Task, in_worker: bool = False) -> Outcome:
    """One script's figure, or what went wrong; and how long it took. What it prints goes to standard error."""
    from quadsim import reproduction

    began = time.perf_counter()
    command = shlex.join(["python", f"experiments/{path.name}", *(["fast=true"] if task.fast else [])])
    outcome: dict[str, Any] | str
    try:
        with contextlib.redirect_stdout(sys.stderr):
            outcome = reproduction.load(path).make(task.folder, command, fast=task.fast, redraw=task.redraw)
    except InputError as error:
        outcome = str(error)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # the other figures are not to suffer
        if isinstance(error, KeyboardInterrupt) and not in_worker:
            raise
        if os.environ.get("QUADSIM_DEBUG"):
            traceback.print_exc()
        line = traceback.extract_tb(error.__traceback__)[-1]
        outcome = f"{type(error).__name__}: {error} ({Path(line.filename).name}:{line.lineno})"
    except _Ended:
        os._exit(143)
    return outcome, time.perf_counter() - began


def _settle() -> None:
    """What a worker does first, before numpy is imported."""

    def end(*_: object) -> None:
        raise _Ended

    def follow() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=follow, daemon=True).start()  # a parent that was killed is not outlived
    for name in BLAS:  # processes that each take all cores for small matrices are slower than one
        os.environ.setdefault(name, "1")


@contextlib.contextmanager
def _ends_by_signals() -> Iterator[None]:
    """To be ended (SIGTERM, SIGHUP) is an exit like any other, which takes the workers along."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    kept = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


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


def _keep_in_step(readme: Path, made: list[dict[str, Any]]) -> bool:
    """Make the README's generated parts anew; whether that could be done."""
    from quadsim import reproduction, results

    if not readme.is_file() or not made:
        return True
    try:
        readme = readme.resolve()
        text = readme.read_bytes().decode()
        lines = "\r\n" if "\r\n" in text else "\n"
        anew = reproduction.in_step(text.replace("\r\n", "\n"), made).replace("\n", lines)
        if anew != text:
            results.write_text(readme, anew)
        return True
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or markers that are not as they should be
        _complain(f"{readme.name} could not be kept in step: {getattr(error, 'strerror', None) or error}")
        return False


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
