"""The names that a definition takes from its module, found in its syntax."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from quadsim.sweeps.source_hash import DEFINITIONS

SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # with variables of their own


class NameUses(ast.NodeVisitor):
    """Visits a definition; ``chains`` holds its non-local names, each with the attributes that follow it.

    Each chain comes with whether it is only compared: in `isinstance`, or as the key of a dict. ``is_module`` tells
    whether a text is the name of a module of the package, as for `import_module`; these are collected in ``modules``.
    """

    def __init__(self, is_module: Callable[[str], bool]) -> None:
        self._is_module = is_module
        self.chains: set[tuple[tuple[str, ...], bool]] = set()
        self.modules: list[str] = []
        self.imports = False
        self._local: list[set[str]] = []

    def _note(self, chain: list[str], compared: bool = False) -> None:
        if not any(chain[0] in names for names in self._local):
            self.chains.add((tuple(chain), compared))

    def visit_Name(self, node: ast.Name) -> None:
        self._note([node.id])

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and self._is_module(node.value):
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


def _assigned(body: list[Any]) -> set[str]:
    """The local variables of a function with this body, without those of nested scopes and without imports."""
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
        if kind in DEFINITIONS:
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
