"""Tables for papers: what they say about given rates, several problems and failures."""

import functools

import pytest

import quadsim as qs
from quadsim._validation import InputError
from quadsim.comparison.paired import corrected

SHORT = {"seed": range(6), "max_steps": 20}


@functools.cache
def compared(given=(), problem=3, objective="final-loss", **options):
    grids = {name: [1e-4] for name in given}
    return qs.compare(qs.case(problem), [qs.GD(), qs.HeavyBall()], grids=grids, objective=objective, **SHORT | options)


def cells(table, label):
    return next(line for line in table.splitlines() if label in line).split("|")


def test_given_rates_are_marked():
    for given, note in (
        ((), "learning rates tuned on 6 other draws."),
        (("gd",), "learning rates tuned on 6 other draws, given for GD."),
        (("gd", "heavy-ball"), "learning rates as given, not tuned."),
    ):
        table = compared(given).to_markdown()
        assert note in table
        for name, label in (("gd", "GD"), ("heavy-ball", "Heavy ball")):
            assert ("given" in cells(table, f" {label} |")[3]) == (name in given)
        latex = compared(given).to_latex()
        assert latex.count("$ given &") == len(given)
        assert repr(compared(given)).count("lr given") == len(given)
        assert compared(given)._repr_html_().count("(given)") == len(given)
    assert compared(("gd",)).given == ["GD"]


def test_one_table_is_one_family_of_comparisons():
    first, second = compared(), compared(problem=4)
    table = first.to_latex(second)
    assert "Holm over 2 comparisons" in table
    assert table == corrected([first, second])[0].to_latex(*corrected([first, second])[1:])
    assert "Holm over 1 comparison" in first.to_latex()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: compared(objective="mean-log-loss"), "one objective, got final-loss and mean-log-loss"),
        (lambda: compared(max_steps=30), "one max_steps, got 20 and 30"),
        (lambda: compared(level=0.9), "one level, got 0.95 and 0.9"),
        (lambda: qs.solve(qs.case(3), qs.GD(), max_steps=5), "a table holds comparisons"),
        (lambda: [compared()], "one argument for each, got"),
        (lambda: None, "got None"),
    ],
)
def test_tables_that_would_mix_quantities_are_refused(other, words):
    for export in (compared().to_latex, compared().to_markdown):
        with pytest.raises(InputError, match=words) as caught:
            export(other())
        assert "\n" not in str(caught.value)


def test_different_numbers_of_draws_are_named():
    table = compared().to_markdown(compared(problem=4, seed=range(8)))
    assert "medians over 6 or 8 draws; learning rates tuned on 6 or 8 other draws" in table


def test_if_every_run_failed_it_is_said():
    options = {"seed": range(6), "max_steps": 400}
    failed = qs.compare(qs.case(3), [qs.GD(), qs.HeavyBall()], lrs=[1e6, 1e7], **options)
    assert "no run has a result" in repr(failed)
    assert "No run has a result" in failed._repr_html_()
    assert ">+0<" not in failed._repr_html_()
    assert "Case 3: no run has a result" in failed.to_markdown()
    assert "Case 3: no run has a result" in failed.to_latex()
    for shown in (repr(compared()), compared()._repr_html_(), compared().to_markdown()):
        assert "no run has a result" not in shown.lower()
