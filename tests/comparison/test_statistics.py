"""Intervals of the median and sign tests, against numpy and scipy, and with infinite and unknown items."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from quadsim.comparison import statistics
from quadsim.comparison.statistics import (
    choices,
    frequent_choices,
    holm,
    median_interval,
    min_items,
    order_statistic,
    paired_difference,
    sign_test,
)


def test_paired_differences_of_failed_runs():
    mine, theirs = [1.0, np.inf, 2.0, np.inf, 1.0], [3.0, 2.0, np.inf, np.inf, 1.0 + 1e-9]
    assert list(paired_difference(mine, theirs)) == [-2, np.inf, -np.inf, 0, 0]
    assert paired_difference([1.0], [1.0 + 1e-5])[0] < 0  # control: only rounding is dropped


LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99, 0.999]


@pytest.mark.parametrize("level", LEVELS)
def test_the_order_statistics_cover_at_least_the_level_and_no_narrower_pair_does(level):
    for count in [*range(1, 130), 999, 10_000]:
        k = order_statistic(count, level)
        assert 0 <= k <= (count + 1) // 2
        assert (k == 0) == (count < min_items(level))
        if k:
            assert 1 - 2 * stats.binom.cdf(k - 1, count, 0.5) >= level - 1e-9
        if k < (count + 1) // 2:
            assert 1 - 2 * stats.binom.cdf(k, count, 0.5) < level + 1e-9


@pytest.mark.parametrize(("count", "ends"), [(6, (1, 6)), (7, (1, 7)), (8, (1, 8)), (10, (2, 9)), (30, (10, 21))])
def test_the_interval_is_two_order_statistics(count, ends):
    values = np.random.default_rng(count).permutation(np.arange(1.0, count + 1))
    assert median_interval(values) == ends


def test_there_is_no_interval_below_six_items():
    for count in range(1, 6):
        assert np.isnan(median_interval(np.arange(count))).all()


def laws():
    """Distributions with median 0."""
    return {
        "normal": lambda rng, size: rng.normal(size=size),
        "exponential": lambda rng, size: rng.exponential(size=size) - np.log(2),
        "cauchy": lambda rng, size: rng.standard_cauchy(size=size),
        "rounded": lambda rng, size: np.rint(rng.normal(size=size)),
        "coin": lambda rng, size: rng.choice([-1.0, 1.0], size=size),
        "skewed, ties": lambda rng, size: rng.choice([-1e-3, 0.0, 50.0], p=[0.49, 0.02, 0.49], size=size),
        "infinite": lambda rng, size: rng.choice([-np.inf, -1.0, 1.0, np.inf], size=size),
    }


@pytest.mark.parametrize("count", [6, 7, 8, 9, 12, 15, 30])
@pytest.mark.parametrize("law", laws())
def test_coverage_is_at_least_nominal(law, count):
    samples = laws()[law](np.random.default_rng([count, 3]), (4000, count))
    inside = np.mean([low <= 0 <= high for low, high in map(median_interval, samples)])
    assert inside >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 4000)


def test_one_order_statistic_further_in_covers_too_little():
    """Control: about what a percentile bootstrap gives at 7, 8 and 15 items."""
    for count, k, share in ((7, 2, 0.875), (8, 2, 0.93), (15, 5, 0.88)):
        ordered = np.sort(np.random.default_rng(0).normal(size=(4000, count)), axis=1)
        inside = np.mean((ordered[:, k - 1] <= 0) & (ordered[:, -k] >= 0))
        assert inside == pytest.approx(share, abs=0.015)
        assert inside < 0.95 - 3 * np.sqrt(0.05 * 0.95 / 4000)
        assert k == order_statistic(count, 0.95) + 1


def test_a_shift_is_found():
    """Control of the coverage: the interval can exclude 0."""
    rng = np.random.default_rng(1)
    assert all(median_interval(rng.normal(size=30) + 1.5)[0] > 0 for _ in range(20))


def test_intervals_with_infinite_ends():
    assert median_interval([np.inf] * 4 + [-1.0] * 6) == (-1, np.inf)
    assert median_interval([np.inf] * 9 + [0.0]) == (np.inf, np.inf)
    assert median_interval([0.0] * 30) == (0, 0)


@given(st.lists(st.one_of(st.floats(-9, 9), st.sampled_from([np.nan, np.inf, -np.inf])), min_size=6, max_size=20))
def test_nan_stands_for_any_number(values):
    """The interval contains that of the items with any number in place of NaN."""
    values = np.array(values)
    low, high = median_interval(values)
    for number in (-np.inf, -1.0, 0.0, 3.0, np.inf):
        inner = median_interval(np.where(np.isnan(values), number, values))
        assert low <= inner[0] <= inner[1] <= high


def test_several_rows_give_the_hull_of_their_intervals():
    rows = np.stack([np.arange(10.0), np.arange(10.0) - 5])
    assert median_interval(rows) == (-4, 8)
    assert sign_test(rows)[1] == max(sign_test(row)[1] for row in rows) > min(sign_test(row)[1] for row in rows)


@given(st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.5, 2.0, np.nan, np.inf]), min_size=1, max_size=40))
def test_the_sign_test_agrees_with_scipy(values):
    below, above = sign_test(values)
    for p, count in ((below, np.sum(np.array(values) < 0)), (above, np.sum(np.array(values) > 0))):
        theirs = stats.binomtest(int(count), len(values), alternative="greater").pvalue
        assert p == pytest.approx(min(2 * theirs, 1), rel=1e-12)


@given(
    st.lists(st.one_of(st.floats(-3, 3), st.sampled_from([np.nan, np.inf, -np.inf])), min_size=1, max_size=25),
    st.sampled_from(LEVELS), st.sampled_from([0.0, 0.3, 2.0]),
)  # fmt: skip
def test_sign_test_and_interval_agree(values, level, slack):
    low, high = median_interval(values, level)
    below, above = sign_test(values, slack, slack)
    allowed = (1 - level) * (1 + statistics.P_ROUNDING)
    assert (below <= allowed) == (high < -slack)
    assert (above <= allowed) == (low > slack)


def test_a_thousand_seeds_have_a_p_value():
    assert sign_test([-1.0] * 1000)[0] == 2.0**-999
    assert sign_test([-1.0] * 5000)[0] == 0
    assert sign_test([-1.0, 1.0] * 2500)[0] == 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_steps_down(p):
    """Against the definition: reject while the k-th least is at most α/(m − k + 1)."""
    adjusted = holm(p)
    for alpha in (0.01, 0.05, 0.3):
        rejected = np.zeros(len(p), dtype=bool)
        for k, index in enumerate(np.argsort(p, kind="stable")):
            if p[index] * (len(p) - k) > alpha:
                break
            rejected[index] = True
        assert ((adjusted <= alpha) == rejected).all()


def test_holm_by_hand():
    assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).tolist() == [1, 1]
    assert holm([]).size == 0


def test_holm_controls_the_family_wise_error_rate():
    """Ten comparisons of equals, ten seeds each: a false verdict in at most 5 % of families, in 19 % without Holm."""
    rng = np.random.default_rng(0)
    families = [[min(sign_test(rng.normal(size=10))) for _ in range(10)] for _ in range(1500)]
    assert np.mean([(holm(p) <= 0.05).any() for p in families]) <= 0.05
    assert np.mean([(np.array(p) <= 0.05).any() for p in families]) > 0.1


def test_choices_are_the_argmin_of_resampled_medians():
    rng = np.random.default_rng(0)
    scores = np.stack([rng.normal(size=25), rng.normal(size=25) - 0.1, np.full(25, 9.0)])
    chosen = choices(scores)
    assert set(chosen) == {0, 1}
    by_hand = []
    for _ in range(2000):
        picked = rng.integers(0, 25, 25)
        by_hand.append(int(np.argmin(np.median(scores[:, picked], axis=1))))
    assert_allclose(np.mean(chosen == 1), np.mean(np.array(by_hand) == 1), atol=0.05)


def test_ties_choose_the_first_row():
    assert not choices(np.zeros((4, 10))).any()
    assert not choices([[1.0, 2.0, 3.0]]).any()
    assert not choices(np.full((3, 5), np.inf)).any()


def test_rare_choices_are_dropped():
    assert list(frequent_choices(np.repeat([0, 3, 5], [10, 70, 20]))) == [0, 3, 5]
    assert list(frequent_choices(np.repeat([1, 3, 5], [19, 60, 21]))) == [0, 3, 5]
    assert not choices([[0.0] * 30, [0.1] * 28 + [-9.0] * 2]).any()


@pytest.mark.parametrize(("level", "count"), [(0.5, 2), (0.75, 3), (0.95, 6), (0.99, 8)])
def test_min_items(level, count):
    assert min_items(level) == count
    assert 1 - 2 * 0.5**count >= level > 1 - 2 * 0.5 ** (count - 1)


@pytest.mark.parametrize("comparisons", [1, 2, 3, 10, 100])
def test_min_items_of_several_comparisons(comparisons):
    count = min_items(0.95, comparisons)
    for seeds, significant in ((count, True), (count - 1, False)):
        p = [min(sign_test([-1.0] * seeds)), *[1.0] * (comparisons - 1)]
        assert (holm(p)[0] <= 0.05) == significant
