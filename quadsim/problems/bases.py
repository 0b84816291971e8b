"""Random orthogonal bases and Gaussian points, each from its own named random stream, cached where they are small."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from quadsim._random import checked_seed, stream
from quadsim.problems.linear_algebra import SMALL_BLOCK, blas_threads, read_only

CACHE_SIZE = 4096  # bases of up to SMALL_BLOCK² entries: 32 MB; twice as many Gaussian points


def random_basis(n: int, seed: int, number: int, rotation: float) -> np.ndarray:
    """The basis of block `number`, (n, n), read-only."""
    return (_basis if n <= SMALL_BLOCK else _basis.__wrapped__)(n, seed, number, rotation)


def gaussian_point(dim: int, seed: Any, name: str) -> np.ndarray:
    """The standard normal point of the random stream `name`."""
    return (_point if dim <= SMALL_BLOCK**2 else _point.__wrapped__)(dim, checked_seed(seed), name).copy()


@lru_cache(maxsize=CACHE_SIZE)
def _basis(n: int, seed: int, number: int, rotation: float) -> np.ndarray:
    return read_only(partial_rotation(haar_basis(n, stream(seed, "basis", number)), rotation))


@lru_cache(maxsize=2 * CACHE_SIZE)
def _point(dim: int, seed: int, name: str) -> np.ndarray:
    return read_only(stream(seed, name).standard_normal(dim))


def haar_basis(n: int, rng: np.random.Generator) -> np.ndarray:
    """A Haar-distributed rotation, (n, n), orthonormal columns, determinant +1.

    QR with the signs of R's diagonal moved into Q is Haar on all orthogonal matrices. The last column's sign
    is then chosen for determinant +1, so that a geodesic connects it to the identity; Q diag(λ) Qᵀ is not changed.
    """
    with blas_threads(n):
        q, r = np.linalg.qr(rng.standard_normal((n, n)))
        q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
        if np.linalg.det(q) < 0:
            q[:, -1] *= -1
    return q


def partial_rotation(q: np.ndarray, fraction: float) -> np.ndarray:
    """The point at `fraction` of the geodesic from the identity to the rotation q: exp(fraction · log q).

    A rotation rotates each of its invariant planes by an angle; here each is rotated by that fraction of its angle.
    """
    n = q.shape[0]
    if fraction == 0:
        return np.eye(n)
    if fraction == 1:
        return q
    from scipy.linalg import schur

    with blas_threads(n):
        form, z = schur(q, output="real")  # q = z form zᵀ, block-diagonal: 2 x 2 rotations, and ±1
    part = np.eye(n)
    half_turns = []  # where form is -1: these come in pairs, and a pair is a rotation by pi
    i = 0
    while i < n:
        if i + 1 < n and form[i + 1, i] != 0:
            angle = np.arctan2(form[i + 1, i] - form[i, i + 1], form[i, i] + form[i + 1, i + 1])
            _set_rotation(part, i, i + 1, fraction * angle)
            i += 2
        else:
            if form[i, i] < 0:
                half_turns.append(i)
            i += 1
    for a, b in zip(half_turns[::2], half_turns[1::2], strict=True):
        _set_rotation(part, a, b, fraction * np.pi)
    with blas_threads(n):
        return z @ part @ z.T


def _set_rotation(matrix: np.ndarray, a: int, b: int, angle: float) -> None:
    """Write a rotation by `angle` into the plane of axes a and b."""
    matrix[a, a] = matrix[b, b] = np.cos(angle)
    matrix[b, a], matrix[a, b] = np.sin(angle), -np.sin(angle)
