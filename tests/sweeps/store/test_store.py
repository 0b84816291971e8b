"""The store: one file, rows written once; any fault of the file is reported, and the file is left unchanged."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quadsim as qs
from quadsim._validation import InputError
from quadsim.sweeps.store import connection
from quadsim.sweeps.store import database as stored
from quadsim.sweeps.store.connection import StoreError
from quadsim.sweeps.store.database import Store
from quadsim.sweeps.store.merge import merge
from quadsim.sweeps.store.verify import KEY_HALF

GRID = {"case": [3, 4], "kappa": [10, 100], "optimizers": ["gd", "block-gd"], "seed": range(3)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listing(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def key_of(number, code=0):
    """The key of a cell, as computed by some code."""
    return number.to_bytes(KEY_HALF) + code.to_bytes(KEY_HALF)


def row(number, **more):
    return {
        "key": key_of(number),
        "status": "converged",
        "steps_to_tol": number,
        "loss": number / 3,
        "grad_norm": 0.5,
        **more,
    }


def made(path, rows):
    with Store.writing(path) as store:
        return store.add(rows)


# ---- rows


def test_a_row_is_written_once(folder):
    with Store.writing("s.db") as store:
        assert store.add([row(1), row(2)]) == 2
        assert store.add([row(2, loss=9.0), row(3)]) == 1
        assert store.add([]) == 0
        assert len(store) == 3
        assert dict(store.rows(["steps_to_tol", "loss"]))[2] == 2 / 3
    with Store("s.db") as store:
        assert store.keys() == {key_of(number) for number in (1, 2, 3)}
        assert store.tally("status") == {"converged": 3}


def test_a_result_replaces_an_error_and_never_the_reverse(folder):
    failed = {"key": key_of(1), "status": "error", "error": "why"}
    with Store.writing("s.db") as store:
        store.add([failed])
        assert store.keys(errors=False) == set()
        assert store.add([row(1)]) == 1
        assert store.add([failed]) == 0
        assert store.tally("status") == {"converged": 1}
        assert store.keys(errors=False) == {key_of(1)}


def test_rows_come_whole_or_not_at_all(folder):
    with Store.writing("s.db") as store:
        store.add([row(1)])
        with pytest.raises(Exception):  # noqa: B017, PT011
            store.add([row(2), {"key": key_of(3), "loss": object()}])
        assert len(store) == 1
        assert store.columns() == ["status", "steps_to_tol", "loss", "grad_norm"]


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
NUMBER = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.none() | NUMBER | TEXT


@given(
    st.lists(st.fixed_dictionaries({}, optional={"a": PLAIN, "b c": PLAIN, 'd"': PLAIN, "select": PLAIN}), max_size=6)
)
@settings(max_examples=80)
def test_values_come_back_as_they_were(values):
    with Store.writing(None) as store:
        store.add([{"key": key_of(number), "place": number, **value} for number, value in enumerate(values)])
        names = [name for name in ("a", "b c", 'd"', "select") if name in store.columns()]
        back = list(store.rows(["place", *names])) if values else []
    for (place, *kept), value in zip(back, values, strict=True):
        assert value is values[place]
        for got, want in zip(kept, (value.get(name) for name in names), strict=True):
            assert (type(got), got) == (type(want), want)
            assert not isinstance(want, float) or got.hex() == want.hex()


@pytest.mark.parametrize("bundle", [2, 20_000])
def test_a_table_has_kinds_that_do_not_depend_on_how_it_is_read(folder, monkeypatch, bundle):
    monkeypatch.setattr(stored, "ROWS_PER_FETCH", bundle)
    rows = [row(k) for k in range(5)]
    rows[1] |= {"lr": 0.5, "word": "x", "whole": 7}
    rows[4] |= {"lr": "0.5/0.1", "mixed": 1}
    rows[3] |= {"mixed": 2.5}
    del rows[2]["steps_to_tol"]
    made("s.db", rows)
    with Store("s.db") as store:
        frame = store.frame()
    assert frame["steps_to_tol"].dtype == "Int64"
    assert frame["whole"].dtype == "Int64"
    assert frame["loss"].dtype == frame["mixed"].dtype == "float64"
    assert list(frame["lr"]) == [None, 0.5, None, None, "0.5/0.1"]
    assert frame["steps_to_tol"].isna().tolist() == [False, False, True, False, False]


# ---- files that are none of ours


def other_database(path, mode="DELETE"):
    base = sqlite3.connect(path)
    base.execute(f"PRAGMA journal_mode = {mode}")
    base.execute("CREATE TABLE t (x)")
    base.execute("INSERT INTO t VALUES (1)")
    base.commit()
    base.close()


def marked(path, schema):
    """A file with our mark, and nothing in it."""
    base = sqlite3.connect(path)
    base.execute(f"PRAGMA application_id = {connection.APPLICATION_ID}")
    base.execute(f"PRAGMA user_version = {schema}")
    base.close()


def truncated(path):
    qs.sweep(**GRID, store=path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])


def zeroed(path):
    qs.sweep(**GRID, store=path)
    data = bytearray(path.read_bytes())
    data[4096 : 3 * 4096] = bytes(2 * 4096)
    path.write_bytes(data)


FOREIGN = {
    "text": lambda path: path.write_text("case,kappa\n3,10\n"),
    "one letter": lambda path: path.write_text("S"),
    "the magic alone": lambda path: path.write_bytes(connection.MAGIC),
    "the magic and noise": lambda path: path.write_bytes(connection.MAGIC + random.Random(0).randbytes(5000)),
    "another database": other_database,
    "another database with a journal of writes": lambda path: other_database(path, "WAL"),
    "a newer schema": lambda path: marked(path, connection.SCHEMA_VERSION + 1),
    "the mark alone": lambda path: marked(path, connection.SCHEMA_VERSION),
    "truncated": truncated,
    "a folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_that_is_no_store_is_refused_and_left_unchanged(folder, kind):
    path = folder / "s.db"
    FOREIGN[kind](path)
    before = listing(folder)
    for call in (lambda: Store(path), lambda: qs.sweep(**GRID, store=path)):
        with pytest.raises(InputError) as raised:
            call()
        assert "store='" in str(raised.value)
        assert "\n" not in str(raised.value)
        assert {name: data for name, data in listing(folder).items() if name in before} == before


def test_another_programs_database_and_its_journal_are_left_unchanged(folder):
    """Opening a database for writing would apply its journal."""
    base = sqlite3.connect("f.db")
    base.execute("PRAGMA journal_mode = WAL")
    base.execute("CREATE TABLE t (x)")
    base.commit()
    for end in ("", "-wal"):
        shutil.copy(f"f.db{end}", f"g.db{end}")
    base.close()
    before = {name: data for name, data in listing(folder).items() if name.startswith("g.db")}
    assert len(before["g.db-wal"]) > 0
    with pytest.raises(InputError, match="another program's database"), Store.writing("g.db"):
        pass
    assert {name: data for name, data in listing(folder).items() if name in before} == before


def test_a_symlink_to_nowhere_is_refused(folder):
    (folder / "s.db").symlink_to(folder / "nowhere")
    for call in (lambda: Store("s.db"), lambda: qs.sweep(**GRID, store="s.db")):
        with pytest.raises(InputError):
            call()
    assert os.listdir(folder) == ["s.db"]


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero", "/dev/full"])
def test_devices_are_refused(device):
    beside = set(os.listdir("/dev"))
    try:
        for call in (lambda: Store(device), lambda: qs.sweep(**GRID, store=device)):
            with pytest.raises(InputError):
                call()
        assert set(os.listdir("/dev")) - beside == set()
    finally:
        for end in ("-journal", "-wal", "-shm", ".lock"):  # what would have been put beside it
            if os.path.basename(device) + end not in beside and os.path.exists(device + end):
                os.unlink(device + end)


def test_a_pipe_is_refused_and_not_waited_for(folder):
    os.mkfifo("pipe")
    script = (
        "import quadsim.sweeps.store.database as s\ntry:\n    s.Store('pipe')\nexcept ValueError as e:\n    print(e)"
    )
    try:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=5)
    except subprocess.TimeoutExpired:
        pytest.fail("it waits for somebody to write into the pipe")
    assert "store=" in done.stdout


def test_an_empty_file_is_no_store_but_can_become_one(folder):
    """A disk that was full at the first write leaves an empty file, and the sweep continues."""
    (folder / "s.db").touch()
    with pytest.raises(InputError, match="is not a store of a sweep"):
        Store("s.db")
    assert len(qs.sweep(**GRID, store="s.db")) == 24


@pytest.mark.slow
@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_random_bytes_in_a_store_are_reported_in_one_sentence_or_change_a_value(tmp_path_factory, seed):
    """Damage is reported in one sentence, or left to the checksums; the file is not written to."""
    whole = tmp_path_factory.getbasetemp() / "whole.db"
    if not whole.exists():
        qs.sweep(**GRID, store=whole)
    path = tmp_path_factory.mktemp("damaged") / "s.db"
    rng = random.Random(seed)
    data = bytearray(whole.read_bytes())
    for _ in range(rng.choice([1, 3, 50])):
        at, count = rng.randrange(len(data)), rng.choice([1, 8, 200])
        data[at : at + count] = rng.randbytes(len(data[at : at + count]))
    path.write_bytes(data)
    message = None
    try:
        with Store(path) as store:
            store.frame()
            store.sweeps()
            store.tally("status")
    except (InputError, StoreError) as error:
        message = str(error)
    if message is not None:
        assert "\n" not in message
        assert path.read_bytes() == data


# ---- a full disk


def test_a_full_disk_keeps_what_was_committed_and_the_same_call_continues(folder, monkeypatch):
    """Portable: SQLite is limited to a number of pages."""
    asked = GRID | {"seed": range(40), "threads": 1}
    usual = Store._open

    def cramped(self, *, writing):
        usual(self, writing=writing)
        if writing and str(self.path) == "s.db":
            self._connection.execute("PRAGMA max_page_count = 20")

    monkeypatch.setattr(Store, "_open", cramped)
    with pytest.raises(StoreError) as raised:
        qs.sweep(**asked, store="s.db")
    assert str(raised.value).startswith("the disk is full; all that was committed is kept in s.db")
    assert "\n" not in str(raised.value)
    monkeypatch.setattr(Store, "_open", usual)
    with Store("s.db") as store:
        kept = store.frame(["key", "loss"])
    assert 0 < len(kept) < 320
    frame = qs.sweep(**asked, store="s.db")
    assert len(frame) == 320
    with Store("s.db") as store:
        after = store.frame(["key", "loss"])
    pd.testing.assert_frame_equal(after[after["key"].isin(kept["key"])].reset_index(drop=True), kept)


# ---- who writes, and who reads


def test_one_process_writes_at_a_time_and_all_may_read(folder):
    with Store.writing("s.db") as store:
        store.add([row(1)])
        who = f"is being written by another process .process {os.getpid()}."
        with pytest.raises(InputError, match=who) as raised, Store.writing("s.db"):
            pass
        assert "\n" not in str(raised.value)
        with Store("s.db") as reader:
            assert reader.busy
            assert len(reader) == 1
            store.add([row(2)])
            assert len(reader) == 2
    with Store("s.db") as reader:
        assert not reader.busy
    with Store.writing("s.db") as store:
        assert len(store) == 2


def test_a_symlink_and_its_target_are_one_store(folder):
    made("s.db", [row(1)])
    os.symlink("s.db", "link.db")
    with Store.writing("s.db"), pytest.raises(InputError, match="being written"), Store.writing("link.db"):
        pass


@pytest.mark.slow
def test_a_writer_that_was_killed_leaves_its_rows_and_no_lock(folder):
    script = (
        "import os, signal\nfrom quadsim.sweeps.store.database import Store\nwith Store.writing('s.db') as store:\n"
        "    store.add([{'key': bytes(16), 'status': 'converged'}])\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == -9
    assert (folder / "s.db.lock").exists()
    with Store("s.db") as store:
        assert not store.busy
        assert len(store) == 1
    assert made("s.db", [row(1)]) == 1
    assert not (folder / "s.db.lock").exists()


def test_reading_leaves_nothing_behind(folder):
    made("s.db", [row(1)])
    before = listing(folder)
    assert list(before) == ["s.db"]
    with Store("s.db") as store:
        store.frame()
        assert store.sweeps() == []
    assert listing(folder) == before


def test_a_store_on_a_disk_that_cannot_be_written_is_read(folder):
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting needs rights")
    (folder / "disk").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", "disk"], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        made("disk/s.db", [row(1)])
        subprocess.run(["mount", "-o", "remount,ro", "disk"], check=True)
        with Store("disk/s.db") as store:
            assert len(store) == 1
        for name in ("disk/s.db", "disk/new.db"):
            with pytest.raises(InputError, match="cannot be written"), Store.writing(name):
                pass
    finally:
        subprocess.run(["umount", "-l", "disk"], check=True)


@pytest.mark.parametrize("name", ["a?b#c%20.db", "a b.db", "ä½.db", "'\".db", "-x.db"])
def test_odd_names_are_names(folder, name):
    made(f"./{name}", [row(1)])
    with Store(f"./{name}") as store:
        assert len(store) == 1
    assert name in os.listdir(folder)


# ---- bringing stores together


def merged(target, *others):
    counts = []
    with Store.writing(target) as store:
        for other in others:
            with Store(other) as one:
                counts.append(merge(store, one))
    return counts


def test_a_row_takes_the_place_of_the_same_cell_by_other_code(folder):
    with Store.writing("s.db") as store:
        assert store.add([row(1), row(2)]) == 2
        assert store.add([row(1, key=key_of(1, code=7), loss=0.5)]) == 1
        assert store.keys() == {key_of(1, code=7), key_of(2)}
        assert store.add([row(1, key=key_of(1, code=7), loss=0.6)]) == 0  # the same code: what is there stays
        assert dict(store.rows(["steps_to_tol", "loss"])) == {1: 0.5, 2: 2 / 3}


def test_a_merge_keeps_the_existing_row_of_a_cell_by_other_code(folder):
    made("new.db", [row(1, key=key_of(1, code=7), loss=0.5)])
    made("old.db", [row(1), row(2)])
    assert merged("new.db", "old.db") == [(1, 1)]
    with Store("new.db") as store:
        assert store.keys() == {key_of(1, code=7), key_of(2)}


def test_merged_rows_occur_once_and_conflicts_are_counted(folder):
    made("a.db", [row(1), row(2, only_a=5)])
    made("b.db", [row(2, loss=9.0), row(3, only_b="x")])
    assert merged("all.db", "a.db", "b.db", "a.db", "b.db") == [(2, 0), (1, 1), (0, 0), (0, 1)]
    with Store("all.db") as store:
        assert len(store) == 3
        assert dict(store.rows(["steps_to_tol", "loss"]))[2] == 2 / 3
        assert set(store.columns()) == {"status", "steps_to_tol", "loss", "grad_norm", "only_a", "only_b"}


def test_conflicts_are_counted_where_no_row_got_to_its_tolerance(folder):
    plain = {"status": "max-steps", "grad_norm": 0.5}
    made("a.db", [{"key": bytes(16), **plain, "loss": 1.0}])
    made("b.db", [{"key": bytes(16), **plain, "loss": 2.0}])
    assert merged("a.db", "b.db") == [(0, 1)]


def test_failed_rows_are_counted_as_failed(folder):
    failed = {"key": key_of(1), "status": "error", "error": "why"}
    made("errors.db", [failed])
    made("done.db", [row(1)])
    assert merged("x.db", "errors.db", "errors.db") == [(1, 0), (0, 0)]  # the same once more is nothing new
    assert merged("done.db", "errors.db") == [(0, 0)]  # a failure is no other result
    assert merged("errors.db", "done.db") == [(1, 0)]
    with Store("errors.db") as store:
        assert store.tally("status") == {"converged": 1}


def test_sweeps_are_listed_after_a_merge(folder):
    qs.sweep(**GRID, store="a.db")
    qs.sweep(**GRID | {"kappa": 1000}, store="b.db")
    merged("all.db", "a.db", "b.db")
    with Store("all.db") as store:
        assert [one["cells"] for one in store.sweeps()] == [24, 12]
    assert len(qs.sweep(**GRID | {"kappa": [10, 100, 1000]}, store="all.db")) == 36
