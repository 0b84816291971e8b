"""From an optimizer's rule to machine code: compile the text of its kernel, and cache the result.

The cache key covers the text, the versions and the processor that a kernel was compiled for, so an edit of a template
or of a rule never loads stale machine code. `kernel_cache` defines which files are trusted; without a cache, kernels
are compiled in each process.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import ModuleType
from typing import Any

from quadsim import _progress
from quadsim.engine.compiled import kernel_cache
from quadsim.engine.compiled.kernel_source import generic_text, kernel_text, rule_text
from quadsim.optimizers import Optimizer, rule_errors

_lock = threading.Lock()  # numba compiles one kernel at a time
_compiled: set[str] = set()  # texts of the kernels that this process has


def kernel(
    optimizer: type[Optimizer],
    width: int,
    noisy: bool = False,
    shared_settings: bool = True,
    generic: bool = False,
) -> Any:
    """The compiled kernel of `kernel_source.kernel_text`: a module with `begin`, `advance` and `rule_address`."""
    with _lock:
        text = generic_text(optimizer, noisy) if generic else kernel_text(optimizer, width, noisy, shared_settings)
        rule = rule_text(optimizer) if generic else ""
        try:
            with _notice(optimizer.name, *filter(None, (text, rule))):
                module = _with_rule(text, rule) if generic else _kernel(text)
        except Exception as error:
            rule_errors.explain(optimizer, error)
            raise
        _compiled.update(filter(None, (text, rule)))
        return module


def is_compiled(
    optimizer: type[Optimizer],
    width: int,
    noisy: bool = False,
    shared_settings: bool = True,
    generic: bool = False,
) -> bool:
    """Whether this process or the cache has the kernel; of a generic one all but the rule, which compiles quickly."""
    text = generic_text(optimizer, noisy) if generic else kernel_text(optimizer, width, noisy, shared_settings)
    return text in _compiled or kernel_cache.has(_identity(text))


def _notice(name: str, *texts: str) -> Any:
    """Say that the kernel is compiled, if one of its texts will be."""
    if all(text in _compiled or kernel_cache.has(_identity(text)) for text in texts):
        return nullcontext()
    return _progress.compiling(name, cached=kernel_cache.check_folder())


def single_lane_kernel(optimizer: type[Optimizer], noisy: bool) -> Any:
    """A kernel for a single lane: the inlined one if it is compiled, otherwise the generic one."""
    return kernel(optimizer, 1, noisy, generic=not is_compiled(optimizer, 1, noisy))


def _with_rule(text: str, rule: str) -> ModuleType:
    """The generic kernel of a text with the address of a rule, which must stay loaded."""
    kernel, library = _kernel(text), _kernel(rule)
    [compiled] = library.apply_rule.overloads.values()
    module = ModuleType(kernel.__name__)
    address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    vars(module).update(vars(kernel) | {"rule_address": address, "rule": library})
    return module


@functools.cache
def _kernel(text: str) -> ModuleType:
    identity = _identity(text)
    content = kernel_cache.load(identity)
    if content is not None:
        # The content is intact, but may refer to names that a patched numba of the same version does not have.
        with suppress(Exception):
            return _compile(text, content)[0]
    module, content = _compile(text)
    if content is not None:
        kernel_cache.save(identity, content)
    return module


def _compile(text: str, content: bytes | None = None) -> tuple[ModuleType, bytes | None]:
    """The kernel's module, compiled or loaded from the cache's content; and the content to save.

    The content is None if the machine code contains addresses of this process: no other process could load it.
    """
    from numba.core import serialize

    with _paused_collection():
        module, caches = _load_or_compile(text, content)
    if content is None and all(cache.reduced is not None for cache in caches.values()):
        content = serialize.dumps({name: cache.reduced for name, cache in caches.items()})
    return module, content


def _load_or_compile(text: str, content: bytes | None) -> tuple[ModuleType, dict[str, _FunctionCache]]:
    module = ModuleType(f"quadsim_kernel_{_fingerprint(text)[:20]}")
    sys.modules[module.__name__] = module  # numba finds the module of a loaded function by its name
    exec(compile(text, "<quadsim kernel>", "exec", dont_inherit=True), module.__dict__)  # annotations are types
    vars(module)["rule_address"] = 0
    loaded = None if content is None else pickle.loads(content)
    caches = {name: _FunctionCache(None if loaded is None else loaded[name]) for name in module.SIGNATURES}
    for name, signature in module.SIGNATURES.items():
        function = getattr(module, name)
        function._cache = caches[name]
        function.compile(signature)
        function.disable_compile()  # arguments of other types raise TypeError
    return module, caches


@contextmanager
def _paused_collection() -> Iterator[None]:
    """Without cyclic garbage collection, which takes a tenth of the time: compiling allocates many small objects."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _FunctionCache:
    """A cache for numba's dispatcher, which tries to load machine code before it compiles, and saves it afterwards."""

    cache_path = None

    def __init__(self, reduced: tuple[Any, ...] | None) -> None:
        self.reduced = reduced

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        from numba.core.compiler import CompileResult

        if self.reduced is None:
            return None
        target_context.refresh()  # as numba's own cache does: a context is initialized lazily
        return CompileResult._rebuild(target_context, *self.reduced)

    def save_overload(self, signature: Any, result: Any) -> None:
        if not result.library.has_dynamic_globals and not result.lifted:
            self.reduced = result._reduce()


@functools.cache
def _fingerprint(text: str) -> str:
    import llvmlite
    import numba

    versions = f"{sys.version_info[:2]} {numba.__version__} {llvmlite.__version__}\n"
    return hashlib.sha256((versions + text).encode()).hexdigest()


def _identity(text: str) -> str:
    """Everything that the machine code depends on: text, versions, processor and numba's options."""
    import numba
    from numba.core.registry import cpu_target

    processor = cpu_target.target_context.codegen().magic_tuple()
    options = sorted((name, value) for name, value in os.environ.items() if name.startswith("NUMBA_"))
    return repr((_fingerprint(text), processor, options, getattr(numba.config, "USING_SVML", False)))
