"""The file of a measurement: its lock, its settings, and the results added probe by probe."""

from __future__ import annotations

import datetime
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from quadsim import _files
from quadsim import _validation as checks
from quadsim._validation import InputError, InputTypeError
from quadsim.hessian.lanczos import Quadrature
from quadsim.spectra import files
from quadsim.spectra.files import Measured, MeasuredBlock


def check_out(out: str | Path) -> Path:
    """The path, if a measurement can be written there."""
    if not isinstance(out, str | Path) or "\0" in str(out):
        raise InputTypeError(f"out must be the path of an .npz file, got {checks.shown(out)}")
    path = Path(out)
    if path.suffix.lower() != ".npz":
        raise InputError(f"out must end in .npz, got {path}")
    named = f"out={checks.shown(str(path))}"
    if os.path.isdir(path):
        raise InputError(f"{named} is a folder")
    if not os.path.isdir(path.parent):
        raise InputError(f"{named} cannot be written: there is no folder {checks.shown(str(path.parent))}")
    try:
        exists = path.exists()  # raises where the name is too long
        with tempfile.TemporaryFile(dir=path.parent):
            pass
        if exists and not path.is_file():
            raise InputError(f"{named} is no regular file")
        return path.resolve() if path.is_symlink() else path
    except (OSError, RuntimeError) as error:  # RuntimeError: how Python before 3.13 reports a symlink loop
        reason = getattr(error, "strerror", None) or "Too many levels of symbolic links"
        raise InputError(f"{named} cannot be written ({reason})") from None


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Hold the lock of a measurement's file, so that no other process writes it."""
    if path is None:
        yield
        return
    try:
        lock = _files.FileLock(path.with_name(f".{path.name}.lock"))
    except _files.LockedError:
        raise InputError(f"another process is measuring into {path}: wait for it, or choose another out=") from None
    try:
        yield
    finally:
        lock.release()


def begin(
    path: Path | None, overwrite: bool, name: str, fixed: dict[str, Any], names: dict[str, str], command: str | None
) -> Measured:
    """The measurement to continue: an empty one, or that in the file if its settings are equal and it is unfinished."""
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
            f"{path} exists and was not written by quadsim measure, or is damaged: choose another out="
        ) from None
    for key, old, new in _differing(before, fixed):
        raise InputError(
            f"{path} was measured with {key}={checks.shown(old)}, not {checks.shown(new)}: "
            f"choose another out=, or set overwrite=true"
        )
    if all(block in found.blocks and found.blocks[block].probes == fixed["probes"] for block in names):
        raise InputError(f"{path} is finished: choose another out=, or set overwrite=true to measure it again")
    commands = str(found.provenance.get("command") or "").split(" && ")
    if command is not None and command not in commands:  # other blocks: both commands are needed to repeat the file
        provenance["command"] = command if set(found.blocks) <= set(names) else " && ".join([*commands, command])
    else:
        provenance["command"] = found.provenance.get("command")
    return replace(found, provenance={**found.provenance, "command": provenance["command"], "finished": False})


def _differing(old: Any, new: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """The innermost settings that differ, by name."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [(key, old, new)]
    return [found for name in {**old, **new} for found in _differing(old.get(name), new.get(name), name)]


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as JSON values, equal to those read back from a file."""
    try:
        return json.loads(json.dumps(dict(settings), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"settings must be plain numbers, texts and lists of them: {error}") from None


def with_loss(measured: Measured, loss: float, path: Path | None) -> Measured:
    """The measurement with its loss; raises if the file was measured at another loss."""
    if not math.isfinite(loss):
        raise InputError(f"the loss must be finite, got {loss}")
    rounded = float(f"{loss:.6g}")
    before = measured.provenance.get("loss", rounded)
    if abs(rounded - before) > 1e-4 * max(abs(rounded), abs(before)):
        raise InputError(f"{path} was measured at a loss of {before:g}, not {rounded:g}: choose another out=")
    return replace(measured, provenance={**measured.provenance, "loss": before})


def with_probe(
    measured: Measured, block: str, size: int, rule: Quadrature, seconds: float, names: dict[str, str]
) -> Measured:
    """The measurement with one more probe."""
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
    by_block = {**measured.provenance["blocks"], block: facts}
    provenance = {**measured.provenance, "finished": finished, "blocks": by_block}
    return Measured(measured.name, blocks, provenance)
