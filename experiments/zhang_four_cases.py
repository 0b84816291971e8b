"""The four cases of Zhang et al., "Why Transformers Need Adam" (arXiv 2402.16788): GD and Adam with β2 = 1.

50 draws of bases and starts, quartiles as bands, and the theoretical rates: after the first steps GD's gradient
decreases by the factor (κ − 1)/(κ + 1) per step, and Adam's by (κ_eff − 1)/(κ_eff + 1), with κ_eff of the draw.

    python experiments/zhang_four_cases.py [fast=true]
"""

import sys

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots, theory
from quadsim.cli import main as cli
from quadsim.engine import table
from quadsim.reproduce import Check, Reproduction

TOL = 1e-6
OPTIMIZERS = (qs.GD(), qs.FrozenAdam())
KINDS = {1: "GPT2's blocks", 2: "ResNet18's blocks", 3: "different blocks", 4: "similar blocks"}
RATE = "({0}\u00a0−\u00a01)/({0}\u00a0+\u00a01)"  # does not break at the end of a line
SLOWER = {  # why Adam may be slower than GD
    2: "each block spans the whole range in a Haar basis, where no diagonal scaling helps; "
    "how the published spectra were sampled is not known, and under other recipes GD and Adam are similar",
    4: "the median of κ_eff is above κ in this case",
}


def measure(fast):
    """Bands of the gradient norm; for each draw the steps to 1e-6 and the theoretical rate."""
    runs, draws = [], []
    for number in (1, 2, 3, 4):
        seeds = range(15 if fast else 50)
        done = qs.solve(
            lambda seed: qs.case(number, seed=seed),  # noqa: B023
            OPTIMIZERS,
            seed=seeds,
            tol=TOL,
            max_steps=10**12,
            engine="closed-form",
        )
        runs += list(done)
        for run in done:
            problem = qs.case(number, seed=run.seed)
            rate = np.sqrt(theory.rate(problem, run.optimizer, e0=problem.initial_error(run.seed)))  # of g
            draws.append((number, run.optimizer.name, run.seed, run.steps_to_tol, rate))
    bands = table.bands(runs, points=120).round({"lower": 9, "median": 9, "upper": 9})
    bands["case"] = bands["problem"].str.removeprefix("case ").astype(int)
    columns = ["case", "optimizer", "seed", "steps_to_tol", "rate"]
    return {
        "": pd.DataFrame(draws, columns=columns),
        "-bands": bands[["case", "optimizer", "step", "lower", "median", "upper"]],
    }


def medians(draws):
    """Median steps of GD and of Adam in each case, and the share of draws in which Adam needs fewer."""
    steps = draws.pivot(index=["case", "seed"], columns="optimizer", values="steps_to_tol")
    ahead = (steps["frozen-adam"] < steps["gd"]).groupby("case").mean()
    return steps.groupby("case").median().assign(ahead=ahead)


def check(tables):
    summary, draws = medians(tables[""]), tables[""]["seed"].nunique()
    checks = []
    for number, kind in KINDS.items():
        gd, adam, ahead = summary.loc[number, ["gd", "frozen-adam", "ahead"]]
        share = f"ahead in {ahead:.0%} of {draws} draws"
        if number in (1, 3):
            published, holds, why = "GD much slower than Adam", gd / adam >= 5 and ahead >= 0.9, ""
            measured = f"GD takes {gd / adam:,.0f} times as long; Adam {share}"
        else:
            published, holds = "GD about as fast as Adam", 0.5 <= adam / gd <= 2
            measured = f"Adam takes {adam / gd:.2g} times as long; {share}"
            why = SLOWER[number] if adam / gd > 2 else ""
        checks.append(Check(f"Case {number} ({kind})", published, measured, holds, why))
    return [*checks, slopes(tables)]


def slopes(tables):
    """GD's medians decrease at the median rate between 1e-3 and 1e-5."""
    off = []
    for (number, name), band in tables["-bands"].groupby(["case", "optimizer"]):
        late = band[(band["median"] < 1e-3) & (band["median"] > 1e-5)]
        if name != "gd" or len(late) < 5:
            continue  # each draw of Adam has a different rate, so the median has none
        slope = np.polyfit(late["step"], np.log(late["median"]), 1)[0]
        selected = tables[""][(tables[""]["case"] == number) & (tables[""]["optimizer"] == name)]
        off.append(slope / np.log(selected["rate"].median()) - 1)
    worst = max(off, key=abs)
    return Check(
        "GD's slope in all cases", "the rate (κ − 1)/(κ + 1)", f"within {abs(worst):.2%} of it", abs(worst) < 0.02
    )


def draw(tables):
    summary, bands, steps = medians(tables[""]), tables["-bands"], tables[""]
    count = tables[""]["seed"].nunique()
    fold = {number: summary.loc[number, "gd"] / summary.loc[number, "frozen-adam"] for number in summary.index}
    title = (
        f"Where blocks differ GD takes {fold[1]:.0f} (Case 1) and {fold[3]:.0f} times (Case 3) as long as Adam; "
        f"where they are alike Adam takes {1 / fold[2]:.1f} (Case 2) and {1 / fold[4]:.1f} times (Case 4) as long as GD"
    )
    caption = (
        f"python experiments/zhang_four_cases.py. After arXiv 2402.16788. Gradient norm to {TOL:g}, medians and "
        f"quartiles of {count} draws of bases and starts (seeds 0 to {count - 1}); Adam with β1 = 0, β2 = 1 at its "
        "best learning rate, GD at 2/(μ + L). Dashed: the theoretical rate of the median draw, "
        f"{RATE.format('κ')} for GD and {RATE.format('κ_eff')} for Adam."
    )
    names = {
        1: "Case 1: GPT2's blocks",
        2: "Case 2: ResNet18's blocks",
        3: "Case 3: {1, 2, 3} {99, …} {4998, …}",
        4: "Case 4: {1, 99, 4998} {2, …} {3, …}",
    }
    with plots.canvas(2, 2, title=title, caption=caption, height=1.95) as (_, panels):
        for axes, number in zip(panels, names, strict=True):
            far = 1.6 * steps[steps["case"] == number].groupby("optimizer")["steps_to_tol"].quantile(0.75).max()
            for optimizer in OPTIMIZERS:
                band = bands[(bands["case"] == number) & (bands["optimizer"] == optimizer.name)]
                draw_band(axes, band, optimizer, tables[""], number)
            axes.set(xscale="log", yscale="log", xlim=(0.8, far), ylim=(TOL / 2, 2.5), title=names[number])
            plots.power_ticks(axes)
        for axes in panels[::2]:
            axes.set_ylabel("gradient norm / initial value")
        for axes in panels[2:]:
            axes.set_xlabel("steps")
        for optimizer, at in zip(OPTIMIZERS, ((0.97, 0.86), (0.05, 0.12)), strict=True):
            style = plots.style_of(optimizer.name)
            text = {"color": style.colour, "fontweight": "bold", "ha": "right" if at[0] > 0.5 else "left"}
            panels[0].text(*at, style.label, transform=panels[0].transAxes, **text)
    return panels[0].get_figure()


def draw_band(axes, band, optimizer, draws, number):
    """A band, its median down to the tolerance, and the rate of the median draw, ending where the median does."""
    colour = plots.style_of(optimizer.name).colour
    band = band[band["step"] > 0]
    arrived = band["median"].le(TOL).to_numpy()
    line = band.iloc[: int(np.argmax(arrived)) + 1 if arrived.any() else len(band)]
    axes.fill_between(
        band["step"], band["lower"].clip(lower=TOL), band["upper"].clip(lower=TOL), color=colour, alpha=0.2, linewidth=0
    )
    axes.plot(line["step"], line["median"].clip(lower=TOL), color=colour)
    selected = draws[(draws["case"] == number) & (draws["optimizer"] == optimizer.name)]
    end, rate = selected["steps_to_tol"].median(), selected["rate"].median()
    steps = np.linspace(max(0, end + np.log(TOL) / -np.log(rate)), end, 200)[1:]
    axes.plot(steps, TOL * rate ** (steps - end), color="#222222", linewidth=0.9, linestyle=(0, (4, 2.5)))


REPRODUCTION = Reproduction(
    "zhang-four-cases", "Zhang et al., the four cases", measure, check, draw, arxiv="2402.16788", order=10
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
