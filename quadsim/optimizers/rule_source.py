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
import importlib
import inspect
import io
import linecache
import math
import os
import textwrap
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from quadsim import _files
from quadsim import _validation as checks
from quadsim._validation import InputError

MODULES = {"numpy": "quadsim_numpy", "math": "quadsim_math"}  # imported under names that rules do not use
MAX_BYTES = 2**20  # of a file of rules
HEADER = "".join(f"import {module} as {name}\n" for module, name in MODULES.items())
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
    """A function with its parsed source text and its location."""

    function: FunctionType
    path: str
    first: int  # the line of the file on which the text begins
    tree: ast.FunctionDef

    @property
    def name(self) -> str:
        return self.function.__name__

    def error(self, sentence: str, at: ast.AST | str | None = None) -> RuleError:
        """The error for a node of the function, for the parameter of this name, or for the function's first line."""
        if isinstance(at, str):
            at = next((node for node in ast.walk(self.tree) if isinstance(node, ast.arg) and node.arg == at), None)
        line = getattr(at or self.tree, "lineno", 1)
        return complaint(self.path, line + self.first - 1, sentence)


def source(function: Any) -> Source:
    """The function's source text; raises if the file has changed since the function was defined."""
    function = _plain(function)
    kept = getattr(function, "__quadsim_source__", None)
    return kept if isinstance(kept, Source) else _source_now(function)


def keep_source(function: Any) -> Source:
    """The function's current text, stored with the function: its file may be edited before it is compiled."""
    function = _plain(function)
    function.__quadsim_source__ = _source_now(function)
    return function.__quadsim_source__


def _plain(function: Any) -> FunctionType:
    """The Python function behind an object, if its own source text can be compiled."""
    function = getattr(function, "py_func", function)  # wrapped by @njit
    if not isinstance(function, FunctionType):
        raise RuleError(f"a rule must be a function written in Python, got {checks.shown(function)}")
    inner = inspect.unwrap(function)
    path, line = inner.__code__.co_filename, inner.__code__.co_firstlineno
    if inner is not function:
        raise complaint(path, line, f"{function.__name__} has a decorator, which cannot be compiled: remove it")
    if function.__name__ == "<lambda>":
        raise complaint(path, line, "a rule must be a named function, not a lambda")
    return function


def _source_now(function: FunctionType) -> Source:
    """The function's text in the file now; raises if the function was defined by another text."""
    path = function.__code__.co_filename
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        raise RuleError(f"{function.__name__} has no source text to compile: define it in a file") from None
    text = "".join(linecache.getlines(path, function.__globals__))
    code = function.__code__
    unchanged = (code.co_firstlineno, _fingerprint(code)) in _fingerprints(text, path)
    match tree:
        case ast.AsyncFunctionDef():
            raise complaint(path, first, f"{function.__name__} is an async function, which cannot be compiled")
        case ast.FunctionDef(name=function.__name__) if unchanged:
            return Source(function, path, first, tree)
    raise complaint(path, first, f"the text of {function.__name__} has changed since it was loaded: load it again")


@functools.lru_cache(maxsize=64)
def _fingerprints(text: str, path: str) -> list[tuple[int, Any]]:
    """The first line and the fingerprint of every function of a file, nested ones too; none if it does not compile."""
    codes: list[CodeType] = []
    with contextlib.suppress(SyntaxError, ValueError):
        codes.append(compile(text, path, "exec", dont_inherit=True))
    for code in codes:  # grows while it is read
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [(code.co_firstlineno, _fingerprint(code)) for code in codes]


def _fingerprint(code: CodeType) -> tuple[Any, ...]:
    """Equal for pieces of code that do the same under the same name, whatever their comments and layout."""
    constants = [_fingerprint(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return code.co_name, code.co_code, code.co_names, code.co_varnames, constants


@dataclass
class Standalone:
    """The texts of functions and constants that together need nothing else; each has a unique name."""

    prefix: str
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
        name = name or f"{self.prefix}{len(self.names)}_{parsed.name}"
        self.names[parsed.function] = name
        _check_compilable(parsed)
        replacements = {}
        for symbol, node in _outer_names(parsed):
            try:
                value = _current(parsed.function, symbol)
            except ValueError:
                raise parsed.error(f"{parsed.name} uses {symbol!r} before it has a value", node) from None
            self.uses.append((parsed.function, symbol, value))
            if value is not BUILT_IN:
                replacements[symbol] = self._replacement(parsed, symbol, value, node)
            elif not hasattr(builtins, symbol):
                raise parsed.error(f"{parsed.name} uses {symbol!r}, which is not defined", node)
        tree = ast.fix_missing_locations(_Standalone(replacements).visit(copy.deepcopy(parsed.tree)))
        tree.name = name
        self.uses.append((parsed.function, DEFAULTS, parsed.function.__defaults__))
        defaults = () if named else parsed.function.__defaults__ or ()
        if not all(map(_is_constant, defaults)):
            raise parsed.error(f"{parsed.name} has a default that is not a constant")
        tree.args.defaults = [_expression(literal(value)) for value in defaults]
        flags = f"**{'JIT_INLINE' if named else 'JIT'}{', boundscheck=True' if self.bounds else ''}"
        self.parts.append(f"@njit({flags})\n{ast.unparse(tree)}\n")
        return name

    def _replacement(self, parsed: Source, symbol: str, value: Any, node: ast.AST) -> str:
        """The text that replaces a global or closure name of the function."""
        if isinstance(value, ModuleType):
            if value.__name__ in MODULES:
                return MODULES[value.__name__]
            raise parsed.error(f"{parsed.name} uses the module {symbol!r}: a rule may use numpy and math only", node)
        if isinstance(getattr(value, "py_func", value), FunctionType):
            return self.add(value)
        known = getattr(value, "__name__", None)
        for module, short in MODULES.items():
            if isinstance(known, str) and getattr(importlib.import_module(module), known, None) is value:
                return f"{short}.{known}"
        if not _is_constant(value):
            raise parsed.error(
                f"{parsed.name} uses {symbol!r}, a {type(value).__name__}, which may change after the "
                "rule is compiled: use a number, a tuple of numbers or a function, or make it a setting",
                node,
            )
        name = self.names[parsed.function, symbol] = f"{self.prefix}{len(self.names)}_{symbol}"
        self.parts.append(f"{name} = {literal(value)}\n")
        return name

    @property
    def text(self) -> str:
        return "\n\n".join([HEADER, *self.parts])

    def is_current(self) -> bool:
        """Whether every name still has the same value: a constant or a helper may have been replaced since."""
        return all(_current(function, symbol) is value for function, symbol, value in self.uses)


class _Standalone(ast.NodeTransformer):
    """Replace global and closure names by their text, and drop decorators and annotations."""

    def __init__(self, replacements: dict[str, str]) -> None:
        self.replacements = replacements

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list, node.returns = [], None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return _expression(self.replacements[node.id]) if node.id in self.replacements else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return ast.Pass() if node.value is None else self.visit(ast.Assign([node.target], node.value))


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


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


def _outer_names(parsed: Source) -> Iterator[tuple[str, ast.AST]]:
    """The global and closure names that the function uses, each with the node of its first use."""
    body = [node for statement in parsed.tree.body for node in ast.walk(statement)]
    annotations = {id(inner) for node in body if isinstance(node, ast.AnnAssign) for inner in ast.walk(node.annotation)}
    names = [node for node in body if isinstance(node, ast.Name)]
    local = {*parsed.function.__code__.co_varnames, *(node.id for node in names if not isinstance(node.ctx, ast.Load))}
    outer = _global_names(parsed.function.__code__)
    seen: set[str] = set()
    for node in names:
        if node.id in local & outer:
            raise parsed.error(f"{node.id!r} is both a local variable and a global name: rename one of them", node)
        if node.id not in local | seen and id(node) not in annotations:
            seen.add(node.id)
            yield node.id, node


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


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_constant(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str | np.bool_ | np.integer | np.floating)


def literal(value: Any) -> str:
    """A constant as source text that reads back as the same value, every float to its last bit."""
    if isinstance(value, tuple):
        return "(" + "".join(f"{literal(item)}, " for item in value) + ")"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": "np.inf", "-inf": "(-np.inf)", "nan": "np.nan"}[str(float(value))]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return repr(kind(value))  # also for members of an Enum
    return repr(value)


def parameters(function: Any) -> list[inspect.Parameter]:
    """The rule's parameters; raises unless each can be passed by name."""
    parsed = source(function)
    listed = list(inspect.signature(parsed.function).parameters.values())
    for parameter in listed:
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            sign = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
            raise parsed.error(f"{sign}{parameter.name} must be a plain parameter, passed by name")
    return listed


def may_end(body: list[ast.stmt]) -> bool:
    """Whether the end of the statements can be reached without a `return`."""
    last = body[-1]
    if isinstance(last, ast.If):
        return not last.orelse or may_end(last.body) or may_end(last.orelse)
    if isinstance(last, ast.While) and isinstance(last.test, ast.Constant) and last.test.value:
        return False
    return not isinstance(last, ast.Return | ast.Raise)


def returned(function: Any) -> Iterator[tuple[ast.Return, int]]:
    """Each `return` whose number of values is visible in the text, with that number."""
    for node in ast.walk(source(function).tree):
        match node:
            case ast.Return(value=None | ast.Constant(value=None)):
                yield node, 0
            case ast.Return(value=ast.Tuple(elts=values)):
                yield node, len(values)
            case ast.Return(value=ast.BinOp() | ast.UnaryOp() | ast.Constant()):
                yield node, 1


def load(path: str, name: str) -> None:
    """Run a file of rules as a module; errors are reported with their line."""
    text = _files.read_text("rules", path, at_most=MAX_BYTES)
    lines = io.StringIO(text).readlines()
    linecache.cache[path] = len(text), None, lines, path  # error messages quote the text that runs
    module = ModuleType(name)
    module.__file__ = path
    try:
        exec(compile(text, path, "exec"), module.__dict__)
    except (RuleError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        raise complaint(error.filename or path, error.lineno or 1, f"not Python ({error.msg})", error.text) from None
    except BaseException as error:  # SystemExit too
        numbers = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        message = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise complaint(path, (numbers[-1] if numbers else None) or 1, message) from None
