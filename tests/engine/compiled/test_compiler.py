"""Compiled kernels are shared by processes, never stale, and work without a writable cache."""

import ast
import os
import runpy
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import quadsim as qs
from quadsim.engine.compiled import batching, compiler, kernel_cache, kernel_source

kernel_text = kernel_source.kernel_text
SOLVE = "import quadsim as qs; print(qs.solve(qs.case(3), qs.GD(), max_steps=100, engine='compiled').loss[-1].hex())"


def python(code, cwd=None, **env):
    """The output of a new process with these environment variables."""
    clean = {key: value for key, value in os.environ.items() if key not in ("QUADSIM_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=clean | {k: str(v) for k, v in env.items()},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def files(cache, pattern):
    paths = sorted(cache.rglob(pattern))
    assert paths
    return paths


def test_a_second_process_loads_the_kernel_that_the_first_compiled(cache, expected):
    before = {path: path.stat().st_mtime_ns for path in files(cache, "*")}
    hits = (
        SOLVE
        + "\nimport sys\nk = next(m for n, m in sys.modules.items() if n.startswith('quadsim_kernel_'))"
        + "\nprint(sum(k.advance.stats.cache_hits.values()), sum(k.advance.stats.cache_misses.values()))"
    )
    assert python(hits, QUADSIM_CACHE_DIR=cache).split() == [expected, "1", "0"]
    assert {path: path.stat().st_mtime_ns for path in files(cache, "*")} == before


@pytest.mark.parametrize(
    "env",
    [{"HOME": "/dev/null"}, {"XDG_CACHE_HOME": "/dev/null/cache"}, {"QUADSIM_CACHE_DIR": "/proc/quadsim"}],
    ids=str,
)
def test_a_folder_that_cannot_be_written_is_not_used(env, monkeypatch):
    """Not even root can create a folder below a file."""
    for name in ("QUADSIM_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert not kernel_cache.check_folder()


@pytest.mark.slow
def test_a_read_only_install_and_home_work_without_a_cache(tmp_path, expected):
    package = shutil.copytree(
        Path(qs.__file__).parent, tmp_path / "quadsim", ignore=shutil.ignore_patterns("__pycache__")
    )
    for path in [package, *package.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = set(package.rglob("*"))
    assert python(SOLVE, cwd=tmp_path, HOME="/dev/null", PYTHONDONTWRITEBYTECODE="1") == expected
    assert set(package.rglob("*")) == before
    for path in [package, *package.rglob("*")]:  # so that pytest can remove its folder
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.slow
def test_an_edited_kernel_is_never_loaded_from_the_cache(tmp_path, cache, expected):
    """A copy of the package with one line of the kernel changed, and the same cache."""
    package = shutil.copytree(Path(qs.__file__).parent, tmp_path / "quadsim")
    template = package / "engine" / "compiled" / "kernel_template.py"
    text = template.read_text(encoding="utf-8")
    edited = text.replace("final_loss_norm[0, k] = 0.5 * eg[k]", "final_loss_norm[0, k] = 1.0 * eg[k]")
    assert edited != text
    template.write_text(edited, encoding="utf-8")
    doubled = float.fromhex(python(SOLVE, cwd=tmp_path, QUADSIM_CACHE_DIR=cache))
    assert doubled == 2 * float.fromhex(expected)
    template.write_text(text, encoding="utf-8")
    assert python(SOLVE, cwd=tmp_path, QUADSIM_CACHE_DIR=cache) == expected


@pytest.mark.slow
def test_an_edited_rule_is_never_loaded_from_the_cache(tmp_path, cache, expected):
    package = shutil.copytree(Path(qs.__file__).parent, tmp_path / "quadsim")
    rules = package / "optimizers" / "gd.py"
    text = rules.read_text(encoding="utf-8")
    rules.write_text(text.replace("    return lr * g\n", "    return 0.5 * lr * g\n"), encoding="utf-8")
    halved = float.fromhex(python(SOLVE, cwd=tmp_path, QUADSIM_CACHE_DIR=cache))
    problem = qs.case(3)
    half = qs.GD(lr=0.5 * qs.GD().with_best_lr(problem, problem.start(0)).lr)
    assert halved == pytest.approx(float(qs.solve(problem, half, max_steps=100, engine="compiled").loss[-1]), rel=1e-12)
    assert halved != float.fromhex(expected)


def test_a_kernel_s_text_contains_the_rule():
    text = kernel_text(qs.Adam, 8)
    assert "def rule(g, m, v, lr" in text
    assert "\nWIDTH = 8\n" in text
    assert "\nWIDTH = 1\n" in kernel_text(qs.Adam, 1)
    assert kernel_source.setting_names(qs.Adam) == ("lr", "beta1", "beta2", "eps")
    assert kernel_text(qs.GD, 1) == kernel_text(qs.BlockGD, 1)  # one rule, one kernel


def templates():
    folder = Path(kernel_source.__file__).parent
    return {name: (folder / f"{name}.py").read_text(encoding="utf-8") for name in kernel_source.TEMPLATES}


@pytest.mark.parametrize("name", kernel_source.TEMPLATES)
def test_an_edit_of_any_template_changes_the_kernel_s_identity(name, tmp_path, monkeypatch):
    before = compiler._identity(kernel_text(qs.GD, 1))
    for other, text in templates().items():
        (tmp_path / f"{other}.py").write_text(text + "EDITED = 1\n" * (other == name), encoding="utf-8")
    monkeypatch.setattr(kernel_source, "__file__", str(tmp_path / "kernel_source.py"))
    monkeypatch.setattr(kernel_source, "_texts", {})
    assert compiler._identity(kernel_text(qs.GD, 1)) != before


@pytest.mark.parametrize("optimizer", [qs.GD, qs.Adam, qs.AdamMini])
def test_a_kernel_imports_nothing_from_quadsim(optimizer):
    """And defines each of its functions once, in whichever template."""
    tree = ast.parse(kernel_text(optimizer, 8, True))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name.partition(".")[0] for name in imported} == {"llvmlite", "math", "numba", "numpy"}
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert len(defined) == len(set(defined))


def test_templates_import_from_each_other_without_renaming():
    for text in templates().values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("quadsim."):
                assert node.module.removeprefix("quadsim.engine.compiled.") in kernel_source.TEMPLATES
                assert all(alias.asname is None for alias in node.names)


def test_a_template_without_a_parameter_or_the_rule_is_refused():
    parameters = ("WIDTH", 1), ("NOISY", False), ("RANDOM", False)
    whole = templates()
    assert "WIDTH = 1" in kernel_source.join_templates(tuple(whole.values()), parameters)
    for name, old, new in (
        ("kernel_parameters", "WIDTH = 8", "LANES = 8"),
        ("kernel_template", "def update(", "def up("),
    ):
        with pytest.raises(RuntimeError, match="must define each of"):
            kernel_source.join_templates(tuple((whole | {name: whole[name].replace(old, new)}).values()), parameters)


@dataclass(frozen=True)
class Plain(qs.Optimizer):
    name, label, homogeneous = "plain", "Plain", True

    def update(g, lr):  # also the name of a function of the kernel
        return lr * g

    rule = update


def twice(g, lr):
    return 2 * lr * g


Twice = type("Plain", (qs.Optimizer,), {"name": "twice", "label": "Twice", "homogeneous": True, "rule": twice})


def test_classes_with_the_same_name_run_different_rules():
    """Two classes named Plain, in batches and alone; and a rule named like a function of the kernel."""
    problem = qs.case(3)
    lanes = qs.solve(problem, [Plain(lr=1e-5)] * 5 + [Twice(lr=1e-5)] * 5, max_steps=50, tol=0)
    for k in range(10):
        expected = qs.solve(problem, qs.GD(lr=1e-5 if k < 5 else 2e-5), max_steps=50, tol=0, engine="compiled")
        assert lanes[k].loss[-1] == pytest.approx(expected.loss[-1], rel=1e-13)


def asks_for_foo(g, foo):
    return foo * g


def test_a_rule_with_an_unknown_parameter(check_refused):
    missing = type("Missing", (qs.Optimizer,), {"name": "missing", "label": "", "rule": asks_for_foo})
    check_refused(lambda: qs.solve(qs.case(3), missing(lr=1.0)), "asks for 'foo', which is neither g, w, t, random,")


def test_a_rule_that_is_a_lambda(check_refused):
    kind = type("Odd", (qs.Optimizer,), {"name": "odd", "label": "", "rule": lambda g, lr: lr * g})
    check_refused(lambda: qs.solve(qs.case(3), kind(lr=1.0)), "not a lambda")


HEAVY_BALL = """
from dataclasses import dataclass
import numpy as np
import quadsim as qs

def heavy_rule(g, buffer, lr, momentum):
    buffer = momentum * buffer + g
    return lr * buffer, buffer

@dataclass(frozen=True)
class Heavy(qs.Optimizer):
    name, label, homogeneous, rule, state = "heavy", "Heavy ball", True, heavy_rule, ("buffer",)
    momentum: float = 0.9

problem = qs.case(3)
run = qs.solve(problem, Heavy(lr=1e-4), tol=0, max_steps=50)
w, buffer = problem.start(0), 0
for _ in range(50):
    buffer = 0.9 * buffer + problem.grad(w)
    w = w - 1e-4 * buffer
np.testing.assert_allclose(run.w, w, rtol=1e-10)
"""


@pytest.mark.slow
def test_a_new_optimizer_needs_one_class_and_one_rule(tmp_path):
    """Kernel and solver are unchanged."""
    script = tmp_path / "heavy.py"
    script.write_text(HEAVY_BALL)
    runpy.run_path(str(script))


@pytest.mark.slow
def test_small_jobs_use_compiled_kernels(monkeypatch):
    """With the same numbers as from the fastest kernels. The process seems to have no kernel at first."""
    monkeypatch.setattr(compiler, "_compiled", set())
    monkeypatch.setattr(kernel_cache, "has", lambda identity: False)
    monkeypatch.setattr(batching, "_slower_seconds", defaultdict(float))
    monkeypatch.setattr(batching, "MAX_SLOWER_SECONDS", np.inf)
    problem, noise, one = qs.case(3), qs.Noise(batch=3), qs.Adam(lr=0.01)
    many, losses = [qs.Adam(lr=0.01 * k) for k in range(1, 4)], []

    def solve(optimizers, steps=500, **how):
        """The number of kernels and rules requested so far."""
        run = qs.solve(problem, optimizers, seed=0, max_steps=steps, tol=0, threads=1, **how)
        losses.append((run if isinstance(run, qs.Trajectory) else run[0]).loss[-1])
        return len(compiler._compiled)

    assert solve(many, noise=noise) == 2  # the generic kernel and the rule that it calls
    assert solve(one, noise=noise) == 2  # the same
    assert solve(one) == 2  # without noise, the same
    assert solve(many) == 2
    assert solve(many, 300_000) == 3  # requires the kernel for eight
    assert solve(one, 300_000) == 4  # requires the kernel for one, without noise
    monkeypatch.setattr(batching, "_slower_seconds", defaultdict(float))
    monkeypatch.setattr(batching, "MAX_SLOWER_SECONDS", 0.0)
    assert solve(many, noise=noise) == 4  # now MAX_SLOWER_SECONDS are spent
    assert solve(many, noise=noise) == 5
    with batching.fastest_kernels():
        for seen, steps, runs in ((noise, 500, (0, 1, 6, 7)), (None, 500, (2, 3)), (None, 300_000, (4, 5))):
            run = qs.solve(problem, one, seed=0, max_steps=steps, tol=0, noise=seen)
            assert {losses[k] for k in runs} == {run.loss[-1]}


def test_a_cached_kernel_counts_as_compiled(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("QUADSIM_CACHE_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr(compiler, "_compiled", set())
    assert not compiler.is_compiled(qs.GD, 1)
    monkeypatch.setenv("QUADSIM_CACHE_DIR", str(cache))
    assert compiler.is_compiled(qs.GD, 1)
    assert not compiler.is_compiled(qs.GD, 32, True)
