"""Every optimizer against plain numpy, special cases that equal another optimizer, and refused settings."""

import numpy as np
import oracles
import pytest
from kernels import DEFAULT_KERNELS, compiled, interpreted_path
from numpy.testing import assert_allclose, assert_array_equal

import quadsim as qs
from quadsim import optimizers
from quadsim.optimizers.rule_source import parameter_names

STEPS = 500
# Weight decay pulls towards w = 0, which is not where the minimum is.
PROBLEMS = {
    "case 3": qs.case(3, seed=1, minimizer=np.arange(9.0)),
    "case 4": qs.case(4, seed=2, minimizer=np.linspace(-2, 3, 9)),
    "blocks of 1, 2, 4, 12": qs.BlockQuadratic.from_spectra(
        [[5], [1, 20], [3, 4, 7, 50], np.geomspace(2, 90, 12)], seed=3, minimizer=np.linspace(0, 4, 19)
    ),
}
ZOO = [
    qs.SGD(),
    qs.SGD(lr=1e-4, momentum=0.9),
    qs.SGD(lr=1e-4, momentum=0.9, dampening=0.5, weight_decay=0.1),
    qs.SGD(lr=1e-4, momentum=0.9, nesterov=True, weight_decay=3.0),
    qs.AdamW(),
    qs.AdamW(lr=3e-4, weight_decay=10.0, beta1=0.5, beta2=0.99),
    qs.AdamW(weight_decay=0.0, bias_correction=False, eps=1e-3),
    qs.AMSGrad(),
    qs.AMSGrad(beta1=0.5, beta2=0.9),
    qs.AMSGrad(bias_correction=False, eps=1e-3),
    qs.NAdam(),
    qs.NAdam(lr=1e-3, beta1=0.5, beta2=0.99, momentum_decay=0.1),
    qs.NAdam(momentum_decay=0.0, eps=1e-3),
    qs.AdamVariance(),
    qs.AdamVariance(lr=3e-4, eps=0.0),
    qs.AdamVariance(beta=0.99, eps=1e-2),
    qs.RMSProp(),
    qs.RMSProp(lr=1e-4, momentum=0.9, eps=1e-2),
    qs.RMSProp(lr=1e-3, centered=True, weight_decay=1.0),
    qs.AdaGrad(),
    qs.AdaGrad(lr=0.1, lr_decay=0.01),
    qs.AdaGrad(lr=0.1, initial_accumulator=1.0, weight_decay=2.0, eps=1e-3),
    qs.SignGD(),
    qs.SignGD(lr=1e-2),
    qs.Signum(),
    qs.Signum(lr=1e-2, beta=0.95, eps=1.0),
    qs.Signum(lr=1e-2, beta=0.5, eps=10.0),
    qs.Lion(),
    qs.Lion(lr=1e-3, beta1=0.95, beta2=0.98, weight_decay=1.0),
    qs.Lion(lr=1e-3, weight_decay=0.0),
    qs.AdamMini(),
    qs.AdamMini(lr=1e-3, beta1=0.5, beta2=0.99),
    qs.AdamMini(eps=0.1, bias_correction=False),
    qs.AdaSGD(),
    qs.AdaSGD(lr=1e-3, beta1=0.5, beta2=0.99),
    qs.AdaSGD(eps=0.1, bias_correction=False),
    qs.Muon(),
    qs.Muon(lr=1e-3, beta=0.9, nesterov=False, weight_decay=1.0),
    qs.Muon(lr=1e-3, rows=1, ns_steps=3),
    qs.SkipUpdate(),
    qs.SkipUpdate(beta1=0.0, mask="element", keep=0.3),
    qs.SkipUpdate(lr=3e-3, rescale=False, bias_correction=False),
    qs.Magma(),
    qs.Magma(beta1=0.0, mask="element", keep=0.3, momentum=0.5, tau=0.5),
    qs.Magma(lr=3e-3, smoothing=0.5, first_scale=0.0, bias_correction=False, keep=1.0),
]
SEED = 7


def start(problem, optimizer):
    """Close enough that the error falls, and too far to reach the minimum, where large steps amplify rounding."""
    near = 10 if optimizer in (qs.RMSProp(), qs.Muon()) else 0.3
    return problem.minimizer + near * problem.initial_error(0)


def solve(problem, optimizer, **how):
    how = {"seed": SEED, "tol": 0, "max_steps": STEPS, "record": 1, **how}
    return qs.solve(problem, optimizer, w0=how.pop("w0", start(problem, optimizer)), **how, engine="compiled")


def oracle_path(problem, optimizer, error, steps):
    """The errors of plain numpy's run; masks are drawn from the same stream of random numbers."""
    settings = optimizer.settings()
    oracle = getattr(oracles, optimizer.name.replace("-", "_"))
    given = [problem.sizes] if optimizer.scope != "coordinate" else []
    if isinstance(optimizer, qs.SkipUpdate | qs.Magma):
        by_block = settings.pop("mask") == "block"
        count, repeats = (len(problem.sizes), problem.sizes) if by_block else (problem.dim, 1)
        given.append(lambda t: np.repeat(oracles.uniforms(SEED, t, count) < optimizer.keep, repeats))
    if isinstance(optimizer, qs.Magma):
        del settings["keep"]
    return oracles.walk(problem.hessian(), error, steps, oracle(*given, **settings), problem.minimizer)


@pytest.mark.parametrize("optimizer", ZOO, ids=repr)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_rule_agrees_with_plain_numpy(name, optimizer):
    """The rule as Python evaluates it, for all optimizers; the next test has the compiled ones."""
    problem, steps = PROBLEMS[name], 30
    error = problem.error(start(problem, optimizer))
    path = interpreted_path(problem, optimizer, error, steps, SEED)
    assert_allclose(path, oracle_path(problem, optimizer, error, steps), rtol=1e-9, atol=1e-9 * np.abs(error).max())


@pytest.mark.parametrize("optimizer", compiled(ZOO))
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_kernel_agrees_with_plain_numpy(name, optimizer):
    """Losses to a relative 1e-10 at every one of 500 steps, or up to where the run diverges."""
    problem = PROBLEMS[name]
    run = solve(problem, optimizer)
    assert len(run.loss) == STEPS + 1 or run.status is qs.Status.DIVERGED
    path = oracle_path(problem, optimizer, problem.error(start(problem, optimizer)), len(run.loss) - 1)
    loss, norm = oracles.measures(problem.hessian(), path)
    assert abs(loss[-1] / loss[0] - 1) > 0.05  # something has happened
    assert_allclose(run.loss, loss, rtol=1e-10)
    assert_allclose(run.grad_norm, norm, rtol=1e-10)


def test_every_optimizer_is_compared():
    """Here with its defaults, or in test_kernels and test_closed."""
    before = {"gd", "block-gd", "heavy-ball", "nesterov", "frozen-adam", "adam"}
    by_default = {name for name, kind in optimizers.OPTIMIZERS.items() if kind() in ZOO}
    assert by_default | before == set(optimizers.OPTIMIZERS)
    for kind in {type(optimizer) for optimizer in ZOO} - {qs.SignGD}:  # whose only setting is the lr
        assert sum(type(optimizer) is kind for optimizer in ZOO) >= 3


@pytest.mark.parametrize(
    "optimizer",
    compiled([qs.RMSProp(), qs.Muon(), qs.AdamMini(lr=3e-3, beta1=0.5, beta2=0.95), qs.Signum(beta=0.95, eps=0.01)]),
)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_kernel_amplifies_rounding_no_more_than_numpy(name, optimizer):
    """Near the minimum, steps that do not shrink amplify rounding errors, in the kernel as much as in numpy.

    The two runs differ by at most a thousand times the change that a perturbation of the start by 1e-13 makes in
    numpy's run, while that change is small.
    """
    problem = PROBLEMS[name]
    error = 0.3 * problem.start(0)
    run = solve(problem, optimizer, w0=problem.minimizer + error)
    error = problem.error(problem.minimizer + error)
    loss, *others = (
        oracles.measures(problem.hessian(), oracle_path(problem, optimizer, begin, STEPS))[0]
        for begin in (error, error * (1 + 1e-13), error * (1 - 1e-13))
    )
    apart = np.maximum.accumulate(np.max([np.abs(other / loss - 1) for other in others], axis=0))
    alike = apart < 1e-3
    assert alike.sum() > 50
    assert (np.abs(run.loss / loss - 1) <= 1000 * np.maximum(1e-13, apart))[alike].all()


OFF = {
    qs.SGD(lr=1e-4, momentum=0.9): qs.SGD(lr=1e-4, momentum=0.9 + 1e-8),
    qs.NAdam(): qs.NAdam(momentum_decay=0.0),
    qs.AdamW(): qs.AdamW(weight_decay=0.01 + 1e-7),
    qs.Magma(): qs.Magma(tau=2 + 1e-6),
    qs.SkipUpdate(): qs.SkipUpdate(mask="element"),
}


@pytest.mark.parametrize("ours", compiled(OFF))
def test_the_comparison_can_fail(ours):
    """The control: a slightly different setting, or another mask, is detected."""
    problem, other = PROBLEMS["case 4"], OFF[ours]
    path = oracle_path(problem, other, problem.error(start(problem, other)), STEPS)
    loss, _ = oracles.measures(problem.hessian(), path)
    assert np.max(np.abs(solve(problem, ours).loss / loss - 1)) > 1e-10


# Special cases that equal another optimizer


SCALARS = qs.BlockQuadratic.from_spectra([[1], [3], [10], [50], [200]], minimizer=np.arange(5.0))
ONE_BLOCK = qs.BlockQuadratic.from_spectra([np.geomspace(1, 100, 6)], seed=4, minimizer=np.arange(6.0))
SAME = [
    (PROBLEMS["case 4"], qs.SGD(lr=1e-4), qs.GD(lr=1e-4)),
    (PROBLEMS["case 4"], qs.SGD(lr=1e-4, momentum=0.9), qs.HeavyBall(lr=1e-4, momentum=0.9)),
    (PROBLEMS["case 4"], qs.Signum(beta=0.0), qs.SignGD()),
    (PROBLEMS["case 4"], qs.Lion(lr=1e-3, beta1=0.0, weight_decay=0.0), qs.SignGD()),
    (PROBLEMS["case 4"], qs.Lion(lr=1e-3, beta1=0.9, beta2=0.9, weight_decay=0.0), qs.Signum()),
    (PROBLEMS["case 4"], qs.AdamVariance(beta=0.0), qs.Signum(beta=0.0, eps=1e-8)),
    (PROBLEMS["case 4"], qs.AdamW(weight_decay=0.0, beta1=0.5), qs.Adam(beta1=0.5)),
    (PROBLEMS["case 4"], qs.AdamW(weight_decay=0.0, bias_correction=False), qs.Adam(bias_correction=False)),
    (PROBLEMS["case 4"], qs.RMSProp(lr=1e-3), qs.Adam(beta1=0.0, beta2=0.99, bias_correction=False)),
    (PROBLEMS["case 4"], qs.SkipUpdate(keep=1.0, beta1=0.5), qs.Adam(beta1=0.5)),
    (PROBLEMS["case 4"], qs.SkipUpdate(keep=1.0, mask="element", beta1=0.0), qs.Adam(beta1=0.0)),
    (SCALARS, qs.AdamMini(), qs.Adam()),
    (SCALARS, qs.SkipUpdate(), qs.SkipUpdate(mask="element")),
    (SCALARS, qs.Magma(), qs.Magma(mask="element")),
    (ONE_BLOCK, qs.AdaSGD(), qs.AdamMini()),
]


@pytest.mark.parametrize(
    ("problem", "one", "other"),
    [
        pytest.param(*given, marks=() if {one.name for one in given[1:]} <= DEFAULT_KERNELS else pytest.mark.slow)
        for given in SAME
    ],
    ids=lambda value: getattr(value, "label", ""),
)
def test_special_settings_equal_another_optimizer(problem, one, other):
    first, second = (solve(problem, optimizer, w0=start(problem, one)) for optimizer in (one, other))
    assert_allclose(first.loss, second.loss, rtol=1e-10)


@pytest.mark.slow
def test_with_several_blocks_adam_mini_and_adasgd_differ():
    """The control for the last case above: with more than one block, Adam-mini and AdaSGD differ."""
    runs = [solve(PROBLEMS["case 3"], optimizer) for optimizer in (qs.AdaSGD(), qs.AdamMini())]
    assert abs(runs[0].loss[-1] / runs[1].loss[-1] - 1) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_variance_form_is_adam_with_equal_betas(name, beta):
    """Algebraically the same; v − m² and the variance round differently, and drift apart with the steps."""
    problem = PROBLEMS[name]
    runs = [
        solve(problem, optimizer)
        for optimizer in (qs.AdamVariance(beta=beta), qs.Adam(beta1=beta, beta2=beta, bias_correction=False))
    ]
    assert_allclose(runs[0].loss[:200], runs[1].loss[:200], rtol=1e-6)


def test_muon_s_steps_are_nearly_orthogonal_matrices():
    """Of 3×4 blocks, singular values between 0.65 and 1.25 times lr·√(4/3), where the gradients' are further apart."""
    problem = qs.BlockQuadratic.from_spectra([np.geomspace(1, 100, 12)] * 20, seed=1)
    w0, w1 = problem.start(0), solve(problem, qs.Muon(), w0=problem.start(0), max_steps=1).w
    steps, gradients = (np.reshape(vector, (20, 3, 4)) for vector in (w0 - w1, problem.hvp(w0)))
    values = np.linalg.svd(steps, compute_uv=False) / (0.02 * np.sqrt(4 / 3))
    assert ((values > 0.65) & (values < 1.25)).all()
    values = np.linalg.svd(gradients, compute_uv=False)
    assert np.median(values[:, 0] / values[:, -1]) > 3


# Properties of every step


def errors(problem, optimizer, steps, **how):
    """The errors after 0, 1, … steps, each from a separate run."""
    return np.array([solve(problem, optimizer, max_steps=t, **how).w for t in range(steps + 1)]) - problem.minimizer


@pytest.mark.slow
def test_lion_and_signs_step_by_the_lr():
    problem = PROBLEMS["case 4"]
    for optimizer in (qs.Lion(lr=1e-3, weight_decay=0.0), qs.SignGD(), qs.Signum(beta=0.99)):
        steps = np.abs(np.diff(errors(problem, optimizer, 30), axis=0))
        assert_allclose(steps, 1e-3, rtol=1e-9)


@pytest.mark.slow
def test_amsgrad_s_denominators_never_fall():
    """β1 = 0 and no correction: step/gradient is lr over the denominator. Adam's do fall (the control)."""
    problem, settings = PROBLEMS["case 4"], {"lr": 1e-2, "beta1": 0.0, "beta2": 0.5, "bias_correction": False}
    for optimizer, falls in ((qs.AMSGrad(**settings), False), (qs.Adam(**settings), True)):
        path = errors(problem, optimizer, 40)
        roots = 1e-2 * (path[:-1] @ problem.hessian()) / -np.diff(path, axis=0)
        assert (np.diff(roots, axis=0) < -1e-9 * roots[1:]).any() == falls


@pytest.mark.parametrize("kind", compiled([qs.SkipUpdate, qs.Magma]))
@pytest.mark.parametrize("mask", ["block", "element"])
def test_masks_let_whole_blocks_or_single_elements_through(kind, mask):
    problem, steps = PROBLEMS["blocks of 1, 2, 4, 12"], 60
    moved = np.diff(errors(problem, kind(mask=mask, keep=0.4), steps), axis=0) != 0
    count, repeats = (4, problem.sizes) if mask == "block" else (problem.dim, 1)
    drawn = [np.repeat(oracles.uniforms(SEED, t, count) < 0.4, repeats) for t in range(1, steps + 1)]
    assert_array_equal(moved, drawn)
    assert 0.3 < np.mean(drawn, axis=0)[0] < 0.5


@pytest.mark.slow
def test_masks_depend_on_the_seed():
    problem, optimizer = PROBLEMS["case 4"], qs.SkipUpdate()
    first, again, other = (solve(problem, optimizer, seed=seed) for seed in (3, 3, 4))
    assert_array_equal(first.loss, again.loss)
    assert (first.loss[-1] != other.loss[-1]).all()
    skips = solve(problem, qs.SkipUpdate(lr=3e-4), seed=3, max_steps=50, record=1).loss
    assert_array_equal(np.diff(skips) == 0, np.diff(first.loss[:51]) == 0)  # whatever the lr


@pytest.mark.parametrize("kind", compiled(kind for kind in optimizers.OPTIMIZERS.values() if kind is not qs.FrozenAdam))
def test_a_coordinate_without_gradient_does_not_move(kind):
    """On a diagonal problem, at the minimum in all coordinates but one, and without eps: steps of 0, not 0/0."""
    problem = qs.case(3, rotation=0, minimizer="zero")  # where weight decay does not move it either
    settings = {"eps": 0.0} if hasattr(kind(), "eps") else {}
    w0 = np.zeros(9)
    w0[1] = 1.0
    if kind is qs.Magma or kind is qs.SkipUpdate:
        settings["keep"] = 1.0
    run = solve(problem, kind(lr=1e-5, **settings), w0=w0, max_steps=20)
    assert np.isfinite(run.w).all()
    assert run.w[1] != 1.0
    assert (np.delete(run.w, 1) == 0).all()


# Lanes


def lanes_of(kind):
    """Eight settings of one kind that differ from lane to lane; both kinds of mask in one batch."""
    rates = np.geomspace(1e-5, 1e-1, 8)
    if kind in (qs.SkipUpdate, qs.Magma):
        return [kind(lr=lr, mask=("block", "element")[k % 2], keep=0.3 + 0.08 * k) for k, lr in enumerate(rates)]
    decay = {"weight_decay": 0.1} if hasattr(kind(), "weight_decay") else {}
    return [kind(lr=lr, **decay) for lr in rates]


def kind_of_rule(kind):
    """What the kernel's code around a rule depends on. The rule itself computes with numbers and has no lanes."""
    names, once = parameter_names(kind.rule), kind.once_per_step
    given = {name for name in ("w", "random") if name in names}
    return kind.scope, given, once is not None, once is not None and "lr" in parameter_names(once)


# One optimizer for each kind of rule; the first ones have their kernels from the tests of kernels.
FIRST = [qs.Adam, qs.GD, *optimizers.OPTIMIZERS.values()]
OF_EACH_KIND = [kind for k, kind in enumerate(FIRST) if kind_of_rule(kind) not in map(kind_of_rule, FIRST[:k])]


@pytest.mark.slow  # a kernel for each width; the one for 8 lanes only for the default ones
@pytest.mark.parametrize("kind", OF_EACH_KIND, ids=lambda kind: kind.name)
def test_a_lane_is_the_same_bit_for_bit_among_1_5_and_64(kind, fastest_kernels):
    problem, many = PROBLEMS["blocks of 1, 2, 4, 12"], lanes_of(kind)
    how = {"max_steps": 200, "tol": 1e-2, "engine": "compiled"}
    lanes = qs.solve(problem, many, seed=range(8), **how)
    five = qs.solve(problem, many[1:6], seed=4, **how) if kind.name in DEFAULT_KERNELS else lanes[33:38]
    for seed, k in ((0, 0), (4, 1), (4, 2), (4, 3), (4, 4), (4, 5), (7, 7)):
        alone = qs.solve(problem, many[k], seed=seed, **how)
        for other in (lanes[8 * seed + k], five[k - 1]) if seed == 4 else (lanes[8 * seed + k],):
            assert_array_equal(alone.loss, other.loss)
            assert_array_equal(alone.w, other.w)
            assert (alone.status, alone.last_step) == (other.status, other.last_step)
    assert len({run.last_step for run in lanes}) > 1 or len({run.loss[-1] for run in lanes}) > 30  # they do differ


# Refused settings


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: qs.SGD(lr=None), "sgd.lr must be a finite number above 0, got None"),
        (lambda: qs.SGD(momentum=1), "sgd.momentum must be a finite number at least 0 and below 1, got 1"),
        (lambda: qs.SGD(nesterov=1), "sgd.nesterov must be True or False, got 1"),
        (
            lambda: qs.SGD(nesterov=True),
            "sgd.nesterov requires a momentum above 0 and no dampening, got momentum=0",
        ),
        (lambda: qs.SGD(momentum=0.9, dampening=0.1, nesterov=True), "got momentum=0.9 and dampening=0.1"),
        (lambda: qs.SGD(weight_decay=-1), "sgd.weight_decay must be a finite number at least 0, got -1"),
        (lambda: qs.RMSProp(alpha=1.5), "rmsprop.alpha must be a finite number at least 0 and below 1, got 1.5"),
        (lambda: qs.RMSProp(centered="yes"), "rmsprop.centered must be True or False, got 'yes'"),
        (lambda: qs.AdaGrad(initial_accumulator=-1), "adagrad.initial_accumulator must be a finite number at least 0"),
        (lambda: qs.AdamW(beta2=1), "adamw.beta2 must be a finite number at least 0 and below 1, got 1"),
        (lambda: qs.AdamW(weight_decay=float("inf")), "adamw.weight_decay must be a finite number at least 0, got inf"),
        (lambda: qs.AMSGrad(eps=-1), "amsgrad.eps must be a finite number at least 0, got -1"),
        (lambda: qs.NAdam(lr=0), "nadam.lr must be a finite number above 0, got 0"),
        (lambda: qs.NAdam(momentum_decay=-1), "nadam.momentum_decay must be a finite number at least 0, got -1"),
        (lambda: qs.AdamVariance(beta="0.9"), "adam-variance.beta must be a finite number at least 0 and below 1"),
        (lambda: qs.SignGD(lr=-1), "signgd.lr must be a finite number above 0, got -1"),
        (lambda: qs.Signum(beta=1), "signum.beta must be a finite number at least 0 and below 1, got 1"),
        (lambda: qs.Lion(beta1=-0.1), "lion.beta1 must be a finite number at least 0 and below 1, got -0.1"),
        (lambda: qs.AdamMini(bias_correction=1), "adam-mini.bias_correction must be True or False, got 1"),
        (lambda: qs.AdaSGD(beta1=1), "adasgd.beta1 must be a finite number at least 0 and below 1, got 1"),
        (lambda: qs.Muon(rows=-1), "muon.rows must be a whole number of at least 0, got -1"),
        (lambda: qs.Muon(rows=1.5), "muon.rows must be a whole number of at least 0, got 1.5"),
        (lambda: qs.Muon(ns_steps=0), "muon.ns_steps must be a whole number of at least 1, got 0"),
        (
            lambda: qs.solve(qs.case(3), qs.Muon(rows=2)),
            "muon.rows must divide every block's size, got 2 for one of 3",
        ),
        (lambda: qs.SkipUpdate(keep=0), "skip-update.keep must be a finite number above 0 and at most 1, got 0"),
        (lambda: qs.SkipUpdate(mask="row"), "unknown skip-update.mask 'row': allowed are block, element"),
        (lambda: qs.SkipUpdate(rescale="no"), "skip-update.rescale must be True or False, got 'no'"),
        (lambda: qs.Magma(tau=0), "magma.tau must be a finite number above 0, got 0"),
        (lambda: qs.Magma(smoothing=1), "magma.smoothing must be a finite number at least 0 and below 1, got 1"),
    ],
)
def test_bad_input_is_refused(call, sentence, check_refused):
    check_refused(call, sentence)


def test_settings_are_kept_as_plain_numbers():
    assert qs.Muon(rows=3.0, ns_steps=np.int64(4)).settings() == qs.Muon(rows=3, ns_steps=4).settings()
    assert isinstance(qs.SGD(lr=np.float32(1)).lr, float)
    assert isinstance(qs.RMSProp(centered=np.True_).centered, bool)
