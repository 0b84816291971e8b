"""Measured numbers in the README are those of the committed files."""

import importlib.util
import runpy
import sys
from pathlib import Path

import pandas as pd
import pytest

from quadsim.engine.table import read_csv

ROOT = Path(__file__).parents[2]
README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def case_rows():
    """The table of the cases, from the file that `python -m quadsim cases seed=0..99` wrote."""
    table = read_csv(ROOT / "figures/cases-seed-0..99.csv").set_index(["problem", "optimizer"])
    for problem in ("case 1", "case 2", "case 3", "case 4"):
        cells = []
        for optimizer in ("gd", "frozen-adam"):
            row = table.loc[(problem, optimizer)]
            steps = [
                "> 100,000" if pd.isna(row[f"{name}_steps"]) else f"{int(row[f'{name}_steps']):,}"
                for name in ("median", "lower", "upper")
            ]
            cells.append(f"{steps[0]} ({steps[1]}–{steps[2]})")
        yield f"| {problem.capitalize()} | {cells[0]} | {cells[1]} | {row['ahead']:.0%} |"


@pytest.mark.parametrize("row", list(case_rows()))
def test_the_table_of_the_cases(row):
    assert row in README


def test_the_count_of_recipes(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "experiments")
    spec = importlib.util.spec_from_file_location("recipes", ROOT / "experiments/recipes.py")
    recipes = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "recipes", recipes)
    spec.loader.exec_module(recipes)
    _, shifted, unshifted = recipes.table(read_csv(ROOT / "figures/recipes.csv"))
    sentence = " ".join(recipes.summary(shifted, unshifted).split())
    assert sentence in README
    assert sentence in " ".join((ROOT / "figures/recipes.md").read_text(encoding="utf-8").split())
    assert sentence.replace("40 recipes", "41 recipes") not in README


def test_the_table_of_coverage():
    """The exact numbers and the shape; the simulated numbers of one row are recomputed."""
    coverage = runpy.run_path(str(ROOT / "experiments/interval_coverage.py"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if " | order statistics | " in line or line.startswith("| 6 | 1 and 6")]
    assert rows[0] == f"| seeds | order statistics | exact | {' | '.join(coverage['LAWS'])} |"
    cells = rows[1].strip("| ").split(" | ")
    assert cells[2] == f"{100 * coverage['exact'](6):.1f} %"
    assert cells[3:] == [f"{100 * coverage['coverage'](law, 6):.1f} %" for law in coverage["LAWS"]]
    for count in coverage["COUNTS"]:
        (row,) = (line for line in text.splitlines() if line.startswith(f"| {count} | ") and " and " in line[:14])
        shares = [float(cell.removesuffix(" %")) for cell in row.strip("| ").split(" | ")[2:]]
        assert min(shares) >= 95


def test_every_figure_shown_exists():
    for part in README.split("](figures/")[1:]:
        assert (ROOT / "figures" / part.split(")")[0]).is_file()
