"""Does skipping steps at random help (SkipUpdate and Magma, arXiv 2602.15322)? Two protocols give two answers.

On Cases 3 and 4 a reproduction with five seeds and four or five learning rates reported 2× wins for the masks; with 30
seeds and finer grids they reversed. Here the coarse protocol is repeated many times: one problem, five seeds, four
learning rates, each optimizer at the rate that is best on these seeds, and the ratio of the median final losses. The
paired protocol is `quadsim.compare`: problems are redrawn, rates are tuned on some seeds, and optimizers are compared
on others. Batch 3 of 9, 500 steps.

    python experiments/skip_update.py [fast=true]
"""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots
from quadsim.cli import main as cli
from quadsim.comparison.paired import corrected
from quadsim.plots.comparison import ratio_ticks
from quadsim.reproduce import Check, Reproduction

GRIDS = {"decades": (1e-3, 1e-2, 1e-1, 1.0), "half decades": (3e-3, 1e-2, 3e-2, 1e-1)}
BASES = {"RMSProp": {"beta1": 0.0, "beta2": 0.999}, "Adam": {"beta1": 0.9, "beta2": 0.999}}
MASKED = {"SkipUpdate": qs.SkipUpdate, "Magma": qs.Magma}
SETTINGS = [(case, base, schedule) for case in (4, 3) for base in BASES for schedule in ("constant", "cosine")]
FAST_SETTINGS = [(3, "RMSProp", "constant"), (3, "RMSProp", "cosine")]  # where Magma and SkipUpdate appear to win
SEEDS, STEPS = 5, 500
MIN_WIN_SHARE = 0.1  # wins in a larger share of repetitions are likely to be reported
NOISE = qs.Noise(batch=3)
KEYS = ["case", "base", "schedule", "masked"]


def measure(fast):
    """Both protocols on every setting: gains in repetitions of the coarse one, and paired verdicts."""
    settings = [dict(zip(KEYS, setting, strict=False)) for setting in (FAST_SETTINGS if fast else SETTINGS)]
    gains = [coarse(*where.values(), 30 if fast else 120).assign(**where) for where in settings]
    comparisons = corrected([paired(*where.values()) for where in settings])  # one Holm family
    verdicts = [
        one.summary[1:].rename(columns={"optimizer": "masked"}).assign(**where)
        for one, where in zip(comparisons, settings, strict=True)
    ]
    gains, verdicts = pd.concat(gains, ignore_index=True), pd.concat(verdicts, ignore_index=True)
    gains = gains[[*KEYS, "grid", "repetition", "gain"]]
    return {"": side_by_side(gains, verdicts), "-repetitions": gains}


def optimizers(base):
    """The base optimizer, without and with each mask."""
    settings = BASES[base]
    masked = {name: kind(**settings) for name, kind in MASKED.items()}
    return {base: qs.SkipUpdate(keep=1.0, **settings), **masked}


def coarse(case, base, schedule, repetitions):
    """The gain over the base, in decades, in each repetition of the coarse protocol."""
    lrs = sorted({lr for grid in GRIDS.values() for lr in grid})
    losses = {}
    for name, optimizer in optimizers(base).items():
        runs = qs.solve(
            lambda seed: qs.case(case, seed=10_000 + seed // SEEDS),  # five seeds of one problem
            [replace(optimizer, lr=lr) for lr in lrs],
            seed=range(10_000, 10_000 + repetitions * SEEDS),
            max_steps=STEPS,
            tol=0,
            record=STEPS,
            noise=NOISE,
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


def paired(case, base, schedule):
    """The paired protocol."""
    return qs.compare(
        lambda seed: qs.case(case, seed=seed),
        optimizers(base),
        seed=range(60),
        max_steps=STEPS,
        noise=NOISE,
        schedule=schedule,
    )


def side_by_side(gains, verdicts):
    """One row per setting and grid: how often the coarse protocol finds wins and losses, and the paired verdict."""
    groups = gains.groupby([*KEYS, "grid"], sort=False)["gain"]
    rows = pd.DataFrame(
        {
            "coarse_gain": groups.median(),
            "wins_1.5x": groups.apply(lambda gain: (gain >= np.log10(1.5)).mean()),
            "wins_2x": groups.apply(lambda gain: (gain >= np.log10(2)).mean()),
            "losses_2x": groups.apply(lambda gain: (gain <= -np.log10(2)).mean()),
        }
    ).reset_index()
    columns = [*KEYS, "verdict", "difference", "low", "high", "wins", "lr", "edge", "diverged", "seeds"]
    return rows.round(4).merge(verdicts[columns], on=KEYS)


def settings(table):
    """One row per setting, with the grid on which the coarse protocol finds most wins."""
    top = table.sort_values("wins_2x", ascending=False, kind="stable").groupby(KEYS).head(1)
    return top.sort_values([*KEYS, "grid"], ignore_index=True)


def count(verdicts):
    """`0 better, 13 worse, 3 no difference found`."""
    kinds = ("better", "worse", "no difference found")
    return ", ".join(f"{(verdicts == verdict).sum()} {verdict}" for verdict in kinds)


def check(tables):
    rows = settings(tables[""])
    share = rows.groupby("masked")["wins_2x"].max()
    announced = rows[rows["wins_2x"] > MIN_WIN_SHARE]
    above = announced["difference"]  # decades by which the masked optimizer's loss is higher, median over pairs
    seeds = int(rows["seeds"].iloc[0])
    return [
        Check(
            "five seeds, four learning rates",
            "2× wins for the masks",
            f"2× wins in up to {share['SkipUpdate']:.0%} (SkipUpdate) and {share['Magma']:.0%} (Magma) of repetitions",
            bool((share > MIN_WIN_SHARE).all()),
        ),
        Check(
            "paired seeds, finer grids",
            "with 30 seeds and finer grids they reverse",
            f"{seeds} seeds, {len(rows)} settings: {count(rows['verdict'])}",
            not (rows["verdict"] == "better").any() and (rows["verdict"] == "worse").mean() >= 0.5,
        ),
        Check(
            f"settings with 2× wins in over {MIN_WIN_SHARE:.0%}",
            "they reverse",
            f"{count(announced['verdict'])}; loss {above.min():.2g} to {above.max():.2g} decades above the base's",
            bool(len(announced) and above.min() > 0 and not (announced["verdict"] == "better").any()),
        ),
    ]


def draw(tables):
    rows = settings(tables[""])
    repetitions = tables["-repetitions"]
    shown = rows.sort_values("wins_2x", ascending=False, kind="stable").groupby(["case", "base", "masked"]).head(1)
    shown = shown.sort_values(["masked", "case", "base"], ascending=False)
    shown["setting"] = [
        f"Case {row.case}: {row.masked} on {row.base},\n{row.schedule} lr, {row.grid}" for row in shown.itertuples()
    ]
    clouds = repetitions.merge(shown[[*KEYS, "grid", "setting"]], on=[*KEYS, "grid"])
    share = rows.groupby("masked")["wins_2x"].max()
    better = int((rows["verdict"] == "better").sum())
    seeds = int(rows["seeds"].iloc[0])
    title = (
        f"Five seeds and four learning rates suggest a 2× win in up to {share['SkipUpdate']:.0%} (SkipUpdate) "
        f"and {share['Magma']:.0%} (Magma) of repetitions; the paired protocol finds a win in {better or 'none'} of "
        f"{len(rows)} settings and a loss in {(rows['verdict'] == 'worse').sum()}"
    )
    caption = (
        "python experiments/skip_update.py. After arXiv 2602.15322. Dots: "
        f"{repetitions['repetition'].nunique()} repetitions of the coarse protocol (medians of five seeds on one "
        "problem, best of four learning rates chosen on them), orange for a win of 2× or more; "
        f"blue: the paired protocol, median of paired differences on {seeds} draws, rates tuned on {seeds} others, "
        "with its 95 % interval (order statistics, given the tuned rates) and its verdict (sign test, Holm over all "
        "settings). Batch 3 of 9, 500 steps. For each problem, base and mask the schedule and grid with most wins are "
        "shown; all are in the table."
    )
    with plots.canvas(title=title, caption=caption, height=0.42 * len(shown), font_size=8) as (figure, (axes,)):
        protocols(axes, clouds, shown)
    return figure


def protocols(axes, coarse, verdicts):
    """One row per setting: the gain of each coarse repetition in decades, and the paired difference below."""
    win_colour, paired_colour, widest = "#D55E00", "#0072B2", 4.0  # decades; larger gains are drawn at the edge
    names = list(dict.fromkeys(verdicts["setting"]))
    axes.axvspan(np.log10(2), widest, color=win_colour, alpha=0.08, linewidth=0)
    axes.axvline(0, color="#555555", linewidth=0.9, zorder=0)
    jitter = np.random.default_rng(0)
    for row, name in enumerate(names):
        gains = np.clip(coarse.loc[coarse["setting"] == name, "gain"].to_numpy(), -widest, widest)
        heights = -row + 0.17 + 0.13 * jitter.uniform(-1, 1, gains.size)
        won = gains >= np.log10(2)
        for which, colour in ((won, win_colour), (~won, "#999999")):
            axes.plot(gains[which], heights[which], "o", color=colour, markersize=2, alpha=0.6, markeredgewidth=0)
        verdict = verdicts[verdicts["setting"] == name].iloc[0]
        low, middle, high = np.clip([-verdict["high"], -verdict["difference"], -verdict["low"]], -widest, widest)
        axes.plot([low, high], [-row - 0.2] * 2, color=paired_colour, linewidth=2.2, solid_capstyle="butt")
        axes.plot(middle, -row - 0.2, "<" if middle <= -widest else "D", color=paired_colour, markersize=4)
        axes.text(widest * 1.02, -row + 0.15, f"{won.mean():.0%} find 2×", fontsize=7.5, color=win_colour, va="center")
        axes.text(widest * 1.02, -row - 0.22, verdict["verdict"], fontsize=7.5, color=paired_colour, va="center")
    axes.set(xlim=(-widest, widest), ylim=(-len(names) + 0.4, 0.6))
    axes.set_xlabel("better by this factor than the optimizer without the mask")
    axes.set_yticks([-row for row in range(len(names))], names)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    ratio_ticks(axes, -widest, widest)


REPRODUCTION = Reproduction(
    "skip-update",
    "Joo et al., masked updates: a reproduction's wins",
    measure,
    check,
    draw,
    arxiv="2602.15322",
    order=160,
    slow=True,
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
