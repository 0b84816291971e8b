"""An optimizer of your own: an update rule in a file of yours, under a name that works wherever an optimizer's does.

    import numpy as np
    import quadsim as qs

    @qs.rule
    def mine(g, m, lr=0.01, beta=0.9):
        m = beta * m + (1 - beta) * g
        return lr * np.sign(m), m

Parameters with a default are settings; ``g``, ``w``, ``t`` and ``random`` are given (`optimizers.base` says what they
are); all others are state, zero at first. The step to subtract is returned first, then the new state.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np

from quadsim import checks, diagnosis, rules
from quadsim.checks import InputTypeError
from quadsim.optimizers import OPTIMIZERS, Optimizer
from quadsim.rules import RuleError, Source

GIVEN = ("g", "w", "t", "random")
SCOPES = ("coordinate", "block", "all")
COLUMNS = {  # of tables, where settings are columns too
    "lane", "problem", "optimizer", "seed", "tol", "max_steps", "steps_to_tol", "last_step", "loss", "grad_norm",
    "status", "engine", "batch", "factor", "noise", "label_noise", "schedule", "settings", "level", "lower", "median",
    "upper", "diverged", "log_loss", "best", "scores", "edge", "failed", "given",
}  # fmt: skip


@dataclass(frozen=True)
class Own(Optimizer):
    """What all rules of users' own share."""

    own = True
    draws: ClassVar[str] = "coordinate"

    def __post_init__(self) -> None:
        for name, value in self.settings().items():
            if name == "lr":
                checked: Any = checks.real(f"{self.name}.lr", value, above=0)
            elif isinstance(type(self).__dataclass_fields__[name].default, bool):
                checked = checks.flag(f"{self.name}.{name}", value)
            else:
                checked = checks.real(f"{self.name}.{name}", value)
            object.__setattr__(self, name, checked)

    @property
    def random_by(self) -> str:
        return self.draws

    def first_clock(self) -> tuple[float, ...]:
        return (0.0,) * len(self.clock)


@overload
def rule(function: Callable[..., Any], /) -> type[Own]: ...
@overload
def rule(
    *,
    name: str | None = ...,
    label: str | None = ...,
    scope: str = ...,
    tick: Callable[..., Any] | None = ...,
    random_by: str = ...,
    linear: bool | None = ...,
) -> Callable[[Callable[..., Any]], type[Own]]: ...
def rule(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    label: str | None = None,
    scope: str = "coordinate",
    tick: Callable[..., Any] | None = None,
    random_by: str = "coordinate",
    linear: bool | None = None,
) -> Any:
    """Make an optimizer of a rule, and register it under its name. What comes back is its class: ``mine(lr=0.1)``.

    Parameters
    ----------
    name, label : str, optional
        The words of the command line and of figures; by default the function's name.
    scope : "coordinate", "block" or "all"
        What the rule sees at once. With "block" or "all", ``g``, ``w``, ``random`` and state are arrays; the rule has
        one more parameter, the array ``step``, which it fills; it changes state in place and returns nothing.
    tick : function, optional
        Called once a step, before the rule, for what all coordinates share: its parameters are ``t``, settings, and the
        values that it returned last (zero at first), in their order; the rule may ask for these by name.
    random_by : "coordinate" or "block"
        What has a random number of its own.
    linear : bool, optional
        That twice the gradients make twice the steps, as in GD: such a method may let a block underflow to zero, where
        others are stopped (status underflow). By default it is found out by trying.
    """
    if function is None:
        return lambda given: rule_of(given, name, label, scope, tick, random_by, linear)
    return rule_of(function, name, label, scope, tick, random_by, linear)


def rule_of(
    function: Any,
    name: str | None,
    label: str | None,
    scope: str,
    tick: Callable[..., Any] | None,
    random_by: str,
    linear: bool | None,
) -> type[Own]:
    """The optimizer's class, if the rule is one."""
    checks.choice("scope", scope, SCOPES)
    checks.choice("random_by", random_by, ("coordinate", "block"))
    for one in (function, tick):
        if one is not None:
            rules.keep_source(one)
    source = rules.source(function)
    word = (name or source.function.__name__).lower().replace("_", "-")
    if word in OPTIMIZERS and not OPTIMIZERS[word].own:
        raise source.error(source.tree, f"there is an optimizer {word} already: give the rule another name")
    clock = () if tick is None else _clock(tick)
    settings = _settings(source, function)
    for key, value in ({} if tick is None else _settings(rules.source(tick), tick)).items():
        if settings.setdefault(key, value) != value:
            raise source.error(
                source.tree, f"{key} has one default here, {settings[key]}, and another in tick, {value}"
            )
    if not isinstance(label, str | None):
        raise InputTypeError(f"label must be text, got {checks.shown(label)}")
    parameters = [parameter.name for parameter in rules.parameters(function)]
    given = {*GIVEN, *clock, *settings, *(("step",) if scope != "coordinate" else ())}
    state = tuple(parameter for parameter in parameters if parameter not in given)
    _check(source, parameters, state, settings, scope)
    kind = make_dataclass(
        source.function.__name__,
        [(key, type(value), field(default=value)) for key, value in settings.items()],
        bases=(Own,),
        frozen=True,
        namespace={
            "__doc__": source.function.__doc__,
            "__module__": source.function.__module__,
            "name": word,
            "label": label or source.function.__name__.replace("_", " "),
            "linear": _grows(source, state, scope) if linear is None else checks.flag("linear", linear),
            "rule": staticmethod(source.function),
            "state": state,
            "tick": None if tick is None else staticmethod(tick),
            "clock": clock,
            "scope": scope,
            "draws": random_by,
        },
    )
    OPTIMIZERS[word] = kind
    return kind


def load(path: str) -> list[str]:
    """Run a file of rules; the names of the optimizers that it registered."""
    before, modules = dict(OPTIMIZERS), set(sys.modules)
    folder = Path(path).resolve().parent  # a file of rules may import its neighbours
    sys.path.insert(0, str(folder))
    try:
        rules.load(path, f"quadsim_rules_{Path(path).stem}")
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - modules:  # the next file may have neighbours of the same names
            if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == folder:
                del sys.modules[name]
    found = [name for name, kind in OPTIMIZERS.items() if before.get(name) is not kind]
    if not found:
        raise RuleError(f"rules={path} registers no rule: decorate a function with @quadsim.rule")
    return found


def _settings(source: Source, function: Any) -> dict[str, float | bool]:
    """The parameters with a default."""
    found: dict[str, float | bool] = {}
    for parameter in rules.parameters(function):
        value = parameter.default
        if parameter.name in (*GIVEN, "step") and value is not parameter.empty:
            raise source.error(source.tree, f"{parameter.name} is given to the rule and cannot have a default")
        if parameter.name == "lr" and value is parameter.empty:
            raise source.error(source.tree, "lr must have a default: lr=0.01")
        if value is parameter.empty:
            continue
        if not isinstance(value, bool) or parameter.name == "lr":
            try:
                value = checks.real(parameter.name, value, above=0 if parameter.name == "lr" else None)
            except checks.InputError as error:
                raise source.error(source.tree, f"the setting {error}") from None
        found[parameter.name] = value
    return found


def _clock(tick: Any) -> tuple[str, ...]:
    """The values that the tick keeps: its parameters without a default."""
    source = rules.source(tick)
    names = tuple(p.name for p in rules.parameters(tick) if p.default is p.empty and p.name != "t")
    for name in names:
        if name in (*GIVEN, "step"):
            raise source.error(source.tree, f"{source.function.__name__} is called once a step and cannot have {name}")
    if not names:
        raise source.error(source.tree, "a tick must have a parameter for each value that it returns: def tick(weight)")
    for node, count in rules.returned(tick):
        if count != len(names):
            told = f"{source.function.__name__} returns {count} value{'s' * (count != 1)}, and has {len(names)} to keep"
            raise source.error(node, told)
    return names


def _grows(source: Source, state: tuple[str, ...], scope: str) -> bool:
    """Whether twice the gradients make twice the steps: tried in Python, where a factor of 2 changes no digit else."""
    names = [parameter.name for parameter in rules.parameters(source.function)]
    given = {p.name: p.default for p in rules.parameters(source.function) if p.default is not p.empty}
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
    except Exception:  # what plain Python cannot run says nothing
        return False


def _check(source: Source, parameters: list[str], state: tuple[str, ...], settings: dict[str, Any], scope: str) -> None:
    """Raise at the rule's line unless its parameters and what it returns fit."""
    example = "def mine(g, m, lr=0.01)" if scope == "coordinate" else "def mine(step, g, m, lr=0.01)"
    if "g" not in parameters:
        raise source.error(source.tree, f"a rule must have the parameter g, the gradient: write for example {example}")
    for name in (*state, *settings):
        if name != "lr" and (hasattr(Own, name) or (name in settings and name in COLUMNS)):
            raise source.error(source.tree, f"{name} means something else to every optimizer: call it otherwise")
    if "lr" not in settings:
        raise source.error(source.tree, f"a rule must have a learning rate: write for example {example}")
    if (scope != "coordinate") and "step" not in parameters:
        raise source.error(source.tree, f"a rule for a whole {scope} must have the parameter step: {example}")
    wanted = 1 + len(state) if scope == "coordinate" else 0
    for node, count in rules.returned(source.function):
        if count != wanted:
            raise diagnosis.wrong_count(source, node, count, wanted)
    if scope == "coordinate" and rules.may_end(source.tree.body):
        raise source.error(source.tree, "the rule may return nothing: return the step, then the new state")
    if scope != "coordinate":
        _check_arrays(source, ("step", "g", "w", "random", *state))


def _check_arrays(source: Source, arrays: tuple[str, ...]) -> None:
    """Raise where a rule for blocks gives an array's name to something else, instead of filling it."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Return) and node.value is not None:
            raise diagnosis.wrong_count(source, node, 1, 0)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in arrays:
            raise source.error(node, f"{node.id} must be changed in place: write {node.id}[:] = …")
