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

    kind : str
        With k = t − 1 − W, the number of steps since the warm-up, and s = k/(T − W): "constant" 1; "cosine"
        (1 + cos πs)/2; "linear" 1 − s; "sqrt" √(max(W, 1)/t), the 1/√t law; "step" drop^⌊k/every⌋.
    warmup : float
        W: a share of T below 1, or a number of steps. By default a tenth of T for "cosine", as Orvieto & Gower's text
        says (their code has a twentieth), and none otherwise.
    every, drop : float
        For "step": every ``every`` steps (below 1: a share of T) after the warm-up, the rate is multiplied by ``drop``.
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
        """Raise unless the warm-up ends before the last step."""
        if self.warmup and self._steps(self.warmup, max_steps) >= max_steps > 0:
            raise InputError(f"warmup must end before the last step, {max_steps}, got {self.warmup:g}")

    def factors(self, first: int, last: int, max_steps: int) -> np.ndarray:
        """The factors of the steps first, …, last of a run of max_steps; the first step of a run is 1."""
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
