"""`seed` has one name and one set of forms in all functions; `seeds=` is answered with the form to write."""

import numpy as np
import pytest

import quadsim as qs
from quadsim import _random
from quadsim._validation import InputError


def draw(seed):
    return qs.case(3, seed=seed)


FORMS = [range(3), [0, 1, 2], (0, 1, 2), np.arange(3), "0..2", "0,1,2", " 0, 1,2"]
SHORT = {"max_steps": 5}
GRID = {"grid": [0.1], "refine": 0, "extend": 0}
SEVERAL = {
    "solve": lambda seed: [run.seed for run in qs.solve(draw, qs.GD(), seed=seed, **SHORT)],
    "tune": lambda seed: len(qs.tune(draw, qs.GD(), seed=seed, grid=[1e-4, 2e-4], **SHORT).leaders[0][1]),
    "compare": lambda seed: (
        qs.compare(draw, {"a": qs.GD(), "b": qs.GD()}, seed=seed, tuning_seed="7..8", lrs=[1e-4], **SHORT).seeds
    ),
    "sweep": lambda seed: sorted(qs.sweep(case=3, optimizers=["gd"], seed=seed, **SHORT)["seed"]),
}


@pytest.mark.parametrize("form", FORMS, ids=repr)
@pytest.mark.parametrize("name", SEVERAL)
def test_functions_of_several_seeds_take_every_form(name, form):
    assert SEVERAL[name](form) == (3 if name == "tune" else [0, 1, 2])


def test_one_seed_and_a_text_of_one_seed():
    assert qs.solve(draw, qs.GD(), seed=7, **SHORT).seed == 7
    assert [run.seed for run in qs.solve(draw, qs.GD(), seed="7", **SHORT)] == [7]
    assert qs.solve(draw, qs.GD(), seed=np.int64(7), **SHORT).seed == 7
    assert list(qs.sweep(case=3, optimizers=["gd"], seed="7", **SHORT)["seed"]) == [7]


ONE = {
    "case": lambda **given: qs.case(3, **given),
    "problem": lambda **given: qs.problem(case=3, **given),
    "law": lambda **given: qs.spectra.law("log-uniform", 9, **given),
    "exact": lambda **given: qs.exact(qs.case(3), qs.GD(), at=[1], **given),
    "sample": lambda **given: qs.spectra.sample(qs.spectra.load("resnet18").block("fc"), 9, sampling="mass", **given),
    "initial_error": lambda **given: qs.case(3).initial_error(**given),
}


@pytest.mark.parametrize("seed", [range(3), [0], "0..2", "0", np.arange(2)], ids=repr)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_seed_name_those_of_several(name, seed):
    ONE[name](seed=0)
    ONE[name](seed=np.int64(0))
    with pytest.raises(TypeError, match=r"seed must be a whole number here, got .*: solve, compare, tune and sweep"):
        ONE[name](seed=seed)


WITH_SEEDS = {
    "tune": lambda **given: qs.tune(draw, qs.GD(), seed=0, **given),
    "compare": lambda **given: qs.compare(draw, [qs.GD(), qs.Adam()], **given),
    "sweep": lambda **given: qs.sweep(case=3, **given),
}


@pytest.mark.parametrize("name", WITH_SEEDS)
def test_seeds_is_answered_with_seed(name):
    with pytest.raises(TypeError, match=r'seeds=30: write seed=range\(30\) or seed="0..29"'):
        WITH_SEEDS[name](seeds=30)
    with pytest.raises(TypeError, match=r"the argument is seed, not seeds: write seed=range\(0, 3\)"):
        WITH_SEEDS[name](seeds=range(3))


def test_tuning_seeds_is_answered_too():
    with pytest.raises(TypeError, match=r'write tuning_seed=range\(30, 40\) or tuning_seed="30..39"'):
        qs.compare(draw, [qs.GD(), qs.Adam()], tuning_seeds=10)


@pytest.mark.parametrize("name", ["problem", "law"])
def test_seeds_of_functions_of_one_seed(name):
    with pytest.raises(TypeError, match="write seed=0, one whole number"):
        ONE[name](seeds=30)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "such as 7, 0..29 or 3,5,8, got ''"),
        ("x", "such as 7, 0..29 or 3,5,8, got 'x'"),
        ("0:10", "such as 7, 0..29 or 3,5,8, got '0:10'"),
        ("٣", "such as 7, 0..29 or 3,5,8"),
        ("5..3", "seed=5..3 is empty"),
        ("0..1e9", "the number of values of seed"),
        ("1,1", "distinct seeds, got 1 twice"),
        ([], "at least 1 seed, got 0"),
        ([1, 1], "distinct seeds, got 1 twice"),
        ([0.5], "whole number from 0"),
        (True, "whole number from 0"),
        ({0: 1}, "whole number from 0"),
        (-1, "whole number from 0"),
        (2**63, "whole number from 0"),
        (None, "whole number from 0"),
    ],
    ids=repr,
)
def test_wrong_seeds_are_refused(given, message, check_refused):
    check_refused(lambda: _random.seed_list("seed", given), message)


def test_refuse_seeds_passes_other_arguments():
    _random.refuse_seeds({"noise": 1, "seed": 3})
    with pytest.raises(InputError, match="write seed='x'"):
        _random.refuse_seeds({"seeds": "x"})
