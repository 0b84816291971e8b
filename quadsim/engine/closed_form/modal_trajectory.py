"""A linear method's run as a sum of modes: loss, gradient norm and error at any step.

Values are logarithms, so that nothing underflows. `first_passage` searches for the first step below a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from quadsim.engine.closed_form.modes import Modes, Powers

MAX_ENTRIES = 2**21  # modes times steps computed together: 16 MB per array
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class ModalTrajectory:
    """A run as a sum of modes. The error of a block is ``bases[block]`` times the p_t of its modes.

    A basis is a matrix, or the diagonal of one for a diagonal block. ``blocks`` are the slices of the modes by block.
    ``log_weights`` are the logarithms of the modes' shares of the first loss, ``log_lengths`` those of the lengths of
    their first gradients, ``log_floors`` those of the part of each length that no other mode can cancel.
    ``directions`` has for each block the unit vectors of these gradients, or is None where they are orthogonal.
    """

    modes: Modes
    blocks: tuple[slice, ...]
    bases: tuple[np.ndarray, ...]
    log_weights: np.ndarray
    log_lengths: np.ndarray
    log_floors: np.ndarray
    directions: tuple[np.ndarray, ...] | None

    @cached_property
    def unstable(self) -> bool:
        """Whether a mode that the start excites grows, by more than rounding in 10¹² steps."""
        return bool((self.log_rates[np.isfinite(self.log_weights)] > 4 * EPS).any())

    @cached_property
    def only_powers(self) -> bool:
        """Whether every mode is a power z^t."""
        return all(isinstance(group, Powers) for group in self.modes.groups)

    @cached_property
    def log_rates(self) -> np.ndarray:
        """The logarithm of each mode's asymptotic factor per step."""
        return self.modes.log_rates()

    def logs(self, steps: Any) -> tuple[np.ndarray, np.ndarray]:
        """log loss and log gradient norm at these steps."""
        parts = [self._logs(part) for part in self._parts(steps)]
        return np.concatenate([loss for loss, _ in parts]), np.concatenate([norm for _, norm in parts])

    def log_norms(self, steps: Any) -> np.ndarray:
        """log gradient norm at these steps."""
        return np.concatenate([self.log_norms_of(*self.sizes_and_signs(part)) for part in self._parts(steps)])

    def error_at(self, step: int) -> np.ndarray:
        """The error e after this step."""
        log_size, sign = self.modes.log_sizes_and_signs([step])
        with np.errstate(over="ignore", invalid="ignore"):
            factors = sign[:, 0] * np.exp(log_size[:, 0])
            factors[np.isneginf(self.log_weights)] = 0.0  # a mode that is not excited stays 0 even if its factor grows
            parts = zip(self.bases, [factors[block] for block in self.blocks], strict=True)
            return np.concatenate([basis @ p if basis.ndim == 2 else basis * p for basis, p in parts])

    def sizes_and_signs(self, steps: np.ndarray) -> tuple[np.ndarray, Any]:
        """log|p_t| of the modes, and the signs where the norm depends on them (None otherwise)."""
        return (self.modes.log_sizes(steps), None) if self.directions is None else self.modes.log_sizes_and_signs(steps)

    def log_norms_of(self, log_sizes: np.ndarray, signs: Any) -> np.ndarray:
        """log gradient norm, given log|p_t| and the signs of the modes."""
        lengths = self.log_lengths[:, None] + log_sizes
        if self.directions is None:
            return 0.5 * _log_sum(2 * lengths)
        shift = finite_or_zero(lengths.max(axis=0))
        squares = self.squared_norms(signs * np.exp(lengths - shift))
        with np.errstate(divide="ignore"):
            return shift + 0.5 * np.log(squares)

    def squared_norms(self, lengths: np.ndarray) -> np.ndarray:
        """|g|² in each column, given the signed lengths of the modes' gradients."""
        if self.directions is None:
            return (lengths**2).sum(axis=0)
        parts = zip(self.directions, self.blocks, strict=True)
        return sum(((unit @ lengths[block]) ** 2).sum(axis=0) for unit, block in parts)

    def _parts(self, steps: Any) -> list[np.ndarray]:
        """The steps, split so that arrays have at most MAX_ENTRIES."""
        steps = np.asarray(steps, dtype=float)
        count = -(-self.modes.count * steps.size // MAX_ENTRIES)
        return [steps] if count <= 1 else np.array_split(steps, count)

    def _logs(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        log_sizes, signs = self.sizes_and_signs(steps)
        return _log_sum(self.log_weights[:, None] + 2 * log_sizes), self.log_norms_of(log_sizes, signs)


def finite_or_zero(values: Any) -> Any:
    """The values, with 0 in place of those that are not finite."""
    return np.where(np.isfinite(values), values, 0.0)


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log Σ exp over the first axis."""
    shift = finite_or_zero(logs.max(axis=0))
    with np.errstate(divide="ignore"):
        return shift + np.log(np.exp(logs - shift).sum(axis=0))
