"""The types of the public names, as type checkers see them.

`quadsim/__init__.py` imports public names when they are used, which hides their types. `quadsim/__init__.pyi` has them
for type checkers; it is generated: `python tests/test_types.py` rewrites it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import quadsim
from quadsim import _discovery

PACKAGE = Path(quadsim.__file__).parent
HEAD = '"""The public names with their types, generated from `__init__.py`: python tests/test_types.py"""\n'
OPTIMIZERS = ["OPTIMIZERS: dict[str, type[Optimizer]]", "", "def by_name(name: str, **settings: Any) -> Optimizer: ..."]


def imports(names):
    """An import of each name from the module that defines it, in ruff's order."""
    lines = [f"from {home} import {name} as {name}" for name, home in names.items()]
    return sorted(lines, key=lambda line: (line.split()[1], line.split()[3].isupper(), line))


def stubs():
    """The texts of the stubs, by file."""
    classes = {info.class_name: info.module for info in _discovery.optimizers()}
    homes = {name: f"quadsim.{home}" if home else "quadsim" for name, home in quadsim._HOMES.items()}
    base = dict.fromkeys(("LearningRate", "Optimizer"), "quadsim.optimizers.base")
    root = [HEAD, *imports(homes | classes), "", "__version__: str", "_LOAD_TIME: int", ""]
    optimizers = [HEAD, "from typing import Any", "", *imports(base | classes), "", *OPTIMIZERS, ""]
    return {"__init__.pyi": "\n".join(root), "optimizers/__init__.pyi": "\n".join(optimizers)}


@pytest.mark.parametrize(("name", "text"), stubs().items(), ids=stubs())
def test_the_stubs_are_up_to_date(name, text):
    assert (PACKAGE / name).read_text(encoding="utf-8") == text


def names_of(text):
    """The names that a stub declares."""
    lines = [line.replace(":", " ").replace("(", " ").split() for line in text.splitlines()]
    imported = {line[-1] for line in lines if line[:1] == ["from"] and "as" in line}
    return (
        imported
        | {line[0] for line in lines if line[1:2] == ["dict[str,"]}
        | {line[1] for line in lines if line[:1] == ["def"]}
    )


def test_the_stubs_name_every_public_name():
    found = {name: names_of(text) for name, text in stubs().items()}
    assert found["__init__.pyi"] == set(quadsim.__all__)
    assert found["optimizers/__init__.pyi"] == set(quadsim.optimizers.__all__)


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


def mypy(folder, text, package=PACKAGE):
    """Check a script against the package where it is, as against an installed one."""
    (folder / "script.py").write_text(text)
    options = ["--config-file=", "--no-error-summary", "--hide-error-context", f"--cache-dir={folder / 'cache'}"]
    command = [sys.executable, "-m", "mypy", *options, "script.py"]
    env = {**os.environ, "PYTHONPATH": str(package.parent)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_a_script_of_a_user_sees_the_types(tmp_path):
    pytest.importorskip("mypy")
    done = mypy(tmp_path, RIGHT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split('"')[1] for line in done.stdout.splitlines() if "Revealed type" in line] == REVEALED
    wrong = mypy(tmp_path, WRONG)
    lines = [line.split(":")[1] for line in wrong.stdout.splitlines() if line.startswith("script.py")]
    assert sorted(set(lines)) == ["4", "5", "6", "7"], wrong.stdout


@pytest.mark.slow
def test_without_the_marker_a_script_sees_no_types(tmp_path):
    """The control: a copy under another name, since mypy would find an installed quadsim instead."""
    pytest.importorskip("mypy")
    copy = tmp_path / "bare" / "unmarked"
    copy.mkdir(parents=True)
    for name in ("__init__.py", "__init__.pyi"):
        shutil.copy(PACKAGE / name, copy)
    text = RIGHT.replace("quadsim", "unmarked")
    assert "py.typed" in mypy(tmp_path, text, copy).stdout
    (copy / "py.typed").touch()
    assert "py.typed" not in mypy(tmp_path, text, copy).stdout


if __name__ == "__main__":
    for name, text in stubs().items():
        (PACKAGE / name).write_text(text, encoding="utf-8")
