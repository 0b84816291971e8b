"""Fingerprints: which code, data and package versions determine the numbers of a cell.

The code half of a cell's key is a hash of a fingerprint, so rows computed by other code are recomputed and all others
are reused. A fingerprint is computed from the import graph, not listed by hand:

- Roots are `execute.run` and the classes in the MRO of the cell's optimizer. Of the entry points of the engines in
  `engine.solver`, only that of the cell's own engine is followed.
- From each root, references to names of this package are followed, also through imports inside functions and through
  re-exports of a package's ``__init__``. What is reached decides which modules count; each of these is hashed as a
  whole, by its syntax without comments and docstrings, and by what the names that it uses stand for.
- Modules that are imported on the way and run statements of their own, besides definitions, count too. The package's
  own ``__init__`` does not: it installs a signal handler.
- Annotations, and classes that are only compared (``isinstance``, keys of a dict), run no code and are not followed.
- The kernel's text is hashed in every form that a run may choose (each width, settings shared by the lanes or not). It
  contains the rule of the optimizer with the helpers and constants that it uses, also for a user's rule.
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

from quadsim._validation import InputError
from quadsim.engine.compiled import kernel_source
from quadsim.optimizers import Optimizer
from quadsim.problems.cases import CASES
from quadsim.spectra.library import path_of
from quadsim.sweeps import import_graph
from quadsim.sweeps.import_graph import TOP_LEVEL, Symbol, in_package
from quadsim.sweeps.source_hash import DIGITS, PACKAGE, hash_source, hashed

EXECUTE, SOLVER = f"{PACKAGE}.sweeps.execute", f"{PACKAGE}.engine.solver"
ENTRY_POINTS = {"closed-form": "closed_form_runs", "compiled": "compiled_runs"}  # of SOLVER, by engine
MAX_SPECTRA_BYTES = 2**28  # of a file of spectra


@dataclass(frozen=True)
class Fingerprint:
    """What determines the numbers of a kind of cell, part by part."""

    optimizer: str
    engine: str
    noisy: bool
    user_defined: bool  # a user's rule
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
            "optimizer": self.optimizer, "engine": self.engine, "noisy": self.noisy, "own": self.user_defined,
            "modules": {name.removeprefix(f"{PACKAGE}."): digest for name, digest in sorted(self.modules.items())},
            "kernel": self.kernel, "versions": self.versions,
        }  # fmt: skip


def of_cell(kind: type[Optimizer], engine: str, noisy: bool) -> Fingerprint:
    """The fingerprint of cells with this class of optimizer."""
    roots = [(one.__module__, one.__qualname__) for one in kind.__mro__ if in_package(one.__module__)]
    reached = _reachable(engine, tuple(roots))
    for name in reached.modules:
        if import_graph.module(name).edited:
            raise InputError(f"{name} was edited after quadsim was imported: restart Python to sweep with the new code")
    modules = {name: hashed(import_graph.module(name).digest, *meanings) for name, meanings in reached.modules.items()}
    modules |= {one.__module__: _foreign(one, kind) for one in kind.__mro__ if _by_hand(one)}
    packages, kernel = reached.packages, ""
    if engine == "compiled":
        texts = [kernel_source.kernel_text(kind, *form) for form in kernel_source.FORMS if form.noisy or not noisy]
        kernels = [hash_source(text) for text in texts]
        kernel = hashed(*(one.digest for one in kernels), *(_declared(kind) if kind.user_defined else ()))
        packages = packages.union(*(one.packages for one in kernels))
    versions = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    versions |= {name: _version(name) for name in sorted(packages)}
    return Fingerprint(kind.name, engine, noisy, kind.user_defined, modules, kernel, versions)


def of_data(case: int | None, network: str | None) -> tuple[str, str]:
    """Name and hash of the measured spectra that a problem draws from; two empty texts for a synthetic spectrum."""
    usual = CASES[case].network if case is not None else None
    if usual is None:
        return "", ""
    name = network or usual
    return name, of_network(name)


def of_network(name: str) -> str:
    """The hash of a file of spectra, shipped or the user's own; "absent" unless it is a regular file."""
    try:
        path = path_of(name)
        state = path.stat()
        if not stat.S_ISREG(state.st_mode) or state.st_size > MAX_SPECTRA_BYTES:
            return "absent"
        return _of_file(path, state.st_mtime_ns, state.st_size)
    except (OSError, ValueError):
        return "absent"  # the error is reported where the problem is built


def code_half(fingerprint: Fingerprint, data: str, length: int) -> bytes:
    """The half of a key that identifies the code and data by which a cell was computed."""
    return hashlib.sha256(fingerprint.digest + data.encode()).digest()[:length]


@cache
def _of_file(path: Path, changed: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS]


# ---- optimizers


def _by_hand(kind: type) -> bool:
    """Whether a class was written outside this package, and not made by `rule`."""
    home = kind.__module__.partition(".")[0]
    return not in_package(home) and home not in sys.stdlib_module_names and not getattr(kind, "user_defined", False)


def _foreign(base: type, kind: type[Optimizer]) -> str:
    """The hash of the module of a class outside this package: an optimizer or one of its bases."""
    path = getattr(sys.modules.get(base.__module__), "__file__", None) or kind.rule.__code__.co_filename
    try:
        return hash_source(Path(path).read_text(encoding="utf-8")).digest
    except (OSError, ValueError, SyntaxError):
        raise InputError(f"the source of {base.__module__} cannot be read: put {kind.name} into a file") from None


def _declared(kind: type[Optimizer]) -> Iterator[str]:
    """What a user's rule declares besides its functions and settings (these are in the other half of the key)."""
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


# ---- what can be reached


@dataclass(frozen=True)
class _Reachable:
    modules: dict[str, list[str]]  # with the meanings of the names that its definitions use
    packages: frozenset[str]  # other packages


def _reachable(engine: str, roots: tuple[Symbol, ...]) -> _Reachable:
    """The modules with a reachable definition, and the other packages that these definitions use."""
    shared = _closure(((EXECUTE, "run"), *CONDITIONS[engine]), engine)
    modules: dict[str, list[str]] = {}
    packages: set[str] = set()
    for module, name in sorted(shared.union(*(_closure((one,), engine) for one in roots))):
        used = import_graph.module(module).uses(name)
        modules.setdefault(module, []).extend(f"{name}: {meaning}" for meaning in used.meanings)
        packages |= used.packages
    return _Reachable(modules, frozenset(packages - FORMATTING_PACKAGES))


@cache
def _closure(roots: tuple[Symbol, ...], engine: str) -> frozenset[Symbol]:
    """The transitive closure of definitions, without the entry points of other engines.

    Modules with side effects that are imported on the way are part of it.
    """
    closed = {(SOLVER, name) for other, name in ENTRY_POINTS.items() if other != engine}
    waiting, seen, loaded = list(roots), set[Symbol](), set[str]()
    while waiting:
        symbol = waiting.pop()
        if symbol not in seen and symbol not in closed:
            seen.add(symbol)
            used = import_graph.module(symbol[0]).uses(symbol[1])
            waiting += [(symbol[0], TOP_LEVEL), *used.symbols]
            waiting += (
                (module, TOP_LEVEL)
                for module in _loaded(used.loads, loaded)
                if import_graph.module(module).has_side_effects()
            )
    return frozenset(seen)


def _loaded(modules: set[str], before: set[str]) -> list[str]:
    """These modules and those that they import in turn, without those in ``before``, to which they are added."""
    waiting, found = list(modules), []
    while waiting:
        name = waiting.pop()
        if name not in before:
            before.add(name)
            found.append(name)
            waiting += import_graph.module(name).uses(TOP_LEVEL).loads
    return found


FORMATTING_PACKAGES = {"pandas"}  # pandas computes no result
CONDITIONS: dict[str, list[Symbol]] = {
    "closed-form": [],
    "compiled": [(f"{PACKAGE}.problems.noise", "Noise"), (f"{PACKAGE}.optimizers.schedules", "Schedule")],
}
