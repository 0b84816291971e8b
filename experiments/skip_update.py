"""Does leaving out steps at random help (SkipUpdate and Magma, arXiv 2602.15322)? Two protocols, one question.

On Cases 3 and 4 a reproduction with five seeds and four or five learning rates reported 2× wins for the masks; with 30
seeds and finer grids they reversed. Here the coarse protocol is repeated many times: one problem, five seeds, four
learning rates, each optimizer at the one that is best on these seeds, the ratio of the medians of the final loss. The
honest one is `quadsim.compare`: problems redrawn, rates tuned on some seeds and compared on others. Batch 3 of 9, 500
steps.

    python experiments/skip_update.py [fast=true]
"""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import cli, plots
from quadsim.comparison import corrected
from quadsim.reproduction import Check, Reproduction

GRIDS = {"decades": (1e-3, 1e-2, 1e-1, 1.0), "half decades": (3e-3, 1e-2, 3e-2, 1e-1)}
BASES = {"RMSProp": {"beta1": 0.0, "beta2": 0.999}, "Adam": {"beta1": 0.9, "beta2": 0.999}}
MASKED = {"SkipUpdate": qs.SkipUpdate, "Magma": qs.Magma}
SETTINGS = [(case, base, schedule) for case in (4, 3) for base in BASES for schedule in ("constant", "cosine")]
FEW = [(3, "RMSProp", "constant"), (3, "RMSProp", "cosine")]  # where Magma and where SkipUpdate seem to win
SEEDS, STEPS = 5, 500
OFTEN = 0.1  # a win that more than one in ten repetitions announces is there to be reported
BATCH = qs.Noise(batch=3)
KEYS = ["case", "base", "schedule", "masked"]


def measure(fast):
    """Both protocols on every setting: the gains that repetitions of the coarse one announce, and what is in them."""
    settings = [dict(zip(KEYS, setting, strict=False)) for setting in (FEW if fast else SETTINGS)]
    gains = [coarse(*where.values(), 30 if fast else 120).assign(**where) for where in settings]
    made = corrected([honest(*where.values()) for where in settings])  # one family: their verdicts are counted
    verdicts = [
        one.summary[1:].rename(columns={"optimizer": "masked"}).assign(**where)
        for one, where in zip(made, settings, strict=True)
    ]
    gains, verdicts = pd.concat(gains, ignore_index=True), pd.concat(verdicts, ignore_index=True)
    gains = gains[[*KEYS, "grid", "repetition", "gain"]]
    return {"": side_by_side(gains, verdicts), "-repetitions": gains}


def optimizers(base):
    """The base, and the base with either mask."""
    settings = BASES[base]
    masked = {name: kind(**settings) for name, kind in MASKED.items()}
    return {base: qs.SkipUpdate(keep=1.0, **settings), **masked}


def coarse(case, base, schedule, repetitions):
    """What each repetition of the coarse protocol would announce: the gain over the base, in decades."""
    lrs = sorted({lr for grid in GRIDS.values() for lr in grid})
    losses = {}
    for name, optimizer in optimizers(base).items():
        runs = qs.solve_draws(
            lambda seed: qs.case(case, seed=10_000 + seed // SEEDS),  # five seeds of one problem
            [replace(optimizer, lr=lr) for lr in lrs],
            range(10_000, 10_000 + repetitions * SEEDS),
            max_steps=STEPS,
            tol=0,
            record=STEPS,
            noise=BATCH,
            schedule=schedule,
        )
        ends = [run.loss[-1] if run.status not in ("diverged", "underflow") else np.inf for run in runs]
        losses[name] = np.median(np.reshape(ends, (repetitions, SEEDS, len(lrs))), axis=1)  # (repetitions, lrs)
    rows = []
    for grid, values in GRIDS.items():
        best = {name: table[:, [lrs.index(lr) for lr in values]].min(axis=1) for name, table in losses.items()}
        for name in MASKED:
            gain = np.log10(best[base] / best[name]).round(3)
            rows.append(pd.DataFrame({"grid": grid, "masked": name, "repetition": range(repetitions), "gain": gain}))
    return pd.concat(rows)


def honest(case, base, schedule):
    """The honest protocol."""
    return qs.compare(
        lambda seed: qs.case(case, seed=seed), optimizers(base), seeds=range(60), steps=STEPS, noise=BATCH,
        schedule=schedule,
    )  # fmt: skip


def side_by_side(gains, verdicts):
    """One row for each setting and grid: how often the coarse protocol announces what, and what the honest one says."""
    groups = gains.groupby([*KEYS, "grid"], sort=False)["gain"]
    told = pd.DataFrame(
        {
            "coarse_gain": groups.median(),
            "wins_1.5x": groups.apply(lambda gain: (gain >= np.log10(1.5)).mean()),
            "wins_2x": groups.apply(lambda gain: (gain >= np.log10(2)).mean()),
            "losses_2x": groups.apply(lambda gain: (gain <= -np.log10(2)).mean()),
        }
    ).reset_index()
    columns = [*KEYS, "verdict", "difference", "low", "high", "wins", "lr", "edge", "diverged", "seeds"]
    return told.round(4).merge(verdicts[columns], on=KEYS)


def settings(table):
    """One row for each setting, with the grid on which the coarse protocol announces most wins."""
    top = table.sort_values("wins_2x", ascending=False, kind="stable").groupby(KEYS).head(1)
    return top.sort_values([*KEYS, "grid"], ignore_index=True)


def count(verdicts):
    """`0 better, 13 worse, 3 no difference found`."""
    kinds = ("better", "worse", "no difference found")
    return ", ".join(f"{(verdicts == verdict).sum()} {verdict}" for verdict in kinds)


def check(tables):
    told = settings(tables[""])
    share = told.groupby("masked")["wins_2x"].max()
    announced = told[told["wins_2x"] > OFTEN]
    above = announced["difference"]  # decades by which the masked optimizer's loss is higher: the median of pairs
    seeds = int(told["seeds"].iloc[0])
    return [
        Check(
            "five seeds, four learning rates", "2× wins for the masks",
            f"2× wins in up to {share['SkipUpdate']:.0%} (SkipUpdate) and {share['Magma']:.0%} (Magma) of repetitions",
            bool((share > OFTEN).all()),
        ),
        Check(
            "paired seeds, finer grids", "with 30 seeds and finer grids they reverse",
            f"{seeds} seeds, {len(told)} settings: {count(told['verdict'])}",
            not (told["verdict"] == "better").any() and (told["verdict"] == "worse").mean() >= 0.5,
        ),
        Check(
            f"settings with 2× wins in over {OFTEN:.0%}", "they reverse",
            f"{count(announced['verdict'])}; loss {above.min():.2g} to {above.max():.2g} decades above the base's",
            bool(len(announced) and above.min() > 0 and not (announced["verdict"] == "better").any()),
        ),
    ]  # fmt: skip


def draw(tables):
    told = settings(tables[""])
    repetitions = tables["-repetitions"]
    shown = told.sort_values("wins_2x", ascending=False, kind="stable").groupby(["case", "base", "masked"]).head(1)
    shown = shown.sort_values(["masked", "case", "base"], ascending=False)
    shown["setting"] = [
        f"Case {row.case}: {row.masked} on {row.base},\n{row.schedule} lr, {row.grid}" for row in shown.itertuples()
    ]
    clouds = repetitions.merge(shown[[*KEYS, "grid", "setting"]], on=[*KEYS, "grid"])
    share = told.groupby("masked")["wins_2x"].max()
    better = int((told["verdict"] == "better").sum())
    seeds = int(told["seeds"].iloc[0])
    return plots.protocols(
        clouds,
        shown,
        title=f"Five seeds and four learning rates announce a 2× win in up to {share['SkipUpdate']:.0%} (SkipUpdate) "
        f"and {share['Magma']:.0%} (Magma) of repetitions; the honest protocol finds a win in {better or 'none'} of "
        f"{len(told)} settings and a loss in {(told['verdict'] == 'worse').sum()}",
        caption="python experiments/skip_update.py. After arXiv 2602.15322. Dots: "
        f"{repetitions['repetition'].nunique()} repetitions of the coarse protocol (medians of five seeds on one "
        "problem, best of four learning rates chosen on them), orange where it would announce a win of 2× or more; "
        f"blue: the honest protocol, median of paired differences on {seeds} draws, rates tuned on {seeds} others, "
        "with its 95 % interval (order statistics, given the tuned rates) and its verdict (sign test, Holm over all "
        "settings). Batch 3 of 9, 500 steps. Of each problem, base and mask the schedule and grid with most wins is "
        "shown; all are in the table.",
    )


REPRODUCTION = Reproduction(
    "skip-update", "Joo et al., masked updates: a reproduction's wins", measure, check, draw, arxiv="2602.15322"
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
