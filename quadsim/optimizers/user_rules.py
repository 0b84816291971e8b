"""User-defined optimizers: an update rule in a user's file, with a name that works like that of a built-in optimizer.

    import numpy as np
    import quadsim as qs

    @qs.rule(state="m")
    def mine(g, m, lr=0.01, beta=0.9):
        m = beta * m + (1 - beta) * g
        return lr * np.sign(m), m

Parameters with a default are settings; ``g``, ``w``, ``t`` and ``random`` are given (see `optimizers.base`); state is
declared, and is zero at first. Any other parameter is an error. The rule returns the step to subtract, then the new
state in the declared order.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import io
import linecache
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from quadsim import _discovery, _files
from quadsim import _validation as checks
from quadsim._validation import InputTypeError
from quadsim.keys import KEYS
from quadsim.optimizers import OPTIMIZERS, rule_errors, rule_source
from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.rule_source import RuleError, Source, complaint
from quadsim.optimizers.settings import flag, number, positive

Names = tuple[str, ...]
Settings = dict[str, float | bool]
MAX_BYTES = 2**20  # of a file of rules
MAX_LISTED = 30  # characters of a list of undeclared names
GIVEN = ("g", "w", "t", "random")  # the parameters that every rule may have
ALIASES = {"gradient": "g", "weight": "w", "parameter": "w", "time": "t", "iteration": "t", "uniform": "random"}
RESERVED_COLUMNS = {  # of result tables, in which settings are columns too
    "lane", "problem", "optimizer", "seed", "tol", "max_steps", "steps_to_tol", "last_step", "loss", "grad_norm",
    "status", "engine", "batch", "factor", "noise", "noise.scale", "schedule", "settings", "level", "lower", "median",
    "upper", "diverged", "underflow", "minimizer", "log_loss", "best", "scores", "edge", "failed", "given", "rowid",
    "lr_from",
}  # fmt: skip


@dataclass(frozen=True)
class UserRule(Optimizer):
    """The base class of user-defined rules."""

    user_defined = True

    def first_shared_state(self) -> tuple[float, ...]:
        return (0.0,) * len(self.shared_state)


def rule(
    function: Callable[..., Any] | None = None,
    /,
    *,
    state: str | Sequence[str] = (),
    name: str | None = None,
    label: str | None = None,
    scope: str = "coordinate",
    once_per_step: Callable[..., Any] | None = None,
    shared_state: str | Sequence[str] = (),
    random_by: str = "coordinate",
    homogeneous: bool | None = None,
) -> Any:
    """Make an optimizer from an update rule, and register it under its name.

    The parameters of a rule are found by name: ``g`` is the gradient of a coordinate, ``w`` the coordinate itself,
    ``t`` the number of the step, 1.0 for the first, ``random`` a uniform number in [0, 1). Parameters with a default
    are settings, state is declared, and any other parameter is an error. A rule returns the step to subtract, then the
    new state.

    Parameters
    ----------
    function : function
        The rule. Without it, `rule` returns a decorator.
    state : str or sequence of str
        The parameters that are stored for each coordinate, zero at first: ``"m v"`` or ``("m", "v")``. The rule returns
        their new values after the step, in this order.
    name, label : str, optional
        The name on the command line and in figures; by default the function's name.
    scope : "coordinate", "block" or "all"
        What the rule sees at once. With "block" or "all", ``g``, ``w``, ``random`` and state are arrays; the rule has
        one more parameter, the array ``step``, which it fills; it changes state in place and returns nothing.
    once_per_step : function, optional
        Called once per step, before the rule, to compute values shared by all coordinates. Its parameters are ``t``,
        settings, and names of the shared state.
    shared_state : str or sequence of str
        The values that the once_per_step function returns, in this order, zero at first. The rule and the
        once_per_step function may have each of them as a parameter; the latter gets the values of the previous step.
    random_by : "coordinate" or "block"
        What gets its own random number at each step.
    homogeneous : bool, optional
        Twice the gradients give twice the steps, as in GD. Such a method may let a block underflow to zero, where
        others are stopped (status underflow). By default determined by a trial in Python.

    Returns
    -------
    type
        The class of the optimizer: ``mine(lr=0.1)``.

    Examples
    --------
    >>> @qs.rule(state="m")
    ... def doc_signum(g, m, lr=0.01, beta=0.9):
    ...     m = beta * m + (1 - beta) * g
    ...     return lr * np.sign(m), m
    >>> doc_signum(beta=0.5), doc_signum.state, doc_signum.homogeneous
    (doc_signum(beta=0.5), ('m',), False)
    >>> run = qs.solve(qs.case(3), doc_signum(lr=0.01), max_steps=1000)
    >>> str(run.status), bool(run.loss[-1] < run.loss[0])
    ('max-steps', True)
    """
    options = {key: value for key, value in locals().items() if key != "function"}
    if isinstance(function, str):
        raise InputTypeError(f"@rule({checks.shown(function)}) takes keywords only: write @rule(state=…)")
    if function is None:
        return functools.partial(rule, **options)
    checks.choice("scope", scope, ("coordinate", "block", "all"))
    checks.choice("random_by", random_by, ("coordinate", "block"))
    if not isinstance(label, str | None):
        raise InputTypeError(f"label must be text, got {checks.shown(label)}")
    source = rule_source.source(function)
    name, label = _checked_name(source, name), label or source.name.replace("_", " ")
    declared = {what: _declared(source, what, options[what]) for what in ("state", "shared_state")}
    shared_settings: Settings = {}
    if once_per_step is not None:
        other = rule_source.source(once_per_step)
        shared_settings = _once_per_step_settings(other, declared)
        for key in declared["shared_state"]:
            if key not in {*source.parameters, *other.parameters}:
                raise source.error(f"shared_state lists {key}, which neither the rule nor its once_per_step uses")
    elif declared["shared_state"]:
        raise source.error("shared_state requires once_per_step, the function that returns its values")
    settings = _rule_settings(source, declared, scope)
    for key, value in shared_settings.items():
        if settings.setdefault(key, value) != value:
            raise source.error(f"{key} has the default {settings[key]} here, and {value} in once_per_step")
    if homogeneous is None:
        homogeneous = _is_homogeneous(source, declared["state"], scope)
    kind = make_dataclass(
        source.name,
        [(key, type(value), _field(key, value)) for key, value in settings.items()],
        bases=(UserRule,),
        frozen=True,
        namespace={
            **options,
            **declared,
            "__doc__": source.function.__doc__,
            "__module__": source.function.__module__,
            "name": name,
            "label": label,
            "homogeneous": checks.flag("homogeneous", homogeneous),
            "rule": staticmethod(source.function),
            "once_per_step": None if once_per_step is None else staticmethod(once_per_step),
        },
    )
    OPTIMIZERS[name] = kind
    _discovery.USER_LABELS[name] = label
    return kind


def _field(name: str, default: float | bool) -> Any:
    """The field of a setting, checked by the type of its default; lr must be positive."""
    return positive(default) if name == "lr" else flag(default) if isinstance(default, bool) else number(default)


def _checked_name(source: Source, name: object) -> str:
    """The name, if it can be written on the command line (`mine`, `my-rule`) and is not a built-in optimizer's."""
    given = source.name if name is None else name
    if not isinstance(given, str) or not given.replace("-", "_").isidentifier():
        raise source.error(f"name must be a word such as my-rule, got {checks.shown(given)}")
    given = given.lower().replace("_", "-")
    if given in OPTIMIZERS and not OPTIMIZERS[given].user_defined:
        raise source.error(f"optimizer {given} exists already: give the rule another name")
    if taken := next((key for key in KEYS if key.startswith(f"{given}.")), None):
        raise source.error(f"{taken}= is a key of every run: give the rule another name than {given}")
    return given


def load(path: str) -> list[str]:
    """Run a file of rules; the names of the optimizers that it registered."""
    text = _files.read_text("rules", path, at_most=MAX_BYTES)
    before, modules = dict(OPTIMIZERS), set(sys.modules)
    folder = Path(path).resolve().parent  # a file of rules may import modules beside it
    sys.path.insert(0, str(folder))
    try:
        _run(path, text)
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - modules:  # the next file may import other modules of the same names
            if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == folder:
                del sys.modules[name]
    registered = [name for name, kind in OPTIMIZERS.items() if before.get(name) is not kind]
    if not registered:
        raise RuleError(f"rules={path} registers no rule: decorate a function with @quadsim.rule")
    return registered


def _run(path: str, text: str) -> None:
    """Run a file's text as a module; errors are reported with their line."""
    linecache.cache[path] = len(text), None, io.StringIO(text).readlines(), path  # errors quote the text that runs
    module = ModuleType(f"quadsim_rules_{Path(path).stem}")
    module.__file__ = path
    try:
        exec(compile(text, path, "exec"), module.__dict__)
    except (RuleError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        raise complaint(error.filename or path, error.lineno or 1, f"not Python ({error.msg})", error.text) from None
    except BaseException as error:  # SystemExit too
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        raise complaint(path, (lines or [None])[-1] or 1, f"{type(error).__name__}: {error}") from None


def _declared(source: Source, what: str, given: object) -> tuple[str, ...]:
    """The names that a declaration of state or shared_state lists."""
    example = f'{what}="m v"' if what == "state" else f'{what}="weight unbias"'
    names = given.replace(",", " ").split() if isinstance(given, str) else given
    listed = tuple(names) if isinstance(names, list | tuple) else (given,)  # a set has no order
    for name in listed:
        if not isinstance(name, str) or not name.isidentifier():
            raise source.error(f"{what} must list names, as in {example}, got {checks.shown(name)}")
        if name in (*GIVEN, "step", "lr"):
            raise source.error(f"{name} has a fixed meaning and cannot be {what}: rename it")
        if name in _attributes():
            raise source.error(f"{name} is reserved: rename this parameter", name)
        if listed.count(name) > 1:
            raise source.error(f"{what} lists {name} twice")
    return listed


def _rule_settings(source: Source, declared: dict[str, Names], scope: str) -> Settings:
    """The settings of a rule; raises at its line unless its parameters and return values fit."""
    by_coordinate, state, shared_state = scope == "coordinate", declared["state"], declared["shared_state"]
    example = "def mine(g, lr=0.01)" if by_coordinate else "def mine(step, g, lr=0.01)"
    if "g" not in source.parameters:
        raise source.error(f"a rule must have the parameter g, the gradient: write for example {example}")
    if by_coordinate and "step" in source.parameters:
        raise source.error('step is given to rules with scope="block" or "all" only', "step")
    given, returns = (GIVEN, ("step", *state)) if by_coordinate else ((*GIVEN, "step"), ())
    settings = _settings(source, (*given, *shared_state), declared, "state", returns)
    for name in state:
        if name in shared_state:
            raise source.error(f"{name} is declared as state and as shared_state: rename one of them", name)
        if name not in source.parameters:
            raise source.error(f"{name} is declared as state, and is not a parameter of the rule")
    if "lr" not in settings:
        raise source.error(f"a rule must have a learning rate: write for example {example}")
    if by_coordinate:
        return settings
    if "step" not in source.parameters:
        raise source.error(f"a rule for a whole {scope} must have the parameter step: {example}")
    arrays = {*GIVEN, "step", *state} - {"t"}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Return) and node.value is not None:
            raise rule_errors.wrong_count(source, node, 1, ())
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in arrays:
            raise source.error(f"{node.id} must be changed in place: write {node.id}[:] = …", node)
    return settings


def _once_per_step_settings(source: Source, declared: dict[str, Names]) -> Settings:
    """The settings of a once_per_step function; raises unless its parameters and return values fit."""
    without_default = [name for name, item in source.parameters.items() if item.default is item.empty and name != "t"]
    for name in without_default:
        if name in (*GIVEN, "step", *declared["state"]):
            raise source.error(f"{source.name} is called once per step, and cannot have {name}", name)
    if not declared["shared_state"]:
        example = " ".join(without_default) or "weight"
        raise source.error(f'the values that once_per_step returns must be declared: @rule(shared_state="{example}")')
    return _settings(source, ("t",), declared, "shared_state", declared["shared_state"])


def _settings(source: Source, given: Names, declared: dict[str, Names], what: str, returns: Names) -> Settings:
    """The parameters with a default; raises unless the others are given or declared as `what`, or for other returns."""
    settings = {
        name: _default(source, name, parameter.default, declared)
        for name, parameter in source.parameters.items()
        if parameter.default is not parameter.empty or name == "lr"
    }
    known = (*given, *settings, *declared[what])
    if undeclared := [name for name in source.parameters if name not in known]:
        near = _near(undeclared[0], known)
        hint = f" (did you mean {near}?)" if near else ""
        listed = checks.one_line(" ".join((*declared[what], *undeclared)), MAX_LISTED)
        raise source.error(
            f"undeclared {checks.one_line(', '.join(undeclared), MAX_LISTED)}{hint}: given are {', '.join(given)}; "
            f'a setting needs a default; {what} is declared by @rule({what}="{listed}")',
            undeclared[0],
        )
    for node, count in rule_source.returned(source.tree):
        if count != len(returns):
            raise rule_errors.wrong_count(source, node, count, returns)
    if returns and rule_source.may_end(source.tree.body):
        raise source.error(f"{source.name} may return nothing: return {', '.join(returns)}")
    return settings


def _default(source: Source, name: str, value: Any, declared: dict[str, Names]) -> float | bool:
    """The default of a setting, if it is allowed."""
    if name in (*GIVEN, "step"):
        raise source.error(f"{name} is given to the rule and cannot have a default", name)
    for what, names in declared.items():
        if name in names:
            raise source.error(f"{name} is {what}, which starts at 0, and cannot have a default", name)
    if value is inspect.Parameter.empty:
        raise source.error("lr must have a default: lr=0.01", name)
    if name != "lr" and name in _attributes() | RESERVED_COLUMNS:
        raise source.error(f"{name} is reserved: rename this parameter", name)
    if isinstance(value, bool) and name != "lr":
        return value
    try:
        return checks.real(name, value, above=0 if name == "lr" else None)
    except checks.InputError as error:
        raise source.error(f"the setting {error}", name) from None


def _attributes() -> set[str]:
    """The attributes that every optimizer's class has or declares."""
    return set(dir(UserRule)).union(*(getattr(kind, "__annotations__", ()) for kind in UserRule.__mro__))


def _near(name: str, known: Sequence[str]) -> str | None:
    """The closest known name: a given parameter under another name, or a name of similar spelling."""
    lower = name.lower()
    if lower in known:
        return lower
    names = {alias: given for alias, given in ALIASES.items() if given in known}
    names |= {word: word for word in known if len(word) > 1}  # single letters match too easily
    abbreviated = [word for word in names if len(lower) > 1 and word.startswith(lower)]
    near = difflib.get_close_matches(lower, names, n=1) or abbreviated
    return names[near[0]] if near else None


def _is_homogeneous(source: Source, state: tuple[str, ...], scope: str) -> bool:
    """Whether twice the gradients give twice the steps, tried in Python: scaling by 2 is exact in float64."""
    parameters = source.parameters.values()
    shape = () if scope == "coordinate" else (2,)

    def steps(scale: float) -> np.ndarray:
        arguments = {p.name: np.float64(1.0) if p.default is p.empty else p.default for p in parameters}
        arguments |= {name: np.zeros(shape)[()] for name in state}
        arguments |= {"w": np.full(shape, scale)[()], "random": np.full(shape, 0.25)[()]}
        taken = []
        for t, g in enumerate((0.75, -0.3), start=1):
            arguments |= {"t": np.float64(t), "g": np.multiply(g * scale, [1, 2] if shape else 1)}
            arguments["step"] = np.zeros(shape)
            result = source.function(**{p.name: arguments[p.name] for p in parameters})
            if not shape:
                values = result if isinstance(result, tuple) else (result,)
                arguments |= dict(zip(("step", *state), values, strict=True))
            taken.append(np.copy(arguments["step"]))
        return np.array(taken)

    try:
        with np.errstate(all="ignore"):
            return bool(np.array_equal(2 * steps(1.0), steps(2.0)))
    except Exception:  # the rule cannot run outside compiled code
        return False
