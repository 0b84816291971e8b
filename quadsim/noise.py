"""Noise in the gradient: minibatches of rows, noise of its own, noisy labels.

The random numbers of a run are those of numpy's Philox generator with a key drawn from the run's seed; the step is
part of the counter. So a run's noise depends on its seed and the step alone: not on the optimizer, on what runs beside
it, or on threads. `kernels` computes the same numbers; those here are for looking, and for testing.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from quadsim import checks
from quadsim.checks import InputError
from quadsim.problem import BlockQuadratic
from quadsim.streams import stream

FACTORS = ("root", "rotated")
BATCH, GRADIENT, LABELS, RULE = range(4)  # what numbers are for: the counter's third word


@dataclass(frozen=True)
class Noise:
    """What is random about a gradient. The loss is that of least squares, ‖Xe‖²/2n with XᵀX/n = H and n = dim rows.

    batch : int, optional
        A step sees this many rows of X, drawn without replacement: (1/k) Σ x xᵀe, of mean He.
    factor : "root" or "rotated"
        Which X: √n·H^½, or √n·√Λ·Uᵀ with H = UΛUᵀ. Their minibatches differ.
    noise : float
        Adds this many times a standard normal vector to the gradient.
    label_noise : float
        The labels of a step's rows are off by this many times fresh standard normal numbers: x(xᵀe − noise).
    """

    batch: int | None = None
    factor: str = "root"
    noise: float = 0.0
    label_noise: float = 0.0

    def __post_init__(self) -> None:
        if self.batch is not None:
            object.__setattr__(self, "batch", checks.whole("batch", self.batch, at_least=1))
        checks.choice("factor", self.factor, FACTORS)
        for name in ("noise", "label_noise"):
            object.__setattr__(self, name, checks.real(name, getattr(self, name), at_least=0))

    def check(self, problem: BlockQuadratic) -> None:
        """Raise unless the problem has as many rows as a batch."""
        if self.batch is not None and self.batch > problem.dim:
            raise InputError(f"batch must be at most the number of rows, {problem.dim}, got {self.batch}")

    @property
    def any(self) -> bool:
        return self.batch is not None or self.noise > 0 or self.label_noise > 0

    def examples(self, problem: BlockQuadratic) -> list[np.ndarray]:
        """The blocks of A = X/√n, AᵀA = H, whose rows are the examples; none where no rows are drawn."""
        if self.batch is None and self.label_noise == 0:
            return []
        return problem.factor(symmetric=self.factor == "root")


@functools.lru_cache(maxsize=4096)
def run_key(seed: int) -> np.ndarray:
    """The key of a run's random numbers, (2,) uint64."""
    return stream(seed, "noise").integers(0, 2**64, size=2, dtype=np.uint64)


def words(seed: int, step: int, count: int, use: int) -> np.ndarray:
    """The first `count` random words of a run for a step, 1 for the first, and a use."""
    generator = np.random.Philox(key=run_key(seed), counter=[0, step, use, 0])
    return generator.random_raw(count)


def uniforms(seed: int, step: int, count: int) -> np.ndarray:
    """The uniform numbers that rules see as ``random``, one for each coordinate (or block)."""
    return (words(seed, step, count, RULE) >> np.uint64(11)) * 2.0**-53


def gaussians(seed: int, step: int, count: int, use: int = GRADIENT) -> np.ndarray:
    """The standard normal numbers of a step."""
    from scipy.special import ndtri

    return ndtri(((words(seed, step, count, use) >> np.uint64(12)) + 0.5) * 2.0**-52)


def rows(seed: int, step: int, batch: int, count: int) -> np.ndarray:
    """The rows, of `count`, that the minibatch of a step holds."""
    few = min(batch, count - batch)
    drawn: set[int] = set()
    for pick, word in enumerate(words(seed, step, few, BATCH) if few else []):
        last = count - few + pick
        row = (int(word) * (last + 1)) >> 64
        drawn.add(last if row in drawn else row)
    taken = drawn if few == batch else set(range(count)) - drawn
    return np.array(sorted(taken), dtype=np.int64)


def gradient(noise: Noise, problem: BlockQuadratic, error: np.ndarray, seed: int, step: int) -> np.ndarray:
    """The gradient that a step sees at an error, in plain numpy."""
    n = problem.dim
    if noise.batch is None and noise.label_noise == 0:
        seen = problem.curvature(error)
    else:
        examples = noise.examples(problem)
        residual = np.concatenate([a @ part for a, part in zip(examples, problem.split(error), strict=True)])
        residual += noise.label_noise / np.sqrt(n) * gaussians(seed, step, n, LABELS)
        if noise.batch is not None:
            weight = np.zeros(n)
            weight[rows(seed, step, noise.batch, n)] = n / noise.batch
            residual *= weight
        seen = np.concatenate([a.T @ part for a, part in zip(examples, problem.split(residual), strict=True)])
    return seen + noise.noise * gaussians(seed, step, n)
