"""Worst cases found by performance estimation, against the formulas for them (ledger 1a, 1b, 4a, 4c, 11).

`python experiments/pepit_oracle.py` wrote pepit.json; with `pip install PEPit==0.5.1` some of it is solved again here.
"""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

ROOT = Path(__file__).parent.parent
SOLVES = json.loads((ROOT / "tests/pepit.json").read_text(encoding="utf-8"))["solves"]
RTOL = 1e-4  # ledger 11; the solver is within 1.3e-5


def gd(mu, L, lr, steps):
    return max((1 - lr * mu) ** 2, (1 - lr * L) ** 2) ** steps


def gd_tuned(mu, L, steps):
    """Also the worst case of exact line search: no lr does better from the slowest start."""
    return ((L - mu) / (L + mu)) ** (2 * steps)


def heavy_ball_tuned(mu, L, steps):
    rho = (np.sqrt(L / mu) - 1) / (np.sqrt(L / mu) + 1)
    return (rho**steps * (1 + (1 + rho) * steps)) ** 2


def nesterov_textbook(mu, L, steps):
    root = np.sqrt(L / mu)
    return ((1 - 1 / root) ** steps * (1 + steps / root)) ** 2


def largest_mode(method, mu, L, lr, momentum, steps):
    """The largest p(λ)² over a grid of [μ, L], where p(λ) is what the steps make of an error of 1 in the mode λ."""
    modes = np.linspace(mu, L, 20_001)
    e = before = np.ones_like(modes)
    for _ in range(steps):
        ahead = e + momentum * (e - before)
        e, before = ahead - lr * modes * (ahead if method == "nesterov" else e), e
    return np.max(e**2)


def formulas(solve):
    """What the worst case is, by every formula that covers this solve, by name."""
    method, mu, L, lr, momentum, steps, _ = solve.values()
    if method == "line-search":
        return {"gd_tuned": gd_tuned(mu, L, steps)}
    found = {"largest_mode": largest_mode(method, mu, L, lr, momentum, steps)}
    root = np.sqrt(L / mu)
    if method == "gd":
        found["gd"] = gd(mu, L, lr, steps)
        if np.isclose(lr, 2 / (mu + L)):
            found["gd_tuned"] = gd_tuned(mu, L, steps)
    tuned = 4 / (np.sqrt(L) + np.sqrt(mu)) ** 2, ((root - 1) / (root + 1)) ** 2
    if method == "heavy-ball" and np.allclose((lr, momentum), tuned):
        found["heavy_ball_tuned"] = heavy_ball_tuned(mu, L, steps)
    if method == "nesterov" and np.allclose((lr, momentum), (1 / L, (root - 1) / (root + 1))):
        found["nesterov_textbook"] = nesterov_textbook(mu, L, steps)
    return found


def read_aloud(solve):
    lr = "best lr" if solve["lr"] is None else f"lr={solve['lr']:.3g}"
    return f"{solve['method']}, {lr}, mu={solve['mu']}, steps={solve['steps']}"


@pytest.mark.parametrize("solve", SOLVES, ids=read_aloud)
def test_the_worst_case_is_the_formula_s(solve):
    for name, value in formulas(solve).items():
        assert_allclose(solve["worst"], value, rtol=RTOL, err_msg=name)


@pytest.mark.parametrize("scale", [0.999, 1.001])
@pytest.mark.parametrize("solve", SOLVES, ids=read_aloud)
def test_a_formula_off_by_a_thousandth_is_refused(solve, scale):
    for value in formulas(solve).values():
        with pytest.raises(AssertionError):
            assert_allclose(solve["worst"], scale * value, rtol=RTOL)


def test_every_formula_was_used():
    """The lines of the record reach each closed form as often as they should, and so do those without one."""
    used = [name for solve in SOLVES for name in formulas(solve)]
    counts = {name: used.count(name) for name in sorted(set(used))}
    assert counts == {"gd": 9, "gd_tuned": 10, "heavy_ball_tuned": 8, "largest_mode": 36, "nesterov_textbook": 8}


@pytest.mark.filterwarnings("ignore:.*invalid escape sequence")  # in PEPit's docstrings, when first compiled
@pytest.mark.parametrize("solve", [solve for solve in SOLVES if solve["steps"] == 2], ids=read_aloud)
def test_solved_again_it_is_what_was_recorded(solve):
    pytest.importorskip("PEPit", reason="PEPit is not installed")
    oracle = runpy.run_path(str(ROOT / "experiments/pepit_oracle.py"))
    given = {key: value for key, value in solve.items() if key != "worst"}
    assert_allclose(oracle["worst"](**given), solve["worst"], rtol=RTOL)
