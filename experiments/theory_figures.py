"""Theory beside what happens, in three figures: losses under their bounds, κ_eff against κ, the floor of Adam.

Run it alone: python experiments/theory_figures.py [folder]. It writes theory-bounds, theory-kappa-eff and theory-floor
(PNG, SVG, CSV, JSON) to figures/, or to the folder.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots, results, theory

COMMAND = "python experiments/theory_figures.py"


def bounds(number=3, seeds=range(8)):
    """Losses of eight starts, step by step, with what theory says of all starts."""
    rows = []
    problem = qs.case(number, seed=0)
    for optimizer, steps in (
        (qs.GD(), 20_000), (qs.HeavyBall(), 700), (qs.Nesterov(lr=1 / problem.lipschitz), 1000), (qs.FrozenAdam(), 24),
    ):  # fmt: skip
        for seed in seeds:
            w0 = None if optimizer.name != "frozen-adam" else problem.start(0)  # its bound is that of one start
            if w0 is not None and seed != seeds[0]:
                continue
            how = {"seed": seed} if w0 is None else {"w0": w0}
            run = qs.solve(problem, optimizer, tol=0, max_steps=steps, record=max(1, steps // 200), **how)
            bound = theory.bound(problem, optimizer, run.steps, w0)
            rate = theory.rate(problem, optimizer, w0) ** run.steps
            columns = {"step": run.steps, "loss": run.loss / run.loss[0], "bound": bound, "rate": rate}
            rows.append(pd.DataFrame({"optimizer": optimizer.name, "label": optimizer.label, "seed": seed, **columns}))
    return pd.concat(rows, ignore_index=True)


def kappa_effs(draws=200):
    """Quartiles of κ_eff over draws, in Cases 3 and 4 at condition numbers from 100 to 10⁸."""
    rows = []
    for number in (3, 4):
        for kappa in np.geomspace(100, 1e8, 25):
            values = [
                theory.kappa_eff(problem := qs.case(number, seed=seed, kappa=kappa), problem.start(seed))
                for seed in range(draws)
            ]
            lower, median, upper = np.quantile(values, (0.25, 0.5, 0.75))
            rows.append({"problem": f"Case {number}", "kappa": kappa, "lower": lower, "median": median, "upper": upper})
    return pd.DataFrame(rows)


def floors(draws=10):
    """Time averages of the loss over the second half of a run, from a start within a few lr of the minimum."""
    rows = []
    for name, number in (("Case 3", 3), ("Case 4", 4), ("frustrated block", None)):
        for seed in range(draws):
            problem = frustrated() if number is None else qs.case(number, seed=seed)
            value, trace = theory.sdp_value(problem).value, float(np.trace(problem.hessian()))
            settings = [(lr, 0.99) for lr in np.geomspace(1e-4, 1, 9)] + [(0.01, b) for b in (0.3, 0.5, 0.7, 0.9, 0.97)]
            w0 = problem.start(seed)
            lanes = qs.solve_lanes(
                problem,
                [qs.Adam(lr=lr, beta1=0.0, beta2=beta2, eps=0.0) for lr, beta2 in settings],
                w0=[2 * lr * w0 for lr, _ in settings],
                tol=0,
                max_steps=36_000,
                record=9,
            )
            for (lr, beta2), run in zip(settings, lanes, strict=True):
                floor = run.loss[run.steps > 18_000].mean()
                shares = {"floor": floor, "law": lr**2 * value / 8, "trace": lr**2 * trace / 8}
                rows.append(
                    {"problem": name, "seed": seed, "lr": lr, "beta2": beta2, "status": str(run.status), **shares}
                )
    return pd.DataFrame(rows)


def frustrated(a=0.3):
    """Three coordinates, each of which would like to have the other sign of both others (ledger 5g-frustrated)."""
    return qs.BlockQuadratic.from_blocks([(1 + a) * np.eye(3) - a])


def main(folder):
    curves, quartiles, measured = bounds(), kappa_effs(), floors()
    last = quartiles[quartiles["kappa"] == quartiles["kappa"].max()].set_index("problem")["median"]
    case_4 = measured[(measured["problem"] == "Case 4") & (measured["beta2"] == 0.99)]
    figures = {
        "bounds": (
            curves,
            plots.bounds(
                curves,
                title="Case 3: every run stays below its bound, and falls at its exact rate",
                caption=f"{COMMAND}. Gaussian starts. Bounds hold for every start, frozen Adam's for the one shown.",
            ),
        ),
        "kappa-eff": (
            quartiles,
            plots.kappa_eff(
                quartiles,
                title=f"Frozen Adam does not see κ in Case 3 (κ_eff {last['Case 3']:.0f} at every κ); in Case 4 it "
                f"sees {last['Case 4'] / quartiles['kappa'].max():.1f} κ",
                caption=f"{COMMAND}. Medians and quartiles over 200 draws of bases and starts.",
            ),
        ),
        "floor": (
            measured,
            plots.floors(
                measured,
                title="Adam with β2 < 1 ends at lr²·SDP(H)/8: in Case 4 "
                f"{(case_4['floor'] / case_4['trace']).median():.2g} times as high as lr²·tr(H)/8",
                caption=f"{COMMAND}. β1 = 0, ε = 0; ten draws; time averages over 18,000 steps; shaded: all draws. "
                "Frustrated block: H = 1.3·I − 0.3·11ᵀ.",
            ),
        ),
    }
    for name, (table, figure) in figures.items():
        made = {"command": COMMAND, "versions": results.versions()}
        for path in results.write(folder, f"theory-{name}", figure, {"": table}, made):
            print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "figures"))
