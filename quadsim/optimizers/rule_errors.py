"""Errors in rules, reported with the line of the file that causes them.

Used only after a failure: a rule that does not compile is compiled again by itself, and a step that gave NaN is
computed again in Python.
"""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from quadsim.optimizers import rule_source
from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.rule_source import RuleError, Source, complaint

MAX_INPUT = 1e100  # NaN from larger numbers is divergence, not a fault of the rule


def explain(kind: type[Optimizer], error: Exception) -> None:
    """Raise an error with the rule's line, if the rule is why the kernel did not compile."""
    if isinstance(error, RuleError):
        return
    if kind.scope == "coordinate":
        _explain_function(kind.rule, ("step", *kind.state))
    else:
        _explain_function(kind.rule, (), arrays=("step", "g", "w", "random", *kind.state))
    if kind.once_per_step is not None:
        _explain_function(kind.once_per_step, kind.shared_state)


def _explain_function(function: Any, returns: Sequence[str], arrays: Sequence[str] = ()) -> None:
    """Compile the function by itself; raise if that fails, or unless it returns these values as real numbers."""
    import numba

    source = rule_source.source(function)
    vector, number = numba.types.float64[::1], numba.types.float64
    signature = tuple(vector if name in arrays else number for name in source.parameters)
    jitted = _jitted(source.function, {})
    try:
        jitted.compile(signature)
    except Exception as error:  # numba raises many kinds
        path, line = _location(str(error), source)
        raise complaint(path, line, f"{source.name} cannot be compiled ({_gist(str(error))})") from None
    result = jitted.overloads[signature].signature.return_type
    types: Any = result if isinstance(result, numba.types.BaseTuple) else [result] * (result != numba.types.none)
    if len(types) != len(returns):
        raise wrong_count(source, source.tree, len(types), returns)
    for value in types:
        if not isinstance(value, numba.types.Number | numba.types.Boolean) or isinstance(value, numba.types.Complex):
            raise source.error(f"{source.name} must return real numbers, got {value}")


def wrong_count(source: Source, node: Any, count: int, returns: Sequence[str]) -> RuleError:
    """The error for a function that returns too many values or too few."""
    expected = f"{len(returns)} ({', '.join(returns)})" if returns else "none: a rule for a whole block fills `step`"
    return source.error(f"{source.name} returns {count} value{'s' * (count != 1)} instead of {expected}", node)


def raise_with_line(kind: type[Optimizer], error: Exception) -> None:
    """Raise an error with the rule's line for an exception that the rule raised."""
    source, message = rule_source.source(kind.rule), " ".join(str(error).split())
    raised = f"{type(error).__name__}{f' ({message})' if message else ''}"
    raise source.error(f"{source.name} raised {raised}")


def _jitted(function: FunctionType, done: dict[FunctionType, Any]) -> Any:
    """The function compiled unchanged, with the functions that it calls compiled too."""
    import numba

    if function not in done:
        scope = dict(function.__globals__)
        code, defaults = function.__code__, function.__defaults__
        copy = FunctionType(code, scope, function.__name__, defaults, function.__closure__)
        done[function] = numba.njit(error_model="numpy")(copy)
        for name in function.__code__.co_names:
            value = scope.get(name)
            helper = getattr(value, "py_func", value)
            if isinstance(helper, FunctionType):
                scope[name] = _jitted(helper, done)
    return done[function]


def _location(message: str, source: Source) -> tuple[str, int]:
    """The first location in numba's message, which is the innermost; the rule's first line if there is none."""
    for path, line in re.findall(r'File "([^"]+)", line (\d+)', message):
        if linecache.getline(path, int(line)):
            return path, int(line)
    return source.path, source.tree.lineno


def _gist(message: str) -> str:
    """The first informative line of numba's message."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in message.splitlines()]
    boilerplate = r"Failed in nopython|Invalid use|There are|During:|File |Enable logging|[>*-]|$"
    informative = [line for line in lines if not re.match(boilerplate, line)]
    return informative[0][:160] if informative else "numba gives no reason"


def find_nan(function: Any, values: dict[str, Any], changed: Sequence[str], step: int) -> None:
    """Compute a step of a rule (or a call of its once_per_step function) again in Python; raise if it gives NaN.

    The error names the line of the first invalid operation. ``values`` has a number or an array for each parameter;
    ``changed`` names the arrays that hold the result.
    """
    source = rule_source.source(function)
    given = {name: values[name] for name in source.parameters}
    if not all((np.abs(value) < MAX_INPUT).all() for value in given.values()):
        return  # the run diverged before

    def gives_nan(invalid: Any) -> bool:
        arguments = {name: np.array(v) if np.ndim(v) else np.float64(v) for name, v in given.items()}
        with np.errstate(all="ignore", invalid=invalid):
            result = source.function(**arguments)
        results = [arguments[name] for name in changed] or [result]
        return any(np.isnan(np.asarray(value, dtype=float)).any() for value in results)

    path, line = source.path, source.tree.lineno
    try:
        if not gives_nan("ignore"):
            return
        gives_nan("raise")
    except (ArithmeticError, ValueError) as error:  # also where Python raises and compiled code continues with NaN
        frames = traceback.extract_tb(error.__traceback__)
        inner = [frame for frame in frames if not frame.filename.startswith(np.__path__[0])][-1]
        path, line = inner.filename, inner.lineno or line
    arguments = ", ".join(f"{name} = {value:.6g}" for name, value in given.items() if not np.ndim(value))
    with_arguments = f" with {arguments}" if arguments else ""
    raise complaint(path, line, f"{source.name} gave nan at step {step:,}{with_arguments}")
