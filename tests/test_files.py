"""Files that a user names, error lines and full disks."""

import ast
import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quadsim import _artifacts, _files
from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.cli import main as cli
from quadsim.engine import table
from quadsim.spectra import files

ROOT = Path(__file__).parent.parent


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """A working folder with one file of each kind in `KINDS`."""
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("zero").symlink_to("/dev/zero")
    Path("folder").mkdir()
    os.mkfifo("fifo")
    Path("large").write_bytes(b"#" * (2**20 + 1))
    Path("grows").symlink_to("/proc/self/environ")  # a regular file of size 0 that is not empty
    return tmp_path


KINDS = {
    "loop": "Too many levels of symbolic links",
    "zero": "is a device",
    "fifo": "is a FIFO",
    "folder": "is a folder",
    "large": "is larger than 1 MB",
    "nowhere": "No such file or directory",
    "x" * 300: "File name too long",
    "/" * 5000: "File name too long",
    "a\0b": "null",
    "folder/x": "No such file or directory",
    "large/x": "Not a directory",
}


@pytest.mark.parametrize("name", KINDS, ids=[name[:10] for name in KINDS])
def test_only_regular_files_are_read(odd, name):
    began = time.perf_counter()
    for read in (_files.read_bytes, _files.read_text, _files.check_file):
        with pytest.raises(InputError, match=KINDS[name]) as raised:
            read("rules", name, at_most=2**20)
        assert str(raised.value).startswith("rules=")
        assert len(str(raised.value)) <= 191
    assert time.perf_counter() - began < 5


def test_regular_files_are_read(odd):
    Path("text").write_bytes("\ufeffa\r\nb\rc".encode())
    assert _files.read_text("rules", "text", at_most=10) == "a\nb\nc"
    with pytest.raises(InputError, match="is larger than 5 bytes"):
        _files.read_text("rules", "text", at_most=5)
    Path("text").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        _files.read_text("rules", "text", at_most=5)
    with pytest.raises(InputError, match="is larger than 8 bytes"):
        _files.read_bytes("rules", "grows", at_most=8)


def test_a_fifo_that_replaces_a_file_does_not_block(odd, monkeypatch):
    """Between the check and the opening, the file is replaced by a FIFO."""
    Path("file").write_text("x")
    regular = os.stat("file")
    monkeypatch.setattr(_files.os, "stat", lambda path: regular)
    with pytest.raises(InputError, match="is a FIFO"):
        _files.read_bytes("rules", "fifo", at_most=10)


@pytest.mark.parametrize("name", [name for name in KINDS if "\0" not in name], ids=lambda name: name[:10])
@pytest.mark.parametrize(
    "words", ["case=3 max_steps=5 rules={}", "list rules={}", "sweep case=3 max_steps=5 rules={} store=n.db"]
)
def test_rules_files_of_all_kinds(odd, capsys, name, words):
    before = sorted(path.name for path in odd.rglob("*"))
    assert cli.main(words.format(name).split()) == 2
    error = capsys.readouterr().err
    assert KINDS[name] in error
    assert len(error) <= 201
    assert sorted(path.name for path in odd.rglob("*")) == before


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_network_files_of_all_kinds(odd, capsys, suffix):
    for name in ("loop", "zero", "folder", "nowhere"):
        Path(name + suffix).symlink_to(name)
    os.mkfifo(f"fifo{suffix}")
    for name in ("loop", "zero", "folder", "nowhere", "fifo", "x" * 300):
        for words in ("case=2 max_steps=5 network={}", "spectra model={}"):
            assert cli.main(words.format(name + suffix).split()) == 2
            assert KINDS[name] in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    ["report figures={}", "report figures=folder out={}", "case=3 max_steps=5 out={}", "verify claim=2c draws=1 out={}",
     "reproduce zhang_four_cases out={}", "bench out={}", "plot s.db out={}", "cases out={}"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["loop", "loop/x.html", "y" * 300, f"{'y' * 300}.html", "z/" * 3000, "large/x", "fifo",
                                  "nowhere/../large/x.html"], ids=lambda name: name[:24])  # fmt: skip
def test_output_paths_of_all_kinds(odd, capsys, words, name):
    before = sorted(path.name for path in odd.rglob("*"))
    assert cli.main(words.format(name).split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert len(err) <= 201
    assert sorted(path.name for path in odd.rglob("*")) == before


def test_error_lines_are_short_and_printable(capsys):
    for words in (["x" * 262_144], ["case=" + "9" * 262_144], ["a" * 10_000 + "=1"], ["case=3", "\x1b[31mred=1"],
                  ["case=3", "x\u202ey=1"], ["case=3", "a\x9bb"], ["case=3", "rules=" + "w " * 9_000]):  # fmt: skip
        assert cli.main(words) == 2
        line = capsys.readouterr().err
        assert line.endswith("\n")
        assert len(line[:-1]) <= 200
        assert line[:-1].isprintable()


def test_long_words_of_a_message_are_shortened_first():
    assert checks.one_line("a  b\nc") == "a b c"
    assert checks.one_line("\x1b[31m\ud800\u202e") == "\\x1b[31m\\ud800\\u202e"
    message = checks.one_line(f"rules={'x' * 5000} cannot be read (File name too long)")
    assert message.endswith("cannot be read (File name too long)")
    assert len(message) <= 191
    assert len(checks.one_line("word " * 1000)) <= 191
    short = "x" * 191
    assert checks.one_line(short) == short
    assert len(str(InputError("y " * 5000))) <= 191


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 64 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("free", [8, 40])  # KB: no figure fits; one figure fits, but not the other files
def test_a_full_disk_is_reported_with_the_file(tiny_disk, capsys, free):
    (tiny_disk / "ballast").write_bytes(b"x" * (64 - free) * 1024)
    assert cli.main(["case=3", "max_steps=50", f"out={tiny_disk}"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"quadsim: {os.strerror(errno.ENOSPC)}: ")
    assert "case-3-max_steps-50" in error
    assert error.count("\n") == 1
    assert [path.name for path in tiny_disk.iterdir()] == ["ballast"]


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("what", "suffix"), [("quadsim._artifacts._draw", ".png"), ("quadsim._columns.Columns.to_csv", ".csv"),
                         ("pathlib.Path.write_text", ".json")]
)  # fmt: skip
def test_a_failed_write_names_the_file(tmp_path, monkeypatch, capsys, what, suffix):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(what, full)
    assert cli.main(["case=3", "max_steps=5", "out=a/b"]) == 1
    assert capsys.readouterr().err == f"quadsim: {os.strerror(errno.ENOSPC)}: a/b/case-3-max_steps-5{suffix}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_under_a_measurement(tmp_path, monkeypatch):
    measured = files.Measured("mine", {"a": files.exact("a", [1.0, 2.0])}, {})
    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="mine"):
        files.write(tmp_path / "mine.npz", measured)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_under_the_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("figures").mkdir()
    monkeypatch.setattr(Path, "write_bytes", full)
    assert cli.main(["report", "out=new/page.html"]) == 1
    assert "new/page.html" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["figures"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [["list"], ["--help"], ["list", "--json"]])
def test_a_full_standard_output(words):
    with open("/dev/full", "w") as sink:
        command = [sys.executable, "-m", "quadsim", *words]
        done = subprocess.run(command, stdout=sink, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, f"quadsim: {os.strerror(errno.ENOSPC)}: standard output\n")


def test_check_folder_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "a/b/c", "a/../b", "a/b/../../c/d"):
        _artifacts.check_folder(Path(name))
        assert list(tmp_path.iterdir()) == [], name


def test_csv_files_are_read_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.standard_normal(20_000) * 10.0 ** rng.integers(-300, 300, 20_000), rng.random(20_000)])
    frame = pd.DataFrame({"x": values, "n": np.arange(values.size), "word": "a"})
    frame.to_csv(tmp_path / "x.csv", index=False)
    read = table.read_csv(tmp_path / "x.csv")
    assert (read["x"].to_numpy() == values).all()
    assert read["n"].dtype == np.int64
    with open(tmp_path / "x.csv", newline="") as file:  # control: Python's parser reads the same number
        assert [float(line.partition(",")[0]) for line in file.readlines()[1:]] == values.tolist()


@pytest.mark.parametrize("folder", ["quadsim", "experiments", "tests"])
def test_csv_files_are_not_read_by_the_default_of_pandas(folder):
    """Before pandas 3.1 the default loses the last bit: `table.read_csv` is the only caller."""
    calls = [
        path.name
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "read_csv" and ast.unparse(node.value) in ("pd", "pandas")
    ]
    assert calls == (["table.py"] if folder == "quadsim" else [])


def test_files_appear_together_or_not_at_all(tmp_path):
    def write_and_fail():
        with _files.AtomicFiles() as made:
            made.make_folder(tmp_path / "new" / "folder")
            made.write(tmp_path / "new" / "folder" / "a.txt", lambda draft: draft.write_text("a"))
            made.write(tmp_path / "new" / "folder" / "b.txt", full)

    with pytest.raises(OSError, match=r"b\.txt"):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []
    with _files.AtomicFiles() as made:
        made.make_folder(tmp_path / "new")
        for name in "ab":
            made.write(tmp_path / "new" / name, lambda draft: draft.write_text("x"))
        assert {path.name[:7] for path in (tmp_path / "new").iterdir()} == {_files.DRAFT_PREFIX}
        made.commit()
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["a", "b"]


def test_a_lock_has_one_holder_and_leaves_no_file(tmp_path):
    path = tmp_path / "x.lock"
    assert not _files.FileLock.is_held(path)
    lock = _files.FileLock(path)
    lock.write("process 1\nnote\n")
    assert _files.FileLock.is_held(path)
    assert _files.FileLock.text_of(path) == "process 1\nnote\n"
    with pytest.raises(_files.LockedError, match=r"^process 1$"):
        _files.FileLock(path)
    lock.release()
    assert list(tmp_path.iterdir()) == []


TAKE = """
import sys, time
from pathlib import Path
from quadsim._files import FileLock, LockedError

end = time.monotonic() + 2
while time.monotonic() < end:
    try:
        lock = FileLock(Path("x.lock"))
    except LockedError:
        continue
    Path("inside").touch(exist_ok=False)
    Path("inside").unlink()
    lock.release()
"""


def test_processes_that_lock_and_release_exclude_each_other(tmp_path):
    """The lock file is removed and created repeatedly: no process may hold a lock on a removed file."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    processes = [subprocess.Popen([sys.executable, "-c", TAKE], cwd=tmp_path, env=env) for _ in range(3)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    assert list(tmp_path.iterdir()) == []


WITHOUT_FCNTL = """
import sys
sys.modules["fcntl"] = None
import quadsim as qs
from quadsim.sweeps.store.database import Store

for seeds in ([0], [0, 1]):
    qs.sweep(case=3, optimizers=["gd"], seed=seeds, store="s.db", threads=1)
with Store.writing("s.db") as store, Store("s.db") as reader:
    assert (len(store), reader.busy) == (2, True)
    try:
        with Store.writing("s.db"):
            raise SystemExit("two writers")
    except ValueError as error:
        assert "is being written by another process" in str(error)
"""


def test_stores_work_without_fcntl(tmp_path):
    command = [sys.executable, "-W", "error::UserWarning", "-c", WITHOUT_FCNTL]
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]


def test_help_does_not_import_the_lock():
    code = "import sys; from quadsim.cli import main; main.main(['--help']); assert 'filelock' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
