"""Compiled kernels are cached between processes, never stale, and never in the way: numba's four traps."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import quadsim as qs
from quadsim import compiler, kernel_cache

SOLVE = "import quadsim as qs; print(qs.solve(qs.case(3), qs.GD(), max_steps=100).loss[-1].hex())"


def python(code, cwd=None, **env):
    """What a fresh process prints, with its cache where `env` says."""
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


@pytest.fixture(scope="session")
def expected():
    return float(qs.solve(qs.case(3), qs.GD(), max_steps=100).loss[-1]).hex()


@pytest.fixture(scope="session")
def filled(tmp_path_factory, expected):
    """A cache folder that one process has filled."""
    folder = tmp_path_factory.mktemp("filled")
    assert python(SOLVE, QUADSIM_CACHE_DIR=folder) == expected
    return folder


@pytest.fixture
def cache(filled, tmp_path):
    """A copy of it to break."""
    return Path(shutil.copytree(filled, tmp_path / "cache"))


def files(cache, pattern):
    found = sorted(cache.rglob(pattern))
    assert found
    return found


def test_a_second_process_loads_what_the_first_compiled(cache, expected):
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
def test_trap_1_no_folder_is_chosen_that_cannot_be_written(env, monkeypatch):
    """Nothing can be made below a file, not even by root."""
    for name in ("QUADSIM_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert not kernel_cache.check_folder()


def test_trap_1_a_read_only_install_and_home_work_uncached(tmp_path, expected):
    package = shutil.copytree(
        Path(qs.__file__).parent, tmp_path / "quadsim", ignore=shutil.ignore_patterns("__pycache__")
    )
    for path in [package, *package.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = set(package.rglob("*"))
    assert python(SOLVE, cwd=tmp_path, HOME="/dev/null", PYTHONDONTWRITEBYTECODE="1") == expected
    assert set(package.rglob("*")) == before
    for path in [package, *package.rglob("*")]:  # so that the test's own folder can be removed
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_trap_2_an_edited_kernel_is_never_served_from_the_cache(tmp_path, cache, expected):
    """The same package elsewhere, with one line of the kernel changed, beside the same cache."""
    package = shutil.copytree(Path(qs.__file__).parent, tmp_path / "quadsim")
    kernels = package / "kernels.py"
    text = kernels.read_text(encoding="utf-8")
    kernels.write_text(
        text.replace("final_loss_norm[0, k] = 0.5 * eg[k]", "final_loss_norm[0, k] = 1.0 * eg[k]"), encoding="utf-8"
    )
    doubled = float.fromhex(python(SOLVE, cwd=tmp_path, QUADSIM_CACHE_DIR=cache))
    assert doubled == 2 * float.fromhex(expected)
    kernels.write_text(text, encoding="utf-8")
    assert python(SOLVE, cwd=tmp_path, QUADSIM_CACHE_DIR=cache) == expected


def test_trap_2_an_edited_rule_is_never_served_from_the_cache(tmp_path, cache, expected):
    package = shutil.copytree(Path(qs.__file__).parent, tmp_path / "quadsim")
    rules = package / "optimizers" / "descent.py"
    text = rules.read_text(encoding="utf-8")
    rules.write_text(text.replace("    return lr * g\n", "    return 0.5 * lr * g\n"), encoding="utf-8")
    halved = float.fromhex(python(SOLVE, cwd=tmp_path, QUADSIM_CACHE_DIR=cache))
    problem = qs.case(3)
    half = qs.GD(lr=0.5 * qs.GD().resolved(problem, problem.start(0)).lr)
    assert halved == pytest.approx(float(qs.solve(problem, half, max_steps=100).loss[-1]), rel=1e-12)
    assert halved != float.fromhex(expected)


def test_a_kernel_s_text_holds_the_rule():
    text = compiler.source(qs.Adam, 8)
    assert "def rule(g, m, v, lr" in text
    assert "WIDTH = 8 " in text
    assert "WIDTH = 1 " in compiler.source(qs.Adam, 1)
    assert compiler.setting_names(qs.Adam) == ("lr", "beta1", "beta2", "eps")
    assert compiler.source(qs.GD, 1) == compiler.source(qs.BlockGD, 1)  # one rule, one kernel


@dataclass(frozen=True)
class Plain(qs.Optimizer):
    name, label, linear = "plain", "Plain", True

    def update(g, lr):  # a name that the kernel has too
        return lr * g

    rule = update


def twice(g, lr):
    return 2 * lr * g


Twice = type("Plain", (qs.Optimizer,), {"name": "twice", "label": "Twice", "linear": True, "rule": twice})


def test_optimizers_of_one_name_run_their_own_rules():
    """Two classes both called Plain, in tiles and alone; and a rule named like a function of the kernel."""
    problem = qs.case(3)
    lanes = qs.solve_lanes(problem, [Plain(lr=1e-5)] * 5 + [Twice(lr=1e-5)] * 5, max_steps=50, tol=0)
    for k in range(10):
        expected = qs.solve(problem, qs.GD(lr=1e-5 if k < 5 else 2e-5), max_steps=50, tol=0)
        assert lanes[k].loss[-1] == pytest.approx(expected.loss[-1], rel=1e-13)


def asks_for_foo(g, foo):
    return foo * g


def test_a_rule_that_asks_for_what_is_not_there(check_refused):
    missing = type("Missing", (qs.Optimizer,), {"name": "missing", "label": "", "rule": asks_for_foo})
    check_refused(lambda: qs.solve(qs.case(3), missing(lr=1.0)), "asks for 'foo', which is neither g, w, t, random,")


def test_a_rule_that_is_no_function_of_its_own(check_refused):
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
    name, label, linear, rule, state = "heavy", "Heavy ball", True, heavy_rule, ("buffer",)
    momentum: float = 0.9

problem = qs.case(3)
run = qs.solve(problem, Heavy(lr=1e-4), tol=0, max_steps=50)
w, buffer = problem.start(0), 0
for _ in range(50):
    buffer = 0.9 * buffer + problem.grad(w)
    w = w - 1e-4 * buffer
np.testing.assert_allclose(run.w, w, rtol=1e-10)
"""


def test_a_new_optimizer_is_one_record_and_one_rule(tmp_path):
    """Neither kernel nor solver is touched."""
    script = tmp_path / "heavy.py"
    script.write_text(HEAVY_BALL)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FEW = """
import sys, quadsim as qs
from quadsim import compiler, tiles
compiled = []
kept = compiler._compile
compiler._compile = lambda *given: compiled.append(given) or kept(*given)
problem, noise = qs.case(3), qs.Noise(batch=3)
many = [qs.Adam(lr=0.01 * k) for k in range(1, 4)]
qs.solve_lanes(problem, many, seeds=[0], max_steps={first}, tol=0, noise=noise, threads=1)
before = len(compiled)
alone = qs.solve(problem, qs.Adam(lr=0.01), seed=0, max_steps={then}, tol=0, noise=noise)
print(before, len(compiled), float(alone.loss[-1]).hex())
"""


@pytest.mark.parametrize(("steps", "more"), [(500, 0), (50_000, 1)])
def test_little_work_takes_a_kernel_that_is_there(tmp_path, steps, more):
    """A lane alone has a kernel of its own; with few steps it takes the tile's, and its numbers are the same."""
    told = python(FEW.format(first=10, then=steps), QUADSIM_CACHE_DIR=tmp_path / "empty").split()
    assert int(told[1]) - int(told[0]) == more
    narrow = qs.solve(qs.case(3), qs.Adam(lr=0.01), seed=0, max_steps=steps, tol=0, noise=qs.Noise(batch=3))
    assert told[2] == float(narrow.loss[-1]).hex()


def test_what_was_kept_is_there_for_the_next_process(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("QUADSIM_CACHE_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr(compiler, "_there", set())
    assert not compiler.is_there(qs.GD, 1)
    monkeypatch.setenv("QUADSIM_CACHE_DIR", str(cache))
    assert compiler.is_there(qs.GD, 1)
    assert not compiler.is_there(qs.GD, 32, True)
