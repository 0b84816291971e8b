"""Defaults and constants of this package, read from its source text.

Importing the modules instead would load numpy, which `--help` avoids. A reference is "module:NAME" for a constant and
"module:function.parameter" or "module:Class.field" for a default.
"""

from __future__ import annotations

import ast
import operator
import os
import re
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


@cache
def default(reference: str) -> Any:
    """The default of a parameter or field; None where it has none."""
    module, _, path = reference.partition(":")
    owner, _, name = path.partition(".")
    statement = _statement(module, rf"def {owner}\b|class {owner}\b")
    if statement.startswith("class "):
        field = re.search(rf"^    {name}: .+? = (.+?)(?:  #.*)?$", statement, re.M)
        return None if field is None else _value(module, ast.parse(field[1], mode="eval").body)
    signature = statement[: re.search(r"\)(?: -> [^\n]+)?:\n", statement).start()]  # type: ignore[union-attr]
    function = ast.parse(signature + "): pass").body[0]
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
    (statement,) = ast.parse(_statement(module, rf"{name}(?=:| =)")).body
    assert isinstance(statement, ast.Assign | ast.AnnAssign)
    assert statement.value is not None
    return _value(module, statement.value)


def _statement(module: str, pattern: str) -> str:
    """The text of the top-level statement that begins with the pattern."""
    source = text(module)
    matches = list(re.finditer(rf"^(?:{pattern})", source, re.M))
    if not matches:
        raise LookupError(f"quadsim.{module} has no {pattern}")
    start = matches[-1]  # the definition itself comes after its overloads
    end = re.compile(r"\n(?=[^\s)\]}])").search(source, start.end())
    return source[start.start() : len(source) if end is None else end.start() + 1]


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
