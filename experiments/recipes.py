"""Does the gap between GD and Adam follow from the measured spectra, or from how a quadratic is built from them?

    python experiments/recipes.py [draws]

The paper's own recipe is not known: how eigenvalues were sampled, shifted and scaled is not published. quadsim's
default was fixed before anything was measured. This script runs it and every other combination of sampling, sign and
map on the same spectra, and counts how many agree with the paper. It writes figures/recipes.csv,
figures/recipes-networks.csv and figures/recipes.md.

The criterion of agreement was also fixed beforehand: by the medians, Adam (β2 = 1, best lr) is at least twice as fast
as GD in Case 1 (GPT2), and less than twice as fast in Case 2 (ResNet18). A stricter reading, that the two are similar
in Case 2 (within a factor of two in either direction), is counted too.
"""

import sys
import textwrap
from itertools import product
from pathlib import Path

import pandas as pd
from measured import FOUR
from rich.progress import track

import quadsim as qs
from quadsim._validation import InputError

FIGURES = Path("figures")  # in the working folder
STEPS = 10**12  # in closed form; enough to decide every recipe
DEFAULT = ("leading, pool 40", "magnitude", "affine")

RULES = {
    "leading, pool 30": {"sampling": "leading", "pool": 30},
    "leading, pool 40": {"sampling": "leading", "pool": 40},
    "leading, pool 50": {"sampling": "leading", "pool": 50},
    "above 0.3": {"sampling": "above", "threshold": 0.3},
    "above 0.1": {"sampling": "above", "threshold": 0.1},
    "above 0.02": {"sampling": "above", "threshold": 0.02},
    "ritz": {"sampling": "ritz"},
    "mass": {"sampling": "mass"},
}
RECIPES = [
    recipe
    for recipe in product(RULES, ("magnitude", "positive", "signed"), ("affine", "geometric", "unshifted"))
    if recipe[1] != "signed" or recipe[2] == "affine"  # the other maps need positive eigenvalues
]


def outcome(case: int, draws: int, rule: str, sign: str, map: str, **where: object) -> dict[str, object]:
    """Quartiles of both optimizers' steps over the draws, and the share of draws in which Adam is ahead."""
    how = {**RULES[rule], "sign": sign, "map": map, **where}
    try:
        runs = qs.solve(
            lambda seed: qs.case(case, seed=seed, **how),
            [qs.GD(), qs.FrozenAdam()],
            seed=range(draws),
            max_steps=STEPS,
            engine="closed-form",
        )
    except InputError as error:
        return {"case": case, "rule": rule, "sign": sign, "map": map, "refused": str(error)}
    gd, adam = qs.table.quartiles(runs).to_dict("records")
    return {
        "case": case,
        "rule": rule,
        "sign": sign,
        "map": map,
        "draws": draws,
        **{f"gd_{name}": gd[f"{name}_steps"] for name in ("lower", "median", "upper")},
        **{f"adam_{name}": adam[f"{name}_steps"] for name in ("lower", "median", "upper")},
        "adam_ahead": adam["ahead"],
    }


def ratio(row: pd.Series) -> tuple[float, float] | None:
    """Bounds on GD's median steps divided by Adam's: above 1, Adam is ahead. None if neither finished."""
    if pd.isna(row.get("draws")) or (pd.isna(row["gd_median"]) and pd.isna(row["adam_median"])):
        return None
    if pd.isna(row["gd_median"]):
        return STEPS / row["adam_median"], float("inf")
    if pd.isna(row["adam_median"]):
        return 0.0, row["gd_median"] / STEPS
    return (row["gd_median"] / row["adam_median"],) * 2


def above(bounds: tuple[float, float] | None, limit: float) -> bool | None:
    """Whether the ratio is at least the limit; None if the bounds do not decide it."""
    if bounds is None or bounds[0] < limit <= bounds[1]:
        return None
    return bool(bounds[0] >= limit)


def table(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int], dict[str, int]]:
    """One row per recipe with both cases, and the counts with and without the shift."""
    rows = []
    for recipe in RECIPES:
        keys = dict(zip(("rule", "sign", "map"), recipe, strict=True))
        cases = frame[(frame[list(keys)] == pd.Series(keys)).all(axis=1)].set_index("case")
        gpt2, resnet18 = cases.loc[1], cases.loc[2]
        rows.append(
            {
                **keys,
                "gpt2": cell_text(gpt2),
                "resnet18": cell_text(resnet18),
                "ahead": above(ratio(gpt2), 1),
                "faster_1": above(ratio(gpt2), 2),
                "faster_2": above(ratio(resnet18), 2),
                "not_slower_2": above(ratio(resnet18), 0.5),
            }
        )
    recipes = pd.DataFrame(rows).astype(dict.fromkeys(["ahead", "faster_1", "faster_2", "not_slower_2"], "boolean"))
    recipes["agrees"] = recipes["faster_1"] & ~recipes["faster_2"]  # <NA> where undecided
    recipes["similar"] = recipes["agrees"] & recipes["not_slower_2"]
    unshifted = recipes["map"] == "unshifted"
    return recipes, count(recipes[~unshifted]), count(recipes[unshifted])


def count(recipes: pd.DataFrame) -> dict[str, int]:
    counts = {"all": len(recipes)}
    for name in ("ahead", "agrees", "similar"):
        counts |= {name: int(recipes[name].sum()), f"not_{name}": int((~recipes[name]).sum())}
    return counts


def cell_text(row: pd.Series) -> str:
    """`27,000 / 4,100 [1,900–16,000]; 6.6×; ahead in 88%`: steps of GD and Adam with quartiles, ratio, share."""
    if pd.isna(row.get("draws")):
        return "refused: an eigenvalue is zero" if "above 0" in str(row["refused"]) else str(row["refused"])

    def steps(value: object) -> str:
        return f"> {STEPS:,}" if pd.isna(value) else f"{int(value):,}"

    bounds, middle = ratio(row), ""
    if bounds is not None:
        low, high = bounds
        sign, value = ("", low) if low == high else ("≤ ", high) if low == 0 else ("≥ ", low)
        middle = f"; {sign}{value:.2g}×" if value < 10 else f"; {sign}{value:,.0f}×"
    ahead = "" if pd.isna(row["adam_ahead"]) else f"; ahead in {row['adam_ahead']:.0%}"
    spread = f"[{steps(row['adam_lower'])}–{steps(row['adam_upper'])}]"
    return f"{steps(row['gd_median'])} / {steps(row['adam_median'])} {spread}{middle}{ahead}"


def summary(counts: dict[str, int], apart: dict[str, int]) -> str:
    def refused(counts: dict[str, int]) -> int:
        return counts["all"] - counts["agrees"] - counts["not_agrees"]

    text = f"""\
{counts["all"]} recipes map the eigenvalues onto [1, 5000]. On GPT2's spectra Adam is ahead of GD in {counts["ahead"]}
of them and behind in {counts["not_ahead"]}. In both cases together, {counts["agrees"]} agree with the paper and
{counts["not_agrees"]} do not ({refused(counts)} are refused); {counts["similar"]} agree if GD and Adam must be
similar in Case 2. Without the shift ({apart["all"]} recipes, each network at its own condition number),
{apart["agrees"]} agree, {apart["not_agrees"]} do not and {refused(apart)} are refused. The paper's own recipe is not
known."""
    return textwrap.fill(text, 118)


def other_networks(draws: int) -> pd.DataFrame:
    """The default recipe on four blocks of every network of the library, including other seeds and training mode."""
    rows = []
    for name, network in track(qs.spectra.library().items(), "networks"):
        blocks = FOUR[network.provenance["settings"]["model"]]
        rows.append({"network": name, **outcome(1, draws, *DEFAULT, network=name, blocks=list(blocks))})
    return pd.DataFrame(rows)


def main(draws: int = 100) -> None:
    for network in ("gpt2", "resnet18"):
        qs.spectra.load(network)  # a missing network is an error, not a refused recipe
    jobs = [(case, *recipe) for recipe in RECIPES for case in (1, 2)]
    frame = pd.DataFrame([outcome(case, draws, *recipe) for case, *recipe in track(jobs, "recipes")])
    FIGURES.mkdir(exist_ok=True)
    frame.to_csv(FIGURES / "recipes.csv", index=False)
    others = other_networks(draws)
    others.to_csv(FIGURES / "recipes-networks.csv", index=False)
    report(frame, others, draws)


def report(frame: pd.DataFrame, others: pd.DataFrame, draws: int) -> None:
    """Write and print the Markdown tables."""
    recipes, counts, apart = table(frame)
    lines = [
        "| sampling | sign | map | Case 1: GPT2 | Case 2: ResNet18 | as in the paper |",
        "|---|---|---|---|---|---|",
    ]
    for row in recipes.itertuples():
        mark = "**" if (row.rule, row.sign, row.map) == DEFAULT else ""
        verdict = {True: "yes", False: "no"}.get(row.agrees, "–")
        lines.append(f"| {mark}{row.rule}{mark} | {row.sign} | {row.map} | {row.gpt2} | {row.resnet18} | {verdict} |")
    head = f"""\
# Every recipe on the measured spectra

Generated by `python experiments/recipes.py {draws}`. Each cell: median steps of GD / Adam (β2 = 1, best lr) to a
gradient norm of 1e-6 times its first value [quartiles of Adam]; GD's median over Adam's; the share of draws in which
Adam is ahead, among those that at least one of the two finished. The default recipe is in bold; it was fixed before
anything was measured. "As in the paper": Adam at least twice as fast as GD in Case 1, and less than twice as fast in
Case 2.

{summary(counts, apart)}

"""
    lines += [
        "",
        "## The default recipe on every network of the library",
        "",
        "Four blocks each: those of Cases 1 and 2, or the corresponding ones (listed in `experiments/measured.py`).",
        "",
        "| network | GD / Adam [quartiles of Adam] |",
        "|---|---|",
        *(f"| {row['network']} | {cell_text(row)} |" for _, row in others.iterrows()),
    ]
    (FIGURES / "recipes.md").write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    print(head)
    print("\n".join(lines))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
