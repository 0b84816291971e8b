"""Densities and Jensen–Shannon distances, against scipy, formulas, and the properties of any distance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import trapezoid
from scipy.spatial.distance import jensenshannon
from scipy.stats import norm

import quadsim as qs
from quadsim._validation import InputError
from quadsim.spectra import density, grid, js_distance, js_matrix, probe_distance
from quadsim.spectra.files import Measured, MeasuredBlock, exact


def test_a_density_is_a_mixture_of_gaussians():
    block = MeasuredBlock("b", 9, (np.array([-1.0, 2.0]),), (np.array([0.25, 0.75]),), (np.zeros(2),))
    points = np.linspace(-2, 3, 2001)
    by_hand = 0.25 * norm.pdf(points, -1, 0.1) + 0.75 * norm.pdf(points, 2, 0.1)
    assert_allclose(density(block, points, sigma=0.1), by_hand, atol=1e-15)
    assert_allclose(trapezoid(density(block, points, sigma=0.1), points), 1, rtol=1e-10)
    many = exact("m", np.arange(1.0, 21.0))  # the tenth largest is 11
    assert_allclose(
        density(many, points, sigma=0.1, scale="tenth"),
        sum(norm.pdf(points, value / 11, 0.1) for value in range(1, 21)) / 20,
        atol=1e-15,
    )


def test_scale_tenth_removes_the_scale():
    values = np.linspace(1, 20, 12)
    one, other = exact("one", values), exact("other", 1000 * values)
    assert js_distance(one, other) > 0.69
    assert js_distance(one, other, scale="tenth", sigma=0.01) < 1e-12


@settings(max_examples=40)
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=8), st.lists(st.floats(-3, 3), min_size=1, max_size=8))
def test_a_distance_is_symmetric_bounded_and_equals_scipy(one, other):
    one, other = exact("one", one), exact("other", other)
    found = js_distance(one, other, sigma=0.05)
    assert 0 <= found <= np.log(2) * (1 + 1e-12)
    assert_allclose(found, js_distance(other, one, sigma=0.05), rtol=1e-9, atol=1e-12)
    assert js_distance(one, one, sigma=0.05) == 0
    points = grid([one, other], sigma=0.05)
    peer = jensenshannon(density(one, points, sigma=0.05), density(other, points, sigma=0.05)) ** 2
    assert_allclose(found, np.nan_to_num(peer), rtol=1e-6, atol=1e-9)


def test_blocks_far_apart_are_at_ln_2():
    assert_allclose(js_distance(exact("a", [0.0]), exact("b", [1.0])), np.log(2), rtol=1e-12)


def test_two_gaussians_against_an_integral():
    """The distance of N(0, 1) and N(1, 1), by quadrature with scipy's densities: an oracle with its own grid."""
    x = np.linspace(-12, 13, 400_001)
    p, q = norm.pdf(x, 0, 1), norm.pdf(x, 1, 1)
    m = (p + q) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        integrand = 0.5 * np.nan_to_num(p * np.log(p / m)) + 0.5 * np.nan_to_num(q * np.log(q / m))
    by_hand = trapezoid(integrand, x)
    # 4 points to a width, cut at 9 widths: good to rounding.
    assert_allclose(js_distance(exact("a", [0.0]), exact("b", [1.0]), sigma=1.0), by_hand, rtol=1e-6)


def test_the_normalised_distance_does_not_depend_on_the_grid_and_the_other_does():
    one, other = exact("one", [0.0, 1.0]), exact("other", [0.1, 1.0])
    values = [js_distance(one, other, sigma=0.1, normalised=False, bins=bins) for bins in (1000, 2000, 4000)]
    assert_allclose(np.array(values) / values[0], [1, 2, 4], rtol=2e-3)
    assert values[0] > np.log(2)
    far = Measured("net", {"a": one, "b": other, "c": exact("c", [50.0])}, {})
    assert_allclose(js_matrix(far, sigma=0.1).matrix[0, 1], js_distance(one, other, sigma=0.1), rtol=1e-6)


def test_the_matrix_its_mean_and_its_noise():
    measured = qs.spectra.load("resnet18")
    names = ["conv1", "layer1.0.conv1", "fc"]
    found = js_matrix(measured, names)
    assert found.blocks == tuple(names)
    assert (found.matrix == found.matrix.T).all()
    assert (np.diag(found.matrix) == 0).all()
    assert_allclose(found.mean, found.matrix[np.triu_indices(3, 1)].mean())
    loud = js_matrix(measured, names, normalised=False, bins=500)
    assert_allclose(loud.matrix[0, 1], js_distance(*map(measured.block, names[:2]), normalised=False, bins=500))
    assert found.noise == tuple(probe_distance(measured.block(name)) for name in names)
    assert probe_distance(exact("a", [1.0])) is None


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda a: density(a, [0.0], sigma=0.0), "sigma must be a finite number above 0, got 0"),
        (lambda a: density(a, ["x"]), "grid must be numbers"),
        (lambda a: density(a, [1.0, 0.0]), "grid must be a list of increasing numbers"),
        (lambda a: density(a, [0.0], probe=1), "probe must be a whole number from 0 to 0, got 1"),
        (lambda a: density(a, [0.0], scale="log"), "unknown scale 'log'"),
        (lambda a: js_matrix(Measured("net", {"a": a}, {})), "at least two different blocks"),
        (lambda a: density(exact("z", [0.0]), [0.0], scale="tenth"), "tenth largest eigenvalue is 0"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call(exact("a", [1.0, 2.0]))
