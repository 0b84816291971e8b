"""The blocks' eigenvalues in Cases 1 and 2 of Zhang et al. (arXiv 2402.16788): GPT2's and ResNet18's blocks.

In the published histograms blocks differ in Case 1 and look alike in Case 2, both at condition number 5000. Here the
eigenvalues are those of the constructed Hessian blocks, over many draws from the measured spectra: 30 of each block's
40 largest magnitudes, then one shift and one scale for all blocks.

    python experiments/zhang_histograms.py [fast=true]
"""

import sys

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots
from quadsim.cli import main as cli
from quadsim.problems.cases import CASES, KAPPA, case_spectra
from quadsim.reproduce import Check, Reproduction

NETWORKS = {1: "GPT2", 2: "ResNet18"}
EDGES = np.geomspace(KAPPA**-0.02, KAPPA**1.02, 53)
MIN_RATIO_DIFFERENT, MAX_RATIO_ALIKE = 100, 10  # "orders of magnitude": two or more; "alike": within one


def measure(fast):
    """For each block and draw the ends and the median of its spectrum; for each draw the distances between blocks."""
    blocks, draws, counts = [], [], {}
    for number in NETWORKS:
        names = CASES[number].blocks
        for seed in range(10 if fast else 100):
            problem = qs.case(number, seed=seed)
            values = [np.linalg.eigvalsh(block) for block in problem.blocks]
            measured = case_spectra(number, seed=seed, map="unshifted")
            for name, spectrum, before in zip(names, values, measured, strict=True):
                ends = (spectrum[0], np.median(spectrum), spectrum[-1], before[-1])
                blocks.append((number, seed, name, *ends))
                counts[number, name] = counts.get((number, name), 0) + np.histogram(spectrum, EDGES)[0]
            own_scale = [spectrum / spectrum[-1] for spectrum in values]
            draws.append((number, seed, *map(qs.spectra.eigenvalue_distance, (values, own_scale))))
    bins = [
        (number, name, low, share)
        for (number, name), count in counts.items()
        for low, share in zip(EDGES, count / count.sum(), strict=False)
    ]
    columns = ["case", "seed", "block", "smallest", "median", "largest", "unmapped"]
    tables = {
        "": pd.DataFrame(blocks, columns=columns),
        "-draws": pd.DataFrame(draws, columns=["case", "seed", "js", "js_own_scale"]),
        "-bins": pd.DataFrame(bins, columns=["case", "block", "low", "share"]),
    }
    return {suffix: table.map(significant) for suffix, table in tables.items()}


def significant(value, digits=7):
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def ratios(blocks):
    """In each draw, the largest of the four blocks' values divided by the smallest, and the condition number."""
    by = blocks.groupby(["case", "seed"])
    spreads = by[["largest", "median", "unmapped"]].max() / by[["largest", "median", "unmapped"]].min()
    return spreads.assign(kappa=by["largest"].max() / by["smallest"].min())


def check(tables):
    spreads, draws = ratios(tables[""]), tables["-draws"].set_index(["case", "seed"])
    middle, distance = spreads.groupby("case").median(), draws.groupby("case").median()
    measured = {
        number: f"largest eigenvalues differ by a factor of {row['largest']:.3g}, medians by {row['median']:.3g}"
        for number, row in middle.iterrows()
    }
    preserved = middle["largest"] / middle["unmapped"]
    return [
        Check(
            "Case 1 (GPT2's blocks)",
            "ranges differ by orders of magnitude",
            measured[1],
            spreads.loc[1, ["largest", "median"]].to_numpy().min() >= MIN_RATIO_DIFFERENT,
        ),
        Check(
            "Case 2 (ResNet18's blocks)",
            "blocks look alike",
            measured[2],
            middle.loc[2, ["largest", "median"]].max() < MAX_RATIO_ALIKE,
        ),
        Check(
            "distance between the blocks' spectra",
            "large in Case 1, small in Case 2",
            f"JS of log λ {distance['js'][1]:.2f} and {distance['js'][2]:.2f}; each block ÷ its largest: "
            f"{distance['js_own_scale'][1]:.2f} and {distance['js_own_scale'][2]:.2f}",
            draws.loc[1, "js"].min() > 2 * draws.loc[2, "js"].max(),
        ),
        Check(
            "ranges after shift and scale",
            "relative ranges across blocks are preserved",
            f"ratio of largest eigenvalues {middle['unmapped'][1]:.3g} → {middle['largest'][1]:.3g} (Case 1), "
            f"{middle['unmapped'][2]:.2g} → {middle['largest'][2]:.2g} (Case 2)",
            preserved.between(0.5, 2).all(),
        ),
        Check(
            "condition number",
            "5000 in both cases",
            f"{spreads['kappa'].min():.7g} to {spreads['kappa'].max():.7g} in {len(spreads)} draws",
            (spreads["kappa"] / KAPPA - 1).abs().max() < 1e-6,
        ),
    ]


def draw(tables):
    spreads = ratios(tables[""]).groupby("case").median()
    count = tables[""]["seed"].nunique()
    distance = tables["-draws"].groupby("case").median()
    title = (
        f"The largest eigenvalues of GPT2's blocks differ by a factor of {spreads['largest'][1]:.0f}, those of "
        f"ResNet18's by {spreads['largest'][2]:.1f}; with each block divided by its largest, JS falls from "
        f"{distance['js'][1]:.2f} to {distance['js_own_scale'][1]:.2f} in GPT2, from {distance['js'][2]:.2f} to "
        f"{distance['js_own_scale'][2]:.2f} in ResNet18"
    )
    caption = (
        "python experiments/zhang_histograms.py. After arXiv 2402.16788. Eigenvalues of the Hessian's blocks, pooled "
        f"over {count} draws (seeds 0 to {count - 1}): 30 of each block's 40 largest magnitudes at initialization, "
        "mapped onto [1, 5000] by one affine map for all blocks. Triangle: a block's largest "
        "eigenvalue, median over draws. JS: mean Jensen–Shannon distance between blocks, of log₁₀ λ smoothed by half "
        "a decade, at most ln\u00a02 = 0.69; in brackets, with each block divided by its own largest eigenvalue."
    )
    bins, width = tables["-bins"], np.log10(EDGES[1] / EDGES[0])
    tallest = 1.12 * bins["share"].max()
    with plots.canvas(1, 2, title=title, caption=caption, height=2.6, sharey=True) as (figure, panels):
        for axes, (number, network) in zip(panels, NETWORKS.items(), strict=True):
            selected = bins[bins["case"] == number]
            for level, name in enumerate(reversed(CASES[number].blocks)):
                colour = plots.PALETTE[level]
                bars = selected[selected["block"] == name]
                widths = bars["low"] * (10**width - 1)
                axes.bar(bars["low"], bars["share"] / tallest, widths, level, align="edge", color=colour, linewidth=0)
                axes.axhline(level, color="#BBBBBB", linewidth=0.6, zorder=0)
                tops = tables[""].query("case == @number and block == @name")["largest"]
                axes.plot(tops.median(), level - 0.07, "^", color=colour, markersize=4, clip_on=False)
                text = {"color": colour, "fontsize": 7.5, "fontweight": "bold"}
                axes.text(0.02, level + 0.68, name, transform=axes.get_yaxis_transform(), **text)
            axes.set(xscale="log", xlim=(EDGES[0], EDGES[-1]), ylim=(-0.22, 4), yticks=[], xlabel="eigenvalue")
            axes.set_title(
                f"Case {number}: {network}'s blocks, JS {distance['js'][number]:.2f} "
                f"({distance['js_own_scale'][number]:.2f})"
            )
            axes.spines["left"].set_visible(False)
            plots.power_ticks(axes, y=False)
        panels[0].set_ylabel("share of a block's eigenvalues")
    return figure


REPRODUCTION = Reproduction(
    "zhang-histograms",
    "Zhang et al., eigenvalues of the blocks in Cases 1 and 2",
    measure,
    check,
    draw,
    arxiv="2402.16788",
    order=20,
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
