"""What all optimizers share: a small frozen record of settings and an update rule.

A rule is a scalar function that moves one coordinate. Its parameters are found by name:

``g``       the coordinate's gradient, with whatever noise the run has
``w``       the coordinate itself
``t``       the number of the step, 1.0 for the first
``random``  a uniform number in [0, 1), from a stream of the run's own; new for each step and coordinate, or for each
            step and block (``random_by``)
state       the names in ``state``: what the coordinate remembers, zero at first
clock       the names in ``clock``: what ``tick`` computes once a step for all coordinates
settings    all others: fields of the record, as floats; ``lr`` comes multiplied by the schedule's factor

It returns the step to subtract, then the new state. With ``scope`` "block" (or "all") a rule sees a whole block (or all
coordinates) at once: ``g``, ``w``, ``random`` and state are arrays, one number for each coordinate; the rule has one
more parameter, the array ``step``, which it fills; it changes the state in place, and returns nothing.

Rules are compiled from their source by `compiler`; they may use ``math``, ``np``, constants and functions of their own
module. Nothing here loops over steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from quadsim import checks
from quadsim.checks import InputError
from quadsim.problem import BlockQuadratic

LearningRate = float | tuple[float, ...] | None


@dataclass(frozen=True)
class Optimizer:
    """What all optimizers share.

    ``name`` is the word of the command line, ``label`` the one of figures. ``linear`` says that the step is a linear
    function of the gradients once the start is fixed: such a method may let a block vanish, others are caught doing so.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    linear: ClassVar[bool] = False
    rule: ClassVar[Callable[..., Any]]
    state: ClassVar[tuple[str, ...]] = ()
    tick: ClassVar[Callable[..., Any] | None] = None
    clock: ClassVar[tuple[str, ...]] = ()
    scope: ClassVar[str] = "coordinate"
    own: ClassVar[bool] = False  # whether it is a user's: then its rule is looked into where it gives NaN
    exact_gradients: ClassVar[bool] = False  # whether the rule would be another method under noise

    lr: LearningRate = None

    def __post_init__(self) -> None:
        if self.lr is not None:
            object.__setattr__(self, "lr", checks.real(f"{self.name}.lr", self.lr, above=0))

    def resolved(self, problem: BlockQuadratic, error: np.ndarray) -> Self:
        """The same optimizer with its learning rate filled in, for a run that starts at this error."""
        return self if self.lr is not None else replace(self, lr=self.best_lr(problem, error))

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> LearningRate:
        """The best constant learning rate, where a closed form is known."""
        raise InputError(f"{self.name} has no learning rate known in closed form: give {self.name}.lr")

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        """The state before the first step, one array for each name, given the first gradient."""
        return tuple(np.zeros_like(g) for _ in self.state)

    def first_clock(self) -> tuple[float, ...]:
        """The clock before the first step."""
        return ()

    @property
    def random_by(self) -> str:
        """What has a random number of its own at each step: every "coordinate", or every "block"."""
        return "coordinate"

    @property
    def translation_invariant(self) -> bool:
        """Whether the path of e = w − w* is the same for every minimizer w*.

        It is where the rule does not read ``w``, or reads it for weight decay alone and that is 0. A user's rule that
        reads ``w`` counts as dependent on the minimizer.
        """
        rule = type(self).rule.__code__
        reads_w = "w" in rule.co_varnames[: rule.co_argcount + rule.co_kwonlyargcount]
        return not reads_w or (not self.own and getattr(self, "weight_decay", None) == 0)

    def settings(self) -> dict[str, Any]:
        """The record's fields by name, as tables and JSON show them."""
        return {item.name: getattr(self, item.name) for item in fields(self)}
