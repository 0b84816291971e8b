"""Our optimizers against torch.optim and optax, where these are installed: `pip install torch==2.13.0 optax`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import quadsim as qs

pytestmark = pytest.mark.slow
STEPS = 500
# Weight decay pulls towards w = 0, which is not where the minimum is.
PROBLEMS = [qs.case(3, seed=1, minimizer=np.linspace(2, -1, 9)), qs.case(4, seed=2, minimizer=np.linspace(-1, 1, 9))]
FAR = 30  # some defaults are so large that from a start of size 1 they soon magnify rounding errors without bound

# Our optimizer, and the equivalent call in the other library; without settings, the defaults of both.
TORCH = [
    (qs.Adam(), "Adam", {}),
    (qs.Adam(lr=1e-2, beta1=0.5, beta2=0.99), "Adam", {"lr": 1e-2, "betas": (0.5, 0.99)}),
    (qs.Adam(beta1=0.0, eps=1e-3), "Adam", {"betas": (0.0, 0.999), "eps": 1e-3}),
    (qs.Adam(lr=3e-3, beta1=0.95, beta2=0.95, eps=1e-6), "Adam", {"lr": 3e-3, "betas": (0.95, 0.95), "eps": 1e-6}),
    (qs.SGD(), "SGD", {}),
    (qs.SGD(lr=1e-4, momentum=0.9), "SGD", {"lr": 1e-4, "momentum": 0.9}),
    (
        qs.SGD(lr=1e-4, momentum=0.9, dampening=0.5, weight_decay=0.1),
        "SGD",
        {"lr": 1e-4, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1},
    ),
    (
        qs.SGD(lr=1e-4, momentum=0.8, nesterov=True, weight_decay=3.0),
        "SGD",
        {"lr": 1e-4, "momentum": 0.8, "nesterov": True, "weight_decay": 3.0},
    ),
    (qs.SGD(lr=1e-4, dampening=0.5), "SGD", {"lr": 1e-4, "dampening": 0.5}),
    (qs.RMSProp(), "RMSprop", {}),
    (qs.RMSProp(lr=1e-4, momentum=0.9, eps=1e-2), "RMSprop", {"lr": 1e-4, "momentum": 0.9, "eps": 1e-2}),
    (
        qs.RMSProp(lr=1e-3, alpha=0.995, centered=True, weight_decay=1.0),
        "RMSprop",
        {"lr": 1e-3, "alpha": 0.995, "centered": True, "weight_decay": 1.0},
    ),
    (qs.AdaGrad(), "Adagrad", {}),
    (qs.AdaGrad(lr=0.1, lr_decay=0.01), "Adagrad", {"lr": 0.1, "lr_decay": 0.01}),
    (
        qs.AdaGrad(lr=0.1, initial_accumulator=1.0, weight_decay=2.0, eps=1e-3),
        "Adagrad",
        {"lr": 0.1, "initial_accumulator_value": 1.0, "weight_decay": 2.0, "eps": 1e-3},
    ),
    (qs.AMSGrad(), "Adam", {"amsgrad": True}),
    (qs.AMSGrad(beta1=0.5, beta2=0.9), "Adam", {"betas": (0.5, 0.9), "amsgrad": True}),
    (qs.AMSGrad(lr=3e-3, eps=1e-2), "Adam", {"lr": 3e-3, "eps": 1e-2, "amsgrad": True}),
    (qs.AdamW(), "AdamW", {}),
    (
        qs.AdamW(lr=3e-4, beta1=0.5, beta2=0.99, weight_decay=10.0),
        "AdamW",
        {"lr": 3e-4, "betas": (0.5, 0.99), "weight_decay": 10.0},
    ),
    (qs.AdamW(weight_decay=0.0, eps=1e-3), "AdamW", {"weight_decay": 0.0, "eps": 1e-3}),
    (qs.NAdam(), "NAdam", {}),
    (
        qs.NAdam(lr=1e-3, beta1=0.5, beta2=0.99, momentum_decay=0.1),
        "NAdam",
        {"lr": 1e-3, "betas": (0.5, 0.99), "momentum_decay": 0.1},
    ),
    (qs.NAdam(momentum_decay=0.0, eps=1e-3), "NAdam", {"momentum_decay": 0.0, "eps": 1e-3}),
    # torch.optim.Muon is left out: its iteration is in bfloat16, three digits of our sixteen
]

OPTAX = [
    (qs.Adam(), "adam", {"learning_rate": 1e-3}),
    (qs.Adam(lr=1e-2, beta1=0.5, beta2=0.99), "adam", {"learning_rate": 1e-2, "b1": 0.5, "b2": 0.99}),
    (qs.Adam(beta1=0.0, eps=1e-3), "adam", {"learning_rate": 1e-3, "b1": 0.0, "eps": 1e-3}),
    (
        qs.Adam(lr=3e-3, beta1=0.95, beta2=0.95, eps=1e-6),
        "adam",
        {"learning_rate": 3e-3, "b1": 0.95, "b2": 0.95, "eps": 1e-6},
    ),
    (qs.SGD(lr=1e-4), "sgd", {"learning_rate": 1e-4}),
    (qs.SGD(lr=1e-4, momentum=0.9), "sgd", {"learning_rate": 1e-4, "momentum": 0.9}),
    (
        qs.SGD(lr=1e-4, momentum=0.8, nesterov=True),
        "sgd",
        {"learning_rate": 1e-4, "momentum": 0.8, "nesterov": True},
    ),
    (qs.RMSProp(lr=1e-3), "rmsprop", {"learning_rate": 1e-3, "decay": 0.99, "eps_in_sqrt": False}),
    (
        qs.RMSProp(lr=1e-4, momentum=0.9, eps=1e-2),
        "rmsprop",
        {"learning_rate": 1e-4, "decay": 0.99, "momentum": 0.9, "eps": 1e-2, "eps_in_sqrt": False},
    ),
    (
        qs.RMSProp(lr=1e-3, alpha=0.995, centered=True),
        "rmsprop",
        {"learning_rate": 1e-3, "decay": 0.995, "centered": True, "eps_in_sqrt": False},
    ),
    # optax has eps inside AdaGrad's root, so it can only be 0 on both sides
    (qs.AdaGrad(eps=0.0, initial_accumulator=0.1), "adagrad", {"learning_rate": 1e-2, "eps": 0.0}),
    (
        qs.AdaGrad(lr=0.1, eps=0.0, initial_accumulator=3.0),
        "adagrad",
        {"learning_rate": 0.1, "eps": 0.0, "initial_accumulator_value": 3.0},
    ),
    (
        qs.AMSGrad(bias_correction=False),
        "amsgrad",
        {"learning_rate": 1e-3, "bias_correction_mu": False, "bias_correction_nu": False},
    ),
    (
        qs.AMSGrad(beta1=0.5, beta2=0.9, bias_correction=False),
        "amsgrad",
        {"learning_rate": 1e-3, "b1": 0.5, "b2": 0.9, "bias_correction_mu": False, "bias_correction_nu": False},
    ),
    (qs.AdamW(weight_decay=1e-4), "adamw", {"learning_rate": 1e-3}),
    (
        qs.AdamW(lr=3e-4, beta1=0.5, beta2=0.99, weight_decay=10.0),
        "adamw",
        {"learning_rate": 3e-4, "b1": 0.5, "b2": 0.99, "weight_decay": 10.0},
    ),
    (qs.NAdam(lr=1e-3, momentum_decay=1e6), "nadam", {"learning_rate": 1e-3}),
    (
        qs.NAdam(lr=2e-3, beta1=0.5, beta2=0.99, momentum_decay=1e6),
        "nadam",
        {"learning_rate": 2e-3, "b1": 0.5, "b2": 0.99},
    ),
    (qs.SignGD(), "sign_sgd", {"learning_rate": 1e-3}),
    (qs.SignGD(lr=3e-3), "sign_sgd", {"learning_rate": 3e-3}),
    (qs.SignGD(lr=1e-2), "sign_sgd", {"learning_rate": 1e-2}),
    (qs.Signum(), "signum", {"learning_rate": 1e-3}),
    (qs.Signum(lr=3e-3, beta=0.95), "signum", {"learning_rate": 3e-3, "beta": 0.95}),
    (qs.Signum(lr=1e-2, beta=0.5), "signum", {"learning_rate": 1e-2, "beta": 0.5}),
    (qs.Lion(), "lion", {"learning_rate": 1e-4}),
    (
        qs.Lion(lr=1e-3, beta1=0.95, beta2=0.98, weight_decay=1.0),
        "lion",
        {"learning_rate": 1e-3, "b1": 0.95, "b2": 0.98, "weight_decay": 1.0},
    ),
    (qs.Lion(lr=3e-3, weight_decay=0.0), "lion", {"learning_rate": 3e-3, "weight_decay": 0.0}),
]

WIDE, TALL = [[1, 2, 3, 40, 50, 60], [7, 8, 9, 100]], [[5, 6, 70, 80, 900, 1000]]
MUON = [
    (qs.Muon(), WIDE, {"learning_rate": 0.02}),
    (qs.Muon(), TALL, {"learning_rate": 0.02}),
    (
        qs.Muon(lr=1e-3, beta=0.9, nesterov=False, weight_decay=1.0),
        WIDE,
        {"learning_rate": 1e-3, "beta": 0.9, "nesterov": False, "weight_decay": 1.0},
    ),
    (qs.Muon(lr=1e-3, rows=3, ns_steps=3, eps=1e-3), TALL, {"learning_rate": 1e-3, "ns_steps": 3, "eps": 1e-3}),
    (qs.Muon(lr=1e-3, rows=6), TALL, {"learning_rate": 1e-3}),
]


def start(problem, optimizer):
    return problem.minimizer + (FAR if optimizer in (qs.RMSProp(), qs.Muon()) else 1) * problem.initial_error(0)


def ours(problem, optimizer):
    return qs.solve(
        problem, optimizer, w0=start(problem, optimizer), tol=0, max_steps=STEPS, record=1, engine="compiled"
    )


@pytest.fixture
def torch():
    """torch, in double precision all through: NAdam keeps its running product in the default type."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield torch
    torch.set_default_dtype(usual)


def torch_losses(torch, problem, w0, steps, name, settings):
    hessian, minimizer = torch.from_numpy(problem.hessian()), torch.from_numpy(problem.minimizer.copy())
    w = torch.from_numpy(w0.copy()).requires_grad_()
    optimizer = getattr(torch.optim, name)([w], **settings)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = 0.5 * (w - minimizer) @ hessian @ (w - minimizer)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    return losses


@pytest.mark.parametrize(("optimizer", "name", "settings"), TORCH, ids=lambda value: str(value)[:80])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_ours_equals_torch(torch, problem, optimizer, name, settings):
    run = ours(problem, optimizer)
    assert len(run.loss) == STEPS + 1 or run.status is qs.Status.DIVERGED  # SGD's default lr is too large for these
    losses = torch_losses(torch, problem, start(problem, optimizer), len(run.loss), name, settings)
    assert_allclose(run.loss, losses, rtol=1e-10)


@pytest.fixture
def optax():
    optax = pytest.importorskip("optax", reason="optax is not installed")
    import jax

    jax.config.update("jax_enable_x64", True)
    return optax


def optax_losses(optax, problem, w0, optimizer, shapes=None):
    """The losses of an optimizer that sees w as one vector, or as a matrix for each block."""
    import jax
    import jax.numpy as jnp

    hessian, minimizer = jnp.asarray(problem.hessian()), jnp.asarray(problem.minimizer)
    shapes = [w0.shape] if shapes is None else shapes
    ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]

    def parts(vector):
        return [part.reshape(shape) for part, shape in zip(jnp.split(vector, ends), shapes, strict=True)]

    def step(carry, _):
        w, state = carry
        e = jnp.concatenate([part.ravel() for part in w]) - minimizer
        update, state = optimizer.update(parts(hessian @ e), state, w)
        return (optax.apply_updates(w, update), state), 0.5 * e @ hessian @ e

    w = parts(jnp.asarray(w0))
    return jax.jit(lambda: jax.lax.scan(step, (w, optimizer.init(w)), None, length=STEPS + 1))()[1]


@pytest.mark.parametrize(("optimizer", "name", "settings"), OPTAX, ids=lambda value: str(value)[:80])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_ours_equals_optax(optax, problem, optimizer, name, settings):
    losses = optax_losses(optax, problem, start(problem, optimizer), getattr(optax, name)(**settings))
    assert_allclose(ours(problem, optimizer).loss, losses, rtol=1e-10)


@pytest.mark.parametrize(("optimizer", "spectra", "settings"), MUON, ids=lambda value: str(value)[:80])
def test_muon_equals_optax(optax, optimizer, spectra, settings):
    from optax.contrib import muon

    size = sum(map(len, spectra))
    problem = qs.BlockQuadratic.from_spectra(spectra, seed=3, minimizer=np.linspace(-1, 1, size))
    rows = optimizer.rows or 2  # the nearly square shapes of 4 and 6
    shapes = [(rows, n // rows) for n in problem.sizes]
    losses = optax_losses(optax, problem, start(problem, optimizer), muon(**settings), shapes)
    assert_allclose(ours(problem, optimizer).loss, losses, rtol=1e-10)


def test_where_torch_and_optax_differ_ours_equals_torch(torch, optax):
    """AMSGrad's maximum before or after the correction of bias; NAdam's momentum, growing or not."""
    problem = PROBLEMS[1]
    for optimizer, name in ((qs.AMSGrad(), "amsgrad"), (qs.NAdam(lr=1e-3), "nadam")):
        losses = optax_losses(optax, problem, start(problem, optimizer), getattr(optax, name)(1e-3))
        assert np.max(np.abs(ours(problem, optimizer).loss / losses - 1)) > 1e-3


def test_the_comparison_can_fail():
    """The control: another place for eps (inside the root) is further off than the tolerance."""
    problem = PROBLEMS[1]
    run, e = ours(problem, qs.Adam(eps=1e-3)), problem.initial_error(0)
    m = v = np.zeros(9)
    for t in range(1, STEPS + 1):
        g = problem.hvp(e)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        e = e - 1e-3 * m / (1 - 0.9**t) / np.sqrt(v / (1 - 0.999**t) + 1e-6)
    assert 1e-10 < abs(run.loss[-1] / (0.5 * e @ problem.hvp(e)) - 1) < 1e-2
