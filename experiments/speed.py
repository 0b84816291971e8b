"""How fast: quadsim beside plain numpy loops, measured in one run, as ratios.

    python experiments/speed.py

The numpy loops are what one writes in a notebook: dense H for nine dimensions, stacked blocks for larger ones (each the
quicker of the two there), with the gradient norm kept at every step. Numpy runs on one thread, and quadsim too unless
the row says otherwise. Each figure is the best of several rounds, taken in turns, so that a busy machine disturbs
both sides alike.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import time

import numpy as np

import quadsim as qs

ROUNDS = 9


def numpy_gd(product, w, steps, lr=1e-9):
    norms = []
    for _ in range(steps):
        g = product(w)
        norms.append(np.sqrt(g @ g))
        w = w - lr * g
    return norms


def numpy_adam(product, w, steps, lr=1e-3, beta1=0.9, beta2=0.99, eps=1e-8):
    norms, m, v = [], np.zeros_like(w), np.zeros_like(w)
    for t in range(1, steps + 1):
        g = product(w)
        norms.append(np.sqrt(g @ g))
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        w = w - lr * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps)
    return norms


def products(problem):
    """H @ w, dense and by stacked blocks of one size."""
    dense, stacked = problem.hessian(), np.stack(problem.blocks)
    count = len(stacked)
    return [lambda w: dense @ w, lambda w: (stacked @ w.reshape(count, -1, 1)).ravel()]


def microseconds(run, steps):
    began = time.perf_counter()
    run()
    return 1e6 * (time.perf_counter() - began) / steps


def compare(problem, optimizer, loop, lanes, steps, threads=1):
    """Microseconds per step and run: (quadsim, numpy)."""
    loop_steps = max(steps // 50, 200)
    how = {"tol": 0, "max_steps": steps, "threads": threads}
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(microseconds(lambda: qs.solve_lanes(problem, [optimizer] * lanes, **how), steps) / lanes)
        for product in products(problem):
            theirs.append(microseconds(lambda p=product: loop(p, problem.start(0), loop_steps), loop_steps))
    return min(ours), min(theirs)


def main():
    case_3 = qs.case(3)
    four_of_30 = qs.BlockQuadratic.from_spectra([np.geomspace(1, 5000, 120)[b::4] for b in range(4)])
    gd, adam = qs.GD(lr=1e-9), qs.Adam(beta2=0.99)
    rows = [
        ("Case 3 (3 blocks of 3), one run, GD", case_3, gd, numpy_gd, 1, 200_000),
        ("Case 3 (3 blocks of 3), one run, Adam", case_3, adam, numpy_adam, 1, 100_000),
        ("Case 3 (3 blocks of 3), 64 lanes, Adam", case_3, adam, numpy_adam, 64, 20_000),
        ("4 blocks of 30, 64 lanes, GD", four_of_30, gd, numpy_gd, 64, 40_000),
        ("4 blocks of 30, 64 lanes, GD, all cores", four_of_30, gd, numpy_gd, 64, 40_000, None),
        ("4 blocks of 30, 64 lanes, Adam", four_of_30, adam, numpy_adam, 64, 20_000),
        ("4 blocks of 30, 64 lanes, Adam, all cores", four_of_30, adam, numpy_adam, 64, 20_000, None),
    ]
    print("| microseconds per step and run | quadsim | numpy loop | ratio |\n|---|---|---|---|")
    for title, *setting in rows:
        ours, theirs = compare(*setting)
        print(f"| {title} | {ours:.3f} | {theirs:.1f} | {theirs / ours:.1f}× |", flush=True)


if __name__ == "__main__":
    main()
