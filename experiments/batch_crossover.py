"""SGD with momentum and Adam against the batch size, on Cases 3 and 4 (arXiv 2506.12543, 2606.14259).

Both papers train networks: at small batches SGD with momentum, if tuned, does as well as Adam (2506.12543), and at a
crossover batch size the advantage shifts from SGD to Adam (2606.14259). The first also studies these two Hessians, but
the settings are not available. Here: minibatches of the nine rows of X, XᵀX/9 = H, for both X; 500 steps
from a Gaussian start, warm-up of 10 % and a cosine to 0; SGD tuned over its learning rate and momentum, Adam over its
learning rate, β1 and β2, on tuning draws, and compared on others. Also with a budget of 4500 rows, as in
training networks: small batches then take more steps.

    python experiments/batch_crossover.py [fast=true]
"""

import sys

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots
from quadsim._format import power_of_ten
from quadsim.cli import main as cli
from quadsim.comparison.paired import corrected
from quadsim.reproduce import Check, Reproduction

OPTIMIZERS = {"sgd": qs.SGD(momentum=0.9), "adam": qs.Adam()}
GRIDS = {"sgd": {"momentum": [0.9, 0.95]}, "adam": {"beta1": [0.9, 0.95], "beta2": [0.95, 0.99]}}
ROWS, STEPS = 9, 500
FACTORS = {"X = √Λ·Uᵀ": "rotated", "X = H^½": "root", "same rows seen": "rotated"}
STROKES = {"X = √Λ·Uᵀ": "-", "X = H^½": (0, (5, 2)), "same rows seen": (0, (1.2, 1.6))}
SMALL, LARGE = (1, 2), (7, 9)
COLUMNS = ["optimizer", "lr", "settings", "lower", "median", "upper", "difference", "low", "high", "verdict"]


def measure(fast):
    """SGD and Adam, tuned, at each batch size; with all rows the settings coincide."""
    seeds, tuning_seeds = (range(16), range(100, 110)) if fast else (range(40), range(100, 120))
    settings = []
    for case in (3, 4):
        for setting in FACTORS if case == 4 or not fast else list(FACTORS)[:1]:
            for batch in SMALL if fast else (1, 2, 3, 5, 7):
                settings.append((case, setting, batch))
        settings.append((case, "all rows", ROWS))
    comparisons = corrected([compared(*where, seeds, tuning_seeds) for where in settings])  # one Holm family
    rows = [
        one.summary[COLUMNS].assign(
            case=case, setting=setting, batch=batch, steps=one.protocol.max_steps, draws=len(seeds)
        )
        for one, (case, setting, batch) in zip(comparisons, settings, strict=True)
    ]
    return {"": pd.concat(rows, ignore_index=True)}


def compared(case, setting, batch, seeds, tuning_seeds):
    steps = ROWS * STEPS // batch if setting == "same rows seen" else STEPS
    return qs.compare(
        lambda seed: qs.case(case, seed=seed),
        OPTIMIZERS,
        seed=seeds,
        tuning_seed=tuning_seeds,
        max_steps=steps,
        grids=GRIDS,
        noise=qs.Noise(batch=batch, factor=FACTORS.get(setting, "root")),
        schedule=qs.Schedule("cosine", warmup=0.1),
    )


def leads(tables, case, batches=None, settings=("X = √Λ·Uᵀ", "X = H^½", "all rows")):
    """log10 of SGD's loss over Adam's: the median of each comparison."""
    table = tables[""]
    selected = table[(table["optimizer"] == "adam") & (table["case"] == case) & table["setting"].isin(settings)]
    return -selected.loc[selected["batch"].isin(batches or selected["batch"]), "difference"]


def times(lead):
    """1.8, 28 or 10⁸, for 0.26, 1.45 or 8.1."""
    return f"{10**lead:.2g}" if lead < 2 else power_of_ten(round(lead))


def lower(leads):
    low, high = times(leads.min()), times(leads.max())
    return f"Adam's loss is {low if low == high else f'{low} to {high}'} times lower"


def check(tables):
    three, four, large = leads(tables, 3, SMALL), leads(tables, 4, SMALL), leads(tables, 4, LARGE)
    longer = leads(tables, 4, SMALL, ["same rows seen"])
    adam = tables[""][tables[""]["optimizer"] == "adam"]
    decided = adam["verdict"].isin(("better", "worse"))
    ahead = int((decided & (adam["difference"] > 0)).sum())
    rates = {batch: effective_rate(tables, batch) for batch in (1, ROWS)}
    within, similar = np.log10(2), "SGD with momentum, tuned, similar to Adam"
    return [
        Check(
            "Case 3, batches 1 and 2",
            similar,
            lower(three),
            bool((abs(three) < within).all()),
            "different block scales give Adam its lead at every batch size; 2506.12543 also states that they do "
            "not explain networks"
            if leads(tables, 3).min() > 1
            else "",
        ),
        Check(
            "Case 4, batches 1 and 2",
            similar,
            f"{lower(four)} (median {times(four.median())}; similar: all below 2)",
            bool((abs(four) < within).all()),
            "Adam's lead is smallest at small batches, but does not vanish" if four.median() < large.min() else "",
        ),
        Check(
            "Case 4, batches 1 and 2, 4500 rows seen",
            similar,
            f"{lower(longer)} (similar: all below 2)",
            bool((abs(longer) < within).all()),
            f"with more steps Adam's lead is {times(longer.median())} times instead of {times(four.median())}"
            if longer.median() > four.median()
            else "",
        ),
        Check(
            "Case 4, large batches",
            "Adam ahead above some batch size",
            f"{lower(large)} (batch {' and '.join(map(str, measured_batches(tables, LARGE)))})",
            bool(large.min() > within),
        ),
        Check(
            "Both cases, every batch size",
            "SGD ahead below the crossover (2606.14259)",
            f"SGD is ahead in {ahead} of {len(adam)} comparisons",
            ahead > 0,
            f"noise limits SGD's lr/(1 − momentum): {rates[1]:.1g} at batch 1, {rates[ROWS]:.1g} with all rows"
            if rates[1] < rates[ROWS] / 10
            else "",
        ),
    ]


def measured_batches(tables, batches):
    return [batch for batch in batches if (tables[""]["batch"] == batch).any()]


def effective_rate(tables, batch):
    """SGD's learning rate divided by 1 − momentum: the median over the comparisons at a batch size."""
    sgd = tables[""][(tables[""]["optimizer"] == "sgd") & (tables[""]["batch"] == batch)]
    return (sgd["lr"] / (1 - sgd["settings"].str.removeprefix("momentum=").astype(float))).median()


def draw(tables):
    table = tables[""]
    small, full = leads(tables, 4, SMALL), leads(tables, 4, [ROWS])
    title = (
        f"On Case 4 Adam's lead over SGD with momentum grows from {times(small.median())} times at batches 1 and 2 to "
        f"{times(full.median())} times with all rows; on Case 3 it is {times(leads(tables, 3).min())} or more at every "
        "batch size"
    )
    draws = table["draws"].iloc[0]
    caption = (
        "python experiments/batch_crossover.py. After arXiv 2506.12543 and 2606.14259. Top: loss after 500 steps with "
        f"X = √Λ·Uᵀ, medians and quartiles of {draws} draws (seeds 0 to {draws - 1}). Both are tuned on other draws "
        "(seeds from 100): SGD over its learning rate and momentum (0.9, 0.95), Adam over its learning rate, β1 (0.9, "
        "0.95) and β2 (0.95, 0.99). Bottom: SGD's loss over Adam's, medians of paired ratios with 95 % intervals "
        "(order statistics, given the tuned rates); with 4500 rows seen, small batches take more steps. Grey: within a "
        "factor 2."
    )
    with plots.canvas(2, 2, title=title, caption=caption, height=1.6, sharex=True) as (figure, panels):
        for number, case in enumerate((3, 4)):
            top, bottom = panels[number], panels[2 + number]
            selected = table[table["case"] == case]
            losses(top, selected[selected["setting"].isin(("X = √Λ·Uᵀ", "all rows"))])
            ratios(bottom, selected[selected["optimizer"] == "adam"], plots.CASE_COLOURS[number])
            top.set_title(("Case 3: {1, 2, 3} {99, …} {4998, …}", "Case 4: {1, 99, 4998} {2, …} {3, …}")[number])
            bottom.set(xlabel="batch size (of 9 rows)", xticks=sorted(table["batch"].unique()))
        panels[0].set_ylabel("loss")
        panels[3].legend(frameon=False, fontsize=7, loc="upper left", handlelength=2.4)
        panels[2].set_ylabel("SGD's loss / Adam's")
    return figure


def losses(axes, rows):
    for name, label, below in (("sgd", "SGD with momentum", 5), ("adam", "Adam", -13)):
        selected, colour = rows[rows["optimizer"] == name].sort_values("batch"), plots.style_of(name).colour
        axes.fill_between(selected["batch"], selected["lower"], selected["upper"], color=colour, alpha=0.2, linewidth=0)
        axes.plot(selected["batch"], selected["median"], "o-", color=colour, markersize=3, linewidth=1.3)
        middle = 10 ** np.interp(5, selected["batch"], np.log10(selected["median"]))
        text = {"ha": "center", "color": colour, "fontweight": "bold", "fontsize": 7.5}
        axes.annotate(label, (5, middle), xytext=(0, below), textcoords="offset points", **text)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.08)
    plots.power_ticks(axes, x=False)


def ratios(axes, rows, colour):
    axes.axhspan(0.5, 2, color="#DDDDDD", linewidth=0)
    for shift, (setting, stroke) in enumerate(STROKES.items()):
        selected = rows[rows["setting"].isin((setting, "all rows"))].sort_values("batch")
        at = selected["batch"] + 0.09 * (shift - 1)
        axes.vlines(at, 10 ** -selected["high"], 10 ** -selected["low"], color=colour, linewidth=0.9)
        line = {"linestyle": stroke, "color": colour, "markersize": 3, "linewidth": 1.2}
        axes.plot(at, 10 ** -selected["difference"], "o", label=setting.replace("same", "4500"), **line)
    axes.set_yscale("log")
    plots.power_ticks(axes, x=False)


REPRODUCTION = Reproduction(
    "batch-crossover",
    "Srećković et al., SGD and Adam against the batch size",
    measure,
    check,
    draw,
    arxiv="2506.12543",
    order=170,
    slow=True,
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
