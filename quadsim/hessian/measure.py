"""Measure the spectra of a network's blocks, one after the other, and save after every probe.

An interrupted measurement can be continued, with the same result: a probe depends on the seed, the block's name and the
probe's number alone. The same seed gives the same bits with the same number of torch threads, and the same numbers to
rounding with another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from quadsim import _validation as checks
from quadsim._random import stream
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
    progress: Callable[[Stage], None] | None = None,
) -> Measured:
    """Spectra of the blocks of any network, under any loss.

    >>> measured = measure(net, lambda: net(x), lambda z: cross_entropy(z, y), blocks=["fc1", "fc2"], out="mine.npz")

    Parameters
    ----------
    outputs, loss :
        The network's outputs, and the loss as a function of them: the loss measured is ``loss(outputs())``.
    blocks : list of str, optional
        Parameters by name, without a trailing ".weight"; ``*`` is a wildcard. By default every weight.
    lanczos_steps, probes, seed :
        Lanczos steps for each probe; probes for each block; the seed of the probes' random stream.
    curvature : "hessian" or "gauss-newton"
    out : path, optional
        An .npz file, written after every probe. An existing one is continued if its settings are equal; a finished one
        is not changed unless `overwrite` is set.
    settings : mapping, optional
        Other settings that determine the result (network, data): stored in the provenance, and compared before
        continuing.
    command : str, optional
        The command line that repeats it, for the provenance.
    state, progress : callable, optional
        `state` is called with status messages, `progress` with a `Stage` after every product.
    """
    say = state or (lambda sentence: None)
    lanczos_steps = checks.whole("lanczos_steps", lanczos_steps, at_least=2, at_most=MAX_LANCZOS_STEPS)
    probes = checks.whole("probes", probes, at_least=1, at_most=MAX_PROBES)
    seed = checks.whole("seed", seed, at_least=0)
    checks.choice("curvature", curvature, CURVATURES)
    if not isinstance(module, nn.Module):
        raise InputTypeError(f"module must be a torch.nn.Module, got {checks.shown(module)}")
    for part, what in (("outputs", outputs), ("loss", loss)):
        if not callable(what):
            raise InputTypeError(f"{part} must be a function, got {checks.shown(what)}")
    names = select_blocks(module, blocks)
    path = None if out is None else checkpoint.check_out(out)
    fixed = {
        **checkpoint.plain(settings or {}),
        "curvature": curvature,
        "lanczos_steps": lanczos_steps,
        "probes": probes,
        "seed": seed,
        "dtype": str(dict(module.named_parameters())[next(iter(names.values()))].dtype).removeprefix("torch."),
        "versions": {"quadsim": version("quadsim"), "torch": torch.__version__, "numpy": np.__version__},
    }
    with checkpoint.locked(path):
        measured = checkpoint.begin(path, overwrite, name or type(module).__name__, fixed, names, command)
        left = {
            block: parameter
            for block, parameter in names.items()
            if block not in measured.blocks or measured.blocks[block].probes < probes
        }
        memory.check(module, outputs, loss, curvature, left, lanczos_steps, say)
        measured = checkpoint.with_loss(measured, value(module, outputs, loss, seed=seed), path)
        clock = _Clock([len(left) * probes, lanczos_steps], progress)
        for block, parameter in left.items():
            with operator(module, parameter, outputs, loss, curvature=curvature, seed=seed) as product:
                size = module.get_parameter(parameter).numel()
                have = measured.blocks[block].probes if block in measured.blocks else 0
                clock.skip(have)
                for probe in range(have, probes):
                    started = time.perf_counter()
                    clock.begin(block, probe, probes)
                    start = stream(seed, "probe", block, probe).standard_normal(size)
                    rule = quadrature(product, start, lanczos_steps, module.get_parameter(parameter).dtype, clock.tick)
                    _check_rule(block, rule, curvature, path)
                    seconds = time.perf_counter() - started
                    measured = checkpoint.with_probe(measured, block, size, rule, seconds, names)
                    if path is not None:
                        files.write(path, measured)
                    say(
                        f"{block}, probe {probe + 1} of {probes}: eigenvalues {rule.nodes[0]:.4g} to "
                        f"{rule.nodes[-1]:.4g}, {seconds:.0f} s{clock.left()}"
                    )
    return measured


def _check_rule(block: str, rule: Quadrature, curvature: str, path: Path | None) -> None:
    """Raise if the rule is not that of a spectrum."""
    if not np.isfinite(rule.nodes).all():
        raise InputError(f"block {block}: a product with its {curvature} is not finite{_saved_in(path)}")
    if abs(rule.nodes).max() == 0:
        raise InputError(f"block {block}: its {curvature} is zero: leave it out of blocks={_saved_in(path)}")
    if rule.asymmetry > MAX_ASYMMETRY:
        raise InputError(
            f"block {block}: its {curvature} is zero up to rounding (its products are asymmetric by "
            f"{rule.asymmetry:.0%}): leave it out of blocks={_saved_in(path)}"
        )


def _saved_in(path: Path | None) -> str:
    return "" if path is None or not path.exists() else f"; earlier results are in {path}"


class _Clock:
    """Counts products and estimates the time left."""

    def __init__(self, shape: Sequence[int], progress: Callable[[Stage], None] | None) -> None:
        self.total, self.steps = shape[0] * shape[1], shape[1]
        self.progress = progress
        self.done = self.counted = 0
        self.started = time.perf_counter()
        self.where = ("", 0, 1)

    def skip(self, probes: int) -> None:
        """Count probes that were measured before."""
        self.done += probes * self.steps

    def begin(self, block: str, probe: int, probes: int) -> None:
        self.done = -(-self.done // self.steps) * self.steps  # a probe that ended early counts in full
        self.where = (block, probe, probes)

    def tick(self, step: int) -> None:
        self.done += 1
        self.counted += 1
        if self.progress is not None:
            block, probe, probes = self.where
            share, left = self.done / self.total, self.seconds_left()
            self.progress(Stage(block, probe, probes, step, self.steps, share, left))

    def seconds_left(self) -> float | None:
        if self.counted < 3:
            return None
        return (time.perf_counter() - self.started) / self.counted * (self.total - self.done)

    def left(self) -> str:
        left = self.seconds_left()
        if left is None or self.done >= self.total:
            return ""
        return f"; about {left:.0f} s left" if left < 100 else f"; about {left / 60:.0f} min left"
