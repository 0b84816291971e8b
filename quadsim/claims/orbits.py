"""Long runs of Adam (ε = 0, lr = 1) on many small blocks: time averages and largest gradients.

An independent oracle: it shares no code with the solver. Compiled once in each process, not cached on disk.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np


class LongRun(NamedTuple):
    """The mean loss of each run over the counted steps, and the largest |g_i|; NaN if v left the range of float64.

    ``loss`` is (runs,), ``gradient`` (runs, n).
    """

    loss: np.ndarray
    gradient: np.ndarray


def long_run(
    h: np.ndarray,
    e: np.ndarray,
    beta2: Any,
    *,
    before: Any,
    counted: Any,
    v0: Any = 1.0,
    beta1: Any = 0.0,
    kick: float = 0.0,
) -> LongRun:
    """Run Adam from the errors e (runs, n) on the blocks h (runs, n, n); settings may differ between runs.

    m begins at the first gradient, v at `v0` times its square. The mean is over `counted` steps after `before` other
    steps, every step included, so that fast oscillations of the loss cancel. The weights are sin², a smooth window in
    which slow oscillations cancel too: at β2 = 0.999 unweighted means of 20,000 steps differed by up to 2.3e-3 from
    those of 170,000 steps, weighted means by 4e-4.

    ``kick`` is a relative perturbation of e halfway through the steps that do not count. It makes a run leave an
    unstable cycle, which a search would otherwise start on exactly, and report as a floor.
    """
    h, e = np.ascontiguousarray(h, dtype=float), np.array(e, dtype=float)
    g = np.einsum("kij,kj->ki", h, e)
    first, *settings = (np.array(np.broadcast_to(value, len(e)), dtype=float) for value in (v0, beta1, beta2))
    v = first[:, None] * g * g
    lengths = [2 * (np.array(np.broadcast_to(value, len(e)), dtype=np.int64) // 2) for value in (before, counted)]
    loss, largest = np.empty(len(e)), np.empty_like(e)
    _kernel()(h, e, g, v, *settings, *lengths, float(kick), loss, largest)
    return LongRun(loss, largest)


def _run(h, e, m, v, beta1, beta2, before, counted, kick, loss, largest):  # type: ignore[no-untyped-def]
    n = e.shape[1]
    g = np.empty(n)
    for k in range(e.shape[0]):
        b1, b2, weights, total = beta1[k], beta2[k], 0.0, 0.0
        angle = np.pi / counted[k]
        largest[k] = 0.0
        for t in range(before[k] + counted[k]):
            if kick > 0 and 2 * t == before[k]:
                for i in range(n):
                    e[k, i] *= 1 + kick * np.cos(1.0 + i)
            twice = 0.0
            for i in range(n):
                gradient = 0.0
                for j in range(n):
                    gradient += h[k, i, j] * e[k, j]
                g[i] = gradient
                twice += gradient * e[k, i]
            for i in range(n):
                m[k, i] = b1 * m[k, i] + (1 - b1) * g[i]
                v[k, i] = b2 * v[k, i] + (1 - b2) * g[i] * g[i]
                e[k, i] -= m[k, i] / np.sqrt(v[k, i])
            if t >= before[k]:
                weight = np.sin(angle * (t - before[k] + 0.5)) ** 2
                weights += weight
                total += weight * twice
                for i in range(n):
                    largest[k, i] = max(largest[k, i], abs(g[i]))
        loss[k] = total / (2 * weights)


@functools.cache
def _kernel() -> Any:
    import numba

    return numba.njit(error_model="numpy")(_run)
