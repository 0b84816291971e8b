"""`compare` and `sweep` beside given and default learning rates: titles, footers and rows."""

import functools
import re

import pytest
from rich.console import Console

import quadsim as qs
from quadsim.cli import compare_report

WINNER = r"Heavy ball [\d,.]+× (lower|higher)"


@functools.cache
def compared(given=(), objective="final-loss"):
    grids = {name: [1e-4] for name in given}
    optimizers = [qs.GD(), qs.HeavyBall(), qs.Adam()]
    return qs.compare(qs.case(3), optimizers, seed=range(8), max_steps=100, grids=grids, objective=objective)


def test_titles_name_a_winner_between_tuned_rates():
    assert re.search(WINNER, compare_report.finding(compared()))


def test_titles_name_no_winner_between_a_tuned_and_a_given_rate():
    title = compare_report.finding(compared(("adam",)))
    assert "Adam at a given learning rate" in title
    assert re.search(WINNER, title), "both are tuned"
    assert title.count("×") == 1
    title = compare_report.finding(compared(("gd",)))
    assert title.startswith("Case 3, final loss compared with GD at a given learning rate: ")
    assert "Adam at a tuned one" in title
    assert "Heavy ball at a tuned one" in title
    assert "×" not in title


def test_rates_that_are_all_given_are_compared():
    title = compare_report.finding(compared(("gd", "heavy-ball", "adam")))
    assert "×" in title
    assert "given" not in title
    assert "tuned" not in compare_report.method(compared(("gd", "heavy-ball", "adam")))
    assert "tuned" in compare_report.method(compared(("gd",)))


@pytest.mark.parametrize("objective", ["final-loss", "mean-log-loss"])
def test_the_footer_explains_every_column(objective, capsys):
    screen = Console(width=250, markup=False, highlight=False)
    compare_report.show_comparisons(screen, [compared(objective=objective)])
    out = capsys.readouterr().out
    heading = next(line for line in out.splitlines() if line.strip().startswith("optimizer"))
    footer = " ".join(out[out.index("Columns: ") :].split())
    names = [name for name in heading.split("  ") if name.strip()]
    for name in (name.strip().partition(" (9")[0] for name in names):
        assert name in ("optimizer", "2·lr") or f"{name}: " in footer, name


def test_rows_of_a_sweep_say_where_rates_come_from(tmp_path, capsys):
    from quadsim.cli.main import main

    keys = ["case=3", "kappa=10,100", "max_steps=50", "seed=0..1"]
    for optimizers, marked in (("gd,adam", True), ("gd,frozen-adam", False)):
        assert main(["sweep", *keys, f"optimizers={optimizers}", f"store={tmp_path / optimizers}.db"]) == 0
        out = capsys.readouterr().out
        rows = [line.split() for line in out.splitlines() if line.strip().startswith(("10 ", "100 "))]
        assert len(rows) == 4
        assert ("lr from" in out) == marked
        assert [row[2] for row in rows] == (["theory", "default"] * 2 if marked else ["2"] * 4)
        assert ("seed=0..1" in out.partition("compare tunes")[2]) is False, "two draws show no difference"


@pytest.mark.parametrize("words", ["compare", "tune", "cases"])
def test_stretched_problems_say_so(command, words):
    """Cases 1 and 2 are mapped to their condition number, Cases 3 and 4 have it."""
    options = "optimizers=gd,signgd seed=0..5 max_steps=5" + (
        "" if words == "cases" else " refine=0 extend=0 lrs=1e-4,1e-3"
    )
    code, out, err = command(words, "case=1,3", *options.split())
    assert code == 0, err
    flat = " ".join(out.split())
    assert "Case 1: eigenvalues mapped affinely" in flat
    assert "to κ = 5000" in flat
    assert "Case 3: eigenvalues" not in flat
