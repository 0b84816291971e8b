"""Worst cases by performance estimation: the largest loss[steps]/loss[0] over all quadratics with spectrum in [μ, L].

    pip install PEPit==0.5.1
    python experiments/pepit_oracle.py

PEPit is given only the steps of a method and finds the worst quadratic and start by semidefinite programming, so it is
independent of the formulas that tests/theory/test_pepit.py compares with the output of this script, tests/pepit.json.
It does not apply to Adam: updates of single coordinates cannot be expressed by inner products.
"""

import json
import platform
import sys
import warnings
from importlib.metadata import version
from math import sqrt
from pathlib import Path

try:
    from PEPit import PEP
    from PEPit.functions import SmoothStronglyConvexQuadraticFunction
    from PEPit.primitive_steps import exact_linesearch_step
except ModuleNotFoundError as error:
    if error.name != "PEPit":
        raise
    sys.exit("This script needs PEPit: pip install PEPit==0.5.1")

RECORD = Path(__file__).parent.parent / "tests/pepit.json"
# PEPit's default, SCS, is up to 1.2e-4 off at μ = 0.02. Clarabel is within 1.3e-5 at this tolerance; at its default
# (1e-8) it warns that three of the solves below may be inaccurate.
SOLVER = {"solver": "CLARABEL", "tol_gap_abs": 3e-7, "tol_gap_rel": 3e-7, "tol_feas": 3e-7}


def worst(method, mu, L, lr, momentum, steps):
    """The largest loss[steps]/loss[0]: the loss after the steps, from a start whose loss is at most 1."""
    problem = PEP()
    loss = problem.declare_function(SmoothStronglyConvexQuadraticFunction, mu=mu, L=L)
    least = loss(loss.stationary_point())
    start = problem.set_initial_point()
    problem.set_initial_condition(loss(start) - least <= 1)
    problem.set_performance_metric(loss(METHODS[method](loss, start, lr, momentum, steps)) - least)
    return float(problem.solve(verbose=0, **SOLVER))


def heavy_ball(loss, w, lr, momentum, steps):
    before = w
    for _ in range(steps):
        w, before = w - lr * loss.gradient(w) + momentum * (w - before), w
    return w


def nesterov(loss, w, lr, momentum, steps):
    ahead = w
    for _ in range(steps):
        before, w = w, ahead - lr * loss.gradient(ahead)
        ahead = w + momentum * (w - before)
    return w


def line_search(loss, w, lr, momentum, steps):
    """The best lr at every step; lr and momentum are ignored."""
    for _ in range(steps):
        w, _, _ = exact_linesearch_step(w, loss, [loss.gradient(w)])
    return w


# GD is heavy ball with momentum 0.
METHODS = {"gd": heavy_ball, "heavy-ball": heavy_ball, "nesterov": nesterov, "line-search": line_search}


def settings():
    """(method, μ, L, lr, momentum, steps) of every solve; comments name the claims of the ledger."""
    L = 1.0
    for mu in (0.1, 0.02):
        root, root3 = sqrt(L / mu), sqrt(3 * L / mu + 1)
        tuned = [
            ("gd", 2 / (mu + L), 0.0, (1, 2, 3)),  # 1a
            ("heavy-ball", 4 / (sqrt(L) + sqrt(mu)) ** 2, ((root - 1) / (root + 1)) ** 2, (1, 2, 3, 4)),  # 4a
            ("nesterov", 1 / L, (root - 1) / (root + 1), (1, 2, 3, 4)),  # 4c
            ("nesterov", 4 / (3 * L + mu), (root3 - 2) / (root3 + 2), (1, 2, 3, 4)),  # 4c, the best on quadratics
            ("line-search", None, None, (1, 2)),  # 1b
        ]
        for method, lr, momentum, counts in tuned:
            yield from ((method, mu, L, lr, momentum, steps) for steps in counts)
    yield from (("gd", 0.1, L, lr, 0.0, 1) for lr in (0.5, 1.0, 1.9))  # 1a, any lr
    yield from (("heavy-ball", 0.1, L, 2.0, 0.5, steps) for steps in (2, 3, 4))  # the worst mode lies inside (μ, L)


def main():
    warnings.filterwarnings("error", "Solution may be inaccurate")  # do not record such a number
    made = {
        "command": "python experiments/pepit_oracle.py",
        **SOLVER,
        "python": platform.python_version(),
        **{name: version(name) for name in ("PEPit", "cvxpy", "clarabel", "numpy")},
    }
    solves = []
    for given in settings():
        names = ("method", "mu", "L", "lr", "momentum", "steps")
        solves.append(json.dumps({**dict(zip(names, given, strict=True)), "worst": worst(*given)}))
        print(solves[-1])
    lines = ",\n".join(solves)  # one solve per line, for readable diffs
    RECORD.write_text(f'{{"made": {json.dumps(made)},\n"solves": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
