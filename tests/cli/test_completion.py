"""Completion: its candidates, and the scripts in real shells."""

import importlib
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadsim._validation import InputError
from quadsim.cli import completion, help_text, names
from quadsim.keys import AXES


def words(*line):
    """The candidates for the last word."""
    return [word for word, _ in completion.complete(line[:-1], line[-1]).words]


def test_the_first_word_is_a_command_or_a_key():
    assert {*help_text.commands(), "help", "case=", "kappa="} <= set(words(""))
    assert words("comp") == ["compare", "completion"]
    assert words("ca") == ["cases", "case="]
    assert "run" not in words("case=3", "")
    assert words("help", "swe") == ["sweep"]
    assert words("help", "kap") == ["kappa"]


def test_keys_are_those_of_the_command():
    for name in help_text.commands():
        keys = importlib.import_module(f"quadsim.cli.commands.{name}").KEYS
        found = {word[:-1] for word in words(name, "") if word.endswith("=")}
        assert found == set(keys)
    assert "case=" not in words("sweep", "case=3", "")
    assert words("sweep", "--d") == ["--dry-run"]
    assert words("--d") == []


def test_values():
    assert words("case=") == ["case=1", "case=2", "case=3", "case=4"]
    assert words("engine=cl") == ["engine=closed-form"]
    assert words("optimizers=gd,ada") == [f"optimizers=gd,{name}" for name in names.optimizers() if name[:3] == "ada"]
    assert "optimizers=gd,gd" not in words("optimizers=gd,")
    assert words("sweep", "case=3,") == ["case=3,1", "case=3,2", "case=3,4"]
    assert words("case=3,") == []  # run takes one
    assert words("noise=gaussian+") == ["noise=gaussian+labels"]
    assert words("network=vg") == ["network=vgg16"]
    assert words("spectra", "model=vg") == ["model=vgg16"]
    assert words("measure", "model=m") == ["model=mlp"]
    assert words("verify", "claim=1a,2c") == ["claim=1a,2c"]
    assert words("compare", "optimizers=gd,lion", "reference=") == ["reference=gd", "reference=lion"]
    assert words("reproduce", "fast=") == ["fast=true", "fast=false"]
    assert words("plot", "x=") == [f"x={name}" for name in AXES]
    assert "y=loss" in words("plot", "y=")
    assert words("list", "") == [*names.LISTS, "rules="]
    assert words("completion", "") == ["bash", "zsh", "fish"]
    assert words("kappa=") == words("nothing=") == words("case=3 ", "x.y=") == []


def test_settings():
    assert words("optimizers=adam", "ad") == ["adam."]
    assert words("optimizers=gd", "ad") == []
    assert words("optimizers=adam", "adam.be") == ["adam.beta1=", "adam.beta2="]
    assert words("optimizers=adam", "adam.beta1=0", "adam.be") == ["adam.beta2="]
    assert words("adam.init=") == ["adam.init=zero", "adam.init=gradient"]
    assert words("optimizers=adam", "adam.bias_correction=t") == ["adam.bias_correction=true"]
    assert words("adam.lr=") == words("verify", "adam.init=") == words("nobody.lr=") == []


@pytest.mark.parametrize(
    ("line", "files"),
    [
        (["plot", ""], (".db",)),
        (["export", "store="], (".db",)),
        (["export", "out="], (".csv", ".parquet")),
        (["rules="], (".py",)),
        (["out="], ("/",)),
        (["report", "figures="], ("/",)),
        (["network="], (".npz", ".csv")),
        (["measure", "text="], ("",)),
        (["case="], ()),
        (["sweep", "cluster="], ()),
        (["plot", "title="], ()),
        (["run", ""], ()),
    ],
    ids=str,
)
def test_files(line, files):
    assert completion.complete(line[:-1], line[-1]).files == files


def test_offered_values_are_valid():
    """Every offered value of a key is read by the key."""
    checked = 0
    for name in help_text.commands():
        for key, entry in importlib.import_module(f"quadsim.cli.commands.{name}").KEYS.items():
            for word in words(name, f"{key}="):
                entry.read(word.partition("=")[2])
                checked += 1
    assert checked > 300
    with pytest.raises(InputError):
        importlib.import_module("quadsim.cli.commands.run").KEYS["engine"].read("nonsense")


def test_lists_stay_open():
    assert completion.complete([], "optimizers=").open
    assert completion.complete([], "kap").open
    assert not completion.complete([], "case=").open
    assert not completion.complete([], "ca").open  # a command and a key


@settings(max_examples=300)
@given(st.lists(st.one_of(st.text(max_size=9), st.sampled_from(["plot", "help", "adam.", "case=", "=", "-", "run"]))))
def test_any_line_is_answered(line):
    text = completion.answer(line)
    assert text.split("\n")[0].split()[0] in ("open", "closed")
    assert text.endswith("\n")
    assert all(word.replace("\t", "").isprintable() for word in text.split("\n"))


def test_names_of_files_that_a_shell_would_evaluate_are_not_printed(tmp_path, monkeypatch):
    folder = tmp_path / "experiments"
    folder.mkdir()
    for name in ("good.py", "bad\x1b[31m.py", "two\nlines.py", "$(id).py", "`id`.py", "a;b.py", "a b.py"):
        (folder / name).write_text("\nREPRODUCTION = 1")
    (folder / "other.py").write_text("")
    monkeypatch.chdir(tmp_path)
    os.mkfifo(folder / "pipe.py")  # to open it would block
    assert completion.answer(["reproduce", ""]).split("\n")[1].startswith("good\t")
    assert "\x1b" not in completion.answer(["reproduce", ""])
    assert "lines" not in completion.answer(["reproduce", ""])
    assert not re.search(r"id|;|a b|pipe", completion.answer(["reproduce", ""]).partition("fast=")[0])
    assert not any(line.startswith("other") for line in completion.answer(["reproduce", ""]).split("\n"))


def test_nothing_slow_is_imported():
    code = (
        "import sys\nfrom quadsim.cli import completion\n"
        "for line in (['verify', 'claim='], ['case=3', ''], ['optimizers=a'], ['help', ''], ['network=']):\n"
        "    assert '\\n' in completion.answer(line)\n"
        "print(*sorted({'numpy', 'pandas', 'rich', 'numba', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_the_command(command):
    for shell in completion.SHELLS:
        code, out, err = command("completion", shell)
        assert (code, err) == (0, "")
        assert out == completion.script(shell)
        assert "completion --complete" in out
    assert command("completion", "--complete", "case=")[:2] == (0, "closed\ncase=1\t\ncase=2\t\ncase=3\t\ncase=4\t\n")
    assert "which shell?" in command("completion")[2]
    assert "unknown shell 'tcsh'" in command("completion", "tcsh")[2]
    assert command("completion", "bash", "zsh")[0] == 2


# ---- in shells

FILES = ["sweep.db", "my file.db", "$(touch pwned).db", "a;touch pwned.db", "two\nlines.db", "other.csv", "rules.py"]
SHELLS = [
    pytest.param(
        shell,
        marks=[
            pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed"),
            *([] if shell == "bash" else [pytest.mark.slow]),
        ],
    )
    for shell in completion.SHELLS
]


@pytest.fixture
def home(tmp_path):
    """A folder with hostile files, and with `quadsim` and `python` in bin/."""
    for file in FILES:
        (tmp_path / file).touch()
    (tmp_path / "some dir").mkdir()
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, program in (("python", sys.executable), ("quadsim", f"{shlex.quote(sys.executable)} -m quadsim")):
        (folder / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (folder / name).chmod(0o755)
    return tmp_path


def environment(home):
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("BASH", "ZSH", "FISH", "XDG"))}
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return plain | {
        "PATH": path,
        "HOME": str(home),
        "TERM": "dumb",
        "INPUTRC": os.devnull,
        "PS1": "$ ",
        "COLUMNS": "300",
    }


def bash_reply(home, line, breaks="=:"):
    """COMPREPLY for a line with the cursor at its end, as bash calls the function."""
    split = [part for part in re.split(rf"\s+|([{breaks}])", line) if part] if breaks else line.split()
    split += [""] if line[-1].isspace() else []
    array = " ".join(map(shlex.quote, split))
    script = (
        f"source {shlex.quote(os.path.join(os.path.dirname(completion.__file__), 'quadsim.bash'))}\n"
        f"COMP_WORDBREAKS={shlex.quote(breaks)} COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}\n"
        f"COMP_WORDS=({array}) COMP_CWORD={len(split) - 1}\n"
        '_quadsim 2> /dev/null; printf "%s\\0" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "--norc", "-c", script], cwd=home, env=environment(home), capture_output=True)
    return [reply for reply in done.stdout.decode().split("\0") if reply]


def fish_reply(home, line):
    """The candidates that fish offers for a line."""
    code = f"python -m quadsim completion fish | source; complete -C {shlex.quote(line)}"
    done = subprocess.run(["fish", "--no-config", "-c", code], cwd=home, env=environment(home), capture_output=True)
    return [reply.partition("\t")[0] for reply in done.stdout.decode().splitlines()]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("quadsim case=", ["1", "2", "3", "4"]),
        ("quadsim optimizers=gd,heav", ["gd,heavy-ball"]),
        ("quadsim compare case=3 kap", ["kappa="]),
        ("python -m quadsim engine=cl", ["closed-form"]),
        ("python -m other engine=cl", []),
        ("python -m quad", []),
        ("quadsim sweep cluster=local:", []),
        ("quadsim plot s", ["seed=", "sign=", "sampling=", "spectrum=", "span=", "start=", "schedule=", "store=",
                            "sweep.db", r"some\ dir/"]),
        ("quadsim plot m", ["map=", "minimizer=", "max_steps=", r"my\ file.db"]),
        ("quadsim export $", [r"\$\(touch\ pwned\).db"]),
        ("quadsim export tw", [r"$'two\nlines.db'"]),
        ("quadsim rules=r", ["rules.py"]),
        ("quadsim sweep store=~/sw", ["~/sweep.db"]),
        ("quadsim out=s", [r"some\ dir/"]),
        ("quadsim case=3 $(touch pwned", []),
        ("quadsim case=3 `touch pwned` kap", ["kappa="]),
        ("quadsim 'case=", ["case=1", "case=2", "case=3", "case=4"]),
    ],
)  # fmt: skip
def test_bash(home, line, reply):
    assert sorted(bash_reply(home, line)) == sorted(reply)
    assert not (home / "pwned").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_without_word_breaks(home):
    assert bash_reply(home, "quadsim case=", breaks="") == ["case=1", "case=2", "case=3", "case=4"]
    assert bash_reply(home, "quadsim rules=r", breaks="") == ["rules=rules.py"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("quadsim case=", ["case=1", "case=2", "case=3", "case=4"]),
        ("quadsim optimizers=gd,heav", ["optimizers=gd,heavy-ball"]),
        ("python -m quadsim engine=cl", ["engine=closed-form"]),
        ("quadsim export sw", ["sweep.db"]),
        ("quadsim export \\$", ["$(touch pwned).db"]),
        ("quadsim sweep store=my", ["store=my file.db"]),
        ("quadsim out=so", ["out=some dir/"]),
    ],
)
def test_fish(home, line, reply):
    assert fish_reply(home, line) == reply
    assert not (home / "pwned").exists()


COMMANDS = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"], "fish": ["--no-config", "-i"]}
IN_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""  # instead of pty.fork, which warns where other tests have imported jax
SETUP = {
    "bash": 'eval "$(python -m quadsim completion bash)"',
    "zsh": 'eval "$(python -m quadsim completion zsh)"',
    "fish": "python -m quadsim completion fish | source",
}
TYPED = [  # what is typed before TAB, and what the shell's line then ends with
    ("quadsim engine=cl", "osed-form "),
    ("quadsim optimizers=gd,heav", "y-ball"),
    ("quadsim case=3 kap", "pa="),
    ("quadsim plot my", "\\ file.db "),
    ("quadsim plot \\$", "\\(touch\\ pwned\\).db "),
    ("quadsim plot a\\;", "touch\\ pwned.db "),
    ("python -m quadsim network=vg", "g16 "),
    ("python rul", "es.py "),
    ("quadsim case=3 optimizers=adam adam.bi", "as_correction="),
]


class Terminal:
    """An interactive shell in a terminal."""

    def __init__(self, shell, home):
        self.shell = shell
        self.file, theirs = pty.openpty()
        argv = [sys.executable, "-c", IN_TERMINAL, shell, *COMMANDS[shell]]
        files = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        self.process = subprocess.Popen(argv, cwd=home, env=environment(home), **files)
        os.close(theirs)
        self.type(f"{SETUP[shell]}; echo rea''dy\n")
        self.wait("ready")

    def type(self, text):
        os.write(self.file, text.encode())

    def wait(self, text, seconds=60.0):
        """Read until the text is there."""
        end, seen = time.monotonic() + seconds, ""
        while text not in seen:
            assert time.monotonic() < end, f"{text!r} not in {seen!r}"
            if select.select([self.file], [], [], 0.2)[0]:
                seen += os.read(self.file, 65536).decode(errors="replace")
        return seen

    def close(self):
        self.type("\x03\x15exit\n")
        os.close(self.file)
        self.process.wait()


@pytest.mark.parametrize("shell", SHELLS)
def test_keys_pressed_in_a_terminal(home, shell):
    terminal = Terminal(shell, home)
    try:
        for typed, added in TYPED:
            terminal.type(typed)
            terminal.wait(typed[-3:])
            terminal.type("\t")
            terminal.wait(added.rstrip() if shell == "fish" else added)
            terminal.type("\x15")
    finally:
        terminal.close()
    assert not (home / "pwned").exists()
