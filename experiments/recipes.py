"""Does the gap between GD and Adam follow from the measured spectra, or from how they are made into a quadratic?

    python experiments/recipes.py [draws]

The paper's own recipe is not known: how eigenvalues were sampled, shifted and scaled could not be read. quadsim's
default was fixed before anything was measured. This runs it beside every other rule, sign and map on the same spectra,
and counts how many of them agree with the paper. Writes figures/recipes.csv and figures/recipes.md.

What counts as agreement was fixed beforehand too: Adam (β2 = 1, best lr) needs at most half as many steps as GD in
Case 1 (GPT2) by the medians, and more than half as many in Case 2 (ResNet18).
"""

import sys
from itertools import product
from pathlib import Path

import pandas as pd
from rich.progress import track

import quadsim as qs
from quadsim.checks import InputError

FIGURES = Path(__file__).parent.parent / "figures"
STEPS = 100_000
DEFAULT = ("leading, pool 40", "magnitude", "affine")

RULES = {
    "leading, pool 30": {"rule": "leading", "pool": 30},
    "leading, pool 40": {"rule": "leading", "pool": 40},
    "leading, pool 50": {"rule": "leading", "pool": 50},
    "above 0.3": {"rule": "above", "threshold": 0.3},
    "above 0.1": {"rule": "above", "threshold": 0.1},
    "above 0.02": {"rule": "above", "threshold": 0.02},
    "ritz": {"rule": "ritz"},
    "mass": {"rule": "mass"},
}
RECIPES = [
    recipe
    for recipe in product(RULES, ("magnitude", "positive", "signed"), ("affine", "geometric", "unshifted"))
    # A sign change leaves no positive eigenvalues to scale; among the largest it is the same as all of them, signed.
    if recipe[1] != "signed" or (recipe[2] == "affine" and recipe[0] in ("ritz", "mass"))
]


def outcome(case: int, draws: int, rule: str, sign: str, map: str, **where: object) -> dict[str, object]:
    """Quartiles of both optimizers' steps over the draws, and the share of draws in which Adam is ahead."""
    how = {**RULES[rule], "sign": sign, "map": map, **where}
    try:
        runs = qs.solve_draws(
            lambda seed: qs.case(case, seed=seed, **how), [qs.GD(), qs.FrozenAdam()], range(draws), max_steps=STEPS
        )
    except InputError as error:
        return {"case": case, "rule": rule, "sign": sign, "map": map, "refused": str(error)}
    gd, adam = qs.table.quartiles(runs).to_dict("records")
    return {
        "case": case, "rule": rule, "sign": sign, "map": map, "draws": draws,
        **{f"gd_{name}": gd[f"{name}_steps"] for name in ("lower", "median", "upper")},
        **{f"adam_{name}": adam[f"{name}_steps"] for name in ("lower", "median", "upper")},
        "adam_ahead": adam["ahead"],
    }  # fmt: skip


def ratio(row: pd.Series) -> float | None:
    """GD's median steps over Adam's: above 1, Adam is ahead. A bound where one of them did not finish."""
    if pd.isna(row.get("draws")) or (pd.isna(row["gd_median"]) and pd.isna(row["adam_median"])):
        return None
    gd, adam = (STEPS if pd.isna(row[name]) else row[name] for name in ("gd_median", "adam_median"))
    return gd / adam


def agrees(one: float | None, two: float | None) -> bool | None:
    if one is None or two is None:
        return None
    return one >= 2 and two < 2


def table(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """One row for each recipe, both cases beside each other, and the counts."""
    rows = []
    for recipe in RECIPES:
        keys = dict(zip(("rule", "sign", "map"), recipe, strict=True))
        mine = frame[(frame[list(keys)] == pd.Series(keys)).all(axis=1)].set_index("case")
        one, two = mine.loc[1], mine.loc[2]
        rows.append({**keys, "one": ratio(one), "two": ratio(two), "agrees": agrees(ratio(one), ratio(two)),
                     "gpt2": told(one), "resnet18": told(two)})  # fmt: skip
    made = pd.DataFrame(rows)
    shifted = made[made["map"] != "unshifted"]
    known = shifted[shifted["agrees"].notna()]
    counts = {
        "shifted": len(shifted), "ran": len(known), "agree": int((known["agrees"] == True).sum()),  # noqa: E712
        "ahead": int((shifted["one"] > 1).sum()), "behind": int((shifted["one"] <= 1).sum()),
    }  # fmt: skip
    return made, counts


def told(row: pd.Series) -> str:
    """`GD 27,000; Adam 4,100 [1,900–16,000]; 6.6×; ahead in 88 %`."""
    if pd.isna(row.get("draws")):
        return "refused: an eigenvalue is zero" if "above 0" in str(row["refused"]) else str(row["refused"])

    def steps(value: object) -> str:
        return f"> {STEPS:,}" if pd.isna(value) else f"{int(value):,}"

    times = ratio(row)
    middle = "" if times is None else f"; {times:.2g}×"
    ahead = "" if pd.isna(row["adam_ahead"]) else f"; ahead in {row['adam_ahead']:.0%}"
    spread = f"[{steps(row['adam_lower'])}–{steps(row['adam_upper'])}]"
    return f"{steps(row['gd_median'])} / {steps(row['adam_median'])} {spread}{middle}{ahead}"


def summary(counts: dict[str, int]) -> str:
    apart = counts["ran"] - counts["agree"]
    return f"""\
Of {counts["shifted"]} recipes that map the eigenvalues onto [1, 5000], Adam is ahead of GD on GPT2's spectra
in {counts["ahead"]} and behind in {counts["behind"]}; {counts["agree"]} agree with the paper in both cases,
{apart} do not. The paper's own recipe is not known."""


def main(draws: int = 100) -> None:
    jobs = [(case, *recipe) for recipe in RECIPES for case in (1, 2)]
    frame = pd.DataFrame([outcome(case, draws, *recipe) for case, *recipe in track(jobs, "recipes")])
    frame.to_csv(FIGURES / "recipes.csv", index=False)
    made, counts = table(frame)
    lines = [
        "| rule | sign | map | Case 1: GPT2 | Case 2: ResNet18 | as in the paper |",
        "|---|---|---|---|---|---|",
    ]
    for row in made.itertuples():
        mark = "**" if (row.rule, row.sign, row.map) == DEFAULT else ""
        verdict = "–" if row.agrees is None else "yes" if row.agrees else "no"
        lines.append(f"| {mark}{row.rule}{mark} | {row.sign} | {row.map} | {row.gpt2} | {row.resnet18} | {verdict} |")
    head = f"""\
# Every recipe on the measured spectra

Made by `python experiments/recipes.py {draws}`. Each cell: median steps of GD / Adam (β2 = 1, best lr) to a gradient
norm of 1e-6 times its first value [quartiles of Adam]; GD's median over Adam's; the share of {draws} draws in which
Adam is ahead. The default recipe is in bold; it was fixed before anything was measured. "As in the paper": Adam at
least twice as fast as GD in Case 1, and less than twice as fast in Case 2.

{summary(counts)}

"""
    (FIGURES / "recipes.md").write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    print(head)
    print("\n".join(lines))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
