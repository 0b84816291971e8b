"""Two sweeps: steps against the condition number, and against the heterogeneity of the blocks.

GD's steps grow like κ whatever the arrangement of the eigenvalues. Heavy ball's grow like √κ, with the transient of
ledger 4a. Those of frozen Adam do not grow at all in Case 3, whose blocks are only rescaled with κ (ledger 2f), and
like κ in Case 4. Then the eigenvalues stay the same, and heterogeneity moves them between blocks, from Case 4 to Case
3: three blocks of 30, which have 51 distinct arrangements, where blocks of three have five.

    python experiments/sweeps.py

takes two to four minutes, writes figures/sweep-kappa.* and figures/sweep-heterogeneity.*, and exits with 1 if one of
the numbers differs from its expected value.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from quadsim import spectra
from quadsim.cli import main as cli
from quadsim.engine import table

FIGURES = Path("figures")  # in the working folder
KAPPA = ["case=3,4", "kappa=10:1e6:log25", "optimizers=gd,frozen-adam,heavy-ball", "seed=0..29"]
HETEROGENEITY = ["case=3", "block_size=30", "heterogeneity=0:1:lin21", "optimizers=gd,frozen-adam", "seed=0..99"]
SLOPES = {  # (optimizer, case): slope of log steps in log κ, and its tolerance
    ("gd", 3): (1.0, 0.02),
    ("gd", 4): (1.0, 0.02),
    ("heavy-ball", 3): (0.53, 0.04),
    ("heavy-ball", 4): (0.53, 0.04),
    ("frozen-adam", 3): (0.0, 0.02),
    ("frozen-adam", 4): (1.0, 0.15),
}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        for name, keys in (("sweep-kappa", KAPPA), ("sweep-heterogeneity", HETEROGENEITY)):
            store = Path(folder) / f"{name}.db"
            if cli.main(["sweep", *keys, f"store={store}"]) or cli.main(["plot", str(store), f"out={FIGURES}"]):
                return 1
    wrong = check_slopes(table.read_csv(FIGURES / "sweep-kappa-slopes.csv"))
    wrong += check_heterogeneity(table.read_csv(FIGURES / "sweep-heterogeneity.csv"))
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


def check_slopes(slopes: pd.DataFrame) -> list[str]:
    """Messages on slopes out of tolerance."""
    wrong = []
    measured = slopes.set_index(["optimizer", "case"])["slope"]
    for which, (expected, off) in SLOPES.items():
        if not abs(measured[which] - expected) <= off:
            wrong.append(f"{which[0]} in Case {which[1]}: slope {measured[which]:.3f}, expected {expected} ± {off}")
    return wrong


def check_heterogeneity(medians: pd.DataFrame) -> list[str]:
    """Messages on the steps against heterogeneity.

    GD's must be flat, frozen Adam's must fall by a factor of more than 100, and all points must be distinct
    arrangements.
    """
    wrong = []
    every = spectra.arrangements(range(1, 91), 3)
    for name, line in medians.groupby("optimizer"):
        drawn = [every.index(share) for share in line["heterogeneity"]]
        if len(set(drawn)) < len(drawn):
            wrong.append(f"{name} has {len(drawn)} points but {len(set(drawn))} arrangements")
    gd, adam = (medians[medians["optimizer"] == name].sort_values("heterogeneity") for name in ("gd", "frozen-adam"))
    # standard error of a median of n draws: about 1.25 σ/√n, with σ = 0.74 times the interquartile range
    error = 1.25 / np.sqrt(gd["draws"]) * 0.74 * (gd["upper"] - gd["lower"])
    if (abs(gd["median"] - gd["median"].mean()) > 3 * error).any():
        wrong.append(f"GD is not flat: from {gd['median'].min():,.0f} to {gd['median'].max():,.0f} steps")
    fall = adam["median"].iloc[0] / adam["median"].iloc[-1]
    if not fall > 100:
        wrong.append(f"frozen Adam falls by {fall:.0f} only")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
