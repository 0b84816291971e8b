"""A sweep that is killed, interrupted or run twice: no row is lost or duplicated, and the same command continues."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from sweep_processes import (
    FULL,
    PATIENCE,
    POISON,
    SHORT,
    SLOW,
    alone,
    arguments_of,
    begun,
    check_poison,
    complaints,
    differences,
    end_at_poison,
    kill_group,
    kill_workers,
    many,
    rows,
    run,
    until,
    workers_of,
)

from quadsim.cli import main as cli
from quadsim.sweeps import runner
from quadsim.sweeps.executors import ProcessExecutor, run_in_worker
from quadsim.sweeps.grid import Grid
from quadsim.sweeps.store.database import Store

pytestmark = pytest.mark.slow


def kill_again_and_again(folder, keys, kills, seed, *others):
    """Kill the command repeatedly at random instants, then let it finish; the stage that it had reached each time."""
    chance = random.Random(seed)
    peace, store = folder / "peace.db", folder / "kills.db"
    began = time.monotonic()
    cells = run(peace, keys, *others)["cells"]
    whole = time.monotonic() - began
    began = time.monotonic()
    assert run(peace, keys, *others)["computed"] == 0
    around = time.monotonic() - began  # what a run takes that has nothing to do
    kept, where = {}, []
    while len(where) < kills:
        # As long as a run of what is left takes; early ones shorter, so that there is something left for later ones.
        left = (whole - around) * (cells - len(kept)) / cells * min(1, 8 / (kills - len(where)))
        last = len(where) >= 4 * kills // 5 and len(kept) < cells  # the others hit runs that have nothing to do but end
        with begun(store, keys, *others) as process:
            try:
                process.wait(PATIENCE if last else chance.uniform(0, around + left))
            except subprocess.TimeoutExpired:
                assert not last
                kill_group(process)
                now = rows(store)
                where.append(phase(store, kept, now or {}, cells))
            else:
                assert process.returncode == 0, complaints(store)
                now = rows(store)
                assert len(now) == cells
        assert all((now or {}).get(key) == row for key, row in kept.items())
        assert complaints(store) == []
        kept = now or {}
    assert run(store, keys, *others)["computed"] == cells - len(kept)
    assert len(rows(store)) == cells
    assert differences(store, peace, kept) == []
    return where


PHASES = ("starting", "beginning", "running", "ending")


def phase(store, before, now, cells):
    """The stage at which a process was killed, from its plan and its rows."""
    if "expected" not in Path(f"{store}.out").read_text():
        return "starting"
    return "ending" if len(now) == cells else "running" if len(now) > len(before) else "beginning"


@pytest.mark.parametrize("others", [(), ("workers=2",)], ids=["threads", "workers"])
def test_four_kills_cost_nothing_but_time(tmp_path, others):
    assert len(kill_again_and_again(tmp_path, SHORT, 4, 20, *others)) == 4


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("others", [(), ("workers=2",)], ids=["threads", "workers"])
def test_fifty_kills_cost_nothing_but_time(tmp_path, others, record_property):
    where = kill_again_and_again(tmp_path, FULL, 50, 21, *others)
    counts = {name: where.count(name) for name in PHASES}
    record_property("kills", counts)
    print(counts)
    assert all(counts.values())


def test_the_check_notices_what_is_lost_doubled_or_changed(tmp_path):
    keys = {"case": "3,4", "kappa": "10,100", "optimizers": "gd,adam", "seed": "0..1", "max_steps": "1000"}
    store = tmp_path / "good.db"
    assert cli.main(["sweep", *arguments_of(keys), f"store={store}", "--json"]) == 0
    good = rows(store)
    assert differences(store, store, good) == []

    def tampered(name, statement):
        with Store(store):  # none of its rows is in a journal that the copy would not have
            pass
        copy = tmp_path / f"{name}.db"
        with closing(sqlite3.connect(store)) as base, closing(sqlite3.connect(copy)) as other:
            base.backup(other)
            other.execute(statement)
            other.commit()
        return differences(copy, store, good)

    one = "(SELECT min(key) FROM cells)"
    others = ", ".join(f'"{name}"' for name in Store(store).columns())
    assert tampered("same", "UPDATE cells SET seconds = seconds") == []
    assert tampered("lost", f"DELETE FROM cells WHERE key = {one}") == [
        "1 lost", "1 changed", "another table",
    ]  # fmt: skip
    twice = f"INSERT INTO cells (key, {others}) SELECT x'00', {others} FROM cells WHERE key = {one}"
    assert tampered("doubled", twice) == ["1 doubled", "1 of no cell"]
    changed = f"UPDATE cells SET loss = loss * (1 + 3e-16) WHERE key = {one}"  # the last bit
    assert tampered("changed", changed) == ["1 changed", "another table"]
    again = f"UPDATE cells SET seconds = seconds * 2 WHERE key = {one}"
    assert tampered("computed again", again) == ["1 changed", "another table"]


STATEMENTS = """
import os, signal, sqlite3, sys
import quadsim as qs
from quadsim.cli import main as cli
from quadsim.sweeps.executors import ThreadExecutor
from sweep_processes import rows

keys = dict(case=3, kappa=[10, 100], optimizers=["gd", "frozen-adam"], threads=1)
path, real = sys.argv[1], sqlite3.connect
ThreadExecutor.chunk_seconds = 0.005  # chunks of a cell or two
qs.sweep(**keys, store="peace.db")  # all that is imported at need is there before the forks
peace = {key: {**row, "seconds": 0} for key, row in rows("peace.db").items()}


def sweep(deadly):
    count = 0

    def count_down(statement):
        nonlocal count
        count += 1
        if count == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(*args, **kwargs):
        base = real(*args, **kwargs)
        base.set_trace_callback(count_down)
        return base

    sqlite3.connect = connect
    qs.sweep(**keys, store=path)


def apart(call, *args):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = call(*args) or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


for deadly in range(1, 1000):
    for end in ("-wal", "-shm", ".lock", ""):
        if os.path.exists(path + end):
            os.remove(path + end)
    state = apart(sweep, deadly)
    if state == 0:
        break
    kept = rows(path)
    status = apart(cli.main, ["status", path, "--json"])
    again = apart(sweep, -1)
    now = rows(path)
    same = {key: {**row, "seconds": 0} for key, row in now.items()} == peace
    print(state, status, again, same, all(now[key] == row for key, row in (kept or {}).items()), len(kept or {}),
          file=sys.stderr)
"""


def test_a_kill_at_each_statement_of_the_store(tmp_path):
    """Once for each statement given to SQLite, from opening an empty file on."""
    line = [sys.executable, "-c", STATEMENTS, str(tmp_path / "statements.db")]
    environment = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])}
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    lines = [text.split() for text in done.stderr.splitlines() if not text.startswith("quadsim: store=")]
    good = {("-9", status, "0", "True", "True") for status in ("0", "2")}
    assert {tuple(line[:5]) for line in lines} <= good, done.stderr
    assert {"0", "4"} <= {line[5] for line in lines}


@pytest.mark.parametrize("others", [(), ("workers=2",)], ids=["threads", "workers"])
def test_ctrl_c_says_what_is_kept_and_the_same_command_continues(tmp_path, slow_reference, others):
    store = tmp_path / "stopped.db"
    with begun(store, SLOW, *others) as process:
        until(lambda: many(store) > 0, process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        assert process.wait(PATIENCE) == 130
        assert alone(process)
    kept = rows(store)
    assert 0 < len(kept) < 400
    sentence = f"quadsim: interrupted; {len(kept):,} rows are in {store}, and the same command continues"
    assert complaints(store) == [sentence]
    assert not (tmp_path / "stopped.db.lock").exists()
    assert run(store, SLOW, *others)["computed"] == 400 - len(kept)
    assert differences(store, slow_reference, kept) == []


def test_a_second_writer_of_a_store_is_refused(tmp_path, capsys):
    store = tmp_path / "one.db"
    with begun(store, SLOW) as process:
        until(lambda: many(store) > 0, process)
        for keys in (SLOW, {"case": "3", "optimizers": "gd"}):
            capsys.readouterr()
            assert cli.main(["sweep", *arguments_of(keys), f"store={store}"]) == 2
            out, err = capsys.readouterr()
            assert out == ""
            assert err.startswith("quadsim: store=")
            assert err.endswith(
                f"is being written by another process (process {process.pid}): wait for it to end, or give another "
                "store; status can be called meanwhile\n"
            )
            assert err.count("\n") == 1
        assert cli.main(["status", f"store={store}", "--json"]) == 0
        status = json.loads(capsys.readouterr().out)
        assert cli.main(["export", f"store={store}", f"out={tmp_path / 'some.csv'}"]) == 0
        assert process.poll() is None
        assert status["busy"]
        assert 0 < status["rows"] <= many(store)
        assert status["sweeps"][0]["done"] >= status["rows"]
        assert status["sweeps"][0]["ended"] is None
        assert process.wait(PATIENCE) == 0
    assert complaints(store) == []
    assert many(store) == 400
    capsys.readouterr()
    assert cli.main(["status", f"store={store}", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["busy"], status["sweeps"][0]["done"]) == (False, 400)
    assert status["sweeps"][0]["ended"]


def test_killed_workers_cost_nothing_but_time(tmp_path, slow_reference):
    store = tmp_path / "kills.db"
    with begun(store, SLOW, "workers=2") as process:
        until(lambda: many(store) > 0, process)
        assert kill_workers(process, 10, 22, every=(0.05, 0.9)) > 0
        assert process.wait(PATIENCE) == 0
        assert alone(process)
    assert complaints(store) == []
    assert differences(store, slow_reference) == []


@pytest.mark.parametrize("others", [("workers=2",)])
def test_workers_end_when_their_parent_is_killed(tmp_path, others):
    store = tmp_path / "orphans.db"
    for rows_first in (False, True):
        with begun(store, SLOW, *others) as process:
            until(lambda process=process: workers_of(process.pid), process)
            if rows_first:
                until(lambda: many(store) > 0, process)
            os.kill(process.pid, signal.SIGKILL)  # it alone
            process.wait(PATIENCE)
            assert alone(process)


def exit_at_poison(groups, keys, mark):
    """Exit in a way that nothing can catch."""
    if any(group.seed == POISON for group in groups):
        os._exit(9)
    return run_in_worker(groups, keys, mark)


@pytest.mark.parametrize("work", [end_at_poison, exit_at_poison])
def test_a_poison_cell_costs_its_own_row_and_nothing_else(tmp_path, work):
    grid = Grid.read({"case": "3", "kappa": "10,1e3", "optimizers": "gd", "seed": f"0..{2 * POISON}"})
    for name, executor in (("poison", ProcessExecutor(grid, 2, work=work)), ("peace", None)):
        with Store.writing(tmp_path / f"{name}.db") as store:
            assert runner.run(grid, store, executor=executor) == grid.cells
    check_poison(tmp_path / "poison.db", tmp_path / "peace.db", grid, "the process that ran it ended abruptly")
    with Store.writing(tmp_path / "poison.db") as store:  # when the fault is gone, they can be run after all
        assert runner.run(grid, store) == 0
        assert runner.run(grid, store, retry=True) == 2
    bare = [[{**row, "seconds": 0} for _, row in sorted(rows(tmp_path / f"{name}.db").items())]
            for name in ("poison", "peace")]  # fmt: skip
    assert bare[0] == bare[1]
