"""Settings and fixtures of all tests; kernels are compiled once for all workers, and counted."""

import functools
import json
import os
import signal
import tempfile
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from quadsim._validation import InputError
from quadsim.cli import main as cli
from quadsim.engine.compiled import batching, compiler, kernel_cache
from quadsim.optimizers import OPTIMIZERS

# The same examples in every run; no deadline, since the first call may compile.
settings.register_profile("quadsim", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("quadsim")

# A background process ignores SIGINT, and so would the processes that the tests start. (A preexec_fn would also work,
# but it forks, and jax warns of every fork once it is imported.)
signal.signal(signal.SIGINT, signal.default_int_handler)

MAX_KERNELS = 30  # of the default tests (`-m "not slow"`); each takes seconds to compile
KERNEL_LOG = "QUADSIM_TEST_KERNELS"  # environment variable: the folder of locks and of the list of kernels used
ONE_WORKER = {  # files whose fixtures take longer than their tests
    "tests/docs/test_build.py",
    "tests/sweeps/test_fingerprints.py",
}


class _Scheduler(LoadScopeScheduling):
    """Tests go to whichever worker is free, except that all tests of a file in `ONE_WORKER` go to the same one.

    The mark ``xdist_group`` does not work: pytest 9.2 ignores the node ids that pytest-xdist 3.8 derives from it.
    """

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        return file if file in ONE_WORKER else nodeid


def pytest_xdist_make_scheduler(config, log):
    return _Scheduler(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="more repetitions of the tests that kill, damage and fuzz")


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        os.environ[KERNEL_LOG] = config.kernel_log = tempfile.mkdtemp(prefix="quadsim-kernels-")  # workers inherit it
    _share_kernels(Path(os.environ[KERNEL_LOG]))


def _share_kernels(folder):
    """Let one worker compile a kernel while others that need it wait; log the kernels used, by cache folder."""
    compile_text, load_or_compile = compiler._compile, compiler._kernel.__wrapped__

    def counted(text, content=None):
        line = {"kernel": compiler._fingerprint(text), "cache": str(kernel_cache.folder_path())}
        line |= {"compiled": content is None, "test": os.environ.get("PYTEST_CURRENT_TEST", "")}
        with open(folder / f"{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return compile_text(text, content)

    @functools.cache
    def locked(text):
        with FileLock(folder / f"{compiler._fingerprint(text)}.lock"):
            return load_or_compile(text)

    compiler._compile, compiler._kernel = counted, locked


def kernels_used(folder):
    """Every kernel that a test loaded or compiled, once per cache folder; and the number of compilations.

    A warm cache changes only the second. Processes that tests start are not counted.
    """
    lines = [json.loads(line) for path in Path(folder).glob("*.jsonl") for line in path.read_text().splitlines()]
    return {(line["kernel"], line["cache"]): line["test"] for line in lines}, sum(line["compiled"] for line in lines)


def pytest_terminal_summary(terminalreporter, config):
    used, compiled = kernels_used(config.kernel_log)
    terminalreporter.write_line(f"{len(used)} kernels used, {compiled} compiled")
    if config.getoption("verbose") > 0:
        for (kernel, cache), test in sorted(used.items(), key=lambda item: item[1]):
            terminalreporter.write_line(f"  {kernel[:12]} {cache} {test}")


def pytest_sessionfinish(session):
    """Fail the default tests if they need more than MAX_KERNELS kernels."""
    config = session.config
    if hasattr(config, "workerinput") or config.getoption("markexpr") != "not slow":
        return
    used, _ = kernels_used(config.kernel_log)
    if len(used) > MAX_KERNELS and session.exitstatus == pytest.ExitCode.OK:
        print(f"\nthe default tests need {len(used)} kernels, more than {MAX_KERNELS}: share some, or mark tests slow")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def full(request):
    """Skip the test unless --full is given."""
    if not request.config.getoption("--full"):
        pytest.skip("takes minutes: run with --full")


@pytest.fixture(scope="session")
def filled_once(tmp_path_factory):
    """The path of a file or folder that a function fills, once for all workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def filled(name, fill):
        path, finished = folder / name, folder / f"finished-{name}"
        with FileLock(folder / f"lock-{name}"):
            if not finished.exists():
                fill(path)
                finished.touch()
        return path

    return filled


@pytest.fixture(autouse=True)
def few_kernels(request, monkeypatch):
    """Slow tests compile a faster kernel, with the same numbers, only after the seconds that compiling takes."""
    if request.node.get_closest_marker("slow"):
        monkeypatch.setattr(batching, "MAX_SLOWER_SECONDS", 5.0)


@pytest.fixture
def fastest_kernels():
    """Run lanes side by side even in small jobs, which by default use any kernel that is loaded."""
    with batching.fastest_kernels():
        yield


@pytest.fixture
def check_refused():
    """Check that a call raises InputError, in one line that contains the message."""

    def check(call, message):
        with pytest.raises(InputError) as raised:
            call()
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)

    return check


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    """Run a command line in an empty folder; (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(words):
        code = cli.main(words.split(" "))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def forgotten():
    """Unregister the rules that the test registers."""
    before = dict(OPTIMIZERS)
    yield
    for name in set(OPTIMIZERS) - set(before):
        del OPTIMIZERS[name]
