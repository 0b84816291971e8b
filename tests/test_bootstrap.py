"""Medians and their intervals: against numpy and scipy where all is finite, in order where it is not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from quadsim import bootstrap
from quadsim.bootstrap import choices, median_interval, paired_difference, quantile

NUMBERS = st.lists(st.one_of(st.floats(-1e6, 1e6), st.sampled_from([np.inf, -np.inf])), min_size=1, max_size=9)
SHARES = st.sampled_from([0.025, 0.25, 0.5, 0.75, 0.975])


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), SHARES)
def test_a_quantile_of_finite_numbers_is_numpy_s(values, share):
    assert_allclose(quantile(values, share), np.quantile(values, share), rtol=1e-9, atol=1e-9)


@given(NUMBERS, SHARES)
def test_a_quantile_is_never_nan_and_changes_its_sign_with_the_numbers(values, share):
    assert not np.isnan(quantile(values, share))
    assert_allclose(quantile(values, share), -quantile(np.negative(values), 1 - share), rtol=1e-9, atol=1e-9)


@given(NUMBERS, NUMBERS, SHARES)
def test_greater_numbers_have_a_greater_quantile(values, more, share):
    size = min(len(values), len(more))
    low, high = np.minimum(values[:size], more[:size]), np.maximum(values[:size], more[:size])
    assert quantile(low, share) <= quantile(high, share) or np.isclose(quantile(low, share), quantile(high, share))


@pytest.mark.parametrize(
    ("values", "median"),
    [
        ([1, 2, np.inf], 2),
        ([1, np.inf], np.inf),
        ([-np.inf, 1], -np.inf),
        ([-np.inf, np.inf], 0),
        ([np.inf, np.inf], np.inf),
        ([-np.inf, 3, np.inf], 3),
    ],
    ids=str,
)
def test_medians_beside_infinity(values, median):
    assert quantile(values, 0.5) == median


def test_paired_differences_of_what_failed():
    mine, theirs = [1.0, np.inf, 2.0, np.inf, 1.0], [3.0, 2.0, np.inf, np.inf, 1.0 + 1e-9]
    assert list(paired_difference(mine, theirs)) == [-2, np.inf, -np.inf, 0, 0]
    assert paired_difference([1.0], [1.0 + 1e-5])[0] < 0  # the control: what is more than rounding is not dropped


@pytest.mark.parametrize("size", [7, 30, 101])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_interval_is_scipy_s(size, level):
    values = np.random.default_rng(size).exponential(size=size)
    theirs = stats.bootstrap(
        (values,), np.median, confidence_level=level, method="percentile", n_resamples=20_000,
        rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    # Both are order statistics (or means of two) near the same place: they may differ by a neighbour.
    ordered = np.sort(values)
    spacing = np.diff(ordered).max()
    assert_allclose(median_interval(values, level), theirs, atol=spacing)
    assert_allclose(np.mean(median_interval(values, level)), np.mean(theirs), atol=0.12)


def test_the_interval_is_the_exact_one_of_a_small_sample():
    """Of five, all 5⁵ resamples can be made."""
    values = np.array([1.0, 2, 4, 8, 16])
    every = np.median(values[np.indices((5,) * 5).reshape(5, -1).T], axis=1)
    for level in (0.5, 0.8, 0.95):
        exact = [float(np.quantile(every, (1 + sign * level) / 2, method="inverted_cdf")) for sign in (-1, 1)]
        assert_allclose(median_interval(values, level), exact)


def test_the_interval_is_the_same_in_parts(monkeypatch):
    values = np.random.default_rng(0).normal(size=40)
    whole = median_interval(values)
    monkeypatch.setattr(bootstrap, "HELD", 10_000)
    assert_allclose(median_interval(values), whole, atol=0.05)


@pytest.mark.parametrize("law", ["normal", "standard_cauchy", "exponential"])
@pytest.mark.parametrize("size", [12, 30])
def test_coverage_under_a_null(monkeypatch, law, size):
    monkeypatch.setattr(bootstrap, "RESAMPLES", 500)
    rng = np.random.default_rng(1)
    truth = np.log(2) if law == "exponential" else 0.0
    inside = 0
    for _ in range(500):
        low, high = median_interval(getattr(rng, law)(size=size) - truth)
        inside += low <= 0 <= high
    assert 0.90 <= inside / 500 <= 0.985


def test_a_shift_is_found(monkeypatch):
    """The control of the coverage: the interval can exclude 0."""
    rng = np.random.default_rng(1)
    assert all(median_interval(rng.normal(size=30) + 1.5)[0] > 0 for _ in range(20))


def test_intervals_with_infinite_ends():
    low, high = median_interval([np.inf] * 4 + [-1.0] * 6)
    assert (low, high) == (-1, np.inf)
    assert median_interval([np.inf] * 9 + [0.0]) == (np.inf, np.inf)
    assert median_interval([0.0] * 30) == (0, 0)


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


def test_equals_and_rare_choices_are_the_first():
    assert not choices(np.zeros((4, 10))).any()
    assert not choices([[1.0, 2.0, 3.0]]).any()
    assert not choices([[0.0] * 30, [0.1] * 28 + [-9.0] * 2]).any()
    assert not choices(np.full((3, 5), np.inf)).any()


def test_a_choice_that_swings_widens_the_interval():
    values = np.stack([np.full(30, -1.0), np.full(30, 1.0)])
    which = np.arange(bootstrap.RESAMPLES) % 2
    assert median_interval(values, 0.95, which) == (-1, 1)
    assert median_interval(values, 0.95, np.zeros(bootstrap.RESAMPLES, dtype=int)) == (-1, -1)


@pytest.mark.parametrize(("level", "count"), [(0.5, 2), (0.75, 3), (0.95, 6), (0.99, 8)])
def test_how_few_are_too_few(level, count):
    assert bootstrap.fewest(level) == count
    assert 1 - 2 * 0.5**count >= level > 1 - 2 * 0.5 ** (count - 1)
