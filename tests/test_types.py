"""The types of the public names, as type checkers see them.

`quadsim/__init__.py` imports public names when they are used, which hides their types. `quadsim/__init__.pyi` has them
for type checkers; it is generated: `python tests/test_types.py` rewrites it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

import quadsim
from quadsim import _discovery

STUB = Path(quadsim.__file__).with_suffix(".pyi")
HEAD = '"""The public names with their types, generated from `__init__.py`: python tests/test_types.py"""\n'


def stub():
    """The text of the stub: an import of every public name from the module that defines it."""
    names = {name: f"quadsim.{home}" if home else "quadsim" for name, home in quadsim._HOMES.items()}
    names |= {info.class_name: info.module for info in _discovery.optimizers()}
    lines = [f"from {home} import {name} as {name}" for name, home in names.items()]
    lines.sort(key=lambda line: (line.split()[1], line.split()[3].isupper(), line))
    return "\n".join([HEAD, *lines, "", "__version__: str", ""])


def test_the_stub_names_every_public_name():
    assert STUB.read_text(encoding="utf-8") == stub()
    names = {line.split()[-1] for line in stub().splitlines() if line.startswith("from ")}
    assert names == set(quadsim.__all__)


RIGHT = """
import quadsim as qs

run = qs.solve(qs.case(3), qs.Adam(lr=0.1), max_steps=10)
reveal_type(run)
reveal_type(run.steps_to_tol)
reveal_type(qs.solve(qs.case(3), [qs.GD()], seed=range(3)))
reveal_type(qs.case(3).kappa)
"""
REVEALED = ["quadsim.engine.trajectory.Trajectory", "int | None", "quadsim.engine.trajectory.Runs", "float"]
WRONG = """
import quadsim as qs

qs.case(3, kapa=1.0)
qs.case(3).capa
qs.Adam(beta3=0.9)
qs.solve(3, qs.GD())
"""


def mypy(folder, text):
    (folder / "script.py").write_text(text)
    options = ["--config-file=", "--no-error-summary", "--hide-error-context", f"--cache-dir={folder / 'cache'}"]
    command = [sys.executable, "-m", "mypy", *options, "script.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_a_script_of_a_user_sees_the_types(tmp_path):
    pytest.importorskip("mypy")
    done = mypy(tmp_path, RIGHT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split('"')[1] for line in done.stdout.splitlines() if "Revealed type" in line] == REVEALED
    wrong = mypy(tmp_path, WRONG)
    lines = [line.split(":")[1] for line in wrong.stdout.splitlines() if line.startswith("script.py")]
    assert sorted(set(lines)) == ["4", "5", "6", "7"], wrong.stdout


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
