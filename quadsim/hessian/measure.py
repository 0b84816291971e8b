"""Measuring: the spectra of a network's blocks, one after the other, each saved as soon as it is known.

A measurement that was cut off goes on where it was, and comes out the same: what a block's probes draw depends on the
seed, the block's name and the probe alone. The same seed gives the same bits with the same number of torch's threads,
and the same numbers to rounding with another.
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

from quadsim import checks
from quadsim.checks import InputError, InputTypeError
from quadsim.hessian import memory, record
from quadsim.hessian.lanczos import Quadrature, quadrature
from quadsim.hessian.models import chosen_blocks
from quadsim.hessian.operators import CURVATURES, Loss, Outputs, operator, value
from quadsim.spectra import files
from quadsim.spectra.files import Measured
from quadsim.streams import stream

MOST_STEPS, MOST_PROBES = 2000, 1000
NOISE = 0.01  # products whose asymmetry is above this are rounding; real ones in float32 have 1e-8 to 1e-6


@dataclass(frozen=True)
class Stage:
    """Where a measurement stands, for whoever shows it."""

    block: str
    probe: int
    probes: int
    step: int
    steps: int
    done: float  # the share of all products that is done
    seconds_left: float | None


def measure(
    module: nn.Module,
    outputs: Outputs,
    loss: Loss,
    *,
    blocks: Sequence[str] | None = None,
    steps: int = 60,
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
        The network's outputs, and the loss as a function of them: what is measured is ``loss(outputs())``.
    blocks : list of str, optional
        Parameters by name, a closing ".weight" left out; ``*`` stands for anything. By default every weight.
    steps, probes, seed :
        Lanczos steps for each probe; probes for each block; what the probes are drawn from.
    curvature : "hessian" or "gauss-newton"
    out : path, optional
        An .npz file, written after every probe. One that is there is continued if it was made with the same settings,
        and a finished one is left alone unless `overwrite` is set.
    settings : mapping, optional
        What else fixes the numbers (network, data): kept in the provenance, and compared before continuing.
    command : str, optional
        The command line that makes it again, for the provenance.
    state, progress : callable, optional
        Told one sentence for people now and then; told where the measurement stands after every product.
    """
    say = state or (lambda sentence: None)
    steps = checks.whole("steps", steps, at_least=2, at_most=MOST_STEPS)
    probes = checks.whole("probes", probes, at_least=1, at_most=MOST_PROBES)
    seed = checks.whole("seed", seed, at_least=0)
    checks.choice("curvature", curvature, CURVATURES)
    if not isinstance(module, nn.Module):
        raise InputTypeError(f"module must be a torch.nn.Module, got {checks.shown(module)}")
    for part, what in (("outputs", outputs), ("loss", loss)):
        if not callable(what):
            raise InputTypeError(f"{part} must be a function, got {checks.shown(what)}")
    names = chosen_blocks(module, blocks)
    path = None if out is None else record.check_out(out)
    fixed = {
        **record.plain(settings or {}),
        "curvature": curvature,
        "steps": steps,
        "probes": probes,
        "seed": seed,
        "dtype": str(dict(module.named_parameters())[next(iter(names.values()))].dtype).removeprefix("torch."),
        "versions": {"quadsim": version("quadsim"), "torch": torch.__version__, "numpy": np.__version__},
    }
    with record.alone(path):
        measured = record.begin(path, overwrite, name or type(module).__name__, fixed, names, command)
        left = {
            block: parameter
            for block, parameter in names.items()
            if block not in measured.blocks or measured.blocks[block].probes < probes
        }
        memory.check(module, outputs, loss, curvature, left, steps, say)
        measured = record.at_loss(measured, value(module, outputs, loss, seed=seed), path)
        clock = _Clock([len(left) * probes, steps], progress)
        for block, parameter in left.items():
            with operator(module, parameter, outputs, loss, curvature=curvature, seed=seed) as product:
                size = module.get_parameter(parameter).numel()
                have = measured.blocks[block].probes if block in measured.blocks else 0
                clock.skip(have)
                for probe in range(have, probes):
                    started = time.perf_counter()
                    clock.begin(block, probe, probes)
                    start = stream(seed, "probe", block, probe).standard_normal(size)
                    rule = quadrature(product, start, steps, module.get_parameter(parameter).dtype, clock.tick)
                    _check_rule(block, rule, curvature, path)
                    seconds = time.perf_counter() - started
                    measured = record.added(measured, block, size, rule, seconds, names)
                    if path is not None:
                        files.write(path, measured)
                    say(
                        f"{block}, probe {probe + 1} of {probes}: eigenvalues {rule.nodes[0]:.4g} to "
                        f"{rule.nodes[-1]:.4g}, {seconds:.0f} s{clock.left()}"
                    )
    return measured


def _check_rule(block: str, rule: Quadrature, curvature: str, path: Path | None) -> None:
    """Refuse what is not a spectrum."""
    if not np.isfinite(rule.nodes).all():
        raise InputError(f"block {block}: a product with its {curvature} is not finite{_kept(path)}")
    if abs(rule.nodes).max() == 0:
        raise InputError(f"block {block}: its {curvature} is zero: leave it out of blocks={_kept(path)}")
    if rule.asymmetry > NOISE:
        raise InputError(
            f"block {block}: its {curvature} is zero but for rounding (products differ from their mirror images by "
            f"{rule.asymmetry:.0%}): leave it out of blocks={_kept(path)}"
        )


def _kept(path: Path | None) -> str:
    return "" if path is None or not path.exists() else f"; what was measured before is kept in {path}"


class _Clock:
    """Counts products and tells the time left."""

    def __init__(self, shape: Sequence[int], progress: Callable[[Stage], None] | None) -> None:
        self.total, self.steps = shape[0] * shape[1], shape[1]
        self.progress = progress
        self.done = self.counted = 0
        self.started = time.perf_counter()
        self.where = ("", 0, 1)

    def skip(self, probes: int) -> None:
        """These were measured before."""
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
