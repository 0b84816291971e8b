"""Fuzzed command lines: each ends with an exit code, at most one short line of error, and no files left behind.

Hostile argv are added to valid lines. Commands and their keys are found by listing and running the commands, so a new
key is covered automatically, and a new command needs one line in `BASES`. `--full` runs 3,000 lines, by default 300.
"""

import contextlib
import importlib
import io
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from quadsim import _artifacts
from quadsim import _validation as checks
from quadsim.cli import help_text
from quadsim.cli import main as cli
from quadsim.optimizers import OPTIMIZERS

LINES, BATCHES, PROCESSES = 300, 10, 6  # lines of a batch; batches with --full; lines of a batch run as processes
MAX_SECONDS = 60  # of a line
MAX_ERROR_LENGTH, PREFIX = 200, "quadsim: "

BASES = {  # a valid and fast line of each command
    "run": ["case=3", "optimizers=gd", "max_steps=5"],
    "list": ["cases"],
    "completion": ["bash"],
    "cases": ["case=3", "seed=0..1", "max_steps=5"],
    "spectra": ["model=mine.csv"],
    "measure": ["model=mlp", "images=none.npz"],
    "verify": ["claim=2c", "draws=1"],
    "compare": ["spectrum=1,2/3", "seed=0..5", "max_steps=5", "refine=0", "extend=0", "lrs=0.1,0.2"],
    "tune": ["spectrum=1,2/3", "seed=0..1", "max_steps=5", "refine=0", "extend=0", "lrs=0.1,0.2"],
    "bench": ["parts=steps", "sizes=1x1"],
    "sweep": ["case=3", "optimizers=gd", "max_steps=5", "store=new.db"],
    "status": ["s.db"],
    "export": ["s.db", "out=rows.csv"],
    "merge": ["s.db", "store=new.db"],
    "plot": ["s.db"],
    "reproduce": ["zhang_four_cases", "fast=true"],
    "report": ["figures=folder"],
}
SLOW = ("measure", "bench", "reproduce")  # stubbed in this process, which is impossible in another process
FREE_TEXT = {
    "out",
    "store",
    "title",
    "source",
    "figures",
    "text",
    "images",
    "labels",
    "vocab",
}  # keys that take any text

NUMBERS = ["nan", "inf", "-1", "0", "1e400", "-1e400", "1e13", "1e99", "1e-400", "٣", "½", "0x10", "1_0", "1e", "+",
           ".", "9" * 400, "-0", "1e308", "1.5", "²"]  # fmt: skip
RANGES = ["0..1e8", "1:2:lin100000000", "1e-4:1:log99999999999", "0..-5", "1:1:log3", "::", "..", "1:2:3:4",
          "0:1:log5",
          ",".join(map(str, [*range(3000), "x"])), ",".join(map(str, range(20))), "1:nan:log3", "0..1e400"]  # fmt: skip
MILD = ["1", "2", "3", "5", "0.5", "10", "true", "false", "gd", "adam", "gd,adam", "linear", "ones", "none", "whole",
        "1,2/3", "0..3", "1:4:lin3", "step", "cosine", "0.1"]  # fmt: skip
TEXTS = ["a" * 300, "a" * 5000, "/" * 5000, "a/" * 3000, "b" * 262_144, "\x1b[31mred\x1b[0m", "\x07\x08\x7f\x9b2J",
         "a\x00b", "\ud800", "line\nbreak", "\t", "\u202egnp.exe", "☃", "'", '"', "\\", "%s%n{}", "none", "true", "=",
         "==", "a=b", "../../x", "*", "~", "$HOME", "\u2028", "🦙" * 100, "[bold]x[/bold]", "-", "--", "1,2/", ";", ",",
         "1,,2", "/", "."]  # fmt: skip
PATHS = ["loop", "fifo", "folder", "zero", "zero.npz", "zero.csv", "fifo.npz", "loop.npz", "loop.db", "fifo.db", "full",
         "empty", "huge.py", "bad.py", "raises.py", "rule.py", "s.db", "mine.csv", "folder.db", "dangling", "loop/x.db",
         "folder/../x.db", "nowhere/../x.db", "nowhere/x.csv", "nowhere/x.html", "/dev/zero", "/dev/full", "/dev/stdin",
         "/proc/self/mem", "/", ".", "..", "folder/", "loop.html", "fifo.html", "loop.csv", "locked", "locked/x.csv",
         f"{'c' * 300}.html", f"{'d' * 300}.csv", f"{'e' * 300}.db", f"{'f' * 300}.npz", f"{'g' * 300}.py",
         "empty/x.csv"]  # fmt: skip
FLAGS = ["--json", "--dry-run", "--help", "--jsno", "-x", "--", "-", "---", "--json=1", "-h", "--version", "-" * 5000]


class Reached(Exception):
    """The line was accepted; the slow part is not run."""


class Hung(BaseException):
    """The line took too long."""


@dataclass
class Ended:
    code: int
    out: str
    err: str


def prepared(folder):
    """Files of every kind that a line may name."""
    (folder / "loop").symlink_to("loop")
    for suffix in (".npz", ".db", ".html", ".csv"):
        (folder / f"loop{suffix}").symlink_to(f"loop{suffix}")
    for name in ("fifo", "fifo.npz", "fifo.db", "fifo.html"):
        os.mkfifo(folder / name)
    for name in ("zero", "zero.npz", "zero.csv"):
        (folder / name).symlink_to("/dev/zero")
    (folder / "full").symlink_to("/dev/full")
    (folder / "dangling").symlink_to("nowhere-at-all")
    (folder / "folder").mkdir()
    (folder / "folder.db").mkdir()
    (folder / "locked").mkdir(mode=0o500)
    (folder / "empty").touch()
    (folder / "huge.py").write_bytes(b"#" * 2**20 + b"\n")
    (folder / "bad.py").write_text("def (:\n")
    (folder / "raises.py").write_text(f"raise ValueError('x' * {10**6})\n")
    (folder / "rule.py").write_text("import quadsim as qs\n@qs.rule\ndef mine(g, lr=0.1):\n    return lr * g\n")
    (folder / "mine.csv").write_text("a,b\n1,2\n3,4\n")
    return folder


def contents(folder):
    """Every file below the folder: its mode, and its bytes or the target of its link."""
    return {str(path.relative_to(folder)): held(path) for path in sorted(folder.rglob("*"))}


def held(path):
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return mode, os.readlink(path)
    return mode, path.read_bytes() if stat.S_ISREG(mode) else b""


def restore(folder, before):
    """Remove files that a line has added, and restore those that it has changed."""
    after = contents(folder)
    for name in sorted(after, reverse=True):
        if after[name] != before.get(name):
            path = folder / name
            shutil.rmtree(path, ignore_errors=True) if stat.S_ISDIR(after[name][0]) else path.unlink(missing_ok=True)
    for name, (mode, data) in before.items():
        path = folder / name
        if os.path.lexists(path):
            continue
        if stat.S_ISLNK(mode):
            path.symlink_to(data)
        elif stat.S_ISREG(mode):
            path.write_bytes(data)
        elif stat.S_ISFIFO(mode):
            os.mkfifo(path)
        else:
            path.mkdir()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with hostile files; slow functions are stubbed."""
    monkeypatch.chdir(prepared(tmp_path))
    monkeypatch.setattr(_artifacts, "_draw", lambda figure, path, **options: path.write_bytes(b"picture"))
    for name in ("quadsim.bench.workers.measured", "quadsim.cli.commands.reproduce._outcomes"):
        monkeypatch.setattr(name, reached)
    before = dict(OPTIMIZERS)
    assert line(["sweep", "case=3", "optimizers=gd", "kappa=10,20", "max_steps=5", "store=s.db"]).code == 0
    yield tmp_path
    for name in set(OPTIMIZERS) - set(before):
        del OPTIMIZERS[name]


def reached(*_, **__):
    raise Reached


def line(argv):
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()

    def ring(*_):
        raise Hung(f"{MAX_SECONDS} s")

    previous = signal.signal(signal.SIGALRM, ring)
    signal.alarm(MAX_SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(argv)
    except Reached:
        code = 0
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    return Ended(code, out.getvalue(), err.getvalue())


def faults(ended, before, after):
    """The faults in how a line ended."""
    lines = ended.err.splitlines()
    if ended.code not in (0, 1, 2):
        yield f"exit code {ended.code}"
    if "Traceback" in ended.err or "Exception ignored" in ended.err:
        yield f"traceback: {ended.err[-300:]}"
    if any(len(text) > MAX_ERROR_LENGTH for text in lines):
        yield f"a line of {max(map(len, lines))} characters"
    if not all(text.isprintable() for text in lines):
        yield f"unprintable: {ended.err[:200]!r}"
    undecided = ended.code == 1 and ended.out and PREFIX not in ended.err  # verify prints a table
    if ended.code and not undecided and (len(lines) != 1 or not lines[0].startswith(PREFIX)):
        yield f"{len(lines)} lines: {ended.err[:300]!r}"
    if ended.code == 2 and ended.out:
        yield f"output before a refusal: {ended.out[:100]!r}"
    if ended.code and not undecided and after != before:
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        yield f"files left or changed: {sorted(changed)[:5]}"


def keys_of(verb):
    """The keys that a command takes, recorded when it refuses an unknown one."""
    recorded = []

    def choice(name, value, allowed):
        allowed = list(allowed)
        if name in ("key", "axis"):
            recorded.append(allowed)
        return original(name, value, allowed)

    original = checks.choice
    checks.choice = choice
    try:
        ended = line([verb, *BASES[verb], "zzqq=1"])
    finally:
        checks.choice = original
    assert ended.code == 2, (verb, ended)
    return sorted({key for allowed in recorded for key in allowed if isinstance(key, str) and key.isidentifier()})


def test_there_is_a_base_for_every_command(folder):
    assert set(BASES) == set(help_text.commands())
    before = contents(folder)
    for verb, argv in BASES.items():
        ended = line([verb, *argv])
        restore(folder, before)
        assert ended.code == (2 if verb == "measure" else 0), (verb, ended)  # measuring takes long


UNKNOWN = ["zzqq=1", "adam.kappa=7", "zz.qq=1", "adam.lr.x=1", ".lr=1", "adam.=1", "store.x=1", "out.x=1",
           "kappa.kappa=1", "kapa=3", "--zz.qq=1"]  # fmt: skip


@pytest.mark.parametrize("verb", help_text.commands())
def test_no_command_takes_an_unknown_key(folder, verb):
    before = contents(folder)
    for word in UNKNOWN:
        ended = line([verb, *BASES[verb], word])
        assert ended.code == 2, (word, ended)
        assert not list(faults(ended, before, contents(folder))), word


@pytest.mark.parametrize("verb", help_text.commands())
def test_no_key_is_ignored(folder, verb):
    """A nonsensical value is refused unless the key takes any text."""
    before = contents(folder)
    for key in keys_of(verb):
        if key in FREE_TEXT:
            continue
        argv = [word for word in BASES[verb] if not word.startswith(f"{key}=")]
        ended = line([verb, *argv, f"{key}=☃"])
        assert ended.code == 2, (key, ended)
        assert not list(faults(ended, before, contents(folder))), key


def takes_settings(verb):
    return getattr(importlib.import_module(f"quadsim.cli.commands.{verb}"), "SETTINGS", False)


def hostile(rng, verb, keys):
    """A word to add to a line, and whether the command has to refuse it."""
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(UNKNOWN), True
    if kind < 0.2:
        owner, setting = rng.choice([*OPTIMIZERS, "☃"]), rng.choice(["lr", "beta2", "kappa", "☃", "eps"])
        return f"{owner}.{setting}={rng.choice(NUMBERS + TEXTS + RANGES)}", not takes_settings(verb)
    if kind < 0.27:
        return rng.choice(TEXTS + PATHS), False
    if kind < 0.34:
        return rng.choice(FLAGS), False
    if kind < 0.38:
        return f"{rng.choice(TEXTS)}={rng.choice(TEXTS)}", False
    values = rng.choice([MILD, MILD, NUMBERS, RANGES, TEXTS, PATHS])
    return f"{rng.choice(keys or ['json'])}={rng.choice(values)}", False  # a command may have no key


def generated(seed, count, keys):
    """Lines, and whether each of them has to be refused."""
    rng = random.Random(f"fuzz {seed}")
    for _ in range(count):
        verb = rng.choice(list(keys))
        count = rng.choice([1, 1, 1, 2, 3])
        if rng.random() < 0.3:  # often valid
            added = [(f"{rng.choice(keys[verb] or ['json'])}={rng.choice(MILD)}", False) for _ in range(count)]
        else:
            added = [hostile(rng, verb, keys[verb]) for _ in range(count)]
        named = {word.partition("=")[0] for word, _ in added}
        base = [word for word in BASES[verb] if word.partition("=")[0] not in named or rng.random() < 0.05]
        argv = [*base, *(word for word, _ in added)]
        rng.shuffle(argv)
        asks = {"--help", "-h", "--version"} & set(argv)  # answered whatever the other arguments are
        yield ([verb] if verb != "run" or rng.random() < 0.5 else []) + argv, not asks and any(bad for _, bad in added)


def shown(argv):
    return " ".join(ascii(word) if len(word) < 60 else f"{word[:30]!a}…({len(word)})" for word in argv)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_lines_end_well(folder, batch, request):
    if batch and not request.config.getoption("--full"):
        pytest.skip("3,000 lines take minutes: ask for them with --full")
    keys = {verb: keys_of(verb) for verb in help_text.commands()}
    before, found, codes = contents(folder), [], []
    for argv, refused in generated(batch, LINES, keys):
        try:
            ended = line(argv)
        except BaseException as error:
            found.append(f"{shown(argv)}: {type(error).__name__}: {str(error)[:200]}")
            if isinstance(error, KeyboardInterrupt):
                raise
        else:
            codes.append(ended.code)
            wrong = list(faults(ended, before, contents(folder)))
            if refused and ended.code != 2:
                wrong.append(f"not refused: exit code {ended.code}")
            found += [f"{shown(argv)}: {one}" for one in wrong]
        restore(folder, before)
    assert not found, f"{len(found)} faults:\n" + "\n".join(found)
    assert 0.02 < np.mean(np.array(codes) == 0) < 0.6  # if all lines were refused, little would be tested


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_lines_as_processes_end_well(folder, batch, request):
    if batch and not request.config.getoption("--full"):
        pytest.skip("ask for them with --full")
    keys = {verb: keys_of(verb) for verb in help_text.commands() if verb not in SLOW}
    before, found = contents(folder), []
    for argv, refused in generated(f"process {batch}", PROCESSES, keys):
        if any("\0" in word or "\ud800" in word or len(word) > 10**5 for word in argv):
            continue  # not possible as an argument of a process
        command = [sys.executable, "-m", "quadsim", *argv]
        done = subprocess.run(command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=MAX_SECONDS)
        ended = Ended(done.returncode, done.stdout.decode(), done.stderr.decode())
        wrong = list(faults(ended, before, contents(folder)))
        if refused and ended.code != 2:
            wrong.append(f"not refused: exit code {ended.code}")
        found += [f"{shown(argv)}: {one}" for one in wrong]
        restore(folder, before)
    assert not found, "\n".join(found)


def test_the_fuzzer_finds_faults():
    """Negative control: each kind of fault is found."""
    assert not list(faults(Ended(2, "", "quadsim: no\n"), {}, {}))
    for ended, after in (
        (Ended(3, "", "quadsim: no\n"), {}),
        (Ended(1, "", "Traceback (most recent call last):\n"), {}),
        (Ended(2, "", f"quadsim: {'x' * 200}\n"), {}),
        (Ended(2, "", "quadsim: \x1b[31m\n"), {}),
        (Ended(2, "", "quadsim: a\nquadsim: b\n"), {}),
        (Ended(2, "", ""), {}),
        (Ended(2, "table", "quadsim: no\n"), {}),
        (Ended(2, "", "quadsim: no\n"), {"left": (0, b"")}),
    ):
        assert list(faults(ended, {}, after)), ended


def test_the_fuzzer_finds_the_keys_of_commands(folder):
    assert set(keys_of("report")) == {"figures", "out"}
    assert {"case", "kappa", "optimizers", "store", "noise"} <= set(keys_of("run")) | set(keys_of("status"))
