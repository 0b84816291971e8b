"""Learning-rate schedules: a factor on the learning rate for every step of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quadsim import _validation as checks
from quadsim._validation import InputError

KINDS = ("constant", "cosine", "linear", "sqrt", "step")


@dataclass(frozen=True, repr=False)
class Schedule:
    """The learning rate's factor at step t of T: a linear warm-up t/W over the first W steps, then a decay.

    Every decay starts from factor 1 in step W + 1, as in torch's SequentialLR and optax's join_schedules with the
    boundary W ("sqrt": from factor 1 in step W).

    Parameters
    ----------
    kind : str
        With k = t − 1 − W, the number of steps since the warm-up, and s = k/(T − W): "constant" 1; "cosine"
        (1 + cos πs)/2; "linear" 1 − s; "sqrt" √(max(W, 1)/t), the 1/√t law; "step" drop^⌊k/every⌋.
    warmup : float
        W: a share of T below 1, or a number of steps. By default a tenth of T for "cosine", as Orvieto & Gower's text
        says (their code has a twentieth), and none otherwise.
    every, drop : float
        For "step": every ``every`` steps (below 1: a share of T) after the warm-up, the rate is multiplied by ``drop``.

    Examples
    --------
    >>> qs.Schedule("linear").factors(1, 4, max_steps=4).tolist()
    [1.0, 0.75, 0.5, 0.25]
    >>> qs.Schedule("cosine", warmup=2).factors(1, 6, max_steps=6).round(3).tolist()
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
    >>> run = qs.solve(qs.case(3), qs.GD(), schedule="cosine", max_steps=100)
    >>> run.engine, run.last_step
    ('compiled', 100)
    """

    kind: str = "constant"
    warmup: float | None = None
    every: float = 1 / 3
    drop: float = 0.1

    def __post_init__(self) -> None:
        checks.choice("schedule", self.kind, KINDS)
        warmup = (0.1 if self.kind == "cosine" else 0.0) if self.warmup is None else self.warmup
        object.__setattr__(self, "warmup", checks.real("warmup", warmup, at_least=0))
        object.__setattr__(self, "every", checks.real("every", self.every, above=0))
        object.__setattr__(self, "drop", checks.real("drop", self.drop, above=0, at_most=1))

    def __repr__(self) -> str:
        from quadsim._display import text

        usual = {} if self == Schedule(self.kind) else {"warmup": self.warmup}
        steps = {"every": self.every, "drop": self.drop} if self.kind == "step" else {}
        return text.call(self, {"kind": self.kind, **usual, **steps}, positional="kind")

    def __str__(self) -> str:
        extra = f" every={self.every:g} drop={self.drop:g}" if self.kind == "step" else ""
        return f"{self.kind}{f' warmup={self.warmup:g}' if self.warmup else ''}{extra}"

    @property
    def changes(self) -> bool:
        """Whether the factor is not 1 throughout."""
        return self.kind != "constant" or bool(self.warmup)

    def check(self, max_steps: int) -> None:
        """Raise unless the warm-up ends before the last step.

        Parameters
        ----------
        max_steps : int

        Examples
        --------
        >>> qs.Schedule("cosine", warmup=50).check(100)
        >>> qs.Schedule("cosine", warmup=50).check(20)
        Traceback (most recent call last):
            ...
        quadsim._validation.InputError: warmup must end before the last step, 20, got 50
        """
        if self.warmup and self._steps(self.warmup, max_steps) >= max_steps > 0:
            raise InputError(f"warmup must end before the last step, {max_steps}, got {self.warmup:g}")

    def factors(self, first: int, last: int, max_steps: int) -> np.ndarray:
        """The factors of some steps of a run; its first step is 1.

        Parameters
        ----------
        first, last : int
            The first and the last of the steps.
        max_steps : int
            The length of the run, T.

        Returns
        -------
        array

        Examples
        --------
        >>> qs.Schedule("step", every=2, drop=0.5).factors(1, 6, max_steps=6).tolist()
        [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
        """
        t = np.arange(first, last + 1, dtype=np.float64)
        assert self.warmup is not None
        warm = self._steps(self.warmup, max_steps)
        since = np.maximum(t - 1 - warm, 0)
        rest = np.minimum(since / max(max_steps - warm, 1), 1)
        if self.kind == "cosine":
            factor = (1 + np.cos(np.pi * rest)) / 2
        elif self.kind == "linear":
            factor = 1 - rest
        elif self.kind == "sqrt":
            factor = np.sqrt(max(warm, 1) / t)
        elif self.kind == "step":
            factor = self.drop ** np.floor(since / max(self._steps(self.every, max_steps), 1))
        else:
            factor = np.ones_like(t)
        return np.where(t <= warm, t / max(warm, 1), factor)

    @staticmethod
    def _steps(amount: float, max_steps: int) -> int:
        """A share of the run, or a number of steps, as a number of steps."""
        return round(amount * max_steps) if amount < 1 else round(amount)


def schedule(given: Schedule | str) -> Schedule:
    """A schedule, given itself or by name."""
    return given if isinstance(given, Schedule) else Schedule(given)
