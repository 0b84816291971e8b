"""From an optimizer's rule to machine code: the kernel's text with the rule put in, compiled and cached.

The cache knows a kernel by its text, the versions and the processor that it was compiled for, so code that has changed
in any way is never served from the cache. `kernel_cache` says which files are trusted; without a cache, kernels are
compiled in each process.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import sys
import threading
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from quadsim import diagnosis, kernel_cache, rules
from quadsim.checks import InputError
from quadsim.optimizers import Optimizer

WIDTH, WIDE = 8, 32  # lanes of a tile, and of a wide one
_lock = threading.Lock()  # numba compiles one kernel at a time


def kernel(optimizer: type[Optimizer], width: int, noisy: bool = False, alike: bool = True) -> Any:
    """The compiled kernel for an optimizer's rule, `width` lanes side by side: a module with `begin`, `advance`.

    ``alike``: the lanes have the same settings but for their learning rates, which takes less to read.
    """
    with _lock:
        text = source(optimizer, width, noisy, alike)
        try:
            found = _kernel(text)
        except Exception as error:
            diagnosis.explain(optimizer, error)
            raise
        _there.add(text)
        return found


def is_there(optimizer: type[Optimizer], width: int, noisy: bool = False, alike: bool = True) -> bool:
    """Whether the kernel need not be compiled: this process has it, or the cache does."""
    text = source(optimizer, width, noisy, alike)
    return text in _there or kernel_cache.has(_identity(text))


@functools.cache
def _kernel(text: str) -> ModuleType:
    identity = _identity(text)
    content = kernel_cache.load(identity)
    if content is not None:
        # The content is what was saved; what it refers to may be gone if numba was patched without a new version.
        with suppress(Exception):
            return _compile(text, content)[0]
    module, content = _compile(text)
    if content is not None:
        kernel_cache.save(identity, content)
    return module


def _compile(text: str, content: bytes | None = None) -> tuple[ModuleType, bytes | None]:
    """The kernel's module, compiled or loaded from the content of the cache; and the content to load the next time.

    Functions whose machine code holds addresses of this process cannot be loaded by another one.
    """
    from numba.core import serialize

    module = ModuleType(f"quadsim_kernel_{_fingerprint(text)[:20]}")
    sys.modules[module.__name__] = module  # numba finds the module of a loaded function by its name
    exec(compile(text, "<quadsim kernel>", "exec"), module.__dict__)
    loaded = None if content is None else pickle.loads(content)
    caches = {name: _FunctionCache(None if loaded is None else loaded[name]) for name in module.SIGNATURES}
    for name, signature in module.SIGNATURES.items():
        function = getattr(module, name)
        function._cache = caches[name]
        function.compile(signature)
        function.disable_compile()  # arguments of other types raise TypeError
    if content is None and all(cache.reduced is not None for cache in caches.values()):
        content = serialize.dumps({name: cache.reduced for name, cache in caches.items()})
    return module, content


class _FunctionCache:
    """What numba's dispatcher asks for machine code before it compiles, and gives it to afterwards."""

    cache_path = None

    def __init__(self, reduced: tuple[Any, ...] | None) -> None:
        self.reduced = reduced

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        from numba.core.compiler import CompileResult

        if self.reduced is None:
            return None
        target_context.refresh()  # as numba's own cache does: a context is initialized when it is first used
        return CompileResult._rebuild(target_context, *self.reduced)

    def save_overload(self, signature: Any, result: Any) -> None:
        if not result.library.has_dynamic_globals and not result.lifted:
            self.reduced = result._reduce()


def source(optimizer: type[Optimizer], width: int, noisy: bool = False, alike: bool = True) -> str:
    """The text of a kernel: `kernels.py` with the rule of this optimizer in its place."""
    which = optimizer, width, noisy, alike
    made = _made.get(which)
    if made is None or not made[1].is_current():
        made = _made[which] = _source(*which)
    return made[0]


_made: dict[tuple[type[Optimizer], int, bool, bool], tuple[str, rules.Standalone]] = {}
_there: set[str] = set()


def _source(optimizer: type[Optimizer], width: int, noisy: bool, alike: bool) -> tuple[str, rules.Standalone]:
    template = Path(__file__).with_name("kernels.py").read_text(encoding="utf-8")
    head, rest = template.split("# <rule>\n")
    _, tail = rest.split("# </rule>\n")
    head = _exchanged(head, f"WIDTH = {WIDTH} ", f"WIDTH = {width} ")
    head = _exchanged(head, "NOISY = False ", f"NOISY = {noisy} ")
    head = _exchanged(head, "RANDOM = False ", f"RANDOM = {'random' in asked_for(optimizer)} ")
    rule = rules.Standalone("quadsim_rule_", bounds=optimizer.own and optimizer.scope != "coordinate")
    rule.add(optimizer.rule, "rule")
    if optimizer.tick is not None:
        rule.add(optimizer.tick, "rule_tick")
    return f"{head}{rule.text}\n\n{_loops(optimizer, width, alike)}{tail}", rule


def _exchanged(text: str, old: str, new: str) -> str:
    """The text with the one place changed where `old` stands; anything else would be another kernel than asked for."""
    if text.count(old) != 1:
        raise RuntimeError(f"kernels.py must say {old!r} once, and says it {text.count(old)} times")
    return text.replace(old, new)


def _loops(optimizer: type[Optimizer], width: int, alike: bool) -> str:
    """The loops that bring the rule to all coordinates and lanes, and its tick to the clock."""
    by_coordinate = optimizer.scope == "coordinate"
    loops = _by_coordinate(optimizer, width, alike) if by_coordinate else _by_group(optimizer)
    turn = ["pass"]
    if optimizer.tick is not None:
        lane = "0" if alike and by_coordinate else "k"
        clocks = {name: f"clock[{c}, {lane}]" for c, name in enumerate(optimizer.clock)}
        where = clocks | _settings(optimizer, f"0, {lane}") | {"t": "number"}
        keep = [f"repeat_row(clock, {c} * clock.shape[1], {{new}}, clock.shape[1])" for c in range(len(clocks))]
        if lane == "0":
            turn = [f"{', '.join(clocks.values())} = {_call('rule_tick', optimizer.tick, where)}"]
        elif by_coordinate:
            turn = ["count = WIDTH", *_through_stack("rule_tick", optimizer.tick, where, keep)]
        else:
            one = f"{', '.join(clocks.values())} = {_call('rule_tick', optimizer.tick, where)}"
            turn = ["for k in range(WIDTH):", f"    {one}"]
    return loops + _TICK.format(turn=("\n" + " " * 4).join(turn))


def _by_coordinate(optimizer: type[Optimizer], width: int, alike: bool) -> str:
    """The loops of a rule for one coordinate: ROW of them at a time; what lanes have alike is read once."""
    here = "at + np.uintp(k)"
    states = [f"state[{s}, {here}]" for s in range(len(optimizer.state))]
    where = {"g": f"g[{here}]", "w": f"(e[{here}] + minimizer[{here}])", "random": f"random[{here}]", "t": "number"}
    where |= dict(zip(optimizer.state, states, strict=True))
    clocks = {name: f"clock[{c}, {'0' if alike else 'k'}]" for c, name in enumerate(optimizer.clock)}
    settings = _settings(optimizer, f"0, {here}" if width == 1 else "block, k")
    read = []
    if alike:
        once = clocks | {name: at for name, at in _settings(optimizer, "block, 0").items() if name != "lr"}
        asked = names_of(optimizer.rule)
        read = [f"once_{name} = {at}" for name, at in once.items() if name in asked]
        clocks = {name: f"once_{name}" for name in clocks}
        settings = {name: at if name == "lr" else f"once_{name}" for name, at in settings.items()}
    where |= clocks | settings
    keep = ["subtract_row(e, i, {new}, count)"]
    keep += [f"keep_row(state, {s} * state.shape[1] + i, {{new}}, count)" for s in range(len(states))]
    move = _through_stack("rule", optimizer.rule, where, keep)
    return _LOOPS.format(read=("\n" + " " * 8).join(read), move=("\n" + " " * 12).join(move))


def _by_group(optimizer: type[Optimizer]) -> str:
    """The loops of a rule for a whole block: each lane's numbers are gathered, handed over and put back."""
    where = {"step": "room[0, :n]", "g": "room[1, :n]", "w": "room[2, :n]", "random": "room[3, :n]", "t": "number"}
    where |= {name: f"room[{4 + s}, :n]" for s, name in enumerate(optimizer.state)}
    where |= {name: f"clock[{c}, k]" for c, name in enumerate(optimizer.clock)}
    where |= _settings(optimizer, "block, k")
    arguments = ", ".join(where[name] for name in names_of(optimizer.rule))
    gather = [f"room[{4 + s}, i] = state[{s}, at]" for s in range(len(optimizer.state))]
    put_back = [f"state[{s}, at] = room[{4 + s}, i]" for s in range(len(optimizer.state))]
    indent = "\n" + " " * 16
    return _GROUPS.format(gather=indent.join(gather), arguments=arguments, put_back=indent.join(put_back))


def _settings(optimizer: type[Optimizer], place: str) -> dict[str, str]:
    """Where the rule's settings stand; the learning rate has the schedule's factor on it."""
    found = {name: f"settings[{p}, {place}]" for p, name in enumerate(setting_names(optimizer))}
    return {name: f"({at} * factor)" if name == "lr" else at for name, at in found.items()}


# LLVM unrolls a short loop of constant length before it could vectorise it; so `count` is not a constant.
_LOOPS = """@njit(**HOT)
def update(e, g, minimizer, random, state, settings, clock, groups, factor, number, status, room):
    low = 0
    for block in range(groups.size):
        high = low + groups[block] * WIDTH
        {read}
        for i in range(low, high, ROW):
            at, count = np.uintp(i), min(ROW, high - i)
            {move}
        low = high


"""

_GROUPS = """@njit(**HOT)
def update(e, g, minimizer, random, state, settings, clock, groups, factor, number, status, room):
    low = 0
    for block in range(groups.size):
        n = groups[block]
        for k in range(WIDTH):
            if status[k] != RUNNING:
                continue
            for i in range(n):
                at = (low + i) * WIDTH + k
                room[0, i] = 0.0
                room[1, i] = g[at]
                room[2, i] = e[at] + minimizer[at]
                room[3, i] = random[at]
                {gather}
            rule({arguments})
            for i in range(n):
                at = (low + i) * WIDTH + k
                e[at] -= room[0, i]
                {put_back}
        low += n


"""

_TICK = """@njit(**HOT)
def tick(clock, settings, factor, number):
    {turn}


"""


def _through_stack(name: str, function: Any, where: dict[str, str], targets: list[str]) -> list[str]:
    """Lines that call the function for every k and hand what it returns to the targets.

    New values go to the stack first: a loop that writes nowhere else needs no proof that its arrays are apart.
    """
    new = [f"new{n}" for n in range(len(targets))]
    call = _call(name, function, where)
    lines = [f"{value} = stack_row()" for value in new]
    lines += [f"{value}_row = carray({value}, (ROW,))" for value in new]
    lines += ["for k in range(count):", f"    {', '.join(f'{value}_row[k]' for value in new)} = {call}"]
    return lines + [target.format(new=value) for value, target in zip(new, targets, strict=True)]


def _call(name: str, function: Any, where: dict[str, str]) -> str:
    return f"{name}({', '.join(where[parameter] for parameter in names_of(function))})"


GIVEN = ("g", "w", "t", "random", "step")  # what a rule is given besides its state, clock and settings


def asked_for(optimizer: type[Optimizer]) -> list[str]:
    """Every name that the rule or its tick asks for."""
    functions = [function for function in (optimizer.rule, optimizer.tick) if function is not None]
    return list(dict.fromkeys(name for function in functions for name in names_of(function)))


def setting_names(optimizer: type[Optimizer]) -> tuple[str, ...]:
    """The settings that the rule (or its tick) asks for by name, in the order of the kernel's array."""
    known = {*GIVEN, *optimizer.state, *optimizer.clock}
    names = tuple(name for name in asked_for(optimizer) if name not in known)
    for name in names:
        if name not in {item.name for item in fields(optimizer)}:
            raise InputError(
                f"the rule of {optimizer.name} asks for {name!r}, which is neither g, w, t, random, state, clock nor a "
                "setting"
            )
    return names


@functools.cache
def names_of(function: Any) -> list[str]:
    """The names that a rule or a tick asks for."""
    return [parameter.name for parameter in rules.parameters(function)]


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


def wide_pays(dim: int) -> bool:
    """Whether wide tiles are quicker: with long vectors always, otherwise where a step has little to do."""
    return dim <= 64 or "avx512f" in _features()


@functools.cache
def _features() -> tuple[str, ...]:
    """What this machine's processor can do."""
    from llvmlite import binding

    return tuple(name for name, there in binding.get_host_cpu_features().items() if there)
