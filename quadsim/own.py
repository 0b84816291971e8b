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

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar, overload

from quadsim import checks, diagnosis, rules
from quadsim.optimizers import OPTIMIZERS, Optimizer
from quadsim.rules import RuleError, Source

GIVEN = ("g", "w", "t", "random")
SCOPES = ("coordinate", "block", "all")


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
    linear: bool = ...,
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
    linear: bool = False,
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
    linear : bool
        That the step is a linear function of the gradients: such a method may let a block underflow to zero.
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
    linear: bool,
) -> type[Own]:
    """The optimizer's class, if the rule is one."""
    checks.choice("scope", scope, SCOPES)
    checks.choice("random_by", random_by, ("coordinate", "block"))
    for one in (function, tick):
        if isinstance(one, FunctionType):
            rules.keep_source(one)
    source = rules.source(function)
    word = (name or source.function.__name__).lower().replace("_", "-")
    if word in OPTIMIZERS and not OPTIMIZERS[word].own:
        raise source.error(source.tree, f"there is an optimizer {word} already: give the rule another name")
    clock = () if tick is None else _clock(tick)
    settings = {**_settings(source, function), **({} if tick is None else _settings(rules.source(tick), tick))}
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
            "linear": checks.flag("linear", linear),
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
    before = dict(OPTIMIZERS)
    folder = str(Path(path).resolve().parent)  # a file of rules may import its neighbours
    sys.path.insert(0, folder)
    try:
        rules.load(path, f"quadsim_rules_{Path(path).stem}")
    finally:
        sys.path.remove(folder)
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
        if not isinstance(value, bool):
            try:
                value = checks.real(parameter.name, value)
            except checks.InputError as error:
                raise source.error(source.tree, f"the setting {error}") from None
        found[parameter.name] = value
    return found


def _clock(tick: Any) -> tuple[str, ...]:
    return tuple(p.name for p in rules.parameters(tick) if p.default is p.empty and p.name != "t")


def _check(source: Source, parameters: list[str], state: tuple[str, ...], settings: dict[str, Any], scope: str) -> None:
    """Raise at the rule's line unless its parameters and what it returns fit."""
    example = "def mine(g, m, lr=0.01)" if scope == "coordinate" else "def mine(step, g, m, lr=0.01)"
    if "g" not in parameters:
        raise source.error(source.tree, f"a rule must have the parameter g, the gradient: write for example {example}")
    if "lr" not in settings:
        raise source.error(source.tree, f"a rule must have a learning rate: write for example {example}")
    if (scope != "coordinate") and "step" not in parameters:
        raise source.error(source.tree, f"a rule for a whole {scope} must have the parameter step: {example}")
    wanted = 1 + len(state) if scope == "coordinate" else 0
    for node, count in rules.returned(source.function):
        if count != wanted:
            raise diagnosis.wrong_count(source, node, count, wanted)
    if scope == "coordinate" and not any(True for _ in rules.returns(source.function)):
        raise source.error(source.tree, "the rule returns nothing: return the step, then the new state")
