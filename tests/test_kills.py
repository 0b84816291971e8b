"""A sweep that is killed, interrupted or run twice: nothing is lost, nothing doubled, and the same command goes on."""

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

import pytest

from quadsim import cli
from quadsim.store import Store
from quadsim.store.rows import CHECKSUM
from quadsim.sweeps import Grid, running
from quadsim.sweeps.places import Processes, run_elsewhere

PATIENCE = 120.0  # seconds for what must happen, on a machine that does other things too
COMMON = {"case": "3,4", "kappa": "10:1e6:log10", "optimizers": "gd,frozen-adam,heavy-ball,adam,signum"}
SHORT = {**COMMON, "seed": "0..3", "steps": "3e5"}  # 400 cells
FULL = {**COMMON, "seed": "0..19", "steps": "4e5"}  # 2,000
SLOW = {**COMMON, "seed": "0..3", "steps": "1e6"}  # 400, in some seconds: to be interrupted
POISON = 2  # the seed whose cells end the process that runs them


def words(keys):
    return [f"{key}={value}" for key, value in keys.items()]


def begin(store, keys, *others):
    """The sweep verb as a process of its own, at the head of a group; what it says goes to files beside the store."""
    line = [sys.executable, "-m", "quadsim", "sweep", *words(keys), f"store={store}", *others]
    with open(f"{store}.out", "w") as out, open(f"{store}.err", "w") as err:
        how = {"start_new_session": True, "cwd": Path(store).parent}
        return subprocess.Popen(line, stdout=out, stderr=err, **how)


@contextmanager
def begun(store, keys, *others):
    """The same; whatever is left of it in the end is killed."""
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
    """The sweep verb to its end, without a complaint; what it tells."""
    with begun(store, keys, *others, "--json") as process:
        code = process.wait(PATIENCE)
    assert complaints(store) == []
    assert code == 0
    return json.loads(Path(f"{store}.out").read_text())


def complaints(store):
    """The lines on standard error that do not tell how far it is."""
    lines = Path(f"{store}.err").read_text().splitlines()
    return [line for line in lines if " % of " not in line and " cells (" not in line and "expected" not in line]


def until(true, process=None):
    """Wait for something to be true, while a process runs."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not happen"
        assert process is None or process.poll() is None, f"the process ended with {process.returncode}"
        time.sleep(0.01)


def rows(store):
    """All rows by key, as they lie in the file, read beside whoever writes; None where there is no table yet."""
    if not Path(store).exists() or not Path(store).stat().st_size:
        return None
    with closing(sqlite3.connect(f"{Path(store).absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as base:
        if not base.execute("SELECT count(*) FROM sqlite_master WHERE name = 'cells'").fetchone()[0]:
            return None
        cursor = base.execute("SELECT * FROM cells")
        names = [column[0] for column in cursor.description]
        read = [{k: v for k, v in zip(names, row, strict=True) if v is not None and k != CHECKSUM} for row in cursor]
    return {row.pop("key"): row for row in read}


def many(store):
    return len(rows(store) or {})


def exported(store):
    """The table that the export verb writes, all columns but `seconds`; rows that fail their checksum are left out."""
    out = Path(f"{store}.csv")
    assert cli.main(["export", f"store={store}", f"out={out}", "--json"]) in (0, 1)
    with open(out, newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    place = head.index("seconds")
    return [[text for k, text in enumerate(line) if k != place] for line in (head, *lines)]


RESULTS = {
    "status", "steps_to_tol", "last_step", "loss", "grad_norm", "kappa_eff", "r", "js_distance", "predicted_rate",
    "measured_rate", "seconds", "error",
}  # fmt: skip


def differences(store, reference, kept=None):
    """What is wrong with a store, beside one whose sweep ran in peace, and beside rows that it was seen to have."""
    ours, theirs = rows(store), rows(reference)
    plain = [{k: v for k, v in row.items() if k != "seconds"} for row in ours.values()]
    cells = [tuple(sorted((k, v) for k, v in row.items() if k not in RESULTS)) for row in plain]
    found = []
    if theirs.keys() - ours.keys():
        found.append(f"{len(theirs.keys() - ours.keys())} lost")
    if len(set(cells)) < len(cells):
        found.append(f"{len(cells) - len(set(cells))} doubled")
    if ours.keys() - theirs.keys():
        found.append(f"{len(ours.keys() - theirs.keys())} of no cell")
    if gone := [key for key, row in (kept or {}).items() if ours.get(key) != row]:
        found.append(f"{len(gone)} not as they were")
    if exported(store) != exported(reference):
        found.append("another table")
    return found


def kill_again_and_again(folder, keys, kills, seed, *others):
    """Kill the verb at random instants, so often, then let it end; where it was each time."""
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
    """Where a process was when it was killed: as its plan and its rows tell."""
    if "expected" not in Path(f"{store}.out").read_text():
        return "starting"
    return "ending" if len(now) == cells else "running" if len(now) > len(before) else "beginning"


@pytest.mark.parametrize("others", [(), ("workers=2",)], ids=["threads", "workers"])
def test_six_kills_cost_nothing_but_time(tmp_path, others):
    assert len(kill_again_and_again(tmp_path, SHORT, 6, 20, *others)) == 6


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("others", [(), ("workers=2",)], ids=["threads", "workers"])
def test_fifty_kills_cost_nothing_but_time(tmp_path, others, record_property):
    where = kill_again_and_again(tmp_path, FULL, 50, 21, *others)
    told = {name: where.count(name) for name in PHASES}
    record_property("kills", told)
    print(told)
    assert all(told.values())


def test_the_check_notices_what_is_lost_doubled_or_changed(tmp_path):
    keys = {"case": "3,4", "kappa": "10,100", "optimizers": "gd,adam", "seed": "0..1", "steps": "1000"}
    store = tmp_path / "good.db"
    assert cli.main(["sweep", *words(keys), f"store={store}", "--json"]) == 0
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
        "1 lost", "1 not as they were", "another table",
    ]  # fmt: skip
    twice = f"INSERT INTO cells (key, {others}) SELECT x'00', {others} FROM cells WHERE key = {one}"
    assert tampered("doubled", twice) == ["1 doubled", "1 of no cell"]
    changed = f"UPDATE cells SET loss = loss * (1 + 3e-16) WHERE key = {one}"  # the last bit
    assert tampered("changed", changed) == ["1 not as they were", "another table"]
    again = f"UPDATE cells SET seconds = seconds * 2 WHERE key = {one}"
    assert tampered("computed again", again) == ["1 not as they were", "another table"]


STATEMENTS = """
import os, signal, sqlite3, sys
import quadsim as qs
from quadsim import cli
from quadsim.sweeps.places import Threads
from test_kills import rows

keys = dict(case=3, kappa=[10, 100], optimizers=["gd", "frozen-adam"], threads=1)
path, real = sys.argv[1], sqlite3.connect
Threads.chunk_seconds = 0.005  # chunks of a cell or two
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
    told = apart(cli.main, ["status", path, "--json"])
    again = apart(sweep, -1)
    now = rows(path)
    same = {key: {**row, "seconds": 0} for key, row in now.items()} == peace
    print(state, told, again, same, all(now[key] == row for key, row in (kept or {}).items()), len(kept or {}),
          file=sys.stderr)
"""


def test_a_kill_at_each_statement_of_the_store(tmp_path):
    """Every statement that is given to SQLite, from the first look at an empty file on, is once the last one."""
    line = [sys.executable, "-c", STATEMENTS, str(tmp_path / "statements.db")]
    there = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}
    told = subprocess.run(
        line, capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path, env={**os.environ, **there}
    )
    assert told.returncode == 0, told.stderr
    lines = [text.split() for text in told.stderr.splitlines() if not text.startswith("quadsim: store=")]
    good = {("-9", status, "0", "True", "True") for status in ("0", "2")}
    assert {tuple(line[:5]) for line in lines} <= good, told.stderr
    assert {"0", "4"} <= {line[5] for line in lines}


@pytest.mark.parametrize("others", [(), ("workers=2",)], ids=["threads", "workers"])
def test_ctrl_c_says_what_is_kept_and_the_same_command_continues(tmp_path, others):
    store, peace = tmp_path / "stopped.db", tmp_path / "peace.db"
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
    run(peace, SLOW)
    assert differences(store, peace, kept) == []


def test_the_second_process_on_a_store_is_told_so_and_leaves(tmp_path, capsys):
    store = tmp_path / "one.db"
    with begun(store, SLOW) as process:
        until(lambda: many(store) > 0, process)
        for keys in (SLOW, {"case": "3", "optimizers": "gd"}):
            capsys.readouterr()
            assert cli.main(["sweep", *words(keys), f"store={store}"]) == 2
            out, err = capsys.readouterr()
            assert out == ""
            assert err.startswith("quadsim: store=")
            assert err.endswith(
                f"is being written by another process (process {process.pid}): wait for it to end, or give another "
                "store; status may be asked meanwhile\n"
            )
            assert err.count("\n") == 1
        assert cli.main(["status", f"store={store}", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert cli.main(["export", f"store={store}", f"out={tmp_path / 'some.csv'}"]) == 0
        assert process.poll() is None
        assert told["busy"]
        assert 0 < told["rows"] <= many(store)
        assert told["sweeps"][0]["done"] >= told["rows"]
        assert told["sweeps"][0]["ended"] is None
        assert process.wait(PATIENCE) == 0
    assert complaints(store) == []
    assert many(store) == 400
    capsys.readouterr()
    assert cli.main(["status", f"store={store}", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["busy"], told["sweeps"][0]["done"]) == (False, 400)
    assert told["sweeps"][0]["ended"]


def workers_of(pid):
    """The processes that a process started to run chunks."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        found += [int(child) for child in children if "--multiprocessing-fork" in told_of(child)]
    return found


def told_of(pid):
    """The command line of a process; nothing of one that is gone, or nearly."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def alone(process):
    """Whether no other process of its group is left, after a while."""
    end = time.monotonic() + 20
    while left := in_group(process.pid):
        if time.monotonic() > end:
            print("left:", {pid: told_of(pid) for pid in left})
            return False
        time.sleep(0.05)
    return True


def in_group(group):
    """The living processes of a group, without its head."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, _, of_group = (place / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of_group) == group and state not in "ZX" and int(place.name) != group:
            found.append(int(place.name))
    return found


def kill_workers(process, kills, seed, every=(0.3, 1.5), find=workers_of, ended=lambda: False):
    """Kill a random worker again and again, each when there is one, until the process ends; how many it were."""
    chance, done = random.Random(seed), 0
    while done < kills and process.poll() is None and not ended():
        time.sleep(chance.uniform(*every))
        if there := find(process.pid):
            try:
                os.kill(chance.choice(there), signal.SIGKILL)
                done += 1
            except ProcessLookupError:
                continue
    return done


def test_killed_workers_cost_nothing_but_time(tmp_path):
    store, peace = tmp_path / "kills.db", tmp_path / "peace.db"
    with begun(store, SLOW, "workers=2") as process:
        until(lambda: many(store) > 0, process)
        assert kill_workers(process, 10, 22, every=(0.05, 0.9)) > 0
        assert process.wait(PATIENCE) == 0
        assert alone(process)
    assert complaints(store) == []
    run(peace, SLOW)
    assert differences(store, peace) == []


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


def end_at_poison(groups, keys, mark):
    """Run a chunk; where a certain seed is in it, the process is gone."""
    if any(group.seed == POISON for group in groups):
        os.kill(os.getpid(), signal.SIGKILL)
    return run_elsewhere(groups, keys, mark)


def exit_at_poison(groups, keys, mark):
    """The same by a way out that nothing can catch."""
    if any(group.seed == POISON for group in groups):
        os._exit(9)
    return run_elsewhere(groups, keys, mark)


def check_poison(store, peace, grid, sentence):
    """The cells of the poisoned seed, and they alone, are errors; all others are as they should be."""
    ours, theirs = rows(store), rows(peace)
    assert ours.keys() == theirs.keys()
    assert len(ours) == grid.cells
    for key, row in ours.items():
        row.pop("seconds"), theirs[key].pop("seconds")
        if row["seed"] == POISON:
            assert (row["status"], row["error"]) == ("error", sentence)
            said = {k: v for k, v in row.items() if k not in ("status", "error")}
            assert said == {k: v for k, v in theirs[key].items() if k in said}
        else:
            assert row == theirs[key]


@pytest.mark.parametrize("work", [end_at_poison, exit_at_poison])
def test_a_poison_cell_costs_its_own_row_and_nothing_else(tmp_path, work):
    grid = Grid.read({"case": "3", "kappa": "10,1e3", "optimizers": "gd", "seed": f"0..{2 * POISON}"})
    for name, place in (("poison", Processes(grid, 2, work=work)), ("peace", None)):
        with Store.writing(tmp_path / f"{name}.db") as store:
            assert running.run(grid, store, place=place) == grid.cells
    check_poison(tmp_path / "poison.db", tmp_path / "peace.db", grid, "the process that ran it ended abruptly")
    with Store.writing(tmp_path / "poison.db") as store:  # when the fault is gone, they can be run after all
        assert running.run(grid, store) == 0
        assert running.run(grid, store, retry=True) == 2
    bare = [[{**row, "seconds": 0} for _, row in sorted(rows(tmp_path / f"{name}.db").items())]
            for name in ("poison", "peace")]  # fmt: skip
    assert bare[0] == bare[1]
