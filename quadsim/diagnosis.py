"""What is wrong with a rule, told with the line of the file on which it is wrong.

Nothing here is needed while all goes well: a rule that does not compile is compiled once more by itself, and a step
that came out as NaN is taken once more in Python, line by line.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Sequence
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from quadsim import rules
from quadsim.optimizers import Optimizer
from quadsim.rules import Source, complaint

LARGE = 1e100  # what a rule makes of larger numbers is not its fault


def explain(kind: type[Optimizer], error: Exception) -> None:
    """Raise the error that a person can use, if the rule is why the kernel did not compile."""
    if isinstance(error, rules.RuleError):
        return
    by_block = kind.scope != "coordinate"
    _explain_function(
        kind.rule,
        0 if by_block else 1 + len(kind.state),
        {"step", "g", "w", "random", *kind.state} if by_block else set(),
    )
    if kind.tick is not None:
        _explain_function(kind.tick, len(kind.clock), set())


def _explain_function(function: Any, wanted: int, arrays: set[str]) -> None:
    """Compile the function by itself; raise if it fails, or if it returns another number of values than `wanted`."""
    import numba

    own = rules.source(function)
    vector, number = numba.types.float64[::1], numba.types.float64
    signature = tuple(vector if p.name in arrays else number for p in rules.parameters(function))
    jitted = _jitted(own.function, {})
    try:
        jitted.compile(signature)
    except Exception as error:  # whatever numba makes of it
        path, line = _place(str(error), own)
        raise complaint(path, line, f"{own.function.__name__} cannot be compiled ({_gist(str(error))})") from None
    returned = jitted.overloads[signature].signature.return_type
    count = len(returned) if isinstance(returned, numba.types.BaseTuple) else int(returned != numba.types.none)
    if count != wanted:
        raise wrong_count(own, own.tree, count, wanted)
    kinds: Any = returned if isinstance(returned, numba.types.BaseTuple) else [returned] * wanted
    for one in kinds:
        if not isinstance(one, numba.types.Number | numba.types.Boolean) or isinstance(one, numba.types.Complex):
            raise own.error(own.tree, f"{own.function.__name__} returns something that is no real number ({one})")


def wrong_count(own: Source, node: Any, count: int, wanted: int) -> rules.RuleError:
    """The error for a rule that returns too many values or too few."""
    if wanted == 0:
        expected = "a rule for a whole block fills `step` and returns nothing"
    else:
        expected = f"the step and the new state are {wanted}" if wanted > 1 else "the step alone is one"
    return own.error(node, f"{own.function.__name__} returns {count} value{'s' * (count != 1)}, and {expected}")


def tell_raised(kind: type[Optimizer], error: Exception) -> None:
    """Raise with the rule's line what the rule itself raised."""
    own = rules.source(kind.rule)
    told = " ".join(str(error).split())
    raise own.error(own.tree, f"{own.function.__name__} raised {type(error).__name__}{f' ({told})' if told else ''}")


def _jitted(function: FunctionType, done: dict[FunctionType, Any]) -> Any:
    """The function compiled as it stands, with the functions that it calls compiled too."""
    import numba

    if function not in done:
        surroundings = dict(function.__globals__)
        code, defaults = function.__code__, function.__defaults__
        copy = FunctionType(code, surroundings, function.__name__, defaults, function.__closure__)
        done[function] = numba.njit(error_model="numpy")(copy)
        for word in function.__code__.co_names:
            value = surroundings.get(word)
            helper = getattr(value, "py_func", value)
            if isinstance(helper, FunctionType):
                surroundings[word] = _jitted(helper, done)
    return done[function]


def _place(message: str, own: Source) -> tuple[str, int]:
    """The first line that numba names, which is the innermost; the rule's first line if it names none."""
    for path, line in re.findall(r'File "([^"]+)", line (\d+)', message):
        if linecache.getline(path, int(line)):
            return path, int(line)
    return own.path, own.first


def _gist(message: str) -> str:
    """What numba has to say, in a few words."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in message.splitlines()]
    dull = ("Failed in nopython", "Invalid use", "- Resolution", "There are", "During:", "File ", "Enable logging")
    told = [line for line in lines if line and not line.startswith(dull) and not line.startswith((">", "*", "-"))]
    return told[0][:160] if told else "numba cannot tell why"


def find_nan(function: Any, given: dict[str, Any], changed: Sequence[str], step: int) -> None:
    """Take a step of a rule (or a tick) once more in Python; raise with the line on which numbers become NaN, if any.

    ``given`` has a number for each parameter, or an array; ``changed`` names the arrays that hold the result.
    """
    own = rules.source(function)
    arguments = {name: np.array(v) if np.ndim(v) else np.float64(v) for name, v in given.items()}
    if not all((np.abs(value) < LARGE).all() for value in arguments.values()):
        return  # a run that has gone wrong before
    tracer = _Tracer()
    before = sys.gettrace()
    with np.errstate(all="ignore"):
        sys.settrace(tracer.enter)
        try:
            result = own.function(**arguments)
        except ArithmeticError:  # plain Python refuses where compiled code goes on with NaN
            result = np.nan
        except ValueError:
            result = np.nan
        finally:
            sys.settrace(before)
    values = [arguments[name] for name in changed] or [result]
    made = np.isnan(np.concatenate([np.ravel(np.asarray(value, dtype=float)) for value in values])).any()
    if tracer.place is not None and made:
        told = ", ".join(f"{name} = {value:.6g}" for name, value in given.items() if not np.ndim(value))
        path, line = tracer.place
        where = f" with {told}" if told else ""
        raise complaint(path, line, f"{own.function.__name__} gave nan at step {step:,}{where}")


class _Tracer:
    """Watches lines being executed; notes the first one after which a number is NaN, or that raised."""

    def __init__(self) -> None:
        self.place: tuple[str, int] | None = None
        self.last: dict[FrameType, int] = {}

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.last[frame] = frame.f_lineno
        return None if frame.f_code.co_filename.startswith(np.__path__[0]) else self.watch

    def watch(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.place is None:
            seen = [argument] if event == "return" else []
            if event == "exception" or any(_is_bad(value) for value in (*frame.f_locals.values(), *seen)):
                line = frame.f_lineno if event == "exception" else self.last[frame]
                self.place = frame.f_code.co_filename, line
        self.last[frame] = frame.f_lineno
        return self.watch


def _is_bad(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_is_bad(item) for item in value)
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "f" and bool(np.isnan(value).any())
    return isinstance(value, float) and bool(np.isnan(value))
