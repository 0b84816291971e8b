"""The published cases, exactly as published."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import quadsim as qs


def test_case_3_and_case_4_equal_the_paper():
    assert [list(part) for part in qs.case(3).eigenvalues] == [[1, 2, 3], [99, 100, 101], [4998, 4999, 5000]]
    assert [list(part) for part in qs.case(4).eigenvalues] == [[1, 99, 4998], [2, 100, 4999], [3, 101, 5000]]
    assert qs.case(3).block_kappas == (3.0, 101 / 99, 5000 / 4998)


@pytest.mark.parametrize("number", [3, 4])
@pytest.mark.parametrize("seed", [0, 1, 17])
def test_condition_number_5000_for_every_seed(number, seed):
    problem = qs.case(number, seed=seed)
    assert problem.kappa == 5000
    assert_allclose(np.linalg.cond(problem.hessian()), 5000, rtol=1e-9)


@pytest.mark.parametrize("kappa", [3, 10, 1e3, 1e6])
def test_at_another_kappa_case_3_keeps_its_blocks_and_case_4_partitions_the_same_nine(kappa):
    three, four = qs.case(3, kappa=kappa), qs.case(4, kappa=kappa)
    assert three.kappa == four.kappa == kappa
    assert_allclose(three.block_kappas, qs.case(3).block_kappas, rtol=1e-14)
    assert sorted(np.concatenate(three.eigenvalues)) == sorted(np.concatenate(four.eigenvalues))


@pytest.mark.parametrize("map", ["affine", "geometric"])
def test_another_map(map):
    problem = qs.case(3, kappa=100, map=map)
    assert problem.kappa == 100
    assert problem.block_kappas != qs.case(3).block_kappas


def test_a_changed_case_says_so_in_its_name():
    assert qs.case(3, seed=5).name == "case 3"
    changed = qs.case(3, kappa=10.0, map="affine", heterogeneity=0.0, rotation=0.5, block_size=4, span="whole")
    assert changed.name == "case 3, kappa 10, heterogeneity 0, map affine, block size 4, rotation 0.5, span whole"


@pytest.mark.parametrize("size", [1, 2, 10])
def test_block_size(size):
    for number in (3, 4):
        problem = qs.case(number, block_size=size)
        assert problem.sizes == (size,) * 3
        assert problem.kappa == 5000


def test_heterogeneity_leads_from_case_4_to_case_3():
    for number, heterogeneity in ((4, 1), (3, 0)):
        other = qs.case(7 - number)
        assert [list(p) for p in qs.case(number, heterogeneity=heterogeneity).eigenvalues] == [
            list(p) for p in other.eigenvalues
        ]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: qs.case(5), "unknown case 5: allowed are 1, 2, 3, 4"),
        (lambda: qs.case("3"), "case must be one of 1, 2, 3, 4, got '3'"),
        (lambda: qs.case(True), "case must be one of 1, 2, 3, 4, got True"),
        (lambda: qs.case(2, blocks="conv1"), "blocks must be a list of names, got 'conv1'"),
        (lambda: qs.case(2, blocks=[]), "blocks must be a list of names"),
        (lambda: qs.case(2, network=7), "network must be a name in the library or a file, got 7"),
        (lambda: qs.case(1, sign="signed", map="geometric"), "must be finite and above 0"),
        (lambda: qs.case(4, pool=3), "pool=3 is for Cases 1 and 2"),
        (lambda: qs.case(3, kappa=2), "cannot reach kappa=2"),
        (lambda: qs.case(3, kappa=0.5), "kappa must be a finite number at least 1 and at most 1e+60, got 0.5"),
        (lambda: qs.case(3, map="log"), "unknown map 'log'"),
        (lambda: qs.case(3, block_size=0), "block_size must be a whole number from 1 to 2048, got 0"),
    ],
)
def test_bad_input_is_refused(call, sentence, check_refused):
    check_refused(call, sentence)
