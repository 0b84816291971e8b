"""From an optimizer's rule to machine code: the kernel's text with the rule put in, compiled and kept.

Each kernel is a small file of its own in a folder named by the hash of everything that went into it, so code that
has changed in any way can never be served from the cache. Where no folder can be written, kernels are
compiled afresh in each process.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import shutil
import sys
import tempfile
import textwrap
import threading
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from quadsim.checks import InputError
from quadsim.optimizers import Optimizer

WIDTH = 8  # lanes of a full tile
_lock = threading.Lock()  # numba compiles one kernel at a time


def kernel(optimizer: type[Optimizer], width: int) -> Any:
    """The compiled kernel for an optimizer's rule, `width` lanes side by side: a module with `begin`, `advance`."""
    with _lock:
        return _kernel(source(optimizer, width))  # type: ignore[arg-type]


@functools.cache
def _kernel(text: str) -> ModuleType:
    from numba.core.errors import NumbaError

    fingerprint = _fingerprint(text)
    folder = cache_folder()
    if folder is not None:
        for _ in range(2):
            try:
                return _load_kept(text, folder / fingerprint, fingerprint)
            except NumbaError:  # the rule's own fault
                raise
            except Exception:
                # A torn cache file (a kill or a full disk while it was written) fails in any way it likes: begin anew.
                shutil.rmtree(folder / fingerprint, ignore_errors=True)
    return _execute(text, f"quadsim_kernel_{fingerprint}", "<quadsim kernel>")


@functools.cache
def source(optimizer: type[Optimizer], width: int) -> str:
    """The text of a kernel: `kernels.py` with the rule of this optimizer in its place."""
    template = Path(__file__).with_name("kernels.py").read_text(encoding="utf-8")
    head, rest = template.split("# <rule>\n")
    _, tail = rest.split("# </rule>\n")
    head = _exchanged(head, f"WIDTH = {WIDTH} ", f"WIDTH = {width} ")
    return head + _rule_text(optimizer, width) + tail


def _exchanged(text: str, old: str, new: str) -> str:
    """The text with the one place changed where `old` stands; anything else would be another kernel than asked for."""
    if text.count(old) != 1:
        raise RuntimeError(f"kernels.py must say {old!r} once, and says it {text.count(old)} times")
    return text.replace(old, new)


def _rule_text(optimizer: type[Optimizer], width: int) -> str:
    """The rule for one coordinate, and the loops that bring it to all coordinates and lanes, ROW of them at a time."""
    names = setting_names(optimizer)
    states = [f"state[{s}, at + np.uintp(k)]" for s in range(len(optimizer.state))]
    lane, group = ("0", "0, at + np.uintp(k)") if width == 1 else ("k", "block, k")
    where = {"g": "g[at + np.uintp(k)]", **dict(zip(optimizer.state, states, strict=True))}
    where |= {name: f"clock[{c}, {lane}]" for c, name in enumerate(optimizer.clock)}
    where |= {name: f"settings[{p}, {group}]" for p, name in enumerate(names)}
    move = _through_stack(
        "rule", optimizer.rule, where, ["e[at + np.uintp(k)] -=", *(f"{state} =" for state in states)]
    )
    text = f"@njit(**FLAGS)\n{_text(optimizer.rule, 'rule')}\n\n"
    turn = ["pass"]
    if optimizer.tick is not None:
        clocks = {name: f"clock[{c}, k]" for c, name in enumerate(optimizer.clock)}
        where = clocks | {name: f"settings[{p}, 0, k]" for p, name in enumerate(names)}
        turn = ["count = clock.shape[1]"]
        turn += _through_stack("rule_tick", optimizer.tick, where, [f"{clock} =" for clock in clocks.values()])
        text += f"@njit(**FLAGS)\n{_text(optimizer.tick, 'rule_tick')}\n\n"
    return text + _LOOPS.format(move=("\n" + " " * 12).join(move), turn=("\n" + " " * 4).join(turn))


# LLVM unrolls a short loop of constant length before it could vectorise it; so `count` is not a constant.
_LOOPS = """@njit(**FLAGS)
def update(e, g, state, settings, clock, groups):
    low = 0
    for block in range(groups.size):
        high = low + groups[block] * WIDTH
        for i in range(low, high, ROW):
            at, count = np.uintp(i), min(ROW, high - i)
            {move}
        low = high


@njit(**FLAGS)
def tick(clock, settings):
    {turn}


"""


def _through_stack(name: str, function: Any, where: dict[str, str], targets: list[str]) -> list[str]:
    """Lines that call the function for every k and put what it returns into the targets.

    New values go to the stack first: a loop that writes nowhere else needs no proof that its arrays are apart.
    """
    new = [f"new{n}" for n in range(len(targets))]
    call = f"{name}({', '.join(where[parameter] for parameter in inspect.signature(function).parameters)})"
    lines = [f"{value} = carray(stack_row(), (ROW,))" for value in new]
    lines += ["for k in range(count):", f"    {', '.join(f'{value}[k]' for value in new)} = {call}"]
    for value, target in zip(new, targets, strict=True):
        lines += ["for k in range(count):", f"    {target} {value}[k]"]
    return lines


def setting_names(optimizer: type[Optimizer]) -> tuple[str, ...]:
    """The settings that the rule (or its tick) asks for by name, in the order of the kernel's array."""
    known = {"g", *optimizer.state, *optimizer.clock}
    functions = [function for function in (optimizer.rule, optimizer.tick) if function is not None]
    asked = [name for function in functions for name in inspect.signature(function).parameters]
    names = tuple(dict.fromkeys(name for name in asked if name not in known))
    for name in names:
        if name not in {item.name for item in fields(optimizer)}:
            raise InputError(
                f"the rule of {optimizer.name} asks for {name!r}, which is neither g, state, clock nor a setting"
            )
    return names


def _text(function: Any, name: str) -> str:
    """The function's text, under a name that nothing else in the kernel has."""
    used = inspect.getclosurevars(function)
    for other in (*used.globals, *used.nonlocals):
        if other not in ("np", "math"):  # the kernel may have the same name for something else
            raise InputError(f"{function.__name__} uses {other!r}, which a rule cannot see: make it a setting")
    if function.__name__ == "<lambda>":
        raise InputError("a rule must be a function of its own, not a lambda")
    try:
        return textwrap.dedent(inspect.getsource(function)).replace(f"def {function.__name__}(", f"def {name}(", 1)
    except OSError:
        raise InputError(f"{function.__name__} has no source text to compile: define it in a file") from None


def _fingerprint(text: str) -> str:
    import llvmlite
    import numba

    versions = f"{sys.version_info[:2]} {numba.__version__} {llvmlite.__version__}\n"
    return hashlib.sha256((versions + text).encode()).hexdigest()[:20]


def cache_folder() -> Path | None:
    """Where kernels are kept: $QUADSIM_CACHE_DIR, or quadsim in the user's cache; None where it cannot be written."""
    chosen = os.environ.get("QUADSIM_CACHE_DIR")
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(chosen) if chosen else Path(home) / "quadsim"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None


def _load_kept(text: str, folder: Path, fingerprint: str) -> ModuleType:
    """The kernel from its own file, with numba's cache beside it."""
    folder.mkdir(exist_ok=True)
    path = folder / "kernel.py"
    kept = _exchanged(text, "CACHE = False", "CACHE = True")
    if not path.exists() or path.read_text(encoding="utf-8") != kept:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, delete=False) as file:
            file.write(kept)
        os.replace(file.name, path)
    return _execute(kept, f"quadsim_kernel_{fingerprint}", str(path))


def _execute(text: str, name: str, path: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # numba looks a function's module up when it loads from its cache
    exec(compile(text, path, "exec"), module.__dict__)
    return module
