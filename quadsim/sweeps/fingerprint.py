"""Fingerprints: which code, data and package versions determine the numbers of a cell.

The code half of a cell's key is a hash of a fingerprint, so rows computed by other code are recomputed and all others
are reused. A fingerprint is computed from the import graph, not listed by hand:

- Roots are `execute` and the modules of the classes in the MRO of the cell's optimizer. A module depends on all modules
  of this package that it imports, also inside functions (see `import_graph`). Each counts with its whole syntax.
- The registry of optimizers (``optimizers/__init__``) does not count: code takes classes from it only to compare them
  (``isinstance``). Nor does the compiled engine for closed-form cells, nor the package's own ``__init__``, nor what
  draws results (`plots`, `_display`).
- The kernel's text is hashed in every form that a run may choose (each width, settings shared by the lanes or not). It
  contains the rule of the optimizer with the helpers and constants that it uses, also for a user-defined rule.
- Third-party packages that this code imports count by version, and so does Python by its minor version.
- The file of measured spectra that a problem draws from counts by its bytes.

So the planning of a grid, executors, the store, the command line and plots are left out: no number of a row passes
through them without being part of the cell's definition, which is the other half of its key.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from quadsim._validation import InputError
from quadsim.engine.compiled import kernel_source
from quadsim.optimizers import Optimizer
from quadsim.problems.cases import CASES
from quadsim.spectra.library import path_of
from quadsim.sweeps import import_graph
from quadsim.sweeps.import_graph import DIGITS, PACKAGE, REGISTRY, hashed, in_package
from quadsim.sweeps.store.verify import KEY_HALF

EXECUTE, COMPILED = f"{PACKAGE}.sweeps.execute", f"{PACKAGE}.engine.compiled"
NOT_COUNTED = {PACKAGE, REGISTRY, f"{PACKAGE}._progress"}  # modules
DRAWING = (f"{PACKAGE}.plots", f"{PACKAGE}._display")  # packages that results import to show themselves
UNVERSIONED_PACKAGES = {"pandas", "filelock"}  # compute no result
MAX_SPECTRA_BYTES = 2**28  # of a file of spectra


@dataclass(frozen=True)
class Fingerprint:
    """What determines the numbers of a kind of cell, part by part."""

    optimizer: str
    engine: str
    noisy: bool
    own: bool  # a user-defined rule
    modules: dict[str, str]  # hashes
    kernel: str  # hash; "" for closed forms
    versions: dict[str, str]  # of packages

    @cached_property
    def digest(self) -> bytes:
        parts = [self.engine, repr(sorted(self.modules.items())), self.kernel, repr(sorted(self.versions.items()))]
        return hashlib.sha256("\n".join(parts).encode()).digest()

    def parts(self) -> dict[str, Any]:
        """The fingerprint as plain values, to be stored beside the rows."""
        modules = {name.removeprefix(f"{PACKAGE}."): digest for name, digest in self.modules.items()}
        return asdict(self) | {"modules": modules}


def of_cell(kind: type[Optimizer], engine: str, noisy: bool) -> Fingerprint:
    """The fingerprint of cells with this class of optimizer."""
    own = {base.__module__ for base in kind.__mro__ if in_package(base.__module__)}
    sources = {}
    for name in _closure(frozenset(own), engine):
        if import_graph.module(name).edited:
            raise InputError(f"{name} was edited after quadsim was imported: restart Python to sweep with the new code")
        sources[name] = import_graph.module(name).source
    modules = {name: source.digest for name, source in sources.items()}
    modules |= {base.__module__: _foreign(base, kind) for base in kind.__mro__ if _is_foreign(base)}
    kernels, kernel = [], ""
    if engine == "compiled":
        forms = [form for form in kernel_source.FORMS if form.noisy or not noisy]
        kernels = [import_graph.read(kernel_source.kernel_text(kind, *form)) for form in forms]
        kernel = hashed(*(one.digest for one in kernels), *(_declared(kind) if kind.user_defined else ()))
    packages = set().union(*(one.packages for one in (*sources.values(), *kernels))) - UNVERSIONED_PACKAGES
    versions = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    versions |= {name: _version(name) for name in sorted(packages)}
    return Fingerprint(kind.name, engine, noisy, kind.user_defined, modules, kernel, versions)


@cache
def _closure(roots: frozenset[str], engine: str) -> frozenset[str]:
    """The modules that `execute` and these modules import, directly or not."""
    waiting, seen = {EXECUTE, *roots}, set(NOT_COUNTED)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        waiting |= {one for one in import_graph.module(name).imports - seen if not one.startswith(DRAWING)}
        if engine == "closed-form":
            waiting -= {one for one in waiting if one.startswith(COMPILED)}
    return frozenset(seen - NOT_COUNTED)


def of_data(case: int | None, network: str | None) -> tuple[str, str]:
    """Name and hash of the measured spectra that a problem draws from; two empty texts for a synthetic spectrum."""
    default = None if case is None else CASES[case].network
    if default is None:
        return "", ""
    return network or default, of_network(network or default)


def of_network(name: str) -> str:
    """The hash of a file of spectra, shipped or user-defined; "absent" unless it is a regular file."""
    try:
        path = path_of(name)
        state = path.stat()
        if not stat.S_ISREG(state.st_mode) or state.st_size > MAX_SPECTRA_BYTES:
            return "absent"
        return _of_file(path, state.st_mtime_ns, state.st_size)
    except (OSError, ValueError):
        return "absent"  # the error is reported where the problem is built


def code_half(fingerprint: Fingerprint, data: str) -> bytes:
    """The half of a key that identifies the code and data by which a cell was computed."""
    return hashlib.sha256(fingerprint.digest + data.encode()).digest()[:KEY_HALF]


@cache
def _of_file(path: Path, changed: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS]


# ---- optimizers


def _is_foreign(kind: type) -> bool:
    """Whether a class was written outside this package, and not made by `rule`."""
    home = kind.__module__.partition(".")[0]
    return not in_package(home) and home not in sys.stdlib_module_names and not getattr(kind, "user_defined", False)


def _foreign(base: type, kind: type[Optimizer]) -> str:
    """The hash of the module of a class outside this package: an optimizer or one of its bases."""
    path = getattr(sys.modules.get(base.__module__), "__file__", None) or kind.rule.__code__.co_filename
    try:
        return import_graph.read(Path(path).read_text(encoding="utf-8")).digest
    except (OSError, ValueError, SyntaxError):
        raise InputError(f"the source of {base.__module__} cannot be read: put {kind.name} into a file") from None


def _declared(kind: type[Optimizer]) -> Iterator[str]:
    """What a user-defined rule declares besides functions and settings, which are in the other half of the key."""
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
