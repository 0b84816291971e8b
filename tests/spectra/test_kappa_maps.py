"""A problem whose eigenvalues were stretched to a condition number says so."""

import dataclasses
import pickle

import numpy as np
import pytest

import quadsim as qs
from quadsim.spectra import KappaMap


def own_kappa(number, seed):
    """The condition number of the measured eigenvalues, by the map that leaves it unchanged."""
    return qs.case(number, seed=seed, map="unshifted").kappa


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("seed", [0, 7])
def test_measured_cases_were_mapped_affinely(number, seed):
    found = qs.case(number, seed=seed).kappa_map
    assert (found.map, found.kappa) == ("affine", 5000)
    np.testing.assert_allclose(found.kappa_from, own_kappa(number, seed), rtol=1e-12)
    assert str(found) == f"eigenvalues mapped affinely from κ = {own_kappa(number, seed):.4g} to 5000"


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (lambda: qs.case(3, kappa=100), "clusters of eigenvalues scaled from κ = 5000 to 100"),
        (lambda: qs.case(4, kappa=1e6, map="affine"), "eigenvalues mapped affinely from κ = 5000 to 1e+06"),
        (lambda: qs.case(3, kappa=10, map="geometric"), "eigenvalues mapped by a power from κ = 5000 to 10"),
        (lambda: qs.case(3, kappa=100, heterogeneity=0), "clusters of eigenvalues scaled from κ = 5000 to 100"),
        (lambda: qs.problem(spectrum=[[1, 2], [3, 4]], kappa=50), "eigenvalues mapped affinely from κ = 4 to 50"),
        (lambda: qs.problem(spectrum="marchenko-pastur"), "eigenvalues mapped affinely to κ = 5000"),
        (lambda: qs.case(1, sign="signed"), "eigenvalues mapped affinely to κ = 5000"),  # some are negative
    ],
)
def test_other_maps(problem, text):
    assert str(problem().kappa_map) == text


@pytest.mark.parametrize(
    "problem",
    [
        lambda: qs.case(3),
        lambda: qs.case(4, kappa=5000),
        lambda: qs.case(1, map="unshifted"),
        lambda: qs.problem(spectrum=[[1, 2], [3, 4]]),
        lambda: qs.problem(spectrum=[[2, 4], [6, 8]], kappa=4),  # only scaled
        lambda: qs.problem(spectrum="log-uniform"),  # a law on [1, κ]
        lambda: qs.BlockQuadratic.from_spectra([[1, 2, 300]]),
    ],
)
def test_nothing_is_said_of_a_problem_that_was_not_stretched(problem):
    assert problem().kappa_map is None


def test_the_map_changes_no_number_and_survives_pickling():
    problem = qs.case(2, seed=3)
    assert pickle.loads(pickle.dumps(problem)).kappa_map == problem.kappa_map
    plain = dataclasses.replace(problem, kappa_map=None)
    assert problem.name == plain.name == "case 2"
    first, second = (qs.solve(one, qs.GD(), max_steps=100).loss for one in (problem, plain))
    np.testing.assert_array_equal(first, second)


def test_a_record_by_itself():
    parts = [np.array([1.0, 2.0]), np.array([4.0])]
    assert KappaMap.of(parts, 4, "affine") is None
    assert KappaMap.of(parts, 8, "affine") == KappaMap("affine", 8.0, 4.0)
    assert KappaMap.of([np.array([0.0, 1.0])], 8, "affine") == KappaMap("affine", 8.0)


def test_a_condition_number_beyond_float64_is_not_reported():
    assert KappaMap.of([np.array([1e-320, 1.0])], 5000, "affine") == KappaMap("affine", 5000.0)
    assert KappaMap.of([np.array([1e-300, 1.0])], 5000, "affine").kappa_from == pytest.approx(1e300)
    assert KappaMap.of([np.array([1e300, 1e302])], 5000, "affine").kappa_from == pytest.approx(100)
