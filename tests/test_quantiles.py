"""Quantiles: each method against an independent implementation, and infinite values."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from quadsim._quantiles import QUARTILES, quantile, quartiles

SHARES = (0.025, 0.25, 0.5, 0.75, 0.975)
NUMBERS = st.lists(st.one_of(st.floats(-1e6, 1e6), st.sampled_from([np.inf, -np.inf])), min_size=1, max_size=9)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 30, 31])
@pytest.mark.parametrize("share", SHARES)
def test_nearest_matches_numpy_also_with_infinite_values(count, share):
    values = np.random.default_rng(count).normal(size=(50, count))
    values[:, ::3] = np.inf
    expected = [np.quantile(np.sort(row), share, method="nearest") for row in values]
    np.testing.assert_array_equal(quantile(values, share, "nearest"), expected)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 30, 31])
def test_linear_and_log10_interpolate_between_neighbours(count):
    values = np.random.default_rng(count).normal(size=(50, count))
    for name, share in QUARTILES.items():
        expected = np.quantile(values, share, axis=-1)
        assert_allclose(quartiles(values, "linear")[name], expected, rtol=1e-12)
        np.testing.assert_array_equal(quartiles(values, "log10")[name], 10**expected)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.sampled_from(SHARES))
def test_linear_matches_numpy_for_finite_values(values, share):
    assert_allclose(quantile(values, share, "linear"), np.quantile(values, share), rtol=1e-9, atol=1e-9)


@given(NUMBERS, st.sampled_from(SHARES))
def test_linear_is_never_nan_and_is_antisymmetric(values, share):
    assert not np.isnan(quantile(values, share, "linear"))
    assert_allclose(
        quantile(values, share, "linear"), -quantile(np.negative(values), 1 - share, "linear"), rtol=1e-9, atol=1e-9
    )


@given(NUMBERS, NUMBERS, st.sampled_from(SHARES))
def test_linear_is_monotone(values, more, share):
    size = min(len(values), len(more))
    low, high = np.minimum(values[:size], more[:size]), np.maximum(values[:size], more[:size])
    least, most = quantile(low, share, "linear"), quantile(high, share, "linear")
    assert least <= most or np.isclose(least, most)


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
def test_medians_with_infinite_values(values, median):
    assert quantile(values, 0.5, "linear") == median


@pytest.mark.parametrize("share", SHARES)
def test_nearest_matches_the_quantile_of_pandas_groups(share):
    """Tables of sweeps use pandas: NaN is ignored, infinite values count, halves go to the even index."""
    rng = np.random.default_rng(0)
    groups = np.unique(rng.integers(0, 300, 2000), return_inverse=True)[1]
    values = rng.normal(size=groups.size)
    values[rng.random(groups.size) < 0.3] = np.inf
    values[(rng.random(groups.size) < 0.3) | (groups == 5)] = np.nan
    by_pandas = pd.Series(values).groupby(groups).quantile(share, interpolation="nearest")
    for group, result in by_pandas.items():
        known = values[(groups == group) & ~np.isnan(values)]
        np.testing.assert_equal(result, quantile(known, share, "nearest") if known.size else np.nan)
