"""Jensen–Shannon distances between blocks' spectra in CNNs and Transformers, after Zhang et al. (arXiv 2402.16788).

The published heat maps are dark for Transformers and pale for CNNs, and JS⁰, their average, is 0.10 (ResNet18) and 0.09
(VGG16) against 18.84 to 286.41. Values above ln 2 are not normalised distances and depend on the bins; distances here
are normalised, so only the order can be checked. Seven weight matrices of each network, including the first layer's;
with unscaled eigenvalues, and with each block divided by its tenth-largest.

    python experiments/zhang_heat_maps.py [fast=true]
"""

import sys

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots
from quadsim.cli import main as cli
from quadsim.reproduce import Check, Reproduction

PUBLISHED = {"ResNet18": 0.10, "VGG16": 0.09, "pretrained GPT2": 18.84, "MLP-mixer": 34.90, "BERT": 53.38,
             "GPT2": 83.23, "ViT-base": 286.41}  # fmt: skip
CNNS, TRANSFORMERS, APART = ("resnet18", "vgg16"), ("bert-mini", "vit-small", "gpt2"), "resnet18-training"
NETWORKS = {"resnet18": "ResNet18", "vgg16": "VGG16", "bert-mini": "BERT-mini", "vit-small": "ViT-small",
            "gpt2": "GPT2", APART: "ResNet18, training"}  # fmt: skip
SCALES = {"raw": "unscaled eigenvalues", "tenth": "each block ÷ its tenth"}
MATRICES = {
    "query": "query",
    "key": "key",
    "value": "value",
    "attention_out": "out",
    "mlp_in": "MLP in",
    "mlp_out": "MLP out",
}


def blocks_of(network):
    """Seven weight matrices with short names: the first layer's, and six of one layer or of different depths."""
    if network == "vgg16":
        return {f"features.{k}": f"conv {k}" for k in (0, 3, 10, 14, 20, 34, 40)}  # 7 of the 9 measured, evenly spaced
    if network.startswith("resnet18"):
        return {"conv1": "conv1"} | {f"layer{k}.conv1": f"conv {k}" for k in ("1.0", "2.0", "2.1", "3.0", "4.0", "4.1")}
    first, layer = ("patches", 2) if network == "vit-small" else ("embedding", 3 if network == "gpt2" else 2)
    return {first: first} | {f"layer{layer}.{part}": name for part, name in MATRICES.items()}


def measure(fast):
    """Means over pairs with and without first layers, with the noise between probes; and all pairs.

    Nothing is random, so ``fast`` has no effect.
    """
    means, pairs = [], []
    for network in NETWORKS:
        measured, names = qs.spectra.load(network), blocks_of(network)
        for scale in SCALES:
            for first in (True, False):
                blocks = list(names) if first else list(names)[1:]
                distances = qs.spectra.js_matrix(measured, blocks, scale=scale)
                largest = max(measured.block(name).largest for name in blocks)
                means.append((network, scale, len(blocks), distances.mean, np.mean(distances.noise), largest))
                if first:  # the diagonal holds a block's noise
                    matrix = distances.matrix + np.diag(distances.noise)
                    pairs += [
                        {"network": network, "scale": scale, "block": one, "other": other, "js": matrix[i, j]}
                        for i, one in enumerate(distances.blocks)
                        for j, other in enumerate(distances.blocks)
                    ]
    columns = ["network", "scale", "blocks", "js", "noise", "largest"]
    return {"": pd.DataFrame(means, columns=columns).round(7), "-pairs": pd.DataFrame(pairs).round(7)}


def order(means, scale, blocks):
    """The CNN with the largest JS and the Transformer with the smallest, and whether the latter is larger."""
    js = means[(means["scale"] == scale) & (means["blocks"] == blocks)].set_index("network")["js"]
    cnn, transformer = js[list(CNNS)].idxmax(), js[list(TRANSFORMERS)].idxmin()
    text = f"{js[cnn]:.4f} at most ({NETWORKS[cnn]}), {js[transformer]:.4f} at least ({NETWORKS[transformer]})"
    return text, js[cnn] < js[transformer], js


def check(tables):
    means = tables[""]
    every, fewer = means["blocks"].max(), means["blocks"].min()
    raw, raw_holds, js = order(means, "raw", every)
    tenth, tenth_holds, _ = order(means, "tenth", every)
    rests = {scale: order(means, scale, fewer) for scale in SCALES}
    above = int(sum(js[APART] > js[name] for name in TRANSFORMERS))
    beyond = sum(value > np.log(2) for value in PUBLISHED.values())
    values = js[[*CNNS, *TRANSFORMERS]]
    without = all(holds for _, holds, _ in rests.values())
    return [
        Check("JS⁰, unscaled eigenvalues", "CNNs below Transformers", raw, raw_holds),
        Check(
            "JS⁰, each block ÷ its tenth-largest",
            "CNNs below Transformers",
            tenth,
            tenth_holds,
            "VGG16's first convolution (1,728 weights) is an outlier; without first layers the order is as published"
            if without and not tenth_holds
            else "",
        ),
        Check(
            "the same without first layers",
            "CNNs below Transformers on both scales",
            "; ".join(
                f"{js[list(CNNS)].max():.4f} at most, {js[list(TRANSFORMERS)].min():.4f} at least"
                for _, _, js in rests.values()
            ),
            without,
        ),
        Check(
            "ResNet18 in training mode",
            "not measured: the authors' public code uses evaluation mode",
            f"{js[APART]:.2f}: above {above} of {len(TRANSFORMERS)} Transformers",
            None,
            "nothing was published to compare with; batch statistics set the blocks' scales "
            f"({rests['raw'][2][APART]:.2f} without the first)",
        ),
        Check(
            "JS⁰ as a number",
            "0.09 and 0.10 for CNNs, 18.84 to 286.41 for Transformers",
            f"{values.min():.4f} to {values.max():.4f}; no normalised distance exceeds ln 2 = {np.log(2):.2f}",
            None if beyond else False,
            f"{beyond} of {len(PUBLISHED)} published values exceed ln 2: not normalised, and their bins are not known",
        ),
    ]


def draw(tables):
    from matplotlib.colors import LogNorm

    means, pairs = tables[""], tables["-pairs"]
    every = means["blocks"].max()
    js_means = means[means["blocks"] == every].pivot(index="network", columns="scale", values="js")
    worst = {scale: (js_means[scale][list(CNNS)].max(), js_means[scale][list(TRANSFORMERS)].min()) for scale in SCALES}
    title = (
        f"On unscaled eigenvalues JS is at most {worst['raw'][0]:.4f} in CNNs and at least {worst['raw'][1]:.4f} in "
        f"Transformers; with each block divided by its tenth-largest it is {js_means['tenth']['vgg16']:.3f} in VGG16 "
        f"and {worst['tenth'][1]:.3f} in {NETWORKS[js_means['tenth'][list(TRANSFORMERS)].idxmin()]}"
    )
    vgg = means[(means["network"] == "vgg16") & (means["scale"] == "raw")]["largest"].max()
    caption = (
        "python experiments/zhang_heat_maps.py. After arXiv 2402.16788. Jensen–Shannon distance between blocks' "
        "spectra at initialization in nats (at most ln\u00a02 = 0.69), above each map its mean over pairs; on the "
        f"diagonal, between two probes of one block: noise. {every} weight matrices of each network: the first "
        "layer's, and six of one Transformer layer or six convolutions over the depth; in evaluation mode except for "
        "the last. Lower row: each block divided by its tenth-largest magnitude. Smoothed by "
        f"σ = {qs.spectra.SIGMA:.4f}, as in the authors' public code: VGG16's eigenvalues, at most {vgg:.4f}, are "
        "hardly wider, so the upper row cannot tell its blocks apart."
    )
    with plots.canvas(2, len(NETWORKS), title=title, caption=caption, height=1.02) as (figure, panels):
        for axes, (scale, network) in zip(panels, ((s, n) for s in SCALES for n in NETWORKS), strict=True):
            names = blocks_of(network)
            mine = pairs[(pairs["network"] == network) & (pairs["scale"] == scale)]
            matrix = mine.pivot(index="block", columns="other", values="js").loc[list(names), list(names)]
            image = axes.imshow(matrix.clip(lower=1e-4), cmap="cividis_r", norm=LogNorm(1e-4, np.log(2)))
            upper = scale == "raw"
            mean = f"{js_means[scale][network]:.4f}"
            axes.set_title(f"{NETWORKS[network]}\n{mean}" if upper else mean, loc="center", fontsize=7.5)
            axes.set_xticks(
                [] if upper else range(len(names)), [] if upper else list(names.values()), rotation=90, fontsize=6.5
            )
            axes.set_yticks([])
            axes.tick_params(length=0, pad=1)
            axes.spines[:].set_visible(False)
            if network == next(iter(NETWORKS)):
                axes.set_ylabel(SCALES[scale], fontsize=7.5)
        bar = figure.colorbar(image, ax=panels, shrink=0.7, aspect=28, pad=0.01)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=6.5)
        bar.set_label("distance, nats", fontsize=7)
        plots.power_ticks(bar.ax, x=False)
    return figure


REPRODUCTION = Reproduction(
    "zhang-heat-maps",
    "Zhang et al., distances between blocks' spectra",
    measure,
    check,
    draw,
    arxiv="2402.16788",
    order=30,
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
