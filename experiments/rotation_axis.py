"""From a diagonal Hessian to a dense one: the effect of a rotation on Adam's condition number (ledger 8).

In two dimensions H = R(θ) diag(1, κ) R(θ)ᵀ, and the condition numbers of the best diagonal scaling and of frozen Adam
are known in closed form; here the first is found by search and the second from the rate of simulated runs. Then Case 4
with blocks of 3, 10 and 30, on the geodesic from the axes (rotation 0) to Haar bases (1), with ‖H‖₁,₁ = Σ|h_ij|, Adam's
smoothness constant after Xie et al. (arXiv 2410.08198), which a rotation raises.

    python experiments/rotation_axis.py [fast=true]
"""

import sys

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar

import quadsim as qs
from quadsim import plots, theory
from quadsim.cli import main as cli
from quadsim.reproduce import Check, Reproduction

KAPPA = 1000.0
LEDGER = {1: 2.867, 5: 32.06, 15: 251.5, 30: 750.5, 45: 1000.0}  # κ of the best diagonal scaling, by angle in degrees
ANGLES = (0, 1, 2, 5, 10, 15, 20, 25, 30, 35, 40, 45)
ROTATIONS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
SIZES = (3, 10, 30)
MEDIAN, SHARE = 8500, 0.28  # ledger 2f, Case 4 in Haar bases: median κ_eff, and P(κ_eff < κ)


def turned(angle):
    cosine, sine = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    q = np.array([[cosine, -sine], [sine, cosine]])
    return qs.BlockQuadratic.from_blocks([(q * (1, KAPPA)) @ q.T], name=f"{angle}°")


def measure(fast):
    """By angle: κ_eff of each run, by formula and simulated; the best scaling. By rotation: quartiles by block size."""
    runs, best, blocks = [], [], []
    for angle in ANGLES:
        problem, theta = turned(angle), np.radians(angle)
        (a, c), (_, b) = problem.blocks[0]
        bracket = (np.sqrt(a / b) / 3, np.sqrt(a / b) * 4)
        least = minimize_scalar(scaled_kappa, bracket=bracket, args=(a, b, c), tol=1e-10).fun
        best.append((angle, theory.best_scaling_kappa(KAPPA, theta), least))
        seeds = range(20 if fast else 100)
        done = qs.solve(problem, qs.FrozenAdam(), seed=seeds, max_steps=50_000, engine="compiled", threads=1)
        for run in done:
            first = np.abs(problem.hvp(problem.initial_error(run.seed)))
            ratio = (a / first[0]) / (b / first[1])
            decay = np.log(run.loss[0] / run.loss[-1]) / (2 * run.last_step)  # at the best lr, equal in every step
            runs.append((angle, run.seed, theory.kappa_eff_2d(KAPPA, theta, ratio), 1 / np.tanh(decay / 2)))
    for size in SIZES:
        for rotation in ROTATIONS[::3] if fast else ROTATIONS:
            draws = [qs.case(4, seed=seed, block_size=size, rotation=rotation) for seed in range(100 if fast else 250)]
            ratios = [
                theory.kappa_eff(case, e0=case.initial_error(seed)) / case.kappa for seed, case in enumerate(draws)
            ]
            norms = [theory.norm_11(case) / sum(np.trace(block) for block in case.blocks) for case in draws]
            quartiles = np.quantile(ratios, (0.25, 0.5, 0.75))
            below, norm = np.mean(np.less(ratios, 1)), np.median(norms)
            blocks.append((size, rotation, len(draws), *quartiles, below, norm))
    columns = ["size", "rotation", "draws", "lower", "median", "upper", "below", "norm"]
    return {
        "": pd.DataFrame(runs, columns=["angle", "seed", "formula", "simulated"]),
        "-best": pd.DataFrame(best, columns=["angle", "formula", "searched"]),
        "-blocks": pd.DataFrame(blocks, columns=columns).round(6),
    }


def scaled_kappa(u, a, b, c):
    """The condition number of [[a, c], [c, b]] with the second coordinate scaled by u."""
    b, c = b * u * u, c * u
    root = np.hypot((a - b) / 2, c)
    top = (a + b) / 2 + root
    return top * top / (a * b - c * c)


def along_the_steep(theta):
    """a₁/a₂ where the first gradient lies along the eigenvector of κ, as almost all do when κ is large."""
    cosine, sine = np.cos(theta), np.sin(theta)
    return (cosine**2 + KAPPA * sine**2) / sine / ((sine**2 + KAPPA * cosine**2) / cosine)


def crossing(blocks):
    """The rotation above which the median of κ_eff exceeds κ, interpolated log-linearly."""
    at, logs = blocks["rotation"].to_numpy(), np.log(blocks["median"].to_numpy())
    if logs[-1] <= 0:
        return None
    last = len(logs) - 1 - int(np.argmax(logs[::-1] <= 0))
    return float(np.interp(0, logs[last : last + 2], at[last : last + 2]))


def check(tables):
    runs, best, blocks = tables[""], tables["-best"].set_index("angle"), tables["-blocks"]
    off = (runs["simulated"] / runs["formula"] - 1).abs().max()
    searched = {angle: best.loc[angle, "searched"] for angle in LEDGER}
    ratios = {angle: group["simulated"] / KAPPA for angle, group in runs.groupby("angle")}
    haar = blocks[(blocks["size"] == 3) & (blocks["rotation"] == 1)].iloc[0]
    grown = blocks[blocks["rotation"] == 1]["norm"]
    ranks = [group["norm"].rank().corr(group["median"].rank()) for _, group in blocks.groupby("size")]
    return [
        Check(
            "2-D, κ_eff",
            "cosh(½ ln κ_eff) = cosh(½ ln κ_b) cosh(½ ln a₁/a₂)",
            f"agrees with the rates of {len(runs):,} runs to {off:.0e}",
            off < 1e-9,
        ),
        Check(
            "2-D, κ = 1000, best diagonal scaling at " + ", ".join(f"{angle}°" for angle in LEDGER),
            ", ".join(f"{kappa:g}" for kappa in LEDGER.values()),
            ", ".join(f"{kappa:.4g}" for kappa in searched.values()) + " by search",
            all(abs(searched[angle] / kappa - 1) < 5e-4 for angle, kappa in LEDGER.items()),
        ),
        Check(
            "2-D, 45°",
            "κ_eff ≥ κ from every start",
            f"least κ_eff/κ − 1 = {ratios[45].min() - 1:.0e}; at 30° below κ in {(ratios[30] < 1).mean():.0%} of runs",
            ratios[45].min() > 1 - 1e-9,
        ),
        Check(
            "Case 4 in Haar bases",
            f"median κ_eff = {MEDIAN:,}, below κ in {SHARE:.0%} of draws",
            f"{haar['median'] * 5000:,.0f}, in {haar['below']:.0%}",
            abs(haar["median"] * 5000 / MEDIAN - 1) <= 0.15
            and abs(haar["below"] - SHARE) <= 2 * np.sqrt(SHARE * (1 - SHARE) / haar["draws"]),
        ),
        Check(
            "‖H‖₁,₁ and Adam under rotations (arXiv 2410.08198)",
            "a rotation raises the norm, and Adam gets slower",
            f"{', '.join(f'{value:.2g}' for value in grown)} times for n = {', '.join(map(str, SIZES))}; "
            f"rank correlation with κ_eff {min(ranks):.2f} or more",
            grown.min() > 1 and min(ranks) >= 0.7,
        ),
    ]


def draw(tables):
    runs, best, blocks = tables[""], tables["-best"], tables["-blocks"]
    off = (runs["simulated"] / runs["formula"] - 1).abs().max()
    passes = [crossing(group) for _, group in blocks.groupby("size")]
    title = (
        "In blocks of 3, 10 and 30 Adam falls behind GD after "
        + ", ".join("never" if one is None else f"{100 * one:.2g}%" for one in passes)
        + " of the way from the axes to random bases; in two dimensions its condition number matches a formula to "
        f"{off:.0e}"
    )
    count, draws = runs["seed"].nunique(), int(blocks["draws"].max())
    caption = (
        f"python experiments/rotation_axis.py. Left: H = R(θ) diag(1, {KAPPA:g}) R(θ)ᵀ; κ_eff from the rate of frozen "
        f"Adam's runs, median and 90% of {count} Gaussian starts (seeds 0 to {count - 1}), dashed: by formula for a "
        "gradient along the steep eigenvector; the best diagonal scaling by search (circles) and by formula "
        "(dashed). Middle: Case 4 (κ = 5000) with blocks of n, medians and quartiles of "
        f"{draws} draws (seeds 0 to {draws - 1}). Right: the same medians against ‖H‖₁,₁ = Σ|h_ij|, Adam's smoothness "
        "constant in arXiv 2410.08198."
    )
    with plots.canvas(1, 3, title=title, caption=caption, height=2.3) as (figure, panels):
        left, middle, right = panels
        bands = runs.groupby("angle")["simulated"].quantile([0.05, 0.5, 0.95]).unstack()
        adam, gd = plots.style_of("frozen-adam").colour, plots.style_of("gd").colour
        dashed = {"color": "#222222", "linewidth": 0.8, "linestyle": (0, (4, 2.5))}
        rings = {"color": "#555555", "markersize": 3, "markerfacecolor": "white", "clip_on": False}
        left.fill_between(bands.index, bands[0.05], bands[0.95], color=adam, alpha=0.2, linewidth=0)
        left.plot(bands.index, bands[0.5], color=adam, linewidth=2.4)
        angles = np.radians(np.linspace(0.5, 45, 180))
        left.plot(np.degrees(angles), theory.best_scaling_kappa(KAPPA, angles), **dashed)
        left.plot(np.degrees(angles), theory.kappa_eff_2d(KAPPA, angles, along_the_steep(angles)), **dashed)
        left.plot(best["angle"], best["searched"], "o", **rings)
        left.axhline(KAPPA, color=gd, linewidth=1)
        left.set(yscale="log", xlim=(0, 45), ylim=(0.8, 5e3), xticks=range(0, 46, 15))
        left.set(xlabel="angle θ (degrees)", ylabel="condition number", title="Two dimensions")
        plots.power_ticks(left, x=False)
        for label, x, y, colour in (
            ("Adam", 4, 330, adam),
            ("GD: κ", 2, 1400, gd),
            ("best scaling", 15, 60, "#555555"),
        ):
            left.text(x, y, label, color=colour, fontsize=7.5, fontweight="bold")
        for number, (size, group) in enumerate(blocks.groupby("size")):
            colour = plots.PALETTE[(4, 1, 3)[number]]
            middle.fill_between(
                group["rotation"], group["lower"], group["upper"], color=colour, alpha=0.15, linewidth=0
            )
            for axes, x in ((middle, "rotation"), (right, "norm")):
                axes.plot(group[x], group["median"], color=colour, marker="o", markersize=2.5, label=f"n = {size}")
        for axes in (middle, right):
            axes.axhline(1, color=gd, linewidth=1, zorder=0)
            axes.set(yscale="log", ylim=(1e-3, 300))
            plots.power_ticks(axes, x=False)
        middle.set(xlabel="rotation: axes → Haar", ylabel="κ_eff/κ", title="Case 4", xlim=(-0.02, 1.02))
        right.set(xlabel="‖H‖₁,₁ / trace", title="Case 4 against ‖H‖₁,₁")
        handles = middle.get_legend_handles_labels()[0][::-1]  # in the order of the lines
        right.legend(handles=handles, frameon=False, fontsize=7, loc="lower right", handlelength=1.2)
    return figure


REPRODUCTION = Reproduction("rotation-axis", "Ledger 8, the rotation axis", measure, check, draw, order=140)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
