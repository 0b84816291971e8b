"""Facts of the tutorials and explanations: helpers refuse what they cannot quote, conclusions are guarded."""

import re

import facts
import facts_changed_minds
import facts_learn
import pytest


def test_one_row_is_quoted():
    row = facts_learn.row("adam-mini-scaling-case-3", size=3)
    assert f"{row['median']:.1f}" in facts.text("case_3_kappa_effs")
    with pytest.raises(ValueError, match="0 entries match"):
        facts_learn.row("adam-mini-scaling-case-3", size=4)
    with pytest.raises(ValueError, match="5 entries match"):
        facts_learn.row("adam-mini-scaling-case-3")


def test_a_check_is_found_by_its_whole_text():
    assert facts_learn.check("zhang-r", "speed-up in Case 3 by the bound")["published"] == "about 5 times"
    with pytest.raises(ValueError, match="0 entries match"):
        facts_learn.check("zhang-r", "speed-up in Case 3")


def test_a_text_without_the_number_is_refused():
    assert facts_learn.found(r"(\d+) recipes", "40 recipes") == "40"
    with pytest.raises(ValueError, match="is not in"):
        facts_learn.found(r"(\d+) recipes", "many recipes")


def test_the_conclusion_that_adam_is_the_fastest_of_three_is_checked(monkeypatch):
    """The page says so in words; the fact fails if the data say otherwise."""
    assert facts_changed_minds.tuned_table().count("Case") == 4
    monkeypatch.setattr(facts_changed_minds, "tuned_steps", lambda optimizer, number: str(len(optimizer)))
    with pytest.raises(ValueError, match="Adam is not the fastest in Case 1"):
        facts_changed_minds.tuned_table()


def test_verdicts_are_counted_over_all_figures():
    counts = [int(number) for number in re.findall(r"\d+", facts.text("verdict_counts"))]
    reproduced, total, differ, unchecked = counts
    assert reproduced + differ + unchecked == total > 0


def test_every_quoted_check_exists_with_a_text():
    for name, (figure, what, columns) in facts_changed_minds.CHECKS.items():
        entry = facts_learn.check(figure, what)
        for column in columns.split():
            assert facts.text(f"{name}_{column}") == entry[column] != ""
