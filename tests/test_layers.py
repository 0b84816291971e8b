"""Data flows one way: a module imports from its left only; heavy packages stay where they are used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import quadsim

PACKAGE = Path(quadsim.__file__).parent
ORDER = [
    "_signals", "checks", "_files", "blas", "grammar", "streams", "bootstrap", "spectra", "hessian", "problem",
    "cases", "noise", "schedules", "optimizers", "rules", "diagnosis", "own", "kernels", "kernel_cache", "compiler",
    "trajectory", "table", "twofold", "modes", "course", "closed", "tiles", "solver", "request", "objectives", "search",
    "tuning", "comparison", "theory", "claims", "bench", "store", "sweeps", "plots", "results", "reproduction",
    "report", "verbs", "cli", "__main__",
]  # fmt: skip


def imports(module):
    """The quadsim modules that a module or package imports, anywhere in its text, but for type checking alone."""
    folder = PACKAGE / module
    paths = sorted(folder.glob("*.py")) if folder.is_dir() else [PACKAGE / f"{module}.py"]
    return set().union(*(imports_of(path) for path in paths)) - {module}


def imports_of(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "quadsim":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("quadsim."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("quadsim.")}
    return found


def test_the_order_names_every_module():
    there = {path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/*.py")}
    assert there - {"__init__"} == set(ORDER)


def test_only_the_measure_verb_imports_hessian():
    users = [
        path.name for path in PACKAGE.rglob("*.py") if path.parent.name != "hessian" and "hessian" in imports_of(path)
    ]
    assert users == ["measure.py"]


@pytest.mark.parametrize("module", ORDER)
def test_a_module_imports_from_its_left_only(module):
    assert imports(module) <= set(ORDER[: ORDER.index(module)])


def test_theory_knows_problems_and_optimizers_only():
    assert imports("theory") <= {"blas", "checks", "problem", "optimizers", "trajectory", "modes", "closed"}
    assert imports("plots") == set()


def test_the_check_sees_imports():
    """The control: what is known to be imported is found, also inside functions."""
    assert {"checks", "streams", "spectra"} <= imports("problem")
    assert {"plots", "results"} <= imports("verbs")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import quadsim", ["numpy", "numba", "matplotlib", "pandas", "scipy", "rich"]),
        (
            "import quadsim.cli; quadsim.cli.main(['--help'])",
            ["numpy", "numba", "matplotlib", "pandas", "scipy", "rich"],
        ),
        ("import quadsim; quadsim.case(3)", ["numba", "matplotlib", "pandas", "scipy", "rich"]),
        ("import quadsim; quadsim.case(1)", ["numba", "matplotlib", "pandas", "scipy", "rich", "torch"]),
        ("import quadsim; quadsim.solve(quadsim.case(3), quadsim.GD())", ["matplotlib", "pandas", "torch"]),
    ],
)
def test_heavy_packages_are_imported_where_they_are_used(code, absent):
    check = f"{code}\nimport sys\nprint([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_public_names_resolve():
    for name in quadsim.__all__:
        assert getattr(quadsim, name) is not None
    assert callable(quadsim.solve)
    assert quadsim.__version__
    with pytest.raises(AttributeError, match="has no attribute 'sovle'"):
        quadsim.sovle  # noqa: B018
