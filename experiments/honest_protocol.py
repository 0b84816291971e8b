"""Two protocols, one question: does leaving out steps at random help (SkipUpdate and Magma, arXiv 2602.15322)?

The coarse one: one problem, five seeds, four learning rates, each optimizer at the one that is best on these seeds, the
ratio of the medians of the final loss. The honest one is `quadsim.compare`: problems redrawn, learning rates tuned
on 60 seeds and compared on 60 others. Cases 3 and 4, batch 3 of 9, 500 steps.

python experiments/honest_protocol.py [folder] writes honest-protocol (PNG, SVG, CSV, JSON, MD) to figures/.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots, results

COMMAND = "python experiments/honest_protocol.py"
GRIDS = {"decades": (1e-3, 1e-2, 1e-1, 1.0), "half decades": (3e-3, 1e-2, 3e-2, 1e-1)}
BASES = {"RMSProp": {"beta1": 0.0, "beta2": 0.999}, "Adam": {"beta1": 0.9, "beta2": 0.999}}
MASKED = {"SkipUpdate": qs.SkipUpdate, "Magma": qs.Magma}
REPETITIONS, SEEDS, STEPS = 200, 5, 500
CONFIRM, TUNING = range(60), range(60, 120)
BATCH = qs.Noise(batch=3)


def optimizers(base):
    """The base, and the base with either mask."""
    settings = BASES[base]
    masked = {name: kind(**settings) for name, kind in MASKED.items()}
    return {base: qs.SkipUpdate(keep=1.0, **settings), **masked}


def coarse(number, base, schedule):
    """What each repetition of the coarse protocol would announce: the gain over the base, in decades."""
    lrs = sorted({lr for grid in GRIDS.values() for lr in grid})
    losses = {}
    for name, optimizer in optimizers(base).items():
        runs = qs.solve_draws(
            lambda seed: qs.case(number, seed=10_000 + seed // SEEDS),  # five seeds of one problem
            [replace(optimizer, lr=lr) for lr in lrs],
            range(10_000, 10_000 + REPETITIONS * SEEDS),
            max_steps=STEPS,
            tol=0,
            record=STEPS,
            noise=BATCH,
            schedule=schedule,
        )
        ends = [np.inf if run.status == "diverged" else run.loss[-1] for run in runs]
        losses[name] = np.median(np.reshape(ends, (REPETITIONS, SEEDS, len(lrs))), axis=1)  # (repetitions, lrs)
    rows = []
    for grid, values in GRIDS.items():
        best = {name: table[:, [lrs.index(lr) for lr in values]].min(axis=1) for name, table in losses.items()}
        for name in MASKED:
            gains = np.log10(best[base] / best[name])
            rows += [
                {"grid": grid, "masked": name, "repetition": k, "gain": gain} for k, gain in enumerate(gains.round(4))
            ]
    return pd.DataFrame(rows)


def honest(number, base, schedule):
    """What the honest protocol says."""
    made = qs.compare(
        lambda seed: qs.case(number, seed=seed), optimizers(base), seeds=CONFIRM, tuning_seeds=TUNING, steps=STEPS,
        noise=BATCH, schedule=schedule,
    )  # fmt: skip
    return made.summary[1:].rename(columns={"optimizer": "masked"})


def measured():
    """Both protocols on every setting."""
    repetitions, verdicts = [], []
    for number in (4, 3):
        for base in BASES:
            for schedule in ("constant", "cosine"):
                where = {"case": number, "base": base, "schedule": schedule}
                repetitions.append(coarse(number, base, schedule).assign(**where))
                verdicts.append(honest(number, base, schedule).assign(**where))
                print(*where.values(), "done", file=sys.stderr, flush=True)
    return pd.concat(repetitions, ignore_index=True), pd.concat(verdicts, ignore_index=True)


def side_by_side(repetitions, verdicts):
    """One row for each setting and grid: how often the coarse protocol announces what, and what the honest one says."""
    keys = ["case", "base", "schedule", "masked"]
    gains = repetitions.groupby([*keys, "grid"], sort=False)["gain"]
    told = pd.DataFrame(
        {
            "coarse_gain": gains.median(),
            "wins_1.5x": gains.apply(lambda gain: (gain >= np.log10(1.5)).mean()),
            "wins_2x": gains.apply(lambda gain: (gain >= np.log10(2)).mean()),
            "losses_2x": gains.apply(lambda gain: (gain <= -np.log10(2)).mean()),
        }
    ).reset_index()
    columns = [*keys, "verdict", "difference", "low", "high", "wins", "lr", "edge", "diverged"]
    return told.merge(verdicts[columns], on=keys)


def document(table):
    """The table in words."""
    lines = [
        "| problem | base, lr | mask | four lr | coarse: 2× win | 2× loss | honest: loss ÷ the base's | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in table.itertuples():
        ratio = f"{10**row.difference:.2g} ({10**row.low:.2g}–{10**row.high:.2g})"
        lines.append(
            f"| Case {row.case} | {row.base}, {row.schedule} | {row.masked} | {row.grid} | {row.wins_2x:.0%} "
            f"| {row.losses_2x:.0%} | {ratio} | {row.verdict} |"
        )
    return "\n".join(lines) + "\n"


def shown(table, repetitions, verdicts):
    """For each case, base and mask the schedule and grid with which the coarse protocol announces most wins."""
    top = table.sort_values("wins_2x", ascending=False, kind="stable").groupby(["case", "base", "masked"]).head(1)
    top = top.sort_values(["masked", "case", "base"], ascending=[False, False, False])
    clouds, bars = [], []
    for row in top.itertuples():
        name = f"Case {row.case}: {row.masked} on {row.base},\n{row.schedule} lr, {row.grid}"
        same = {"case": row.case, "base": row.base, "schedule": row.schedule, "masked": row.masked}
        cloud = repetitions[repetitions["grid"] == row.grid]
        for key, value in same.items():
            cloud = cloud[cloud[key] == value]
        clouds.append(cloud.assign(setting=name))
        bar = verdicts[np.logical_and.reduce([verdicts[key] == value for key, value in same.items()])]
        bars.append(bar.assign(setting=name))
    return pd.concat(clouds), pd.concat(bars)


def main(folder):
    repetitions, verdicts = measured()
    table = side_by_side(repetitions, verdicts)
    clouds, bars = shown(table, repetitions, verdicts)
    better = int((verdicts["verdict"] == "better").sum())
    share = table.groupby("masked")["wins_2x"].max()
    figure = plots.protocols(
        clouds,
        bars,
        title=f"Five seeds and four learning rates announce a 2× win in up to {share['SkipUpdate']:.0%} (SkipUpdate) "
        f"and {share['Magma']:.0%} (Magma) of repetitions; the honest protocol finds a win in {better or 'none'} of "
        f"{len(verdicts)} settings",
        caption=f"{COMMAND}. Dots: {REPETITIONS} repetitions of the coarse protocol (medians of five seeds on one "
        "problem, best of four learning rates chosen on them), orange where it would announce a win of 2× or more; "
        "blue: the honest protocol, median of paired differences with its 95% interval, and its verdict. Cases 3, 4, "
        "batch 3 of 9, 500 steps. Of each problem, base and mask the schedule and grid with most wins is shown; all "
        "are in the table.",
    )
    settings = {"command": COMMAND, "versions": results.versions()}
    tables = {"": table, "-repetitions": repetitions}
    for path in results.write(folder, "honest-protocol", figure, tables, settings, {".md": document(table)}):
        print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "figures"))
