"""Facts of the how-to pages and the README: numbers of committed files in figures/, as text."""

from functools import partial
from pathlib import Path

import pandas as pd
from facts import count, digits, fact, record, table


def one(frame: pd.DataFrame, **values: object) -> pd.Series:
    """The one row of a table with these values."""
    for column, value in values.items():
        frame = frame[frame[column] == value]
    if len(frame) != 1:
        raise ValueError(f"{len(frame)} rows match {values}: expected one")
    return frame.iloc[0]


def percent(share: float, decimals: int = 1) -> str:
    return f"{100 * share:.{decimals}f} %"


def register(name: str, function: partial) -> None:
    """A fact whose name is made of settings."""

    def named() -> str:
        return function()

    named.__name__ = name
    named.__module__ = __name__
    fact(named)


# ---- steps in the four cases


def steps(case: int, optimizer: str) -> str:
    row = one(table("cases-seed-0..99"), problem=f"case {case}", optimizer=optimizer)
    if row["reached"] < row["draws"]:
        raise ValueError(f"case {case}, {optimizer}: not all draws reached tol; say so in the text")
    return f"{count(row['median_steps'])} ({count(row['lower_steps'])}–{count(row['upper_steps'])})"


def ahead(case: int) -> str:
    return percent(one(table("cases-seed-0..99"), problem=f"case {case}", optimizer="frozen-adam")["ahead"], 0)


def median(case: int, optimizer: str) -> str:
    row = one(table("case-medians"), case=case, optimizer=optimizer)
    return f"{count(row['median'])} ({count(row['lower'])}–{count(row['upper'])})"


for _case in (1, 2, 3, 4):
    register(f"ahead_case_{_case}", partial(ahead, _case))
    for _optimizer in ("gd", "frozen-adam"):
        register(f"steps_case_{_case}_{_optimizer.replace('-', '_')}", partial(steps, _case, _optimizer))
for _case in (3, 4):
    for _optimizer in ("gd", "frozen-adam", "block-gd"):
        register(f"median_case_{_case}_{_optimizer.replace('-', '_')}", partial(median, _case, _optimizer))


# ---- recipes and measured spectra


@fact
def recipes_summary() -> str:
    """The paragraph that experiments/recipes.py writes."""
    text = (Path(__file__).parents[2] / "figures/recipes.md").read_text(encoding="utf-8")
    (paragraph,) = (part for part in text.split("\n\n") if "recipes map the eigenvalues onto" in part)
    return " ".join(paragraph.split())


def unshifted(case: int, optimizer: str) -> str:
    row = one(table("recipes"), case=case, rule="leading, pool 40", sign="magnitude", map="unshifted")
    return count(row[f"{optimizer}_median"])


for _case, _network in ((1, "gpt2"), (2, "resnet18")):
    for _optimizer in ("gd", "adam"):
        register(f"unshifted_{_network}_{_optimizer}", partial(unshifted, _case, _optimizer))


def measured(network: str, column: str, significant: int) -> str:
    return digits(one(table("measured"), network=network, blocks="four")[column], significant)


for _name in ("gpt2", "gpt2-seed3", "resnet18", "resnet18-seed3", "vgg16"):
    _key = _name.replace("-", "_")
    register(f"measured_ratio_{_key}", partial(measured, _name, "ratio", 3 if "gpt2" in _name else 2))
    if not _name.startswith("resnet18"):
        register(f"measured_js_tenth_{_key}", partial(measured, _name, "js_tenth", 2))
for _name in ("gpt2", "gpt2-seed3"):
    register(f"measured_js_{_name.replace('-', '_')}", partial(measured, _name, "js_raw", 2))
register("measured_js_training", partial(measured, "resnet18-training", "js_raw", 2))


@fact
def measured_js_cnns() -> str:
    """The largest of the CNNs in evaluation mode, four blocks."""
    rows = table("measured").query("blocks == 'four'")
    return digits(rows[rows["network"].isin(["resnet18", "resnet18-seed3", "vgg16"])]["js_raw"].max(), 1)


# ---- sweeps


def heterogeneity(end: float) -> pd.Series:
    return one(table("sweep-heterogeneity"), optimizer="frozen-adam", heterogeneity=end)


@fact
def heterogeneity_from() -> str:
    return count(heterogeneity(0.0)["median"])


@fact
def heterogeneity_to() -> str:
    return count(heterogeneity(1.0)["median"])


@fact
def heterogeneity_gd_range() -> str:
    """The least and the largest median of GD."""
    medians = table("sweep-heterogeneity").query("optimizer == 'gd'")["median"]
    return f"{count(medians.min())} and {count(medians.max())}"


@fact
def heterogeneity_draws() -> str:
    return count(heterogeneity(1.0)["draws"])


# ---- intervals of compare


@fact
def coverage_least() -> str:
    """Rounded downwards."""
    laws = table("interval-coverage").drop(columns=["seeds", "lower", "upper", "exact"])
    return f"{int(1000 * laws.to_numpy().min()) / 10:.1f} %"


def excluded(case: int, column: str) -> str:
    return percent(one(table("interval-coverage-tuned"), case=case, seeds=30)[column])


for _case in (3, 4):
    register(f"coverage_tuned_case_{_case}", partial(excluded, _case, "excludes_0"))
    register(f"coverage_fixed_case_{_case}", partial(excluded, _case, "rates_fixed"))


# ---- user-defined rules: at d = 9 and at d = 120


def rule_ratio(column: str) -> str:
    frame = table("rule-overhead")
    return " and ".join(f"{ratio:.2f}" for ratio in frame["rule"] / frame[column])


@fact
def rule_to_built_in() -> str:
    return rule_ratio("built_in")


@fact
def rule_to_loop() -> str:
    return rule_ratio("loop_with_norms")


# ---- bench

# optax has several contestants with 64 lanes: "optax vmap" and "optax columns", one array for all lanes
PEERS = {"quadsim": "quadsim", "numpy": "numpy", "torch": "torch.optim", "optax": "optax"}


def bench(size: str, lanes: int, optimizer: str, peer: str) -> pd.Series:
    blocks, block_size = map(int, size.split("x"))
    rows = table("bench")
    rows = rows[rows["contestant"].str.startswith(PEERS[peer])]
    settings = {"blocks": blocks, "block_size": block_size, "lanes": lanes, "optimizer": optimizer, "threads": 1}
    for column, value in settings.items():
        rows = rows[rows[column] == value]
    return rows.loc[rows["microseconds"].idxmin()]  # the fastest variant of a peer


def microseconds(*asked: object) -> str:
    return digits(bench(*asked)["microseconds"], 3)


for _size, _lanes in (("3x3", 64), ("4x30", 64), ("4x256", 1), ("4x256", 64), ("8x1024", 64)):
    for _peer in PEERS:
        register(f"bench_{_size}_{_lanes}_adam_{_peer}", partial(microseconds, _size, _lanes, "adam", _peer))
for _peer in ("quadsim", "optax"):
    register(f"bench_3x3_1_gd_{_peer}", partial(microseconds, "3x3", 1, "gd", _peer))


@fact
def bench_share_of_dgemm() -> str:
    return percent(bench("4x256", 64, "gd", "quadsim")["fraction"], 0)


@fact
def bench_machine() -> str:
    machine = record("bench")["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores"


def fastest(peer: str) -> pd.Series:
    """How many times as long as quadsim a peer's fastest variant takes, on one thread, by size, lanes and optimizer."""
    rows = table("bench")
    rows = rows[(rows["threads"] == 1) & rows["contestant"].str.startswith(PEERS[peer])]
    return rows.groupby(["blocks", "block_size", "lanes", "optimizer"])["ratio"].min()


def bench_range(peer: str) -> str:
    return f"{digits(fastest(peer).min())} to {digits(fastest(peer).max())}"


for _peer in ("numpy", "torch", "optax"):
    register(f"bench_range_{_peer}", partial(bench_range, _peer))


@fact
def bench_optax_faster() -> str:
    """Where optax is faster, with its time over quadsim's."""
    faster = fastest("optax")[lambda ratio: ratio < 1]
    names = {"gd": "GD", "adam": "Adam"}
    parts = [
        f"{names[optimizer]}, {blocks}×{size}, {'one run' if lanes == 1 else f'{lanes} runs'} ({ratio:.2f})"
        for (blocks, size, lanes, optimizer), ratio in faster.items()
    ]
    return "; ".join(parts)
