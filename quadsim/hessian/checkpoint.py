"""The file of a measurement: its lock, its settings, and the results added probe by probe."""

from __future__ import annotations

import datetime
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from quadsim import _artifacts, _files
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
    if not os.path.isdir(path.parent):
        shown, folder = checks.shown(str(path)), checks.shown(str(path.parent))
        raise InputError(f"out={shown} cannot be written: there is no folder {folder}")
    _artifacts.check_file(path)
    return path.resolve() if path.is_symlink() else path


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
    """The measurement to continue: an empty one, or that of the file if its settings are equal and it is unfinished."""
    if path is None or overwrite or not path.exists():
        date = datetime.date.today().isoformat()
        provenance = {"name": name, "settings": fixed, "command": command, "date": date, "finished": False}
        return Measured(name, {}, {**provenance, "blocks": {}})
    try:
        measured = files.read(path)
        settings = measured.provenance["settings"]
    except (InputError, KeyError):
        raise InputError(
            f"{path} exists and was not written by quadsim measure, or is damaged: choose another out="
        ) from None
    for key, old, new in _differing(settings, fixed):
        raise InputError(
            f"{path} was measured with {key}={checks.shown(old)}, not {checks.shown(new)}: "
            f"choose another out=, or set overwrite=true"
        )
    if all(probes_of(measured, block) == fixed["probes"] for block in names):
        raise InputError(f"{path} is finished: choose another out=, or set overwrite=true to measure it again")
    earlier = measured.provenance.get("command")
    commands = str(earlier or "").split(" && ")
    if command is None or command in commands:
        command = earlier
    elif not set(measured.blocks) <= set(names):  # repeating the file takes both commands
        command = " && ".join([*commands, command])
    return replace(measured, provenance={**measured.provenance, "command": command, "finished": False})


def probes_of(measured: Measured, block: str) -> int:
    """The number of probes of a block so far."""
    return measured.blocks[block].probes if block in measured.blocks else 0


def _differing(old: Any, new: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """The innermost settings that differ: (name, old value, new value)."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [(key, old, new)]
    return [differing for name in {**old, **new} for differing in _differing(old.get(name), new.get(name), name)]


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as JSON values, equal to those read back from a file."""
    try:
        return json.loads(json.dumps(dict(settings), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"settings must be JSON values: numbers, strings, lists, dicts ({error})") from None


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
    parts = ("nodes", "weights", "residuals")
    rules: dict[str, Any] = {part: (*getattr(before, part), getattr(rule, part)) for part in parts}
    blocks = {**measured.blocks, block: replace(before, **rules)}
    facts = {
        "seconds": round(seconds, 1),
        "asymmetry": float(f"{rule.asymmetry:.2g}"),
        "threads": torch.get_num_threads(),
    }
    earlier = measured.provenance["blocks"].get(block, {})
    listed = {"size": size, **{key: [*earlier.get(key, []), value] for key, value in facts.items()}}
    probes = measured.provenance["settings"]["probes"]
    finished = all(name in blocks and blocks[name].probes == probes for name in {**names, **blocks})
    by_block = {**measured.provenance["blocks"], block: listed}
    return Measured(measured.name, blocks, {**measured.provenance, "finished": finished, "blocks": by_block})
