"""Random streams, each named by what it draws and never by who uses it.

`stream(0, "basis", 2)` is the generator of block 2's basis under seed 0. GD and Adam ask for the same name
and see the same draw, and a new user of randomness changes nobody's numbers.
"""

from __future__ import annotations

import zlib

import numpy as np

from quadsim import checks

MOST_SEED = 2**63 - 1  # what a column of a table can hold


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """The generator for what `name` names, under `seed`."""
    seed = checked_seed(seed)
    key = tuple(zlib.crc32(word.encode()) if isinstance(word, str) else word for word in name)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def checked_seed(seed: int) -> int:
    """The seed, if it is one: asked before anything is looked up by it."""
    return checks.whole("seed", seed, at_least=0, at_most=MOST_SEED)
