"""How often the interval of `compare` covers the true median: simulated, and the exact value for continuous laws.

    python experiments/interval_coverage.py

Each row draws that many paired differences 10,000 times from laws whose median is 0: normal; exponential and lognormal
(skewed); Cauchy (heavy tails); normal rounded to whole numbers (ties); normal, but infinite for the fifth of the pairs
in which one of the two runs diverged. The standard error is 0.2 % or less. Writes figures/interval-coverage.csv.

    python experiments/interval_coverage.py tuned

runs the whole protocol on two optimizers that are equal in distribution: Adam with each step doubled or skipped at
random, and the same with the opposite outcomes. Each is tuned separately, so their rates differ by chance. It reports
how often the interval excludes 0, and how often it would without the widening for the choice of the rates, and writes
figures/interval-coverage-tuned.csv. This takes some minutes.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import _artifacts
from quadsim.comparison.statistics import median_interval, order_statistic

COUNTS, LEVEL, REPETITIONS = (6, 7, 8, 10, 15, 30), 0.95, 10_000
LAWS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size) - np.log(2),
    "lognormal": lambda rng, size: np.exp(2 * rng.normal(size=size)) - 1,
    "Cauchy": lambda rng, size: rng.standard_cauchy(size=size),
    "rounded": lambda rng, size: np.rint(rng.normal(size=size)),
    "diverging": lambda rng, size: np.where(rng.random(size) < 0.2, np.inf, 1) * rng.normal(size=size),
}


def coverage(law, count, level=LEVEL, repetitions=REPETITIONS, seed=0):
    """The share of samples whose interval contains the median, 0."""
    samples = LAWS[law](np.random.default_rng([seed, count, list(LAWS).index(law)]), (repetitions, count))
    intervals = np.array([median_interval(sample, level) for sample in samples])
    return float(((intervals[:, 0] <= 0) & (intervals[:, 1] >= 0)).mean())


def exact(count, level=LEVEL):
    """P(k ≤ Bin(n, ½) ≤ n − k): the coverage under any continuous law."""
    from scipy.stats import binom

    return float(1 - 2 * binom.cdf(order_statistic(count, level) - 1, count, 0.5))


def table():
    """One row for each number of seeds; coverage in shares."""
    rows = []
    for count in COUNTS:
        k = order_statistic(count, LEVEL)
        shares = {law: coverage(law, count) for law in LAWS}
        rows.append({"seeds": count, "lower": k, "upper": count + 1 - k, "exact": round(exact(count), 6), **shares})
    return pd.DataFrame(rows)


def coin(g, random, m, v, lr=0.01, heads=True):
    """Adam whose step is doubled on one side of the coin and skipped on the other."""
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    return 2 * lr * m / (np.sqrt(v) + 1e-8) if (random < 0.5) == heads else 0.0, m, v


def equals(case, count, repetitions=150):
    """The shares of comparisons of equals whose interval excludes 0: that of `compare`, and given the tuned rates."""
    rule = qs.rule(coin, state="m v")
    optimizers = {"heads": rule(heads=True), "tails": rule(heads=False)}
    excluded = []
    for first in range(0, 1000 * repetitions, 1000):
        result = qs.compare(
            lambda seed: qs.case(case, seed=seed),
            optimizers,
            seed=range(first, first + count),
            max_steps=150,
            noise=qs.Noise(batch=3),
        )
        row = result.summary.iloc[1]
        low, high = median_interval(result.runs.loc[result.runs["optimizer"] == "tails", "difference"])
        excluded.append([row["low"] > 0 or row["high"] < 0, low > 0 or high < 0])
    return np.mean(excluded, axis=0)


def tuned_table():
    rows = []
    for case in (3, 4):
        for count in (8, 15, 30):
            widened, fixed = equals(case, count).tolist()
            rows.append({"case": case, "seeds": count, "repetitions": 150, "excludes_0": widened, "rates_fixed": fixed})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    tuned = sys.argv[1:] == ["tuned"]
    frame = tuned_table() if tuned else table()
    name = f"interval-coverage{'-tuned' * tuned}.csv"
    _artifacts.write_text(Path("figures") / name, frame.to_csv(index=False))
    print(frame.to_string(index=False))
