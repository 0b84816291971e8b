"""Fingerprints: which code, data and package versions determine the numbers of a cell.

The code half of a cell's key is a hash of a fingerprint, so rows computed by other code are recomputed and all others
are reused. A fingerprint is computed from the import graph, not listed by hand:

- Roots are `cells.run`, with the entry point of the cell's own engine, and the classes in the MRO of its optimizer.
- From each root, references to names of this package are followed, also through imports inside functions and through
  re-exports of a package's ``__init__``. What is reached decides which modules count; each of these is hashed as a
  whole, by its syntax without comments and docstrings, and by what the names that it uses stand for.
- Modules that are imported on the way and run statements of their own, besides definitions, count too. The package's
  own ``__init__`` does not: it installs a signal handler.
- Annotations, and classes that are only compared (``isinstance``, keys of a dict), run no code and are not followed.
- The kernel's text is hashed in every form that a run may choose (each width, lanes alike or not). It contains the
  rule of the optimizer with the helpers and constants that it uses, also for a user's rule.
- Third-party packages that this code refers to count by version, and so does Python by its minor version.
- The file of measured spectra that a problem draws from counts by its bytes.

So the registry of optimizers (``optimizers/__init__``), the planning of a grid, executors, the store, the command line
and plots are left out: no number of a row passes through them without being part of the cell's definition, which is
the other half of its key.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from quadsim import compiler
from quadsim.cases import CASES
from quadsim.checks import InputError
from quadsim.optimizers import Optimizer
from quadsim.spectra.library import path_of
from quadsim.sweeps import syntax
from quadsim.sweeps.syntax import DIGITS, LOOSE, PACKAGE, Symbol, hashed, inside, of_text

CELLS = f"{PACKAGE}.sweeps.cells"
ENTRY_POINTS = {"exact": "exact_run", "iterate": "iterated_runs"}  # of `cells`, by engine
MOST_BYTES = 2**28  # of a file of spectra


@dataclass(frozen=True)
class Fingerprint:
    """What determines the numbers of a kind of cell, part by part."""

    optimizer: str
    engine: str
    noisy: bool
    own: bool  # a user's rule
    modules: dict[str, str]
    kernel: str
    versions: dict[str, str]

    @cached_property
    def digest(self) -> bytes:
        parts = [self.engine, repr(sorted(self.modules.items())), self.kernel, repr(sorted(self.versions.items()))]
        return hashlib.sha256("\n".join(parts).encode()).digest()

    def parts(self) -> dict[str, Any]:
        """The fingerprint as plain values, to be stored beside the rows."""
        return {
            "optimizer": self.optimizer, "engine": self.engine, "noisy": self.noisy, "own": self.own,
            "modules": {name.removeprefix(f"{PACKAGE}."): digest for name, digest in sorted(self.modules.items())},
            "kernel": self.kernel, "versions": self.versions,
        }  # fmt: skip


def of_cell(kind: type[Optimizer], engine: str, noisy: bool) -> Fingerprint:
    """The fingerprint of what runs this kind of optimizer."""
    roots = [(one.__module__, one.__qualname__) for one in kind.__mro__ if inside(one.__module__)]
    reached = _reached(engine, tuple(roots))
    for name in reached.modules:
        if syntax.module(name).edited:
            raise InputError(f"{name} was edited after quadsim was imported: restart Python to sweep with the new code")
    modules = {name: hashed(syntax.module(name).digest, *meanings) for name, meanings in reached.modules.items()}
    modules |= {one.__module__: _foreign(one, kind) for one in kind.__mro__ if _by_hand(one)}
    packages, kernel = reached.packages, ""
    if engine == "iterate":
        widths = (1, compiler.WIDTH, compiler.WIDE)
        texts = [compiler.source(kind, width, noisy, alike) for width in widths for alike in (True, False)]
        kernels = [of_text(text) for text in texts]
        kernel = hashed(*(one.digest for one in kernels), *(_declared(kind) if kind.own else ()))
        packages = packages.union(*(one.packages for one in kernels))
    versions = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    versions |= {name: _version(name) for name in sorted(packages)}
    return Fingerprint(kind.name, engine, noisy, kind.own, modules, kernel, versions)


def of_data(case: str | None, network: str | None) -> tuple[str, str]:
    """The measured spectra that a problem draws from, by name and hash; two empty texts for one made by hand."""
    usual = CASES[int(case)].network if case is not None else None
    if usual is None:
        return "", ""
    name = network or usual
    return name, of_network(name)


def of_network(name: str) -> str:
    """The hash of a file of spectra, shipped or the user's own; "absent" for what is not there or no plain file."""
    try:
        path = path_of(name)
        state = path.stat()
        if not stat.S_ISREG(state.st_mode) or state.st_size > MOST_BYTES:
            return "absent"
        return _of_file(path, state.st_mtime_ns, state.st_size)
    except (OSError, ValueError):
        return "absent"  # what is wrong is reported where the problem is made


def code_half(fingerprint: Fingerprint, data: str, length: int) -> bytes:
    """The half of a key that tells by what code and data a cell was computed."""
    return hashlib.sha256(fingerprint.digest + data.encode()).digest()[:length]


@cache
def _of_file(path: Path, changed: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS]


# ---- optimizers


def _by_hand(kind: type) -> bool:
    """Whether somebody wrote it outside this package: an optimizer not made by `rule`, or one of its bases."""
    home = kind.__module__.partition(".")[0]
    return not inside(home) and home not in sys.stdlib_module_names and not getattr(kind, "own", False)


def _foreign(base: type, kind: type[Optimizer]) -> str:
    """The hash of the module in which a class outside this package stands, a base of an optimizer or itself."""
    path = getattr(sys.modules.get(base.__module__), "__file__", None) or kind.rule.__code__.co_filename
    try:
        return of_text(Path(path).read_text(encoding="utf-8")).digest
    except (OSError, ValueError, SyntaxError):
        raise InputError(f"the source of {base.__module__} cannot be read: put {kind.name} into a file") from None


def _declared(kind: type[Optimizer]) -> Iterator[str]:
    """What a user's rule declares beside its functions; defaults of settings are part of the cell's definition."""
    settings = {item.name for item in fields(kind)}
    for name, value in sorted(vars(kind).items()):
        if not name.startswith("__") and name not in (*settings, "label") and isinstance(value, PLAIN):
            yield f"{name}={value!r}"


PLAIN = str | bool | int | float | tuple | None


@cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


# ---- what a cell reaches


@dataclass(frozen=True)
class _Reached:
    modules: dict[str, list[str]]  # with what the names mean that its definitions use: re-exports may change
    packages: frozenset[str]  # of others


def _reached(engine: str, roots: tuple[Symbol, ...]) -> _Reached:
    """The modules with a definition that can be reached, and the other packages that these definitions use."""
    shared = _closure(((CELLS, "run"), *CONDITIONS[engine]), engine)
    modules: dict[str, list[str]] = {}
    packages: set[str] = set()
    for module, name in sorted(shared.union(*(_closure((one,), engine) for one in roots))):
        used = syntax.module(module).uses(name)
        modules.setdefault(module, []).extend(f"{name}: {meaning}" for meaning in used.meanings)
        packages |= used.packages
    return _Reached(modules, frozenset(packages - ONLY_TABLES))


@cache
def _closure(roots: tuple[Symbol, ...], engine: str) -> frozenset[Symbol]:
    """All definitions that can be reached from some, the entry points of other engines left out.

    Modules that are loaded on the way and do something when they are imported are reached too.
    """
    closed = {(CELLS, name) for other, name in ENTRY_POINTS.items() if other != engine}
    waiting, seen, loaded = list(roots), set[Symbol](), set[str]()
    while waiting:
        symbol = waiting.pop()
        if symbol not in seen and symbol not in closed:
            seen.add(symbol)
            used = syntax.module(symbol[0]).uses(symbol[1])
            waiting += [(symbol[0], LOOSE), *used.symbols]
            waiting += ((module, LOOSE) for module in _loaded(used.loads, loaded) if syntax.module(module).runs())
    return frozenset(seen)


def _loaded(modules: set[str], before: set[str]) -> list[str]:
    """These modules and those that they import in turn, without those that were seen before; all are seen then."""
    waiting, found = list(modules), []
    while waiting:
        name = waiting.pop()
        if name not in before:
            before.add(name)
            found.append(name)
            waiting += syntax.module(name).uses(LOOSE).loads
    return found


ONLY_TABLES = {"pandas"}  # which formats results and computes none
CONDITIONS: dict[str, list[Symbol]] = {
    "exact": [], "iterate": [(f"{PACKAGE}.noise", "Noise"), (f"{PACKAGE}.schedules", "Schedule")],
}  # fmt: skip
