"""The syntax of this package: what each definition uses, and hashes without comments, docstrings and layout.

`code` decides with it which modules a cell depends on. Nothing is imported or run.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import quadsim
from quadsim.checks import InputError

PACKAGE = __name__.partition(".")[0]
FOLDER = Path(__file__).parents[1]
DIGITS = 16  # of a hash in hexadecimal, as it is stored
IGNORED_FIELDS = ("ctx", "kind", "type_comment")
LOOSE = ""  # in the place of a name: the statements of a module that define none, which run when it is imported

Symbol = tuple[str, str]  # a module, and a name that it defines
Imports = dict[str, list[tuple[str, ...]]]  # by the name that is bound: a module, and the name in it


def inside(module: str) -> bool:
    """Whether a module is one of this package."""
    return module.partition(".")[0] == PACKAGE


@cache
def module(name: str) -> Module:
    path = _path(name)
    if path is None:
        raise InputError(f"the source of {name} is missing: a cell cannot be named by the code that computes it")
    found = Module(name, path.name == "__init__.py", path.read_text(encoding="utf-8"))
    found.edited = quadsim._LOAD_TIME < path.stat().st_mtime_ns <= time.time_ns()  # beyond: by another clock
    return found


@cache
def _path(name: str) -> Path | None:
    """The file of a module of this package."""
    if not inside(name):
        return None
    place = FOLDER.joinpath(*name.split(".")[1:])
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


class Uses(NamedTuple):
    """What a definition refers to, and what it loads."""

    symbols: list[Symbol]  # of this package
    packages: set[str]  # other ones
    meanings: list[str]  # each name that it takes from its module, with the symbols that the name stands for
    loads: set[str]  # modules of this package that it imports


class Module:
    """A module's syntax: what it imports, what it defines, and what each definition uses."""

    edited = False  # after quadsim was imported: this text may not be the code that runs

    def __init__(self, name: str, package: bool, text: str) -> None:
        self.name, tree = name, ast.parse(text)
        self.digest = hashed(*map(_dumped, _without_docstring(tree)))
        self._folder = name if package else name.rpartition(".")[0]
        self._imports = self._imported(tree)
        self._nodes: dict[str, list[ast.AST]] = {LOOSE: []}
        self._uses: dict[str, Uses] = {}
        self._body = tree.body
        for node in tree.body:
            for defined in _defined(node):
                self._nodes.setdefault(defined, []).append(node)

    def uses(self, name: str) -> Uses:
        """What a definition uses; for LOOSE, what importing the module does."""
        if name not in self._uses:
            self._uses[name] = self._used(name)
        return self._uses[name]

    def _used(self, name: str) -> Uses:
        used = Uses([], set(), [], set())
        if name == LOOSE:
            used.loads.update(self._loaded([node for node in self._body if not _for_type_checking(node)], within=False))
            self._starred(used, self._imports)
        for node in self._nodes.get(name, []):
            scope = _Scope()
            scope.visit(node)
            within = self._imported(node) if scope.imports else {}
            used.loads.update(self._loaded([node], within=True) if scope.imports else ())
            for chain, compared in sorted(scope.chains):
                found: list[Symbol] = []
                for module, *names in self._bindings(chain[0], within):
                    if inside(module):
                        found += _resolved(module, (*names, *chain[1:]))
                    else:
                        used.packages.update({module.partition(".")[0]} - sys.stdlib_module_names)
                if found:
                    used.meanings.append(f"{'.'.join(chain)} = {sorted(set(found))}")
                    used.symbols.extend(one for one in found if not (compared and _is_class(one)))
            for module in scope.modules:
                used.symbols.extend(_resolved(module, ()))
        return used

    def _bindings(self, name: str, within: Imports) -> list[tuple[str, ...]]:
        """All that a name may stand for: imports in branches or in two methods may bind it to different things."""
        own = [(self.name, name)] if name in self._nodes else []
        return [*within.get(name, []), *self._imports.get(name, []), *own]

    def _loaded(self, body: list[Any], *, within: bool) -> Iterator[str]:
        """Modules that imports load: what is named, if it is a module, and the packages around it but the first."""
        for node in _statements(body, within=within):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{self._base(node)}.{alias.name}" for alias in node.names]
            for parts in (name.split(".") for name in names):
                above = (".".join(parts[: k + 1]) for k in range(1, len(parts)))
                yield from (name for name in above if _path(name) is not None)

    def _starred(self, used: Uses, imports: Imports) -> None:
        """A star import counts with all that its module defines."""
        for module, _ in imports.get("*", []):
            if inside(module):
                used.symbols.extend(_resolved(module, ()))
            else:
                used.packages.update({module.partition(".")[0]} - sys.stdlib_module_names)

    def all(self) -> Iterator[Symbol]:
        """Everything that the module defines or passes on."""
        yield from ((self.name, name) for name in self._nodes)
        for module, *names in (one for found in self._imports.values() for one in found):
            if inside(module) and (module, *names) != (self.name, "*"):
                yield from _resolved(module, tuple(names))

    def passes_on(self, name: str) -> list[tuple[str, ...]]:
        """The modules, and the names in them, that a name is imported from; any name, where all are imported."""
        starred = [(module, name) for module, _ in self._imports.get("*", []) if inside(module)]
        return [*self._imports.get(name, []), *(one for one in starred if module(one[0]).provides(name))]

    def provides(self, name: str) -> bool:
        return self.defines(name) or bool(self.passes_on(name))

    def runs(self) -> bool:
        """Whether importing it does more than to define names."""
        return bool(self._nodes[LOOSE])

    def defines(self, name: str) -> bool:
        return name in self._nodes

    def is_class(self, name: str) -> bool:
        return all(isinstance(node, ast.ClassDef) for node in self._nodes[name])

    def _imported(self, tree: ast.AST) -> Imports:
        """The modules, and the names in them, that imports bind; those for type checking too, which nothing uses."""
        found: Imports = {}
        body = tree.body if isinstance(tree, ast.Module) else [tree]
        for node in _statements(body, within=not isinstance(tree, ast.Module)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    found.setdefault(alias.asname or first, []).append((alias.name if alias.asname else first,))
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    found.setdefault(alias.asname or alias.name, []).append((self._base(node), alias.name))
        return found

    def _base(self, node: ast.ImportFrom) -> str:
        """The module that names are imported from."""
        if not node.level:
            return node.module or ""
        above = self._folder.split(".")[: len(self._folder.split(".")) - node.level + 1]
        return ".".join([*above, *([node.module] if node.module else [])])


def _statements(body: list[Any], *, within: bool) -> Iterator[ast.AST]:
    """Statements that may be imports: of a module's own level (in its `if` and `try` too), or anywhere within."""
    for node in body:
        if within or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from ast.walk(node)


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines; LOOSE for one that does something else."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    names = [one.id for target in targets for one in _flat(target) if isinstance(one, ast.Name)]
    if len(names) == sum(1 for target in targets for _ in _flat(target)) > 0:
        return names
    if isinstance(node, ast.Import | ast.ImportFrom) or _for_type_checking(node) or _is_docstring(node):
        return []
    inner = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    inner += [one.name for one in ast.walk(node) if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    return [LOOSE, *inner]


def _for_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _flat(one)
    else:
        yield target


@cache
def _resolved(name: str, names: tuple[str, ...]) -> tuple[Symbol, ...]:
    """Where a name in a module is defined: through re-exports, or in a submodule.

    A module that is used as a value counts with all that it defines, and so does one whose names are found at run time.
    """
    own = module(name)
    if not names:
        return tuple(own.all()) if name != PACKAGE else ()
    first, rest = names[0], names[1:]
    found: tuple[Symbol, ...] = ((name, first),) if own.defines(first) else ()
    passed = [one for one in own.passes_on(first) if one != (name, first)]
    for source, *there in passed:
        found += _resolved(source, (*there, *rest)) if inside(source) else ()
    if found or passed:
        return found
    if _path(f"{name}.{first}") is not None:
        return _resolved(f"{name}.{first}", rest)
    return tuple(own.all()) if name != PACKAGE else ()


def _is_class(symbol: Symbol) -> bool:
    return symbol[1] != LOOSE and module(symbol[0]).is_class(symbol[1])


class _Scope(ast.NodeVisitor):
    """The names that a definition takes from its module, each with the attributes asked of it.

    ``chains`` holds (name, attributes…) and whether it is only compared: in `isinstance`, or as the key of a dict.
    """

    def __init__(self) -> None:
        self.chains: set[tuple[tuple[str, ...], bool]] = set()
        self.modules: list[str] = []  # of this package that are named in a text, as for `import_module`
        self.imports = False
        self._local: list[set[str]] = []

    def _note(self, chain: list[str], compared: bool = False) -> None:
        if not any(chain[0] in names for names in self._local):
            self.chains.add((tuple(chain), compared))

    def visit_Name(self, node: ast.Name) -> None:
        self._note([node.id])

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.startswith(f"{PACKAGE}.") and _path(node.value) is not None:
            self.modules.append(node.value)

    def visit_Attribute(self, node: ast.Attribute, compared: bool = False) -> None:
        chain, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            chain.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            self._note([inner.id, *reversed(chain)], compared)
        else:
            self.visit(inner)

    def _compare(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self._note([node.id], compared=True)
        elif isinstance(node, ast.Attribute):
            self.visit_Attribute(node, compared=True)
        elif isinstance(node, ast.Tuple):
            for one in node.elts:
                self._compare(one)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            self._compare(node.left)
            self._compare(node.right)
        else:
            self.visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        test = isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass") and len(node.args) == 2
        self.visit(node.func)
        for number, argument in enumerate(node.args):
            (self._compare if test and number == 1 else self.visit)(argument)
        for keyword in node.keywords:
            self.visit(keyword.value)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key in node.keys:
            if key is not None:
                self._compare(key)
        for value in node.values:
            self.visit(value)

    def visit_Import(self, node: ast.Import) -> None:
        self.imports = True

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.imports = True

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        for outer in (*getattr(node, "decorator_list", []), *node.args.defaults, *node.args.kw_defaults):
            if outer is not None:
                self.visit(outer)
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        body = node.body if isinstance(node.body, list) else [node.body]
        self._within({one.arg for one in arguments if one is not None} | _assigned(body), body)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def _comprehension(self, node: Any) -> None:
        names = {one.id for part in node.generators for one in ast.walk(part.target) if isinstance(one, ast.Name)}
        self.visit(node.generators[0].iter)
        self._within(names, list(ast.iter_child_nodes(node)))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _within(self, local: set[str], body: list[Any]) -> None:
        self._local.append(local)
        for one in body:
            self.visit(one)
        self._local.pop()


SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # with variables of their own


def _assigned(body: list[Any]) -> set[str]:
    """The names that are local to a function with this body, nested scopes apart; imports are not, here."""
    found: set[str] = set()
    outer: set[str] = set()
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        kind = node.__class__
        if kind is ast.Name:
            if node.ctx.__class__ is not ast.Load:
                found.add(node.id)
            continue
        if kind in DOCUMENTED:
            found.add(node.name)
            continue
        if kind in SCOPES:
            continue
        if kind is ast.Global or kind is ast.Nonlocal:
            outer |= set(node.names)
        elif kind is ast.ExceptHandler and node.name:
            found.add(node.name)
        waiting += ast.iter_child_nodes(node)
    return found - outer


# ---- syntax


@dataclass(frozen=True)
class Text:
    digest: str
    packages: frozenset[str]


@cache
def of_text(text: str) -> Text:
    """The hash of a text's syntax without comments, docstrings and layout, and the packages that it imports."""
    parts, begun = [], ""
    for chunk in re.split(r"\n\n+(?=\S)", text):
        begun += f"\n\n{chunk}" if begun else chunk
        try:
            parts.append(_of_chunk(begun))
        except SyntaxError:  # an empty line within a string or a bracket: read on
            continue
        begun = ""
    if begun:
        parts = [_of_chunk(text)]
    return Text(hashed(*(one for part in parts for one in part[0])), frozenset().union(*(part[1] for part in parts)))


@cache
def _of_chunk(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Statement by statement: kernels have most of them in common, and each is parsed once."""
    tree = ast.parse(text)
    imports = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imports += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    packages = {name.partition(".")[0] for name in imports} - {"", PACKAGE} - sys.stdlib_module_names
    return tuple(hashed(_dumped(node)) for node in _without_docstring(tree)), frozenset(packages)


def _without_docstring(node: Any) -> list[ast.AST]:
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body


def _dumped(node: ast.AST) -> str:
    parts: list[str] = []
    _dump(node, parts)
    return "".join(parts)


def _dump(node: Any, parts: list[str]) -> None:
    """A tree as text. Empty fields are left out: Python's versions differ in which there are."""
    kind = node.__class__
    if kind is list:
        parts.append("[")
        for one in node:
            _dump(one, parts)
        parts.append("]")
    elif kind in FIELDS or isinstance(node, ast.AST):
        if kind not in FIELDS:
            FIELDS[kind] = [(name, f" {name}=") for name in kind._fields if name not in IGNORED_FIELDS]
        parts.append(f"({kind.__name__}")
        for name, shown in FIELDS[kind]:
            value = getattr(node, name, None)
            if name == "body" and kind in DOCUMENTED:
                value = _without_docstring(node)
            if value or value == 0 or kind is ast.Constant:
                parts.append(shown)
                _dump(value, parts)
        parts.append(")")
    else:
        parts.append(f"{kind.__name__}:{node!r}")


FIELDS: dict[type, list[tuple[str, str]]] = {}  # of each kind of node, with how they are written
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def hashed(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:DIGITS]
