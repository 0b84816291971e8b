"""Noise in the gradient: minibatches of rows, Gaussian noise, noisy labels.

The random numbers of a run are those of numpy's Philox generator with a key drawn from the run's seed; the step is
part of the counter. So a run's noise depends on its seed and the step alone: not on the optimizer, on other runs of the
batch, or on threads. The compiled kernels draw them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from quadsim import _validation as checks
from quadsim._random import stream
from quadsim._validation import InputError, InputTypeError
from quadsim.problems.block_quadratic import BlockQuadratic

FACTORS = ("root", "rotated")


@dataclass(frozen=True)
class NoiseModel:
    """Normal numbers, fresh at each step, of a scale: added to the gradient, or to the residual Xe/√n before it.

    A model is a subclass with an entry in `MODELS`. The class attribute ``on_residual`` says where it enters;
    `kernel_scale` is the factor on a standard normal number there.

    Parameters
    ----------
    scale : float

    Examples
    --------
    >>> [(type(model).__name__, model.on_residual) for model in qs.Noise("gaussian+labels", scale=(0.1, 0.5)).models]
    [('Gaussian', False), ('Labels', True)]
    """

    scale: float
    on_residual: ClassVar[bool] = False

    def kernel_scale(self, dim: int) -> float:
        """The factor on a standard normal number.

        Parameters
        ----------
        dim : int
            The dimension of the problem, which is the number of rows of X.

        Returns
        -------
        float

        Examples
        --------
        >>> gaussian, labels = qs.Noise("gaussian+labels", scale=(0.1, 0.6)).models
        >>> gaussian.kernel_scale(9), round(float(labels.kernel_scale(9)), 6)
        (0.1, 0.2)
        """
        return self.scale


@dataclass(frozen=True)
class Gaussian(NoiseModel):
    """Adds ``scale`` times a standard normal vector to the gradient.

    Parameters
    ----------
    scale : float

    Examples
    --------
    >>> qs.Noise("gaussian", scale=0.1).models
    (Gaussian(scale=0.1),)
    """


@dataclass(frozen=True)
class Labels(NoiseModel):
    """Least squares whose labels are off by ``scale`` times standard normal numbers: x(xᵀe − noise).

    Parameters
    ----------
    scale : float

    Examples
    --------
    >>> qs.Noise("labels", scale=0.1).models
    (Labels(scale=0.1),)
    """

    on_residual = True

    def kernel_scale(self, dim: int) -> float:
        return self.scale / np.sqrt(dim)


MODELS: dict[str, type[NoiseModel]] = {"gaussian": Gaussian, "labels": Labels}


@dataclass(frozen=True, repr=False)
class Noise:
    """The noise in a gradient.

    The loss is that of least squares, ‖Xe‖²/2n with XᵀX/n = H and n = dim rows.

    Parameters
    ----------
    model : str, optional
        "gaussian": normal noise on the gradient; "labels": noisy labels; "gaussian+labels": both.
    scale : float or tuple of float
        Of the noise; of several models, one for each.
    batch : int, optional
        A step sees this many rows of X, drawn without replacement: (1/k) Σ x xᵀe, of mean He.
    factor : "root" or "rotated"
        Which X: √n·H^½, or √n·√Λ·Uᵀ with H = UΛUᵀ. Their minibatches differ.

    Examples
    --------
    >>> qs.Noise(batch=3)
    Noise(batch=3)
    >>> qs.Noise("gaussian", scale=0.1)
    Noise('gaussian', scale=0.1)
    >>> run = qs.solve(qs.case(3), qs.GD(), noise=qs.Noise(batch=3), max_steps=100)
    >>> run.engine, run.last_step
    ('compiled', 100)
    """

    model: str | None = None
    scale: float | tuple[float, ...] = 1.0
    batch: int | None = None
    factor: str = "root"

    def __post_init__(self) -> None:
        if self.batch is not None:
            object.__setattr__(self, "batch", checks.whole("batch", self.batch, at_least=1))
        checks.choice("factor", self.factor, FACTORS)
        if isinstance(self.scale, np.ndarray):
            object.__setattr__(self, "scale", tuple(self.scale.tolist()) if self.scale.ndim else self.scale.item())
        if self.model is None:
            if self.scale != 1.0:
                raise InputError(f"noise.scale={checks.shown(self.scale)} requires noise: one of {', '.join(MODELS)}")
            return
        if not isinstance(self.model, str):
            raise InputTypeError(f"noise must be one of {', '.join(MODELS)}, got {checks.shown(self.model)}")
        names = [checks.choice("noise", name, MODELS) for name in self.model.split("+")]
        if len(set(names)) < len(names):
            raise InputError(f"noise={self.model} names a model twice")
        scales = self.scale if isinstance(self.scale, tuple | list) else [self.scale]
        scales = tuple(checks.real("noise.scale", scale, at_least=0) for scale in scales)
        if len(scales) != len(names):
            raise InputError(f"noise.scale must have one number for each of {self.model}, got {len(scales)}")
        object.__setattr__(self, "scale", scales if len(scales) > 1 else scales[0])

    def __repr__(self) -> str:
        from quadsim._display import text

        return text.call(self, positional="model")

    @property
    def models(self) -> tuple[NoiseModel, ...]:
        """The models with their scales, without those of scale 0."""
        if self.model is None:
            return ()
        scales = self.scale if isinstance(self.scale, tuple) else (self.scale,)
        models = (MODELS[name](scale) for name, scale in zip(self.model.split("+"), scales, strict=True))
        return tuple(model for model in models if model.scale > 0)

    def kernel_scales(self, dim: int) -> np.ndarray:
        """The factors on the normal numbers of the gradient and of the labels.

        Parameters
        ----------
        dim : int
            The dimension of the problem.

        Returns
        -------
        (2,) array

        Examples
        --------
        >>> qs.Noise("gaussian+labels", scale=(0.1, 0.6)).kernel_scales(9).round(6).tolist()
        [0.1, 0.2]
        """
        scales = [[model.kernel_scale(dim) for model in self.models if model.on_residual == place] for place in (0, 1)]
        return np.array([math.hypot(*several) for several in scales])  # independent normal numbers

    def check(self, problem: BlockQuadratic) -> None:
        """Raise unless the problem has as many rows as a batch.

        Parameters
        ----------
        problem : BlockQuadratic

        Examples
        --------
        >>> qs.Noise(batch=3).check(qs.case(3))
        >>> qs.Noise(batch=10).check(qs.case(3))
        Traceback (most recent call last):
            ...
        quadsim._validation.InputError: batch must be at most the number of rows, 9, got 10
        """
        if self.batch is not None and self.batch > problem.dim:
            raise InputError(f"batch must be at most the number of rows, {problem.dim}, got {self.batch}")

    @property
    def any(self) -> bool:
        """Whether a run with it is random."""
        return self.batch is not None or bool(self.models)

    @property
    def on_rows(self) -> bool:
        """Whether it acts on rows of X, so that the factor matters."""
        return self.batch is not None or any(model.on_residual for model in self.models)

    def columns(self) -> dict[str, Any]:
        """The noise as the columns of a table of runs.

        Returns
        -------
        dict

        Examples
        --------
        >>> qs.Noise("labels", scale=0.5, batch=3).columns()
        {'batch': 3, 'factor': 'root', 'noise': 'labels', 'noise.scale': 0.5}
        """
        scale = "/".join(map(str, self.scale)) if isinstance(self.scale, tuple) else self.scale
        return {
            "batch": self.batch,
            "factor": self.factor,
            "noise": self.model,
            "noise.scale": None if self.model is None else scale,
        }

    def examples(self, problem: BlockQuadratic) -> list[np.ndarray]:
        """The blocks of A = X/√n, AᵀA = H, whose rows are the examples; none where no rows are drawn.

        Parameters
        ----------
        problem : BlockQuadratic

        Returns
        -------
        list of (n, n) arrays

        Examples
        --------
        >>> [block.shape for block in qs.Noise(batch=3).examples(qs.case(3))]
        [(3, 3), (3, 3), (3, 3)]
        >>> qs.Noise("gaussian").examples(qs.case(3))
        []
        """
        return problem.sqrt_hessian(symmetric=self.factor == "root") if self.on_rows else []


@functools.lru_cache(maxsize=4096)
def run_key(seed: int) -> np.ndarray:
    """The key of a run's random numbers, (2,) uint64."""
    return stream(seed, "noise").integers(0, 2**64, size=2, dtype=np.uint64)
