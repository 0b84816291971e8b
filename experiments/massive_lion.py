"""Massive Lion's study of Case 3 ("Sign-based optimizers are massless relativistic learners"): tuned, then confirmed.

The rule, the protocol and the selected learning rates are public (github.com/hadivafaii/massive-lion, docs and
configs of its quadratics); the scores are not. Batches of 3 or 9 of 9 rows (X = √Λ·Uᵀ), a Gaussian start of norm 3,
500 steps, warm-up of 5 % and a cosine to 0; learning rates from 5e-4 by factors of √2, β2 of 0.9, 0.95 and 0.975, and
eight "curvature strengths" ζ = 1 − β1/β2; 32 draws for tuning and 128 others. A score is the mean over the steps of
log10 max(L/L0, 1e-12). With ζ = 0 it is Adam with β1 = β2, the published baseline. Here Adam with its own ζ, Lion,
Signum and SGD are evaluated by the same protocol.

    python experiments/massive_lion.py [fast=true]
"""

import sys

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots
from quadsim.cli import main as cli
from quadsim.comparison.evaluation import EvaluationProtocol
from quadsim.reproduce import Check, Reproduction

PROTOCOL = EvaluationProtocol("mean-log-loss", max_steps=500)
LRS = 5e-4 * 2 ** (np.arange(31) / 2)
BETAS, ZETAS = (0.9, 0.95, 0.975), (0, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
PUBLISHED = {  # (batch, β2): which of the learning rates was chosen for each ζ, from 0
    (3, 0.9): (11, 11, 11, 11, 11, 12, 12, 12), (9, 0.9): (11, 12, 12, 11, 11, 11, 11, 11),
    (3, 0.95): (11, 11, 12, 12, 12, 12, 12, 12), (9, 0.95): (13, 15, 14, 13, 12, 12, 12, 11),
    (3, 0.975): (13, 13, 20, 21, 18, 16, 14, 13), (9, 0.975): (13, 26, 23, 20, 18, 15, 14, 12),
}  # fmt: skip
SHOWN = (3, 0.95, 0.2)  # batch, β2 and ζ of the published curves


@qs.rule(state="m mass", name="massive-lion", label="Massive Lion")
def massive_lion(g, m, mass, lr=0.01, beta=0.95, zeta=0.2):
    """Lion's direction, divided by the root of its square plus a running variance of the gradients."""
    mixed = (1 - zeta) * beta * m + (1 - (1 - zeta) * beta) * g
    mass = beta * mass + beta * (1 - beta) * (g - m) ** 2
    size = np.sqrt(mixed * mixed + mass)
    return lr * mixed / size if size > 0 else 0.0, beta * m + (1 - beta) * g, mass


RULES = {  # functions of β2, ζ and lr; SGD's steps grow with the gradient, so its grid is 1024 times lower
    "massive-lion": lambda beta, zeta, lr: massive_lion(lr=lr, beta=beta, zeta=zeta),
    "adam": lambda beta, zeta, lr: qs.Adam(lr=lr, beta1=(1 - zeta) * beta, beta2=beta, eps=0, bias_correction=False),
    "lion": lambda beta, zeta, lr: qs.Lion(lr=lr, beta1=(1 - zeta) * beta, beta2=beta, weight_decay=0),
    "sgd": lambda beta, zeta, lr: qs.SGD(lr=lr / 1024, momentum=beta, dampening=beta),
}
STRENGTHS = {"massive-lion": ZETAS, "adam": ZETAS[1:], "lion": ZETAS[1:], "signum": (0,), "sgd": (0,)}
EQUAL = "adam-variance"  # Adam with β1 = β2
RULES |= {EQUAL: RULES["adam"], "signum": RULES["lion"]}  # Signum is Lion with β1 = β2
LABELS = {
    "adam": "Adam, β1 < β2",
    "massive-lion": "Massive Lion",
    EQUAL: "Adam, β1 = β2",
    "lion": "Lion",
    "signum": "Signum",
    "sgd": "SGD",
}
COLOURS = {name: plots.style_of(name).colour or "#000000" for name in LABELS}


def scores(batch, optimizers, seeds):
    """The score of each optimizer on each draw."""
    runs = qs.solve(
        lambda seed: qs.case(3, seed=seed),
        optimizers,
        seed=seeds,
        max_steps=PROTOCOL.max_steps,
        tol=0,
        record=1,
        start=3.0,
        noise=qs.Noise(batch=batch, factor="rotated"),
        schedule=qs.Schedule("cosine", warmup=0.05),
    )
    return np.reshape([PROTOCOL.score(run) for run in runs], (len(seeds), -1))


def measure(fast):
    """Each setting on the evaluation draws, at the learning rate chosen on the tuning draws; and the tuning curves."""
    tuning_seeds, seeds = range(6 if fast else 32), range(1000, 1020 if fast else 1128)
    resamples = np.random.default_rng(0).integers(len(seeds), size=(1000 if fast else 10_000, len(seeds)))
    rows, curves = [], []
    for batch in (3, 9):
        chosen = {}  # (optimizer, β2, ζ): the index of the best learning rate, and its score
        for name, zetas in STRENGTHS.items():
            settings = [(name, beta, zeta) for beta in BETAS for zeta in zetas]
            lanes = [RULES[name](beta, zeta, lr) for _, beta, zeta in settings for lr in LRS]
            means = scores(batch, lanes, tuning_seeds).mean(axis=0).reshape(len(settings), -1)
            chosen |= {key: (int(mean.argmin()), mean.min()) for key, mean in zip(settings, means, strict=True)}
            curves += curve(batch, name, means[means.min(axis=1).argmin()])
            if name == "massive-lion":
                equal = [mean for (_, _, zeta), mean in zip(settings, means, strict=True) if zeta == 0]
                curves += curve(batch, EQUAL, min(equal, key=np.min))
        chosen |= {(EQUAL, beta, 0): chosen["massive-lion", beta, 0] for beta in BETAS}
        lanes = [RULES[name](beta, zeta, LRS[index]) for (name, beta, zeta), (index, _) in chosen.items()]
        evaluated = dict(zip(chosen, scores(batch, lanes, seeds).T, strict=True))
        base = min(((EQUAL, beta, 0) for beta in BETAS), key=lambda key: chosen[key][1])
        for (name, beta, zeta), score in evaluated.items():
            index, tuned = chosen[name, beta, zeta]
            rows.append(
                {
                    "batch": batch,
                    "optimizer": name,
                    "beta": beta,
                    "zeta": zeta,
                    "place": index,
                    "tuned": tuned,
                    "tuning_draws": len(tuning_seeds),
                    "draws": len(seeds),
                    "score": score.mean(),
                    "off": np.abs(score - evaluated[EQUAL, beta, 0]).max(),
                    **interval("beside", score - evaluated[base], resamples),
                }
            )
    return {"": pd.DataFrame(rows).round(7), "-tuning": pd.DataFrame(curves).round({"lr": 7, "score": 4})}


def curve(batch, name, means):
    return [{"batch": batch, "optimizer": name, "lr": lr, "score": mean} for lr, mean in zip(LRS, means, strict=True)]


def interval(name, differences, resamples):
    """The mean of paired differences with its 95 % bootstrap interval."""
    low, high = np.quantile(differences[resamples].mean(axis=1), (0.025, 0.975))
    return {name: differences.mean(), f"{name}_low": low, f"{name}_high": high}


def best(table, batch):
    """Each optimizer at the β2 and ζ chosen on the tuning draws."""
    selected = table[table["batch"] == batch]
    return selected.loc[selected.groupby("optimizer")["tuned"].idxmin()].set_index("optimizer")


def check(tables):
    table = tables[""]
    lion = table[table["optimizer"] == "massive-lion"]
    steps = [row.place - PUBLISHED[row.batch, row.beta][ZETAS.index(row.zeta)] for row in lion.itertuples()]
    same, near = (int(np.sum(np.abs(steps) <= most)) for most in (0, 1))
    batch, beta, zeta = SHOWN
    here = lion[(lion["batch"] == batch) & (lion["beta"] == beta)].set_index("zeta")
    first, second = here["tuned"].sort_values().index[:2]
    off, three = lion.loc[lion["zeta"] == 0, "off"].max(), best(table, batch)
    score = three["score"]
    return [
        Check(
            "Massive Lion: the learning rates chosen",
            "one for each of 48 settings (batch, β2, ζ), 0.02 to 4",
            f"the same in {same} of {len(steps)}, at most one grid step (√2) off in {near}",
            near >= 0.9 * len(steps),
        ),
        Check(
            "Massive Lion: the ζ chosen (β2 = 0.95, batch 3)",
            f"ζ = {zeta} is plotted",
            f"ζ = {first:g} ({here.loc[first, 'tuned']:.2f}; next, ζ = {second:g}: {here.loc[second, 'tuned']:.2f})",
            bool(first == zeta),
        ),
        Check(
            "Massive Lion with ζ = 0",
            "is Adam with β1 = β2",
            f"scores differ by {off:.1g} decades at most",
            bool(off < 0.01),
        ),
        Check(
            "Massive Lion compared with Adam (batch 3, all tuned)",
            "plotted with Adam at β1 = β2, without numbers",
            f"{-three.loc['massive-lion', 'beside']:.2f} decades ahead of that, "
            f"{score['massive-lion'] - score['adam']:.2f} behind Adam with its own ζ",
            None,
            "neither the scores nor the paper are available, and there is no comparison with Adam at β1 < β2",
        ),
        Check(
            "Other optimizers under this protocol, batch 3",
            "Adam below Signum below SGD in Case 3 (arXiv 2505.21829)",
            f"Adam with β1 = β2 {score[EQUAL]:.2f}, Signum {score['signum']:.2f}, SGD {score['sgd']:.2f}",
            bool(score[EQUAL] < score["signum"] < score["sgd"]),
        ),
    ]


def draw(tables):
    table = tables[""]
    ahead, behind = {}, {}
    for batch in (3, 9):
        difference = best(table, batch)["beside"]
        ahead[batch], behind[batch] = -difference["massive-lion"], difference["massive-lion"] - difference["adam"]
    title = (
        f"Massive Lion is {ahead[3]:.1f} decades (batch 3) and {ahead[9]:.1f} (batch 9) ahead of Adam with β1 = β2, "
        f"and {behind[3]:.1f} and {behind[9]:.1f} behind Adam with a tuned β1"
    )
    tuned, draws = table[["tuning_draws", "draws"]].iloc[0]
    caption = (
        "python experiments/massive_lion.py. After github.com/hadivafaii/massive-lion: Case 3, batches of 3 and 9 of 9 "
        "rows, Gaussian start of norm 3, 500 steps, warm-up 5 % and cosine. A score is the mean over the steps of "
        f"log10 max(L/L0, 1e-12). Left: on {tuned} tuning draws (seeds from 0), each optimizer at its best β2 and "
        "ζ = 1 − β1/β2 (SGD's learning rates are those on the axis divided by 1024). Middle: Massive Lion on "
        f"{draws} others (seeds from 1000), the learning rate tuned for each β2 and ζ; ζ = 0 is Adam with β1 = β2; "
        "dotted: Adam with the same β1 and β2. Right: paired differences on these, all at the settings chosen on "
        "the tuning draws, with 95 % bootstrap intervals."
    )
    with plots.canvas(2, 3, title=title, caption=caption, height=1.75, sharex="col") as (figure, panels):
        for batch, row in zip((3, 9), (panels[:3], panels[3:]), strict=True):
            tuning(row[0], tables["-tuning"].query("batch == @batch"))
            strengths(row[1], table.query("batch == @batch"))
            differences(row[2], best(table, batch))
            row[0].set_ylabel(f"batch {batch}: score")
        panels[0].set_title("Tuning (colours: right)")
        panels[1].set_title("Massive Lion; dotted: Adam")
        panels[2].set_title(f"Relative to {LABELS[EQUAL]}", color=COLOURS[EQUAL])
        for axes, name in zip(panels[3:], ("learning rate", "ζ", "difference of scores, decades"), strict=True):
            axes.set_xlabel(name)
        plots.power_ticks(panels[3], y=False)
    return figure


def tuning(axes, curves):
    for name in LABELS:
        selected = curves[(curves["optimizer"] == name) & (curves["score"] < 0.5)]
        axes.plot(
            selected["lr"], selected["score"], color=COLOURS[name], linewidth=1.2, linestyle=plots.style_of(name).stroke
        )
    axes.set(ylim=(-10, 0.6), xscale="log")


def strengths(axes, rows):
    """The score of Massive Lion and, dotted, of Adam against ζ for each β2; the ζ above 0 about double."""
    ends = []
    for colour, (beta, selected) in zip(plots.PALETTE, rows.groupby("beta"), strict=False):
        lion, adam = (selected[selected["optimizer"] == name].sort_values("zeta") for name in ("massive-lion", "adam"))
        axes.plot(range(len(lion)), lion["score"], "o-", color=colour, linewidth=1.2, markersize=2.5)
        both = [lion["score"].iloc[0], *adam["score"]]
        axes.plot(range(len(both)), both, color=colour, linewidth=1.1, linestyle=(0, (1.2, 1.6)))
        ends.append((lion["score"].iloc[-1], f"β2 =\n{beta:g}", colour))
    axes.set(ylim=(-10, 0.6))
    axes.set_xticks(range(len(ZETAS)), [f"{zeta:g}".replace("0.", ".") for zeta in ZETAS], fontsize=6.5)
    plots.label_right(axes, ends, size=6.5)


def differences(axes, rows):
    names = [name for name in LABELS if name != EQUAL]
    for height, name in enumerate(reversed(names)):
        middle, low, high = rows.loc[name, ["beside", "beside_low", "beside_high"]]
        axes.plot([low, high], [height] * 2, color=COLOURS[name], linewidth=2)
        axes.plot(middle, height, "o", color=COLOURS[name], markersize=3.5)
        text = {"ha": "center", "va": "bottom", "color": COLOURS[name], "fontsize": 7, "zorder": 3}
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        label = f"{LABELS[name]} {middle:+.1f}".replace("-", "−")
        axes.text(min(max(middle, -2.4), 2.4), height + 0.22, label, bbox=box, **text)
    axes.axvline(0, color=COLOURS[EQUAL], linewidth=0.9, linestyle=plots.style_of(EQUAL).stroke)
    axes.set(yticks=[], ylim=(-0.5, len(names) - 0.1), xlim=(-5, 5), xticks=(-4, -2, 0, 2, 4))
    axes.spines["left"].set_visible(False)


REPRODUCTION = Reproduction("massive-lion", "Massive Lion's protocol", measure, check, draw, order=150, slow=True)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
