"""Which edits make a sweep recompute its rows: those of code that a cell imports, and no others.

Each module of the package is edited in a private copy. Which modules a cell runs is not taken from the fingerprint, but
from a trace of the functions that are called while the cell runs.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import quadsim
from quadsim.cli import main as cli
from quadsim.engine.compiled import kernel_source
from quadsim.optimizers import OPTIMIZERS
from quadsim.sweeps import fingerprint as fingerprints
from quadsim.sweeps import import_graph
from quadsim.sweeps.grid import Grid
from quadsim.sweeps.store.database import Store

RULES = """import math
import quadsim as qs

SLOW = 0.5


def calm(x):
    return SLOW * x


def count(weight, lr=1e-4):
    return 0.5 * weight + calm(lr)


@qs.rule(once_per_step=count, shared_state="weight")
def clocked(g, weight, lr=1e-4):
    return weight * calm(g)
"""

CELLS = {
    **{f"{name} compiled": {"case": "3", "optimizers": name, "engine": "compiled", "max_steps": "20"}
       for name, kind in OPTIMIZERS.items() if not kind.user_defined},
    **{f"{name} closed-form": {"case": "4", "optimizers": name}
       for name in ("gd", "block-gd", "heavy-ball", "nesterov", "frozen-adam")},
    "measured": {"case": "1", "optimizers": "gd", "block_size": "4", "rotation": "0.5"},
    "law": {"spectrum": "log-uniform", "kappa": "10", "optimizers": "gd", "heterogeneity": "0.3"},
    "noisy": {"case": "3", "optimizers": "adam", "batch": "2", "noise": "labels", "noise.scale": "0.1",
              "schedule": "cosine",
              "max_steps": "20"},
    "user's rule": {"case": "3", "optimizers": "clocked", "rules": "rules.py", "max_steps": "20"},
}  # fmt: skip
KERNELS = ("gd", "frozen-adam", "adam-mini", "muon", "magma")  # that are compiled here, which takes seconds each
TEXTS = (*kernel_source.TEMPLATES, *kernel_source.RULE_TEMPLATES)
TEMPLATES = {f"engine.compiled.{name}" for name in TEXTS}  # read as text, not imported
REPORTS = {"_progress"}  # shows progress and computes nothing
TRACED = [name for name, keys in CELLS.items() if "compiled" not in name or keys["optimizers"] in KERNELS]


# Run in a private copy: which modules does each cell run, which does it load, and which edits change its keys?
WORKER = """
import json, sys
from pathlib import Path
import quadsim
from quadsim.engine.compiled import compiler, kernel_source
from quadsim.sweeps import execute, fingerprint, import_graph
from quadsim.sweeps.grid import Grid

root = Path(quadsim.__file__).parent
assert root.parent == Path.cwd(), root
asked, traced = json.loads(Path("cells.json").read_text())


def name_of(path):
    return str(Path(path).relative_to(root))[:-3].replace("/", ".").removesuffix(".__init__")


def executed(grid):
    seen, groups = set(), list(grid.iter_groups())

    def look(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(root)) and frame.f_code.co_name != "<module>":
            seen.add(name_of(path))

    [execute.run(group, grid.deck) for group in groups]  # compiles: with a profile function that takes minutes
    compiler._kernel.cache_clear()
    compiler._compiled.clear()
    sys.setprofile(look)
    try:
        rows = [row for group in groups for row in execute.run(group, grid.deck)]
    finally:
        sys.setprofile(None)
    assert all(row["status"] != "error" for row in rows), rows
    return seen


def keys():
    for function in (import_graph.module, fingerprint._closure, fingerprint._of_file):
        function.cache_clear()
    return {
        name: [key.hex() for group in Grid.read(keys).iter_groups() for key in group.keys]
        for name, keys in asked.items()
    }


quadsim._LOAD_TIME = 2**63  # every edit here is of code that was imported


def cells_changed_by_editing(paths):
    # the cells whose keys change when a line is added to all of these files
    before = {path: path.read_text() for path in paths}
    for path, text in before.items():
        path.write_text(text + "\\nEDITED = 1\\n")
    texts = dict(kernel_source._texts)
    if any(path.stem in kernel_source.TEMPLATES for path in paths):  # which are read as text
        kernel_source._texts.clear()
    try:
        after = keys()
        return [name for name in base if after[name] != base[name]]
    finally:
        for path, text in before.items():
            path.write_text(text)
        kernel_source._texts.clear()
        kernel_source._texts.update(texts)


if sys.argv[1:]:
    print(json.dumps(keys()))
    sys.exit()
result = {"executed": {}, "helpers": {}}
for name, keys_of in asked.items():
    grid = Grid.read(keys_of)
    if name in traced:
        result["executed"][name] = sorted(executed(grid))
    kind = type(grid.deck[0].optimizer)
    kernel_source.kernel_text(kind, 8, grid.deck[0].options["noise"].any)  # and its helpers
    used = [kind, *(function for made in kernel_source._texts.values() for function, *_ in made[1].uses)]
    kernel_source._texts.clear()
    result["helpers"][name] = sorted({one.__module__ for one in used} | {one.__module__ for one in kind.__mro__})
result["loaded"] = sorted(name for name in sys.modules if name.startswith("quadsim."))
result["fingerprints"] = {
    name: sorted(Grid.read(keys_of).deck[0].code.parts()["modules"]) for name, keys_of in asked.items()
}
base = result["keys"] = keys()
counted = set().union(*result["fingerprints"].values())
paths = {name_of(path) if path != root / "__init__.py" else "": path for path in sorted(root.rglob("*.py"))}
unused = [name for name, path in paths.items() if name not in counted and path.stem not in kernel_source.TEMPLATES]
together = cells_changed_by_editing([paths[name] for name in unused])  # one by one only if this changes a key
result["changed"] = {
    name: [] if name in unused and not together else cells_changed_by_editing([path]) for name, path in paths.items()
}
print(json.dumps(result))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copy")
    package = Path(quadsim.__file__).parent
    shutil.copytree(package, folder / "quadsim", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "rules.py").write_text(RULES)
    return folder


def python(folder, *arguments, check=True):
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr[-2000:]
    return done


@pytest.fixture(scope="module")
def seen(tmp_path_factory, copy):
    folder = tmp_path_factory.mktemp("edited")
    shutil.copytree(copy, folder, dirs_exist_ok=True)
    (folder / "cells.json").write_text(json.dumps([CELLS, TRACED]))
    return json.loads(python(folder, "-c", WORKER).stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACED)
def test_every_module_that_a_cell_runs_is_in_its_fingerprint(seen, name):
    assert set(seen["executed"][name]) >= {
        "sweeps.execute",
        "problems.block_quadratic",
        "engine.solver",
        "_random",
    }  # the trace sees them
    assert set(seen["executed"][name]) - set(seen["fingerprints"][name]) <= REPORTS


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_an_edit_of_a_module_that_a_cell_runs_changes_its_key(seen, name):
    changed = {module for module, cells in seen["changed"].items() if name in cells}
    helpers = {module.removeprefix("quadsim.") for module in seen["helpers"][name] if module.startswith("quadsim.")}
    assert (set(seen["executed"].get(name, ())) | helpers) - REPORTS <= changed
    assert (changed >= TEMPLATES) == (CELLS[name].get("engine") == "compiled" or "max_steps" in CELLS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_an_edit_of_code_that_a_cell_does_not_use_leaves_its_key(seen, name):
    changed = {module for module, cells in seen["changed"].items() if name in cells}
    assert len(seen["changed"]) > 100
    unused = {module for module in seen["changed"] if f"quadsim.{module}" not in seen["loaded"]}
    assert {
        "cli.commands.plot",
        "cli.main",
        "plots.sweeps",
        "reproduce.report",
        "claims.floors",
    } <= unused  # what no cell loads
    assert changed & (unused - TEMPLATES) == set()
    others = {
        "", "optimizers", "sweeps.store.database", "sweeps.store.connection", "sweeps.runner", "sweeps.executors",
        "_processes", "sweeps.grid", "sweeps.run_configs", "sweeps.fingerprint", "sweeps.import_graph", "theory.zipf",
        "theory.floors",
    }  # fmt: skip
    assert others <= set(seen["changed"])
    assert changed & others == set()
    helpers = {module.removeprefix("quadsim.") for module in seen["helpers"][name]} | set(
        seen["executed"].get(name, ())
    )
    mine = {module for module in changed if module.startswith("optimizers.")}
    shared = {
        f"optimizers.{one}"
        for one in ("settings", "base", "lr_origin", "recurrence", "schedules", "rule_source", "rule_errors")
    }
    assert mine <= helpers | shared  # no other optimizer's file
    assert ("optimizers.user_rules" in changed) == (name == "user's rule")


@pytest.mark.slow
def test_editing_lion_leaves_the_rows_of_gd_valid(seen):
    assert set(seen["changed"]["optimizers.lion"]) == {"lion compiled"}
    assert {"adam compiled", "adam-mini compiled", "adasgd compiled", "skip-update compiled", "magma compiled"} <= set(
        seen["changed"]["optimizers.moments"]
    )


def with_other_layout(text):
    """The same code without comments, with other layout and other docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body[0].value.value += " More words."
    return "# words\n" + ast.unparse(tree)


@pytest.mark.slow
def test_layout_comments_and_docstrings_change_no_key(seen, copy, tmp_path):
    folder = tmp_path / "here"
    shutil.copytree(copy, folder)
    (folder / "cells.json").write_text(json.dumps([CELLS, TRACED]))
    for path in (folder / "quadsim").rglob("*.py"):
        text = path.read_text()
        path.write_text(with_other_layout(text))
    assert json.loads(python(folder, "-c", WORKER, "keys").stdout.splitlines()[-1]) == seen["keys"]


# ---- the parts that are not modules


def fingerprint(name, **keys):
    """The fingerprint of a cell of this optimizer."""
    return Grid.read({"case": "3", "optimizers": name, "max_steps": "10", **keys}).deck[0].code


@pytest.mark.parametrize("package", ["numpy", "scipy", "numba", "llvmlite"])
def test_versions_that_determine_bits_are_part_of_it(monkeypatch, package):
    closed_form, compiled = fingerprint("gd").digest, fingerprint("adam").digest
    usual = fingerprints._version
    monkeypatch.setattr(fingerprints, "_version", lambda name: "0.0" if name == package else usual(name))
    assert fingerprint("adam").digest != compiled
    assert (fingerprint("gd").digest != closed_form) == (package in ("numpy", "scipy"))


def test_packages_that_only_show_results_are_no_part_of_it():
    for name in ("gd", "adam"):
        assert not {"pandas", "matplotlib", "rich"} & set(fingerprint(name).versions)
        assert fingerprint(name).versions["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.parametrize("form", kernel_source.FORMS)
def test_the_kernel_counts_in_every_form(monkeypatch, form):
    base, usual = fingerprint("adam").digest, kernel_source.kernel_text

    def other(kind, *its_form):
        return usual(kind, *its_form) + "\nother = 1\n" * (its_form == form)

    monkeypatch.setattr(kernel_source, "kernel_text", other)
    assert fingerprint("adam").digest != base
    assert (
        fingerprint("gd").digest == Grid.read({"case": "3", "optimizers": "gd", "max_steps": "10"}).deck[0].code.digest
    )


# ---- end to end, with edits that once left stale rows


INDIRECT = {  # files that are added or changed first, and an edit after which rows of GD are stale
    "a branch of an import": (
        {"one.py": "def same(x):\n    return x\n", "two.py": "def same(x):\n    return x\n"},
        "try:\n    from quadsim.one import same\nexcept ImportError:\n    from quadsim.two import same\n",
        "one.py", "return x", "return [x][0]",
    ),
    "a module that is imported for what it does": (
        {"one.py": "from quadsim import _random\n\n_random.EXTRA = 1\n"}, "import quadsim.one\n",
        "one.py", "EXTRA = 1", "EXTRA = 2",
    ),
    "a re-export": ({}, "", "spectra/__init__.py", "    rescale,\n", "    unshifted as rescale,\n"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", INDIRECT)
def test_code_that_is_reached_indirectly_is_in_the_key(copy, tmp_path, name):
    added, imports, file, old, new = INDIRECT[name]
    folder = tmp_path / "here"
    shutil.copytree(copy, folder)
    for path, text in added.items():
        (folder / "quadsim" / path).write_text(text)
    home = folder / "quadsim" / "optimizers" / "gd.py"
    decorator = "@same\n" if "same" in imports else ""
    start = "@dataclass(frozen=True)\nclass GD("
    assert home.read_text().count(start) == 1
    home.write_text(home.read_text().replace(start, f"{imports}\n{decorator}{start}"))
    cells = {"gd": CELLS["gd closed-form"], "measured": CELLS["measured"]}
    (folder / "cells.json").write_text(json.dumps([cells, []]))
    before = json.loads(python(folder, "-c", WORKER, "keys").stdout)
    path = folder / "quadsim" / file
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    after = json.loads(python(folder, "-c", WORKER, "keys").stdout)
    assert all(after[cell] != before[cell] for cell in cells)


def test_code_that_was_edited_after_its_import_is_refused(copy, tmp_path):
    folder = tmp_path / "here"
    shutil.copytree(copy, folder)
    (folder / "try.py").write_text(
        "import pathlib\nimport quadsim as qs\nfrom quadsim.optimizers import signgd\n"
        "path = pathlib.Path(signgd.__file__)\npath.write_text(path.read_text() + 'MORE = 1')\n"
        "for name in ('gd', 'signgd'):\n    qs.sweep(case=3, optimizers=name, max_steps=9, store='s.db')\n"
    )
    done = python(folder, "try.py", check=False)
    assert done.returncode == 1
    assert "quadsim.optimizers.signgd was edited after quadsim was imported: restart Python" in done.stderr
    with Store(folder / "s.db") as store:
        assert len(store) == 1


def test_a_base_outside_the_package_counts(copy, tmp_path):
    folder = tmp_path / "here"
    shutil.copytree(copy, folder)
    (folder / "mixed.py").write_text("class Mixed:\n    def first_shared_state(self):\n        return (0.0,)\n")
    (folder / "try.py").write_text(
        "import mixed\nimport quadsim as qs\nfrom quadsim.sweeps import fingerprint\n"
        "class Mine(mixed.Mixed, qs.GD):\n    name = 'mine'\n"
        "print(fingerprint.of_cell(Mine, 'closed-form', False).digest.hex())\n"
    )
    before = python(folder, "try.py").stdout
    (folder / "mixed.py").write_text("class Mixed:\n    def first_shared_state(self):\n        return (0.5,)\n")
    assert python(folder, "try.py").stdout != before


def test_the_file_that_is_hashed_is_the_file_that_is_read(tmp_path):
    for top, name in ((90, "mine.npz"), (99, "mine.npz.npz")):
        with open(tmp_path / name, "wb") as file:
            np.savez(file, a=np.linspace(1, 50, 40), b=np.linspace(2, top, 40))
    digest = fingerprints.of_network(str(tmp_path / "mine.npz"))
    (tmp_path / "mine.npz.npz").unlink()
    assert fingerprints.of_network(str(tmp_path / "mine.npz")) == digest


SWEEP = ("sweep", "case=3", "max_steps=40", "--json")
EDITS = {
    "first_shared_state of a base class": (
        "optimizers=adam-mini,adasgd,gd", "optimizers/moments.py",
        "weight = 0.0 if self.bias_correction else 1.0", "weight = 0.25 if self.bias_correction else 1.0",
        "code of optimizers.moments changed", 2,
    ),
    "first_shared_state of users' rules": (
        "optimizers=clocked,gd", "optimizers/user_rules.py", "return (0.0,) * len(self.shared_state)",
        "return (0.5,) * len(self.shared_state)", "code of optimizers.user_rules changed", 1,
    ),
}  # fmt: skip


COMMANDS = """
import contextlib, io, json, sys
from quadsim.cli import main as cli

printed = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert cli.main(words) == 0, words
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


def commands(folder, *lines):
    """The outputs of several commands that one process runs."""
    return json.loads(python(folder, "-c", COMMANDS, json.dumps(lines)).stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", EDITS)
def test_rows_of_edited_code_are_recomputed_and_status_says_why(copy, tmp_path, name):
    optimizers, file, old, new, reason, stale = EDITS[name]
    folder = tmp_path / "here"
    shutil.copytree(copy, folder)
    rules = ["rules=rules.py"] if "clocked" in optimizers else []
    sweep = [*SWEEP, optimizers, *rules]
    commands(folder, [*sweep, "store=old.db"])
    path = folder / "quadsim" / file
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    result, planned, computed, *_ = commands(
        folder,
        ["status", "old.db", *rules, "--json"],
        [*sweep, "store=old.db", "--dry-run"],
        [*sweep, "store=old.db"],
        [*sweep, "store=fresh.db"],
        *(["export", f"{store}.db", f"out={store}.csv"] for store in ("old", "fresh")),
    )
    result, planned, computed = json.loads(result), json.loads(planned), json.loads(computed)
    assert (result["reusable"], result["stale"]) == (result["rows"] - stale, {reason: stale})
    assert (planned["stale"], planned["stale_because"]) == (stale, [reason])
    assert computed["computed"] == stale
    column = (folder / "fresh.csv").read_text().splitlines()[0].split(",").index("loss")
    losses = [[line.split(",")[column] for line in (folder / f"{store}.csv").read_text().splitlines()[1:]]
              for store in ("old", "fresh")]  # fmt: skip
    assert losses[0] == losses[1]


def status(capsys, store):
    assert cli.main(["status", str(store), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_status_says_which_versions_and_spectra_changed(tmp_path, monkeypatch, capsys):
    spectra, store, usual = tmp_path / "mine.npz", tmp_path / "s.db", fingerprints._version
    np.savez(spectra, a=np.linspace(1, 50, 40), b=np.linspace(2, 90, 40))
    monkeypatch.setattr(fingerprints, "_version", lambda name: "0.1" if name == "numpy" else usual(name))
    quadsim.sweep(case=3, optimizers="gd", store=store)
    assert (status(capsys, store)["reusable"], status(capsys, store)["stale"]) == (1, {})
    monkeypatch.undo()
    quadsim.sweep(case=1, network=str(spectra), optimizers="gd", store=store)
    result = status(capsys, store)
    assert (result["reusable"], result["stale"]) == (1, {f"numpy 0.1 → {usual('numpy')}": 1})
    assert [one["done"] for one in result["sweeps"]] == [1, 1]  # by whatever code
    np.savez(spectra, a=np.linspace(1, 50, 40), b=np.linspace(2, 99, 40))
    result = status(capsys, store)
    assert (result["reusable"], result["stale"][f"the spectra of {spectra} changed"]) == (0, 1)
    quadsim.sweep(case=1, network=str(spectra), optimizers="gd", store=store)
    quadsim.sweep(case=3, optimizers="gd", store=store)
    assert (status(capsys, store)["reusable"], status(capsys, store)["stale"]) == (2, {})


def test_workers_with_other_spectra_are_not_the_same(tmp_path):
    spectra = tmp_path / "mine.npz"
    marks = []
    for top in (90, 99):
        np.savez(spectra, a=np.linspace(1, 50, 40), b=np.linspace(2, top, 40))
        marks.append(Grid.read({"case": "1", "network": str(spectra), "optimizers": "gd"}).mark)
    assert marks[0] != marks[1]


PAIRS = [
    ("x = 0", "x = None"), ("x = 0", "x = False"), ("x = 0", "x = 0.0"), ("x = ''", "x = b''"), ("f()", "f(0)"),
    ("x = 1", "x: int = 1"), ("from . import a", "from .. import a"), ("def f(): pass", "async def f(): pass"),
    ("f'{a}'", "f'{a!r}'"), ("x[1:]", "x[:1]"), ("def f(*, a): pass", "def f(a): pass"), ("raise", "raise x"),
    ("def f(a, *, b=None, c): pass", "def f(a, *, b, c=None): pass"), ("{**a, 1: b}", "{1: b, **a}"),
    ("{**a}", "{None: a}"), ("import a.b", "import a"), ("from a import b", "from a import b as c"),
    ("[x async for x in y]", "[x for x in y]"), ("a = 1\nb = 2", "b = 2\na = 1"), ("x = 'a'\n'b'", "x = 'a' 'b'"),
    ("x = '''a\n\n\nb'''", "x = '''a\n\nb'''"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_different_code_has_different_hashes(one, other):
    assert import_graph.read(one).digest != import_graph.read(other).digest
    assert import_graph.read(one).digest == import_graph.read(f"# words\n\n\n{one}  # more\n\n").digest


IMPORTS = [  # and modules that must be among those imported; no others unless the last is "…"
    ("from quadsim import _validation\ndef f(): _validation.real(1)", {"_validation"}),
    ("from quadsim._validation import real\ndef f(real): real(1)", {"_validation"}),
    ("from .problems.cases import case", {"problems.cases"}),
    ("from .optimizers import gd", {"optimizers.gd"}),
    ("def f():\n    from quadsim.problems.cases import case\n    return case(3)", {"problems.cases"}),
    ("from quadsim._random import *", {"_random"}),
    ("import importlib\ndef f(): importlib.import_module('quadsim._random').stream(0)", {"_random"}),
    ("import quadsim.optimizers.gd as gd", {"optimizers.gd"}),
    ("from quadsim.optimizers import GD", {"optimizers"}),  # the registry, which does not count
    (
        "try:\n    from quadsim._validation import real\nexcept ImportError:\n"
        "    from quadsim._random import stream as real",
        {"_validation", "_random"},
    ),
    (
        "class A:\n    def a(self):\n        from quadsim._validation import real as x\n"
        "    def b(self):\n        from quadsim._random import stream as x",
        {"_validation", "_random"},
    ),
    ("if TYPE_CHECKING:\n    from quadsim._random import stream\nx = 1", set()),
    ("if TYPE_CHECKING:\n    x = 1\nelse:\n    from quadsim._random import stream", {"_random"}),
    ("def f():\n    'quadsim is not quadsim._random'\n    return 'quadsim', 'quadsim.x', 'quadsim._random '", set()),
]
PACKAGES_IMPORTED = [  # each counts as all its modules
    ("from quadsim import theory", "theory"),
    ("import quadsim.theory as t", "theory"),
    ("from quadsim.theory import rate", "theory"),
    ("from . import theory", "theory"),
    ("import quadsim", ""),
    ("import quadsim._random", ""),
    ("from quadsim import solve", ""),
]


def imported(text):
    names = import_graph.imported_modules(import_graph.read(text), "quadsim")
    return {name.removeprefix("quadsim.") for name in names}


@pytest.mark.parametrize(("text", "modules"), IMPORTS)
def test_imports_are_found_wherever_they_are(text, modules):
    assert imported(text) == modules


@pytest.mark.parametrize(("text", "package"), PACKAGES_IMPORTED)
def test_a_package_counts_with_all_its_modules(text, package):
    folder = Path(quadsim.__file__).parent / package
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} <= {
        name.removeprefix(f"{package}.") for name in imported(text)
    }


def test_packages_are_named_where_they_are_imported():
    assert import_graph.read("import numpy as np\nimport pandas, os").packages == {"numpy", "pandas"}
    assert import_graph.read("def f():\n    from scipy.linalg import schur\n    schur()").packages == {"scipy"}


# ---- what fingerprints leave out: the registry, and the __init__ of packages from which no name is imported


COUNTED = {name for cell in ("gd", "adam") for name in fingerprint(cell).modules} - {"quadsim.optimizers.gd"}
NOT_CALLED = {"best_frozen_momentum"}  # no cell calls it


def source_tree(module):
    return ast.parse(import_graph._path(module).read_text())


@pytest.mark.parametrize("module", sorted(COUNTED))
def test_classes_from_the_registry_are_only_compared(module):
    tree = source_tree(module)
    classes = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "quadsim.optimizers"
        for alias in node.names
        if import_graph._path(f"quadsim.optimizers.{alias.name}") is None
    }
    assert "OPTIMIZERS" not in classes
    assert "by_name" not in classes
    compared = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in NOT_CALLED:
            compared |= set(ast.walk(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            compared |= set(ast.walk(node.args[1]))
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            compared |= set(ast.walk(node.annotation))
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            compared |= set(ast.walk(node.returns))
    used = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in classes - {"Optimizer", "LearningRate"}]
    assert set(used) <= compared


def test_packages_on_the_way_have_no_side_effects():
    parents = {name.rpartition(".")[0] for name in COUNTED} - {"quadsim"}
    assert {"quadsim.engine.compiled", "quadsim.theory", "quadsim.optimizers"} <= parents
    for package in parents - {"quadsim.optimizers"}:
        for node in source_tree(package).body:
            harmless = isinstance(node, ast.Import | ast.ImportFrom) or (
                isinstance(node, ast.FunctionDef) and node.name == "__dir__"
            )
            assert harmless or ast.unparse(node).startswith(("__all__ = ", "'"))
