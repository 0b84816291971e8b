"""Tables of figures/ that only the documentation quotes follow from their scripts."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import quadsim as qs
from quadsim.engine.table import read_csv

ROOT = Path(__file__).parents[2]
EXPERIMENTS, FIGURES = ROOT / "experiments", ROOT / "figures"


@pytest.fixture
def script(monkeypatch):
    def load(name):
        monkeypatch.syspath_prepend(EXPERIMENTS)
        spec = importlib.util.spec_from_file_location(name, EXPERIMENTS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load


def test_the_count_of_recipes(script):
    recipes = script("recipes")
    _, shifted, unshifted = recipes.table(read_csv(FIGURES / "recipes.csv"))
    sentence = " ".join(recipes.summary(shifted, unshifted).split())
    text = " ".join((FIGURES / "recipes.md").read_text(encoding="utf-8").split())
    assert sentence in text
    assert sentence.replace("40 recipes", "41 recipes") not in text


def test_coverage_of_intervals(script):
    """The exact numbers and the shape; the simulated numbers of one row are recomputed."""
    coverage = script("interval_coverage")
    table = read_csv(FIGURES / "interval-coverage.csv").set_index("seeds")
    assert list(table.index) == list(coverage.COUNTS)
    assert list(table.columns) == ["lower", "upper", "exact", *coverage.LAWS]
    assert table["exact"].to_numpy() == pytest.approx([coverage.exact(count) for count in coverage.COUNTS], abs=1e-6)
    assert table.loc[6, list(coverage.LAWS)].tolist() == [coverage.coverage(law, 6) for law in coverage.LAWS]
    assert table[["exact", *coverage.LAWS]].to_numpy().min() >= coverage.LEVEL


def test_medians_of_the_cases():
    """Twenty of the 200 seeds lie around the recorded quartiles as a sample of them does."""
    table = read_csv(FIGURES / "case-medians.csv").set_index(["case", "optimizer"])
    for (case, name), row in table.iterrows():
        optimizer = {"gd": qs.GD(), "frozen-adam": qs.FrozenAdam(), "block-gd": qs.BlockGD()}[name]
        steps = [qs.exact(qs.case(case, seed=seed), optimizer, seed=seed, tol=1e-6).steps_to_tol for seed in range(20)]
        inside = np.mean((np.array(steps) >= row["lower"]) & (np.array(steps) <= row["upper"]))
        assert 0.15 <= inside <= 0.95, (case, name, steps)
        assert row["lower"] <= row["median"] <= row["upper"]


def test_variants_of_the_kernel(script):
    """Same bits are a property of the code, not of the machine: the table says what decisions.md discusses."""
    table = read_csv(FIGURES / "kernel-variants.csv")
    variants = script("kernel_variants")
    assert set(table["variant"]) == set(variants.VARIANTS)
    assert (
        table["ratio"] * table["kernel_ns"] / table["variant_ns"] - 1
    ).abs().max() < 0.005  # rounded to three digits
    same = table.groupby("variant")["same_bits"].all()
    assert sorted(same[~same].index) == ["Philox: np.random", "row product: BLAS (np.dot)"]
