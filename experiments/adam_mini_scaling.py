"""Adam's scaling on one dense block, after Adam-mini (arXiv 2406.16793): r = κ(D H_b)/κ(H_b) against τ.

D = diag(1/|H_b x|) with x Gaussian is frozen Adam's scaling, so κ(D H_b), the ratio of eigenvalues, is κ_eff. τ =
Σ|h_ii|/Σ|h_ij| measures how diagonal a block is; as published, it is varied by rotating the eigenvectors only, here
from the coordinate axes to a Haar basis. The sizes, κ and eigenvalues of the published figure are not known; here
eigenvalues are evenly spaced in their logarithm from 1 to κ. All averages are medians, because κ_eff has no mean. Last,
Case 3 with larger blocks.

    python experiments/adam_mini_scaling.py [fast=true]
"""

import sys

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots, theory
from quadsim.cli import main as cli
from quadsim.reproduce import Check, Reproduction

ROTATIONS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
CELLS = ((3, 5000), (10, 5000), (30, 5000), (64, 5000), (30, 50), (30, 500), (30, 50000))  # size and κ
EARLIER = {
    1: 4.7,
    3: 19,
    10: 76,
    30: 309,
    100: 1095,
}  # Case 3 by block size: medians of κ_eff from an earlier measurement
THEIR_DRAWS = 200  # assumed: the number of draws behind each was not recorded


def measure(fast):
    """Quartiles of r for each size, κ and rotation, with the median τ; κ_eff of each draw of Case 3 by block size."""
    rows = []
    for size, kappa in CELLS:
        if fast and size > 30:
            continue
        draws = range(40 if fast else 200)
        for rotation in ROTATIONS[::7] if fast and kappa != 5000 else ROTATIONS:
            blocks = [
                qs.BlockQuadratic.from_spectra([np.geomspace(1, kappa, size)], seed=seed, rotation=rotation)
                for seed in draws
            ]
            r = [
                theory.kappa_eff(block, e0=block.initial_error(seed)) / kappa
                for seed, block in zip(draws, blocks, strict=True)
            ]
            tau = [np.trace(block.blocks[0]) / theory.norm_11(block) for block in blocks]
            rows.append((size, kappa, rotation, len(draws), np.median(tau), *np.quantile(r, (0.25, 0.5, 0.75))))
    case_3 = []
    for size in EARLIER:
        count = (16 if fast else 120) if size == 100 else 200 if fast else 1000
        problems = (qs.case(3, seed=seed, block_size=size) for seed in range(count))
        values = [theory.kappa_eff(problem, e0=problem.initial_error(seed)) for seed, problem in enumerate(problems)]
        half_width = 0.98 * np.sqrt(1 / count + 1 / THEIR_DRAWS)  # 95 % band of two medians' difference
        levels = (0.25, 0.5 - half_width, 0.5, 0.5 + half_width, 0.75)
        case_3.append((size, count, *np.quantile(values, levels)))
    columns = ["size", "kappa", "rotation", "draws", "tau", "lower", "median", "upper"]
    case_3_columns = ["size", "draws", "lower", "low", "median", "high", "upper"]
    return {
        "": pd.DataFrame(rows, columns=columns).round(6),
        "-case-3": pd.DataFrame(case_3, columns=case_3_columns).round(3),
    }


def check(tables):
    cells, case_3 = tables[""], tables["-case-3"]
    correlations = cells.groupby(["size", "kappa"]).apply(ranked, include_groups=False)
    dense, diagonal = (cells[cells["rotation"] == at].set_index(["size", "kappa"])["median"] for at in (1, 0))
    above, below = dense[dense <= 1], diagonal[diagonal >= 1]
    return [
        Check(
            "r against τ, other things equal",
            "the denser the block (smaller τ), the larger r",
            f"rank correlation of medians {correlations.min():.2f} to {correlations.max():.2f} in "
            f"{len(correlations)} blocks",
            correlations.max() <= -0.9,
        ),
        Check(
            "dense blocks (Haar basis)",
            "r above 1: the scaling hurts",
            f"medians {dense.min():.2g} (n = {dense.idxmin()[0]}) to {dense.max():.2g}; above 1 in "
            f"{len(dense) - len(above)} of {len(dense)} blocks",
            above.empty,
            "three coordinates gain a little even in a Haar basis; the published sizes are not known"
            if set(above.index) == {(3, 5000)}
            else "",
        ),
        Check(
            "diagonal blocks (τ = 1)",
            "r far below 1: the scaling helps",
            f"medians {diagonal.min():.2g} to {diagonal.max():.2g}; below 1 in {len(diagonal) - len(below)} of "
            f"{len(diagonal)} blocks",
            below.empty,
            f"κ_eff ≈ n√(2 ln n) whatever κ is: at n = 30 it is {diagonal[30, 50] * 50:.0f}, above κ = 50"
            if set(below.index) == {(30, 50)}
            else "",
        ),
        by_size(case_3),
    ]


def ranked(cell):
    """Spearman's rank correlation of τ and r."""
    return cell["tau"].rank().corr(cell["median"].rank())


def by_size(case_3):
    """The earlier medians lie within the 95 % sampling band of both measurements."""
    earlier = case_3["size"].map(EARLIER)
    return Check(
        "κ_eff of Case 3 with blocks of " + ", ".join(map(str, case_3["size"])),
        "medians " + ", ".join(f"{value:g}" for value in earlier) + f", assuming {THEIR_DRAWS} draws each",
        "medians " + ", ".join(f"{value:.3g}" if value < 1000 else f"{value:.0f}" for value in case_3["median"]),
        earlier.between(case_3["low"], case_3["high"]).all(),
    )


def draw(tables):
    cells, case_3 = tables[""], tables["-case-3"]
    at = cells.set_index(["size", "kappa", "rotation"])["median"]
    title = (
        "The denser the block, the less Adam's scaling helps: for 30 eigenvalues from 1 to 5000, κ(DH)/κ(H) rises "
        f"from {at[30, 5000, 0]:.2g} for a diagonal block to {at[30, 5000, 1]:.2g} in a random basis"
    )
    draws, sizes = cells.groupby("size")["draws"].max(), case_3["draws"]
    caption = (
        "python experiments/adam_mini_scaling.py; after arXiv 2406.16793. r = κ(DH)/κ(H), D = diag(1/|Hx|), x Gaussian,"
        " τ = Σ|h_ii|/Σ|h_ij|. Eigenvalues evenly spaced in their logarithm from 1 to κ, bases on the geodesic from "
        f"the axes (τ = 1) to a Haar basis. Medians and quartiles of {draws.max()} draws (seeds from 0). "
        f"Right: κ_eff of Case 3's three blocks, {sizes.max()} draws ({sizes.min()} for n = 100); crosses: "
        "medians measured earlier; dashed: the exact median for a diagonal H of the same dimension."
    )
    with plots.canvas(1, 3, title=title, caption=caption, height=2.3) as (figure, panels):
        left, middle, right = panels
        for axes, groups, name in (
            (left, [(size, 5000) for size in (3, 10, 30, 64)], "Block sizes n, κ = 5000"),
            (middle, [(30, kappa) for kappa in (50, 500, 5000, 50000)], "Condition numbers κ, n = 30"),
        ):
            for number, (size, kappa) in enumerate(groups):
                cell = cells[(cells["size"] == size) & (cells["kappa"] == kappa)].sort_values("tau")
                if cell.empty:
                    continue
                colour = plots.PALETTE[number]
                axes.fill_between(cell["tau"], cell["lower"], cell["upper"], color=colour, alpha=0.15, linewidth=0)
                label = f"n = {size}" if axes is left else f"κ = {kappa:,}"
                axes.plot(cell["tau"], cell["median"], color=colour, marker="o", markersize=2.5, label=label)
            axes.axhline(1, color="#555555", linewidth=0.9, linestyle=(0, (4, 2.5)), zorder=0)
            axes.set(yscale="log", ylim=(4e-4, 200), xlim=(0, 1.02), xlabel="τ: dense → diagonal", title=name)
            plots.power_ticks(axes, x=False)
            handles = axes.get_legend_handles_labels()[0][:: -1 if axes is left else 1]  # in the order of the lines
            axes.legend(
                handles=handles, frameon=False, fontsize=7, loc="lower left", handlelength=1.2, labelspacing=0.25
            )
        left.set_ylabel("r = κ(DH)/κ(H)")
        colour, dashed = plots.CASE_COLOURS[0], (0, (4, 2.5))
        right.fill_between(case_3["size"], case_3["lower"], case_3["upper"], color=colour, alpha=0.2, linewidth=0)
        right.plot(case_3["size"], case_3["median"], color=colour, marker="o", markersize=3, label="Case 3")
        right.plot(list(EARLIER), list(EARLIER.values()), "x", color="#222222", markeredgewidth=1.2, label="earlier")
        law = [theory.diagonal_kappa_eff_median(3 * size) for size in case_3["size"]]
        right.plot(case_3["size"], law, color="#555555", linewidth=0.9, linestyle=dashed, label="diagonal H")
        right.legend(frameon=False, fontsize=7, loc="upper left", handlelength=1.4, labelspacing=0.25)
        right.set(xscale="log", yscale="log", xlabel="block size n", ylabel="κ_eff", title="Case 3 by block size")
        plots.power_ticks(right)
    return figure


REPRODUCTION = Reproduction(
    "adam-mini-scaling",
    "Zhang et al. (Adam-mini), scaling of a dense block",
    measure,
    check,
    draw,
    arxiv="2406.16793",
    order=80,
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
