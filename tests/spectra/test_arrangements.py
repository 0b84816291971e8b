"""The distinct arrangements that heterogeneity selects from, against `partition` itself; and that they are reported."""

import importlib.util
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quadsim as qs
from quadsim.cli import main as cli
from quadsim.engine.table import read_csv
from quadsim.spectra import arrangements


def partitioned(eigenvalues, blocks, heterogeneity):
    return tuple(tuple(part) for part in qs.partition(eigenvalues, blocks, heterogeneity))


def brute_force(eigenvalues, blocks, exchanges):
    """The arrangements that `partition` makes at every number of exchanges, in order, each once."""
    found = [partitioned(eigenvalues, blocks, k / max(exchanges, 1)) for k in range(exchanges + 1)]
    return [one for one, _ in itertools.groupby(found)]


SIZES = [
    *[(size,) * count for count in (1, 2, 3, 4, 7) for size in (1, 2, 3, 5, 8)],
    (1, 3), (3, 1), (5, 1, 2), (1, 1, 9), (2, 7, 4, 1),
]  # fmt: skip


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_arrangements_are_those_that_partition_makes(sizes):
    eigenvalues = np.arange(1.0, sum(sizes) + 1)
    every = arrangements(eigenvalues, list(sizes))
    expected = brute_force(eigenvalues, list(sizes), every.exchanges)
    assert len(every) == len(expected) == len(set(expected))
    assert [partitioned(eigenvalues, list(sizes), share) for share in every.values] == expected
    assert [every.index(share) for share in every.values] == list(range(len(every)))


@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, 7.0]), min_size=1, max_size=14), st.integers(1, 5))
def test_exchanging_equal_eigenvalues_makes_no_new_arrangement(eigenvalues, blocks):
    blocks = min(blocks, len(eigenvalues))
    every = arrangements(eigenvalues, blocks)
    assert len(every) == len(brute_force(eigenvalues, blocks, every.exchanges))


@given(st.integers(1, 5), st.integers(1, 7), st.floats(0, 1), st.floats(0, 1))
def test_two_heterogeneities_are_one_arrangement_if_and_only_if_the_blocks_are_equal(count, size, one, other):
    eigenvalues = np.arange(1.0, count * size + 1)
    every = arrangements(eigenvalues, count)
    same = partitioned(eigenvalues, count, one) == partitioned(eigenvalues, count, other)
    assert (every.index(one) == every.index(other)) == same


@pytest.mark.parametrize(("count", "size"), [(3, 3), (3, 30), (4, 30), (2, 9)])
def test_the_breaks_are_where_partition_changes(count, size):
    eigenvalues = np.arange(1.0, count * size + 1)
    every = arrangements(eigenvalues, count)
    for number, edge in enumerate(every.breaks):
        before, after = (partitioned(eigenvalues, count, edge + step) for step in (-1e-9, 1e-9))
        assert before != after
        assert (every.index(edge - 1e-9), every.index(edge + 1e-9)) == (number, number + 1)
        assert every.range(edge + 1e-9)[0] == edge == every.range(edge - 1e-9)[1]
    assert every.range(0)[0] == 0
    assert every.range(1)[1] == 1


def test_cases_3_and_4_have_five():
    """The ranges found by trying values: 0 to .055, .06 to .385 and so on."""
    every = arrangements(np.concatenate(qs.case_spectra(3)), 3)
    assert len(every) == 5
    assert [every.index(share) for share in (0, 0.055, 0.06, 0.385, 0.39, 0.83, 0.84, 0.94, 0.945, 1)] == [
        0, 0, 1, 1, 2, 2, 3, 3, 4, 4,
    ]  # fmt: skip
    assert len({tuple(map(tuple, qs.case_spectra(4, heterogeneity=h))) for h in np.linspace(0, 1, 2001)}) == 5


def test_a_large_problem_is_counted_without_trying():
    assert len(arrangements(np.arange(1, 4097), 16)) > 4000


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: arrangements([1, 2], 3), "blocks must be a whole number from 1 to 2, got 3"),
        (lambda: arrangements([1, -2], 2), "eigenvalues must be finite and above 0, got -2"),
        (lambda: arrangements([1, 2], 2).index(1.5), "heterogeneity must be a finite number at least 0 and at most 1"),
    ],
)
def test_bad_input_is_refused(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


# ---- in commands and figures


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(line):
        code = cli.main(line.split())
        return code, *capsys.readouterr()

    return run


def test_a_run_says_which_arrangement_it_is(command):
    _, out, _ = command("case=3 heterogeneity=0.5 optimizers=gd")
    assert "Case 3, heterogeneity 0.5 (arrangement 3 of 5)" in out
    assert "heterogeneity 0.389 to 0.833 gives these blocks: arrangement 3 of 5" in out
    _, out, _ = command("case=3 heterogeneity=0.5 optimizers=gd --json")
    arrangement = json.loads(out)["problem"]["arrangement"]
    assert (arrangement["number"], arrangement["of"]) == (3, 5)
    assert arrangement["from"] == pytest.approx(3.5 / 9)
    for line, sentence in (
        ("spectrum=linear blocks=2 block_size=4 heterogeneity=0.2 optimizers=gd", "arrangement 2 of 3"),
        ("spectrum=1,2/3,4/5,6 heterogeneity=1 optimizers=gd", "arrangement 3 of 3"),
        ("case=1 heterogeneity=0 optimizers=gd", "arrangement 1 of 95"),
    ):
        assert sentence in command(line)[1]
    for line in ("case=3 optimizers=gd", "case=3 heterogeneity=0.5 span=whole optimizers=gd"):
        assert "arrangement" not in command(line)[1]


@pytest.mark.slow
def test_a_comparison_says_which_arrangement_it_is(command):
    line = "compare case=3 heterogeneity=0.5 optimizers=gd,signgd seed=0..5 tuning_seed=6..7 max_steps=5 lrs=0.01,0.1"
    assert "heterogeneity 0.5 (arrangement 3 of 5)" in command(f"{line} refine=0 extend=0")[1].replace("\n", " ")


def test_the_help_has_the_numbers(command):
    out = " ".join(command("run --help")[1].split())
    three, thirty = (len(arrangements(range(1, 3 * size + 1), 3)) for size in (3, 30))
    assert f"finitely many distinct arrangements, {three} in all for three blocks of 3, {thirty} for three of 30" in out


SWEEP = "sweep case=3 heterogeneity=0:1:lin21 optimizers=gd,frozen-adam seed=0..2 store=h.db"


def test_a_sweep_says_how_many_and_marks_its_rows(command):
    _, out, _ = command(SWEEP)
    assert "heterogeneity: 21 values, 5 of 5 distinct arrangements" in out
    _, out, _ = command(f"{SWEEP} --json")
    rows = json.loads(out)["rows"]
    assert json.loads(out)["heterogeneity"] == [{"values": 21, "distinct": 5, "of": 5}]
    assert len(rows) == 42
    assert {row["arrangement"] for row in rows} == {1, 2, 3, 4, 5}
    every = arrangements(range(1, 10), 3)
    assert all(row["arrangement"] == every.index(row["heterogeneity"]) + 1 for row in rows)
    _, out, _ = command("sweep case=3 heterogeneity=0,0.1,1 optimizers=gd seed=0 store=few.db")
    assert [word in out for word in ("  1 of 5 ", "  2 of 5 ", "  5 of 5 ", "  3 of 5 ")] == [True, True, True, False]
    assert "heterogeneity: 3 values, 3 of 5 distinct arrangements" in out


def test_two_block_sizes_are_counted_separately(command):
    _, out, _ = command(
        "sweep case=3 block_size=3,30 span=blocks,whole heterogeneity=0,0.01,1 optimizers=gd store=h.db"
    )
    assert "heterogeneity: 3 values, 2 of 5; 3 values, 3 of 51 distinct arrangements" in out
    counts = json.loads(command("plot h.db --json")[1])["heterogeneity"]
    assert counts == [{"values": 3, "distinct": 2, "of": 5}, {"values": 3, "distinct": 3, "of": 51}]


def test_a_figure_has_one_point_for_each(command):
    command(SWEEP)
    code, out, _ = command("plot h.db --json")
    summary = json.loads(out)
    assert (code, summary["heterogeneity"]) == (0, [{"values": 21, "distinct": 5, "of": 5}])
    table = read_csv("figures/h.csv")
    assert list(table["optimizer"].value_counts()) == [5, 5]
    assert set(table["draws"]) == {3}
    assert list(table.loc[table["optimizer"] == "gd", "heterogeneity"]) == [0, 0.2, 0.6, 0.85, 1]
    assert "21 values are 5 of 5 distinct arrangements, drawn once each" in command("plot h.db")[1]
    assert "are 5 of 5" in Path("figures/h.svg").read_text(encoding="utf-8")


def test_arrangements_of_different_problems_stay_apart():
    rows = qs.sweep(case=3, block_size=[3, 6], heterogeneity="0:1:lin11", optimizers="gd", seed=range(2))
    table = qs.plots.medians(rows, ["heterogeneity"])
    counts = {n: len({arrangements(range(1, 3 * n + 1), 3).index(k / 10) for k in range(11)}) for n in (3, 6)}
    assert counts[3] == 5 < counts[6]
    assert dict(table.groupby("block_size").size()) == counts
    for row in table.itertuples():
        assert row.draws == 2
        every = arrangements(range(1, 3 * row.block_size + 1), 3)
        ours = rows[(rows["block_size"] == row.block_size)]
        same = ours[[every.index(h) == every.index(row.heterogeneity) for h in ours["heterogeneity"]]]
        assert set(same["steps_to_tol"]) >= {row.median}


def test_no_experiment_draws_an_arrangement_twice():
    root = Path(__file__).parents[2]
    spec = importlib.util.spec_from_file_location("zhang_js_gap", root / "experiments/zhang_js_gap.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    seen = {}
    for family, name, _, problem_of in module.problems():
        if family != "networks":
            parts = problem_of(0).eigenvalues
            seen.setdefault((family, tuple(tuple(part) for part in parts)), []).append(name)
    assert len(seen) > 80
    assert [names for names in seen.values() if len(names) > 1] == []
