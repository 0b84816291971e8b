"""One BLAS thread for the linear algebra of quadsim, and LAPACK without the rest of scipy.

OpenBLAS starts as many threads as there are cores. Its LAPACK routines then lose most of their time to synchronisation
on a busy machine (closed forms of a 2,048 block: a factor of six on two cores), and the last bits of eigenvalues depend
on the number of threads. Linear algebra of large blocks therefore runs on one thread; the previous setting is restored
afterwards. Nothing is changed where the BLAS is not OpenBLAS.

Written by hand because threadpoolctl scans the loaded libraries on every use: 0.9 ms instead of 4 µs, about as long as
a closed form takes.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import Any

LAPACK = "scipy.linalg._flapack"
EXTENSIONS = ("numpy.linalg._umath_linalg", LAPACK)  # numpy and scipy bundle a BLAS each
NAMES = tuple(f"{prefix}openblas_{{}}_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "", "_"))

_lock = threading.Lock()
_depth = 0
_saved: dict[str, tuple[Callable[[int], Any], int]] = {}  # by extension module: setter, number of threads to restore


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit OpenBLAS to one thread; nested and concurrent uses restore the setting when the last one ends.

    A library that is loaded inside the block is limited by the next use, nested or not.
    """
    global _depth
    with _lock:
        _depth += 1
        for name in EXTENSIONS:
            if name not in _saved and (control := threads_of(name)) is not None:
                get, set_ = control
                _saved[name] = set_, get()
                set_(1)
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                for set_, count in _saved.values():
                    set_(count)
                _saved.clear()


on_one_thread = one_thread()  # decorator: a context manager made by `contextmanager` enters a new one at every call


@functools.cache
def lapack() -> ModuleType:
    """LAPACK's functions as scipy wraps them, from its extension module.

    The module loads in 4 ms; `scipy.linalg` takes 0.2 s, a fifth of a short run. Where it does not load by itself,
    `scipy.linalg` is imported.
    """
    if LAPACK in sys.modules:
        return sys.modules[LAPACK]
    try:
        scipy = importlib.util.find_spec("scipy")
        folders = scipy.submodule_search_locations if scipy else None
        files = [Path(folder, "linalg", f"_flapack{end}") for folder in folders or () for end in EXTENSION_SUFFIXES]
        spec = importlib.util.spec_from_file_location(LAPACK, next(file for file in files if file.is_file()))
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except (ImportError, OSError, StopIteration):
        from scipy.linalg import lapack as module
    return sys.modules.setdefault(LAPACK, module)


def threads_of(extension: str) -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """Getter and setter of the number of threads of the OpenBLAS behind a loaded extension module."""
    module = sys.modules.get(extension)
    return None if module is None else _control(module)


@functools.lru_cache
def _control(module: ModuleType) -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    for library in _libraries(Path(str(module.__file__))):
        for name in NAMES:
            try:
                return getattr(library, name.format("get")), getattr(library, name.format("set"))
            except AttributeError:
                continue
    return None


def _libraries(extension: Path) -> Iterator[ctypes.CDLL]:
    """The extension itself, whose handle finds symbols of its dependencies too; on Windows, the bundled libraries."""
    package = next(parent for parent in extension.parents if parent.name in ("numpy", "scipy"))
    for path in (extension, *sorted(package.parent.glob(f"{package.name}.libs/*openblas*"))):
        try:
            yield ctypes.CDLL(str(path))
        except OSError:
            continue
