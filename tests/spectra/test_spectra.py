"""Spectra: laws, maps to a condition number, partition into blocks."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import quadsim as qs
from quadsim import spectra

positive = st.floats(1e-3, 1e3)
eigenvalue_lists = st.lists(positive, min_size=2, max_size=24)
CASE_3 = [[1, 2, 3], [99, 100, 101], [4998, 4999, 5000]]
CASE_4 = [[1, 99, 4998], [2, 100, 4999], [3, 101, 5000]]


@pytest.mark.parametrize("name", spectra.LAWS)
@pytest.mark.parametrize("size", [2, 9, 120])
def test_a_law_spans_exactly_one_to_kappa(name, size):
    options = {"count": 2} if name == "clusters" else {}
    values = spectra.law(name, size, kappa=777.0, seed=3, **options)
    assert values.shape == (size,)
    assert (np.diff(values) >= 0).all()
    assert values[0] == 1
    assert values[-1] == 777.0


@pytest.mark.parametrize("name", ["log-uniform", "marchenko-pastur", "clusters"])
def test_a_law_is_fixed_by_its_seed_and_changes_with_it(name):
    assert_array_equal(spectra.law(name, 9, seed=5), spectra.law(name, 9, seed=5))
    assert (spectra.law(name, 9, seed=5) != spectra.law(name, 9, seed=6)).any()


def test_log_uniform_is_uniform_on_a_log_scale():
    place = np.log(spectra.law("log-uniform", 20_000, kappa=1e6)) / np.log(1e6)
    # Kolmogorov's distance; 1.63/sqrt(n) is exceeded with probability 1 %
    assert np.abs(place - np.linspace(0, 1, place.size)).max() < 1.63 / np.sqrt(place.size)


def test_marchenko_pastur_has_its_edges():
    """Before the map onto [1, kappa], X'X/m lies on [(1-√γ)², (1+√γ)²]: its mean gives the position of 1."""
    ratio = 0.25
    values = spectra.law("marchenko-pastur", 600, kappa=2.0, ratio=ratio) - 1  # on [0, 1]
    low, high = (1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2
    assert_allclose(values.mean(), (1 - low) / (high - low), atol=0.01)  # the law has mean 1


def test_power_law_is_a_straight_line_on_log_axes():
    values = spectra.law("power-law", 50, kappa=1e4)[::-1]
    slopes = np.diff(np.log(values)) / np.diff(np.log(np.arange(1, 51)))
    assert_allclose(slopes, -np.log(1e4) / np.log(50), rtol=1e-9)


def test_there_are_as_many_clusters_as_requested():
    values = spectra.law("clusters", 12, kappa=1e6, count=4, spread=0.01)
    assert (np.diff(np.log(values)) > np.log(5)).sum() == 3


@given(eigenvalue_lists, st.floats(1, 1e6), st.sampled_from(["affine", "geometric"]))
def test_maps_reach_kappa_and_keep_the_order(eigenvalues, kappa, map):
    if np.ptp(eigenvalues) < 1e-6 * max(eigenvalues):
        return
    (mapped,) = spectra.rescale([eigenvalues], kappa, map)
    assert mapped.min() == 1
    assert mapped.max() == kappa
    assert (np.diff(mapped) >= 0).all()


def test_affine_keeps_relative_ranges_over_blocks():
    low, high = spectra.rescale([[1, 2, 3], [5, 9]], 81.0, "affine")
    assert_allclose(low, [1, 11, 21])
    assert_allclose(high, [41, 81])


def test_geometric_is_one_power():
    (mapped,) = spectra.rescale([[2.0, 4.0, 8.0]], 16.0, "geometric")
    assert_allclose(mapped, [1, 4, 16])


@pytest.mark.parametrize("kappa", [3.0, 10.0, 123.4, 5000.0, 1e6, 1e12])
def test_the_clusters_map_scales_whole_clusters(kappa):
    low, middle, high = spectra.rescale(CASE_3, kappa, "clusters")
    assert_array_equal(low, [1, 2, 3])
    assert high[-1] == kappa
    assert_allclose(high / high[0], np.array([4998, 4999, 5000]) / 4998, rtol=1e-14)
    assert_allclose(middle / middle[0], np.array([99, 100, 101]) / 99, rtol=1e-14)

    def place(parts):
        centres = [np.log(part).mean() for part in parts]
        return (centres[1] - centres[0]) / (centres[2] - centres[0])

    assert_allclose(place((low, middle, high)), place([np.array(c, float) for c in CASE_3]), rtol=1e-13)


def test_partition_is_case_4_at_0_and_case_3_at_1():
    eigenvalues = np.random.default_rng(0).permutation(np.concatenate(CASE_3))
    assert [list(part) for part in qs.partition(eigenvalues, 3, 0)] == CASE_4
    assert [list(part) for part in qs.partition(eigenvalues, blocks=3, heterogeneity=1)] == CASE_3


def test_partition_to_blocks_of_given_sizes():
    assert [list(part) for part in qs.partition([4, 3, 2, 1], [1, 3], 1)] == [[1], [2, 3, 4]]
    assert [list(part) for part in qs.partition([4, 3, 2, 1], [1, 3], 0)] == [[1], [2, 3, 4]]
    assert [list(part) for part in qs.partition([4, 3, 2, 1], [3, 1], 0)] == [[1, 3, 4], [2]]


@given(eigenvalue_lists, st.integers(1, 6), st.floats(0, 1))
def test_partition_keeps_the_eigenvalues_and_the_block_sizes(eigenvalues, blocks, heterogeneity):
    blocks = min(blocks, len(eigenvalues))
    partitioned = qs.partition(eigenvalues, blocks, heterogeneity)
    assert sorted(np.concatenate(partitioned)) == sorted(eigenvalues)
    assert [part.size for part in partitioned] == [part.size for part in qs.partition(eigenvalues, blocks, 0)]


def test_between_0_and_1_every_pair_changes_its_order_at_most_once():
    eigenvalues = np.arange(1.0, 13.0)
    grid = [qs.partition(eigenvalues, 4, x) for x in np.linspace(0, 1, 401)]
    partitions = [tuple(tuple(part) for part in partitioned) for partitioned in grid]
    changes = [(a, b) for a, b in itertools.pairwise(partitions) if a != b]
    assert len(changes) >= 5  # gradual, not one jump
    assert len(set(partitions)) == len(changes) + 1  # and no dealing comes back once it is left
    spread = [np.mean([np.ptp(np.log(part)) for part in partitioned]) for partitioned in grid]
    assert spread[0] > 2 * spread[-1]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: qs.partition([1, 2], 3, 0), "blocks must be a whole number from 1 to 2, got 3"),
        (lambda: qs.partition([1, 2, 3], [1, 1], 0), "blocks must have 3 eigenvalues in all, got sizes [1, 1]"),
        (lambda: spectra.law("marchenko-pastur", 24_000), "would draw 48000 x 24000 numbers"),
        (lambda: spectra.law("clusters", 9, count=1), "count must be a whole number of at least 2, got 1"),
        (
            lambda: qs.partition([1, 2], 2, 1.5),
            "heterogeneity must be a finite number at least 0 and at most 1, got 1.5",
        ),
        (lambda: qs.partition([1, -2], 2, 1), "eigenvalues must be finite and above 0, got -2"),
        (lambda: spectra.rescale([[1, 2]], 0.5), "kappa must be a finite number at least 1 and at most 1e+60, got 0.5"),
        (lambda: spectra.rescale([[2, 2]], 5), "all eigenvalues are equal to 2"),
        (lambda: spectra.rescale([[1, 2]], 5, "afine"), "unknown map 'afine': did you mean affine?"),
        (lambda: spectra.rescale([[1, 2]], 5, "clusters"), "map clusters needs two clusters"),
        (lambda: spectra.rescale(CASE_3, 2, "clusters"), "cannot reach kappa=2"),
        (lambda: spectra.law("log-unifrm", 3), "did you mean log-uniform?"),
        (lambda: spectra.law("linear", 3, count=3), "law linear has no option 'count'"),
        (lambda: spectra.law("linear", 1), "one eigenvalue has condition number 1, got kappa=5000"),
        (lambda: spectra.law("linear", 2.5), "size must be a whole number from 1 to 32768, got 2.5"),
        (lambda: spectra.by_block([]), "spectra must be a list of blocks"),
        (lambda: spectra.by_block([[1, "x"]]), "eigenvalues must be numbers"),
        (lambda: spectra.by_block([["1", "2"]]), "block 0: eigenvalues must be numbers, got ['1', '2']"),
        (lambda: spectra.law("linear", 10**9), "size must be a whole number from 1 to 32768, got 1000000000"),
        (lambda: spectra.by_block([[]]), "block 0 must be a list of at least one eigenvalue"),
        (lambda: spectra.by_block([[1], [float("nan")]]), "block 1: eigenvalues must be finite and above 0, got nan"),
        (lambda: spectra.by_block([[float("inf")]]), "must be finite and above 0, got inf"),
        (lambda: spectra.by_block([[1e200]]), "must lie between 1e-60 and 1e+60, got 1e+200"),
    ],
)
def test_bad_input_is_refused(call, sentence, check_refused):
    check_refused(call, sentence)
