"""Damage in a store: each damaged or missing row is named, the others stay readable, a sweep computes it again."""

import csv
import itertools
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quadsim as qs
from quadsim._validation import InputError
from quadsim.cli import main as cli
from quadsim.sweeps.store import connection, wal
from quadsim.sweeps.store.checksums import RowChecksums
from quadsim.sweeps.store.database import Store
from quadsim.sweeps.store.verify import KEY_HALF, VerifiedStore

GRID = {"case": [3, 4], "kappa": [10, 100], "optimizers": ["gd", "block-gd"], "seed": range(3)}
SWEEP = "sweep case=3,4 kappa=10,100 optimizers=gd,block-gd seed=0..2 store=s.db"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store that was closed."""
    path = tmp_path_factory.mktemp("whole") / "s.db"
    qs.sweep(**GRID, store=path)
    return path


KILLED = """
import os, signal
import quadsim as qs
from quadsim.sweeps.executors import ThreadExecutor
from quadsim.sweeps.store.database import Store

ThreadExecutor.chunk_seconds, usual, count = 0.002, Store.add, 0


def add(self, *rest, **how):
    global count
    done, count = usual(self, *rest, **how), count + 1
    if count == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return done


Store.add = add
qs.sweep(case=[3, 4], kappa=[10, 100], optimizers=["gd", "block-gd"], seed=range(3), store="s.db", threads=1)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A store whose writer was killed after five commits, which are in its log."""
    folder = tmp_path_factory.mktemp("killed")
    assert subprocess.run([sys.executable, "-c", KILLED], cwd=folder).returncode == -9
    assert (folder / "s.db-wal").stat().st_size > 0
    assert (folder / "s.db.lock").exists()
    return folder / "s.db"


def copied(path, folder, ends=("", "-wal", ".lock")):
    folder.mkdir(exist_ok=True)
    for end in ends:
        if Path(f"{path}{end}").exists():
            shutil.copy(f"{path}{end}", folder / f"s.db{end}")
    return folder / "s.db"


def flipped(path, rng, count):
    data = bytearray(path.read_bytes())
    for _ in range(count):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def sql(path, *statements):
    with closing(sqlite3.connect(path)) as base:
        for statement in statements:
            base.execute(statement)
        base.commit()


def exported(path, out):
    """The exit code of export, and the rows that it writes, absent values left out; None if it writes no file."""
    out.unlink(missing_ok=True)
    code = cli.main(["export", str(path), f"out={out}", "--json"])
    if not out.exists():
        return code, None
    with open(out, newline="", encoding="utf-8") as file:
        return code, [{name: text for name, text in row.items() if text} for row in csv.DictReader(file)]


# ---- flipped bits


LOGGED = ("", "-wal", ".lock"), ("", "-wal")  # the second: a copy without the note of what was committed


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_150_stores_with_flipped_bits_export_no_wrong_value_and_lose_no_row_silently(
    whole, killed, tmp_path, monkeypatch, part, capsys
):
    """100 damaged in the file itself, 50 in a log that holds committed rows."""
    monkeypatch.chdir(tmp_path)
    good = {path: exported(copied(path, tmp_path / path.parent.name), tmp_path / "r.csv") for path in (whole, killed)}
    assert [code for code, _ in good.values()] == [0, 0]
    found = dict.fromkeys(("same", "reported", "refused"), 0)
    for number in range(part * 25, part * 25 + 25):
        rng, logged = random.Random(number), part >= 4
        source = killed if logged else whole
        path = copied(source, Path("damaged"), LOGGED[number % 2] if logged else ("",))
        flipped(Path(f"{path}-wal") if logged else path, rng, rng.randint(1, 16))
        capsys.readouterr()
        code, rows = exported(path, tmp_path / "rows.csv")
        err = capsys.readouterr().err
        if code == 0:
            assert rows == good[source][1], number
            found["same"] += 1
        else:
            assert err.count("\n") == 1, number
            assert len(err) <= 201, number
            assert all(row in good[source][1] for row in rows or []), number
            found["reported" if rows is not None else "refused"] += 1
        shutil.rmtree(tmp_path / "damaged")
    assert found["reported"] + found["refused"] >= 5  # the flips do hit something


def test_most_rows_of_a_damaged_file_stay_readable(whole, tmp_path):
    kept = []
    for number in range(20):
        path = copied(whole, tmp_path / f"{number}")
        flipped(path, random.Random(number), 3)
        code, rows = exported(path, tmp_path / "rows.csv")
        kept += [len(rows)] if code == 1 and rows is not None else []
    assert len(kept) >= 8
    assert sum(kept) > 0.8 * 24 * len(kept)


# ---- rows


def test_a_changed_value_is_named_and_left_out_and_a_sweep_computes_it_again(command, tmp_path):
    assert command(SWEEP)[0] == 0
    good = exported(Path("s.db"), Path("good.csv"))
    assert command("status s.db")[::2] == (0, "")
    sql("s.db", "UPDATE cells SET loss = loss * (1 + 3e-16) WHERE rowid IN (3, 7)")  # the last bit
    with closing(sqlite3.connect("s.db")) as base:
        keys = [key.hex() for (key,) in base.execute("SELECT key FROM cells WHERE rowid IN (3, 7)")]
    for arguments in ("status s.db", "export s.db out=some.csv", "plot s.db", "merge s.db store=other.db"):
        code, _, err = command(arguments)
        assert (code, err.count("\n")) == (1, 1), (arguments, err)
        assert "2 damaged rows" in err
        assert all(key[: 2 * KEY_HALF] in err for key in keys)
    code, rows = exported(Path("s.db"), Path("rows.csv"))
    assert (code, len(rows)) == (1, 22)
    assert all(row in good[1] for row in rows)
    with Store("other.db") as store:
        assert (len(store), bool(store.damage)) == (22, False)
    code, _, err = command(SWEEP)
    assert code == 0
    assert "2 damaged rows" in err
    assert command("status s.db")[::2] == (0, "")
    again = exported(Path("s.db"), Path("rows.csv"))[1]
    for row in (*again, *good[1]):
        del row["seconds"]
    assert again == good[1]


def test_python_warns_of_damage_and_computes_it_again(tmp_path):
    path = tmp_path / "s.db"
    before = qs.sweep(**GRID, store=path)
    sql(path, "UPDATE cells SET status = 'diverged' WHERE rowid = 5")
    with pytest.warns(UserWarning, match="1 damaged row"):
        after = qs.sweep(**GRID, store=path)
    assert list(after["loss"]) == list(before["loss"])
    assert set(after["status"]) == {"converged"}


DAMAGES = {
    "a row is gone": ("DELETE FROM cells WHERE rowid = 4", "1 row missing", 23),
    "a key": ("UPDATE cells SET key = x'00' WHERE rowid = 4", "1 damaged row (row 4)", 23),
    "a key that is no bytes": ("UPDATE cells SET key = 'text' WHERE rowid = 4", "1 damaged row (row 4)", 23),
    "a type": ("UPDATE cells SET dim = CAST(dim AS TEXT) WHERE rowid = 4", "1 damaged row", 23),
    "a whole number for a real one": ("UPDATE cells SET kappa = 10 WHERE kappa = 10.0", "damaged rows", 12),
    "a value that was absent": ("UPDATE cells SET error = 'x' WHERE rowid = 4", "1 damaged row", 23),
    "a value that is gone": ("UPDATE cells SET status = NULL WHERE rowid = 4", "1 damaged row", 23),
    "text that is no UTF-8": ("UPDATE cells SET status = CAST(x'ff41' AS TEXT) WHERE rowid = 4", "1 damaged row", 23),
    "its checksum": ('UPDATE cells SET "(checksum)" = x\'00\' WHERE rowid = 4', "1 damaged row", 23),
    "two values exchanged": (
        "UPDATE cells SET loss = grad_norm, grad_norm = loss WHERE rowid = 4", "1 damaged row", 23),
    "two rows exchanged": (
        "UPDATE cells SET loss = (SELECT loss FROM cells WHERE rowid = 9) WHERE rowid = 4", "1 damaged row", 23),
    "a row of somebody else's": ("INSERT INTO cells (key, status) VALUES (x'01', 'converged')", "1 damaged row", 24),
    "its sweep": ("UPDATE sweeps SET command = 'x'", "1 damaged in its list of sweeps", 24),
    "its sweep is gone": ("DELETE FROM sweeps", "1 damaged in its list of sweeps", 24),
    "a fingerprint": ("UPDATE codes SET parts = '{}'", "damaged in its list of fingerprints", 24),
    "its totals": ("UPDATE totals SET rows = 23", "damaged totals", 24),
    "its totals are gone": ("DELETE FROM totals", "damaged totals", 24),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_and_the_rest_stays_readable(command, whole, tmp_path, name, capsys):
    statement, sentence, left = DAMAGES[name]
    copied(whole, tmp_path)
    good = exported(Path("s.db"), Path("good.csv"))
    assert good[0] == 0
    sql("s.db", statement)
    capsys.readouterr()
    code, rows = exported(Path("s.db"), Path("rows.csv"))
    err = capsys.readouterr().err
    assert sentence in err, err
    assert (code, len(rows)) == (1, left)
    assert all(row in good[1] for row in rows)
    assert command(SWEEP)[0] == 0
    assert command("status s.db")[::2] == (0, "")  # sound again
    assert len(exported(Path("s.db"), Path("rows.csv"))[1]) == 24


def test_damaged_columns_are_refused(command, whole, tmp_path):
    copied(whole, tmp_path)
    sql("s.db", "ALTER TABLE cells RENAME COLUMN loss TO lots")
    code, out, err = command("export s.db out=rows.csv")
    assert (code, out, err) == (2, "", "quadsim: store='s.db' is damaged (its columns): it is left unchanged\n")


def test_a_blob_is_covered_by_the_checksum_of_its_row(tmp_path):
    path = tmp_path / "s.db"
    with Store.writing(path) as store:
        store.add([{"key": bytes([k]) * 2 * KEY_HALF, "raw": struct.pack("<3d", k, -0.0, 1e-300)} for k in range(4)])
    assert not Store(path).damage
    sql(path, "UPDATE cells SET raw = x'00' || substr(raw, 2) WHERE rowid = 2")
    with Store(path) as store:
        assert len(store.damage.rows) == 1
        assert [raw for (raw,) in store.rows(["raw"])] == [struct.pack("<3d", k, -0.0, 1e-300) for k in (0, 2, 3)]


def test_a_damaged_index_is_found(whole, tmp_path):
    """Its entries are keys, which must agree with the table."""
    path = copied(whole, tmp_path)
    with closing(sqlite3.connect(path)) as base:
        key = base.execute("SELECT key FROM cells WHERE rowid = 5").fetchone()[0]
    data = path.read_bytes()
    places = [at for at in range(len(data)) if data.startswith(key, at)]
    leaf = next(at for at in places if data[at // 4096 * 4096] == 0x0A)  # a leaf of an index, not of a table
    path.write_bytes(data[:leaf] + bytes([data[leaf] ^ 1]) + data[leaf + 1 :])
    with Store(path) as store:
        assert "damaged pages" in store.damage.sentence()
        assert len(store) == 24
    with pytest.raises(InputError, match="merge it into a new one to save its rows"), Store.writing(path):
        pass


def test_rows_on_other_pages_survive_a_page_of_zeros(tmp_path):
    path = tmp_path / "s.db"
    qs.sweep(**GRID | {"seed": range(20)}, store=path)
    data = bytearray(path.read_bytes())
    tables = [at for at in range(4096, len(data), 4096) if data[at] == 0x0D and data[at + 3 : at + 5] > b"\x00\x04"]
    data[tables[-2] : tables[-2] + 4096] = bytes(4096)
    path.write_bytes(data)
    with Store(path) as store:
        assert 100 < len(store) < 160
        assert store.damage.missing + len(store.damage.rows) == 160 - len(store)


def test_a_merge_saves_what_is_intact_and_says_what_is_not(command, whole, tmp_path):
    copied(whole, tmp_path)
    sql("s.db", "UPDATE cells SET loss = 0 WHERE rowid = 4")
    code, out, err = command("merge s.db store=new.db")
    assert (code, "23 rows, 23 new" in out, "1 damaged row" in err) == (1, True, True)
    assert command("merge s.db store=new.db --json")[0] == 1
    assert command("status new.db")[::2] == (0, "")
    qs.sweep(**GRID, store="sound.db")
    shutil.copy("s.db", "target.db")
    code, _, err = command("merge sound.db store=target.db")  # the damaged row of the target is replaced
    assert (code, "1 damaged row" in err) == (1, True)
    with Store("target.db") as store:
        assert (len(store), bool(store.damage)) == (24, False)


# ---- checksums


PLAIN = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN |= st.text(st.characters(exclude_characters="\0"), max_size=4) | st.binary(max_size=4)
ROWS = st.lists(PLAIN, min_size=3, max_size=3)


@given(ROWS, ROWS)
@settings(max_examples=300)
def test_rows_have_one_checksum_only_if_they_are_equal(one, other):
    sums = RowChecksums(["b", "a", "c"], {})
    same = [repr(value) for value in one] == [repr(value) for value in other]
    assert (sums.of(b"k", one) == sums.of(b"k", other)) == same
    assert sums.of(b"k", one) != sums.of(b"l", one)
    assert sums.of(b"k", one) == RowChecksums(["c", "b", "a"], {}).of(b"k", one)  # by alphabetical order of columns


def test_values_that_look_alike_have_different_checksums():
    sums = RowChecksums(["a"], {"a": 0.0})
    alike = [1, 1.0, "1", b"1", 2, 2.0, "", b"", -0.0, "0.0", None]
    for one, other in itertools.combinations(alike, 2):
        assert sums.of(b"k", [one]) != sums.of(b"k", [other])
    for default in (0.0, 0, None):  # the default of the column, as it was written, as SQLite gives it, and absent
        assert sums.of(b"k", [default]) == sums.of(b"k", [None])


def test_rows_written_before_a_column_are_sound_after_it(tmp_path):
    path = tmp_path / "s.db"
    with Store.writing(path) as store:
        store.add([{"key": bytes([1]) * 24, "loss": 1.0}])
        store.add([{"key": bytes([2]) * 24, "loss": 2.0, "noise": 0.5, "kind": "a'b"}], {"noise": 0.0, "kind": "it's"})
        store.add([{"key": bytes([3]) * 24, "loss": 3.0, "noise": 0.0, "kind": "it's"}], {"noise": 0.0})
    with Store(path) as store:
        assert not store.damage
        assert list(store.rows(["noise", "kind"])) == [(0.0, "it's"), (0.5, "a'b"), (0.0, "it's")]
    sql(path, "UPDATE cells SET noise = 0.0 WHERE rowid = 2")
    assert len(Store(path).damage.rows) == 1


# ---- the log


def test_a_killed_writer_is_not_reported_as_damage(killed, tmp_path, capsys):
    for ends in LOGGED:
        path = copied(killed, tmp_path / str(len(ends)), ends)
        assert cli.main(["status", str(path)]) == 0
        assert capsys.readouterr().err == ""
        with Store(path) as store:
            assert 0 < len(store) < 24


@pytest.mark.parametrize("ends", LOGGED, ids=["noted", "not noted"])
def test_a_damaged_log_is_reported_each_time_and_a_sweep_continues(killed, tmp_path, monkeypatch, capsys, ends):
    monkeypatch.chdir(tmp_path)
    path = copied(killed, tmp_path, ends)
    log = Path(f"{path}-wal").read_bytes()
    page = struct.unpack(">I", log[8:12])[0]
    last = len(log) - (page + 24)  # the last frame, which ends the last commit
    Path(f"{path}-wal").write_bytes(log[: last + 1000] + bytes([log[last + 1000] ^ 4]) + log[last + 1001 :])
    for _ in range(2):
        assert cli.main(["export", "s.db", "out=rows.csv"]) == 1
        assert "damaged write-ahead log" in capsys.readouterr().err
    assert cli.main(SWEEP.split(" ")) == 0
    assert "damaged write-ahead log" in capsys.readouterr().err
    assert cli.main(["status", "s.db"]) == 0
    with Store("s.db") as store:
        assert len(store) == 24


def test_a_log_that_is_gone_is_reported(killed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    copied(killed, tmp_path, ("", ".lock"))
    assert cli.main(["export", "s.db", "out=rows.csv"]) == 1
    assert "lost with a damaged write-ahead log" in capsys.readouterr().err
    assert cli.main(SWEEP.split(" ")) == 0
    assert "lost with a damaged write-ahead log" in capsys.readouterr().err
    assert cli.main(["status", "s.db"]) == 0


def test_a_store_that_lost_its_tables_with_the_log_is_reported(killed, tmp_path, monkeypatch, capsys):
    """As where the writer was killed before the first checkpoint."""
    monkeypatch.chdir(tmp_path)
    copied(killed, tmp_path, (".lock",))
    with closing(sqlite3.connect("s.db")) as base:
        base.execute("PRAGMA journal_mode = WAL")
    assert cli.main(["export", "s.db", "out=rows.csv"]) == 1
    assert "has lost all its rows" in capsys.readouterr().err
    assert cli.main(SWEEP.split(" ")) == 0
    assert "all rows lost with a damaged write-ahead log" in capsys.readouterr().err
    assert cli.main(["status", "s.db"]) == 0


def test_a_note_of_another_store_is_ignored(whole, killed, tmp_path):
    """A new store in the place of one whose writer was killed."""
    path = copied(whole, tmp_path)
    shutil.copy(f"{killed}.lock", f"{path}.lock")
    note = connection.last_note(path)
    assert note is not None
    Path(f"{path}.lock").write_text("\nprocess 1\n" + connection.CommitNote(note.store, 10**6, 10**6).line())
    with Store(path) as store:
        assert not store.damage


def test_a_damaged_note_is_no_note(killed, tmp_path):
    path = copied(killed, tmp_path)
    text = Path(f"{path}.lock").read_text()
    Path(f"{path}.lock").write_text(text.replace("committed", "commited"))
    assert connection.last_note(path) is None
    with Store(path) as store:
        assert not store.damage


def test_every_flipped_bit_of_a_frame_is_found(killed, tmp_path):
    path = copied(killed, tmp_path, ("", "-wal"))
    log = Path(f"{path}-wal").read_bytes()
    assert wal.fault(path) is None
    rng = random.Random(0)
    for _ in range(200):
        at = rng.randrange(len(log))
        Path(f"{path}-wal").write_bytes(log[:at] + bytes([log[at] ^ 1 << rng.randrange(8)]) + log[at + 1 :])
        assert wal.fault(path) is not None or at in range(4, 8), at  # SQLite's own version, which is not looked at
    Path(f"{path}-wal").write_bytes(log[:-100])  # a frame that was being written is no damage
    assert wal.fault(path) is None


def test_frames_of_an_older_log_are_no_damage(tmp_path):
    """SQLite restarts a log at its beginning; frames of the older log remain after the new ones."""
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(path)) as base:
        base.execute("PRAGMA journal_mode = WAL")
        base.execute("CREATE TABLE t (x)")
        base.executemany("INSERT INTO t VALUES (?)", [("x" * 3000,) for _ in range(40)])
        base.commit()
        base.execute("PRAGMA wal_checkpoint(RESTART)")
        base.execute("INSERT INTO t VALUES (1)")
        base.commit()
        size = Path(f"{path}-wal").stat().st_size
        assert size > 20 * 4096
        assert wal.fault(path) is None


def test_a_commit_while_a_store_is_opened_is_no_damage(tmp_path, monkeypatch):
    """The totals and the rows that a reader compares are those of one commit."""
    path, read_totals = tmp_path / "s.db", VerifiedStore._read_totals
    with Store.writing(path) as writer:
        writer.add([{"key": bytes(24), "loss": 0.5}])

        def read_before_a_commit(self):
            read_totals(self)
            writer.add([{"key": bytes([len(writer)]) * 24, "loss": 0.25}])

        monkeypatch.setattr(VerifiedStore, "_read_totals", read_before_a_commit)
        with Store(path) as store:
            assert not store.damage
            assert len(store) == len(writer) == 2


# ---- stores of earlier releases


@pytest.fixture
def old(tmp_path):
    """A store of schema 1, without checksums."""
    path = tmp_path / "old.db"
    sql(
        path,
        "CREATE TABLE cells (key BLOB NOT NULL UNIQUE, status, loss, noise DEFAULT 0.0)",
        "CREATE TABLE sweeps (name TEXT PRIMARY KEY, command TEXT, keys TEXT, swept TEXT, cells INTEGER, "
        "versions TEXT, began TEXT, ended TEXT)",
        "INSERT INTO cells VALUES (x'010101010101010101010101020202020202020202020202', 'converged', 0.5, 0.0)",
        "INSERT INTO cells VALUES (x'030101010101010101010101020202020202020202020202', 'max-steps', 0.1, 0.2)",
        """INSERT INTO sweeps VALUES ('a', 'sweep case=3', '{"case": "3"}', '[]', 3, '{}', '2026-01-01', NULL)""",
        f"PRAGMA application_id = {connection.APPLICATION_ID}",
        "PRAGMA user_version = 1",
    )
    return path


def test_a_store_of_schema_1_is_read_and_says_that_it_has_no_checksums(old, capsys):
    before = old.read_bytes()
    assert cli.main(["status", str(old)]) == 0
    out = capsys.readouterr().out
    assert "schema 1: its rows have no checksums" in out
    assert "2 rows (written by an earlier release: sweep into a new store)" in out
    code, rows = exported(old, old.with_suffix(".csv"))
    assert (code, sorted(row["status"] for row in rows)) == (0, ["converged", "max-steps"])
    assert old.read_bytes() == before


def test_a_store_of_an_earlier_release_is_not_written_to(old, tmp_path, capsys):
    """Its keys and columns have other names: its rows would stay beside those computed again."""
    before = old.read_bytes()
    lines = (
        f"sweep case=3 optimizers=gd store={old}",
        f"sweep case=3 optimizers=gd store={old} --dry-run",
        f"merge {old} store={tmp_path / 'new.db'}",
        f"merge {old} store={old.with_suffix('.copy')}",
    )
    shutil.copy(old, old.with_suffix(".copy"))
    for line in lines:
        assert cli.main(line.split()) == 2, line
        out, err = capsys.readouterr()
        assert "was written by an earlier release, whose columns differ: give another store" in err
        assert (out, err.count("\n")) == ("", 1)
    with pytest.raises(InputError, match="was written by an earlier release"):
        qs.sweep(case=3, optimizers="gd", store=old)
    assert old.read_bytes() == before == old.with_suffix(".copy").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.copy", "old.db"]


def test_a_store_of_schema_2_is_read_only(tmp_path, capsys):
    path = tmp_path / "two.db"
    qs.sweep(case=3, optimizers="gd", store=path)
    sql(path, "PRAGMA user_version = 2")
    assert cli.main(["status", str(path)]) == 0
    assert "(written by an earlier release: sweep into a new store)" in capsys.readouterr().out
    with pytest.raises(InputError, match="was written by an earlier release"):
        qs.sweep(case=3, optimizers="gd", store=path)
    assert len(Store(path)) == 1
