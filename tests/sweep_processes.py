"""Helpers that run the sweep command as a process, kill and interrupt it, and check its store afterwards."""

import csv
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from quadsim.cli import main as cli
from quadsim.sweeps.executors import run_in_worker
from quadsim.sweeps.store.database import CHECKSUM_COLUMN

PATIENCE = 120.0  # seconds to wait for an event, on a busy machine
COMMON = {"case": "3,4", "kappa": "10:1e6:log10", "optimizers": "gd,frozen-adam,heavy-ball,adam,signum"}
SHORT = {**COMMON, "seed": "0..3", "max_steps": "1e5"}  # 400 cells
FULL = {**COMMON, "seed": "0..19", "max_steps": "4e5"}  # 2,000 cells
SLOW = {**COMMON, "seed": "0..3", "max_steps": "4e5"}  # 400 cells that take some seconds: to be interrupted
POISON = 2  # the seed whose cells kill the process that runs them


def arguments_of(keys):
    return [f"{key}={value}" for key, value in keys.items()]


def begin(store, keys, *others):
    """Start the sweep command as the leader of a process group; its output goes to files beside the store."""
    line = [sys.executable, "-m", "quadsim", "sweep", *arguments_of(keys), f"store={store}", *others]
    with open(f"{store}.out", "w") as out, open(f"{store}.err", "w") as err:
        how = {"start_new_session": True, "cwd": Path(store).parent}
        return subprocess.Popen(line, stdout=out, stderr=err, **how)


@contextmanager
def begun(store, keys, *others):
    """The same as a context manager, which kills the process group on exit."""
    process = begin(store, keys, *others)
    try:
        yield process
    finally:
        kill_group(process)


def kill_group(process):
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)


def run(store, keys, *others):
    """Run the sweep command to its end, without errors; returns its JSON output."""
    with begun(store, keys, *others, "--json") as process:
        code = process.wait(PATIENCE)
    assert complaints(store) == []
    assert code == 0
    return json.loads(Path(f"{store}.out").read_text())


def complaints(store):
    """The lines on standard error that do not report progress."""
    lines = Path(f"{store}.err").read_text().splitlines()
    return [line for line in lines if " % of " not in line and " cells (" not in line and "expected" not in line]


def until(true, process=None):
    """Wait until a condition is true, while a process runs."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "timed out"
        assert process is None or process.poll() is None, f"the process ended with {process.returncode}"
        time.sleep(0.01)


def rows(store):
    """All rows of the file by key, read while others write; None if there is no table yet."""
    if not Path(store).exists() or not Path(store).stat().st_size:
        return None
    with closing(sqlite3.connect(f"{Path(store).absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as base:
        if not base.execute("SELECT count(*) FROM sqlite_master WHERE name = 'cells'").fetchone()[0]:
            return None
        cursor = base.execute("SELECT * FROM cells")
        names = [column[0] for column in cursor.description]
        read = [
            {k: v for k, v in zip(names, row, strict=True) if v is not None and k != CHECKSUM_COLUMN} for row in cursor
        ]
    return {row.pop("key"): row for row in read}


def many(store):
    return len(rows(store) or {})


def exported(store):
    """The table that the export command writes, without `seconds` and without rows that fail their checksum."""
    out = Path(f"{store}.csv")
    assert cli.main(["export", f"store={store}", f"out={out}", "--json"]) in (0, 1)
    with open(out, newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    dropped = head.index("seconds")
    return [line[:dropped] + line[dropped + 1 :] for line in (head, *lines)]


RESULTS = {
    "status", "steps_to_tol", "last_step", "loss", "grad_norm", "kappa_eff", "r", "js_distance", "predicted_rate",
    "measured_rate", "seconds", "error",
}  # fmt: skip


def differences(store, reference, kept=None):
    """Errors of a store, compared with one whose sweep ran undisturbed and with rows seen earlier (``kept``)."""
    ours, theirs = rows(store), rows(reference)
    plain = [{k: v for k, v in row.items() if k != "seconds"} for row in ours.values()]
    cells = [tuple(sorted((k, v) for k, v in row.items() if k not in RESULTS)) for row in plain]
    errors = []
    if theirs.keys() - ours.keys():
        errors.append(f"{len(theirs.keys() - ours.keys())} lost")
    if len(set(cells)) < len(cells):
        errors.append(f"{len(cells) - len(set(cells))} doubled")
    if ours.keys() - theirs.keys():
        errors.append(f"{len(ours.keys() - theirs.keys())} of no cell")
    if changed := [key for key, row in (kept or {}).items() if ours.get(key) != row]:
        errors.append(f"{len(changed)} changed")
    if exported(store) != exported(reference):
        errors.append("another table")
    return errors


def workers_of(pid):
    """The worker processes that a process has started."""
    workers = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        workers += [int(child) for child in children if "--multiprocessing-fork" in command_line_of(child)]
    return workers


def command_line_of(pid):
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def alone(process):
    """Whether all other processes of its group end within 20 seconds."""
    end = time.monotonic() + 20
    while left := in_group(process.pid):
        if time.monotonic() > end:
            print("left:", {pid: command_line_of(pid) for pid in left})
            return False
        time.sleep(0.05)
    return True


def in_group(group):
    """The running processes of a group, without its leader."""
    running = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, of_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of_group) == group and state not in "ZX" and int(folder.name) != group:
            running.append(int(folder.name))
    return running


def kill_workers(process, kills, seed, every=(0.3, 1.5), find=workers_of, ended=lambda: False):
    """Kill a random worker up to ``kills`` times, until the process ends; returns the number of kills."""
    chance, done = random.Random(seed), 0
    while done < kills and process.poll() is None and not ended():
        time.sleep(chance.uniform(*every))
        if workers := find(process.pid):
            try:
                os.kill(chance.choice(workers), signal.SIGKILL)
                done += 1
            except ProcessLookupError:
                continue
    return done


def end_at_poison(groups, keys, mark):
    """Run a chunk; if it contains the poisoned seed, kill the process."""
    if any(group.seed == POISON for group in groups):
        os.kill(os.getpid(), signal.SIGKILL)
    return run_in_worker(groups, keys, mark)


def check_poison(store, reference, grid, message):
    """Only the cells of the poisoned seed are errors; all others equal those of the reference."""
    ours, theirs = rows(store), rows(reference)
    assert ours.keys() == theirs.keys()
    assert len(ours) == grid.cells
    for key, row in ours.items():
        row.pop("seconds"), theirs[key].pop("seconds")
        if row["seed"] == POISON:
            assert (row["status"], row["error"]) == ("error", message)
            settings = {k: v for k, v in row.items() if k not in ("status", "error")}
            assert settings == {k: v for k, v in theirs[key].items() if k in settings}
        else:
            assert row == theirs[key]
