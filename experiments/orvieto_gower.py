"""Figure 6 of Orvieto & Gower, "In Search of Adam's Secret Sauce" (arXiv 2505.21829): SGD, Signum and Adam by batches.

Cases 3 and 4, 3 of 9 rows at a time, 500 steps from w = 1, β1 = β2 = 0.95 without bias correction, warm-up and then a
cosine to 0. Their text has X = H^½ and a warm-up of 10 %, their code X = √Λ·Uᵀ and 5 %: all four are run, at the
learning rates that they list, and at tuned ones.

python experiments/orvieto_gower.py [folder] writes orvieto-gower (PNG, SVG, CSV, JSON, MD) to figures/.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots, results
from quadsim.verbs import verdicts

COMMAND = "python experiments/orvieto_gower.py"
OPTIMIZERS = {  # SGD's momentum is a moving average, as Adam's
    "sgd": qs.SGD(momentum=0.95, dampening=0.95),
    "signum": qs.Signum(beta=0.95),
    "adam": qs.Adam(beta1=0.95, beta2=0.95, bias_correction=False),
}
LISTED = {"sgd": (3e-5, 1e-4, 3e-4), "signum": (0.003, 0.01, 0.03), "adam": (0.003, 0.01, 0.03)}
EARLIER = {3: {"sgd": 2.3, "signum": 0.0069, "adam": 0.00022}, 4: {"sgd": 2.05, "signum": 1.9, "adam": 1.3}}
DRAWS, SEEDS, STEPS = 20, 10, 500


def conditions(factor, warmup):
    noise = qs.Noise(batch=3, factor=factor)
    return {"noise": noise, "schedule": qs.Schedule("cosine", warmup=warmup), "start": "ones", "steps": STEPS}


def listed(number, factor, warmup):
    """Their protocol: the best listed learning rate by the median over 20 problems and 10 seeds of each."""
    how = conditions(factor, warmup)
    how["max_steps"] = how.pop("steps")
    rows = []
    for name, optimizer in OPTIMIZERS.items():
        runs = qs.solve_draws(
            lambda seed: qs.case(number, seed=seed // SEEDS), [replace(optimizer, lr=lr) for lr in LISTED[name]],
            range(DRAWS * SEEDS), tol=0, record=STEPS, **how,
        )  # fmt: skip
        ends = [np.inf if run.status == "diverged" else run.loss[-1] for run in runs]
        losses = np.reshape(ends, (DRAWS * SEEDS, -1))  # (runs, lrs)
        best = int(np.argmin(np.median(losses, axis=0)))
        lower, median, upper = np.quantile(losses[:, best], (0.25, 0.5, 0.75))
        edge = {0: "lowest", len(LISTED[name]) - 1: "highest"}.get(best)
        rows.append({"optimizer": name, "lr": LISTED[name][best], "edge": edge, "lower": lower, "median": median,
                     "upper": upper, "earlier": EARLIER[number][name]})  # fmt: skip
    return pd.DataFrame(rows)


def tuned(number, factor, warmup, grids=None):
    """The same question to `compare`: every seed a problem of its own, tuned on 60 seeds, confirmed on 60 others."""
    return qs.compare(
        lambda seed: qs.case(number, seed=seed), OPTIMIZERS, seeds=range(60), grids=grids, **conditions(factor, warmup)
    )


def document(table):
    lines = [
        "| problem | X | warm-up | | best listed lr | median (quartiles) | before | tuned lr | median | beside SGD |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in table.itertuples():
        who = f"| Case {row.case} | {row.factor} | {row.warmup:.0%} | {OPTIMIZERS[row.optimizer].label} "
        lines.append(
            f"{who}| {row.lr:g}{f', {row.edge}' if isinstance(row.edge, str) else ''} "
            f"| {row.median:.2g} ({row.lower:.2g}–{row.upper:.2g}) | {row.earlier:g} | {row.tuned_lr:.2g} "
            f"| {row.tuned_median:.2g} | {row.verdict} |"
        )
    return "\n".join(lines) + "\n"


def main(folder):
    parts, drawn = [], []
    for number in (3, 4):
        for factor in ("root", "rotated"):
            for warmup in (0.05, 0.1):
                mine = listed(number, factor, warmup).assign(case=number, factor=factor, warmup=warmup)
                made = tuned(number, factor, warmup).summary.set_index("optimizer")
                columns = {"tuned_lr": made["lr"], "tuned_median": made["median"], "verdict": made["verdict"]}
                parts.append(mine.merge(pd.DataFrame(columns).reset_index(), on="optimizer"))
        drawn.append(tuned(number, "rotated", 0.05, grids={name: list(lrs) for name, lrs in LISTED.items()}))
    table = pd.concat(parts, ignore_index=True)
    frames = [pd.concat([getattr(one, name) for one in drawn]) for name in ("summary", "bands", "tried", "runs")]
    figure = plots.comparison(
        *frames,
        objective="final-loss",
        titles={one.problem: verdicts.finding(one) for one in drawn},
        caption=f"{COMMAND}. Setting of arXiv 2505.21829, figure 6, as in their code (X = √Λ·Uᵀ, warm-up 5 %), with "
        f"the learning rates listed there: medians and quartiles of 60 draws, chosen on 60 others; {verdicts.NOTE}.",
    )
    settings = {"command": COMMAND, "versions": results.versions()}
    tables = {"": table, "-runs": frames[3]}
    for path in results.write(folder, "orvieto-gower", figure, tables, settings, {".md": document(table)}):
        print(f"wrote {path}")
    print(document(table))
    ratios = table["median"] / table["earlier"]
    print(f"beside what was measured before: {ratios.min():.2f} to {ratios.max():.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "figures"))
