"""Measuring: the spectra of a network's blocks, one after the other, each saved as soon as it is known.

A measurement that was cut off goes on where it was, and comes out the same: what a block's probes draw depends on the
seed, the block's name and the probe alone. The same seed gives the same bits with the same number of torch's threads,
and the same numbers to rounding with another.
"""

from __future__ import annotations

import datetime
import fnmatch
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from quadsim import checks
from quadsim.checks import InputError, InputTypeError
from quadsim.hessian import memory
from quadsim.hessian.lanczos import Quadrature, quadrature
from quadsim.hessian.models import parameter_names
from quadsim.hessian.operators import CURVATURES, Loss, Outputs, operator, value
from quadsim.spectra import files
from quadsim.spectra.files import Measured, MeasuredBlock
from quadsim.streams import stream

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

MOST_STEPS, MOST_PROBES = 2000, 1000
NOISE = 0.01  # products whose asymmetry is above this are rounding; real ones in float32 have 1e-8 to 1e-6
SLACK = 1.5  # what a process holds over what its tensors do: workspaces of the operations, and the allocator's own


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
    path = None if out is None else check_out(out)
    fixed = {
        **_plain(settings or {}),
        "curvature": curvature,
        "steps": steps,
        "probes": probes,
        "seed": seed,
        "dtype": str(dict(module.named_parameters())[next(iter(names.values()))].dtype).removeprefix("torch."),
        "versions": {"quadsim": version("quadsim"), "torch": torch.__version__, "numpy": np.__version__},
    }
    with _alone(path):
        measured = _begin(path, overwrite, name or type(module).__name__, fixed, names, command)
        left = {
            block: parameter
            for block, parameter in names.items()
            if block not in measured.blocks or measured.blocks[block].probes < probes
        }
        check_memory(module, outputs, loss, curvature, left, steps, say)
        measured = _at_loss(measured, value(module, outputs, loss, seed=seed), path)
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
                    measured = _added(measured, block, size, rule, seconds, names)
                    if path is not None:
                        files.write(path, measured)
                    say(
                        f"{block}, probe {probe + 1} of {probes}: eigenvalues {rule.nodes[0]:.4g} to "
                        f"{rule.nodes[-1]:.4g}, {seconds:.0f} s{clock.left()}"
                    )
    return measured


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as they will be read back from a file."""
    try:
        return json.loads(json.dumps(dict(settings), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"settings must be plain numbers, texts and lists of them: {error}") from None


@contextmanager
def _alone(path: Path | None) -> Iterator[None]:
    """Nobody else measures into the same file meanwhile; where the system has no locks, this is not looked after."""
    if path is None or fcntl is None:
        yield
        return
    beside = path.with_name(f".{path.name}.lock")
    with open(beside, "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another process is measuring into {path}: wait for it, or choose another out=") from None
        try:
            yield
        finally:
            beside.unlink(missing_ok=True)


def _at_loss(measured: Measured, loss: float, path: Path | None) -> Measured:
    """The measurement with its loss; one that was begun elsewhere is not continued here."""
    if not math.isfinite(loss):
        raise InputError(f"the loss is {loss}: nothing can be measured there")
    told = float(f"{loss:.6g}")
    before = measured.provenance.get("loss", told)
    if abs(told - before) > 1e-4 * max(abs(told), abs(before)):
        raise InputError(f"{path} was measured at a loss of {before:g}, and here it is {told:g}: choose another out=")
    return replace(measured, provenance={**measured.provenance, "loss": before})


def chosen_blocks(module: nn.Module, blocks: Sequence[str] | None) -> dict[str, str]:
    """The blocks asked for, by name, and the parameters they are."""
    there = parameter_names(module)
    if isinstance(blocks, str):
        raise InputTypeError(f"blocks must be a list of names, got {checks.shown(blocks)}")
    if blocks is None:
        blocks = [block for block, name in there.items() if name.endswith("weight")] or list(there)
    chosen: dict[str, str] = {}
    for pattern in blocks:
        wanted = pattern.removesuffix(".weight") if isinstance(pattern, str) else pattern
        if not isinstance(wanted, str):
            raise InputTypeError(f"blocks must be names, got {checks.shown(pattern)}")
        found = [wanted] if wanted in there else fnmatch.filter(there, wanted)
        if not found:
            try:
                checks.choice("block", pattern, there)
            except InputError as error:
                raise InputError(_shortened(str(error), 700)) from None
        chosen |= {block: there[block] for block in found}
    if not chosen:
        raise InputError("blocks must name at least one block")
    for block, name in chosen.items():
        parameter = module.get_parameter(name)
        if isinstance(parameter, UninitializedParameter) or parameter.numel() == 0:
            raise InputError(f"block {block} holds no numbers")
        if parameter.dtype not in (torch.float32, torch.float64) or parameter.layout != torch.strided:
            raise InputError(f"block {block} must be float32 or float64 and dense, got {parameter.dtype}")
    return chosen


def _shortened(sentence: str, most: int) -> str:
    """The sentence without its middle, if it is long: a network may have hundreds of blocks."""
    return sentence if len(sentence) <= most else f"{sentence[: most - 100]} … {sentence[-90:]}"


def check_out(out: str | Path) -> Path:
    """The path, if a measurement can be written there."""
    if not isinstance(out, str | Path) or "\0" in str(out):
        raise InputTypeError(f"out must be the path of an .npz file, got {checks.shown(out)}")
    path = Path(out)
    if path.suffix.lower() != ".npz":
        raise InputError(f"out must end in .npz, got {path}")
    if path.is_dir():
        raise InputError(f"out={path} is a folder")
    if not path.parent.is_dir():
        raise InputError(f"out={path}: there is no folder {path.parent}")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"out={path} cannot be written ({error.strerror})") from None
    return path.resolve() if path.is_symlink() else path


def _begin(
    path: Path | None, overwrite: bool, name: str, fixed: dict[str, Any], names: dict[str, str], command: str | None
) -> Measured:
    """A measurement to go on with: an empty one, or the one in the file if it is the same and unfinished."""
    provenance = {
        "name": name,
        "settings": fixed,
        "command": command,
        "date": datetime.date.today().isoformat(),
        "finished": False,
        "blocks": {},
    }
    if path is None or overwrite or not path.exists():
        return Measured(name, {}, provenance)
    try:
        found = files.read(path)
        before = found.provenance["settings"]
    except (InputError, KeyError):
        raise InputError(
            f"{path} is there and was not written by quadsim measure, or was damaged: choose another out="
        ) from None
    for key, old, new in _differing(before, fixed):
        raise InputError(
            f"{path} was measured with {key}={checks.shown(old)}, not {checks.shown(new)}: "
            f"choose another out=, or set overwrite=true"
        )
    if all(block in found.blocks and found.blocks[block].probes == fixed["probes"] for block in names):
        raise InputError(f"{path} is finished: choose another out=, or set overwrite=true to measure it again")
    commands = str(found.provenance.get("command") or "").split(" && ")
    if command is not None and command not in commands:  # other blocks are added: it takes both to make the file again
        provenance["command"] = command if set(found.blocks) <= set(names) else " && ".join([*commands, command])
    else:
        provenance["command"] = found.provenance.get("command")
    return replace(found, provenance={**found.provenance, "command": provenance["command"], "finished": False})


def _differing(old: Any, new: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """The innermost settings that differ, by name."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [(key, old, new)]
    return [found for name in {**old, **new} for found in _differing(old.get(name), new.get(name), name)]


def check_memory(
    module: nn.Module,
    outputs: Outputs,
    loss: Loss,
    curvature: str,
    names: dict[str, str],
    steps: int,
    say: Callable[[str], None],
) -> None:
    """State the memory of the block that needs most, and refuse if there is less."""
    sizes = {block: module.get_parameter(name).numel() for block, name in names.items()}
    largest = max(sizes, key=lambda block: sizes[block])
    # The graph is the longer the earlier a block is used, and a product of the largest block holds the most beside it.
    graphs = [
        memory.graph_bytes(module, names[block], outputs, loss, curvature)
        for block in dict.fromkeys([largest, next(iter(names)), list(names)[-1]])
    ]
    known = [size for size in graphs if size is not None]
    graph = int(SLACK * max(known, default=0))
    basis = memory.basis_bytes(sizes[largest], steps, module.get_parameter(names[largest]).dtype)
    free = memory.available()
    parts = f"{_gb(basis)} for {min(steps, sizes[largest])} Lanczos vectors, " + (
        f"{_gb(graph)} for the graph" if len(known) == len(graphs) else "the graph's size is not known"
    )
    need = f"block {largest} needs about {_gb(basis + graph)} of memory beside the network ({parts})"
    if free is not None and basis + graph > free:
        raise InputError(f"{need}, and {_gb(free)} are free: use fewer steps, a smaller batch or other blocks")
    say(f"{need[0].upper()}{need[1:]}, the others less" + ("" if free is None else f"; {_gb(free)} are free"))


def _gb(size: float) -> str:
    return f"{size / 1e9:.2f} GB"


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


def _added(
    measured: Measured, block: str, size: int, rule: Quadrature, seconds: float, names: dict[str, str]
) -> Measured:
    """The measurement with one probe more."""
    before = measured.blocks.get(block, MeasuredBlock(block, size, (), (), ()))
    after = replace(
        before,
        nodes=(*before.nodes, rule.nodes),
        weights=(*before.weights, rule.weights),
        residuals=(*before.residuals, rule.residuals),
    )
    facts = measured.provenance["blocks"].get(block, {"size": size, "seconds": [], "asymmetry": [], "threads": []})
    facts = {
        "size": size,
        "seconds": [*facts["seconds"], round(seconds, 1)],
        "asymmetry": [*facts["asymmetry"], float(f"{rule.asymmetry:.2g}")],
        "threads": [*facts["threads"], torch.get_num_threads()],
    }
    blocks = {**measured.blocks, block: after}
    probes = measured.provenance["settings"]["probes"]
    finished = all(name in blocks and blocks[name].probes == probes for name in {**names, **blocks})
    told = {**measured.provenance["blocks"], block: facts}
    provenance = {**measured.provenance, "finished": finished, "blocks": told}
    return Measured(measured.name, blocks, provenance)


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
