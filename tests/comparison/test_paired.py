"""Paired comparison: common draws, no difference between equals, a handicap is found, failures are reported."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import quadsim as qs
from quadsim.comparison import statistics
from quadsim.comparison.paired import corrected

BATCH = qs.Noise(batch=3)
PLAIN = qs.Adam(beta1=0.9, beta2=0.99, bias_correction=False)


def case_3(seed):
    return qs.case(3, seed=seed)


def case_4(seed):
    return qs.case(4, seed=seed)


def verdict(comparison, name):
    return comparison.summary.set_index("optimizer").loc[name, "verdict"]


@pytest.fixture(scope="module", autouse=True)
def rules():
    """User-defined rules, registered while these tests run."""
    before = dict(qs.optimizers.OPTIMIZERS)

    @qs.rule(state="m v")
    def still(g, t, m, v, lr=0.01):  # PLAIN, but without an update on 3 of 13 steps
        if t % 13 == 4 or t % 13 == 8 or t % 13 == 12:
            return 0.0, m, v
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g * g
        return lr * m / (np.sqrt(v) + 1e-8), m, v

    @qs.rule(state="m v")
    def heads(g, random, m, v, lr=0.01):
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g * g
        return 2 * lr * m / (np.sqrt(v) + 1e-8) if random < 0.5 else 0.0, m, v

    @qs.rule(state="m v")
    def tails(g, random, m, v, lr=0.01):  # the same distribution, by the other side of the coin
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g * g
        return 2 * lr * m / (np.sqrt(v) + 1e-8) if random >= 0.5 else 0.0, m, v

    @qs.rule(state="m", homogeneous=True)
    def averaged(g, m, lr=0.01):  # heavy ball with momentum 0.8, its lr divided by 5: off the grid of powers of ten
        m = 0.8 * m + 0.2 * g
        return lr * m, m

    @qs.rule(state="m v")
    def longer(g, m, v, lr=0.01):
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g * g
        return 1.3 * lr * m / (np.sqrt(v) + 1e-8), m, v

    yield {
        "plain": PLAIN,
        "longer": longer(),
        "still": still(),
        "heads": heads(),
        "tails": tails(),
        "averaged": averaged(),
    }
    qs.optimizers.OPTIMIZERS.clear()
    qs.optimizers.OPTIMIZERS.update(before)


@pytest.fixture(scope="module")
def one():
    """GD, heavy ball and Adam on Case 4, a hundred steps."""
    named = {"gd": qs.GD(), "heavy": qs.HeavyBall(momentum=0.9), "adam": qs.Adam()}
    return qs.compare(case_4, named, seed=range(12), max_steps=100)


# ---- tables


def test_tuning_seeds_and_confirmation_seeds_are_disjoint(one):
    assert one.seeds == list(range(12))
    assert one.tuning_seeds == list(range(12, 24))
    assert set(one.runs["seed"]) == set(range(12))


def test_all_optimizers_run_on_the_same_draws_each_drawn_once():
    drawn = []

    def draw(seed):
        drawn.append(seed)
        return qs.case(4, seed=seed)

    made = qs.compare(draw, [qs.GD(), qs.Adam()], seed=[5, 3], tuning_seed=[8, 9], max_steps=20, noise=BATCH)
    assert sorted(drawn) == [3, 5, 8, 9]
    first = made.bands[made.bands["step"] == 0].set_index("optimizer")[["lower", "median", "upper"]]
    assert (first.loc["gd"] == first.loc["adam"]).all()
    runs = made.runs.set_index(["optimizer", "seed"])
    for seed in (5, 3):
        for name, optimizer in (("gd", made.tuned["gd"].optimizer), ("adam", made.tuned["adam"].optimizer)):
            alone = qs.solve(qs.case(4, seed=seed), optimizer, seed=seed, max_steps=20, tol=0, noise=BATCH)
            assert runs.loc[(name, seed), "loss"] == alone.loss[-1]


def test_the_learning_rates_are_those_of_tune(one):
    for name, optimizer in (("gd", qs.GD()), ("adam", qs.Adam())):
        alone = qs.tune(case_4, optimizer, seed=range(12, 24), max_steps=100)
        assert one.tuned[name].optimizer == alone.optimizer
        ours = one.tried[one.tried["optimizer"] == name]
        assert_allclose(ours["median"].to_numpy(), alone.tried["median"].to_numpy())


def test_medians_differences_and_wins_are_those_of_the_runs(one):
    wide = one.runs.pivot(index="seed", columns="optimizer", values="loss")
    summary = one.summary.set_index("optimizer")
    for name in wide:
        logs = np.log10(wide[name])
        assert_allclose(summary.loc[name, ["lower", "median", "upper"]].astype(float),
                        10 ** np.quantile(logs, [0.25, 0.5, 0.75]))  # fmt: skip
    gaps = np.log10(wide["adam"] / wide["gd"])
    assert_allclose(summary.loc["adam", "difference"], np.median(gaps))
    assert summary.loc["adam", "wins"] == (gaps < 0).mean()
    assert summary.loc["adam", "low"] <= np.median(gaps) <= summary.loc["adam", "high"]
    assert summary.loc["gd", ["difference", "low", "high", "wins"]].isna().all()
    assert verdict(one, "gd") == "–"


def test_without_tuning_the_interval_is_two_order_statistics():
    grids = {"gd": {"lr": [2e-4]}, "adam": {"lr": [0.1]}}
    made = qs.compare(case_4, [qs.GD(), qs.Adam()], seed=range(20), max_steps=100, grids=grids)
    gaps = np.sort(made.runs.loc[made.runs["optimizer"] == "adam", "difference"])
    row = made.summary.iloc[1]
    assert (row["low"], row["high"]) == (gaps[5], gaps[14])  # 1 − 2·P(Bin(20, ½) < 6) = 0.9586
    assert row["p"] == min(statistics.sign_test(gaps))
    assert list(made.summary["given"]) == [True, True]
    assert made.tried.empty
    assert made.summary["lr_range"].isna().all()


@pytest.mark.slow
def test_the_interval_covers_the_choice_of_the_learning_rate():
    """It contains the interval at the tuned rates, and is wider where resampled tuning seeds choose others."""
    wider = 0
    for first in range(0, 300, 50):
        made = qs.compare(case_4, [qs.GD(), qs.Adam()], seed=range(first, first + 12), max_steps=80, noise=BATCH)
        gaps = made.runs.loc[made.runs["optimizer"] == "adam", "difference"]
        low, high = statistics.median_interval(gaps)
        row = made.summary.iloc[1]
        assert row["low"] <= low <= high <= row["high"]
        wider += (row["low"], row["high"]) != (low, high)
    assert wider >= 1


def test_bands_are_quartiles_at_each_step(one):
    bands = one.bands[one.bands["optimizer"] == "adam"].set_index("step")
    runs = [qs.solve(case_4(s), one.tuned["adam"].optimizer, seed=s, max_steps=100, tol=0, record=1) for s in range(12)]
    for step in (0, 1, 50, 100):
        logs = [np.log10(run.loss[step]) for run in runs]
        assert_allclose(bands.loc[step, ["lower", "median", "upper"]].astype(float),
                        10 ** np.quantile(logs, [0.25, 0.5, 0.75]))  # fmt: skip
    assert set(one.bands["measure"]) == {"loss"}


def test_another_reference_reverses_the_difference(one):
    named = {"gd": qs.GD(), "heavy": qs.HeavyBall(momentum=0.9), "adam": qs.Adam()}
    turned = qs.compare(case_4, named, seed=range(12), max_steps=100, reference="adam")
    forward, reverse = one.summary.set_index("optimizer").loc["adam"], turned.summary.set_index("optimizer").loc["gd"]
    assert_allclose([forward["difference"], forward["low"], forward["high"]],
                    [-reverse["difference"], -reverse["high"], -reverse["low"]], atol=1e-9)  # fmt: skip
    assert forward["wins"] == 1 - reverse["wins"]


# ---- equal and unequal optimizers


@pytest.mark.slow
def test_two_copies_do_not_differ(rules):
    """Three times: the same rule under two names, tuned and run with noise, on new draws each time."""
    for repetition in range(3):
        seeds = range(100 * repetition, 100 * repetition + 8)
        made = qs.compare(
            case_3, {"one": rules["heads"], "other": rules["heads"]}, seed=seeds, max_steps=60, noise=BATCH
        )
        row = made.summary.iloc[1]
        assert (row["verdict"], row["difference"], row["low"], row["high"]) == ("no difference found", 0, 0, 0)
        assert row["wins"] == 0.5


@pytest.mark.slow
def test_rules_with_the_same_distribution_do_not_differ(rules):
    """Tuned learning rates differ by chance, and the interval includes this randomness of tuning."""
    named, same_lr, verdicts = {"heads": rules["heads"], "tails": rules["tails"]}, 0, []
    for repetition in range(20):
        seeds = range(1000 * repetition, 1000 * repetition + 16)
        made = qs.compare(case_4, named, seed=seeds, max_steps=150, noise=BATCH)
        verdicts.append(verdict(made, "tails"))
        same_lr += made.summary["lr"].nunique() == 1
    assert verdicts.count("no difference found") >= 18
    assert same_lr < 15  # control: tuning chooses different learning rates


@pytest.mark.slow
def test_two_parametrizations_of_one_method_do_not_differ(rules):
    """Their grids differ, so one comes nearer to the stability limit: a finer grid would make up for that."""
    named = {"heavy-ball": qs.HeavyBall(momentum=0.8), "averaged": rules["averaged"]}
    made = qs.compare(case_4, named, seed=range(16), max_steps=300)
    row = made.summary.iloc[1]
    lr = made.summary["lr"]
    assert_allclose(lr[1] / lr[0], 5, rtol=0.2)
    assert lr[1] / lr[0] != pytest.approx(5, rel=0.01)
    assert row["verdict"] == "no difference found"
    assert not row["low"] <= 0 <= row["high"]  # control: without the slack it would count as a difference


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "how"),
    [
        ("final-loss", {"max_steps": 300}),
        pytest.param("steps-to-tol", {"tol": 1e-4}, marks=pytest.mark.slow),
        pytest.param("steps-to-tol", {"tol": 1e-3, "max_steps": 3000, "noise": BATCH}, marks=pytest.mark.slow),
        pytest.param("mean-log-loss", {"max_steps": 300}, marks=pytest.mark.slow),
    ],
    ids=["final-loss", "steps-to-tol", "steps-to-tol-batch", "mean-log-loss"],
)
def test_a_handicap_is_found(rules, objective, how):
    """Without an update on 3 of 13 steps it needs 1.3 times as many: no learning rate makes up for that."""
    named = {"plain": rules["plain"], "still": rules["still"]}
    made = qs.compare(case_3, named, seed=range(30), objective=objective, **how)
    assert verdict(made, "still") == "worse"
    if objective == "steps-to-tol":
        row = made.summary.iloc[1]
        assert row["low"] <= np.log10(1.3) <= row["high"] + 0.02
    if objective == "final-loss":  # the verdict depends on the scores alone
        turned = qs.compare(case_3, named, seed=range(30), objective=objective, reference="still", **how)
        assert verdict(turned, "plain") == "better"


@pytest.mark.slow
def test_a_factor_on_the_step_makes_no_difference(rules):
    """Control of the handicap: tuning makes up for steps 1.3 times as long."""
    for draw in (case_3, case_4):
        made = qs.compare(draw, {"plain": rules["plain"], "longer": rules["longer"]}, seed=range(20), max_steps=200)
        assert verdict(made, "longer") == "no difference found"


@pytest.mark.slow
def test_published_rankings_are_reproduced():
    """Adam is better than SGD where blocks differ in scale; no difference is found where they do not."""
    for draw, wanted in ((case_3, "better"), (case_4, "no difference found")):
        made = qs.compare(draw, [qs.SGD(), qs.Adam()], noise=BATCH)
        assert verdict(made, "adam") == wanted


# ---- failures


def test_an_optimizer_that_diverges_has_this_verdict():
    grids = {"gd": {"lr": [1.0, 10.0]}, "heavy-ball": {"lr": [5.0]}}
    made = qs.compare(
        case_3, [qs.Adam(), qs.GD(), qs.HeavyBall(momentum=0.9)], seed=range(3), max_steps=100, grids=grids
    )
    summary = made.summary.set_index("optimizer")
    assert list(summary["verdict"]) == ["–", "diverged", "diverged"]
    assert list(summary["diverged"]) == [0, 1, 1]
    assert summary.loc["gd", "failed"] == "diverged"
    assert summary.loc["gd", "difference"] == np.inf
    assert (made.runs.loc[made.runs["optimizer"] == "gd", "status"] == "diverged").all()
    bands = made.bands[made.bands["optimizer"] == "gd"]
    assert np.isinf(bands["median"].iloc[-1])
    assert not bands[["lower", "median", "upper"]].isna().any(axis=None)


def test_the_reference_may_diverge():
    grids = {"gd": {"lr": [1.0]}, "heavy-ball": {"lr": [5.0]}}
    made = qs.compare(
        case_3, [qs.GD(), qs.Adam(), qs.HeavyBall(momentum=0.9)], seed=range(8), max_steps=100, grids=grids
    )
    summary = made.summary.set_index("optimizer")
    assert list(summary["verdict"]) == ["diverged", "better", "diverged"]
    assert summary.loc["adam", "difference"] == -np.inf
    assert summary.loc["heavy-ball", "difference"] == 0  # neither is better
    assert summary.loc["heavy-ball", "wins"] == 0.5


def test_an_optimizer_that_does_not_reach_tol_has_this_verdict():
    made = qs.compare(case_3, [qs.Adam(), qs.GD()], seed=range(8), objective="steps-to-tol", max_steps=400)
    assert list(made.summary["verdict"]) == ["–", "not reached"]
    assert made.summary["failed"].iloc[1] == "not-reached"
    assert pd.isna(made.runs.loc[made.runs["optimizer"] == "gd", "steps_to_tol"]).all()


def test_runs_that_rise_are_counted_even_if_they_have_not_diverged():
    """Slightly beyond 2/L the loss grows, but in a hundred steps not enough to count as divergence."""
    made = qs.compare(case_3, [qs.Adam(), qs.GD()], seed=range(6), max_steps=100, grids={"gd": {"lr": [4.4e-4]}})
    row = made.summary.iloc[1]
    assert (row["diverged"], row["rose"]) == (0, 1)
    assert made.summary["rose"].iloc[0] == 0


GIVEN = {"gd": {"lr": [2e-4]}, "adam": {"lr": [0.1]}}


def test_too_few_seeds_for_the_level():
    for seeds, level, wanted in ((5, 0.95, "too few seeds"), (6, 0.95, "better"), (5, 0.9, "better")):
        made = qs.compare(case_3, [qs.GD(), qs.Adam()], seed=range(seeds), max_steps=100, level=level, grids=GIVEN)
        row = made.summary.iloc[1]
        assert row["verdict"] == wanted
        assert np.isnan(row["low"]) == np.isnan(row["high"]) == (wanted == "too few seeds")
        assert row["wins"] == 1


@pytest.mark.slow
def test_few_seeds_are_too_few_for_several_comparisons():
    """With six seeds p is at least 1/32, and 1/8 after correction for four comparisons."""
    optimizers = [qs.GD(), qs.Adam(), qs.Signum(), qs.Lion(), qs.SGD(lr=1e-6)]
    grids = GIVEN | {"sgd": {"lr": [1e-6]}, "signum": {"lr": [1e-2]}, "lion": {"lr": [1e-2]}}
    made = {
        seeds: qs.compare(case_3, optimizers, seed=range(seeds), max_steps=100, grids=grids).summary for seeds in (6, 8)
    }
    for seeds, summary in made.items():
        assert summary["p"].iloc[1] == 2.0 ** (1 - seeds)
        assert summary["comparisons"].iloc[1] == 4
        assert_allclose(summary["p_adjusted"][1:], statistics.holm(summary["p"][1:]))
    assert [made[6]["verdict"].iloc[k] for k in (1, 4)] == ["too few seeds"] * 2
    assert not set(made[6]["verdict"]) & {"better", "worse"}
    assert made[6]["high"].iloc[1] < 0  # the interval is per comparison, and excludes 0
    assert made[8]["verdict"].iloc[1] == "better"
    assert made[8]["verdict"].iloc[4] == "worse"


def test_comparisons_that_are_reported_together_are_one_family():
    made = [
        qs.compare(draw, [qs.GD(), qs.Adam()], seed=range(7), max_steps=100, grids=GIVEN) for draw in (case_3, case_4)
    ]
    together = corrected(made)
    p = [one.summary["p"].iloc[1] for one in made]
    assert [one.summary["p_adjusted"].iloc[1] for one in made] == p
    assert_allclose([one.summary["p_adjusted"].iloc[1] for one in together], statistics.holm(p))
    assert [one.comparisons for one in together] == [2, 2]
    many = corrected([made[0]] * 20)
    assert [one.summary["verdict"].iloc[1] for one in (made[0], many[0])] == ["better", "too few seeds"]
    assert list(made[0].summary["verdict"]) == ["–", "better"]  # the arguments are not changed


# ---- underflow


ONE = qs.BlockQuadratic.from_spectra([[1.0]], rotation=0)
DEEP = {"b99": qs.Adam(beta1=0.0, beta2=0.99, eps=0.0), "b999": qs.Adam(beta1=0.0, beta2=0.999, eps=0.0)}


@pytest.mark.parametrize("reference", ["b99", "b999"])
@pytest.mark.parametrize("objective", ["final-loss", "mean-log-loss", "steps-to-tol"])
@pytest.mark.parametrize(
    ("draw", "steps"), [(ONE, 5000), (ONE, 20_000), (case_3, 20_000)], ids=["1-d", "1-d long", "case 3"]
)
def test_a_run_that_underflows_wins_nothing(draw, steps, objective, reference):
    """Both have the same floor; with β2 = 0.999 the run underflows before it (ledger 5i)."""
    grids = {name: {"lr": [0.01]} for name in DEEP}
    made = qs.compare(
        draw, DEEP, seed=range(12), max_steps=steps, grids=grids, reference=reference, objective=objective, tol=1e-299
    )
    summary = made.summary.set_index("optimizer")
    runs = made.runs.set_index(["optimizer", "seed"])
    lost = (runs["status"] == "underflow") | (runs["loss"] < 1e-300)
    assert (runs.loc["b999", "status"] == "underflow").mean() >= 0.4
    assert summary.loc["b999", "underflow"] == lost["b999"].mean()
    assert summary.loc["b99", "underflow"] == lost["b99"].mean()
    assert not set(summary["verdict"]) & {"better", "worse"}
    assert (summary["diverged"] == 0).all()
    assert runs.loc[lost, "score"].isna().all()
    other = next(name for name in DEEP if name != reference)
    pairs = lost["b99"] | lost["b999"]
    assert (runs.loc[other, "difference"].isna() == pairs).all()
    assert abs(summary.loc[other, "wins"] - 0.5) <= (1 - pairs.mean()) / 2 + 1e-12
    assert summary.loc[other, "undecided"] == pairs.mean()
    if objective == "final-loss" and steps == 20_000:
        assert_allclose(
            summary.loc["b999", "median"], summary.loc["b99", "median"], rtol=0.1
        )  # of runs that did not underflow


def test_tuning_does_not_choose_settings_that_underflow():
    best = qs.tune(ONE, DEEP["b999"], seed=range(9), max_steps=20_000)
    chosen = best.tried[best.tried["best"]].iloc[0]
    assert chosen["underflow"] < 0.5
    assert best.tried["underflow"].max() > 0.5  # control: some settings underflow
    assert np.isinf(best.tried.loc[best.tried["underflow"] > 0.5, "median"]).all()
    failed = qs.tune(ONE, DEEP["b999"], seed=range(9), max_steps=20_000, grid=[0.003, 0.01])
    assert failed.failed == "underflow"


@pytest.mark.slow
@pytest.mark.parametrize("steps", [3000, 5000, 20_000])
def test_tuned_rates_do_not_win_by_underflow_either(steps):
    made = qs.compare(ONE, DEEP, seed=range(16), max_steps=steps)
    assert verdict(made, "b999") != "better"


def test_a_homogeneous_method_converges_by_underflow():
    """The steps of GD are proportional to its gradients: its zero loss is correct, and below Adam's floor."""
    problem = qs.BlockQuadratic.from_spectra([[1.0, 2.0]], seed=0)
    grids = {"gd": {"lr": [0.5]}, "adam": {"lr": [0.01]}}
    adam = qs.Adam(beta1=0.0, beta2=0.9, eps=0.0)
    made = qs.compare(problem, [adam, qs.GD()], seed=range(8), max_steps=5000, grids=grids)
    assert (made.runs.loc[made.runs["optimizer"] == "gd", "status"] == "underflow").all()
    assert verdict(made, "gd") == "better"
    assert made.summary["underflow"].tolist() == [0, 0]


def test_two_runs_that_converged_are_a_tie():
    problem = qs.BlockQuadratic.from_spectra([[1.0, 2.0]], seed=0)
    grids = {"slow": {"lr": [0.3]}, "fast": {"lr": [0.6]}}
    made = qs.compare(problem, {"slow": qs.GD(), "fast": qs.GD()}, seed=range(8), max_steps=5000, grids=grids)
    assert verdict(made, "fast") == "no difference found"
    assert made.summary["difference"].iloc[1] == 0


def test_a_fixed_problem_has_a_new_start_for_each_seed():
    made = qs.compare(case_3(0), [qs.GD(), qs.Adam()], seed=range(6), max_steps=50)
    assert made.problem == "case 3"
    assert made.runs["loss"].nunique() == 12


def test_other_settings_are_tuned_if_given():
    made = qs.compare(
        case_3, [qs.GD(), qs.Adam()], seed=range(6), max_steps=100, grids={"adam": {"beta2": [0.9, 0.99]}}
    )
    assert made.summary["settings"].iloc[1] == f"beta2={made.tuned['adam'].optimizer.beta2}"
    assert set(made.tried.loc[made.tried["optimizer"] == "adam", "beta2"]) == {0.9, 0.99}


BAD = [
    ({"seed": [0]}, "seed must hold at least 2 seeds, got 1"),
    ({"seed": []}, "seed must hold at least 2 seeds, got 0"),
    ({"seed": range(5), "tuning_seed": range(3, 9)}, "tuning_seed must be disjoint from seed, but 3, 4 are in both"),
    ({"seed": range(5), "tuning_seed": 4}, "but 4 is in both"),
    ({"seed": range(9), "tuning_seed": range(9)}, "but 0, 1, 2, 3, 4, … are in both"),
    ({"tuning_seed": []}, "tuning_seed must hold at least 1 seed, got 0"),
    ({"reference": "sgd"}, "unknown reference 'sgd'"),
    ({"level": 1.0}, "level must be a finite number above 0 and below 1, got 1"),
    ({"level": 95}, "level must be a finite number above 0 and below 1, got 95"),
    ({"lrs": []}, "the grid of gd.lr is empty"),
    ({"grids": {"sgd": [0.1]}}, "unknown optimizer 'sgd'"),
    ({"objective": "steps"}, "unknown objective 'steps'"),
]


@pytest.mark.parametrize(("how", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_arguments(check_refused, how, message):
    check_refused(
        lambda: qs.compare(case_3, [qs.GD(), qs.Adam()], **{"seed": range(3), "max_steps": 5, **how}), message
    )


def test_bad_optimizers(check_refused):
    def comparing(optimizers):
        return lambda: qs.compare(case_3, optimizers, seed=range(3), max_steps=5)

    check_refused(comparing([qs.GD(), qs.GD(lr=1e-4)]), "optimizer gd is named twice: give a dict with a name for each")
    check_refused(comparing([]), "optimizers must hold at least one optimizer")
    check_refused(comparing(["gd"]), "optimizer must be one such as GD() or Adam(), got 'gd'")
    check_refused(comparing("gd"), "optimizers must be a list, or a dict by name, got 'gd'")
    check_refused(comparing({"a": 3}), "optimizer must be one such as GD() or Adam(), got 3")


# ---- figures


def texts(figure):
    return " ".join(text.get_text() for text in figure.findobj(match=lambda artist: hasattr(artist, "get_text")))


def figure_of(*made, **how):
    frames = [pd.concat([getattr(one, key) for one in made]) for key in ("summary", "bands", "tried", "runs")]
    titles = {one.problem: f"{one.problem} found" for one in made}
    return qs.plots.comparison(*frames, objective=made[0].protocol.objective, titles=titles, caption="a caption", **how)


def test_the_figure_has_three_panels_for_each_problem(one, rules):
    named = {"gd": qs.GD(), "copy": qs.GD(), "adam": qs.Adam()}
    other = qs.compare(case_3, named, seed=range(6), max_steps=50)
    figure = figure_of(one, other)
    assert [len(row.axes) for row in figure.subfigs] == [3, 3]
    text = texts(figure)
    verdicts = [f"{row['label']}: {row['verdict']}" for made in (one, other) for _, row in made.summary[1:].iterrows()]
    assert "copy: no difference found" in verdicts
    for word in ("case 3 found", "case 4 found", "a caption", *verdicts):
        assert word in text
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    for artist in figure.findobj(match=lambda artist: hasattr(artist, "get_text")):
        if artist.get_text() and artist.get_visible() and artist.axes is None:
            box = artist.get_window_extent()
            assert box.x0 >= -1
            assert box.x1 <= width + 1
            assert box.y1 <= height + 1


@pytest.mark.parametrize("objective", ["final-loss", "steps-to-tol", "mean-log-loss"])
def test_figures_of_failed_runs_are_drawn(objective):
    grids = {"gd": {"lr": [1.0, 10.0]}, "heavy-ball": {"lr": [5.0]}}
    optimizers = [qs.Adam(), qs.GD(), qs.HeavyBall(momentum=0.9)]
    made = qs.compare(case_3, optimizers, seed=range(3), max_steps=100, grids=grids, objective=objective)
    figure_of(made, tol=1e-6).canvas.draw()
    only = qs.compare(case_3, [qs.GD()], seed=range(3), max_steps=20, grids={"gd": {"lr": [1.0]}}, objective=objective)
    figure_of(only, tol=1e-6).canvas.draw()
    assert "nothing to compare with" in texts(figure_of(only, tol=1e-6))


@pytest.mark.parametrize("seeds", [3, 8])
def test_figures_of_runs_that_underflowed_are_drawn(seeds):
    for grids in ({name: {"lr": [0.01]} for name in DEEP}, {"b999": {"lr": [0.003, 0.01]}}):
        figure = figure_of(qs.compare(ONE, DEEP, seed=range(seeds), max_steps=20_000, grids=grids))
        figure.canvas.draw()
        assert "b999: " in texts(figure)


def test_a_curve_that_does_not_reach_tol_is_drawn_to_its_last_step():
    grids = {"gd": {"lr": [1e-6]}, "block-gd": {"lr": [1.0]}}
    options = {"max_steps": 50, "grids": grids, "objective": "steps-to-tol"}
    made = qs.compare(case_3, {"gd": qs.GD(), "block-gd": qs.BlockGD()}, seed=range(3), **options)
    left = figure_of(made, tol=1e-6).subfigs[0].axes[0]
    assert max(left.lines[0].get_xdata()) == 50
