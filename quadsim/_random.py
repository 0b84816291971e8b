"""Random streams, each named by what it draws and not by what uses it.

`stream(0, "basis", 2)` is the generator of the basis of block 2 under seed 0. So GD and Adam see the same draws, and
a new use of randomness changes no other numbers.
"""

from __future__ import annotations

import zlib

import numpy as np

from quadsim import _validation as checks

MAX_SEED = 2**63 - 1  # the largest int64


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """The generator of the stream ``name`` under ``seed``."""
    seed = checked_seed(seed)
    key = tuple(zlib.crc32(word.encode()) if isinstance(word, str) else word for word in name)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def checked_seed(seed: int) -> int:
    """The seed, if it is an integer from 0 to MAX_SEED."""
    return checks.whole("seed", seed, at_least=0, at_most=MAX_SEED)
