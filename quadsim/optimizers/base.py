"""The base class of optimizers: a frozen record of settings with an update rule. Nothing here loops over steps.

A rule is a scalar function that moves one coordinate. Its parameters are found by name:

``g``         the coordinate's gradient, with the run's noise
``w``         the coordinate itself
``t``         the number of the step, 1.0 for the first
``random``    a uniform number in [0, 1) from the run's own stream; a new one for each step and coordinate, or for each
              step and block (``random_by``)
state         the names in ``state``: stored for each coordinate, zero at first
shared state  the names in ``shared_state``: computed by ``once_per_step`` once per step for all coordinates
settings      all others: fields of the record, as floats; ``lr`` is multiplied by the schedule's factor

It returns the step to subtract, then the new state. With ``scope`` "block" (or "all") a rule sees a whole block (or all
coordinates) at once: ``g``, ``w``, ``random`` and state are arrays, one number for each coordinate; the rule has one
more parameter, the array ``step``, which it fills; it changes the state in place, and returns nothing.

Rules are compiled from their source by `engine.compiled.compiler`; they may use ``math``, ``np``, and constants and
functions of their module.

A built-in optimizer is one file of this package, named as the optimizer is on the command line. `quadsim._discovery`
reads the class attributes ``name``, ``label``, ``colour``, ``stroke`` and ``list_order`` from the text of the file, so
each is written on a line of its own, as a plain string or number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from quadsim._validation import InputError
from quadsim.optimizers import settings
from quadsim.optimizers.recurrence import Recurrence
from quadsim.optimizers.settings import positive
from quadsim.problems.block_quadratic import BlockQuadratic

#: The type of a learning rate: one number, one for each block, or None for the best one.
LearningRate = float | tuple[float, ...] | None


@dataclass(frozen=True, repr=False)
class Optimizer:
    """The base class of all optimizers: a frozen record of settings with an update rule.

    Parameters
    ----------
    lr : float
        The learning rate. None means the best constant one, where a closed form is known.

    Attributes
    ----------
    name, label : str
        On the command line, and in figures.
    colour, stroke : str
        In figures; None means an unused colour and stroke. Strokes: "solid", "dashed", "dotted", "dash-dot".
    list_order : int
        The position in lists: 10s linear, 20s by coordinate, 30s by sign, 40s by block, 50s random.
    reference : str
        The source of the method.
    homogeneous : bool
        The steps are a linear function of the gradients once the start is fixed. Such a method may let a block
        underflow to zero; runs of all others are stopped there (status underflow).
    exact_gradients : bool
        The method requires exact gradients: under noise the rule would be a different method.
    invariances : tuple of str
        The transformations that do not change the path of the iterates, with settings such as ε and weight decay at 0:
        "rotation" (of a block's coordinates, which rotates the path), "signs" (of coordinates, likewise), "scale" (of
        the loss).
    user_defined : bool
        Made by `quadsim.rule`: if a run gives NaN, the line that caused it is reported.
    rule, once_per_step : function
        The update rule, and a function that computes values for all coordinates once per step. Both are compiled from
        their source; `quadsim.rule` says which parameters they may have.
    scope : str
        What the rule sees at once: one "coordinate", a "block" or "all" coordinates.
    state, shared_state : tuple of str
        The parameters of the rule that are stored for each coordinate, and once for all of them.

    Examples
    --------
    >>> adam = qs.Adam(beta2=0.99)
    >>> isinstance(adam, qs.Optimizer), adam.name, adam.invariances
    (True, 'adam', ('signs', 'scale'))
    >>> adam
    Adam(beta2=0.99)
    """

    name: ClassVar[str]
    label: ClassVar[str]
    colour: ClassVar[str | None] = None
    stroke: ClassVar[str] = "solid"
    list_order: ClassVar[int] = 99
    reference: ClassVar[str] = ""
    homogeneous: ClassVar[bool] = False
    exact_gradients: ClassVar[bool] = False
    invariances: ClassVar[tuple[str, ...]] = ()
    user_defined: ClassVar[bool] = False

    rule: ClassVar[Callable[..., Any]]
    scope: ClassVar[str] = "coordinate"
    state: ClassVar[tuple[str, ...]] = ()
    once_per_step: ClassVar[Callable[..., Any] | None] = None
    shared_state: ClassVar[tuple[str, ...]] = ()

    lr: LearningRate = positive(None)  # noqa: RUF009

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]  # a dataclass keeps the one that its class has

    def __post_init__(self) -> None:
        settings.check(self)

    def __repr__(self) -> str:
        """The call that makes it, with the settings that differ from their defaults: Adam(lr=0.1, beta2=0.99)."""
        from quadsim._display import text

        return text.call(self)

    def with_best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> Self:
        """The same optimizer with its learning rate filled in, for a run that starts at this error.

        Parameters
        ----------
        problem : BlockQuadratic
        error : (dim,) array
            e₀ = w₀ − w*.

        Returns
        -------
        Optimizer

        Examples
        --------
        >>> problem = qs.BlockQuadratic.from_spectra([[1, 3]])
        >>> qs.GD().with_best_lr(problem, np.ones(2)), qs.GD(lr=0.1).with_best_lr(problem, np.ones(2))
        (GD(lr=0.5), GD(lr=0.1))
        """
        return self if self.lr is not None else replace(self, lr=self.best_lr(problem, error))

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> LearningRate:
        """The best constant learning rate, where a closed form is known.

        Parameters
        ----------
        problem : BlockQuadratic
        error : (dim,) array
            e₀ = w₀ − w*.

        Returns
        -------
        float, or tuple of float
            One learning rate, or one for each block.

        Examples
        --------
        >>> problem = qs.BlockQuadratic.from_spectra([[1, 3], [10, 30]])
        >>> qs.GD().best_lr(problem, np.ones(4)) == 2 / 31
        True
        >>> qs.BlockGD().best_lr(problem, np.ones(4))
        (0.5, 0.05)
        """
        raise InputError(f"{self.name} has no learning rate known in closed form: give {self.name}.lr")

    def recurrence(self, problem: BlockQuadratic, used: Any) -> Recurrence:
        """The linear recurrence of the error, from which the engine computes the closed form.

        Parameters
        ----------
        problem : BlockQuadratic
        used : Optimizer
            This optimizer with its settings filled in.

        Returns
        -------
        Recurrence

        Examples
        --------
        >>> qs.HeavyBall().recurrence(qs.case(3), qs.HeavyBall(lr=0.1, momentum=0.5)).momentum
        0.5
        """
        raise InputError(f"{self.name} has no closed form")

    @classmethod
    def has_closed_form(cls) -> bool:
        """Whether this class itself declares a recurrence: a subclass may change the rule, and does not inherit it.

        Returns
        -------
        bool

        Examples
        --------
        >>> qs.GD.has_closed_form(), qs.Adam.has_closed_form()
        (True, False)
        """
        return cls is not Optimizer and "recurrence" in vars(cls)

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        """The state before the first step.

        Parameters
        ----------
        g : (dim,) array
            The first gradient.

        Returns
        -------
        tuple of (dim,) arrays
            One for each name in ``state``.

        Examples
        --------
        >>> qs.FrozenAdam.state, qs.FrozenAdam().first_state(np.array([3.0, -4.0]))[1].tolist()
        (('m', 'root_v'), [3.0, 4.0])
        """
        return tuple(np.zeros_like(g) for _ in self.state)

    def first_shared_state(self) -> tuple[float, ...]:
        """The shared state before the first step.

        Returns
        -------
        tuple of float
            One number for each name in ``shared_state``.

        Examples
        --------
        >>> qs.GD().first_shared_state()
        ()
        >>> qs.Muon.shared_state, qs.Muon().first_shared_state()
        (('weight', 'of_m', 'of_g'), (0.0, nan, nan))
        """
        return ()

    @property
    def random_by(self) -> str:
        """What gets its own random number at each step: every "coordinate", or every "block"."""
        return "coordinate"

    @property
    def translation_invariant(self) -> bool:
        """Whether the path of e = w − w* is the same for every minimizer w*.

        True if the rule does not read ``w``, or reads it only for weight decay and that is 0. A user-defined rule that
        reads ``w`` counts as dependent on the minimizer.
        """
        rule = type(self).rule.__code__
        reads_w = "w" in rule.co_varnames[: rule.co_argcount + rule.co_kwonlyargcount]
        return not reads_w or (not self.user_defined and getattr(self, "weight_decay", None) == 0)

    def settings(self) -> dict[str, Any]:
        """The settings by name, as tables and JSON show them.

        Returns
        -------
        dict

        Examples
        --------
        >>> qs.SignGD(lr=0.1).settings()
        {'lr': 0.1}
        """
        return {item.name: getattr(self, item.name) for item in fields(self)}
