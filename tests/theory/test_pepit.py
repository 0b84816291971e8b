"""Worst cases found by performance estimation, against the formulas of theory (ledger 1a, 1b, 4a, 4c, 11).

`python experiments/pepit_oracle.py` wrote pepit.json; with `pip install PEPit==0.5.1` some of it is solved again here.
"""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import quadsim as qs
from quadsim import theory

ROOT = Path(__file__).parents[2]
SOLVES = json.loads((ROOT / "tests/pepit.json").read_text(encoding="utf-8"))["solves"]
RTOL = 1e-4  # ledger 11; the solver is within 1.3e-5


OPTIMIZERS = {"gd": qs.GD, "heavy-ball": qs.HeavyBall, "nesterov": qs.Nesterov}


def largest_mode(method, mu, L, lr, momentum, steps):
    """The largest factor over modes that fill [μ, L]."""
    problem = qs.BlockQuadratic.from_spectra([np.linspace(mu, L, 2000)], rotation=0)
    settings = {"lr": lr} if method == "gd" else {"lr": lr, "momentum": momentum}
    return theory.bound(problem, OPTIMIZERS[method](**settings), steps)[0]


def formulas(solve):
    """The worst case by every function of theory that covers this solve, by name."""
    method, mu, L, lr, momentum, steps, _ = solve.values()
    kappa, root = L / mu, np.sqrt(L / mu)
    if method == "line-search":  # no lr does better from the slowest start
        return {"best_rate": theory.best_rate(kappa, "gd") ** steps}
    found = {"bound": largest_mode(method, mu, L, lr, momentum, steps)}
    if method == "gd":
        two = qs.BlockQuadratic.from_spectra([[mu, L]], rotation=0)
        found["rate"] = theory.rate(two, qs.GD(lr=lr)) ** steps
        if np.isclose(lr, 2 / (mu + L)):
            found["best_rate"] = theory.best_rate(kappa, "gd") ** steps
    tuned = 4 / (np.sqrt(L) + np.sqrt(mu)) ** 2, ((root - 1) / (root + 1)) ** 2
    if method == "heavy-ball" and np.allclose((lr, momentum), tuned):
        found["heavy_ball_bound"] = theory.heavy_ball_bound(kappa, steps)
    if method == "nesterov" and np.allclose((lr, momentum), (1 / L, (root - 1) / (root + 1))):
        found["nesterov_bound"] = theory.nesterov_bound(kappa, steps)
    return found


def read_aloud(solve):
    lr = "best lr" if solve["lr"] is None else f"lr={solve['lr']:.3g}"
    return f"{solve['method']}, {lr}, mu={solve['mu']}, steps={solve['steps']}"


@pytest.mark.parametrize("solve", SOLVES, ids=read_aloud)
def test_the_worst_case_equals_the_formula(solve):
    for name, value in formulas(solve).items():
        assert_allclose(solve["worst"], value, rtol=RTOL, err_msg=name)


@pytest.mark.parametrize("scale", [0.999, 1.001])
@pytest.mark.parametrize("solve", SOLVES, ids=read_aloud)
def test_a_formula_off_by_a_thousandth_is_refused(solve, scale):
    for value in formulas(solve).values():
        with pytest.raises(AssertionError):
            assert_allclose(solve["worst"], scale * value, rtol=RTOL)


def test_every_formula_was_used():
    """The recorded solves use each closed form as often as expected, and so do those without one."""
    used = [name for solve in SOLVES for name in formulas(solve)]
    counts = {name: used.count(name) for name in sorted(set(used))}
    assert counts == {"best_rate": 10, "bound": 36, "heavy_ball_bound": 8, "nesterov_bound": 8, "rate": 9}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*invalid escape sequence")  # in PEPit's docstrings, when first compiled
@pytest.mark.parametrize("solve", [solve for solve in SOLVES if solve["steps"] == 2], ids=read_aloud)
def test_solving_again_gives_the_recorded_value(solve):
    pytest.importorskip("PEPit", reason="PEPit is not installed")
    oracle = runpy.run_path(str(ROOT / "experiments/pepit_oracle.py"))
    given = {key: value for key, value in solve.items() if key != "worst"}
    assert_allclose(oracle["worst"](**given), solve["worst"], rtol=RTOL)
