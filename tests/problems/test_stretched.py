"""The repr of a problem says that its eigenvalues were stretched to a condition number."""

import quadsim as qs


def test_a_stretched_problem_shows_it():
    stretched = qs.problem(spectrum=[[1, 2], [3, 4]], kappa=50)
    for shown in (repr(stretched), stretched._repr_html_()):
        assert "eigenvalues mapped affinely from κ = 4 to 50" in shown
    for shown in (repr(qs.case(3)), qs.case(3)._repr_html_()):
        assert "mapped" not in shown
