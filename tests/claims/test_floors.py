"""Section 5 of the ledger, with negative controls: the checks must catch broken theory and wrong constants."""

from dataclasses import replace

import numpy as np
import pytest

from quadsim.claims import adversary, attractors, case_floors, cycles, orbits, underflow, verification
from quadsim.claims import floors as floor_claims
from quadsim.claims.ledger import LEDGER
from quadsim.claims.observations import Observation
from quadsim.engine.solver import solve
from quadsim.optimizers import Adam
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.theory import floors, sdp

SECTION = [one for key, one in LEDGER.items() if key.startswith("5")]
DRAWS = {
    "5g": 15, "5g-width": 15, "5g-constant": 1, "5g-envelope": 1,
    "5g-frustrated": 3, "5g-momentum": 4, "5g-momentum-small": 5, "5h-case3": 20,
    "5h-max": 15, "5h-case4": 5, "5h-above": 20, "5h-converges": 120, "5h-haar": 2000, "5i-trap": 500, "5i-spurious": 5,
}  # fmt: skip
FALSE = [one.id for one in SECTION if one.status == "FALSE"]


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(one, id=one.id, marks=pytest.mark.slow if one.id in ("5i-trap", "5g-lower") else ())
        for one in SECTION
    ],
)
def test_verdict_is_the_expected_one(one):
    found = verification.verify_claim(one, DRAWS.get(one.id, min(one.draws, 60)), seed=3)
    assert found.ok, found


def test_section_has_all_lines():
    assert {one.id.partition("-")[0] for one in SECTION} == {f"5{letter}" for letter in "abcdefghij"}


def scaled(function, factor, field=None):
    """The value of a function, or one field of it, multiplied by a factor."""

    def broken(*arguments, **options):
        value = function(*arguments, **options)
        if field is not None:
            return replace(value, **{field: getattr(value, field) * factor})
        return (value[0] * factor, *value[1:]) if isinstance(value, tuple) else value * factor

    return broken


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "room", "name", "factor", "field", "verdict"),
    [
        ("5a-sign", floor_claims, "_sign_floor", 1.01, None, "not attained"),
        ("5b", floors, "nonconvergence", 1.01, None, "violated"),
        ("5b", floors, "nonconvergence", 0.5, None, "not attained"),
        ("5c", floors, "cycle_loss", 1.01, None, "violated"),
        ("5d", floors, "stability_limit", 1.02, None, "violated"),
        ("5d", floors, "cycle_multipliers", 1.01, None, "violated"),
        ("5d-momentum", floors, "stability_limit", 0.98, None, "violated"),
        ("5e", floors, "floor_bounds", 1.01, "stable_cycle", "violated"),
        ("5e", floors, "floor_bounds", 0.99, "stable_cycle", "not attained"),
        ("5f", sdp, "sdp_value", 0.5, "multipliers", "violated"),
        ("5f", sdp, "sdp_value", 1.1, "multipliers", "not attained"),
        ("5b", floors, "floor_bounds", 9.0, "limsup", "violated"),
        ("5g", floors, "floor", 0.9, None, "violated"),
        ("5g-width", floors, "floor", 1.3, None, "violated"),
        ("5g-frustrated", floors, "floor", 0.9, None, "violated"),
        ("5g-momentum", floors, "floor", 0.8, None, "violated"),
        ("5h-diagonal", sdp, "sdp_value", 0.99, "value", "violated"),
        ("5h-max", sdp, "largest_sign_sum", 1.001, None, "violated"),
        ("5i", floors, "contraction_depth", 0.9, None, "violated"),
        ("5j", floors, "amplitude_1d", 1.01, None, "violated"),
    ],
)
def test_broken_theory_is_caught(claim, room, name, factor, field, verdict, monkeypatch):
    monkeypatch.setattr(room, name, scaled(getattr(room, name), factor, field))
    found = verification.verify_claim(LEDGER[claim], {"5g-momentum": 2}.get(claim, DRAWS.get(claim, 60)), seed=0)
    assert not found.ok
    assert found.verdict == verdict, found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "name", "value"),
    [
        ("5g-frustrated", "MEASURED", {0.9: 3.78, 0.99: 3.8891, 0.999: 3.8989}),
        ("5h-case3", "TRACE", 15310.0),
        ("5h-case3", "SIGN_SUMS", (15300.0, 15312.0)),
        ("5i-trap", "TRAP", {0.992: (0.0, 0.0), 0.993: (0.0, 0.0), 0.999: (0.9, 1.0)}),
        ("5i-trap", "TRAP", {0.992: (0.0, 0.0), 0.993: (0.9, 1.0), 0.999: (0.9, 1.0)}),
    ],
)
def test_another_constant_is_caught(claim, name, value, monkeypatch):
    module = {"5i-trap": underflow, "5h-case3": case_floors}.get(claim, attractors)
    monkeypatch.setattr(module, name, value)
    found = verification.verify_claim(LEDGER[claim], 200 if claim == "5i-trap" else DRAWS[claim], seed=0)
    assert found.verdict == "violated", found


@pytest.mark.parametrize(
    ("claim", "name", "value"),
    [
        ("5g-constant", "LARGEST_Q", 4.0),  # a bound that holds is not refuted
        ("5g-envelope", "LARGEST_Q", 4.0),
        ("5g-envelope", "DEEP", tuple((*one[:3], one[3] + 0.01) for one in attractors.DEEP)),  # another q than stated
        ("5g-lower", "LOW", tuple((*one[:3], one[3] + 0.001) for one in attractors.LOW)),
        ("5g-lower", "_stable_width", lambda gap: gap),
    ],
)
def test_false_bound_must_be_refuted_by_counterexamples_and_search(claim, name, value, monkeypatch):
    monkeypatch.setattr(attractors, name, value)
    one = LEDGER[claim]
    short = replace(one, search=replace(one.search, evaluations=800))
    assert verification.verify_claim(short, one.draws, seed=0).verdict == "not refuted"


def test_sign_descent_bound_fails_with_a_zero_gradient():
    """5a-sign requires nonzero gradients; without this condition the example of its proof is a counterexample."""
    problem = BlockQuadratic.from_blocks([np.eye(2)])
    signs = Adam(lr=0.5, beta1=0.0, beta2=0.0, eps=0.0)
    loss = solve(problem, signs, w0=np.array([1.0, 0.25]), tol=0, max_steps=3, record=1).loss
    assert (loss[2] + loss[3]) / 2 == 0.03125 < floor_claims._sign_floor(problem, 0.5) == 0.0625


def test_missing_edge_of_stability_is_none(monkeypatch):
    monkeypatch.setattr(floors, "stability_limit", lambda beta2, beta1=0.0: 1.0)
    assert cycles._edge(np.random.default_rng(0), 0.0) is None


def test_law_with_the_trace_or_the_best_cycle_is_caught(monkeypatch):
    """The frustrated block distinguishes SDP(H) from max sᵀHs, and from tr H, which is less."""
    best = sdp.largest_sign_sum(attractors.FRUSTRATED)[0]
    assert np.trace(attractors.FRUSTRATED) < best
    monkeypatch.setattr(floors, "floor", lambda block, lr: lr**2 / 8 * best)
    assert verification.verify_claim(LEDGER["5g-frustrated"], 3, seed=0).verdict == "violated"


def test_stability_of_the_wrong_cycles_is_caught(monkeypatch):
    """If no cycle counts as stable, every block that ends on a cycle contradicts 5h-converges."""
    monkeypatch.setattr(floors, "is_stable_cycle", lambda block, s, beta2: False)
    assert verification.verify_claim(LEDGER["5h-converges"], 10, seed=0).verdict == "violated"


@pytest.mark.parametrize("claim", FALSE)
def test_false_claim_that_is_not_refuted_is_reported(claim):
    one = LEDGER[claim]
    value = {"5h-case4": 1.0, "5i-spurious": 0.0}.get(claim)
    short = one.search and replace(one.search, evaluations=400)
    blind = replace(one, check=lambda draws: [Observation(0.1, value=value) for _ in draws], search=short)
    found = verification.verify_claim(blind, 5, seed=0)
    assert (found.verdict, found.ok) == ("not refuted", False)


@pytest.mark.parametrize("claim", ["5h-case3", "5h-converges", "5h-haar", "5i", "5i-trap"])
def test_too_few_draws_confirm_nothing(claim):
    found = verification.verify_claim(LEDGER[claim], 1, seed=0)
    assert found.verdict == "undecided"
    assert not found.ok


@pytest.mark.slow
@pytest.mark.parametrize("claim", ["5g-envelope", "5g-lower"])
def test_search_refutes_false_bounds_from_a_cold_start(claim):
    """With the budget and the axes of the claims that hold; only the margin and the block size differ."""
    one, asserted = LEDGER[claim], LEDGER["5g"]
    assert one.search.evaluations == asserted.search.evaluations
    shared = {"v0", "gap"}
    assert [axis for axis in one.search.axes if axis.name in shared] == [
        axis for axis in asserted.search.axes if axis.name in shared
    ]
    worst = adversary.least([verification.run_search(one, one.draws, island, 1) for island in range(adversary.ISLANDS)])
    assert worst.margin < -1e-3


def test_search_axes_are_wider_than_the_counterexamples():
    axes = {axis.name: axis for axis in LEDGER["5g-lower"].search.axes}
    assert (axes["e"].low, axes["e"].high) == (-1, 1)
    assert axes["gap"].high / axes["gap"].low > 30
    ends = attractors.coupled(np.ones((2, 1)), np.array([[1e-9], [1.0]]), np.array([0.1, 0.1]))[:, 0, 1]
    assert ends[1] / ends[0] > 99  # couplings from 1/10 to 10 times the threshold


def test_oracle_agrees_with_the_solver():
    """Runs of the oracle and of the solver agree to rounding, while orbits are not chaotic."""
    h, e = np.array([[1.0, -0.3], [-0.3, 2.0]]), np.array([0.9, -0.2])
    adam = Adam(lr=1.0, beta1=0.0, beta2=0.9, eps=0.0, init="gradient")
    loss = solve(BlockQuadratic.from_blocks([h]), adam, w0=e, tol=0, max_steps=39, record=1).loss
    weights = np.sin(np.pi * (np.arange(20) + 0.5) / 20) ** 2
    run = orbits.long_run(h[None], e[None], 0.9, before=20, counted=20)
    assert np.isclose(run.loss[0], (weights * loss[20:]).sum() / weights.sum(), rtol=1e-12)
    kicked = orbits.long_run(h[None], e[None], 0.9, before=20, counted=20, kick=1e-3)
    assert 1e-9 < abs(kicked.loss[0] / run.loss[0] - 1) < 0.1


@pytest.mark.parametrize("claim", ["5b", "5f", "5g-momentum-small", "5h-above"])
def test_draw_does_not_depend_on_the_others(claim):
    """Seven draws are the first seven of thirty, also where draws are computed in batches."""
    seen = []
    for draws in (7, 30):
        one = LEDGER[claim]
        kept = []
        check = one.check
        spy = replace(one, check=lambda turns, check=check, kept=kept: kept.extend(check(turns)) or kept[-len(turns) :])
        spy = replace(spy, search=None)
        verification.verify_claim(spy, draws, seed=2)
        seen.append([item.slack for item in kept[:7]])
    assert seen[0] == seen[1]
