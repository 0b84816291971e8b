"""The notebooks run from top to bottom in a fresh kernel, without warnings, and show what they should.

Needs `quadsim[notebook]`; skipped without it.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "experiments/notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
RUN = """
import sys, nbformat, nbclient
from traitlets.config import Config
notebook = nbformat.read(sys.argv[1], as_version=4)
config = Config({"KernelManager": {"transport": "ipc"}})  # no port is opened
try:
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", config=config).execute()
finally:
    nbformat.write(notebook, sys.argv[2])
"""


def executed(path, folder):
    """The notebook with its outputs, run in an empty folder without a display."""
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "MPLBACKEND")}
    homes = {name: str(folder / name.lower()) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR")}
    target = folder / "executed.ipynb"
    arguments = [sys.executable, "-c", RUN, str(path), str(target)]
    with tempfile.TemporaryDirectory(prefix="qs-") as sockets:  # the path of a socket has at most 107 characters
        environment |= {**homes, "JUPYTER_RUNTIME_DIR": sockets}
        done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert "WARNING" not in done.stderr
    return json.loads(target.read_text(encoding="utf-8"))["cells"]


def outputs(cells):
    return [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]


def of_kind(cells, kind):
    """The outputs of a MIME type, as text."""
    return ["".join(one["data"][kind]) for one in outputs(cells) if kind in one.get("data", {})]


def problems(cells):
    """Errors, and warnings on standard error."""
    found = [one for one in outputs(cells) if one["output_type"] == "error"]
    streams = ["".join(one["text"]) for one in outputs(cells) if one.get("name") == "stderr"]
    return found + [text for text in streams if any(word in text for word in ("Warning", "Error", "Traceback", "warn"))]


@pytest.mark.slow
@pytest.mark.xdist_group("notebooks")
def test_the_first_hour(tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = executed(FOLDER / "first_hour.ipynb", tmp_path)
    assert problems(cells) == []
    shown = of_kind(cells, "text/html")
    for text in (
        "condition number κ",
        "<svg",
        "4 runs on mine",
        "Heavy ball",
        "verdict",
        "reference",
        "Adam, tuned on mine",
    ):
        assert any(text in one for one in shown), text
    for reprs in of_kind(cells, "text/plain"):
        assert len(reprs) < 2000
        assert "array(" not in reprs
    figures = [base64.b64decode(one) for one in of_kind(cells, "image/png")]
    assert len(figures) == 5
    assert all(figure.startswith(b"\x89PNG") and len(figure) > 5000 for figure in figures)
    printed = "".join("".join(one["text"]) for one in outputs(cells) if one.get("name") == "stdout")
    assert r"\toprule" in printed
    assert printed.count(r"\\") >= 4
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"executed.ipynb", "ipythondir", "jupyter_config_dir"}, "it writes no files"


@pytest.mark.slow
def test_the_check_of_notebooks_can_fail(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    warning = nbformat.v4.new_code_cell("import warnings; warnings.warn('careful', stacklevel=2)")
    nbformat.write(nbformat.v4.new_notebook(cells=[warning]), tmp_path / "warns.ipynb")
    assert len(problems(executed(tmp_path / "warns.ipynb", tmp_path))) == 1
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), tmp_path / "fails.ipynb")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        executed(tmp_path / "fails.ipynb", tmp_path)


def test_the_test_covers_all_notebooks():
    assert [path.name for path in NOTEBOOKS] == ["first_hour.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_committed_without_outputs(path):
    """Outputs go stale, and contain times and paths; the tests recompute them."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells
    for cell in cells:
        assert (cell["outputs"], cell["execution_count"], cell["metadata"]) == ([], None, {})
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    identifiers = [cell["id"] for cell in notebook["cells"]]
    assert len(set(identifiers)) == len(identifiers)
