"""Parsing of Python source, and the defaults and constants of this package, read from its text.

Importing the modules instead would load numpy, which `--help` avoids. A reference is "module:NAME" for a constant and
"module:function.parameter" or "module:Class.field" for a default.
"""

from __future__ import annotations

import ast
import operator
import os
import re
import threading
from functools import cache
from typing import Any

_FOLDER = os.path.dirname(__file__)
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
PARSE_LOCK = threading.Lock()  # before Python 3.11.8 and 3.12.2 ast.parse may fail in threads (python/cpython#106905)


def parse(text: str) -> ast.Module:
    """`ast.parse` in one thread at a time."""
    with PARSE_LOCK:
        return ast.parse(text)


@cache
def default(reference: str) -> Any:
    """The default of a parameter or field; None where it has none."""
    module, _, path = reference.partition(":")
    owner, _, name = path.partition(".")
    statement = _statements(module)[owner]
    if statement.startswith("class "):
        field = re.search(rf"^    {name}: .+? = (.+?)(?:  #.*)?$", statement, re.M)
        return None if field is None else _value(module, parse(field[1]).body[0].value)  # type: ignore[attr-defined]
    signature = statement[: re.search(r"\)(?: -> [^\n]+)?:\n", statement).start()]  # type: ignore[union-attr]
    function = parse(signature + "): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    listed = function.args
    with_default = [*listed.args[len(listed.args) - len(listed.defaults) :], *listed.kwonlyargs]
    names = [parameter.arg for parameter in with_default]
    node = dict(zip(names, [*listed.defaults, *listed.kw_defaults], strict=True)).get(name)
    return None if node is None else _value(module, node)


@cache
def constant(reference: str) -> Any:
    """The value of a constant; of a dict its keys, as a tuple."""
    module, _, name = reference.partition(":")
    (statement,) = parse(_statements(module)[name]).body
    assert isinstance(statement, ast.Assign | ast.AnnAssign)
    assert statement.value is not None
    return _value(module, statement.value)


@cache
def _statements(module: str) -> dict[str, str]:
    """The texts of the top-level functions, classes and assignments by name; of overloads the last one."""
    found: dict[str, str] = {}
    name, start, offset = "", 0, 0
    source = text(module)
    for line in source.splitlines(keepends=True):
        if not line[0].isspace() and line[0] not in ")]}":
            found[name] = source[start:offset]
            name, start = re.split(r"\W", line.removeprefix("def ").removeprefix("class "), maxsplit=1)[0], offset
        offset += len(line)
    return {**found, name: source[start:]}


@cache
def text(module: str) -> str:
    """The source text of a module or package."""
    path = os.path.join(_FOLDER, *module.split("."))
    with open(f"{path}.py" if os.path.exists(f"{path}.py") else os.path.join(path, "__init__.py"), "rb") as file:
        return file.read().decode()


def _value(module: str, node: ast.expr) -> Any:
    """The value of an expression of literals, arithmetic and other constants of its module; of a dict its keys."""
    if isinstance(node, ast.Dict):
        return tuple(_value(module, key) for key in node.keys if key is not None)
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_value(module, item) for item in node.elts)
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(module, node.left), _value(module, node.right))
    if isinstance(node, ast.UnaryOp):
        return -_value(module, node.operand)
    if isinstance(node, ast.Name):
        return constant(f"{module}:{node.id}")
    if isinstance(node, ast.Call):
        return range(*(_value(module, argument) for argument in node.args))
    assert isinstance(node, ast.Constant), ast.dump(node)
    return node.value
