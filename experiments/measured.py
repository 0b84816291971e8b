"""What the measured spectra say: how far blocks lie apart in scale and in shape, network by network.

    python experiments/measured.py

For every network of the library: the ratio of the largest eigenvalues between its blocks, from each probe, and the mean
Jensen–Shannon distance between blocks beside the distance between two probes of the same block, which is what chance
alone gives. Networks measured from two seeds of initialization stand below each other. Writes figures/measured.csv and
figures/measured.md.
"""

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim.cases import CASES

FIGURES = Path("figures")  # of the working folder
FOUR = {
    "gpt2": CASES[1].blocks,
    "resnet18": CASES[2].blocks,
    "vgg16": ("features.0", "features.10", "features.20", "features.34"),
    "vit-small": ("patches", "layer2.query", "layer2.value", "layer2.mlp_in"),
    "bert-mini": ("embedding", "layer2.query", "layer2.value", "layer2.mlp_in"),
    "gpt2-nano": CASES[1].blocks,
}


def facts(name: str, measured: qs.spectra.Measured, which: str, blocks: list[str]) -> dict[str, object]:
    parts = [measured.block(block) for block in blocks]
    tops = np.array([[abs(nodes).max() for nodes in part.nodes] for part in parts])  # (blocks, probes)
    ratios = tops.max(axis=0) / tops.min(axis=0)
    row: dict[str, object] = {
        "network": name, "blocks": which, "seed": measured.provenance["settings"]["seed"],
        "smallest": tops.min(), "largest": tops.max(), "ratio": ratios.mean(), "ratio_spread": np.ptp(ratios),
    }  # fmt: skip
    for scale in ("raw", "tenth"):
        found = qs.spectra.js_matrix(measured, blocks, scale=scale)
        row[f"js_{scale}"], row[f"noise_{scale}"] = found.mean, np.mean(found.noise)
    pairs = [qs.spectra.js_distance(one, other, normalised=False) for one, other in combinations(parts, 2)]
    row["js_unnormalised"] = np.mean(pairs)
    return row


def table() -> pd.DataFrame:
    rows = []
    for name, measured in qs.spectra.library().items():
        rows.append(facts(name, measured, "all", list(measured.blocks)))
        four = FOUR[measured.provenance["settings"]["model"]]
        rows.append(facts(name, measured, "four", list(four)))
    return pd.DataFrame(rows)


def main() -> None:
    frame = table()
    FIGURES.mkdir(exist_ok=True)
    frame.to_csv(FIGURES / "measured.csv", index=False)
    lines = [
        "| network | blocks | seed | largest eigenvalue by block | ratio (± over probes) "
        "| JS, as they are (noise) | JS, each ÷ its tenth (noise) | JS, unnormalised |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in frame.itertuples():
        lines.append(
            f"| {row.network} | {row.blocks} | {row.seed} | {row.smallest:.2g} to {row.largest:.3g} "
            f"| {row.ratio:.4g} (± {row.ratio_spread:.1g}) | {row.js_raw:.4f} ({row.noise_raw:.4f}) "
            f"| {row.js_tenth:.4f} ({row.noise_tenth:.4f}) | {row.js_unnormalised:.3g} |"
        )
    head = """\
# What was measured

Made by `python experiments/measured.py` from the spectra in quadsim/data. "Four" are the blocks of Cases 1 and 2, or
their like in the other networks. JS is the mean Jensen–Shannon distance between pairs of blocks in nats (at most
ln 2 = 0.69); in brackets, the mean distance between two probes of the same block: what chance alone gives. The last
column is the variant of the literature whose values exceed ln 2; it depends on its 10,000 bins and is shown so that it
can be told apart.

"""
    (FIGURES / "measured.md").write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    print(head + "\n".join(lines))


if __name__ == "__main__":
    main()
