"""Steps to a relative gradient norm of 1e-6 in Cases 3 and 4: median and quartiles over 200 seeds.

    python experiments/case_medians.py

Writes figures/case-medians.csv.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import _artifacts

SEEDS = range(200)
OPTIMIZERS = (qs.GD(), qs.FrozenAdam(), qs.BlockGD())


def table():
    rows = []
    for number in (3, 4):
        runs = qs.solve(
            lambda seed: qs.case(number, seed=seed),  # noqa: B023
            OPTIMIZERS,
            seed=SEEDS,
            max_steps=10_000_000,
            engine="compiled",
        )
        steps = np.reshape([run.steps_to_tol for run in runs], (len(SEEDS), -1))
        quartiles = np.quantile(steps, [0.25, 0.5, 0.75], axis=0).T.tolist()
        rows += [
            {"case": number, "optimizer": optimizer.name, "seeds": len(SEEDS), "lower": low, "median": mid, "upper": up}
            for optimizer, (low, mid, up) in zip(OPTIMIZERS, quartiles, strict=True)
        ]
    return pd.DataFrame(rows)


if __name__ == "__main__":
    frame = table()
    _artifacts.write_text(Path("figures/case-medians.csv"), frame.to_csv(index=False))
    print(frame.to_string(index=False))
