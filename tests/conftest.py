"""Settings for all tests: the same examples in every run, and no deadline, since the first call may compile."""

import signal

import pytest
from hypothesis import settings

from quadsim import cli
from quadsim.checks import InputError
from quadsim.optimizers import OPTIMIZERS

settings.register_profile("quadsim", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("quadsim")

# Where the tests run in the background Ctrl-C is ignored, and the processes they begin would ignore it too. (A
# preexec_fn would do as well, but forks, and jax warns of every fork once it is imported.)
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="also the tests that take minutes: kills by the dozen")


@pytest.fixture
def full(request):
    """Only where all is asked for."""
    if not request.config.getoption("--full"):
        pytest.skip("takes minutes: ask for it with --full")


@pytest.fixture
def check_refused():
    """Check that a call is refused as bad input, in one line that holds the sentence."""

    def check(call, sentence):
        with pytest.raises(InputError) as raised:
            call()
        assert sentence in str(raised.value)
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
    """Unregister the rules of files that the test loads."""
    before = dict(OPTIMIZERS)
    yield
    for name in set(OPTIMIZERS) - set(before):
        del OPTIMIZERS[name]
