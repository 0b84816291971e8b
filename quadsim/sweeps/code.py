"""What code computes a cell: a fingerprint that changes when the code does, and stays when only its words do.

It is taken from the modules' syntax without comments and docstrings, from the kernel's own text where steps are
iterated, and from the bytes of measured spectra. A cell's key holds it: what was computed by other code is computed
anew, and nothing else is.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import sys
from functools import cache
from importlib.resources import files as resources
from pathlib import Path

from quadsim import compiler
from quadsim.cases import CASES
from quadsim.checks import InputError
from quadsim.optimizers import Optimizer

ALWAYS = (
    "streams", "spectra.made", "spectra.files", "spectra.library", "spectra.distance", "problem", "cases",
    "optimizers.base", "trajectory", "theory.constants", "theory.rates", "closed", "course", "modes", "twofold",
    "request", "sweeps.cells",
)  # fmt: skip
ITERATED = ("noise", "schedules", "tiles", "solver")


def of_engine(kind: type[Optimizer], engine: str, noisy: bool) -> str:
    """The fingerprint of what runs this kind of optimizer."""
    modules = [f"quadsim.{name}" for name in ALWAYS + (ITERATED if engine == "iterate" else ())]
    parts = [_syntax(name) for name in modules]
    if kind.own:
        parts.append(repr((kind.scope, kind.linear, getattr(kind, "draws", None))).encode())
    else:
        parts.append(_syntax(kind.__module__))
    if engine == "iterate":
        parts.append(_of_text(compiler.source(kind, 1, noisy)))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def of_data(case: str | None, network: str | None) -> str:
    """The fingerprint of the measured spectra that a problem draws from; nothing for one made by hand."""
    usual = CASES[int(case)].network if case is not None else None
    if usual is None:
        return ""
    name = network or usual
    shipped = resources("quadsim") / "data" / f"{name}.npz"
    path = Path(str(shipped)) if shipped.is_file() else Path(name)
    try:
        state = path.stat()
        return _of_file(path, state.st_mtime_ns, state.st_size)
    except (OSError, ValueError):
        return "absent"  # what is wrong is told where the problem is made


@cache
def _of_file(path: Path, changed: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _syntax(name: str) -> bytes:
    module = sys.modules.get(name) or importlib.import_module(name)
    if module.__file__ is None:
        raise InputError(f"the text of {name} is not there: cells cannot be named by the code that computes them")
    return _of_text(Path(module.__file__).read_text(encoding="utf-8"))


@cache
def _of_text(text: str) -> bytes:
    """Of a module's syntax without comments, docstrings and line numbers."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).digest()
