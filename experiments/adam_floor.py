"""Where Adam ends with β2 < 1 and a constant learning rate: on a floor of height (η²/8)·SDP(H), not at the minimum.

Bock & Weiß (arXiv 2210.02070) show that Adam with a constant learning rate has cycles of two points on quadratics; that
it does not converge is also shown by Da Silva & Gazeau (1810.13108) and Bai et al. (2603.09581). Ledger 5a to 5h state
the height of the floor. Here the loss is averaged at the end of long runs: Cases 3 and 4, dense blocks of six, a block
without a stable cycle, a pair with two, and pairs whose lower cycle has just lost its stability. SDP(H) is the maximum
of ⟨H, X⟩ over all positive semidefinite X with a unit diagonal; it is tr(H) for a diagonal H. How far below
(η²/8)·SDP(H) the floor can be is open.

    python experiments/adam_floor.py [fast=true]
"""

import sys

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots, theory
from quadsim.cli import main as cli
from quadsim.reproduce import Check, Reproduction

ARRIVAL_STEPS = 30_000  # before averaging
WINDOWS, SETTLING_STEPS, WINDOW_STEPS = 4, 1000, 3000  # averaging windows, each preceded by settling steps
RATES = [float(f"{lr:.3g}") for lr in np.geomspace(1e-4, 1, 9)]
START_SCALE = 0.1  # of the Gaussian starts: far from the floor for small lr, yet the floor is reached soon
BETAS = (0.3, 0.5, 0.7, 0.9, 0.97, 0.99)
FIXED = (0.01, 0.99)  # lr and β2, where the other one is varied
FRUSTRATED = {0.9: 3.7839, 0.99: 3.8891}  # ledger 5g: 8/η² times the floor, where SDP(H) = 3.9
PAST_THRESHOLD = "pairs past their threshold"
UNSTABLE_PAIRS = {  # ledger 5g-envelope: by β2, b of [[1, −b], [−b, 1]], e₀/η with v₀ = g₀², and q
    0.6: (0.162, (0.4825, 0.4989), 0.335),
    0.7: (0.102, (0.513, 0.487), 0.228),
    0.8: (0.06, (0.467, 0.4675), 0.146),
}
NOISE = 2e-3  # of the mean of an aperiodic loss at β2 = 0.99
DASHED = {"color": "#222222", "linewidth": 0.9, "linestyle": (0, (4, 2.5)), "zorder": 0}
DOTTED = {"color": "#555555", "linewidth": 0.9, "linestyle": ":", "zorder": 0}


def dense(seed):
    """A Haar basis with eigenvalues between 1 and 1000, uniform in their logarithm."""
    values = np.sort(10 ** np.random.default_rng([6, seed]).uniform(0, 3, 6))
    return qs.BlockQuadratic.from_spectra([values], seed=seed)


def measure(fast):
    """The mean loss at the end of each run, with (η²/8)·SDP(H) and (η²/8)·tr(H)."""
    draws, rows = (12, 12, 12, 6, 6) if fast else (60, 60, 60, 10, 10), []
    problems = {
        "Case 3": lambda seed: qs.case(3, seed=seed),
        "Case 4": lambda seed: qs.case(4, seed=seed),
        "dense blocks": dense,
        "frustrated block": lambda _: qs.BlockQuadratic.from_blocks(
            [1.3 * np.eye(3) - 0.3]
        ),  # no sign pattern suits all couplings
        "pair": lambda _: qs.BlockQuadratic.from_blocks([[[1, -0.18], [-0.18, 1]]]),
    }
    for (name, problem_of), count in zip(problems.items(), draws, strict=True):
        for seed in range(count):
            problem = problem_of(seed)
            value, trace = theory.sdp_value(problem).value, float(np.trace(problem.hessian()))
            settings = [(FIXED[0], beta2) for beta2 in BETAS]
            if name.startswith("Case") and seed < 10:
                settings += [(lr, FIXED[1]) for lr in RATES if lr != FIXED[0]]
            adams = [qs.Adam(lr=lr, beta1=0.0, beta2=beta2, eps=0.0) for lr, beta2 in settings]
            e0 = problem.initial_error(seed)
            far, near = START_SCALE * e0, FIXED[0] / 2 * (1 + 0.01 * e0)
            means = mean_losses(problem, adams, near if name == "pair" else far)
            for (lr, beta2), mean in zip(settings, means, strict=True):
                rows.append((name, seed, lr, beta2, mean, lr**2 * value / 8, lr**2 * trace / 8))
    for beta2, (b, start, _) in UNSTABLE_PAIRS.items():
        problem = qs.BlockQuadratic.from_blocks([[[1, -b], [-b, 1]]])
        adam = qs.Adam(lr=FIXED[0], beta1=0.0, beta2=beta2, eps=0.0, init="gradient")
        # a restart would leave an orbit with so small a basin, so every 15th step is recorded: odd, to see both ends
        run = qs.solve(problem, adam, w0=FIXED[0] * np.array(start), tol=0, max_steps=60_000, record=15)
        unit = FIXED[0] ** 2 / 8
        rows.append((PAST_THRESHOLD, 0, *FIXED[:1], beta2, run.loss[2000:].mean(), unit * (2 + 2 * b), unit * 2))
    floors = pd.DataFrame(rows, columns=["problem", "seed", "lr", "beta2", "floor", "law", "trace"])
    shorter = floors[["floor", "law", "trace"]].map(lambda value: float(f"{value:.9g}"))
    return {"": floors.assign(**shorter)}


def mean_losses(problem, adams, e0):
    """The mean loss of each optimizer at the end; 0 if its run stopped early.

    All steps are averaged: on an orbit of period k every k-th loss alone would be biased. At most 4096 steps can be
    recorded, so runs are restarted from their last error, after which v settles quickly.
    """
    how = {"tol": 0, "threads": 1}
    runs = qs.solve(problem, adams, e0=e0, max_steps=ARRIVAL_STEPS, **how)
    arrived, parts = [run.last_step == ARRIVAL_STEPS for run in runs], []
    for _ in range(WINDOWS):
        errors = [[run.error for run in runs]]  # of shape (seeds, optimizers, dim)
        runs = qs.solve(problem, adams, e0=errors, max_steps=SETTLING_STEPS + WINDOW_STEPS, record=1, **how)
        complete = [run.last_step == SETTLING_STEPS + WINDOW_STEPS for run in runs]
        parts.append(
            [run.loss[-WINDOW_STEPS:].mean() if whole else 0.0 for run, whole in zip(runs, complete, strict=True)]
        )
    return np.where(arrived & np.all(parts, axis=0), np.mean(parts, axis=0), 0)


def slopes(floors):
    """The exponent of lr in the floor, for each draw in which it was varied."""
    varied = floors[(floors["beta2"] == FIXED[1]) & (floors["seed"] < 10) & floors["problem"].str.startswith("Case")]
    varied = varied[varied["floor"] > 0]
    logs = varied.assign(x=np.log(varied["lr"]), y=np.log(varied["floor"]))
    return logs.groupby(["problem", "seed"])[["x", "y"]].apply(lambda value: np.polyfit(value["x"], value["y"], 1)[0])


def at_fixed(floors, name):
    """One problem's draws at the fixed lr and β2, with the floor relative to the trace."""
    group = floors[(floors["problem"] == name) & (floors["lr"] == FIXED[0]) & (floors["beta2"] == FIXED[1])]
    return group.assign(by_trace=group["floor"] / group["trace"], sdp_by_trace=group["law"] / group["trace"])


def check(tables):
    floors = tables[""]
    slope, ended = slopes(floors), (floors["floor"] > 0).mean()
    three, four = (at_fixed(floors, f"Case {number}")["by_trace"] for number in (3, 4))
    q, rest = 1 - floors["floor"] / floors["law"], 1 - floors["beta2"]
    past, late = floors["problem"] == PAST_THRESHOLD, floors["beta2"] >= 0.9
    stable, stated = rest / (2 - rest), np.array([value[2] for value in UNSTABLE_PAIRS.values()])
    wandering = floors[floors["problem"] == "frustrated block"]
    height = (8 * wandering["floor"] / wandering["lr"] ** 2).groupby(wandering["beta2"]).mean()[list(FRUSTRATED)]
    return [
        Check(
            "constant η and β2 < 1, Cases 3 and 4",
            "Adam does not converge (2210.02070); the floor is ∝ η² (ledger 6)",
            f"a floor in {ended:.0%} of {len(floors):,} runs; η^{slope.min():.4f} to η^{slope.max():.4f}",
            ended == 1 and np.abs(slope - 2).max() <= 0.01,
        ),
        Check(
            "Case 3, floor/((η²/8)·tr(H))",
            "1.00037 on average, 1.0001 to 1.0006 (ledger 5h)",
            f"{three.mean():.5f} on average, {three.min():.5f} to {three.max():.5f}",
            three.min() >= 1.0001 and three.max() <= 1.0006,
        ),
        Check(
            "Case 4, floor/((η²/8)·tr(H))",
            "not 1: 2.22 on average, 1.47 to 2.73 (ledger 5h)",
            f"{four.mean():.2f} on average, {four.min():.2f} to {four.max():.2f}",
            abs(four.mean() - 2.22) <= 0.15 and four.min() >= 1.3 and four.max() <= 3,
        ),
        Check(
            "floor = (1 − q)(η²/8)·SDP(H)",
            "q ≥ 0; 3.7839 and 3.8891 of 3.9 in a frustrated block at β2 = 0.9 and 0.99 (ledger 5g)",
            f"q from {q.min() + 0.0:.0e} to {q[late].max():.3f} at β2 ≥ 0.9 and {q.max():.3f} below; "
            + " and ".join(f"{value:.4f}" for value in height),
            q.min() >= -NOISE and np.abs(height - pd.Series(FRUSTRATED)).max() <= 0.002,
        ),
        Check(
            "q on a stable cycle",
            "at most (1 − β2)/(1 + β2) (ledger 5e)",
            f"up to {(q / stable)[floors['problem'] == 'pair'].max():.3f} of it, in a pair",
            (q <= stable + NOISE)[floors["problem"] == "pair"].all(),
        ),
        Check(
            "q where the lower cycle of a pair has just lost its stability",
            "0.335, 0.228 and 0.146 at β2 = 0.6, 0.7 and 0.8 (ledger 5g-envelope): no bound known",
            ", ".join(f"{value:.3f}" for value in q[past])
            + f": up to {(q / stable)[past].max():.2f}·(1 − β2)/(1 + β2)",
            np.abs(q[past].to_numpy() - stated).max() <= 0.001,
        ),
    ]


def draw(tables):
    floors = tables[""]
    names = list(dict.fromkeys(floors["problem"]))
    grey = plots.PALETTE[7]
    colours = dict(zip(names, (*plots.CASE_COLOURS[:2], grey, *plots.CASE_COLOURS[2:], "#222222"), strict=True))
    three, four = (at_fixed(floors, f"Case {number}")["by_trace"].mean() for number in (3, 4))
    counts = floors[floors["problem"] != PAST_THRESHOLD].groupby("problem", sort=False)["seed"].nunique()
    title = (
        f"Adam with β2 < 1 does not converge: it stays near (η²/8)·SDP(H), {four:.2f} times (η²/8)·tr(H) in Case 4 and "
        f"{three:.4f} times in Case 3"
    )
    caption = (
        "python experiments/adam_floor.py. After arXiv 2210.02070, 1810.13108, 2603.09581, and ledger 5. Mean loss "
        f"over {WINDOWS * WINDOW_STEPS:,} steps, after {ARRIVAL_STEPS:,} steps from {START_SCALE:g} times a "
        "Gaussian start; β1 = 0, ε = 0. Draws (seeds from 0): "
        f"{', '.join(f'{name} {count}' for name, count in counts.items())}. "
        "Left: medians of the first "
        f"{counts.clip(upper=10).max()}, lines as in the middle, where η = {FIXED[0]:g} and β2 = {FIXED[1]:g}. Right: "
        f"the largest q of all draws, η = {FIXED[0]:g}. Dense blocks: 6 × 6, eigenvalues from 1 to 1000; "
        "frustrated block: 1.3·I − 0.3·11ᵀ; pair: 1 on the diagonal, −0.18 off it, started next to its lower cycle. "
        f"Black points: {PAST_THRESHOLD} of stability (−0.162, −0.102 and −0.06 off the diagonal)."
    )
    with plots.canvas(1, 3, title=title, caption=caption, height=2.3) as (figure, (left, middle, right)):
        for name in ("Case 4", "Case 3"):
            group = floors[(floors["problem"] == name) & (floors["beta2"] == FIXED[1]) & (floors["seed"] < 10)]
            lines = group.groupby("lr")[["floor", "law", "trace"]].median()
            left.plot(lines.index, lines["law"], **DASHED)
            left.plot(lines.index, lines["trace"], **DOTTED)
            left.plot(lines.index, lines["floor"], "o", color=colours[name], markersize=4, markerfacecolor="white")
            position = {"xytext": (-7, 5), "ha": "right"} if name == "Case 4" else {"xytext": (7, -9), "ha": "left"}
            text = {"color": colours[name], "fontsize": 7.5, "fontweight": "bold", "textcoords": "offset points"}
            left.annotate(name, (0.01, lines.loc[0.01, "floor"]), **text, **position)
        past, colour = floors[floors["problem"] == PAST_THRESHOLD], colours[PAST_THRESHOLD]
        right.plot(1 - past["beta2"], 1 - past["floor"] / past["law"], "o", color=colour, markersize=3.5)
        for name in names[:-1]:
            group = at_fixed(floors, name)
            points = {"markersize": 3, "alpha": 0.7, "markeredgewidth": 0, "zorder": 1 if name == "dense blocks" else 2}
            middle.plot(group["sdp_by_trace"], group["by_trace"], "o", color=colours[name], **points)
            group = floors[(floors["problem"] == name) & (floors["lr"] == FIXED[0])]
            largest = (1 - group["floor"] / group["law"]).groupby(1 - group["beta2"]).max()
            right.plot(largest[largest > 3e-5], color=colours[name], linewidth=1.2, marker="o", markersize=2.5)
        left.set(title=f"over η (β2 = {FIXED[1]:g})", xlabel="learning rate η", ylabel="mean loss")
        left.set(xscale="log", yscale="log")
        plots.power_ticks(left)
        theory_lines(middle, right)
        group = floors[floors["problem"] == "Case 4"]
        ends = [(5e-4, "Case 3"), (6e-5, "Case 4"), (0.18, "dense blocks"), (0.08, "frustrated block"), (0.4, "pair")]
        none = {"Case 4": f"Case 4: {(1 - group['floor'] / group['law']).max():.1g}"}
        plots.label_right(right, [(at, none.get(name, name), colours[name]) for at, name in ends], size=6.8)
    return figure


def theory_lines(middle, right):
    """(η²/8)·SDP(H) and (η²/8)·tr(H); bounds on q: for stable cycles (5e), and from searches (5g-width)."""
    ends = np.array([1, middle.get_xlim()[1]])
    middle.plot(ends, ends, **DASHED)
    middle.plot(ends, [1, 1], **DOTTED)
    middle.text(ends[1], 1.08, "(η²/8)·tr(H)", fontsize=7, ha="right", color="#555555")
    middle.text(ends[1] - 0.3, ends[1] - 0.1, "(η²/8)·SDP(H)", fontsize=7, ha="right", color="#222222")
    middle.set(title="draw by draw", xticks=(1, 2, 3, 4), xlabel="SDP(H) / tr(H)", ylabel="mean loss / ((η²/8)·tr(H))")
    rest = np.geomspace(0.007, 0.95, 60)
    right.plot(rest, np.sqrt(rest), **DASHED)
    right.plot(rest, rest / (2 - rest), **DOTTED)
    right.set(xscale="log", yscale="log", ylim=(3e-5, 1.5))
    right.set(title="mean loss = (1 − q)(η²/8)·SDP(H)", xlabel="1 − β2", ylabel="largest q")
    right.text(0.007, 0.3, "√(1 − β2)", fontsize=7, color="#222222")
    right.text(1.05, 0.0012, "(1 − β2)/(1 + β2):\nstable cycles", fontsize=7, color="#555555", ha="right")
    plots.power_ticks(right)


REPRODUCTION = Reproduction(
    "adam-floor",
    "Bock & Weiß, Da Silva & Gazeau, Bai et al., Adam's floor",
    measure,
    check,
    draw,
    arxiv="2210.02070",
    order=120,
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
