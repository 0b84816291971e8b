"""Data flows one way: a module imports from its left only; heavy packages stay where they are used."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import quadsim

PACKAGE = Path(quadsim.__file__).parent
ORDER = [
    "_discovery", "_validation", "_parsing", "_random", "_quantiles", "_format", "_progress_bars", "_progress",
    "_source", "keys", "_blas", "_files", "_columns", "_processes", "plots", "_display", "_artifacts",
    "spectra", "problems", "optimizers", "engine", "theory", "claims", "comparison", "sweeps", "reproduce", "hessian",
    "bench", "cli", "__main__",
]  # fmt: skip


def imports(module):
    """The quadsim modules that a module or package imports, anywhere in its text, but for type checking alone."""
    folder = PACKAGE / module
    paths = sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{module}.py"]
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


def test_the_architecture_page_has_the_same_order():
    page = (PACKAGE.parent / "docs/architecture/index.md").read_text(encoding="utf-8")
    first = [line.split("|")[1] for line in page.split("## ")[0].splitlines() if line.startswith("| `")]
    assert [name.rstrip("/") for cell in first for name in re.findall(r"`([\w/]+)`", cell)] == ORDER[:-1]


def test_only_the_command_measure_imports_hessian():
    users = [
        path.name for path in PACKAGE.rglob("*.py") if path.parent.name != "hessian" and "hessian" in imports_of(path)
    ]
    assert users == ["measure.py"]


@pytest.mark.parametrize("module", ORDER)
def test_a_module_imports_from_its_left_only(module):
    assert imports(module) <= set(ORDER[: ORDER.index(module)])


def test_theory_knows_problems_and_optimizers_only():
    assert imports("theory") <= {"_blas", "_discovery", "_progress", "_validation", "problems", "optimizers", "engine"}


def test_plots_import_nothing_of_quadsim():
    """But for private helpers of the root and the table of keys: a figure is drawn from a table alone."""
    assert imports("plots") <= {"_discovery", "_validation", "_quantiles", "_format", "keys"}


@pytest.mark.parametrize("library", ["torch", "jax", "optax", "tokenizers", "distributed", "playwright"])
def test_extras_are_imported_where_they_are_used_only(library):
    users = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py") if library in libraries_of(path)}
    assert users <= {"distributed": {"sweeps"}}.get(library, {"hessian", "bench"})


def libraries_of(path):
    """The libraries that a module imports, anywhere in its text."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.split(".")[0] for name in names}


def test_the_check_sees_imports():
    """The control: what is known to be imported is found, also inside functions."""
    assert {"_validation", "_random", "spectra"} <= imports("problems")
    assert {"plots", "_artifacts"} <= imports("cli")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import quadsim", ["numpy", "numba", "matplotlib", "pandas", "scipy", "rich"]),
        (
            "from quadsim.cli import help_text, main\nfor name in help_text.commands():\n"
            "    assert main.main([name, '--help']) == 0",
            ["numpy", "numba", "matplotlib", "pandas", "scipy", "rich", "sqlite3", "dataclasses"],
        ),
        ("from quadsim.cli import main; main.main(['--help'])", ["ast", "quadsim.keys", "json"]),
        ("import quadsim; quadsim.case(3)", ["numba", "matplotlib", "pandas", "scipy", "rich"]),
        ("import quadsim; quadsim.case(1)", ["numba", "matplotlib", "pandas", "scipy", "rich", "torch"]),
        ("import quadsim; quadsim.solve(quadsim.case(3), quadsim.GD())", ["numba", "matplotlib", "pandas", "torch"]),
        ("import quadsim; quadsim.solve(quadsim.case(3), quadsim.Adam())", ["matplotlib", "pandas", "torch"]),
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


TWICE = """
import importlib, pkgutil, quadsim

def public():
    return {name: getattr(quadsim, name) for name in quadsim.__all__}

first, second = public(), public()
for module in pkgutil.walk_packages(quadsim.__path__, "quadsim."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            assert error.name.split(".")[0] in ("torch", "tokenizers", "distributed"), error
assert all(first[name] is second[name] is public()[name] for name in first)
"""


def test_public_names_are_the_same_whatever_is_imported():
    """Importing a submodule binds its name in the package, where it would shadow a public function of this name."""
    done = subprocess.run([sys.executable, "-c", TWICE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# What was renamed does not come back: one word for each concept.
OLD_MODULES = {
    "*": "twofold course closed own rules diagnosis tiles kernels request grammar results verbs screen verdicts "
    "objectives bootstrap streams checks",
    "sweeps": "deck places code cost running cells problems",
    "sweeps/store": "door rows",
    "plots": "words sheet canvas findings medians runs",
    "spectra": "made",
    "hessian": "named record",
    "claims": "passage vanishing",
}
OLD_NAMES = {
    "Terms", "Seen", "Judged", "look", "TurningRoots", "Own", "take_apart", "deal", "together", "in_full", "walk",
    "asks", "hears", "resolved", "curvature", "solve_lanes", "solve_draws", "LITTLE", "KEPT", "RARE",
    "SURE", "USUAL", "AWAY", "WIDEST", "MOST_STEPS", "MOST_SEED",
}  # fmt: skip


def test_no_module_has_its_old_name():
    modules = {path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py")}
    modules |= {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_dir()}
    for package, names in OLD_MODULES.items():
        found = [path for path in modules if package in ("*", str(path.parent)) and path.name in names.split()]
        assert found == [], found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_defined_by_an_old_name(path):
    assert definitions(ast.parse(path.read_text(encoding="utf-8"))) & OLD_NAMES == set()


def definitions(tree):
    """The functions, classes and constants of a module, and the methods of its classes."""
    statements = [*tree.body, *(one for node in tree.body if isinstance(node, ast.ClassDef) for one in node.body)]
    names = {node.name for node in statements if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    targets = [target for node in statements if isinstance(node, ast.Assign) for target in node.targets]
    return names | {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def test_the_check_of_names_can_fail():
    assert definitions(ast.parse("LITTLE, LOW = 1, 2\nclass A:\n    def walk(self): pass")) == {
        "LITTLE",
        "LOW",
        "A",
        "walk",
    }


def test_optimizers_and_functions_have_no_old_parameters():
    for name in ("linear", "clock", "tick", "resolved"):
        assert not hasattr(quadsim.Optimizer, name), name
    for function, names in (
        (quadsim.case, {"rule"}),
        (quadsim.compare, {"steps", "seeds", "tuning_seeds"}),
        (quadsim.tune, {"steps", "seeds"}),
        (quadsim.exact, {"steps"}),
        (quadsim.solve, {"seeds", "steps"}),
    ):
        assert not names & set(inspect.signature(function).parameters), function
