"""The commands `sweep`, `status`, `export`, `merge` and `plot`: valid and invalid use."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import quadsim as qs
from quadsim import keys
from quadsim.cli import main as cli
from quadsim.engine.table import read_csv
from quadsim.sweeps.grid import GRID_KEYS
from quadsim.sweeps.store.database import Store


@pytest.fixture
def command(command):
    """Run a command line, given in parts that may hold several words."""
    return lambda *parts: command(*" ".join(parts).split(" "))


def written(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def bytes_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def only_json(out):
    return json.loads(out, parse_constant=lambda word: pytest.fail(word))


SMALL = "sweep case=3,4 kappa=10:1000:log4 optimizers=gd,frozen-adam seed=0..4"  # 80 cells
LARGE = "sweep case=3,4 kappa=10:1000:log10 optimizers=gd,frozen-adam,heavy-ball,block-gd seed=0..9"  # 800


def table_of(path):
    with Store(path) as store:
        return store.frame(order=keys.AXES[:1])


# ---- valid use


def test_sweep_shows_its_plan_its_progress_and_a_summary(command, tmp_path):
    code, out, err = command(SMALL, "store=s.db")
    assert code == 0
    first, second = out.splitlines()[:2]
    assert first == "80 cells (all in closed form): 8 problems × 5 seeds, 40 groups of 2 that share a problem"
    assert second.startswith("store s.db: new cells, about ")
    assert "80 cells computed in" in out
    assert "draw it: python -m quadsim plot s.db" in out
    assert "converged" in out
    lines = err.splitlines()
    assert lines[-1].startswith("100 % of 80 cells, ")
    assert 1 <= len(lines) <= 10
    assert all(" % of 80 cells, " in line and " a second" in line for line in lines)
    assert written(tmp_path) == ["s.db"]
    code, out, err = command(SMALL, "store=s.db")
    assert (code, err) == (0, "")
    assert "80 are done, 0 to do" in out
    assert "nothing was left to compute" in out


def test_progress_in_a_pipe_is_a_line_for_each_tenth_with_rate_and_time_left(command):
    _, _, err = command(LARGE, "store=s.db", "threads=1")
    lines = err.splitlines()
    tenths = [int(line.split(" % of 800 cells, ")[0]) for line in lines]
    assert tenths == sorted(set(tenths))
    assert tenths[-1] == 100
    assert 4 <= len(lines) <= 10
    assert all(line.endswith(" left") for line in lines[:-1])


def test_the_command_and_the_python_call_give_the_same_rows(command):
    command(SMALL, "store=s.db")
    frame = qs.sweep(case=[3, 4], kappa="10:1000:log4", optimizers=["gd", "frozen-adam"], seed=range(5))
    assert (
        qs.sweep(case=[3, 4], kappa="10:1000:log4", optimizers="gd,frozen-adam", seed="0..4", store="s.db")
        .drop(columns="seconds")
        .equals(frame.drop(columns="seconds"))
    )


def test_a_dry_run_shows_the_plan_and_writes_nothing(command, tmp_path):
    code, out, err = command(SMALL, "adam.beta2=0.9,0.99 --dry-run")
    assert (code, out) == (2, "")  # adam is not among the optimizers: a dry run checks as a run does
    code, out, err = command("sweep case=3 kappa=10,100 optimizers=gd,adam adam.beta2=0.9,0.99 seed=0..4 --dry-run")
    assert (code, err) == (0, "")
    assert "30 cells (10 in closed form, 20 compiled): 2 problems × 5 seeds, 10 groups of 3" in out
    assert "expected" in out
    assert "nothing was run" in out
    assert written(tmp_path) == []
    code, out, err = command(SMALL, "--dry-run", "--json")
    result = only_json(out)
    assert (code, err) == (0, "")
    assert (result["cells"], result["groups"], result["done"]) == (80, 40, 0)
    assert result["expected_seconds"] > 0
    assert written(tmp_path) == []


def test_a_dry_run_on_a_store_changes_no_file(command, tmp_path):
    command(SMALL, "store=s.db")
    before = bytes_of(tmp_path)
    code, out, _ = command(SMALL.replace("0..4", "0..9"), "store=s.db --dry-run --json")
    assert code == 0
    assert (only_json(out)["done"], only_json(out)["cells"]) == (80, 160)
    assert bytes_of(tmp_path) == before


def test_reading_a_store_leaves_no_files(command, tmp_path):
    command(SMALL, "store=s.db")
    before = bytes_of(tmp_path)
    assert command("status s.db")[0] == 0
    assert command("export s.db out=s.csv")[0] == 0
    (tmp_path / "s.csv").unlink()
    assert bytes_of(tmp_path) == before


def test_json_is_the_only_thing_on_standard_output(command, tmp_path):
    code, out, _ = command(SMALL, "store=s.db --json")
    result = only_json(out)
    assert code == 0
    assert (result["cells"], result["computed"]) == (80, 80)
    assert sum(row["cells"] for row in result["rows"]) == 80
    assert only_json(command(SMALL, "store=s.db --json")[1])["computed"] == 0
    shutil.copy("s.db", "t.db")
    for argv in (
        "status s.db",
        "status store=s.db",
        "export s.db out=s.csv",
        "merge s.db t.db store=all.db",
        "plot s.db",
    ):
        code, out, err = command(argv, "--json")
        assert (code, err) == (0, ""), argv
        only_json(out)
    result = only_json(command("status s.db --json")[1])
    assert (result["rows"], result["busy"], result["status"]) == (80, False, {"converged": 80})
    (one,) = result["sweeps"]
    assert (one["cells"], one["done"], one["exact"], result["reusable"]) == (80, 80, True, 80)
    assert one["command"].startswith("python -m quadsim sweep case=3,4 kappa=10:1000:log4")
    result = only_json(command("merge s.db t.db store=all.db --json")[1])
    sound = {"damaged": [], "missing": 0, "other": []}
    assert result["merged"] == [
        {"store": name, "rows": 80, "new": 0, "differ": 0, "damage": sound} for name in ("s.db", "t.db")
    ]


def test_json_of_failures_holds_no_infinity(command):
    argv = "sweep case=3 optimizers=sgd batch=3,100 sgd.lr=1e9,1e-5 max_steps=50 kappa=10,100 store=s.db --json"
    code, out, _ = command(argv)
    assert code == 0
    result = only_json(out)
    assert sum(row.get("error", 0) for row in result["rows"]) == 4
    assert only_json(command("status s.db --json")[1])["errors"] == {
        "batch must be at most the number of rows, 9, got 100": 4
    }
    code, out, _ = command(argv.replace(" --json", ""), "retry=true")
    assert (code, "4 cells computed" in out) == (0, True)


def test_plot_draws_what_was_swept(command, tmp_path):
    command(SMALL, "store=s.db")
    code, out, err = command("plot s.db out=there")
    assert (code, err) == (0, "")
    names = written(tmp_path / "there")
    assert any(name.endswith(".svg") for name in names)
    assert any(name.endswith("-slopes.csv") for name in names)
    assert command("plot s.db case=3 optimizers=gd y=loss out=there")[0] == 0
    for argv, sentence in (
        ("plot", "which store?"),
        ("plot nowhere.db", "does not exist"),
        ("plot s.db y=lss", "did you mean loss?"),
        ("plot s.db x=kapa", "did you mean kappa?"),
        ("plot s.db kapa=3", "did you mean kappa?"),
        ("plot s.db kappa=77", "has no row with kappa 77"),
        ("plot s.db kappa=x", "kappa must be a number"),
        ("plot s.db t.db", "'t.db' is not key=value"),
        ("plot s.db --dry-run", "--dry-run is for sweep, not for plot"),
    ):
        code, out, err = command(argv)
        assert (code, out, err.count("\n")) == (2, "", 1), argv
        assert sentence in err


# ---- export


def read(path):
    """A table with every number as Python parses it."""
    frame = read_csv(path, dtype=str, keep_default_na=False)
    for column in frame:
        kept = [None if text == "" else text for text in frame[column]]
        try:
            frame[column] = pd.Series([None if text is None else float(text) for text in kept], dtype=float)
        except ValueError:
            frame[column] = pd.Series(kept, dtype=object)
    return frame


@pytest.mark.slow
def test_exported_files_have_every_bit_in_whatever_order_rows_were_stored(command, tmp_path):
    pytest.importorskip("pyarrow")
    argv = "sweep case=3,4 kappa=10,77.7 optimizers=gd,block-gd,sgd,adam batch=none,3,100 max_steps=40 seed={}"
    command(argv.format("0..3"), "store=a.db threads=1")
    command(argv.format("2,3"), "store=b.db")
    command(argv.format("1,0"), "store=c.db")
    command("merge c.db store=b.db")
    for name in ("a", "b"):
        for kind in ("csv", "parquet"):
            assert command(f"export {name}.db out={name}.{kind}")[0] == 0
    tables = {name: read(f"{name}.csv") for name in "ab"}
    assert len(tables["a"]) == 4 * 4 * 4 * 3
    pd.testing.assert_frame_equal(
        tables["a"].drop(columns="seconds"), tables["b"].drop(columns="seconds"), check_exact=True
    )
    parquet = pd.read_parquet("a.parquet")
    assert list(parquet) == list(tables["a"])
    for column in parquet:
        left, right = parquet[column], tables["a"][column]
        assert (left.isna() == right.isna()).all()
        assert [str(x) if isinstance(x, str) else float(x) for x in left.dropna()] == list(right.dropna()), column
    frame = table_of("a.db")
    for column in ("loss", "grad_norm", "kappa_eff", "measured_rate"):
        assert sorted(tables["a"][column].dropna()) == sorted(frame[column].dropna())
    assert [name for name in written(tmp_path) if "draft" in name] == []


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ("export", "which store?"),
        ("export s.db", "export needs out="),
        ("export s.db out=rows.xlsx", "must end in .csv or .parquet"),
        ("export s.db out=rows", "must end in .csv or .parquet"),
        ("export s.db out=.csv", "must end in .csv or .parquet"),
        ("export s.db out=folder.csv", "is a folder"),
        ("export s.db out=no/such/rows.csv", "cannot be written"),
        ("export s.db out=/dev/null/rows.csv", "cannot be written"),
        ("export s.db out=/proc/rows.csv", "cannot be written"),
        ("export s.db out=a\0b.csv", "control character"),
        (f"export s.db out={'x' * 300}.csv", "cannot be written"),
        ("export nowhere.db out=rows.csv", "does not exist"),
        ("export text.db out=rows.csv", "is not a store of a sweep"),
        ("export s.db out=rows.csv rows=3", "unknown key 'rows'"),
        ("export s.db t.db out=rows.csv", "'t.db' is not key=value"),
        ("export store.csv out=store.csv", "store"),
        ("export store.csv out=./folder.csv/../store.csv", "store"),
    ],
)
def test_a_refused_export_leaves_nothing(command, tmp_path, argv, sentence):
    command("sweep case=3 optimizers=gd store=s.db")
    shutil.copy("s.db", "store.csv")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "text.db").write_text("argv")
    before = bytes_of(tmp_path)
    code, out, err = command(argv)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert sentence in err
    assert {name: data for name, data in bytes_of(tmp_path).items() if name[-4:] not in ("-wal", "-shm")} == before


def test_a_full_disk_leaves_no_partial_export(command, tmp_path, monkeypatch):
    command(SMALL, "store=s.db")
    (tmp_path / "rows.csv").write_text("older")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("csv.writer", full)
    code, out, err = command("export s.db out=rows.csv")
    assert (code, out, err) == (1, "", "quadsim: No space left on device: rows.csv\n")
    assert (tmp_path / "rows.csv").read_text() == "older"
    assert [name for name in written(tmp_path) if "draft" in name] == []


# ---- merge


def test_merge_keeps_each_row_once(command, tmp_path):
    command(SMALL, "store=a.db")
    command(SMALL.replace("0..4", "3..9"), "store=b.db")
    code, out, err = command("merge a.db b.db store=all.db")
    assert (code, err) == (0, "")
    assert out.splitlines() == ["a.db: 80 rows, 80 new", "b.db: 112 rows, 80 new", "all.db: 160 rows"]
    code, out, _ = command(SMALL.replace("0..4", "0..9"), "store=all.db --json")
    assert only_json(out)["computed"] == 0
    for argv, sentence in (
        ("merge", "merge needs stores"),
        ("merge a.db", "merge needs stores"),
        ("merge store=all.db", "merge needs stores"),
        ("merge a.db store=a.db", "is the store that the others go into"),
        ("merge a.db ./a.db store=./a.db", "is the store that the others go into"),
        ("merge link.db store=a.db", "is the store that the others go into"),
        ("merge a.db nowhere.db store=new.db", "does not exist"),
        ("merge a.db text.db store=new.db", "is not a store of a sweep"),
        ("merge a.db store=text.db", "is not a store of a sweep"),
        ("merge a.db store=folder", "is a folder"),
        (f"merge {'x' * 300} store=a.db", "store="),
        ("merge a.db store=new.db out=x", "the key is store, not out"),
    ):
        (tmp_path / "text.db").write_text("argv")
        (tmp_path / "folder").mkdir(exist_ok=True)
        if not (tmp_path / "link.db").is_symlink():
            (tmp_path / "link.db").symlink_to("a.db")
        before = {name: data for name, data in bytes_of(tmp_path).items() if name[-4:] not in ("-wal", "-shm")}
        code, out, err = command(argv)
        assert (code, out, err.count("\n")) == (2, "", 1), (argv, err)
        assert sentence in err
        after = {name: data for name, data in bytes_of(tmp_path).items() if name[-4:] not in ("-wal", "-shm")}
        assert after == before


# ---- damaged, full and busy stores


STORES = {
    "text": lambda path: path.write_text("argv\n"),
    "a newer schema": lambda path: _pragma(path, "user_version = 99"),
    "another program's": lambda path: _pragma(path, "application_id = 5"),
    "without its tables": lambda path: _sql(path, "DROP TABLE cells"),
    "without its sweeps": lambda path: _sql(path, "DROP TABLE sweeps"),
    "with other words in its sweeps": lambda path: _sql(path, "UPDATE sweeps SET keys = 'no JSON'"),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:9000]),
    "overwritten": lambda path: path.write_bytes(path.read_bytes()[:4096] + random.Random(1).randbytes(20000)),
}


def _pragma(path, statement):
    _sql(path, f"PRAGMA {statement}")


def _sql(path, statement):
    import sqlite3

    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode = DELETE")
    base.execute(statement)
    base.commit()
    base.close()


LEGIBLE = ("with other words in its sweeps", "overwritten")  # readable in part; the rest is reported


@pytest.mark.parametrize("kind", STORES)
def test_every_command_reports_a_bad_store_in_one_line(command, tmp_path, kind):
    command(SMALL, "store=s.db")
    STORES[kind](tmp_path / "s.db")
    before = (tmp_path / "s.db").read_bytes()
    for argv in (
        "status s.db",
        "export s.db out=rows.csv",
        "merge s.db store=new.db",
        "plot s.db",
        f"{SMALL} store=s.db --dry-run",
    ):
        code, _, err = command(argv)
        assert code in (1, 2), (argv, err)
        assert err.count("\n") == 1, (argv, err)
        assert "damaged" in err or kind not in LEGIBLE
        assert (tmp_path / "s.db").read_bytes() == before
        assert not (tmp_path / "rows.csv").exists() or kind in LEGIBLE
        for name in ("new.db", "rows.csv"):
            (tmp_path / name).unlink(missing_ok=True)
    code, _, err = command(f"{SMALL} store=s.db")
    if kind == "with other words in its sweeps":
        assert code == 0
        assert "damaged in its list of sweeps" in err
        assert command("status s.db")[0] == 0
    else:
        assert (code, err.count("\n")) == (2, 1)
        assert (tmp_path / "s.db").read_bytes() == before


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_no_damage_causes_a_traceback(command, tmp_path, seed):
    if not (tmp_path / "whole.db").exists():
        command(SMALL, "store=whole.db")
    rng = random.Random(seed)
    data = bytearray((tmp_path / "whole.db").read_bytes())
    for _ in range(rng.choice([1, 20, 200])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    for argv in ("status s.db", "export s.db out=rows.csv", "merge s.db store=new.db"):
        for name in ("s.db", "s.db-wal", "s.db-shm", "new.db", "rows.csv"):
            (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / "s.db").write_bytes(data)
        code, _, err = command(argv)
        assert code in (0, 1, 2)
        assert err.count("\n") == (code != 0), err


def test_a_full_disk_at_any_moment(command, tmp_path):
    """On a small tmpfs, if mounting is allowed."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting needs rights")
    (tmp_path / "disk").mkdir()
    command(SMALL, "store=other.db")

    def disk(*argv):
        return subprocess.run(["mount", *argv, str(tmp_path / "disk")], capture_output=True).returncode == 0

    for size in ("4k", "300k"):
        if not disk("-t", "tmpfs", "-o", f"size={size}", "tmpfs"):
            pytest.skip("mounting is not allowed here")
        try:
            code, _, err = command(LARGE, "store=disk/s.db")
            assert code == 1
            last = err.splitlines()[-1]
            assert last.startswith("quadsim: the disk is full")
            assert last.count("the same command continues") == 1
            assert "Traceback" not in err
            kept = only_json(command("status disk/s.db --json")[1] or '{"rows": 0}')["rows"]
            assert (kept > 0) == (size == "300k")
            code, out, err = command("merge other.db store=disk/new.db")
            assert (code, err.count("\n")) == (1, 1)
            code, out, err = command("export disk/s.db out=disk/rows.csv")
            assert code in (1, 2)
            assert err.count("\n") == 1
            assert not [name for name in os.listdir("disk") if "draft" in name]
            assert disk("-o", "remount,size=20m")
            code, out, _ = command(LARGE, "store=disk/s.db --json")
            assert code == 0
            assert only_json(out)["computed"] == 800 - kept
        finally:
            subprocess.run(["umount", "-l", str(tmp_path / "disk")], check=True)


@pytest.mark.slow
def test_a_sweep_continues_after_an_interrupt_or_a_kill(tmp_path):
    argv = [sys.executable, "-m", "quadsim", *LARGE.replace("log10", "log200").split(), "store=s.db", "threads=1"]
    kept = 0
    for how, code in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(argv, cwd=tmp_path, **pipes)
        until = time.monotonic() + 30
        while time.monotonic() < until and process.poll() is None:
            try:
                with Store(tmp_path / "s.db") as store:
                    if len(store) > kept:
                        break
            except Exception:  # not there yet
                pass
            time.sleep(0.05)
        process.send_signal(how)
        _, err = process.communicate(timeout=30)
        assert process.returncode == code
        assert "Traceback" not in err
        with Store(tmp_path / "s.db") as store:
            kept = len(store)
            assert kept > 0
            assert not store.busy
        if how == signal.SIGINT:
            assert err.splitlines()[-1].startswith("quadsim: interrupted; ")
            assert err.splitlines()[-1].endswith("rows are in s.db, and the same command continues")
    small = LARGE.replace("log10", "log200").replace("seed=0..9", "seed=0").split()
    done = subprocess.run(
        [sys.executable, "-m", "quadsim", *small, "store=s.db", "--dry-run", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout)["done"] > 0


def test_a_store_that_is_being_written_is_not_written_by_another(command):
    command(SMALL, "store=s.db")
    with Store.writing("s.db"):
        code, out, err = command(LARGE, "store=s.db")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "is being written by another process" in err
        assert only_json(command("status s.db --json")[1])["busy"]
        assert command(LARGE, "store=s.db --dry-run")[0] == 0


# ---- bad input

BAD = [
    ("sweep", "give one of case= and spectrum="),
    ("sweep kappa=10,100", "give one of case= and spectrum="),
    ("sweep case=", "case needs a value: write case=N"),
    ("sweep case=3,", "case has an empty item"),
    ("sweep case=3 kappa=,", "kappa has an empty item"),
    ("sweep case=3 kappa=10,,20", "kappa has an empty item"),
    ("sweep case=5", "unknown case '5': allowed are 1, 2, 3, 4"),
    ("sweep case=3,3", "case='3,3' names 3 twice"),
    ("sweep case=3 kappa=5e3,5000", "names 5000 twice"),
    ("sweep case=3 optimizers=adam adam.beta2=0.9,0.90", "twice"),
    ("sweep case=3 case=4", "case is given twice"),
    ("sweep case=3 gd.lr=1e-4 GD.LR=1", "gd.lr is given twice"),
    ("sweep case=3 kapa=10", "unknown key 'kapa': did you mean kappa?"),
    ("sweep case=3 lr=0.1", "lr for which optimizer? write gd.lr=0.1, frozen-adam.lr=0.1 or block-gd.lr=0.1"),
    ("sweep case=3 beta2=0.1 optimizers=gd,adam", "write python -m quadsim sweep case=3 adam.beta2=0.1"),
    ("sweep case=3 out=figures", "unknown key 'out'"),
    ("sweep case=3 kappa=10:1e6", "write python -m quadsim sweep case=3 kappa=10:1e6:log25"),
    ("sweep case=3 kappa=10:1e6:log", "write python -m quadsim sweep case=3 kappa=10:1e6:log25"),
    ("sweep case=3 kappa=10:1e6:25", "write python -m quadsim sweep case=3 kappa=10:1e6:log25"),
    ("sweep case=3 kappa=10:1e6:log1", "the number of values of kappa must be a whole number from 2"),
    ("sweep case=3 kappa=1:10:log1e9", "kappa must be a list or a range"),
    ("sweep case=3 kappa=1:10:log1000000000", "3,000,000,000 cells, and the limit is 1,000,000"),
    (f"sweep case=3 kappa=1:10:log{'9' * 5000}", "the limit is 1,000,000"),
    ("sweep case=3 kappa=10:10:log5", "is one value"),
    ("sweep case=3 kappa=0:10:log5", "must be a finite number above 0"),
    ("sweep case=3 kappa=a:b:log5", "kappa must be a number"),
    ("sweep case=3 kappa=nan", "kappa must be a number"),
    ("sweep case=3 kappa=inf", "kappa must be a number"),
    ("sweep case=3 kappa=1e999", "kappa must be a finite number"),
    ("sweep case=3 kappa=1e-999", "kappa must be a number that float64 can hold"),
    (f"sweep case=3 kappa={'9' * 5000}", "kappa must be a finite number"),
    ("sweep case=3 kappa=½", "kappa must be a number"),
    ("sweep case=3 kappa=１０", "kappa must be a number"),
    ("sweep case=3 kappa=10\0", "control character"),
    ("sweep case=3 kappa=0.5", "kappa must be a finite number at least 1"),
    ("sweep case=3 seed=-1", "seed must be a whole number from 0"),
    ("sweep case=3 seed=-5..3", "seed must be a whole number from 0"),
    ("sweep case=3 seed=0..", "seed=0.. has one end: write for example seed=0..9"),
    ("sweep case=3 seed=..", "seed=.. has one end: write for example seed=0..9"),
    ("sweep case=3 seed=9..0", "seed=9..0 is empty: write for example seed=0..9"),
    ("sweep case=3 seed=0.5", "seed must be a whole number"),
    ("sweep case=3 seed=0..1e12", "3,000,000,000,003 cells, and the limit is 1,000,000: use fewer values, or"),
    ("sweep case=3 seed=0..9223372036854775807", "cells, and the limit is 1,000,000"),
    ("sweep case=3 seed=0..1e300", "the limit is 1,000,000"),
    ("sweep case=3 limit=2", "the grid has 3 cells, and the limit is 2: use fewer values, or give limit=3"),
    ("sweep case=3 limit=0", "limit must be a whole number of at least 1, got 0"),
    ("sweep case=3 limit=x", "limit must be a number"),
    ("sweep case=3 retry=maybe", "retry"),
    ("sweep case=3 threads=0", "threads must be a whole number from 1"),
    ("sweep case=3 threads=x", "threads must be a number"),
    ("sweep case=3 workers=-1", "workers must be a whole number from 1"),
    ("sweep case=3 threads=1 workers=1", "threads=1 and workers=1: give one of them"),
    ("sweep case=3 cluster=nowhere", "cluster must be local:N or an address"),
    ("sweep case=3 cluster=local:0", "cluster=local:N must be a whole number from 1"),
    ("sweep case=3 optimizers=gd,adm", "unknown optimizer 'adm': did you mean adam?"),
    ("sweep case=3 optimizers=gd,gd", "optimizer gd is named twice"),
    ("sweep case=3 optimizers=gd gd.lr=0.1,-1", "gd.lr must be a finite number above 0, got -1"),
    ("sweep case=3 optimizers=gd gd.lr=0.1,x", "gd.lr must be a number"),
    ("sweep case=3 adam.beta2=0.9,0.99", "adam is not among the optimizers: write python -m quadsim sweep"),
    ("sweep case=3 gd.momentum=0.9", "unknown setting of gd 'momentum'"),
    ("sweep case=3 x.y=1", "unknown optimizer 'x'"),
    ("sweep case=3 engine=fast", "unknown engine 'fast'"),
    ("sweep case=3 optimizers=adam engine=closed-form", "adam"),
    ("sweep case=3 batch=3 optimizers=nesterov", "nesterov needs gradients without noise"),
    ("sweep case=3 batch=100000000000000000000 optimizers=sgd", "batch"),
    ("sweep case=3 factor=root,rotated", "factor="),
    ("sweep case=3 sampling=mass,ritz", "sampling='mass' is for Cases 1 and 2"),
    ("sweep case=1 pool=100000000000000000000", "pool"),
    ("sweep case=3 start=zeros", "start must be one of"),
    ("sweep spectrum=1,-2", "eigenvalues must be finite and above 0, got -2"),
    ("sweep spectrum=lineer", "did you mean linear?"),
    ("sweep case=3 tol=-1", "tol must be a finite number at least 0"),
    ("sweep case=3 max_steps=0", "steps must be a whole number from 1"),
    ("sweep case=3 rules=nowhere.py", "nowhere.py"),
    ("sweep case=3 now", "'now' is not key=value"),
    ("sweep case=3 --dry-runn", "unknown flag '--dry-runn': did you mean --dry-run?"),
    ("sweep case=3 store=", "store needs a value: write store=FILE.db"),
    ("sweep case=3 store=.", "is a folder"),
    ("sweep case=3 store=no/such/s.db", "there is no folder"),
    ("sweep case=3 store=/dev/null/s.db", "store="),
    ("sweep case=3 store=a\0b", "store="),
    ("sweep case=3 store=a\0b --dry-run", "store="),
    (f"sweep case=3 store={'x' * 300}", "store="),
    (f"sweep case=3 store={'x' * 300} --dry-run", "store="),
    ("sweep case=3 store=:memory:", "store="),
    ("status", "which store?"),
    ("status nowhere.db", "does not exist"),
    ("status .", "is a folder"),
    ("status a.db b.db", "'b.db' is not key=value"),
    ("status nowhere.db seed=3", "unknown key 'seed'"),
    ("status nowhere.db --dry-run", "--dry-run is for sweep, not for status"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "message"), BAD, ids=[f"{number} {argv[:60]!r}" for number, (argv, _) in enumerate(BAD)]
)
def test_bad_input_is_one_line_and_exit_code_2(check_bad_line, argv, message):
    began = time.perf_counter()
    check_bad_line(argv, message)
    assert time.perf_counter() - began < 5


def test_a_file_with_the_name_of_the_default_folder(command, tmp_path):
    (tmp_path / "figures").write_text("a file")
    code, out, err = command("sweep case=3 optimizers=gd")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert (tmp_path / "figures").read_text() == "a file"


def test_the_default_name_of_a_store_has_its_keys(command, tmp_path):
    assert command("sweep case=3 optimizers=gd kappa=10,100")[0] == 0
    assert written(tmp_path) == ["figures", "figures/sweep-case-3-optimizers-gd-kappa-10_100.db"]


KEYS = st.sampled_from([*GRID_KEYS, "gd.lr", "adam.beta2", "limit", "threads", "retry", "kapa", "", "x.y"])
VALUES = st.one_of(
    st.sampled_from(
        [
            "3",
            "3,4",
            "1..4",
            "nan",
            "-1",
            "0",
            "1e5",
            "gd",
            "gd,adam",
            "1:2:log3",
            "0.1,1",
            "none",
            "none,3",
            "½",
            "..",
            "1/2;3",
            "linear",
            "ones",
            "step,cosine",
            "true",
            "auto",
            "whole,blocks",
        ]
    ),
    st.text(max_size=6),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(KEYS, VALUES), max_size=4), st.booleans())
def test_no_arguments_cause_a_traceback(capsys, tmp_path, monkeypatch, pairs, dry):
    monkeypatch.chdir(tmp_path)
    argv = [f"{key}={value}" for key, value in pairs]
    for key, default in (("case", "3"), ("steps", "5"), ("optimizers", "gd"), ("store", "s.db")):
        if not any(word.startswith(f"{key}=") for word in argv):
            argv.append(f"{key}={default}")
    many = any("1e5" in word for word in argv)
    code = cli.main(["sweep", *argv, *(["--dry-run"] if dry or many else [])])
    out, err = capsys.readouterr()
    assert code in (0, 2)
    if code == 2:
        assert (err.count("\n"), out) == (1, ""), err
