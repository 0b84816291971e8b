"""Tuning: known optima are found, a best at the edge is reported, given grids are kept, divergence is counted."""

from dataclasses import dataclass

import numpy as np
import pytest
from kernels import compiled
from numpy.testing import assert_allclose

import quadsim as qs
from quadsim import _progress
from quadsim.comparison import evaluation
from quadsim.comparison.evaluation import EvaluationProtocol
from quadsim.comparison.search import Search
from quadsim.comparison.tuning import outcome, tune

SPACING = 1 / 16  # of the refined grid, in decades


def case_3(seed):
    return qs.case(3, seed=seed)


def search_for(height, optimizer=None, **how):
    """Run a search on a known objective, a function of the settings."""
    search = Search(optimizer or qs.Adam(), qs.case(3), **how)
    while trials := search.ask():
        for trial in trials:
            score = np.full(3, height(trial), dtype=float)
            search.tell(trial, score, score, np.isinf(score), np.zeros(3))
    return outcome(search, EvaluationProtocol())


def valley(middle, slope=1.0):
    return lambda trial: slope * (np.log10(trial["lr"]) - np.log10(middle)) ** 2


# ---- objectives


def test_objectives_agree_with_their_definitions():
    problem = qs.case(3, seed=5)
    run = qs.solve(problem, qs.GD(), seed=5, max_steps=200, tol=0, record=1, engine="compiled")
    assert EvaluationProtocol(max_steps=200).score(run) == np.log10(run.loss[-1])
    by_hand = np.mean([np.log10(max(loss / run.loss[0], 1e-12)) for loss in run.loss[1:]])
    assert_allclose(EvaluationProtocol("mean-log-loss", max_steps=200).score(run), by_hand, rtol=1e-12)
    run = qs.solve(problem, qs.FrozenAdam(), seed=5, tol=1e-3, engine="compiled")
    assert EvaluationProtocol("steps-to-tol", tol=1e-3).score(run) == np.log10(run.steps_to_tol)


def test_the_objective_is_infinite_for_divergence_and_for_tol_not_reached():
    problem = qs.case(3, seed=5)
    slow = qs.solve(problem, qs.GD(), seed=5, max_steps=20, engine="compiled")
    assert EvaluationProtocol("steps-to-tol").score(slow) == np.inf
    gone = qs.solve(problem, qs.GD(lr=1.0), seed=5, max_steps=500, tol=0, engine="compiled")
    assert gone.status == "diverged"
    for objective in evaluation.OBJECTIVES:
        assert EvaluationProtocol(objective).score(gone) == np.inf


def test_a_run_that_ended_early_keeps_its_last_loss():
    problem = qs.BlockQuadratic.from_spectra([[1.0, 1.0]], rotation=0)
    run = qs.solve(problem, qs.GD(lr=1.0), seed=0, max_steps=100, tol=0, record=1, engine="compiled")
    assert run.last_step == 1
    assert run.loss[-1] == 0
    assert EvaluationProtocol("mean-log-loss", max_steps=100).score(run) == -12
    assert EvaluationProtocol(max_steps=100).score(run) == -300


def test_a_start_at_the_minimum_has_a_score():
    problem = qs.BlockQuadratic.from_spectra([[1.0, 2.0]], seed=0, minimizer=[1.0, 1.0])
    run = qs.solve(problem, qs.GD(), w0=[1.0, 1.0], tol=0, max_steps=10, engine="compiled")
    scores = [EvaluationProtocol(objective, max_steps=10).score(run) for objective in evaluation.OBJECTIVES]
    assert scores == [-300, 0, -12]


def test_long_runs_are_recorded_every_few_steps():
    protocol = EvaluationProtocol("mean-log-loss", max_steps=10_000)
    assert protocol.record_every == 3
    best = tune(case_3, qs.GD(), seed=[0, 1], grid=[1e-4, 2e-4], objective="mean-log-loss", max_steps=10_000)
    run = qs.solve(case_3(0), qs.GD(lr=1e-4), seed=0, max_steps=10_000, tol=0, record=3, engine="compiled")
    other = qs.solve(case_3(1), qs.GD(lr=1e-4), seed=1, max_steps=10_000, tol=0, record=3, engine="compiled")
    first = best.tried.set_index("lr").loc[1e-4, "median"]
    assert_allclose(first, np.mean([protocol.score(run), protocol.score(other)]), rtol=1e-12)


# ---- results


@pytest.mark.parametrize("spectrum", [[1.0, 3.0], [0.01, 0.05, 0.2], [1e3, 2e4]], ids=str)
def test_gd_is_tuned_to_the_lr_of_theory(spectrum):
    """After many steps 2/(μ + L) has the least loss (ledger 1a)."""
    best = tune(
        lambda seed: qs.BlockQuadratic.from_spectra([spectrum], seed=seed), qs.GD(), seed=range(9), max_steps=300
    )
    truth = 2 / (min(spectrum) + max(spectrum))
    assert abs(np.log10(best.optimizer.lr / truth)) <= SPACING
    assert best.edge is None
    assert best.failed is None


def test_adam_is_tuned_as_well_as_by_a_fine_grid():
    how = {"seed": range(11), "max_steps": 200, "objective": "mean-log-loss"}
    best = tune(case_3, qs.Adam(beta1=0.0, beta2=0.9), **how)
    fine = tune(case_3, qs.Adam(beta1=0.0, beta2=0.9), grid=np.geomspace(1e-3, 10, 4 * 24 + 1), **how)
    found, brute = (one.tried.loc[one.tried["best"], "median"].item() for one in (best, fine))
    assert found <= brute + 0.02
    assert abs(np.log10(best.optimizer.lr / fine.optimizer.lr)) <= 2 * SPACING
    assert len(best.tried) < 20


def test_the_table_holds_quartiles_of_the_runs():
    best = tune(case_3, qs.GD(), seed=[3, 1, 4], grid=[1e-4, 3e-4], max_steps=50)
    for _, row in best.tried.iterrows():
        runs = [
            qs.solve(case_3(s), qs.GD(lr=row["lr"]), seed=s, max_steps=50, tol=0, engine="compiled") for s in (3, 1, 4)
        ]
        scores = [np.log10(run.loss[-1]) for run in runs]
        assert_allclose(row[["lower", "median", "upper"]].astype(float), np.quantile(scores, [0.25, 0.5, 0.75]))
    assert list(best.tried["best"]) == list(best.tried["median"] == best.tried["median"].min())


@pytest.mark.parametrize("middle", [3e-4, 0.0123, 0.4])
def test_a_minimum_is_found_up_to_the_spacing_of_the_grid(middle):
    best = search_for(valley(middle))
    assert abs(np.log10(best.optimizer.lr / middle)) <= SPACING / 2 + 1e-9
    assert set(best.tried["level"]) == {"coarse", "refined"}
    assert len(best.tried) == 9 + 2 * 3


def test_a_grid_is_extended_to_the_best():
    for middle in (2e-7, 300.0):
        best = search_for(valley(middle))
        assert abs(np.log10(best.optimizer.lr / middle)) <= SPACING / 2 + 1e-9
        assert best.edge is None
        assert "extended" in set(best.tried["level"])


@pytest.mark.parametrize(("middle", "edge"), [(1e-30, "lowest"), (1e30, "highest")])
def test_the_edge_is_reported_where_the_extension_ends(middle, edge):
    best = search_for(valley(middle))
    assert best.edge == edge
    spans = np.log10([best.tried["lr"].min(), best.tried["lr"].max()])
    assert_allclose(spans, (-8, 0) if edge == "lowest" else (-4, 4), atol=1e-9)
    assert search_for(valley(middle), extend=0).edge == edge
    assert search_for(valley(middle), extend=1).tried["lr"].min() == pytest.approx(1e-5 if edge == "lowest" else 1e-4)


def test_a_given_grid_is_kept():
    grid = [0.03, 0.003, 0.01]
    best = search_for(valley(1.0), grid=grid)
    assert sorted(best.tried["lr"]) == sorted(grid)
    assert set(best.tried["level"]) == {"given"}
    assert (best.optimizer.lr, best.edge) == (0.03, "highest")
    asked = search_for(valley(1.0), grid=grid, refine=2, extend=3)
    assert asked.edge is None
    assert abs(np.log10(asked.optimizer.lr)) < 0.1


def test_grids_of_real_runs_are_extended():
    """A distant start needs a learning rate far above the first guess."""
    problem = qs.BlockQuadratic.from_spectra([[1.0, 2.0]], seed=0)
    best = tune(problem, qs.Adam(), seed=range(3), max_steps=300, start=1.4e4)
    assert best.optimizer.lr > 3
    assert best.edge is None
    assert tune(problem, qs.Adam(), seed=range(3), max_steps=300, start=1.4e4, extend=0).edge == "highest"


def test_other_settings_are_tuned_in_all_combinations():
    def height(trial):
        middle = {0.5: 0.1, 0.9: 0.01}[trial["beta1"]]
        return valley(middle)(trial) + (trial["beta2"] == 0.9) + (trial["beta1"] == 0.9)

    best = search_for(height, grid={"beta1": [0.5, 0.9], "beta2": [0.9, 0.99]})
    assert (best.optimizer.beta1, best.optimizer.beta2) == (0.5, 0.99)
    assert_allclose(best.optimizer.lr, 0.1)
    coarse = best.tried[best.tried["level"] == "coarse"]
    assert len(coarse) == 4 * 9
    refined = best.tried[best.tried["level"] == "refined"]
    assert set(refined["beta1"]) == {0.5}
    assert set(refined["beta2"]) == {0.99}
    assert len(best.curve()) == 9 + len(refined)


def test_every_combination_is_extended_separately():
    def height(trial):
        return valley({0.5: 0.01, 0.9: 1e4}[trial["beta1"]])(trial) + (trial["beta1"] == 0.5)

    best = search_for(height, grid={"beta1": [0.5, 0.9]})
    assert best.optimizer.beta1 == 0.9
    assert_allclose(best.optimizer.lr, 1e4)


# ---- ties and failures


def test_ties_choose_the_smallest_lr():
    best = search_for(lambda trial: 0.0, grid=[0.1, 0.01, 1.0])
    assert best.optimizer.lr == 0.01
    plateau = search_for(lambda trial: 1.0 if trial["lr"] < 0.005 else 0.0, grid=[0.001, 0.01, 0.1])
    assert plateau.optimizer.lr == 0.01


def test_ties_of_medians_are_broken_by_quartiles():
    search = Search(qs.Adam(), qs.case(3), grid=[0.01, 0.1])
    first, second = search.ask()
    search.tell(first, np.array([0.0, 1.0, np.inf]), np.zeros(3), np.array([0, 0, 1]), np.zeros(3))
    search.tell(second, np.array([0.0, 1.0, 2.0]), np.zeros(3), np.zeros(3), np.zeros(3))
    assert outcome(search, EvaluationProtocol()).optimizer.lr == 0.1


def test_divergence_at_every_setting_is_reported():
    best = tune(case_3, qs.GD(), seed=range(3), grid=[1.0, 10.0], max_steps=300)
    assert best.failed == "diverged"
    assert (best.tried["diverged"] == 1).all()
    assert np.isinf(best.tried["median"]).all()
    assert best.sensitivity()["lr_range"] is None
    assert best.slack == 0


def test_if_every_setting_diverges_the_grid_is_extended_below():
    best = search_for(lambda trial: np.inf)
    assert best.failed == "diverged"
    assert best.tried["lr"].min() == pytest.approx(1e-8)
    best = search_for(lambda trial: np.inf if trial["lr"] > 1e-6 else 0.0)
    assert best.failed is None
    assert best.optimizer.lr <= 1e-6


def test_shares_of_divergence_are_those_of_the_runs():
    """FrozenAdam's best lr depends on the draw: a common one is too large for some."""
    best = tune(case_3, qs.FrozenAdam(), seed=range(12), grid=[0.01, 0.1, 0.3, 1.0], max_steps=300)
    shares = best.tried.set_index("lr")["diverged"]
    runs = [
        qs.solve(case_3(s), qs.FrozenAdam(lr=0.3), seed=s, max_steps=300, tol=0, engine="compiled") for s in range(12)
    ]
    assert shares[0.3] == np.mean([run.status == "diverged" for run in runs])
    assert shares.is_monotonic_increasing
    assert 0 < shares[0.3] < 1  # control: some do, some do not


def test_steps_to_tol_that_nothing_reaches():
    best = tune(case_3, qs.GD(), seed=range(3), grid=[1e-5, 1e-4], objective="steps-to-tol", max_steps=100)
    assert best.failed == "not-reached"
    assert best.optimizer.lr == 1e-4  # the one with the least final loss


# ---- slack and sensitivity


def test_slack_is_the_gain_of_the_parabola():
    grid = list(10 ** np.linspace(-3, 0, 13))
    for shift in (0.0, 0.06, 0.12):
        best = search_for(valley(10 ** (-1.5 + shift), 4.0), grid=grid)
        gained = valley(10 ** (-1.5 + shift), 4.0)(best.settings)
        assert_allclose(best.slack, gained, atol=1e-9)


def test_slack_beside_a_cliff_is_the_last_difference():
    def cliff(trial):
        return -np.log10(trial["lr"]) if trial["lr"] < 0.5 else np.inf

    best = search_for(cliff, grid=[0.01, 0.1, 1.0])
    assert_allclose(best.slack, 1.0)
    assert search_for(cliff).slack < 0.07
    assert search_for(valley(0.01), grid=[0.01]).slack == 0


def test_sensitivity_interpolates_the_curve():
    tent = search_for(lambda trial: 2 * abs(np.log10(trial["lr"] / 0.01)), grid=list(10 ** np.arange(-4.0, 1.0)))
    sensitivity = tent.sensitivity()
    reach = np.log10(2) / 2
    assert_allclose([sensitivity["lr_low"], sensitivity["lr_high"]], [10 ** (-2 - reach), 10 ** (-2 + reach)])
    assert_allclose([sensitivity["halved"], sensitivity["doubled"]], 2 * np.log10(2))
    assert not sensitivity["lr_range_open"]
    flat = search_for(lambda trial: 0.0, grid=[0.01, 0.1]).sensitivity()
    assert (flat["lr_range"], flat["lr_range_open"], flat["halved"]) == (pytest.approx(10), True, None)
    cliff = search_for(lambda trial: 0.0 if trial["lr"] < 0.5 else np.inf, grid=[0.1, 1.0]).sensitivity()
    assert (cliff["lr_high"], cliff["doubled"], cliff["halved"]) == (pytest.approx(0.1), np.inf, None)


# ---- first guesses, blocks, user-defined rules


@pytest.mark.parametrize(
    "optimizer", compiled([qs.GD(), qs.HeavyBall(), qs.Nesterov(), qs.SGD()], default={"gd", "heavy-ball"})
)
def test_methods_proportional_to_the_gradient_start_around_1_over_l(optimizer):
    for scale in (1e-3, 1e5):
        problem = qs.BlockQuadratic.from_spectra([[1 * scale, 2 * scale]], seed=0)
        lrs = [trial["lr"] for trial in Search(optimizer, problem).ask()]
        assert min(lrs) < 0.02 / (2 * scale)
        assert max(lrs) > 50 / (2 * scale)


@pytest.mark.parametrize(
    "optimizer", compiled([qs.Adam(), qs.FrozenAdam(), qs.Signum(), qs.Lion(), qs.RMSProp(), qs.SkipUpdate()]),
)  # fmt: skip
def test_methods_that_normalise_start_around_a_hundredth(optimizer):
    for scale in (1e-3, 1e5):
        problem = qs.BlockQuadratic.from_spectra([[1 * scale, 2 * scale]], seed=0)
        lrs = [trial["lr"] for trial in Search(optimizer, problem).ask()]
        assert_allclose([min(lrs), max(lrs)], [1e-4, 1.0])


def test_block_gd_is_tuned_by_a_common_factor():
    best = tune(case_3, qs.BlockGD(), seed=range(3), max_steps=50)
    assert best.factor
    assert_allclose(best.settings["lr"], 1.0)
    assert_allclose(best.optimizer.lr, [2 / 4, 2 / 200, 2 / 9998])
    common = tune(case_3, qs.BlockGD(), seed=range(3), max_steps=50, grid=[1e-4, 2e-4])
    assert (common.factor, common.optimizer.lr) == (False, 2e-4)


@pytest.mark.slow
def test_a_user_defined_optimizer_is_tuned():
    def rule(g, lr, power):
        return lr * g * power

    @dataclass(frozen=True)
    class Scaled(qs.Optimizer):
        name, label, homogeneous = "scaled", "Scaled", True
        power: float = 1e-3

    Scaled.rule = staticmethod(rule)
    best = tune(lambda s: qs.BlockQuadratic.from_spectra([[1.0, 3.0]], seed=s), Scaled(), seed=range(5), max_steps=100)
    assert abs(np.log10(best.optimizer.lr * 1e-3 / 0.5)) <= SPACING


# ---- execution


def test_threads_and_chunks_change_nothing(monkeypatch):
    how = {"seed": range(5), "max_steps": 60, "objective": "mean-log-loss"}
    alone = tune(case_3, qs.Adam(), threads=1, **how).tried
    assert tune(case_3, qs.Adam(), threads=2, **how).tried.equals(alone)
    monkeypatch.setattr(evaluation, "MAX_HELD", 1)
    assert tune(case_3, qs.Adam(), **how).tried.equals(alone)


def test_each_problem_is_drawn_once():
    drawn = []

    def draw(seed):
        drawn.append(seed)
        return qs.case(3, seed=seed)

    tune(draw, qs.GD(), seed=[4, 7], max_steps=10)
    assert sorted(drawn) == [4, 7]


def test_progress_is_reported_round_by_round():
    calls = []
    tune(case_3, qs.GD(), seed=range(3), max_steps=10, progress=lambda *call: calls.append(call))
    assert calls[:3] == [("tuning, coarse grid", 1, 3), ("tuning, coarse grid", 2, 3), ("tuning, coarse grid", 3, 3)]
    assert calls[-1] == ("tuning, refined grid", 3, 3)


@pytest.mark.parametrize("progress", [None, False])
@pytest.mark.parametrize("call", ["tune", "compare"])
def test_a_silent_call_is_silent_from_its_first_draw(call, progress):
    outermost = []

    def draw(seed):
        outermost.append(_progress._tasks[0] if _progress._tasks else None)
        return qs.case(3, seed=seed)

    if call == "tune":
        qs.tune(draw, qs.GD(), seed=range(2), max_steps=10, progress=progress)
    else:
        qs.compare(draw, [qs.GD(), qs.BlockGD()], seed=range(2), max_steps=10, progress=progress)
    assert [task.label.split(":")[0] for task in outermost] == [{"tune": "tune gd"}.get(call, call)] * len(outermost)
    assert {task.silent for task in outermost} == {progress is False}


def test_conditions_reach_the_runs():
    how = {"noise": qs.Noise(batch=3), "schedule": qs.Schedule("cosine"), "start": "ones"}
    best = tune(case_3, qs.Adam(), seed=[2], grid=[0.01, 0.1], max_steps=80, **how)
    problem = case_3(2)
    run = qs.solve(
        problem, qs.Adam(lr=0.1), e0=np.ones(9), seed=2, max_steps=80, tol=0, noise=how["noise"],
        schedule=how["schedule"],
    )  # fmt: skip
    assert_allclose(best.tried.set_index("lr").loc[0.1, "median"], np.log10(run.loss[-1]), rtol=1e-12)


BAD = [
    ({"grid": []}, "the grid of gd.lr is empty"),
    ({"grid": {"lr": []}}, "the grid of gd.lr is empty"),
    ({"grid": {"beta1": [0.5]}}, "unknown setting of gd 'beta1'"),
    ({"grid": [0.1, -1.0]}, "gd.lr must be a finite number above 0, got -1"),
    ({"grid": [0.1, float("nan")]}, "gd.lr must be a finite number above 0, got nan"),
    ({"grid": [0.1, 0.1]}, "the grid of gd.lr holds a value twice"),
    ({"grid": "0.1"}, "gd.lr must be a list of values to try"),
    ({"grid": 0.1}, "gd.lr must be a list of values to try"),
    ({"seed": []}, "seed must hold at least 1 seed, got 0"),
    ({"seed": [1, 1]}, "seed must hold distinct seeds, got 1 twice"),
    ({"seed": [-1]}, "seed must be a whole number from 0 to 9223372036854775807, got -1"),
    ({"seed": "x"}, "seed must be whole numbers such as 7, 0..29 or 3,5,8, got 'x'"),
    ({"objective": "final_loss"}, "unknown objective 'final_loss': did you mean final-loss?"),
    ({"max_steps": 0}, "max_steps must be a whole number from 1 to"),
    ({"tol": 0.0}, "tol must be a finite number above 0 and below 1, got 0"),
    ({"refine": -1}, "refine must be a whole number of at least 0, got -1"),
    ({"extend": 1.5}, "extend must be a whole number of at least 0, got 1.5"),
]


@pytest.mark.parametrize(("how", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_arguments(check_refused, how, message):
    check_refused(lambda: tune(case_3, qs.GD(), **{"seed": [0], "max_steps": 5, **how}), message)


def test_bad_draws(check_refused):
    check_refused(lambda: tune(3, qs.GD(), seed=[0]), "problem must be a BlockQuadratic or a function of the seed")
    check_refused(lambda: tune(lambda seed: 3, qs.GD(), seed=[0]), "problem(seed) must return a BlockQuadratic, got 3")
    check_refused(lambda: tune(case_3, "gd", seed=[0]), "optimizer must be one such as GD() or Adam(), got 'gd'")
