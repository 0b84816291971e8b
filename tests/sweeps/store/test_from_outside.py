"""Stores from the command line alone: stale rows, code and text in a store, damage, links, sizes, failed commands."""

import csv
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import quadsim
from quadsim.cli import main as cli

pytestmark = pytest.mark.slow
PACKAGE = Path(quadsim.__file__).parent
SWEEP = "sweep case=3 kappa=10,100 optimizers=gd,block-gd seed=0..7"
RULES = """import pathlib
import quadsim as qs

pathlib.Path("loaded").touch()


@qs.rule
def drag(g, lr=1e-4):
    return lr * g
"""


def command(folder, arguments, package=PACKAGE, timeout=60):
    """Run a command line in a separate process."""
    return run([sys.executable, "-m", "quadsim", *arguments.split(" ")], folder, package, timeout)


def python(folder, statement, code=0):
    done = run([sys.executable, "-c", f"import os\nimport quadsim as qs\n{statement}"], folder, PACKAGE, 60)
    assert done.returncode == code, done.stderr


def run(line, folder, package, timeout):
    environment = {**os.environ, "PYTHONPATH": str(Path(package).parent), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout)


def read(path):
    """The rows of a CSV file without their running time."""
    with open(path, newline="", encoding="utf-8") as file:
        return [{key: text for key, text in row.items() if key != "seconds"} for row in csv.DictReader(file)]


def exported(folder, store, package=PACKAGE):
    done = command(folder, f"export {store} out=rows.csv", package)
    return done, read(folder / "rows.csv") if done.returncode == 0 else []


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    assert command(folder, f"{SWEEP} store=s.db").returncode == 0
    return folder / "s.db"


@pytest.fixture
def store(whole, tmp_path):
    shutil.copy(whole, tmp_path / "s.db")
    return tmp_path / "s.db"


# ---- stale rows


EDITS = {
    "a base class": ("adam-mini", "optimizers/moments.py", "weight = 0.0 if self.bias_correction",
                     "weight = 0.25 if self.bias_correction"),
    "a module that every cell uses": ("gd", "_validation.py", "\nclass InputError",
                                      "\nEDITED = 1\n\n\nclass InputError"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_rows_of_edited_code_are_computed_again(tmp_path, name):
    optimizer, file, old, new = EDITS[name]
    package = tmp_path / "quadsim"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    line = f"sweep case=3 optimizers={optimizer} max_steps=40"
    assert command(tmp_path, f"{line} store=old.db", package).returncode == 0
    path = package / file
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    assert json.loads(command(tmp_path, f"{line} store=old.db --json", package).stdout)["computed"] == 1
    assert command(tmp_path, f"{line} store=fresh.db", package).returncode == 0
    assert exported(tmp_path, "old.db", package)[1] == exported(tmp_path, "fresh.db", package)[1]


def test_rows_of_other_code_stay_and_status_says_so(tmp_path):
    package = tmp_path / "quadsim"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    line = "sweep case=3 optimizers=gd,signgd max_steps=40 store=s.db --json"
    assert command(tmp_path, line, package).returncode == 0
    path = package / "optimizers" / "signgd.py"
    path.write_text(path.read_text() + "\nEDITED = 1\n")
    status = json.loads(command(tmp_path, "status s.db --json", package).stdout)
    assert (status.get("reusable"), list(status.get("stale", {}).values())) == (1, [1])
    assert json.loads(command(tmp_path, line, package).stdout)["computed"] == 1


# ---- code and text


def test_status_does_not_run_code_that_a_store_names(tmp_path):
    (tmp_path / "rules.py").write_text(RULES)
    line = "sweep case=3 optimizers=drag max_steps=20 rules=rules.py store=s.db"
    assert command(tmp_path, line).returncode == 0
    (tmp_path / "loaded").unlink()  # the control: the sweep did run it
    assert command(tmp_path, "status s.db").returncode == 0
    assert not (tmp_path / "loaded").exists()


def test_text_of_a_store_is_neutralised(tmp_path):
    names = ["=x.csv", "r\x1b[31m.csv"]  # of files of spectra, which the column `network` repeats
    for name in names:
        (tmp_path / name).write_text("block,eigenvalue\na,1\na,2\n")
        python(tmp_path, f"qs.sweep(case=1, network={name!r}, optimizers='gd', block_size=2, store='s.db')")
    shown = command(tmp_path, "status s.db")
    done, rows = exported(tmp_path, "s.db")
    assert (shown.returncode, done.returncode) == (0, 0)
    assert "\x1b" not in shown.stdout + shown.stderr + done.stdout
    assert sorted(row["network"] for row in rows) == ["'=x.csv", "r\\x1b[31m.csv"]


# ---- damage


def test_no_flipped_bit_changes_a_row_silently(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = exported(tmp_path, "s.db")[1]
    data, rng = store.read_bytes(), random.Random(20)
    for _ in range(40):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 16)):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        store.write_bytes(changed)
        (tmp_path / "rows.csv").unlink(missing_ok=True)
        code = cli.main(["export", "s.db", "out=rows.csv"])
        rows = read("rows.csv") if code < 2 else []
        assert all(row in good for row in rows)
        assert code != 0 or len(rows) == len(good)


KILLED = "qs.sweep(case=3, optimizers='gd', {}, store='s.db', limit=10**9, progress=lambda *_: os.kill(os.getpid(), 9))"


def test_a_damaged_log_is_reported(tmp_path):
    assert command(tmp_path, "sweep case=3 optimizers=gd seed=0..3 store=s.db").returncode == 0
    python(tmp_path, KILLED.format("seed=range(40)"), code=-9)
    log = bytearray((tmp_path / "s.db-wal").read_bytes())
    log[2000] ^= 4  # in the first frame; older ones may follow the last
    (tmp_path / "s.db-wal").write_bytes(log)
    done = command(tmp_path, "export s.db out=rows.csv")
    assert done.returncode == 1
    assert "write-ahead log" in done.stderr
    assert done.stderr.count("\n") == 1


# ---- sizes, links and what failed commands leave


def test_status_of_a_sweep_with_many_planned_cells_answers(tmp_path):
    python(tmp_path, KILLED.format("kappa='10:1e6:log10000', seed=range(10_000)"), code=-9)
    done = command(tmp_path, "status s.db", timeout=15)
    assert done.returncode == 0
    assert "100,000,000 cells" in done.stdout


def test_rules_from_a_fifo_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = command(tmp_path, f"{SWEEP} rules=pipe store=s.db", timeout=10)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_loop_of_links_is_refused_in_one_line(store, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    done = command(tmp_path, "merge s.db store=loop")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_failed_commands_leave_no_folder(tmp_path):
    assert command(tmp_path, "plot nowhere.db out=a/../x.db").returncode == 2
    assert list(tmp_path.iterdir()) == []
