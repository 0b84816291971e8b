"""A rule as text that stands alone: the function itself, the functions it calls and the constants it uses.

What a rule refers to is found when it is compiled, and put into the kernel's text; so a kernel is never older than
anything it was made from. Whatever cannot be put there (a list that may change, a module that is not numpy or math)
is refused, with the line of the file on which it stands.
"""

from __future__ import annotations

import ast
import builtins
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
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from quadsim import _files, checks
from quadsim.checks import InputError

MODULES = {"numpy": "quadsim_numpy", "math": "quadsim_math"}  # under names that nobody gives to something else
MOST_BYTES = 2**20  # of a file of rules
HEADER = "".join(f"import {module} as {name}\n" for module, name in MODULES.items())


MAX_MESSAGE = 190  # characters of a message, so that a line with the program's name stays below 200
MIN_QUOTE = 20  # of the line that is wrong; less would not help


class RuleError(InputError):
    """A rule that cannot be used; the message begins with its file and line, and ends with what stands there."""


def complaint(path: str, line: int, sentence: str, text: str | None = None) -> RuleError:
    """The error for a line of a file."""
    text = " ".join((linecache.getline(path, line) if text is None else text).split())
    message = f"{shown_path(path)}:{line}: {sentence}"
    room = MAX_MESSAGE - len(message) - len(": ")
    if len(text) > room:
        text = f"{text[: room - 1]}…" if room > MIN_QUOTE else ""
    return RuleError(f"{message}: {text}" if text else message)


def shown_path(path: str) -> str:
    """A path as people know it: from where they stand, if it lies below."""
    try:
        near = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    return path if near.startswith("..") else near


@dataclass(frozen=True)
class Source:
    """A function's own text, parsed, and where it stands."""

    function: FunctionType
    path: str
    first: int  # the line of its file on which the text begins
    tree: ast.FunctionDef

    def error(self, node: ast.AST, sentence: str) -> RuleError:
        line = getattr(node, "lineno", 1) + self.first - 1
        return complaint(self.path, line, sentence)


def source(function: Any) -> Source:
    """The function's text, if it is the text that the function was made from."""
    function = _plain(function)
    kept = getattr(function, "__quadsim_source__", None)
    return kept if isinstance(kept, Source) else _source_now(function)


def keep_source(function: Any) -> None:
    """Remember the function's text as it is now: its file may be edited before it is compiled."""
    function = _plain(function)
    function.__quadsim_source__ = _source_now(function)


def _plain(function: Any) -> FunctionType:
    """The function itself, if it is one that has a text of its own."""
    function = getattr(function, "py_func", function)  # what @njit has wrapped
    if not isinstance(function, FunctionType):
        raise RuleError(f"a rule must be a function written in Python, got {checks.shown(function)}")
    inner = inspect.unwrap(function)
    path, line = inner.__code__.co_filename, inner.__code__.co_firstlineno
    if inner is not function:
        raise complaint(path, line, f"{function.__name__} has a decorator, which cannot be compiled: leave it out")
    if function.__name__ == "<lambda>":
        raise complaint(path, line, "a rule must be a function of its own, not a lambda")
    return function


def _source_now(function: FunctionType) -> Source:
    """The text that the file has now where the function was defined, if the function was made from it."""
    path = function.__code__.co_filename
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        raise RuleError(f"{function.__name__} has no source text to compile: define it in a file") from None
    if isinstance(tree, ast.AsyncFunctionDef):
        raise complaint(path, first, f"{function.__name__} is an async function, which cannot be compiled")
    if not isinstance(tree, ast.FunctionDef) or tree.name != function.__name__ or not _same_code(function):
        raise complaint(path, first, f"the text of {function.__name__} has changed since it was loaded: load it again")
    return Source(function, path, first, tree)


def _same_code(function: FunctionType) -> bool:
    """Whether the file, as it is now, has the function's own code where the function was defined."""
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    there = _codes(text, code.co_filename).get((code.co_name, code.co_firstlineno))
    return there is not None and _essence(there) == _essence(code)


@functools.lru_cache(maxsize=64)
def _codes(text: str, path: str) -> dict[tuple[str, int], CodeType]:
    """Every function of a file, by name and line."""
    try:
        waiting = [compile(text, path, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return {}
    found = {}
    while waiting:
        code = waiting.pop()
        found[code.co_name, code.co_firstlineno] = code
        waiting += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return found


def _essence(code: CodeType) -> tuple[Any, ...]:
    constants = [repr(_essence(c)) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, constants


def _undecorated(tree: ast.FunctionDef) -> ast.FunctionDef:
    plain = copy.deepcopy(tree)
    plain.decorator_list, plain.returns = [], None
    for argument in _parameters(plain):
        argument.annotation = None
    return plain


def _parameters(tree: ast.FunctionDef) -> list[ast.arg]:
    arguments = tree.args
    rest = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]


@dataclass
class Standalone:
    """Texts of functions and constants that together stand alone; each has a name that nothing else has."""

    prefix: str
    names: dict[int, str] = field(default_factory=dict)  # by the identity of what is named
    parts: list[str] = field(default_factory=list)
    uses: list[tuple[FunctionType, str, Any]] = field(default_factory=list)  # what a name meant to a function
    bounds: bool = False  # whether indices are checked

    def add(self, function: Any, name: str | None = None) -> str:
        """Add a function with everything it uses; the name it has in the text."""
        own = source(function)
        if id(own.function) in self.names:
            return self.names[id(own.function)]
        named = name is not None  # by whoever calls it, with every argument
        name = name or f"{self.prefix}{len(self.names)}_{own.function.__name__}"
        self.names[id(own.function)] = name
        tree = _undecorated(own.tree)
        _check_kind(own)
        known = {}
        for word, node in _outer_names(own):
            if not _known(own.function, word) and hasattr(builtins, word):
                self.uses.append((own.function, word, BUILT_IN))
            else:
                known[word] = self._value(own, word, node)
        tree = ast.fix_missing_locations(_Renamed(known).visit(tree))
        tree.name = name
        tree.args.defaults = [] if named else [self._constant(own, value) for value in own.function.__defaults__ or ()]
        self.uses.append((own.function, DEFAULTS, own.function.__defaults__))
        flags = f"**{'HOT' if named else 'FLAGS'}{', boundscheck=True' if self.bounds else ''}"
        self.parts.append(f"@njit({flags})\n{ast.unparse(tree)}\n")
        return name

    def _value(self, own: Source, word: str, node: ast.AST) -> str:
        """What stands in the text for a name of the function's surroundings."""
        value = _looked_up(own, word, node)
        self.uses.append((own.function, word, value))
        if isinstance(value, ModuleType):
            if value.__name__ in MODULES:
                return MODULES[value.__name__]
            raise own.error(
                node,
                f"{own.function.__name__} uses the module {word!r}: of modules, a rule may use numpy and math only",
            )
        if isinstance(value, FunctionType) or isinstance(getattr(value, "py_func", None), FunctionType):
            return self.add(value)
        for module, short in MODULES.items():
            known = getattr(value, "__name__", None)
            if isinstance(known, str) and getattr(importlib.import_module(module), known, None) is value:
                return f"{short}.{known}"
        if not _is_constant(value):
            raise own.error(
                node,
                f"{own.function.__name__} uses {word!r}, a {type(value).__name__}, which may change after the rule is "
                "compiled: use a number, a tuple of numbers or a function, or make it a setting",
            )
        name = f"{self.prefix}{len(self.names)}_{word}"
        self.names[-1 - len(self.names)] = name  # a constant has no identity of its own
        self.parts.append(f"{name} = {literal(value)}\n")
        return name

    def _constant(self, own: Source, value: Any) -> ast.expr:
        if not _is_constant(value):
            raise own.error(own.tree, f"{own.function.__name__} has a default that is not a constant")
        return ast.parse(literal(value), mode="eval").body

    @property
    def text(self) -> str:
        return "\n\n".join([HEADER, *self.parts])

    def is_current(self) -> bool:
        """Whether every name still means what it meant: a constant or a helper may have been changed since."""
        return all(_current(function, word) is value for function, word, value in self.uses)


class _Renamed(ast.NodeTransformer):
    """Names of the surroundings replaced by what stands for them in the text; annotations dropped."""

    def __init__(self, known: dict[str, str]) -> None:
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.parse(self.known[node.id], mode="eval").body if node.id in self.known else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return ast.Pass()
        return self.visit(ast.Assign([node.target], node.value))


def _check_kind(own: Source) -> None:
    """Refuse what can never be compiled."""
    for node in ast.walk(own.tree):
        if isinstance(node, ast.Global | ast.Nonlocal):
            raise own.error(node, f"{own.function.__name__} changes a global, which a compiled rule cannot: use state")
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            raise own.error(node, f"{own.function.__name__} is a generator, which cannot be compiled")
        if isinstance(node, ast.FunctionDef | ast.Lambda) and node is not own.tree:
            raise own.error(
                node, f"{own.function.__name__} has a function inside: move it out, to the file's top level"
            )
        if isinstance(node, ast.Import | ast.ImportFrom):
            raise own.error(node, f"{own.function.__name__} imports inside: move the import to the file's top")


def _outer_names(own: Source) -> Iterator[tuple[str, ast.AST]]:
    """The names that the function takes from its surroundings, each with the first place where it does."""
    local = {argument.arg for argument in _parameters(own.tree)}
    body = [node for statement in own.tree.body for node in ast.walk(statement)]
    local |= {node.id for node in body if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    seen: set[str] = set()
    outer = _global_names(own.function.__code__)
    annotations = {id(inner) for node in body if isinstance(node, ast.AnnAssign) for inner in ast.walk(node.annotation)}
    for node in body:
        if isinstance(node, ast.Name) and node.id in local & outer:
            raise own.error(
                node, f"{node.id!r} is a variable here and a name of the file too: call one of them otherwise"
            )
        if isinstance(node, ast.Name) and node.id not in local | seen and id(node) not in annotations:
            seen.add(node.id)
            yield node.id, node


def _global_names(code: CodeType) -> set[str]:
    """The names that the function, or a comprehension in it, takes from outside."""
    found = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= _global_names(inner)
    return found


def _known(function: FunctionType, word: str) -> bool:
    return word in function.__code__.co_freevars or word in function.__globals__


def _looked_up(own: Source, word: str, node: ast.AST) -> Any:
    function = own.function
    if not _known(function, word):
        raise own.error(node, f"{function.__name__} uses {word!r}, which is not defined")
    try:
        return _current(function, word)
    except ValueError:
        raise own.error(node, f"{function.__name__} uses {word!r} before it has a value") from None


DEFAULTS = "(defaults)"  # in the place of a name: the defaults of a function's parameters
BUILT_IN = object()  # what a name means that its module does not define


def _current(function: FunctionType, word: str) -> Any:
    if word == DEFAULTS:
        return function.__defaults__
    if word in function.__code__.co_freevars and function.__closure__ is not None:
        return function.__closure__[function.__code__.co_freevars.index(word)].cell_contents
    return function.__globals__.get(word, BUILT_IN)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_constant(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str | np.bool_ | np.integer | np.floating)


def literal(value: Any) -> str:
    """A constant as it is written: every float to its last bit."""
    if isinstance(value, tuple):
        return "(" + "".join(f"{literal(item)}, " for item in value) + ")"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": "np.inf", "-inf": "(-np.inf)", "nan": "np.nan"}[str(float(value))]
    if value is None or isinstance(value, bool):
        return repr(value)
    plain = next(kind for kind in (int, float, str) if isinstance(value, kind))
    return repr(plain(value))  # members of an Enum are written as what they are


def parameters(function: Any) -> list[inspect.Parameter]:
    """The rule's parameters; only plain ones can be found by name."""
    own = source(function)
    found = list(inspect.signature(own.function).parameters.values())
    for parameter in found:
        if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            sign = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
            raise own.error(own.tree, f"the rule has the parameter {sign}{parameter.name}: only plain ones are known")
    return found


def returns(function: Any) -> Iterator[ast.Return]:
    """Each `return` of the function."""
    return (node for node in ast.walk(source(function).tree) if isinstance(node, ast.Return))


def may_end(body: list[ast.stmt]) -> bool:
    """Whether the statements can come to their end without a `return`."""
    last = body[-1]
    if isinstance(last, ast.If):
        return not last.orelse or may_end(last.body) or may_end(last.orelse)
    if isinstance(last, ast.While) and isinstance(last.test, ast.Constant) and last.test.value:
        return False
    return not isinstance(last, ast.Return | ast.Raise)


def returned(function: Any) -> Iterator[tuple[ast.Return, int]]:
    """Each `return` whose number of values can be read off, with that number."""
    for node in returns(function):
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield node, 0
        elif isinstance(node.value, ast.Tuple):
            yield node, len(node.value.elts)
        elif isinstance(node.value, ast.BinOp | ast.UnaryOp | ast.Constant):
            yield node, 1


def load(path: str, name: str) -> ModuleType:
    """Run a file of rules as a module of its own; errors are reported with their line."""
    text = _files.read_text("rules", path, at_most=MOST_BYTES)
    linecache.cache[path] = (len(text), None, io.StringIO(text).readlines(), path)  # the text that was run
    module = ModuleType(name)
    module.__file__ = path
    try:
        exec(compile(text, path, "exec"), module.__dict__)
    except RuleError:
        raise
    except SyntaxError as error:
        raise complaint(error.filename or path, error.lineno or 1, f"not Python ({error.msg})", error.text) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too
        line = _line_within(error, path)
        raise complaint(path, line, f"{type(error).__name__}: {' '.join(str(error).split())}") from None
    return module


def _line_within(error: BaseException, path: str) -> int:
    """The last line of the file that the error passed through."""
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
