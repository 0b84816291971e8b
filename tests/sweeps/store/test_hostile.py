"""A store may come from an untrusted source: reading it runs no code, prints no escape sequences and always ends."""

import csv
import errno
import json
import os
import sqlite3
import time
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest

from quadsim._validation import InputError
from quadsim.optimizers import OPTIMIZERS
from quadsim.sweeps.store import connection
from quadsim.sweeps.store.database import Store
from quadsim.sweeps.store.text import csv_cell, json_text, printable
from quadsim.sweeps.store.verify import KEY_HALF

SWEEP = "sweep case=3 kappa=10,100 optimizers=gd seed=0..2"


def written(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def made(path, rows=(), **sweep):
    usual = {"name": "a", "command": "sweep", "keys": {"case": "3"}, "swept": [], "cells": 1, "versions": {}}
    with Store.writing(path, ["status", "optimizer", "error"]) as store:
        store.begin(**usual | sweep)
        store.add(
            [
                {"key": bytes([k]) * 2 * KEY_HALF, "status": "converged", "optimizer": "gd", **row}
                for k, row in enumerate(rows)
            ]
        )


# ---- code


RULES = """import pathlib
import quadsim as qs

pathlib.Path("loaded").touch()


@qs.rule
def drag(g, lr=1e-4):
    return lr * g
"""


def test_no_command_loads_the_rules_that_a_store_names(command, tmp_path, forgotten):
    (tmp_path / "rules.py").write_text(RULES)
    line = "sweep case=3 optimizers=drag,gd max_steps=20 seed=0..1"
    assert command(f"{line} rules=rules.py store=s.db")[0] == 0
    assert (tmp_path / "loaded").exists()  # the control: the file does leave a trace
    OPTIMIZERS.pop("drag")
    (tmp_path / "loaded").unlink()
    for arguments in ("status s.db", "export s.db out=rows.csv", "merge s.db store=new.db", "plot s.db",
                  "sweep case=3 optimizers=gd max_steps=20 seed=0..1 store=s.db", "status s.db --json"):  # fmt: skip
        code, out, err = command(arguments)
        assert code == 0, (arguments, err)
        assert not (tmp_path / "loaded").exists(), arguments
        assert "drag" not in OPTIMIZERS
    status = json.loads(out)
    assert (status["reusable"], status["stale"]) == (2, {})
    assert status["unchecked"] == {"the rule drag is not loaded: rules=FILE checks it": 2}
    assert [(one["done"], one["cells"]) for one in status["sweeps"]] == [(4, 4), (2, 2)]
    status = json.loads(command("status s.db rules=rules.py --json")[1])
    assert (tmp_path / "loaded").exists()
    assert (status["reusable"], status["unchecked"]) == (4, {})
    (tmp_path / "rules.py").write_text(RULES.replace("lr * g", "2 * lr * g"))
    status = json.loads(command("status s.db rules=rules.py --json")[1])
    assert (status["reusable"], status["stale"]) == (2, {"the rule drag changed": 2})


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW more AS SELECT 1",
        "CREATE TRIGGER bang AFTER INSERT ON cells BEGIN DELETE FROM cells; END",
        "CREATE TABLE others (x)",
        "CREATE INDEX quick ON cells (status)",
        'ALTER TABLE cells ADD COLUMN "a\x1b[31m"',
        "ALTER TABLE cells ADD COLUMN slow GENERATED ALWAYS AS (length(hex(zeroblob(100000000)))) VIRTUAL",
    ],
)
def test_a_store_with_more_than_its_tables_is_refused(command, statement):
    command(f"{SWEEP} store=s.db")
    with closing(sqlite3.connect("s.db")) as base:
        base.execute(statement)
    before = Path("s.db").read_bytes()
    for arguments in ("status s.db", "export s.db out=r.csv", "merge s.db store=new.db", f"{SWEEP} store=s.db"):
        code, out, err = command(arguments)
        assert (code, out, err.count("\n"), "damaged" in err) == (2, "", 1, True)
    assert Path("s.db").read_bytes() == before


@pytest.mark.parametrize(
    ("columns", "after"),
    [
        ("status, CHECK (length(hex(zeroblob(100000000))) > 0)", ""),
        ("status COLLATE NOCASE", ""),
        ("status, rowid TEXT DEFAULT 'x'", ""),
        ("status DEFAULT (random())", ""),
        ("status REFERENCES sweeps (name) ON DELETE CASCADE", ""),
        ("status, PRIMARY KEY (key)", " WITHOUT ROWID"),
    ],
)
def test_a_table_with_another_definition_is_refused(command, columns, after):
    made("s.db")
    with closing(sqlite3.connect("s.db")) as base:
        base.execute("DROP TABLE cells")
        base.execute(f'CREATE TABLE cells (key BLOB NOT NULL UNIQUE, "(checksum)" BLOB, {columns}){after}')
        base.execute("INSERT INTO cells (key) VALUES (x'01')")
        base.commit()
    for arguments in ("status s.db", "export s.db out=r.csv", "merge s.db store=new.db", f"{SWEEP} store=s.db"):
        code, out, err = command(arguments)
        assert (code, out, err.count("\n"), "damaged" in err) == (2, "", 1, True)


def test_a_table_with_any_name_and_default_of_a_column_is_read(command):
    names = ['a"b', "it's", "a, b)", "DEFAULT 5", "CHECK (1)", "κ"]
    made("s.db", [{"status": "a"}])
    with Store.writing("s.db") as store:
        usual = dict(zip(names, ("it's, (x)", "CHECK (1)", -1e-300, 5, 1e22, 0.5), strict=True))
        store.add([{"key": bytes([9]) * 24, "status": "b", **dict.fromkeys(names, 2.0)}], usual)
    assert command("status s.db")[::2] == (0, "")
    with Store("s.db") as store:
        assert len(store) == 2
        assert not store.damage


def test_a_device_named_as_network_in_a_store_does_not_block(command, tmp_path):
    os.mkfifo("pipe")
    made("s.db", [{}])
    command("status s.db")  # imports what it needs
    for name in ("/dev/zero", "/dev/stdin", "pipe", "."):
        Path("s.db").unlink(missing_ok=True)
        made("s.db", [{}], keys={"case": "1", "network": name, "optimizers": "gd"})
        began = time.perf_counter()
        assert command("status s.db")[0] == 0
        assert time.perf_counter() - began < 10


# ---- text


BAD = "red \x1b[31m\x9b2J \u202egpj.exe \x07\r\n\x00\u2028\u200b"


def hidden(text):
    return {sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Zl", "Zp", "Cs") and sign != "\n"}


def test_no_command_shows_control_or_bidi_characters_of_a_store(command, tmp_path):
    rows = [{"status": f"s{BAD}", "optimizer": f"o{BAD}", "error": BAD, "word": BAD, "kappa": k * 10.0,
             "steps_to_tol": k, "seed": 0, "loss": -1.5} for k in range(1, 4)]  # fmt: skip
    made(
        "s.db",
        rows,
        command=BAD,
        swept=["kappa", "word"],
        keys={"case": "3", BAD: BAD},
        versions={BAD: BAD},
    )
    assert hidden(BAD)
    for arguments in ("status s.db", "status s.db --json", "export s.db out=rows.csv", "merge s.db store=new.db --json",
                  "export s.db out=rows.parquet", "plot s.db --json", "plot s.db optimizers=none", "plot s.db y=none",
                  "plot s.db x=column\u202e", f"{SWEEP} store=s.db"):  # fmt: skip
        code, out, err = command(arguments)
        assert code in (0, 1, 2), arguments
        assert hidden(out) | hidden(err) == set(), arguments
    status = json.loads(command("status s.db --json")[1])
    assert status["sweeps"][0]["command"] == printable(BAD)
    assert f"o{BAD}" in status["optimizer"]  # JSON escapes, and loses nothing
    for path in (*tmp_path.rglob("*.csv"), *tmp_path.rglob("*.json"), *tmp_path.rglob("*.svg")):
        assert hidden(path.read_text(encoding="utf-8")) == set(), path
    assert list(tmp_path.rglob("*.csv"))


FORMULAS = [
    "=1+1",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "=cmd|' /C calc'!A0",
    "-x",
    "＝1",
    "＋1",
    "-1e5x",
]
PLAIN = ["converged", "a=b", "x-1", "1-1", "0.5/0.1", "-5", "+5", "-1e-5", "-.5", ""]


def test_text_that_would_be_a_formula_is_none_in_csv_and_numbers_stay(command):
    texts = [*FORMULAS, *PLAIN]
    rows = [{"error": text, "loss": -1.5, "dim": -3, "=evil()": float(k)} for k, text in enumerate(texts)]
    made("s.db", rows)
    assert command("export s.db out=rows.csv")[0] == 0
    with open("rows.csv", newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    assert "'=evil()" in head
    assert "=evil()" not in head
    order = [int(float(line[head.index("'=evil()")])) for line in lines]
    got = [line[head.index("error")] for line in lines]
    for place, text in zip(order, got, strict=True):
        assert text[:1] not in ("=", "@", "\t", "\r", "＝", "＋")
        assert texts[place] in PLAIN or text[:1] in ("'", "\\")
        assert texts[place] in FORMULAS or text == texts[place]
    assert {line[head.index("loss")] for line in lines} == {"-1.5"}
    assert {line[head.index("dim")] for line in lines} == {"-3"}


def test_escaping_by_hand():
    assert printable("κ = 5·10³ – “ok”") == "κ = 5·10³ – “ok”"
    assert printable("a\x1b[0m\x85\u2066") == "a\\x1b[0m\\x85\\u2066"
    assert printable("x" * 100, 10) == "x" * 9 + "…"
    assert [csv_cell(value) for value in (-1, -1.5, None, 0, "-1", "=1", b"\x01")] == [
        -1,
        -1.5,
        None,
        0,
        "-1",
        "'=1",
        "01",
    ]
    assert json.loads(json_text({"a\u202e": "\x9b\U000e0001", "b": ["κ"]})) == {"a\u202e": "\x9b\U000e0001", "b": ["κ"]}
    assert hidden(json_text({"a\u202e": "\x9b\U000e0001"}, indent=2)) == set()


# ---- size


HUGE = {
    "seeds": {"case": "3", "optimizers": "gd", "kappa": "10:1e6:log10000", "seed": "0..9999"},
    "problems": {"case": "1,3", "sampling": "leading,above", "kappa": "10:1e6:log10000", "threshold": "0:0.9:lin10000"},
    "deck": {"case": "3", "optimizers": "adam", "adam.beta2": "0:0.9:lin10000", "adam.lr": "1e-5:1:log10000"},
    "conditions": {
        "case": "3",
        "optimizers": "adam",
        "tol": "1e-9:1e-3:log10000",
        "noise": "gaussian",
        "noise.scale": "0:1:lin10000",
    },
    "beyond": {"case": "3", "optimizers": "gd", "seed": "0..999999999999", "kappa": "10:1e6:log1000000"},
}


@pytest.mark.parametrize("name", HUGE)
def test_status_of_a_huge_sweep_answers_at_once(command, name):
    made("s.db", [{}, {}], keys=HUGE[name], cells=10**8, done=2)
    began = time.perf_counter()
    code, out, err = command("status s.db")
    assert (code, err) == (0, "")
    assert time.perf_counter() - began < 20  # some of which is imports
    assert "at least 2 of 100,000,000 cells done" in out


def test_status_of_many_large_sweeps_answers_at_once(command):
    """Each is small enough to be counted cell by cell; all together are not."""
    made("s.db", [{}])
    with Store.writing("s.db") as store:
        for number in range(40):
            keys = {"case": "3", "optimizers": "gd", "kappa": "10,100", "seed": f"{number}..99999"}
            store.begin(name=f"n{number}", command="", keys=keys, swept=[], cells=200_000, versions={}, done=1)
    began = time.perf_counter()
    code, out, err = command("status s.db")
    assert (code, err, out.count("at least 1 of 200,000 cells done")) == (0, "", 39)
    assert time.perf_counter() - began < 10


def test_plot_of_long_words_and_odd_columns(command):
    made("s.db", [{"self": "=1", "kappa": 10.0, "steps_to_tol": 5, "seed": 0, "case": 3},
                  {"self": "b", "kappa": 10.0, "steps_to_tol": 6, "seed": 0, "case": 3}],
         command="x" * 100_000, swept=["self"])  # fmt: skip
    code, _, err = command("plot s.db")
    assert (code, err) == (0, "")
    assert "\n'=1," in "".join(path.read_text() for path in Path("figures").glob("*.csv"))


def test_a_sweep_counts_what_it_does(command):
    """Without walking through its cells."""
    command(f"{SWEEP} store=s.db")
    with Store("s.db") as store:
        assert [(one["done"], one["cells"]) for one in store.sweeps()] == [(6, 6)]
    command(f"{SWEEP},500 store=s.db".replace("seed=0..2,500", "seed=0..4"))
    with Store("s.db") as store:
        assert [(one["done"], one["cells"]) for one in store.sweeps()] == [(6, 6), (10, 10)]


@pytest.mark.parametrize(
    "change",
    ["keys = '5'", "keys = '[]'", "keys = '{\"case\": 3}'", "swept = '{}'", "cells = 'many'",
     "done = 'x'", "versions = 'null'", "keys = '" + "[" * 100_000 + "'", "began = NULL"],
)  # fmt: skip
def test_sweeps_with_other_values_are_reported(command, change):
    """An attacker can write valid checksums too."""
    made("s.db", [{}])
    with closing(sqlite3.connect("s.db")) as base:
        base.execute(f"UPDATE sweeps SET {change}")
        base.commit()
        names = ", ".join(("name", "command", "keys", "swept", "cells", "versions", "began", "ended", "done"))
        from quadsim.sweeps.store.checksums import checksum

        row = base.execute(f"SELECT {names} FROM sweeps").fetchone()
        base.execute('UPDATE sweeps SET "(checksum)" = ?', (checksum(list(row)),))
        base.commit()
    for arguments in ("status s.db", "plot s.db", "merge s.db store=new.db", "export s.db out=r.csv"):
        code, _, err = command(arguments)
        assert code in (0, 2), arguments
        assert code == 0 or err.count("\n") == 1
    assert command("status s.db")[0] == 2


# ---- loops of links, full disks, and what failed commands leave


LOOPS = [
    "merge g.db store=loop", "merge loop store=x.db", "merge g.db loop store=x.db", "merge g.db store=loop/x.db",
    "status loop", "status loop/s.db", "export loop out=r.csv", "export g.db out=loop/r.csv", "plot loop",
    f"{SWEEP} store=loop", f"{SWEEP} store=loop --dry-run", f"{SWEEP} store=loop/x.db", "merge loop store=loop",
]  # fmt: skip


@pytest.mark.parametrize("arguments", LOOPS)
def test_a_loop_of_links_is_refused_in_one_line(command, tmp_path, arguments):
    made("g.db", [{}])
    (tmp_path / "loop").symlink_to("loop")
    before = written(tmp_path)
    code, out, err = command(arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert written(tmp_path) == before


def test_a_full_disk_names_the_file_and_leaves_no_lock(command, tmp_path, monkeypatch):
    made("g.db", [{}])
    before = written(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(connection.FileLock, "write", full)
    for arguments in ("merge g.db store=m.db", f"{SWEEP} store=m.db"):
        code, out, err = command(arguments)
        assert (code, out) == (1, ""), err
        assert err.startswith("quadsim: No space left on device: ")
        assert err.endswith("m.db.lock\n")
        assert written(tmp_path) == before


def test_a_merge_that_fails_leaves_no_new_store(command, tmp_path, monkeypatch):
    made("g.db", [{"error": "x" * 2000}] * 250)
    before = written(tmp_path)
    usual = Store._open

    def cramped(self, *, writing):
        usual(self, writing=writing)
        if writing:
            self._connection.execute("PRAGMA max_page_count = 1")

    monkeypatch.setattr(Store, "_open", cramped)
    code, out, err = command("merge g.db store=m.db")
    assert (code, out, err) == (1, "", "quadsim: the disk is full: m.db\n")
    assert written(tmp_path) == before


@pytest.mark.parametrize(
    "arguments",
    ["plot nowhere.db out=a/../x.db", f"{SWEEP} store=a/../x.db", "plot g.db out=a/../x.db y=no",
     "export g.db out=a/../x.db", "export g.db out=a/../r.csv", "merge g.db store=a/../x.db", "case=9 out=a/../x.db"],
)  # fmt: skip
def test_failed_commands_leave_no_folder(command, tmp_path, arguments):
    made("g.db", [{}])
    before = written(tmp_path)
    assert command(arguments)[0] == 2
    assert written(tmp_path) == before


def test_a_sweep_that_cannot_begin_leaves_no_folder(command, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise InputError("no")

    monkeypatch.setattr("quadsim.sweeps.runner.plan", fails)
    assert command(SWEEP)[0] == 2
    assert written(tmp_path) == []
