"""A block's curvature as an operator: the Hessian or the Gauss–Newton matrix of a loss in one parameter alone.

The graph of the first derivative is built once and kept; every product is then one backward pass through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from quadsim import _validation as checks
from quadsim._validation import InputError, InputTypeError

Outputs = Callable[[], Tensor]
Loss = Callable[[Tensor], Tensor]
Product = Callable[[Tensor], Tensor]


@contextmanager
def operator(
    module: nn.Module, name: str, outputs: Outputs, loss: Loss, *, curvature: str = "hessian", seed: int = 0
) -> Iterator[Product]:
    """The product v ↦ Cv on flat vectors, C the curvature of ``loss(outputs())`` in one parameter.

    It is a context manager. Inside the block only this parameter requires a gradient; afterwards the module is
    restored, buffers included.

    Parameters
    ----------
    module : torch Module
    name : str
        The parameter is `name` or `name.weight`.
    outputs : function
        The network's outputs.
    loss : function
        The loss of the outputs.
    curvature : "hessian" or "gauss-newton"
    seed : int
        Fixes the randomness of the forward pass (dropout).

    Yields
    ------
    function
        From a flat tensor to its product.

    Examples
    --------
    >>> import torch
    >>> from quadsim import hessian
    >>> net, x = torch.nn.Linear(2, 1, bias=False).double(), torch.eye(2, dtype=torch.float64)
    >>> with hessian.operator(net, "weight", lambda: net(x), lambda z: (z**2).sum()) as product:
    ...     product(torch.ones(2, dtype=torch.float64)).tolist()
    [2.0, 2.0]
    """
    build = CURVATURES[checks.choice("curvature", curvature, CURVATURES)]
    parameters = dict(module.named_parameters())
    parameter = parameters.get(name, parameters.get(f"{name}.weight"))
    if parameter is None:
        raise InputError(f"unknown block {name!r}: the module has {checks.shown(list(parameters))}")
    with restored(module):
        for other in module.parameters():
            other.requires_grad_(other is parameter)
        # Fused attention kernels have no second derivative; torch's MATH backend has.
        with torch.random.fork_rng(devices=[]), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            torch.manual_seed(seed)
            product = build(parameter, outputs, loss)
        yield product


def value(module: nn.Module, outputs: Outputs, loss: Loss, *, seed: int = 0) -> float:
    """The value of the loss; the module is restored."""
    with restored(module), torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        result = loss(outputs())
    if not isinstance(result, Tensor) or result.numel() != 1 or result.is_complex():
        raise InputTypeError(f"the loss must be a tensor of one real number, got {checks.shown(result)}")
    return float(result)


@contextmanager
def restored(module: nn.Module) -> Iterator[None]:
    """Restore requires_grad of parameters and the contents of buffers on exit."""
    flags = {parameter: parameter.requires_grad for parameter in module.parameters()}
    contents = {buffer: buffer.clone() for buffer in module.buffers()}  # BatchNorm updates its statistics in training
    try:
        yield
    finally:
        for parameter, flag in flags.items():
            parameter.requires_grad_(flag)
        with torch.no_grad():
            for buffer, content in contents.items():
                buffer.copy_(content)


def _hessian(parameter: nn.Parameter, outputs: Outputs, loss: Loss) -> Product:
    gradient = _derivative(loss(outputs()), parameter)

    def product(v: Tensor) -> Tensor:
        if gradient is None or not gradient.requires_grad:  # the loss is linear in the block, or does not depend on it
            return torch.zeros_like(v)
        (hv,) = torch.autograd.grad(gradient, parameter, v.view_as(parameter), retain_graph=True, allow_unused=True)
        return torch.zeros_like(v) if hv is None else hv.reshape(-1)

    return product


def _gauss_newton(parameter: nn.Parameter, outputs: Outputs, loss: Loss) -> Product:
    """JᵀQJ, J the derivative of the outputs and Q the Hessian of the loss in the outputs."""
    z = outputs()
    if not isinstance(z, Tensor):
        raise InputTypeError(f"outputs must give one tensor for gauss-newton, got {checks.shown(type(z))}")
    leaf = z.detach().requires_grad_()
    slope = _derivative(loss(leaf), leaf)
    dual = torch.zeros_like(z, requires_grad=True)
    # Jᵀu is linear in u, so its derivative in u, applied to v, is Jv: forward mode by two backward passes.
    pulled = _derivative(z, parameter, dual)

    def product(v: Tensor) -> Tensor:
        if slope is None or not slope.requires_grad or pulled is None:
            return torch.zeros_like(v)
        (jv,) = torch.autograd.grad(pulled, dual, v.view_as(parameter), retain_graph=True)
        (qjv,) = torch.autograd.grad(slope, leaf, jv, retain_graph=True)
        (back,) = torch.autograd.grad(z, parameter, qjv, retain_graph=True)
        return back.reshape(-1)

    return product


def _derivative(value: Tensor, variable: Tensor, weight: Tensor | None = None) -> Tensor | None:
    """The derivative with its graph; None if the value does not depend on the variable."""
    if not value.requires_grad:
        return None
    return torch.autograd.grad(value, variable, weight, create_graph=True, allow_unused=True)[0]


CURVATURES: dict[str, Callable[[nn.Parameter, Outputs, Loss], Product]] = {
    "hessian": _hessian,
    "gauss-newton": _gauss_newton,
}


def dense(product: Product, size: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """The dense matrix of a product, column by column, for blocks of up to a few thousand parameters.

    Parameters
    ----------
    product : function
        From a flat tensor to its product, as `operator` gives it.
    size : int
    dtype : torch dtype

    Returns
    -------
    (size, size) tensor

    Examples
    --------
    >>> import torch
    >>> from quadsim import hessian
    >>> hessian.dense(lambda v: 2 * v, 2).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    matrix = torch.stack([product(column) for column in torch.eye(size, dtype=dtype)])
    return (matrix + matrix.T) / 2
