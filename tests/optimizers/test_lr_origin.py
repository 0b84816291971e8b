"""The origin of learning rates: one concept for runs, tables and sweeps."""

import pytest

import quadsim as qs
from quadsim.optimizers.lr_origin import LR_ORIGINS, is_fair, is_unfair, lr_origin


@pytest.mark.parametrize(
    ("optimizer", "origin"),
    [
        (qs.GD(), "theory"),
        (qs.BlockGD(), "theory"),
        (qs.HeavyBall(momentum=0.5), "theory"),
        (qs.HeavyBall(lr=1e-4), "given"),
        (qs.Adam(), "default"),
        (qs.Adam(lr=0.001), "default"),  # written out, it is still the library's
        (qs.Adam(lr=0.01), "given"),
        (qs.Adam(beta2=0.9), "default"),
        (qs.SGD(), "default"),
    ],
)
def test_the_origin_of_a_run(optimizer, origin):
    assert lr_origin(optimizer) == origin
    engines = ["compiled"] + ["closed-form"] * optimizer.has_closed_form()
    for engine in engines:
        assert qs.solve(qs.case(3), optimizer, max_steps=10, engine=engine).lr_from == origin
    table = qs.solve(qs.case(3), [optimizer, qs.GD(lr=1e-5)], seed=range(2), max_steps=10).table()
    assert list(table["lr_from"]) == [origin, "given"] * 2


def test_exact_has_it_too():
    assert qs.exact(qs.case(3), qs.GD(), at=[1, 2]).lr_from == "theory"
    assert qs.exact(qs.case(3), qs.GD(lr=1e-4), at=[1, 2]).lr_from == "given"


def test_a_value_that_was_given_is_not_the_default():
    assert lr_origin(qs.Adam(lr=0.001), given=True) == "given"
    assert lr_origin(qs.GD(), given=True) == "theory"  # there is no value


def test_a_user_defined_rule_has_a_default():
    before = dict(qs.optimizers.OPTIMIZERS)
    try:

        @qs.rule
        def plain_step(g, lr=0.01):
            return lr * g

        assert lr_origin(plain_step()) == "default"
        assert lr_origin(plain_step(lr=0.1)) == "given"
    finally:
        qs.optimizers.OPTIMIZERS.clear()
        qs.optimizers.OPTIMIZERS.update(before)


def test_which_origins_may_be_compared():
    fair = [origins for a in LR_ORIGINS for b in LR_ORIGINS if is_fair(origins := (a, b))]
    assert fair == [("theory", "theory"), ("tuned", "tuned")]
    unfair = {frozenset(pair) for pair in ((a, b) for a in LR_ORIGINS for b in LR_ORIGINS) if is_unfair(pair)}
    assert unfair == {frozenset({"default", "theory"}), frozenset({"default", "tuned"})}
