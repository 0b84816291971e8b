"""SIGINT at any moment from the first line of the package on: one line, exit code 130, no traceback."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quadsim.sweeps.store.database import Store

pytestmark = pytest.mark.slow
SCRIPT = Path(sys.executable).with_name("quadsim")
HOOK = """
import os, sys
_handle = os.environ.pop("FIRST_LINE", None)
if _handle:
    def _hook(event, arguments, sent=[]):
        if event == "exec" and not sent and str(getattr(arguments[0], "co_filename", "")).endswith({first!r}):
            sent.append(1)
            os.write(int(_handle), b"x")
    sys.addaudithook(_hook)
"""


@pytest.fixture
def interrupted(tmp_path):
    """Run a command and interrupt it some time after the first line of quadsim; (exit code, standard error).

    (None, …) if the signal came before that line.
    """
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(HOOK.format(first=os.path.join("quadsim", "__init__.py")))
    (tmp_path / "work").mkdir()
    paths = [str(tmp_path / "site"), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]

    def run(command, delay):
        read, write = os.pipe()
        env = os.environ | {"FIRST_LINE": str(write), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        process = subprocess.Popen(
            command,
            cwd=tmp_path / "work",
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[write],
            start_new_session=True,
        )
        os.close(write)
        os.read(read, 1)
        os.close(read)
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)  # to all processes, as a terminal does
        _, err = process.communicate(timeout=60)
        return (None if "sitecustomize" in err else process.returncode), err

    return run


IMPORTS = """
import _signal, os, sys
if os.environ.pop("WATCH_IMPORTS", None):
    def _hook(event, arguments, first=[]):
        if event == "exec" and str(getattr(arguments[0], "co_filename", "")).endswith({first!r}):
            first.append(1)
            sys.modules.pop("__future__", None)  # an editable install loads it before
        elif event == "import" and first:
            default = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
            os.write(2, f"{{arguments[0]}} {{default}}\\n".encode())
    sys.addaudithook(_hook)
"""


@pytest.mark.parametrize("entry", ["module", "script"])
def test_no_module_is_searched_for_before_the_handler_is_installed(tmp_path, entry):
    """Importing runs Python code, where SIGINT raises KeyboardInterrupt; so does `from __future__ import`."""
    (tmp_path / "sitecustomize.py").write_text(IMPORTS.format(first=os.path.join("quadsim", "__init__.py")))
    command = [sys.executable, "-m", "quadsim"] if entry == "module" else [str(SCRIPT)]
    paths = [str(tmp_path), str(Path(__file__).parents[2])]
    done = subprocess.run(
        [*command, "list"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
        env=os.environ | {"WATCH_IMPORTS": "1", "PYTHONPATH": os.pathsep.join(paths)},
    )
    imports = [line.split() for line in done.stderr.splitlines()]
    assert ["quadsim.cli.main", "False"] in imports
    assert [name for name, default in imports if default == "True"] == []


@pytest.mark.parametrize("entry", ["module", "script"])
def test_no_traceback_from_the_first_line_on(interrupted, entry, request):
    command = [sys.executable, "-m", "quadsim"] if entry == "module" else [str(SCRIPT)]
    count = (24 if request.config.getoption("--full") else 10) // (1 if entry == "module" else 2)
    delays = [1.6 * (k / count) ** 2 for k in range(count)]
    ends = [interrupted([*command, "case=3"], delay) for delay in delays]
    counted = [(code, err) for code, err in ends if code is not None]
    assert len(counted) >= 2 / 3 * len(delays)
    for code, err in counted:
        assert (code, err) in ((130, "quadsim: interrupted\n"), (0, "")), err
    assert [code for code, _ in counted].count(130) >= len(delays) / 3


@pytest.mark.parametrize(
    "argv",
    [
        ["verify", "draws=3000"],
        ["sweep", "case=3", "kappa=10:1e6:log500", "seed=0..99", "optimizers=adam", "workers=2", "store=s.db"],
        ["bench", "parts=steps", "sizes=3x3", "peers=numpy"],
    ],
    ids=lambda argv: argv[0],
)
def test_child_processes_print_no_traceback(interrupted, argv):
    for delay in (0.8, 2.4):
        code, err = interrupted([sys.executable, "-m", "quadsim", *argv], delay)
        assert code == 130
        assert "Traceback" not in err
        assert "Exception ignored" not in err
        assert err.count("interrupted") == 1


def handler_after(code):
    check = f"{code}\nimport signal\nprint(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    return subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.strip()


def test_a_program_that_imports_quadsim_keeps_its_handler():
    for code in (
        "import quadsim",
        "import quadsim, sys; quadsim.solve(quadsim.case(3), quadsim.GD(), engine='compiled')",
        "from quadsim.cli import main as cli; import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()): cli.main(['list'])",
        "import sys; sys.argv = ['-m', 'quadsim']; import quadsim",
        "import sys; sys.argv = []; import quadsim",
        "import quadsim.__main__",
    ):
        assert handler_after(code) == "True", code


def test_a_background_job_ignores_interrupts(tmp_path):
    """SIGINT stays ignored if it was ignored at the start, as in a shell's background jobs."""
    line = f"trap '' INT; exec {sys.executable} -m quadsim case=3 max_steps=5 out={tmp_path}"
    process = subprocess.Popen(["sh", "-c", line], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for _ in range(10):
        time.sleep(0.1)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_an_interrupt_lost_in_a_callback_is_delivered_again():
    """Python prints and ignores exceptions in callbacks of weak references."""
    code = (
        "import sys, os, signal, time, weakref\n"
        "sys.argv = ['quadsim', 'x']\n"
        "from quadsim import __main__ as entry\n"
        "class Thing: pass\n"
        "def main():\n"
        "    thing = Thing()\n"
        "    kept = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))\n"
        "    del thing\n"
        "    time.sleep(5)\n"
        "    return 0\n"
        "entry.main = main\n"
        "sys.exit(entry.start())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "quadsim: interrupted\n")


def test_an_interrupt_after_the_work_is_done_does_not_change_the_exit_code():
    """While Python clears modules at exit, SIGINT has its default effect again."""
    code = (
        "import sys, os, signal\n"
        "sys.argv = ['quadsim', 'x']\n"
        "from quadsim import __main__ as entry\n"
        "class Late:\n"
        "    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGINT): kill(pid, number)\n"
        "late = Late()\n"
        "entry.main = lambda: print('done') or 0\n"
        "sys.exit(entry.start())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_an_interrupt_that_passed_through_exec_keeps_the_exit_code():
    """Python remembers it and ends by the signal whatever the exit code is."""
    code = (
        "import sys, os, signal\n"
        "sys.argv = ['quadsim', 'x']\n"
        "from quadsim import __main__ as entry\nfrom quadsim.cli import main as cli\n"
        "def command(argv):\n"
        "    exec('import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)')\n"
        "cli._main = command\n"
        "sys.exit(entry.start())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "quadsim: interrupted\n")


def test_an_interrupt_during_an_import_is_deferred(tmp_path):
    (tmp_path / "greedy.py").write_text(
        "import os, signal, time\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(0.2)\n"
        "except BaseException:\n    raise ImportError('interrupted import') from None\n"
    )
    code = (
        "import sys, time\n"
        "sys.argv = ['quadsim', 'x']\n"
        "from quadsim import __main__ as entry\nfrom quadsim.cli import main as cli\n"
        "def command(argv):\n    import greedy\n    time.sleep(5)\n    return 0\n"
        "cli._main = command\n"
        "sys.exit(entry.start())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(tmp_path)])},
    )
    assert (done.returncode, done.stderr) == (130, "quadsim: interrupted\n")


CLEAN_UP = """
import sys, time
import quadsim.__main__ as program

def main():
    try:
        print("running", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("cleaning", flush=True)
        time.sleep({seconds})
        print("cleaned", flush=True)
        print("quadsim: interrupted", file=sys.stderr)
        return 130

program.main = main
sys.exit(program.start())
"""


@pytest.mark.parametrize(("seconds", "cleaned"), [(0.3, True), (60, False)])
def test_a_second_interrupt_leaves_the_command_a_second_to_clean_up(seconds, cleaned):
    process = subprocess.Popen(
        [sys.executable, "-c", CLEAN_UP.format(seconds=seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    for line in ("running", "cleaning"):
        assert process.stdout.readline() == f"{line}\n"
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "quadsim: interrupted\n")
    assert out == ("cleaned\n" if cleaned else "")


@pytest.mark.parametrize("at", ["close", "note"])
def test_an_interrupt_while_a_store_is_opened_or_closed_leaves_no_lock(tmp_path, monkeypatch, at):
    class Connection(sqlite3.Connection):
        def close(self):
            super().close()
            raise KeyboardInterrupt

    def interrupt(*_):
        raise KeyboardInterrupt

    if at == "close":
        connect = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda *argv, **how: connect(*argv, factory=Connection, **how))
    else:
        monkeypatch.setattr("quadsim.sweeps.store.connection.CommitNote.parse", interrupt)
    with pytest.raises(KeyboardInterrupt), Store.writing(tmp_path / "s.db"):
        pass
    assert not list(tmp_path.glob("*.lock"))
