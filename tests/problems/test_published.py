"""The lines on the published figure: their numbers are those of the committed records."""

import json
import re
from pathlib import Path

import pytest

from quadsim.engine.table import read_csv
from quadsim.problems import published

FIGURES = Path(__file__).parents[2] / "figures"
KEYS = ["rule", "sign", "map"]


@pytest.fixture(scope="module")
def record():
    return json.loads((FIGURES / "zhang-four-cases.json").read_text(encoding="utf-8"))


def factor():
    """How many times as long Adam takes as GD on Case 2, by the medians over the committed draws, and their number."""
    table = read_csv(FIGURES / "zhang-four-cases.csv")
    steps = table[table["case"] == 2].pivot(index="seed", columns="optimizer", values="steps_to_tol")
    return steps["frozen-adam"].median() / steps["gd"].median(), len(steps)


def recipes():
    """How many recipes that map to κ = 5000 there are, and in how many GD and Adam relate as published in both cases.

    Case 1: Adam at least twice as fast as GD; Case 2: neither twice as fast as the other.
    """
    table = read_csv(FIGURES / "recipes.csv").fillna({"gd_median": float("inf"), "adam_median": float("inf")})
    table = table[table["map"] != "unshifted"].assign(ratio=lambda frame: frame["gd_median"] / frame["adam_median"])
    ratio = table.pivot(index=KEYS, columns="case", values="ratio")
    return len(ratio), int(((ratio[1] >= 2) & ratio[2].between(0.5, 2, inclusive="neither")).sum())


@pytest.mark.parametrize("line", [published.CASE_2, published.CASES])
def test_the_numbers_are_those_of_the_records(line):
    times, draws = factor()
    strict = recipes()
    found = re.search(r"Adam takes ([\d.]+) times as long", line)
    assert found[1] == f"{times:.2g}"
    assert f"{strict[1]} of {strict[0]} ways" in line
    if line is published.CASE_2:
        assert f"({draws} draws, best closed-form rates)" in line
    assert f"{strict[1] + 1} of" not in line  # the check can fail
    assert "\n" not in line


def test_the_verdicts_are_those_of_the_record(record):
    verdicts = {row["what"][:6]: row["verdict"] for row in record["checks"] if row["what"].startswith("Case ")}
    agree = [name for name, verdict in verdicts.items() if verdict == "reproduced"]
    assert agree == ["Case 1", "Case 3", "Case 4"]
    assert "Here Cases 1, 3 and 4 agree; on Case 2" in published.CASES
    of = {row["what"][:6]: row["published"] for row in record["checks"]}
    assert of["Case 1"] == of["Case 3"] == "GD much slower than Adam"
    assert of["Case 2"] == of["Case 4"] == "GD about as fast as Adam"


def fair_gaps(baseline, adam):
    """The median gaps after 1,000 steps without noise, Case 1 to 4."""
    table = read_csv(FIGURES / "four-cases-fairly.csv", keep_default_na=False)
    rows = table[(table["noise"] == "none") & (table["horizon"] == 1_000)].set_index(["baseline", "adam"])
    rows = rows.loc[(baseline, adam)].sort_values("cases")
    return [rows[column].iloc[pair] for pair in (0, 1) for column in ("gap_differ", "gap_alike")]


@pytest.mark.parametrize(
    ("text", "methods"),
    [("ahead of GD by", ("plain", "adam-0.9-0.999")), ("ahead of heavy ball by", ("momentum", "adam-best"))],
)
def test_the_fair_comparison_is_that_of_the_record(text, methods):
    numbers = ", ".join(f"{gap:.1f}".replace("-", "−") for gap in fair_gaps(*methods))
    assert f"{text} {numbers}" in published.FAIRLY
    others = ", ".join(f"{gap:.1f}".replace("-", "−") for gap in fair_gaps("nesterov", methods[1]))
    assert others not in published.FAIRLY  # the check can fail


def test_a_line_is_for_the_published_problems_only():
    assert published.notes(["case 2"]) == [published.CASE_2]
    assert published.notes(["case 1", "case 2"]) == [published.CASES, published.FAIRLY]
    for problems in ([], ["case 3", "case 4"], ["case 2, kappa 100"], ["own spectrum"]):
        assert published.notes(problems) == []
