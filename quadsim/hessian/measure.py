"""Measure the spectra of a network's blocks, one after the other, and save after every probe.

An interrupted measurement can be continued with the same result: a probe depends only on the seed, the block's name and
the probe's number. The same seed gives the same bits with the same number of torch threads, and the same numbers up to
rounding with another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from quadsim import _progress
from quadsim import _validation as checks
from quadsim._random import checked_seed, stream
from quadsim._validation import InputError, InputTypeError
from quadsim.hessian import checkpoint, memory
from quadsim.hessian.lanczos import Quadrature, quadrature
from quadsim.hessian.models import select_blocks
from quadsim.hessian.operators import CURVATURES, Loss, Outputs, operator, value
from quadsim.spectra import files
from quadsim.spectra.files import Measured

MAX_LANCZOS_STEPS, MAX_PROBES = 2000, 1000
MAX_ASYMMETRY = 0.01  # larger: the products are rounding noise; in float32 it is usually 1e-8 to 1e-6


@dataclass(frozen=True)
class Stage:
    """The progress of a measurement."""

    block: str
    probe: int
    probes: int
    step: int
    steps: int
    done: float  # fraction of all products
    seconds_left: float | None


def measure(
    module: nn.Module,
    outputs: Outputs,
    loss: Loss,
    *,
    blocks: Sequence[str] | None = None,
    lanczos_steps: int = 60,
    probes: int = 2,
    seed: int = 0,
    curvature: str = "hessian",
    out: str | Path | None = None,
    overwrite: bool = False,
    name: str | None = None,
    settings: Mapping[str, Any] | None = None,
    command: str | None = None,
    state: Callable[[str], None] | None = None,
    progress: Callable[[Stage], None] | bool | None = None,
) -> Measured:
    """Spectra of the blocks of any network, under any loss.

    Parameters
    ----------
    module : torch Module
    outputs, loss : function
        The network's outputs, and the loss as a function of them: the loss measured is ``loss(outputs())``.
    blocks : list of str, optional
        Parameters by name, without a trailing ".weight"; ``*`` is a wildcard. By default every weight.
    lanczos_steps, probes, seed : int
        Lanczos steps for each probe; probes for each block; the seed of the probes' random stream.
    curvature : "hessian" or "gauss-newton"
    out : path, optional
        An .npz file, written after every probe. An existing file is continued if its settings are equal; a finished
        file is not changed unless `overwrite` is set.
    overwrite : bool
    name : str, optional
        Of the network; by default its class.
    settings : mapping, optional
        Other settings that determine the result (network, data): stored in the provenance, and compared before
        continuing.
    command : str, optional
        The command line that repeats the measurement, for the provenance.
    state : callable, optional
        Called with status messages.
    progress : bool or callable, optional
        By default progress is shown on standard error; False shows nothing. A function is called with a `Stage` after
        every product.

    Returns
    -------
    Measured

    Examples
    --------
    >>> import torch
    >>> from quadsim import hessian
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).double()
    >>> x, y = torch.randn(16, 4, dtype=torch.float64), torch.randint(3, (16,))
    >>> loss = torch.nn.functional.cross_entropy
    >>> measured = hessian.measure(net, lambda: net(x), lambda z: loss(z, y), lanczos_steps=8, out="mine.npz")
    >>> list(measured.blocks), measured.finished
    (['0', '2'], True)
    >>> qs.case(1, network="mine.npz", blocks=["0", "2"], block_size=4, map="unshifted").sizes
    (4, 4)
    """
    log = state or (lambda message: None)
    lanczos_steps = checks.whole("lanczos_steps", lanczos_steps, at_least=2, at_most=MAX_LANCZOS_STEPS)
    probes = checks.whole("probes", probes, at_least=1, at_most=MAX_PROBES)
    seed = checked_seed(seed)
    checks.choice("curvature", curvature, CURVATURES)
    if not isinstance(module, nn.Module):
        raise InputTypeError(f"module must be a torch.nn.Module, got {checks.shown(module)}")
    for argument, function in (("outputs", outputs), ("loss", loss)):
        if not callable(function):
            raise InputTypeError(f"{argument} must be a function, got {checks.shown(function)}")
    names = select_blocks(module, blocks)
    path = None if out is None else checkpoint.check_out(out)
    fixed = {
        **checkpoint.plain(settings or {}),
        "curvature": curvature,
        "lanczos_steps": lanczos_steps,
        "probes": probes,
        "seed": seed,
        "dtype": str(module.get_parameter(next(iter(names.values()))).dtype).removeprefix("torch."),
        "versions": {"quadsim": version("quadsim"), "torch": torch.__version__, "numpy": np.__version__},
    }
    task = _progress.of_call(progress, "measure", 1.0, takes="one Stage")
    with task, checkpoint.locked(path):
        measured = checkpoint.begin(path, overwrite, name or type(module).__name__, fixed, names, command)
        left = {block: name for block, name in names.items() if checkpoint.probes_of(measured, block) < probes}
        memory.check(module, outputs, loss, curvature, left, lanczos_steps, log)
        measured = checkpoint.with_loss(measured, value(module, outputs, loss, seed=seed), path)
        clock = _Clock(len(left), probes, lanczos_steps, progress if callable(progress) else partial(_show, task))
        for index, (block, parameter_name) in enumerate(left.items()):
            parameter = module.get_parameter(parameter_name)
            with operator(module, parameter_name, outputs, loss, curvature=curvature, seed=seed) as product:
                for probe in range(checkpoint.probes_of(measured, block), probes):
                    started = time.perf_counter()
                    clock.begin(index, block, probe)
                    start = stream(seed, "probe", block, probe).standard_normal(parameter.numel())
                    rule = quadrature(product, start, lanczos_steps, parameter.dtype, clock.tick)
                    _check_rule(block, rule, curvature, path)
                    seconds = time.perf_counter() - started
                    measured = checkpoint.with_probe(measured, block, parameter.numel(), rule, seconds, names)
                    if path is not None:
                        files.write(path, measured)
                    log(
                        f"{block}, probe {probe + 1} of {probes}: eigenvalues {rule.nodes[0]:.4g} to "
                        f"{rule.nodes[-1]:.4g}, {seconds:.0f} s{clock.left()}"
                    )
    return measured


def _check_rule(block: str, rule: Quadrature, curvature: str, path: Path | None) -> None:
    """Raise if the rule is not that of a spectrum."""
    if not np.isfinite(rule.nodes).all():
        problem = f"a product with its {curvature} is not finite"
    elif abs(rule.nodes).max() == 0:
        problem = f"its {curvature} is zero: leave it out of blocks="
    elif rule.asymmetry > MAX_ASYMMETRY:
        asymmetry = f"its products are asymmetric by {rule.asymmetry:.0%}"
        problem = f"its {curvature} is zero up to rounding ({asymmetry}): leave it out of blocks="
    else:
        return
    saved = f"; earlier results are in {path}" if path is not None and path.exists() else ""
    raise InputError(f"block {block}: {problem}{saved}")


def _show(task: _progress.Task, stage: Stage) -> None:
    """Show a stage where the caller gave no function for it."""
    task.advance(stage.done, f"{stage.block}, probe {stage.probe + 1} of {stage.probes}")
    task.seconds_left = lambda: stage.seconds_left


class _Clock:
    """Counts products and estimates the time left."""

    def __init__(self, blocks: int, probes: int, steps: int, progress: Callable[[Stage], None] | None) -> None:
        self.probes, self.steps, self.total = probes, steps, blocks * probes * steps
        self.progress = progress
        self.done = self.counted = 0  # `done` includes probes measured before, and counts each probe in full
        self.started = time.perf_counter()

    def begin(self, index: int, block: str, probe: int) -> None:
        self.block, self.probe = block, probe
        self.before = (index * self.probes + probe) * self.steps

    def tick(self, step: int) -> None:
        self.done = self.before + step
        self.counted += 1
        if self.progress is not None:
            share, left = self.done / self.total, self.seconds_left()
            self.progress(Stage(self.block, self.probe, self.probes, step, self.steps, share, left))

    def seconds_left(self) -> float | None:
        if self.counted < 3:
            return None
        return (time.perf_counter() - self.started) / self.counted * (self.total - self.done)

    def left(self) -> str:
        left = self.seconds_left()
        if left is None or self.done >= self.total:
            return ""
        return f"; about {left:.0f} s left" if left < 100 else f"; about {left / 60:.0f} min left"
