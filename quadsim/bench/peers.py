"""Other libraries (peers): which are installed, and the loops of torch.optim and of optax.

torch and jax are imported only inside the functions that run them (and in `hessian`).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from quadsim.bench.loops import NUMPY, Contestant, Run, Task, gradient_into
from quadsim.optimizers import GD

PACKAGES = {"numpy": ("numpy",), "torch": ("torch",), "optax": ("optax", "jax", "jaxlib")}
INSTALL = "pip install 'quadsim[peers]'"


def installed() -> list[str]:
    """The peers whose packages are installed."""
    return [name for name, packages in PACKAGES.items() if all(map(importlib.util.find_spec, packages))]


def versions(names: list[str]) -> dict[str, str]:
    return {package: importlib.metadata.version(package) for name in names for package in PACKAGES[name]}


def torch_variants(task: Task) -> list[str]:
    """Forms of the product, with torch's default and fused optimizers (foreach never wins with one tensor)."""
    return [f"{form}, {how}" for form in (*task.forms, "block by block") for how in ("default", "fused")]


def torch_run(task: Task, variant: str, steps: int) -> Run:
    """torch.optim's SGD and Adam on one parameter, whose gradient is computed without autograd."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(task.threads)
    form, how = variant.split(", ")
    optimizer, kind = task.optimizer, torch.optim.SGD
    settings: dict[str, Any] = {"lr": optimizer.lr, "fused": True if how == "fused" else None}
    if not isinstance(optimizer, GD):
        kind = torch.optim.Adam
        settings |= {"betas": (optimizer.beta1, optimizer.beta2), "eps": optimizer.eps}
    hessian = torch.from_numpy(task.problem.hessian() if form == "dense" else task.blocks)

    def run() -> np.ndarray:
        w = torch.nn.Parameter(torch.from_numpy(task.starts.copy()))
        w.grad = torch.zeros_like(w)
        stepper = kind([w], **settings)
        with torch.no_grad():
            single = torch.mv if task.lanes == 1 else torch.mm
            gradient = gradient_into(w.grad, hessian, w, form, stacked=torch.bmm, single=single)
            for _ in range(steps):
                gradient()
                stepper.step()
        return w.detach().numpy()

    return run


def optax_run(task: Task, variant: str, steps: int) -> Run:
    """optax's sgd and adam in a `scan` under `jit`, compiled in advance.

    Lanes are a `vmap` over runs, or, in the variant "columns", the columns of one matrix.
    """
    jax, optax = importlib.import_module("jax"), importlib.import_module("optax")
    jax.config.update("jax_enable_x64", True)
    optimizer = task.optimizer
    if isinstance(optimizer, GD):
        rule = optax.sgd(optimizer.lr)
    else:
        rule = optax.adam(optimizer.lr, b1=optimizer.beta1, b2=optimizer.beta2, eps=optimizer.eps)
    form, lanes_as = variant.split(", ")
    product = {"stacked": "bij,bj...->bi...", "dense": "ij,j...->i..."}[form]
    hessian = jax.numpy.asarray(task.problem.hessian() if form == "dense" else task.blocks)
    shape = (task.problem.dim,) if form == "dense" else task.starts.shape[:2]
    start = task.starts.reshape(*shape, task.lanes)

    def run_one(hessian: Any, w: Any) -> Any:
        def step(carried: Any, _: None) -> Any:
            w, state = carried
            update, state = rule.update(jax.numpy.einsum(product, hessian, w), state, w)
            return (optax.apply_updates(w, update), state), None

        return jax.lax.scan(step, (w, rule.init(w)), None, length=steps)[0][0]

    if lanes_as == "vmap":
        whole, start = jax.vmap(run_one, in_axes=(None, 0)), np.moveaxis(start, -1, 0)
    else:
        whole, start = run_one, start[..., 0] if lanes_as == "one" else start
    start = jax.numpy.asarray(np.ascontiguousarray(start))
    compiled = jax.jit(whole).lower(hessian, start).compile()

    def run() -> np.ndarray:
        w = np.asarray(compiled(hessian, start))  # waits for the result
        w = np.moveaxis(w, 0, -1) if lanes_as == "vmap" else w
        return w.reshape(task.starts.shape)

    return run


def _optax_variants(lanes_as: str) -> Callable[[Task], list[str]]:
    several = lanes_as != "one"
    return lambda task: [f"{form}, {lanes_as}" for form in task.forms if (task.lanes > 1) == several]


CONTESTANTS: dict[str, tuple[Contestant, ...]] = {
    "numpy": (NUMPY,),
    "torch": (Contestant("torch.optim", torch_variants, torch_run, 5e-5),),
    "optax": (
        Contestant("optax", _optax_variants("one"), optax_run, 2e-7),
        Contestant("optax vmap", _optax_variants("vmap"), optax_run, 5e-6),
        Contestant("optax columns", _optax_variants("columns"), optax_run, 5e-6),
    ),
}
