"""The distance between blocks' spectra against how far GD falls behind Adam, after Zhang et al. (arXiv 2402.16788).

Published: the larger JS⁰, the Jensen–Shannon distance between the blocks' spectra at initialization, the further SGD
falls behind Adam. Here on many quadratics: from Case 4 to Case 3, at other κ and block sizes, other laws of eigenvalues
in 2 to 8 blocks, four blocks of every measured network; and, as a control, the same eigenvalues in a diagonal basis,
which leaves JS unchanged.

    python experiments/zhang_js_gap.py [fast=true]
"""

import sys
from functools import partial

import numpy as np
import pandas as pd
from scipy.stats import rankdata, spearmanr

import quadsim as qs
from quadsim import plots
from quadsim.cli import main as cli
from quadsim.problems.cases import CASES
from quadsim.reproduce import Check, Reproduction

TOL = 1e-6
FAMILIES = ("Case 4 to Case 3", "other κ", "other block sizes", "other laws", "networks")
DIAGONAL = "diagonal basis"
TRANSFORMERS = {"gpt2": CASES[1].blocks, "gpt2-seed3": CASES[1].blocks,
                "vit-small": ("patches", "layer2.query", "layer2.value", "layer2.mlp_in"),
                "bert-mini": ("embedding", "layer2.query", "layer2.value", "layer2.mlp_in")}  # fmt: skip
CNNS = {"resnet18": CASES[2].blocks, "resnet18-seed3": CASES[2].blocks, "resnet18-training": CASES[2].blocks,
        "vgg16": ("features.0", "features.10", "features.20", "features.34")}  # fmt: skip
LABELS = {  # by network: text, offset from its point, alignment
    "gpt2": ("GPT2\n(two seeds)", (2, 24), "center"), "vit-small": ("ViT-small", (-5, 0), "right"),
    "bert-mini": ("BERT-mini", (5, 0), "left"), "resnet18": ("ResNet18 (two seeds)", (2, -14), "left"),
    "resnet18-training": ("ResNet18, training mode", (5, -4), "left"), "vgg16": ("VGG16", (5, -1), "left"),
}  # fmt: skip
SIMILAR_JS = (0.2, 0.26)
POINTS = {"markersize": 3.6, "alpha": 0.85, "markeredgewidth": 0}
NOTE = {"textcoords": "offset points", "va": "center", "fontsize": 7}


def problems():
    """(family, name, block size, function from seed to problem) of every problem."""
    shares = (0.0, 0.5, 1.0)
    specs = [("Case 4 to Case 3", f"share {h:g}", 3, {"heterogeneity": h}) for h in (0.0, 0.3, 0.6, 0.9, 1.0)]
    specs += [
        ("other κ", f"κ {κ:g}, share {h:g}", 3, {"heterogeneity": h, "kappa": κ})
        for κ in (30.0, 300.0, 1e5, 1e6)
        for h in shares
    ]
    specs += [
        ("other block sizes", f"size {n}, share {h:g}", n, {"heterogeneity": h, "block_size": n})
        for n in (6, 12, 30)
        for h in shares
    ]
    specs += [(DIAGONAL, f"share {h:g}", 3, {"heterogeneity": h, "rotation": 0.0}) for h in shares]
    for family, name, size, how in specs:
        yield family, name, size, partial(case, 3, how)
    for law in qs.spectra.LAWS:
        for blocks, size in ((2, 4), (3, 10), (8, 3), (4, 20)):
            for h in shares:
                name = f"{law}, {blocks} × {size}, share {h:g}"
                yield "other laws", name, size, partial(partitioned, law, blocks, size, h)
    for network, blocks in (TRANSFORMERS | CNNS).items():
        yield "networks", network, 30, partial(case, 1, {"network": network, "blocks": blocks})


def case(number, how, seed):
    return qs.case(number, seed=seed, **how)


def partitioned(law, blocks, size, heterogeneity, seed):
    values = qs.spectra.law(law, blocks * size, seed=seed)
    return qs.BlockQuadratic.from_spectra(qs.partition(values, blocks, heterogeneity), seed=seed)


def measure(fast):
    """For each problem the medians over draws of JS and of GD's steps divided by Adam's."""
    rows = []
    for family, name, size, problem_of in problems():
        distances, gaps = [], []
        for seed in range(4 if fast else 20):
            problem = problem_of(seed)
            gd, adam = (
                qs.exact(problem, optimizer, seed=seed, tol=TOL, max_steps=10**12, record="coarse").steps_to_tol
                for optimizer in (qs.GD(), qs.FrozenAdam())
            )
            distances.append(qs.spectra.eigenvalue_distance(problem.eigenvalues))
            gaps.append(gd / adam)
        low, gap, high = np.quantile(gaps, (0.25, 0.5, 0.75))
        rows.append((family, name, size, len(gaps), np.median(distances), gap, low, high))
    columns = ["family", "problem", "block_size", "draws", "js", "gap", "lower", "upper"]
    return {"": pd.DataFrame(rows, columns=columns).round(6)}


def correlation(rows):
    """Spearman's ρ of JS and gap, and the 95 % interval of a bootstrap over problems."""
    both = rows[["js", "gap"]].to_numpy()
    drawn = np.random.default_rng(0).integers(len(rows), size=(1000, len(rows)))
    ranks = rankdata(both[drawn], axis=1)
    apart = ranks - ranks.mean(axis=1, keepdims=True)
    resampled = np.prod(apart, axis=2).sum(axis=1) / np.sqrt(np.prod((apart**2).sum(axis=1), axis=1))
    return spearmanr(rows["js"], rows["gap"]).statistic, *np.quantile(resampled, (0.025, 0.975))


def check(tables):
    everything = tables[""]
    rows = everything[everything["family"] != DIAGONAL]
    rho, low, high = correlation(rows)
    within = {family: spearmanr(rows_of["js"], rows_of["gap"]).statistic for family, rows_of in rows.groupby("family")}
    weakest = min(within, key=within.get)
    nets = rows[rows["family"] == "networks"].set_index("problem")
    transformers, cnns = nets.loc[list(TRANSFORMERS)], nets.loc[list(CNNS)]
    like = rows[rows["js"].between(*SIMILAR_JS)]
    least, most = like["gap"].min(), like["gap"].max()
    with_size = spearmanr(like["block_size"], like["gap"]).statistic
    control = everything[everything["family"] == DIAGONAL].nsmallest(1, "js").iloc[0]
    return [
        Check(
            "rank correlation over all problems",
            "the larger JS, the further SGD falls behind",
            f"Spearman's ρ {rho:.2f} (95% interval {low:.2f} to {high:.2f}) over {len(rows)} problems",
            low > 0.5,
        ),
        Check(
            "rank correlation within families",
            "the larger JS, the further SGD falls behind",
            f"ρ {within[weakest]:.2f} at least ({weakest}), {max(within.values()):.2f} at most",
            within[weakest] > 0.5,
        ),
        Check(
            "measured networks",
            "GD behind Adam on Transformers, not on CNNs; JS larger there",
            f"GD takes {span(transformers['gap'])} and {span(cnns['gap'])} times as long; "
            f"JS {span(transformers['js'])} and {span(cnns['js'])}",
            transformers["gap"].min() > 2 > cnns["gap"].max() and transformers["js"].min() > cnns["js"].max(),
        ),
        Check(
            "problems with similar JS",
            "JS predicts how far SGD falls behind",
            f"at JS {SIMILAR_JS[0]:g} to {SIMILAR_JS[1]:g}, {least:.2g} to {most:.2g} times ({len(like)} problems)",
            most < 10 * least,
            "JS depends on neither the size of blocks nor their basis; here the gap falls with "
            f"the size (ρ = {with_size:.2f})"
            if with_size < -0.5
            else "",
        ),
        Check(
            "control: diagonal basis",
            "the smaller JS, the less SGD falls behind",
            f"GD takes {control['gap']:.0f} times as long at JS {control['js']:.3f}",
            control["gap"] < 2,
            "JS depends on eigenvalues only; in a diagonal basis Adam is fast even if blocks are alike",
        ),
    ]


def span(values):
    return f"{values.min():.2g}–{values.max():.2g}"


def draw(tables):
    rows = tables[""]
    specs = rows[~rows["family"].isin(["networks", DIAGONAL])]
    rho, *_ = correlation(rows[rows["family"] != DIAGONAL])
    like = rows[rows["js"].between(*SIMILAR_JS) & (rows["family"] != DIAGONAL)]
    title = (
        f"The larger the distance between blocks, the further GD falls behind Adam (Spearman's ρ = {rho:.2f}); but "
        f"at similar distances, about {np.mean(SIMILAR_JS):.2f}, it takes from {like['gap'].min():.2g} to "
        f"{like['gap'].max():.2g} times as long"
    )
    count, size = int(rows["draws"].max()), rows["block_size"]
    caption = (
        f"python experiments/zhang_js_gap.py. After arXiv 2402.16788. {len(rows)} quadratics, medians of {count} draws "
        f"of bases and starts (seeds 0 to {count - 1}): GD at 2/(μ + L), Adam with β1 = 0, β2 = 1 at its best learning "
        "rate, steps to a gradient norm of 1e-6. JS of log₁₀ λ smoothed by half a decade, mean over pairs of blocks. "
        f"κ = 5000 unless stated; blocks of {size.min()} to {size.max()} eigenvalues in Haar bases; laws: "
        f"{', '.join(qs.spectra.LAWS)}; crosses: the nine eigenvalues of Cases 3 and 4 in a diagonal basis, excluded "
        "from ρ. Networks: four blocks each, bars are quartiles."
    )
    with plots.canvas(1, 2, title=title, caption=caption, height=2.7, sharey=True, width_ratios=(1.25, 1)) as (
        figure,
        (left, right),
    ):
        for family, colour, marker in zip(FAMILIES[:-1], plots.PALETTE[1:], "sD^o", strict=False):
            selected = specs[specs["family"] == family]
            left.plot(selected["js"], selected["gap"], marker, color=colour, label=family, **POINTS)
        apart = rows[rows["family"] == DIAGONAL]
        left.plot(apart["js"], apart["gap"], "x", color="#222222", markersize=5, label=DIAGONAL)
        notable = [
            ("Case 4 to Case 3", "share 1", "Case 3", -1),
            ("other κ", "κ 1e+06, share 1", "κ = 10⁶", -1),
            (DIAGONAL, "share 0", "Case 4, diagonal", 1),
        ]
        for one in (like.loc[like["gap"].idxmin()], like.loc[like["gap"].idxmax()]):
            notable.append((one["family"], one["problem"], one["problem"].split(", share")[0], -1))
        for family, problem, label, side in notable:
            one = rows[(rows["family"] == family) & (rows["problem"] == problem)].iloc[0]
            align = "left" if side > 0 else "right"
            left.annotate(label, (one["js"], one["gap"]), xytext=(5 * side, 0), ha=align, color="#222222", **NOTE)
        left.legend(frameon=False, fontsize=7, loc="upper left", handletextpad=0.2, borderaxespad=0.1)
        for name in (*TRANSFORMERS, *CNNS):
            one = rows[(rows["family"] == "networks") & (rows["problem"] == name)].iloc[0]
            colour = plots.CASE_COLOURS[0 if name in TRANSFORMERS else 1]
            right.plot([one["js"]] * 2, [one["lower"], one["upper"]], color=colour, linewidth=2, alpha=0.3)
            right.plot(one["js"], one["gap"], "o", color=colour, markersize=4.5)
            label, at, side = LABELS.get(name, ("", (0, 0), "left"))
            right.annotate(label, (one["js"], one["gap"]), xytext=at, ha=side, color=colour, **NOTE)
        for axes, label in ((left, "Constructed spectra"), (right, "Measured spectra: Transformers and CNNs")):
            axes.axhline(1, color="#555555", linewidth=0.8, linestyle=(0, (4, 2.5)), zorder=0)
            axes.set(yscale="log", ylim=(0.012, 2e5), xlim=(-0.02, np.log(2) + 0.02))
            axes.set(title=label, xlabel="JS distance between blocks")
            plots.power_ticks(axes, x=False)
        left.set_ylabel("GD's steps / Adam's")
    return figure


REPRODUCTION = Reproduction(
    "zhang-js-gap",
    "Zhang et al., distance between spectra against the gap",
    measure,
    check,
    draw,
    arxiv="2402.16788",
    order=50,
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
