"""Facts of the pages on architecture: kernel variants and import times."""

from functools import partial

import fences
import pandas as pd
from facts import digits, fact, table
from facts_howto import one, register


@fact
def not_executed() -> str:
    """The blocks of all pages that are not executed, with their reasons."""
    skipped = [
        f"{fences.name_of(page)} ({fence.not_executed})"
        for page in fences.pages()
        for fence in fences.of(page)
        if fence.not_executed
    ]
    return f"Not run are {len(skipped)} blocks: {'; '.join(skipped)}."


VARIANTS = {
    "loops": "row product: loops",
    "blas": "row product: BLAS (np.dot)",
    "moves": "row moves: direct",
    "sums": "lane sums: loops",
    "check": "check of lanes: loop",
    "all": "all of these with loops",
}


def rows(variant: str, noise: str = "") -> pd.DataFrame:
    frame = table("kernel-variants")
    found = frame[(frame["variant"] == variant) & (frame["noise"].fillna("") == noise)]
    if found.empty:
        raise ValueError(f"figures/kernel-variants.csv has no variant {variant}, noise {noise}")
    return found


def ratios(variant: str, noise: str = "") -> str:
    """The least and the largest ratio, each with its size."""
    found = rows(variant, noise).sort_values("ratio")
    parts = []
    for row in (found.iloc[0], found.iloc[-1]):
        lanes = "one lane" if row["lanes"] == 1 else f"{row['lanes']} lanes"
        parts.append(
            f"{digits(row['ratio'], 3 if row['ratio'] < 1.1 else 2)} ({row['blocks']}×{row['block_size']}, {lanes})"
        )
    return " to ".join(parts)


def bits(variant: str, noise: str = "") -> str:
    found = rows(variant, noise)
    different = found[~found["same_bits"]]
    sizes = list(dict.fromkeys(f"{row.blocks}×{row.block_size}" for row in different.itertuples()))
    if not sizes:
        return "the same bits"
    everywhere = len(different) == len(found)
    return "different bits" + ("" if everywhere else f" at {', '.join(sizes)}")


for _name, _variant in VARIANTS.items():
    register(f"variant_{_name}", partial(ratios, _variant))
    register(f"variant_{_name}_bits", partial(bits, _variant))
for _name, _noise in (("gaussian", "gaussian noise"), ("minibatch", "minibatch")):
    register(f"variant_{_name}", partial(ratios, "Philox: np.random", _noise))
    register(f"variant_{_name}_bits", partial(bits, "Philox: np.random", _noise))


@fact
def kernel_times() -> str:
    """Of Adam's kernel: the median of the repeated measurements, in µs per step of a batch."""
    found = table("kernel-variants")
    found = found[found["noise"].isna()].groupby(["blocks", "block_size", "lanes"])["kernel_ns"].median() / 1000
    low, high = found.min(), found.max()
    return f"{digits(low)} to {digits(high)} µs"


def milliseconds(name: str) -> str:
    return f"{digits(one(table('import-times'), imported=name)['milliseconds'])} ms"


for _name, _imported in {
    "help": "quadsim --help", "numba": "numba", "pandas": "pandas", "matplotlib": "matplotlib", "filelock": "filelock",
    "platformdirs": "platformdirs", "rich": "rich", "scipy_stats": "scipy.stats",
}.items():  # fmt: skip
    register(f"import_{_name}", partial(milliseconds, _imported))
