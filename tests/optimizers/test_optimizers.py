"""Optimizer classes: defaults, closed-form learning rates, refused settings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import quadsim as qs
from quadsim import optimizers

PROBLEM = qs.BlockQuadratic.from_spectra([[1, 2, 3], [10, 40], [7.0]], seed=2)
ERROR = PROBLEM.start(4)


def contraction(optimizer, error=ERROR):
    """The asymptotic factor per step on the error, from the dense iteration matrix (momentum included)."""
    optimizer = optimizer.with_best_lr(PROBLEM, error)
    hessian = PROBLEM.hessian()
    lr = np.repeat(np.broadcast_to(optimizer.lr, 3), PROBLEM.sizes)
    if isinstance(optimizer, qs.FrozenAdam):
        lr = lr * (1 - optimizer.beta1) / np.abs(hessian @ error)
    beta = getattr(optimizer, "beta1", 0.0)
    eye = np.eye(PROBLEM.dim)
    step = np.block([[(1 + beta) * eye - lr[:, None] * hessian, -beta * eye], [eye, 0 * eye]])
    return np.abs(np.linalg.eigvals(step)).max()


@pytest.mark.parametrize("optimizer", [qs.GD(), qs.FrozenAdam(), qs.FrozenAdam(beta1=0.2)], ids=repr)
def test_the_closed_form_lr_is_the_best_constant_one(optimizer):
    """No lr on a fine grid contracts faster; half and nearly twice the lr are worse (the control)."""
    best = optimizer.with_best_lr(PROBLEM, ERROR).lr
    kind, beta = type(optimizer), {"beta1": optimizer.beta1} if hasattr(optimizer, "beta1") else {}
    grid = [contraction(kind(lr=best * factor, **beta)) for factor in np.geomspace(0.5, 1.9, 201)]
    assert min(grid) >= contraction(optimizer) - 1e-6
    assert grid[0] > contraction(optimizer) + 1e-3
    assert grid[-1] > contraction(optimizer) + 1e-3


def test_block_gd_lrs_are_best_in_every_block():
    lrs = qs.BlockGD().with_best_lr(PROBLEM, ERROR).lr
    assert_allclose(lrs, [2 / 4, 2 / 50, 2 / 14])
    for block in range(2):
        for factor in (0.97, 1.03):
            other = list(lrs)
            other[block] *= factor
            sub = qs.BlockQuadratic.from_blocks([PROBLEM.blocks[block]])
            assert qs.theory.rate(sub, qs.GD(lr=other[block])) > qs.theory.rate(sub, qs.GD())


def test_adam_has_the_usual_defaults():
    assert qs.Adam().settings() == {
        "lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "bias_correction": True, "init": "zero",
    }  # fmt: skip


def test_every_optimizer_is_found_by_its_name():
    for name, kind in optimizers.OPTIMIZERS.items():
        assert type(optimizers.by_name(name)) is kind
    assert optimizers.by_name("Frozen_Adam", beta1=0.5) == qs.FrozenAdam(beta1=0.5)
    assert qs.FrozenAdam().label == "Adam (β2 = 1)"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: qs.GD(lr=0), "gd.lr must be a finite number above 0, got 0"),
        (lambda: qs.GD(lr=-1e-3), "gd.lr must be a finite number above 0, got -0.001"),
        (lambda: qs.GD(lr=float("nan")), "gd.lr must be a finite number above 0, got nan"),
        (lambda: qs.GD(lr="fast"), "gd.lr must be a finite number above 0, got 'fast'"),
        (lambda: qs.Adam(lr=None), "adam.lr must be a finite number above 0, got None"),
        (lambda: qs.BlockGD(lr=[1, -1]), "block-gd.lr must be a finite number above 0, got -1"),
        (lambda: qs.BlockGD(lr=[]), "block-gd.lr must be one number, or one for each block, got []"),
        (lambda: qs.BlockGD(lr=b"abc"), "block-gd.lr must be a finite number above 0, got b'abc'"),
        (lambda: qs.BlockGD(lr=np.array(-1.0)), "block-gd.lr must be a finite number above 0, got array(-1.)"),
        (lambda: qs.BlockGD(lr=[1, 1]).with_best_lr(PROBLEM, ERROR), "one for each of 3 blocks, got 2"),
        (lambda: qs.FrozenAdam(beta1=1), "frozen-adam.beta1 must be a finite number at least 0 and below 1, got 1"),
        (lambda: qs.Adam(beta1=-0.1), "adam.beta1 must be a finite number at least 0 and at most 1, got -0.1"),
        (lambda: qs.Adam(beta2=1.1), "adam.beta2 must be a finite number at least 0 and at most 1, got 1.1"),
        (lambda: qs.Adam(beta2=1), "adam.beta2=1 keeps a moment at zero forever"),
        (lambda: qs.Adam(eps=-1), "adam.eps must be a finite number at least 0, got -1"),
        (lambda: qs.Adam(bias_correction="yes"), "adam.bias_correction must be True or False, got 'yes'"),
        (lambda: qs.Adam(init="ones"), "unknown adam.init 'ones'"),
        (lambda: optimizers.by_name("adm"), "unknown optimizer 'adm': did you mean adam?"),
        (lambda: optimizers.by_name("adam", beta=0.9), "unknown setting of adam 'beta': did you mean beta"),
    ],
)
def test_bad_input_is_refused(call, sentence, check_refused):
    check_refused(call, sentence)
