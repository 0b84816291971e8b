"""The import graph of this package, by definition: which names, modules and other packages each one uses.

It is read from the source; nothing is imported or run. `fingerprint` follows it to find what a cell depends on.
"""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import quadsim
from quadsim import _discovery
from quadsim._validation import InputError
from quadsim.sweeps.name_uses import NameUses
from quadsim.sweeps.source_hash import PACKAGE, dumped, hashed, without_docstring

FOLDER = Path(__file__).parents[1]
TOP_LEVEL = ""  # instead of a name: the statements of a module that define no name but run when it is imported

Symbol = tuple[str, str]  # a module, and a name that it defines
Imports = dict[str, list[tuple[str, ...]]]  # by bound name: the modules, and the names in them, that it may stand for


def in_package(module: str) -> bool:
    """Whether a module belongs to this package."""
    return module.partition(".")[0] == PACKAGE


@cache
def module(name: str) -> Module:
    path = _path(name)
    if path is None:
        raise InputError(f"the source of {name} is missing: a cell cannot be named by the code that computes it")
    found = Module(name, path.name == "__init__.py", path.read_text(encoding="utf-8"))
    found.edited = quadsim._LOAD_TIME < path.stat().st_mtime_ns <= time.time_ns()  # later than now: by another clock
    return found


@cache
def _path(name: str) -> Path | None:
    """The file of a module of this package."""
    if not in_package(name):
        return None
    path = FOLDER.joinpath(*name.split(".")[1:])
    return next((path for path in (path.with_suffix(".py"), path / "__init__.py") if path.is_file()), None)


class Uses(NamedTuple):
    """What a definition uses."""

    symbols: list[Symbol]  # of this package
    packages: set[str]  # other packages
    meanings: list[str]  # "name = symbols" for each name that it takes from its module
    loads: set[str]  # modules of this package that it imports


class Module:
    """The syntax of a module: its imports, its definitions, and what each of them uses."""

    edited = False  # after quadsim was imported: other code may be running

    def __init__(self, name: str, package: bool, text: str) -> None:
        self.name, tree = name, ast.parse(text)
        self.digest = hashed(*map(dumped, without_docstring(tree)))
        self._folder = name if package else name.rpartition(".")[0]
        self._imports = self._imported(tree)
        self._nodes: dict[str, list[ast.AST]] = {TOP_LEVEL: []}
        self._uses: dict[str, Uses] = {}
        self._body = tree.body
        for node in tree.body:
            for defined in _defined_names(node):
                self._nodes.setdefault(defined, []).append(node)

    def uses(self, name: str) -> Uses:
        """What a definition uses; for TOP_LEVEL, what importing the module uses."""
        if name not in self._uses:
            self._uses[name] = self._used(name)
        return self._uses[name]

    def _used(self, name: str) -> Uses:
        used = Uses([], set(), [], set())
        if name == TOP_LEVEL:
            used.loads.update(self._loaded([node for node in self._body if not _for_type_checking(node)], within=False))
            self._add_star_imports(used, self._imports)
        for node in self._nodes.get(name, []):
            scope = NameUses(_is_module)
            scope.visit(node)
            within = self._imported(node) if scope.imports else {}
            used.loads.update(self._loaded([node], within=True) if scope.imports else ())
            for chain, compared in sorted(scope.chains):
                found: list[Symbol] = []
                for module, *names in self._bindings(chain[0], within):
                    if in_package(module):
                        found += _resolve(module, (*names, *chain[1:]))
                    else:
                        used.packages.update({module.partition(".")[0]} - sys.stdlib_module_names)
                if found:
                    used.meanings.append(f"{'.'.join(chain)} = {sorted(set(found))}")
                    used.symbols.extend(one for one in found if not (compared and _is_class(one)))
            for module in scope.modules:
                used.symbols.extend(_resolve(module, ()))
        return used

    def _bindings(self, name: str, within: Imports) -> list[tuple[str, ...]]:
        """All that a name may stand for: imports in branches or in two methods may bind it differently."""
        own = [(self.name, name)] if name in self._nodes else []
        return [*within.get(name, []), *self._imports.get(name, []), *own]

    def _loaded(self, body: list[Any], *, within: bool) -> Iterator[str]:
        """Modules that imports load: each imported module and its parent packages, without this package itself."""
        for node in _statements(body, within=within):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{self._base(node)}.{alias.name}" for alias in node.names]
            for parts in (name.split(".") for name in names):
                above = (".".join(parts[: k + 1]) for k in range(1, len(parts)))
                yield from (name for name in above if _path(name) is not None)

    def _add_star_imports(self, used: Uses, imports: Imports) -> None:
        """Add all names of modules that are imported with a star."""
        for module, _ in imports.get("*", []):
            if in_package(module):
                used.symbols.extend(_resolve(module, ()))
            else:
                used.packages.update({module.partition(".")[0]} - sys.stdlib_module_names)

    def all(self) -> Iterator[Symbol]:
        """Everything that the module defines or re-exports."""
        yield from ((self.name, name) for name in self._nodes)
        for module, *names in (one for found in self._imports.values() for one in found):
            if in_package(module) and (module, *names) != (self.name, "*"):
                yield from _resolve(module, tuple(names))

    def reexports(self, name: str) -> list[tuple[str, ...]]:
        """The modules, and the names in them, that a name is imported from, also by a star import."""
        if self.name == PACKAGE and (home := quadsim._homes().get(name)):  # resolved by its __getattr__
            return [(f"{PACKAGE}.{home}", name)]
        if self.name == f"{PACKAGE}.optimizers":  # its classes are found by `_discovery`
            discovered = {info.class_name: (info.module, info.class_name) for info in _discovery.optimizers()}
            if name in discovered:
                return [discovered[name]]
        starred = [(module, name) for module, _ in self._imports.get("*", []) if in_package(module)]
        return [*self._imports.get(name, []), *(one for one in starred if module(one[0]).provides(name))]

    def provides(self, name: str) -> bool:
        return self.defines(name) or bool(self.reexports(name))

    def has_side_effects(self) -> bool:
        """Whether importing it does more than define names."""
        return bool(self._nodes[TOP_LEVEL])

    def defines(self, name: str) -> bool:
        return name in self._nodes

    def is_class(self, name: str) -> bool:
        return all(isinstance(node, ast.ClassDef) for node in self._nodes[name])

    def _imported(self, tree: ast.AST) -> Imports:
        """The names that imports bind (for type checking too, which no code uses)."""
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
    """Statements that may be imports: of the top level with its `if` and `try`, or anywhere inside (``within``)."""
    for node in body:
        if within or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from ast.walk(node)


def _defined_names(node: ast.stmt) -> list[str]:
    """The names that a top-level statement defines; with TOP_LEVEL if it does anything else."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    names = [one.id for target in targets for one in _targets(target) if isinstance(one, ast.Name)]
    if len(names) == sum(1 for target in targets for _ in _targets(target)) > 0:
        return names
    if isinstance(node, ast.Import | ast.ImportFrom) or _for_type_checking(node) or _is_docstring(node):
        return []
    inner = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    inner += [one.name for one in ast.walk(node) if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    return [TOP_LEVEL, *inner]


def _for_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _targets(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _targets(one)
    else:
        yield target


@cache
def _resolve(name: str, names: tuple[str, ...]) -> tuple[Symbol, ...]:
    """The definitions of a name in a module, through re-exports and submodules.

    A module that is used as a value counts with all its definitions, and so does one without this name.
    """
    own = module(name)
    if not names:
        return tuple(own.all()) if name != PACKAGE else ()
    first, rest = names[0], names[1:]
    found: tuple[Symbol, ...] = ((name, first),) if own.defines(first) else ()
    passed = [one for one in own.reexports(first) if one != (name, first)]
    for source, *there in passed:
        found += _resolve(source, (*there, *rest)) if in_package(source) else ()
    if found or passed:
        return found
    if _path(f"{name}.{first}") is not None:
        return _resolve(f"{name}.{first}", rest)
    return tuple(own.all()) if name != PACKAGE else ()


def _is_class(symbol: Symbol) -> bool:
    return symbol[1] != TOP_LEVEL and module(symbol[0]).is_class(symbol[1])


def _is_module(text: str) -> bool:
    names = text.split(".")
    return names[0] == PACKAGE and len(names) > 1 and all(map(str.isidentifier, names)) and _path(text) is not None
