"""The adversarial search: every asserted inequality has one, and it finds known minima and wrong bounds."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernels import slow_except

from quadsim import claims, theory
from quadsim._validation import InputError
from quadsim.claims import adversary, document, ledger, verification
from quadsim.claims.adversary import Axis, Matrix, Option, Search
from quadsim.claims.ledger import EQUALITY, EXACT, INEQUALITY, PROVED, SAMPLE, TESTED
from quadsim.claims.observations import Observation

ROOT = Path(__file__).parents[2]
ASSERTED = [one for one in claims.select() if one.status in (PROVED, EXACT, TESTED)]
SEARCHED = [one for one in claims.select() if one.search]


def test_every_asserted_inequality_declares_a_search():
    for one in ASSERTED:
        assert one.relation in (INEQUALITY, EQUALITY, SAMPLE), one.id
        assert (one.search is not None) == (one.relation == INEQUALITY), one.id
    assert sum(one.relation == INEQUALITY for one in ASSERTED) >= 35


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(
            one, id=one.id, marks=pytest.mark.slow if one.id == "6-bits" else ()
        )  # it compiles every optimizer
        for one in ASSERTED
        if one.relation != INEQUALITY
    ],
)
def test_equalities_and_laws_have_no_positive_slack(one):
    """Only an inequality can have positive slack; elsewhere it would mean that a search is missing."""
    slacks = np.array([seen.slack for seen in verification.run_draws(one, 0, min(one.draws, 12), 0)])
    assert not ((slacks > 0) & np.isfinite(slacks)).any()


def test_inequalities_have_positive_slack():
    """Negative control of the previous test."""
    batches = [verification.run_draws(claims.LEDGER[id], 0, 12, 0) for id in ("1a", "5e", "9-gd", "10-time")]
    assert all(any(0 < seen.slack < np.inf for seen in batch) for batch in batches)


@pytest.mark.parametrize("status", [PROVED, EXACT, TESTED])
@pytest.mark.parametrize("relation", [None, INEQUALITY])
def test_claim_without_search_or_relation_is_refused(status, relation, check_refused):
    check_refused(
        lambda: ledger.claim(status, "99", draws=1, relation=relation)(lambda draw: Observation(0.0)),
        "claim 99 needs search=Search(...), or relation=EQUALITY or SAMPLE if it is no inequality",
    )
    assert "99" not in claims.LEDGER


@pytest.mark.parametrize("one", SEARCHED, ids=lambda one: one.id)
def test_axes_are_data_and_decode(one):
    """Every axis has a unique name and a range, and decodes points of the unit cube to finite values."""
    axes = one.search.axes
    assert len({axis.name for axis in axes}) == len(axes)
    assert all(axis.low < axis.high for axis in axes)
    points = np.random.default_rng(0).uniform(size=(4, one.search.width))
    values = one.search.decode(points)
    assert all(len(value) == 4 and np.isfinite(value).all() for value in values.values())


def test_search_finds_a_minimum_and_its_point():
    one = Search([Axis("x", -5, 5, 3), Option("shift", 3)], lambda x, shift: float(((x - 1) ** 2).sum() + shift - 0.5))
    found = adversary.search(one, np.random.default_rng(0), 2000)
    assert np.isclose(found.margin, -0.5, atol=1e-6)
    assert np.allclose(found.at["x"], 1, atol=1e-2)
    assert found.at["shift"] == 0
    assert found.evaluations <= 2000


def test_search_finds_the_global_minimum():
    """Rastrigin's function: many local minima, the lowest at 0."""
    one = Search([Axis("x", -5.12, 5.12, 2)], lambda x: float((x**2 - np.cos(2 * np.pi * x) + 1).sum()))
    assert adversary.search(one, np.random.default_rng(1), 3000).margin < 1e-3


def test_nan_margin_is_a_violation():
    one = Search([Axis("x", 0, 1)], lambda x: np.nan if x < 0.5 else 1.0)
    assert adversary.search(one, np.random.default_rng(0), 100).margin == -np.inf


def test_invalid_point_does_not_count():
    def margin(x):
        if x < 0.5:
            raise InputError("too small")
        return float(x)

    assert adversary.search(Search([Axis("x", 0, 1)], margin), np.random.default_rng(0), 400).margin >= 0.5
    with pytest.raises(ZeroDivisionError):  # other errors are not hidden
        adversary.search(Search([Axis("x", 0, 1)], lambda x: 1 / 0), np.random.default_rng(0), 40)


def test_only_confirmed_margins_are_reported():
    """A margin that is low for x < 0.7 but not confirmed must neither be reported nor mislead the search."""
    axes = [Axis("x", 0, 1)]
    one = Search(axes, lambda x: -1.0 if x < 0.7 else 1.0 - x, lambda x: 5.0 if x < 0.7 else 1.0 - x)
    found = adversary.search(one, np.random.default_rng(0), 800)
    assert 0 <= found.margin < 0.1
    assert found.at["x"] > 0.9


def test_islands_divide_an_axis():
    one = Search([Axis("x", 1, 16, log=True), Axis("y", 0, 1)], lambda x, y: x, strata="x")
    ends = [one.of_island(number).axes[0] for number in range(adversary.ISLANDS)]
    assert np.allclose([(axis.low, axis.high) for axis in ends], [(1, 2), (2, 4), (4, 8), (8, 16)])
    found = [adversary.search(one, np.random.default_rng(0), 200, number).margin for number in range(4)]
    assert np.allclose(found, [1, 2, 4, 8], rtol=1e-2)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_matrices_are_positive_definite_with_couplings_of_all_sizes(size):
    axis = Matrix("h", size)
    h = axis.decode(np.random.default_rng(0).uniform(size=(400, axis.width)))
    assert h.shape == (400, size, size)
    assert (h == h.swapaxes(1, 2)).all()
    assert np.allclose(h[:, 0, 0], 1)
    assert np.linalg.eigvalsh(h).min() > 0
    if size > 1:
        root = np.sqrt(np.einsum("kii->ki", h))
        coupling = (h / root[:, :, None] / root[:, None, :])[:, 0, 1]
        assert np.abs(coupling).min() < 0.01
        assert np.abs(coupling).max() > 0.5
        assert coupling.min() < 0 < coupling.max()


@pytest.mark.parametrize(
    ("claim", "name", "factor"),
    slow_except(
        [("1a", "rate", 0.999), ("1b", "lower_bound", 1.001), ("2b", "block_rate", 0.99), ("2d", "kappa_eff", 1.01),
         ("2a-rate", "rate", 0.999), ("4b", "best_rate", 1.001), ("4c", "nesterov_bound", 0.999),
         ("8-45", "kappa_eff", 0.999)],
        ("1a", "rate", 0.999), ("8-45", "kappa_eff", 0.999),
    ),
)  # fmt: skip
def test_search_alone_catches_a_slightly_wrong_bound(claim, name, factor, monkeypatch):
    true = getattr(theory, name)

    def off(*given, **named):
        value = true(*given, **named)
        return (value[0], value[1] * factor) if isinstance(value, tuple) else value * factor

    one = claims.LEDGER[claim]
    few = replace(one.search, evaluations=one.search.evaluations // 3)  # a third of its budget suffices
    one = replace(one, search=few, check=lambda draws: [Observation(1.0, gap=0.0) for _ in draws])  # blind draws
    assert verification.verify_claim(one, one.draws, seed=0).ok
    monkeypatch.setattr(theory, name, off)
    found = verification.verify_claim(one, one.draws, seed=0)
    assert (found.verdict, found.ok) == ("violated", False)
    assert found.worst < -1e-4
    assert set(found.worst_at) == {axis.name for axis in one.search.axes}


@pytest.mark.slow
def test_search_does_not_depend_on_processes():
    some = claims.select(["2c", "3-best"])
    alone, shared = (claims.verify(some, draws=60, seed=4, workers=workers) for workers in (1, 2))
    assert [(one.worst, one.worst_at, one.searched) for one in alone] == [
        (one.worst, one.worst_at, one.searched) for one in shared
    ]
    other = claims.verify(some, draws=60, seed=5)
    assert [one.worst for one in other] != [one.worst for one in alone]
    assert all(one.searched > 0 for one in alone)


def test_more_draws_mean_more_evaluations():
    one = claims.LEDGER["1a"]
    assert one.evaluations(one.draws) == one.search.evaluations
    assert one.evaluations(10 * one.draws) == 10 * one.search.evaluations
    assert 0 < one.evaluations(1) < 100


def test_the_document_records_the_worst_margins():
    made = json.loads((ROOT / "figures/ledger.json").read_text(encoding="utf-8"))
    text = (ROOT / "figures/ledger.md").read_text(encoding="utf-8")
    table = (ROOT / "figures/ledger.csv").read_text(encoding="utf-8").splitlines()
    assert {"searched", "worst", "worst_at"} <= set(table[0].split(","))
    for row in made["findings"]:
        one = claims.LEDGER[row["claim"]]
        assert bool(row["searched"]) == bool(one.search), one.id
        if one.search:
            assert row["searched"] >= 0.5 * one.search.evaluations, one.id
            assert isinstance(row["worst"], float), one.id
            assert set(row["worst_at"]) == {axis.name for axis in one.search.axes}
            assert f"evaluations of the search, worst margin {document.scientific(row['worst'])}" in text
        if one.search and one.status != "FALSE":
            allowed = one.rounding if one.search.rounding is None else one.search.rounding
            assert row["worst"] >= -allowed, one.id
    for control in ("5g-constant", "5g-envelope", "5g-lower"):
        assert next(row for row in made["findings"] if row["claim"] == control)["worst"] < -1e-3
