"""The cost of a user-defined rule: Adam as a rule and Adam in a hand-written fused loop, 64 lanes, one thread.

    python experiments/rule_overhead.py

The hand-written loop is optimized numba: lanes are columns, the product is np.dot (BLAS) or plain loops over rows,
whichever is faster, and Adam's update is fused over the lanes. quadsim also computes the loss and the gradient norm of
every lane at every step and checks for convergence and divergence, so the loop is timed with and without loss and norm.
Rounds alternate, CPU time is measured, the time of a run of no steps is subtracted, and the minimum over rounds is
reported. Writes figures/rule-overhead.csv.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import time
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from numba import njit

import quadsim as qs
from quadsim import _artifacts

LANES, ROUNDS = 64, 15


def main():
    rows = []
    for count, size, steps in ((3, 3, 20_000), (4, 30, 2_000)):
        problem = qs.BlockQuadratic.from_spectra([np.geomspace(1, 5000, count * size)[b::count] for b in range(count)])
        best = measured(problem, steps)
        loops = {norms: min(best[True, norms], best[False, norms]) for norms in (True, False)}
        times = {
            "rule": best["rule"],
            "built_in": best["built-in"],
            "loop_with_norms": loops[True],
            "loop": loops[False],
        }
        rows.append(
            {"blocks": count, "block_size": size, "lanes": LANES} | {key: round(t, 5) for key, t in times.items()}
        )
        print(rows[-1], flush=True)
    _artifacts.write_text(Path("figures/rule-overhead.csv"), pd.DataFrame(rows).to_csv(index=False))


def measured(problem, steps):
    """Microseconds per step and run of each candidate."""
    blocks = np.stack(problem.blocks)
    start = np.repeat(problem.start(0)[:, None], LANES, axis=1)

    def solve(optimizer, steps):
        qs.solve(problem, [optimizer] * LANES, tol=0, max_steps=steps, threads=1, record=max(steps, 1))

    def by_hand(dot, norms, steps):
        fused(blocks, start.copy(), steps, 1e-9, 0.9, 0.99, 1e-8, dot, norms)

    candidates = {
        "rule": partial(solve, adam_rule(lr=1e-9)),
        "built-in": partial(solve, qs.Adam(lr=1e-9, beta2=0.99)),
        **{key: partial(by_hand, *key) for key in product((True, False), repeat=2)},  # dot, norms
    }
    best = dict.fromkeys(candidates, (np.inf, np.inf))
    for _ in range(ROUNDS):
        for name, run in candidates.items():
            best[name] = tuple(np.minimum(best[name], (seconds(run, 0), seconds(run, steps))))
    return {name: 1e6 * (total - setup) / steps / LANES for name, (setup, total) in best.items()}


def seconds(run, steps):
    start = time.process_time()
    run(steps)
    return time.process_time() - start


def bias_correction(weight1, weight2, beta1=0.9, beta2=0.99):
    weight1 = beta1 * weight1 + (1 - beta1)
    weight2 = beta2 * weight2 + (1 - beta2)
    return weight1, weight2, 1 / weight1, 1 / np.sqrt(weight2)


@qs.rule(state="m v", once_per_step=bias_correction, shared_state="weight1 weight2 unbias1 unbias2")
def adam_rule(g, m, v, unbias1, unbias2, lr=1e-3, beta1=0.9, beta2=0.99, eps=1e-8):
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    return lr * (m * unbias1) / (np.sqrt(v) * unbias2 + eps), m, v


@njit(error_model="numpy")
def add_norms(w, g, low, high, loss, norm):
    for row in range(low, high):
        for k in range(w.shape[1]):
            loss[k] += 0.5 * w[row, k] * g[row, k]
            norm[k] += g[row, k] * g[row, k]


@njit(error_model="numpy")
def update(w, g, m, v, row, lr, beta1, beta2, eps, unbias1, unbias2):
    for k in range(w.shape[1]):
        m[row, k] = beta1 * m[row, k] + (1 - beta1) * g[row, k]
        v[row, k] = beta2 * v[row, k] + (1 - beta2) * g[row, k] * g[row, k]
        w[row, k] -= lr * (m[row, k] * unbias1) / (np.sqrt(v[row, k]) * unbias2 + eps)


@njit(error_model="numpy")
def fused(blocks, w, steps, lr, beta1, beta2, eps, dot, norms):
    n, g, m, v = blocks.shape[1], np.zeros_like(w), np.zeros_like(w), np.zeros_like(w)
    weight1, weight2, loss, norm = 0.0, 0.0, np.zeros(w.shape[1]), np.zeros(w.shape[1])
    for _ in range(steps):
        loss[:] = 0.0
        norm[:] = 0.0
        weight1, weight2 = beta1 * weight1 + (1 - beta1), beta2 * weight2 + (1 - beta2)
        for b in range(blocks.shape[0]):
            low, high = b * n, (b + 1) * n
            if dot:
                np.dot(blocks[b], w[low:high], g[low:high])
            else:
                for i in range(n):
                    for k in range(w.shape[1]):
                        g[low + i, k] = 0.0
                    for j in range(n):
                        entry = blocks[b, i, j]
                        for k in range(w.shape[1]):
                            g[low + i, k] += entry * w[low + j, k]
            if norms:
                add_norms(w, g, low, high, loss, norm)
            for row in range(low, high):
                update(w, g, m, v, row, lr, beta1, beta2, eps, 1 / weight1, 1 / np.sqrt(weight2))
    return w


if __name__ == "__main__":
    main()
