"""Adam against the ecosystem's own, wherever it is installed: `pip install torch==2.13.0 optax`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import quadsim as qs

SETTINGS = [
    {},
    {"lr": 1e-2, "beta1": 0.5, "beta2": 0.99},
    {"beta1": 0.0, "eps": 1e-3},
    {"lr": 3e-3, "beta1": 0.95, "beta2": 0.95, "eps": 1e-6},
]
STEPS = 500
PROBLEMS = [qs.case(3, seed=1, minimizer=np.arange(9.0)), qs.case(4, seed=2)]


def ours(problem, settings):
    return qs.solve(
        problem, qs.Adam(**settings), w0=problem.minimizer + problem.start(0), tol=0, max_steps=STEPS, record=1
    )


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_adam_is_torch_s(problem, settings):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    made = qs.Adam(**settings)
    hessian, minimizer = torch.from_numpy(problem.hessian()), torch.from_numpy(problem.minimizer.copy())
    w = torch.from_numpy(problem.minimizer + problem.start(0)).requires_grad_()
    optimizer = torch.optim.Adam([w], lr=made.lr, betas=(made.beta1, made.beta2), eps=made.eps)
    losses = []
    for _ in range(STEPS + 1):
        optimizer.zero_grad()
        loss = 0.5 * (w - minimizer) @ hessian @ (w - minimizer)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    assert_allclose(ours(problem, settings).loss, losses, rtol=1e-10)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_adam_is_optax_s(problem, settings):
    pytest.importorskip("optax", reason="optax is not installed")
    import jax
    import optax

    jax.config.update("jax_enable_x64", True)
    made = qs.Adam(**settings)
    hessian, e = jax.numpy.asarray(problem.hessian()), jax.numpy.asarray(problem.start(0))
    optimizer = optax.adam(made.lr, b1=made.beta1, b2=made.beta2, eps=made.eps)
    state, losses = optimizer.init(e), []
    update = jax.jit(optimizer.update)
    for _ in range(STEPS + 1):
        losses.append(float(0.5 * e @ hessian @ e))
        step, state = update(hessian @ e, state, e)
        e = optax.apply_updates(e, step)
    assert_allclose(ours(problem, settings).loss, losses, rtol=1e-10)


def test_the_comparison_can_fail():
    """The control: another place for eps (inside the root) is further off than the tolerance."""
    problem = PROBLEMS[1]
    run, e = ours(problem, {"eps": 1e-3}), problem.start(0)
    m = v = np.zeros(9)
    for t in range(1, STEPS + 1):
        g = problem.curvature(e)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        e = e - 1e-3 * m / (1 - 0.9**t) / np.sqrt(v / (1 - 0.999**t) + 1e-6)
    assert abs(run.loss[-1] / problem.loss(e) - 1) > 1e-10
