"""User-defined optimizers: an update rule in a user's file, under a name that works wherever an optimizer's does.

    import numpy as np
    import quadsim as qs

    @qs.rule(state="m")
    def mine(g, m, lr=0.01, beta=0.9):
        m = beta * m + (1 - beta) * g
        return lr * np.sign(m), m

Parameters with a default are settings; ``g``, ``w``, ``t`` and ``random`` are given (see `optimizers.base`); state is
declared, and is zero at first. Any other parameter is an error. The step to subtract is returned first, then the new
state in the declared order.
"""

from __future__ import annotations

import ast
import difflib
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from quadsim import _discovery, _files
from quadsim import _validation as checks
from quadsim._validation import InputTypeError
from quadsim.optimizers import OPTIMIZERS, rule_errors, rule_source
from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.rule_source import RuleError, Source
from quadsim.optimizers.settings import flag, number, positive

GIVEN = {  # the parameters that every rule may have, with other names that people use for them
    "g": ("gradient",),
    "w": ("weight", "parameter"),
    "t": ("time", "iteration"),
    "random": ("uniform",),
}
SCOPES = ("coordinate", "block", "all")
RESERVED_COLUMNS = {  # of result tables, in which settings are columns too
    "lane", "problem", "optimizer", "seed", "tol", "max_steps", "steps_to_tol", "last_step", "loss", "grad_norm",
    "status", "engine", "batch", "factor", "noise", "noise.scale", "schedule", "settings", "level", "lower", "median",
    "upper", "diverged", "underflow", "minimizer", "log_loss", "best", "scores", "edge", "failed", "given", "rowid",
}  # fmt: skip


@dataclass(frozen=True)
class UserRule(Optimizer):
    """The base class of users' rules."""

    user_defined = True
    draws: ClassVar[str] = "coordinate"

    @property
    def random_by(self) -> str:
        return self.draws

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
    """Make an optimizer from a rule, and register it under its name. Returns its class: ``mine(lr=0.1)``.

    Parameters
    ----------
    state : str or sequence of str
        The parameters that are stored for each coordinate, zero at first: ``"m v"`` or ``("m", "v")``. The rule returns
        their new values after the step, in this order.
    name, label : str, optional
        The name on the command line and in figures; by default the function's name.
    scope : "coordinate", "block" or "all"
        What the rule sees at once. With "block" or "all", ``g``, ``w``, ``random`` and state are arrays; the rule has
        one more parameter, the array ``step``, which it fills; it changes state in place and returns nothing.
    once_per_step : function, optional
        Called once a step, before the rule, for what all coordinates share. Its parameters are ``t``, settings, and
        names of the shared state.
    shared_state : str or sequence of str
        The values that the once_per_step function returns, in this order, zero at first. The rule and the
        once_per_step function may have each of them as a parameter; the latter gets the values of the step before.
    random_by : "coordinate" or "block"
        What has a random number of its own.
    homogeneous : bool, optional
        Twice the gradients give twice the steps, as in GD. Such a method may let a block underflow to zero, where
        others are stopped (status underflow). By default it is determined by a trial in Python.
    """
    if isinstance(function, str):
        raise InputTypeError(f"@rule({checks.shown(function)}) must name what is declared: write @rule(state=…)")
    if function is None:
        return functools.partial(
            rule, state=state, name=name, label=label, scope=scope, once_per_step=once_per_step,
            shared_state=shared_state, random_by=random_by, homogeneous=homogeneous,
        )  # fmt: skip
    checks.choice("scope", scope, SCOPES)
    checks.choice("random_by", random_by, ("coordinate", "block"))
    for one in (function, once_per_step):
        if one is not None:
            rule_source.keep_source(one)
    source = rule_source.source(function)
    name = _checked_name(source, name)
    if name in OPTIMIZERS and not OPTIMIZERS[name].user_defined:
        raise source.error(source.tree, f"there is an optimizer {name} already: give the rule another name")
    if not isinstance(label, str | None):
        raise InputTypeError(f"label must be text, got {checks.shown(label)}")
    declared = {
        "state": _declared(source, "state", state),
        "shared_state": _declared(source, "shared_state", shared_state),
    }
    settings = _settings(source, declared)
    if once_per_step is not None:
        for key, value in _once_per_step_settings(rule_source.source(once_per_step), declared).items():
            if settings.setdefault(key, value) != value:
                raise source.error(
                    source.tree, f"{key} has one default here, {settings[key]}, and another in once_per_step, {value}"
                )
    elif declared["shared_state"]:
        raise source.error(source.tree, "shared_state requires once_per_step, the function that returns its values")
    _check(source, declared, settings, scope)
    for key in declared["shared_state"]:
        if not any(key in _parameters_of(rule_source.source(one)) for one in (function, once_per_step)):
            raise source.error(
                source.tree, f"{key} is declared in shared_state, and neither the rule nor its once_per_step uses it"
            )
    if homogeneous is None:
        homogeneous = _is_homogeneous(source, declared["state"], scope)
    label = label or source.name.replace("_", " ")
    kind = make_dataclass(
        source.name,
        [(key, type(value), _field(key, value)) for key, value in settings.items()],
        bases=(UserRule,),
        frozen=True,
        namespace={
            "__doc__": source.function.__doc__,
            "__module__": source.function.__module__,
            "name": name,
            "label": label,
            "homogeneous": checks.flag("homogeneous", homogeneous),
            "rule": staticmethod(source.function),
            "once_per_step": None if once_per_step is None else staticmethod(once_per_step),
            **declared,
            "scope": scope,
            "draws": random_by,
        },
    )
    OPTIMIZERS[name] = kind
    _discovery.USER_LABELS[name] = label
    return kind


def _field(name: str, default: float | bool) -> Any:
    """The field of a setting, checked by the type of its default; lr must be positive."""
    return positive(default) if name == "lr" else flag(default) if isinstance(default, bool) else number(default)


def _checked_name(source: Source, name: object) -> str:
    """The name, if it can be written on the command line: `mine`, `my-rule`."""
    given = source.name if name is None else name
    if not isinstance(given, str) or not given.replace("-", "_").isidentifier():
        raise source.error(source.tree, f"name must be a word such as my-rule, got {checks.shown(given)}")
    return given.lower().replace("_", "-")


def load(path: str) -> list[str]:
    """Run a file of rules; the names of the optimizers that it registered."""
    _files.check_file("rules", path, at_most=rule_source.MAX_BYTES)  # resolving a symlink loop would raise
    before, modules = dict(OPTIMIZERS), set(sys.modules)
    folder = Path(path).resolve().parent  # a file of rules may import its neighbours
    sys.path.insert(0, str(folder))
    try:
        rule_source.load(path, f"quadsim_rules_{Path(path).stem}")
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - modules:  # the next file may have neighbours of the same names
            if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == folder:
                del sys.modules[name]
    found = [name for name, kind in OPTIMIZERS.items() if before.get(name) is not kind]
    if not found:
        raise RuleError(f"rules={path} registers no rule: decorate a function with @quadsim.rule")
    return found


def _declared(source: Source, what: str, given: object) -> tuple[str, ...]:
    """The names that a declaration of state or shared_state lists."""
    example = f'{what}="m v"' if what == "state" else f'{what}="weight unbias"'
    names = given.replace(",", " ").split() if isinstance(given, str) else given
    listed = tuple(names) if isinstance(names, list | tuple) else (given,)  # a set has no order
    for name in listed:
        if not isinstance(name, str) or not name.isidentifier():
            raise source.error(source.tree, f"{what} must list names, as in {example}, got {checks.shown(name)}")
        if name in GIVEN or name in ("step", "lr"):
            raise source.error(source.tree, f"{name} has a meaning of its own and cannot be {what}: rename it")
        if listed.count(name) > 1:
            raise source.error(source.tree, f"{what} lists {name} twice")
    return listed


def _parameters_of(source: Source) -> list[str]:
    return [parameter.name for parameter in rule_source.parameters(source.function)]


def _at(source: Source, name: str) -> ast.AST:
    """The parameter of this name, for the line of an error."""
    return next((node for node in ast.walk(source.tree) if isinstance(node, ast.arg) and node.arg == name), source.tree)


def _settings(source: Source, declared: dict[str, tuple[str, ...]]) -> dict[str, float | bool]:
    """The parameters with a default."""
    found: dict[str, float | bool] = {}
    for parameter in rule_source.parameters(source.function):
        name, value = parameter.name, parameter.default
        if name == "lr" and value is parameter.empty:
            raise source.error(_at(source, name), "lr must have a default: lr=0.01")
        if value is parameter.empty:
            continue
        if name in GIVEN or name == "step":
            raise source.error(_at(source, name), f"{name} is given to the rule and cannot have a default")
        for what, names in declared.items():
            if name in names:
                raise source.error(
                    _at(source, name), f"{name} is declared as {what}, which starts at 0, and cannot have a default"
                )
        if not isinstance(value, bool) or name == "lr":
            try:
                value = checks.real(name, value, above=0 if name == "lr" else None)
            except checks.InputError as error:
                raise source.error(_at(source, name), f"the setting {error}") from None
        found[name] = value
    return found


def _once_per_step_settings(source: Source, declared: dict[str, tuple[str, ...]]) -> dict[str, float | bool]:
    """The settings of a once_per_step function, if its parameters and return values fit the shared state."""
    settings, shared_state, function = _settings(source, declared), declared["shared_state"], source.name
    free = [name for name in _parameters_of(source) if name not in settings and name != "t"]
    for name in free:
        if name in GIVEN or name == "step" or name in declared["state"]:
            raise source.error(_at(source, name), f"{function} is called once a step for all, and cannot have {name}")
    if not shared_state:
        example = " ".join(free) or "weight"
        raise source.error(
            source.tree, f'the values that once_per_step returns must be declared: @rule(shared_state="{example}")'
        )
    if undeclared := [name for name in free if name not in shared_state]:
        raise _undeclared(source, undeclared, {"t": GIVEN["t"]}, settings, "shared_state", shared_state)
    for node, count in rule_source.returned(source.function):
        if count != len(shared_state):
            message = (
                f"{function} returns {count} value{'s' * (count != 1)}, and shared_state declares {len(shared_state)}"
            )
            raise source.error(node, f"{message}: {' '.join(shared_state)}")
    if rule_source.may_end(source.tree.body):
        raise source.error(source.tree, f"{function} may return nothing: return the values of shared_state")
    return settings


def _undeclared(
    source: Source,
    names: list[str],
    given: dict[str, tuple[str, ...]],
    settings: Iterable[str],
    what: str,
    declared: tuple[str, ...],
) -> RuleError:
    """The error for parameters that are neither given, settings nor declared."""
    near = _near(names[0], given, (*settings, *declared))
    hint = f" (did you mean {near}?)" if near else ""
    listed = " ".join((*declared, *names))
    return source.error(
        _at(source, names[0]),
        f"undeclared {_short(', '.join(names))}{hint}: given are {', '.join(given)}; a setting needs a default; "
        f'{what} is declared by @rule({what}="{_short(listed)}")',
    )


def _short(text: str) -> str:
    return text if len(text) <= 30 else text[:29] + "…"


def _near(name: str, given: dict[str, tuple[str, ...]], others: Iterable[str]) -> str | None:
    """The closest known name: a given parameter under another name, or a name of similar spelling."""
    lower = name.lower()
    if lower in given:
        return lower
    long = [word for word in (*given, *others) if len(word) > 1]  # single letters match too easily
    for word in difflib.get_close_matches(name, long, n=1, cutoff=0.7):
        return word
    for word, meanings in given.items():
        alike = (meaning.startswith(lower) or difflib.get_close_matches(lower, [meaning]) for meaning in meanings)
        if len(lower) > 1 and any(alike):
            return word
    return None


def _is_homogeneous(source: Source, state: tuple[str, ...], scope: str) -> bool:
    """Whether twice the gradients give twice the steps, tried in Python: scaling by 2 is exact in float64."""
    names = [parameter.name for parameter in rule_source.parameters(source.function)]
    given = {p.name: p.default for p in rule_source.parameters(source.function) if p.default is not p.empty}
    given |= {name: np.float64(1.0) for name in names if name not in (*given, *state)} | {"random": np.float64(0.25)}

    def steps(scale: float) -> list[Any]:
        arrays = scope != "coordinate"
        kept: list[Any] = [np.zeros(2) if arrays else np.float64(0.0) for _ in state]
        made = []
        for t, g in enumerate((0.75, -0.3), start=1):
            now = {**given, **dict(zip(state, kept, strict=True)), "t": np.float64(t), "w": np.float64(scale)}
            now |= {"g": np.array([g, 2 * g]) * scale if arrays else np.float64(g * scale)}
            now |= {"w": np.full(2, scale), "random": np.full(2, 0.25), "step": np.zeros(2)} if arrays else {}
            result = source.function(**{name: now[name] for name in names})
            new = [now["step"], *kept] if arrays else list(result) if isinstance(result, tuple) else [result]
            made += [np.copy(value) for value in new[:1]]
            kept = new[1:]
        return made

    try:
        with np.errstate(all="ignore"):
            return bool(np.array_equal(2 * np.array(steps(1.0)), np.array(steps(2.0))))
    except Exception:  # the rule cannot run outside compiled code
        return False


def _check(source: Source, declared: dict[str, tuple[str, ...]], settings: dict[str, Any], scope: str) -> None:
    """Raise at the rule's line unless its parameters and return values fit."""
    by_coordinate, state, shared_state = scope == "coordinate", declared["state"], declared["shared_state"]
    parameters = _parameters_of(source)
    example = "def mine(g, lr=0.01)" if by_coordinate else "def mine(step, g, lr=0.01)"
    if "g" not in parameters:
        raise source.error(source.tree, f"a rule must have the parameter g, the gradient: write for example {example}")
    for name in (*state, *shared_state, *settings):
        if name != "lr" and (name in _attributes() or (name in settings and name in RESERVED_COLUMNS)):
            raise source.error(_at(source, name), f"{name} is reserved: rename this parameter")
    for name in state:
        if name in shared_state:
            raise source.error(
                _at(source, name), f"{name} is declared as state and as shared_state: rename one of them"
            )
    if by_coordinate and "step" in parameters:
        raise source.error(_at(source, "step"), 'step is given to rules with scope="block" or "all" only')
    given = {**GIVEN, **({} if by_coordinate else {"step": ()}), **dict.fromkeys(shared_state, ())}
    if undeclared := [name for name in parameters if name not in (*given, *settings, *state)]:
        raise _undeclared(source, undeclared, given, settings, "state", state)
    for name in state:
        if name not in parameters:
            raise source.error(source.tree, f"{name} is declared as state, and is not a parameter of the rule")
    if "lr" not in settings:
        raise source.error(source.tree, f"a rule must have a learning rate: write for example {example}")
    if not by_coordinate and "step" not in parameters:
        raise source.error(source.tree, f"a rule for a whole {scope} must have the parameter step: {example}")
    wanted = 1 + len(state) if by_coordinate else 0
    for node, count in rule_source.returned(source.function):
        if count != wanted:
            raise rule_errors.wrong_count(source, node, count, wanted)
    if by_coordinate and rule_source.may_end(source.tree.body):
        raise source.error(source.tree, "the rule may return nothing: return the step, then the new state")
    if not by_coordinate:
        _check_arrays(source, ("step", "g", "w", "random", *state))


def _attributes() -> set[str]:
    """The attributes that every optimizer's class has or declares."""
    return set(dir(UserRule)).union(*(getattr(kind, "__annotations__", ()) for kind in UserRule.__mro__))


def _check_arrays(source: Source, arrays: tuple[str, ...]) -> None:
    """Raise where a rule for blocks rebinds the name of an array instead of filling the array."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Return) and node.value is not None:
            raise rule_errors.wrong_count(source, node, 1, 0)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in arrays:
            raise source.error(node, f"{node.id} must be changed in place: write {node.id}[:] = …")
