"""One learning rate for each dense block beats Adam, after figure 4 of Adam-mini (arXiv 2406.16793).

The problem, as described by a public reimplementation of the figure, has 90 coordinates in three dense blocks, each
with 30 eigenvalues sampled from {1, 2, 3}, {99, 100, 101} or {4998, 4999, 5000}; then one such block alone. Adam has β1
= 0 and β2 = 1, so that the first gradient sets its scaling. The reimplementation codes β2 = 1 as AdaGrad, which sums
squared gradients, at lr 0.1. That is a different method; it is run too, also at lr 10.

    python experiments/adam_mini_blockwise.py [fast=true]
"""

import sys

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots
from quadsim._random import stream
from quadsim.cli import main as cli
from quadsim.engine import table
from quadsim.reproduce import Check, Reproduction

TOL = 1e-6
LEVELS = ((1.0, 2.0, 3.0), (99.0, 100.0, 101.0), (4998.0, 4999.0, 5000.0))
PROBLEMS = {"three blocks": LEVELS, **{"{" + ", ".join(f"{x:g}" for x in one) + "}": (one,) for one in LEVELS}}
SHOWN = list(PROBLEMS)[:2]
FROZEN, ADAGRAD = [qs.GD(), qs.FrozenAdam(), qs.BlockGD()], [qs.AdaGrad(lr=lr, eps=1e-8) for lr in (0.1, 10.0)]
COPIED = {
    "three blocks": (50_000, 3.36e-113),
    SHOWN[1]: (1000, 9.22e-3),
}  # the reimplementation's steps, and the gradient norm after them


def measure(fast):
    """Steps to 1e-6 of each draw; bands of the gradient norm; final gradient norms of the reimplementation."""
    seeds, draws, bands, copied = range(12 if fast else 100), [], [], []
    for name, levels in PROBLEMS.items():

        def problem_of(seed, levels=levels, name=name):
            values = [stream(seed, "eigenvalues", int(level[0])).choice(level, 30) for level in levels]
            return qs.BlockQuadratic.from_spectra(values, seed=seed, name=name)

        how = {"seed": seeds, "tol": TOL, "threads": 1}
        runs = list(qs.solve(problem_of, FROZEN, engine="closed-form", max_steps=10**9, **how))
        if name in SHOWN:
            added = [qs.solve(problem_of, optimizer, max_steps=20_000, **how) for optimizer in ADAGRAD]
            for group in (runs, *added):
                lr = group[0].optimizer.lr if group is not runs else None
                bands.append(table.bands(group, points=100).assign(lr=lr))
            runs += [run for group in added for run in group]
            steps, _ = COPIED[name]
            ends = qs.solve(problem_of, ADAGRAD[0], seed=seeds, tol=0, max_steps=steps, record=steps, threads=1)
            copied += [{"problem": name, "seed": run.seed, "gradient": run.grad_norm[-1]} for run in ends]
        for run in runs:
            kind, lr = run.optimizer.name, run.optimizer.lr if run.optimizer.name == "adagrad" else None
            draws.append((name, kind, run.seed, run.steps_to_tol, lr))
    columns = ["problem", "optimizer", "lr", "step", "lower", "median", "upper"]
    joined = pd.concat(bands)[columns].round({"lower": 9, "median": 9, "upper": 9})
    draws = pd.DataFrame(draws, columns=["problem", "optimizer", "seed", "steps_to_tol", "lr"])
    return {"": draws, "-bands": joined, "-copy": pd.DataFrame(copied)}


def steps_of(tables, name):
    """Steps of GD, Adam and block GD, one row per draw."""
    rows = tables[""][(tables[""]["problem"] == name) & tables[""]["lr"].isna()]
    return rows.pivot(index="seed", columns="optimizer", values="steps_to_tol")


def check(tables):
    whole, order = steps_of(tables, SHOWN[0]), ["block-gd", "frozen-adam", "gd"]
    ordered = (whole[order[0]] < whole[order[1]]) & (whole[order[1]] < whole[order[2]])
    blocks = {name: steps_of(tables, name) for name in list(PROBLEMS)[1:]}
    ahead = [(steps["gd"] < steps["frozen-adam"]).mean() for steps in blocks.values()]
    pairs = ", ".join(f"{one['gd'].median():.0f} and {one['frozen-adam'].median():.0f}" for one in blocks.values())
    ends = tables["-copy"].groupby("problem")["gradient"].agg(["min", "max"])
    within = [ends.loc[name, "min"] <= norm <= ends.loc[name, "max"] for name, (_, norm) in COPIED.items()]
    return [
        Check(
            "three dense blocks",
            "blockwise rates beat Adam, Adam beats a single rate",
            f"medians of {', '.join(f'{whole[one].median():,.0f}' for one in order)} steps; "
            f"in this order in {ordered.mean():.0%} of draws",
            whole[order].median().is_monotonic_increasing and ordered.mean() > 0.5,
        ),
        Check(
            "one dense block alone",
            "one good rate beats Adam",
            f"GD and Adam take {pairs} steps; GD ahead in {min(ahead):.0%} of draws",
            min(ahead) > 0.5,
        ),
        Check(
            "a reimplementation with AdaGrad, lr 0.1",
            " and ".join(f"‖g‖ = {norm:.1e} after {steps:,} steps" for steps, norm in COPIED.values()),
            " and ".join(f"{ends.loc[name, 'min']:.0e} to {ends.loc[name, 'max']:.0e}" for name in COPIED),
            all(within),
        ),
    ]


def draw(tables):
    medians = {name: steps_of(tables, name).median() for name in PROBLEMS}
    count = tables[""]["seed"].nunique()
    whole, alone = medians[SHOWN[0]], medians[SHOWN[1]]
    title = (
        f"On three dense blocks one learning rate per block takes {whole['block-gd']:.0f} steps, Adam "
        f"{whole['frozen-adam']:,.0f} and GD {whole['gd']:,.0f}; on one of them GD takes {alone['gd']:.0f} and "
        f"Adam {alone['frozen-adam']:.0f}"
    )
    caption = (
        "python experiments/adam_mini_blockwise.py. After figure 4 of arXiv 2406.16793: 30 eigenvalues per block, "
        f"sampled from {', '.join(list(PROBLEMS)[1:])}, in Haar bases. Gradient norm to {TOL:g}, medians and quartiles "
        f"of {count} draws (seeds 0 to {count - 1}). Adam: β1 = 0, β2 = 1 (scaled by the first gradient), at its best "
        "rate; GD and block GD at 2/(μ + L). AdaGrad, used there for β2 = 1, sums squared gradients."
    )
    with plots.canvas(1, 2, title=title, caption=caption, height=2.5, sharey=True) as (figure, panels):
        for axes, name in zip(panels, SHOWN, strict=True):
            bands = tables["-bands"][tables["-bands"]["problem"] == name]
            for (optimizer, lr), band in bands.groupby(["optimizer", "lr"], dropna=False):
                if optimizer != "block-gd" or name == SHOWN[0]:  # on one block it is GD
                    draw_band(axes, band, optimizer, lr)
            axes.set(xscale="log", yscale="log", xlim=(0.8, 6e4), ylim=(TOL / 1.5, 3), xlabel="steps")
            plots.power_ticks(axes)
        panels[0].set(ylabel="gradient norm / initial value", title="Three blocks of 30")
        panels[1].set(title=f"One block of 30, {SHOWN[1]}")
        for panel, optimizer, label, at in (
            (0, "gd", "GD", (0.88, 0.76)), (0, "frozen-adam", "Adam, β2 = 1", (0.27, 0.5)),
            (0, "adagrad", "AdaGrad, lr 0.1", (0.27, 0.42)), (0, "adagrad", "AdaGrad, lr 10", (0.15, 0.72)),
            (0, "block-gd", "Block GD", (0.015, 0.04)), (1, "gd", "GD", (0.06, 0.4)),
        ):  # fmt: skip
            axes, colour = panels[panel], plots.style_of(optimizer).colour
            axes.text(*at, label, transform=axes.transAxes, color=colour, fontsize=7.5, fontweight="bold")
    return figure


def draw_band(axes, band, optimizer, lr):
    """A band down to the tolerance, and its median."""
    band, colour = band[band["step"] > 0], plots.style_of(optimizer).colour
    arrived = band["median"].le(TOL).to_numpy()
    line = band.iloc[: int(np.argmax(arrived)) + 1 if arrived.any() else len(band)]
    stroke = plots.style_of(optimizer).stroke if lr != 10 else (0, (1.5, 1.5))
    low, high = (band[side].clip(lower=TOL) for side in ("lower", "upper"))
    axes.fill_between(band["step"], low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(line["step"], line["median"].clip(lower=TOL), color=colour, linestyle=stroke)


REPRODUCTION = Reproduction(
    "adam-mini-blockwise", "Zhang et al. (Adam-mini), figure 4", measure, check, draw, arxiv="2406.16793", order=90
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
