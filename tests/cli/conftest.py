"""Fixtures of the tests of the command line."""

import pytest

from quadsim.cli import main as cli


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    """Run a command line in an empty folder; (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        code = cli.main(list(argv))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def check_bad_line(command, tmp_path):
    """Check that a command line is refused: exit code 2, one line that holds the message, no output, no files."""

    def check(argv, message):
        code, out, err = command(*argv.split(" "))
        assert (code, out) == (2, ""), err
        assert message in err
        assert err.count("\n") == 1
        assert len(err) <= 201
        assert list(tmp_path.iterdir()) == []

    return check
