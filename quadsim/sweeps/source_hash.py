"""Hashes of Python source by its syntax: comments, docstrings and layout do not count. Nothing is imported or run."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

PACKAGE = __name__.partition(".")[0]
DIGITS = 16  # of a hash in hexadecimal, as it is stored
IGNORED_FIELDS = ("ctx", "kind", "type_comment")


@dataclass(frozen=True)
class SourceHash:
    """The hash of a text, and the packages that it imports."""

    digest: str
    packages: frozenset[str]


@cache
def hash_source(text: str) -> SourceHash:
    """The hash of a text. Each chunk between blank lines is parsed once: kernels have most of them in common."""
    parts, begun = [], ""
    for chunk in re.split(r"\n\n+(?=\S)", text):
        begun += f"\n\n{chunk}" if begun else chunk
        try:
            parts.append(_hash_chunk(begun))
        except SyntaxError:  # a blank line within a string or a bracket: the chunk is longer
            continue
        begun = ""
    if begun:
        parts = [_hash_chunk(text)]
    return SourceHash(
        hashed(*(one for part in parts for one in part[0])), frozenset().union(*(part[1] for part in parts))
    )


@cache
def _hash_chunk(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """The hashes of the statements of a chunk, and the packages that it imports."""
    tree = ast.parse(text)
    imports = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imports += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    packages = {name.partition(".")[0] for name in imports} - {"", PACKAGE} - sys.stdlib_module_names
    return tuple(hashed(dumped(node)) for node in without_docstring(tree)), frozenset(packages)


def without_docstring(node: Any) -> list[ast.AST]:
    return node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body


def dumped(node: ast.AST) -> str:
    parts: list[str] = []
    _dump(node, parts)
    return "".join(parts)


def _dump(node: Any, parts: list[str]) -> None:
    """Append the text of a tree. Empty fields are left out, since versions of Python differ in them."""
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
            if name == "body" and kind in DEFINITIONS:
                value = without_docstring(node)
            if value or value == 0 or kind is ast.Constant:
                parts.append(shown)
                _dump(value, parts)
        parts.append(")")
    else:
        parts.append(f"{kind.__name__}:{node!r}")


FIELDS: dict[type, list[tuple[str, str]]] = {}  # by type of node: names of its fields and their text
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def hashed(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()[:DIGITS]
