"""The import graph of this package: the hash of each module, and the modules and packages that it imports.

Source is hashed by its syntax: comments, docstrings and layout do not count. Nothing is imported or run.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

import quadsim
from quadsim._source import parse
from quadsim._validation import InputError

PACKAGE = __name__.partition(".")[0]
REGISTRY = f"{PACKAGE}.optimizers"
FOLDER = Path(__file__).parents[1]
DIGITS = 16  # of a hash in hexadecimal
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Source:
    """The hash of a text and the dotted names that it imports, anywhere outside ``if TYPE_CHECKING``."""

    digest: str
    imports: frozenset[str]

    @property
    def packages(self) -> set[str]:
        """The other packages that it imports, without the standard library."""
        return {name.partition(".")[0] for name in self.imports} - {"", PACKAGE} - sys.stdlib_module_names


@cache
def read(text: str) -> Source:
    """The hash and imports of a text. Each chunk between blank lines is parsed once: kernels share most of them."""
    try:
        parts = [_read_chunk(chunk) for chunk in re.split(r"(?<=\n)\n(?=\S)", text)]
    except SyntaxError:  # a blank line within a string, a bracket or a statement
        parts = [_read_chunk(text)]
    digest = hashed(*(one for statements, _ in parts for one in statements))
    return Source(digest, frozenset().union(*(imports for _, imports in parts)))


@cache
def _read_chunk(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """The hash of each statement of a chunk, and the dotted names that it imports."""
    tree = parse(text)
    imports = {name for node in tree.body if not _for_type_checking(node) for name in _imports(node)}
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tuple(hashed(ast.unparse(node)) for node in tree.body), frozenset(imports)


def _imports(statement: ast.stmt) -> set[str]:
    """The dotted names that a statement imports; ``import a.b`` makes all of ``a`` accessible.

    The text of a module's name may be the argument of `importlib.import_module`, so it counts as an import.
    """
    names = set[str]()
    for node in ast.walk(statement):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
            names |= {one.name.partition(".")[0] for one in node.names if one.asname is None}
        elif isinstance(node, ast.ImportFrom):
            parent = "." * node.level + (f"{node.module}." if node.module else "")
            names |= {parent + one.name for one in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            names |= {node.value} if _path(node.value) is not None else set()
    return names


def _for_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING") and not node.orelse


def hashed(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:DIGITS]


# ---- modules of this package


@dataclass(frozen=True)
class Module:
    """A module of this package."""

    source: Source
    imports: frozenset[str]  # modules of this package
    edited: bool  # after quadsim was imported: other code may be running


@cache
def module(name: str) -> Module:
    path = _path(name)
    if path is None:
        raise InputError(f"the source of {name} is missing: a cell cannot be named by the code that computes it")
    source = read(path.read_text(encoding="utf-8"))
    edited = quadsim._LOAD_TIME < path.stat().st_mtime_ns <= time.time_ns()  # later than now: by another clock
    return Module(
        source, imported_modules(source, name if path.name == "__init__.py" else name.rpartition(".")[0]), edited
    )


def imported_modules(source: Source, package: str) -> frozenset[str]:
    """The modules of this package that the source of a module in ``package`` imports.

    A package that is imported itself, or a name from its ``__init__``, counts as all its modules; the registry of
    optimizers as itself only.
    """
    names = (resolve_name(name, package) for name in source.imports)
    return frozenset(_name(file) for name in names if in_package(name) for file in _files(name))


def _files(name: str) -> Iterable[Path]:
    """The file of the module that a dotted name is, or is in; of a package, all its files."""
    path = _path(name)
    if path is None:
        return _files(name.rpartition(".")[0])
    return path.parent.rglob("*.py") if path.name == "__init__.py" and name != REGISTRY else [path]


def in_package(module: str) -> bool:
    """Whether a module belongs to this package."""
    return module.partition(".")[0] == PACKAGE


@cache
def _path(name: str) -> Path | None:
    """The file of a module of this package; None if there is no such module."""
    if not in_package(name) or not all(map(str.isidentifier, name.split("."))):
        return None
    path = FOLDER.joinpath(*name.split(".")[1:])
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _name(path: Path) -> str:
    return ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts).removesuffix(".__init__")
