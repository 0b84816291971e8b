"""A rule as standalone source text: the function itself, the functions it calls and the constants it uses.

Everything a rule refers to is looked up when it is compiled, and copied into the kernel's text, so a cached kernel is
never stale. What cannot be copied (a list that may change, a module other than numpy and math) is refused, with the
line of the file that uses it.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import dis
import functools
import inspect
import linecache
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from quadsim import _validation as checks
from quadsim._source import parse
from quadsim._validation import InputError

PREFIX = "quadsim_rule_"  # of functions and constants in the text
MODULES = {np: "quadsim_numpy", math: "quadsim_math"}  # imported under names that rules do not use
HEADER = "import numpy as np\n" + "".join(f"import {module.__name__} as {name}\n" for module, name in MODULES.items())
MAX_MESSAGE = 190  # characters, so that a line with the program's name stays below 200
MIN_QUOTE = 20  # characters of the quoted line; fewer would not help


class RuleError(InputError):
    """A rule that cannot be used; the message begins with its file and line, and ends with the text of the line."""


def complaint(path: str, line: int, sentence: str, text: str | None = None) -> RuleError:
    """The error for a line of a file; the line's text is read from the file unless it is given."""
    text = " ".join((linecache.getline(path, line) if text is None else text).split())
    with contextlib.suppress(OSError, ValueError):  # no working directory, or another drive
        relative = os.path.relpath(path)
        path = path if relative.startswith("..") else relative
    message = f"{path}:{line}: {sentence}"
    room = MAX_MESSAGE - len(message) - len(": ")
    if len(text) > room:
        text = f"{text[: room - 1]}…" if room > MIN_QUOTE else ""
    return RuleError(f"{message}: {text}" if text else message)


@dataclass(frozen=True)
class Source:
    """A function with its parsed source text; line numbers are those of its file."""

    function: FunctionType
    tree: ast.FunctionDef

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def path(self) -> str:
        return self.function.__code__.co_filename

    @functools.cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters by name; raises unless each can be passed by name."""
        parameters = inspect.signature(self.function).parameters
        for parameter in parameters.values():
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                raise self.error(f"{parameter} must be a plain parameter, passed by name")
        return parameters

    def error(self, sentence: str, at: ast.AST | str | None = None) -> RuleError:
        """The error for a node of the function, for the parameter of this name, or for the function's first line."""
        if isinstance(at, str):
            at = next((node for node in ast.walk(self.tree) if isinstance(node, ast.arg) and node.arg == at), None)
        return complaint(self.path, getattr(at, "lineno", self.tree.lineno), sentence)


def source(function: Any) -> Source:
    """The function's source text, read once and stored with the function: its file may be edited later."""
    function = getattr(function, "py_func", function)  # wrapped by @njit
    if not isinstance(function, FunctionType):
        raise RuleError(f"a rule must be a function written in Python, got {checks.shown(function)}")
    stored = vars(function).get("__quadsim_source__")
    if stored is None or stored.function is not function:  # functools.wraps copies attributes
        stored = vars(function)["__quadsim_source__"] = _read_source(function)
    return stored


def parameter_names(function: Any) -> list[str]:
    """The parameters of a rule or a once_per_step function."""
    return list(source(function).parameters)


def _read_source(function: FunctionType) -> Source:
    """Find the function in its file; raises if it cannot be compiled or was defined by another text."""
    inner, name = inspect.unwrap(function), function.__name__
    code, path, line = inner.__code__, inner.__code__.co_filename, inner.__code__.co_firstlineno
    if inner is not function:
        raise complaint(path, line, f"{name} has a decorator, which cannot be compiled: remove it")
    if name == "<lambda>":
        raise complaint(path, line, "a rule must be a named function, not a lambda")
    linecache.checkcache(path)
    text = "".join(linecache.getlines(path, function.__globals__))
    if not text:
        raise RuleError(f"{name} has no source text to compile: define it in a file")
    match _definitions(text, path).get((line, _fingerprint(code))):
        case ast.FunctionDef() as tree:
            return Source(function, tree)
        case ast.AsyncFunctionDef():
            raise complaint(path, line, f"{name} is an async function, which cannot be compiled")
    raise complaint(path, line, f"the text of {name} has changed since it was loaded: load it again")


@functools.lru_cache(maxsize=64)
def _definitions(text: str, path: str) -> dict[Any, ast.AST]:
    """The functions of a file, nested ones too, by first line and fingerprint; none if it does not compile."""
    try:
        codes, tree = [compile(text, path, "exec", dont_inherit=True)], parse(text)
    except (SyntaxError, ValueError):
        return {}
    by_line = {
        min(part.lineno for part in [node, *node.decorator_list]): node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for code in codes:  # grows while it is read
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    located = [(code.co_firstlineno, _fingerprint(code)) for code in codes]
    return {key: by_line[key[0]] for key in located if key[0] in by_line}


def _fingerprint(code: CodeType) -> tuple[Any, ...]:
    """Equal for pieces of code that do the same under the same name, whatever their comments and layout."""
    constants = (_fingerprint(item) if isinstance(item, CodeType) else repr(item) for item in code.co_consts)
    return code.co_name, code.co_code, code.co_names, code.co_varnames, *constants


@dataclass
class Standalone:
    """The texts of functions and constants that together need nothing else; each has a unique name."""

    names: dict[Any, str] = field(default_factory=dict)  # by function, or by function and name of the constant
    parts: list[str] = field(default_factory=list)
    uses: list[tuple[FunctionType, str, Any]] = field(default_factory=list)  # function, name, value of the name
    bounds: bool = False  # whether indices are checked

    def add(self, function: Any, name: str | None = None) -> str:
        """Add a function with everything it uses; returns its name in the text."""
        parsed = source(function)
        if parsed.function in self.names:
            return self.names[parsed.function]
        named = name is not None  # the kernel calls it by this name, with every argument
        name = self.names[parsed.function] = name or f"{PREFIX}{len(self.names)}_{parsed.name}"
        _check_compilable(parsed)
        tree = _without_annotations(parsed.tree)
        for symbol, nodes in _outer_names(parsed, tree).items():
            try:
                value = _current(parsed.function, symbol)
            except ValueError:
                raise parsed.error(f"{parsed.name} uses {symbol!r} before it has a value", nodes[0]) from None
            self.uses.append((parsed.function, symbol, value))
            if value is not BUILT_IN:
                replacement = self._replacement(parsed, symbol, value, nodes[0])
                for node in nodes:
                    node.id = replacement  # may be no identifier: the tree is only unparsed
            elif not hasattr(builtins, symbol):
                raise parsed.error(f"{parsed.name} uses {symbol!r}, which is not defined", nodes[0])
        self.uses.append((parsed.function, DEFAULTS, parsed.function.__defaults__))
        defaults = [] if named else [literal(value) for value in parsed.function.__defaults__ or ()]
        if None in defaults:
            raise parsed.error(f"{parsed.name} has a default that is not a constant")
        tree.name, tree.args.defaults = name, [ast.Name(text) for text in defaults if text]
        flags = f"**{'JIT_INLINE' if named else 'JIT'}{', boundscheck=True' if self.bounds else ''}"
        self.parts.append(f"@njit({flags})\n{ast.unparse(tree)}\n")
        return name

    def _replacement(self, parsed: Source, symbol: str, value: Any, node: ast.AST) -> str:
        """The text that replaces a global or closure name of the function."""
        if isinstance(value, ModuleType):
            if value in MODULES:
                return MODULES[value]
            raise parsed.error(f"{parsed.name} uses the module {symbol!r}: a rule may use numpy and math only", node)
        if isinstance(getattr(value, "py_func", value), FunctionType):
            return self.add(value)
        known = str(getattr(value, "__name__", ""))
        for module, short in MODULES.items():
            if known and getattr(module, known, None) is value:
                return f"{short}.{known}"
        constant = literal(value)
        if constant is None:
            raise parsed.error(
                f"{parsed.name} uses {symbol!r}, a {type(value).__name__}, which may change after the "
                "rule is compiled: use a number, a tuple of numbers or a function, or make it a setting",
                node,
            )
        name = self.names[parsed.function, symbol] = f"{PREFIX}{len(self.names)}_{symbol}"
        self.parts.append(f"{name} = {constant}\n")
        return name

    @property
    def text(self) -> str:
        return "\n\n".join([HEADER, *self.parts])

    def is_current(self) -> bool:
        """Whether every name still has the same value: a constant or a helper may have been replaced since."""
        return all(_current(function, symbol) is value for function, symbol, value in self.uses)


def _without_annotations(tree: ast.FunctionDef) -> ast.FunctionDef:
    """A copy of the function without its decorators, defaults and annotations."""
    tree = copy.deepcopy(tree)
    tree.decorator_list, tree.returns, tree.args.defaults = [], None, []
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)  # the statement requires one
    return tree


REFUSED: tuple[tuple[Any, str], ...] = (
    (ast.Global | ast.Nonlocal, "changes a global, which a compiled rule cannot: use state"),
    (ast.Yield | ast.YieldFrom | ast.Await, "is a generator, which cannot be compiled"),
    (ast.FunctionDef | ast.Lambda, "contains a function: move it to the top level of the file"),
    (ast.Import | ast.ImportFrom, "contains an import: move it to the top of the file"),
)


def _check_compilable(parsed: Source) -> None:
    """Raise for statements that cannot be compiled."""
    for node in ast.walk(parsed.tree):
        for kinds, fault in REFUSED:
            if isinstance(node, kinds) and node is not parsed.tree:
                raise parsed.error(f"{parsed.name} {fault}", node)


def _outer_names(parsed: Source, tree: ast.FunctionDef) -> dict[str, list[ast.Name]]:
    """The global and closure names that the function uses, each with the nodes of its uses."""
    names = [node for statement in tree.body for node in ast.walk(statement) if isinstance(node, ast.Name)]
    local = {*parsed.function.__code__.co_varnames, *(node.id for node in names if not isinstance(node.ctx, ast.Load))}
    ambiguous = local & _global_names(parsed.function.__code__)
    outer: dict[str, list[ast.Name]] = {}
    for node in names:
        if node.id in ambiguous:
            raise parsed.error(f"{node.id!r} is both a local variable and a global name: rename one of them", node)
        if node.id not in local:
            outer.setdefault(node.id, []).append(node)
    return outer


def _global_names(code: CodeType) -> set[str]:
    """The global names that the function, or a comprehension in it, loads."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


DEFAULTS = "(defaults)"  # stands for the defaults of a function's parameters, in `Standalone.uses`
BUILT_IN = object()  # the value of a name that the module does not define


def _current(function: FunctionType, symbol: str) -> Any:
    """The value of a name that the function uses; ValueError if it is a closure variable without a value."""
    if symbol == DEFAULTS:
        return function.__defaults__
    if symbol in function.__code__.co_freevars and function.__closure__ is not None:
        return function.__closure__[function.__code__.co_freevars.index(symbol)].cell_contents
    return function.__globals__.get(symbol, BUILT_IN)


def literal(value: Any) -> str | None:
    """A constant as source text that reads back as the same value, every float to its last bit; None for others."""
    if isinstance(value, tuple):
        items = [literal(item) for item in value]
        return None if None in items else "(" + "".join(f"{item}, " for item in items) + ")"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": "np.inf", "-inf": "(-np.inf)", "nan": "np.nan"}[str(float(value))]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return repr(kind(value))  # also for members of an Enum
    return "None" if value is None else None


def may_end(body: list[ast.stmt]) -> bool:
    """Whether the end of the statements can be reached without a `return`."""
    last = body[-1]
    if isinstance(last, ast.If):
        return not last.orelse or may_end(last.body) or may_end(last.orelse)
    if isinstance(last, ast.While) and isinstance(last.test, ast.Constant) and last.test.value:
        return False
    return not isinstance(last, ast.Return | ast.Raise)


def returned(tree: ast.FunctionDef) -> Iterator[tuple[ast.Return, int]]:
    """Each `return` whose number of values is visible in the text, with that number."""
    for node in ast.walk(tree):
        match node:
            case ast.Return(value=None | ast.Constant(value=None)):
                yield node, 0
            case ast.Return(value=ast.Tuple(elts=values)):
                yield node, len(values)
            case ast.Return(value=ast.BinOp() | ast.UnaryOp() | ast.Constant()):
                yield node, 1
