"""Steps against the condition number for all built-in optimizers, on Cases 3 and 4.

Zhang et al. (arXiv 2402.16788) state it for GD, whose steps grow like κ, and for Adam with β2 = 1, whose steps depend
on the condition numbers of single blocks; here all 21 are run. Steps are counted until the median draw is within 1 %
of its first distance to the minimizer. (A tolerance on the gradient norm above 1/κ would ignore flat directions.) The
best constant learning rate is used where it is known in closed form; all others are tuned for every κ and case on
tuning draws, over powers of two. Weight decay is off: it moves the limit away from the minimizer.

    python experiments/zoo_kappa.py [fast=true]
"""

import functools
import sys
from dataclasses import replace

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots
from quadsim._format import power_of_ten
from quadsim.cli import main as cli
from quadsim.optimizers import OPTIMIZERS
from quadsim.reproduce import Check, Reproduction

TARGET_DISTANCE = 0.01
SETTINGS = {"sgd": {"momentum": 0.9}, "adamw": {"weight_decay": 0.0}, "lion": {"weight_decay": 0.0}}
ONE_SCALE = ("gd", "heavy-ball", "nesterov", "sgd", "adasgd")  # the others have a scale per block or coordinate
FAST_OPTIMIZERS = (
    "gd",
    "block-gd",
    "heavy-ball",
    "nesterov",
    "sgd",
    "frozen-adam",
    "adam",
    "signgd",
    "adam-mini",
    "adasgd",
)


def measure(fast):
    """For each optimizer, case and κ: the steps needed, if within the limit, and the learning rate."""
    limit, kappas = (2**15, (10, 1000, 100_000)) if fast else (2**18, (10, 100, 1000, 10_000, 100_000))
    tuning_seeds, seeds = (range(100, 103), range(7)) if fast else (range(100, 106), range(15))
    rows = []
    for name in FAST_OPTIMIZERS if fast else [name for name, kind in OPTIMIZERS.items() if not kind.user_defined]:
        optimizer = OPTIMIZERS[name](**SETTINGS.get(name, {}))
        for case in (3, 4):
            steps = 0
            for kappa in kappas:
                if steps is not None:  # if beyond the limit at one κ, also at the next
                    steps, lr = needed(case, kappa, optimizer, tuning_seeds, seeds, limit)
                rows.append((case, kappa, name, steps, lr, len(seeds), limit))
    columns = ["case", "kappa", "optimizer", "steps", "lr", "draws", "limit"]
    return {"": pd.DataFrame(rows, columns=columns).astype({"steps": "Int64"})}


def needed(case, kappa, optimizer, tuning_seeds, seeds, limit):
    """The steps to the target distance, and the learning rate tuned for them; None beyond the limit."""
    tried, steps = [optimizer], 4
    if optimizer.lr is None:  # the best lr and the run are known in closed form
        limit = 2**24
    else:
        scale = 1 / kappa if optimizer.name == "sgd" else 1.0  # its steps grow with the gradient
        tried = [replace(optimizer, lr=scale * 2.0**power) for power in range(-17, 4)]
    while steps <= limit:
        best = tried[int(distances(case, kappa, tried, tuning_seeds, steps).argmin()) if len(tried) > 1 else 0]
        if distances(case, kappa, [best], seeds, steps)[0] <= TARGET_DISTANCE:
            counts = [round(steps * 2 ** (eighth / 8)) for eighth in range(-7, 0)]
            near = (n for n in counts if distances(case, kappa, [best], seeds, n)[0] <= TARGET_DISTANCE)
            return next(near, steps), best.lr
        steps *= 2
    return None, None


def distances(case, kappa, optimizers, seeds, steps):
    """The median over draws of each optimizer's relative distance to the minimizer after the steps.

    Runs that underflow count with the distance at which they stop: the coordinate that underflows is one of nine, and
    the target is 1 % of the first distance.
    """
    runs = qs.solve(
        lambda seed: problem(case, kappa, seed), optimizers, seed=seeds, max_steps=steps, tol=0, record=steps
    )
    first = [np.linalg.norm(problem(case, kappa, seed).initial_error(seed)) for seed in seeds]
    left = [np.inf if run.status == "diverged" else np.linalg.norm(run.error) for run in runs]
    return np.median(np.reshape(left, (len(seeds), -1)) / np.reshape(first, (-1, 1)), axis=0)


@functools.lru_cache(maxsize=1000)
def problem(case, kappa, seed):
    return qs.case(case, kappa=kappa, seed=seed)


def grid(tables, case):
    """Steps by optimizer and κ; infinite beyond the limit."""
    rows = tables[""][tables[""]["case"] == case]
    steps = rows.pivot(index="optimizer", columns="kappa", values="steps").astype(float)
    return steps.loc[rows["optimizer"].unique()].fillna(np.inf)


def slope(steps, name):
    """The exponent of κ in the steps, between 1000 and the largest κ."""
    late = steps.loc[name, steps.columns >= 1000]
    return np.polyfit(np.log10(late.index.to_numpy(float)), np.log10(late.to_numpy()), 1)[0]


def check(tables):
    three, four = grid(tables, 3), grid(tables, 4)
    cases, most = (three, four), three.columns[-1]
    slopes = {name: [slope(steps, name) for steps in cases] for name in ("gd", "heavy-ball", "nesterov", "frozen-adam")}
    momentum = slopes["heavy-ball"] + slopes["nesterov"]
    own = [name for name in three.index if name not in ONE_SCALE]
    flat, grown = ((steps.loc[own, most] / steps.loc[own, steps.columns[0]]) for steps in cases)
    flat_count, grown_count = int((flat < 1.1).sum()), int((grown > 10).sum())
    fold = [(steps.loc["adasgd"] / steps.loc["adam"])[steps.columns >= 1000].median() for steps in cases]
    return [
        Check(
            "GD in both cases",
            "steps grow like κ",
            f"like κ^{slopes['gd'][0]:.2f} and κ^{slopes['gd'][1]:.2f}",
            all(abs(power - 1) < 0.1 for power in slopes["gd"]),
        ),
        Check(
            "Heavy ball and Nesterov in both cases",
            "like √κ",
            f"like κ^{min(momentum):.2f} to κ^{max(momentum):.2f}",
            all(abs(power - 0.5) < 0.1 for power in momentum),
        ),
        Check(
            "Adam with β2 = 1",
            "Case 3: with κ of the blocks, so not at all; Case 4: like κ",
            f"Case 3: κ^{abs(slopes['frozen-adam'][0]):.2f}; Case 4: κ^{slopes['frozen-adam'][1]:.2f}",
            abs(slopes["frozen-adam"][0]) < 0.1 and abs(slopes["frozen-adam"][1] - 1) < 0.1,
        ),
        Check(
            "Methods with a scale for each block or coordinate",
            "like Adam with β2 = 1: no growth in Case 3 only",
            f"{flat_count} of {len(own)} do not grow in Case 3, {len(own) - grown_count} in Case 4",
            flat_count == grown_count == len(own),
        ),
        Check(
            "Adam compared with AdaSGD (one scale for all), κ ≥ 1000",
            "much faster in Case 3, similar in Case 4",
            f"{fold[0]:.0f} times as fast in Case 3, {fold[1]:.2g} times in Case 4",
            bool(fold[0] >= 5 and 0.5 <= fold[1] <= 2),
        ),
    ]


def draw(tables):
    table, limit = tables[""], tables[""]["limit"].iloc[0]
    three, four = grid(tables, 3), grid(tables, 4)
    own = [name for name in three.index if name not in ONE_SCALE]
    most, draws = three.columns[-1], table["draws"].iloc[0]
    flat = int((three.loc[own, most] < 1.1 * three.loc[own, three.columns[0]]).sum())
    grown = int((four[most] > 1.1 * four[four.columns[0]]).sum())
    least = four[most].idxmin()
    title = (
        f"{flat} of {len(own)} optimizers with a scale for each block or coordinate do not depend on κ in Case\u00a03; "
        f"in Case\u00a04 {grown} of {len(four)} do, and {OPTIMIZERS[least].label} is the fastest at "
        f"κ = {power_of_ten(round(np.log10(most)))}, with {four.loc[least, most]:,.0f} steps"
    )
    caption = (
        "python experiments/zoo_kappa.py. For GD and Adam with β2 = 1 see arXiv 2402.16788. Steps until the median of "
        f"{draws} draws (seeds 0 to {draws - 1}) is within 1 % of its first distance to the minimizer, at a constant "
        "learning rate: the best known in closed form for GD, block GD, heavy ball, Nesterov and Adam with β2 = 1, for "
        "all others tuned for each κ and case on other draws (seeds from 100); other settings are the defaults, "
        f"momentum 0.9 for SGD and no weight decay, so that AdamW is Adam. Triangles: more than {limit:,} steps. "
        "Grey: growth like κ and like √κ."
    )
    with plots.canvas(2, 2, title=title, caption=caption, height=2.15, sharex=True, height_ratios=(1, 1.7)) as (
        figure,
        panels,
    ):
        for number, axes in enumerate(panels):
            steps, case = ((three, 3), (four, 4))[number % 2]
            kind = ("one scale for all", "scales for blocks or coordinates")[number // 2]
            axes.set(xscale="log", yscale="log", xlim=(three.columns[0], most), title=f"Case {case}: {kind}")
            axes.set_ylim(*((6, 9e5) if number < 2 else (4, 9e5)))
            plots.power_ticks(axes)
            lines(axes, steps.loc[[name for name in steps.index if (name in ONE_SCALE) == (number < 2)]], limit)
        for axes in panels[::2]:
            axes.set_ylabel("steps")
        for axes in panels[2:]:
            axes.set_xlabel("condition number κ")
    return figure


def lines(axes, steps, limit):
    kappas, ends = steps.columns.to_numpy(float), []
    for power in (0.5, 1):
        axes.plot(kappas, 3 * kappas[0] * (kappas / kappas[0]) ** power, color="#BBBBBB", linewidth=0.8, zorder=0)
    for name, row in steps.iterrows():
        colour, beyond = plots.style_of(name).colour, np.isinf(row.to_numpy())
        known = np.where(beyond, limit, row)
        last = min(int((~beyond).sum()) + 1, len(known))  # to the first triangle
        axes.plot(kappas[:last], known[:last], color=colour, linestyle=plots.style_of(name).stroke, linewidth=1.2)
        if beyond.any():
            axes.plot(kappas[beyond][0], limit, "^", color=colour, markersize=4, clip_on=False)
        if name != "adamw":
            label = "Adam, AdamW" if name == "adam" and "adamw" in steps.index else OPTIMIZERS[name].label
            ends.append((known[-1], label, colour))
    plots.label_right(axes, ends, size=6.5)


REPRODUCTION = Reproduction(
    "zoo-kappa",
    "Zhang et al., steps against κ, for all optimizers",
    measure,
    check,
    draw,
    arxiv="2402.16788",
    order=180,
    slow=True,
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
