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
    by_block = kind.scope != "coordinate"
    _explain_function(
        kind.rule,
        0 if by_block else 1 + len(kind.state),
        {"step", "g", "w", "random", *kind.state} if by_block else set(),
    )
    if kind.once_per_step is not None:
        _explain_function(kind.once_per_step, len(kind.shared_state), set())


def _explain_function(function: Any, expected_count: int, arrays: set[str]) -> None:
    """Compile the function by itself; raise if that fails, or if it does not return this number of real numbers."""
    import numba

    source = rule_source.source(function)
    vector, number = numba.types.float64[::1], numba.types.float64
    signature = tuple(vector if p.name in arrays else number for p in rule_source.parameters(function))
    jitted = _jitted(source.function, {})
    try:
        jitted.compile(signature)
    except Exception as error:  # numba raises many kinds
        path, line = _location(str(error), source)
        raise complaint(path, line, f"{source.name} cannot be compiled ({_gist(str(error))})") from None
    returned = jitted.overloads[signature].signature.return_type
    count = len(returned) if isinstance(returned, numba.types.BaseTuple) else int(returned != numba.types.none)
    if count != expected_count:
        raise wrong_count(source, source.tree, count, expected_count)
    kinds: Any = returned if isinstance(returned, numba.types.BaseTuple) else [returned] * expected_count
    for one in kinds:
        if not isinstance(one, numba.types.Number | numba.types.Boolean) or isinstance(one, numba.types.Complex):
            raise source.error(source.tree, f"{source.name} returns something that is no real number ({one})")


def wrong_count(source: Source, node: Any, count: int, expected_count: int) -> RuleError:
    """The error for a rule that returns too many values or too few."""
    if expected_count == 0:
        expected = "a rule for a whole block fills `step` and returns nothing"
    else:
        expected = f"the step and the new state are {expected_count}" if expected_count > 1 else "the step alone is one"
    return source.error(node, f"{source.name} returns {count} value{'s' * (count != 1)}, and {expected}")


def raise_with_line(kind: type[Optimizer], error: Exception) -> None:
    """Raise again, with the rule's line, what the rule itself raised."""
    source, message = rule_source.source(kind.rule), " ".join(str(error).split())
    raised = f"{type(error).__name__}{f' ({message})' if message else ''}"
    raise source.error(source.tree, f"{source.name} raised {raised}")


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
    """The first line that numba names, which is the innermost; the rule's first line if it names none."""
    for path, line in re.findall(r'File "([^"]+)", line (\d+)', message):
        if linecache.getline(path, int(line)):
            return path, int(line)
    return source.path, source.first


def _gist(message: str) -> str:
    """The first informative line of numba's message."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in message.splitlines()]
    boilerplate = (
        "Failed in nopython",
        "Invalid use",
        "- Resolution",
        "There are",
        "During:",
        "File ",
        "Enable logging",
    )
    informative = [line for line in lines if line and not line.startswith((*boilerplate, ">", "*", "-"))]
    return informative[0][:160] if informative else "numba gives no reason"


def find_nan(function: Any, given: dict[str, Any], changed: Sequence[str], step: int) -> None:
    """Compute a step of a rule (or a call of its once_per_step function) again in Python; raise if it gives NaN.

    The error names the line of the first invalid operation. ``given`` has a number or an array for each parameter;
    ``changed`` names the arrays that hold the result.
    """
    source = rule_source.source(function)
    if not all((np.abs(value) < MAX_INPUT).all() for value in given.values()):
        return  # the run diverged before

    def gives_nan(invalid: Any) -> bool:
        arguments = {name: np.array(v) if np.ndim(v) else np.float64(v) for name, v in given.items()}
        with np.errstate(all="ignore", invalid=invalid):
            result = source.function(**arguments)
        values = [arguments[name] for name in changed] or [result]
        return bool(np.isnan(np.concatenate([np.ravel(np.asarray(value, dtype=float)) for value in values])).any())

    path, line = source.path, source.first
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
