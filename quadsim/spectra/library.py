"""The measured library: spectra of real networks' blocks that ship with quadsim, and samples of eigenvalues from them.

`load("gpt2")` and `load("mine.npz")` give the same kind of thing. How many eigenvalues are taken from a block, and how,
decides what a quadratic made of them is like; `sample` says each choice by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import numpy as np

from quadsim import checks
from quadsim.checks import InputError, InputTypeError
from quadsim.spectra import files
from quadsim.spectra.files import Measured, MeasuredBlock
from quadsim.spectra.made import LARGEST, MOST
from quadsim.streams import stream

RULES = {
    "leading": "without replacement from the `pool` largest in magnitude (4/3 of the number asked for)",
    "ritz": "without replacement from all nodes",
    "mass": "with replacement from all nodes, by quadrature weight: the density of eigenvalues",
    "above": "from the nodes above `threshold` times the largest magnitude (0.1); with replacement if they are too few",
}
SIGNS = {
    "magnitude": "eigenvalues count by their magnitude",
    "signed": "as they are, negative ones too; only map affine makes a quadratic of them",
    "positive": "positive nodes only",
}


def library() -> dict[str, Measured]:
    """What was measured, by name."""
    return {name: load(name) for name in _shipped()}


def _shipped() -> list[str]:
    folder = resources("quadsim") / "data"
    return sorted(file.name.removesuffix(".npz") for file in folder.iterdir() if file.name.endswith(".npz"))


def load(name: str | Path) -> Measured:
    """Measured spectra by their name in the library, or a user's own from an .npz or CSV file."""
    if not isinstance(name, str | Path):
        raise InputTypeError(f"network must be a name in the library or a file, got {checks.shown(name)}")
    text = str(name)
    if "\0" in text:
        raise InputError(f"network must be a name in the library or a file, got {checks.shown(text)}")
    if isinstance(name, Path) or is_path(text):
        return files.read(Path(text))
    checks.choice("network", text, _shipped())
    return replace(files.read(path_of(text)), name=text)


def is_path(name: str) -> bool:
    """Whether this names a file, and not an entry of the library."""
    return Path(name).suffix.lower() in (".npz", ".csv") or "/" in name


def path_of(name: str) -> Path:
    """The file of spectra that `load` reads."""
    return Path(name) if is_path(name) else Path(str(resources("quadsim") / "data" / f"{name}.npz"))


def sample(
    block: MeasuredBlock,
    size: int,
    *,
    rule: str = "leading",
    sign: str = "magnitude",
    pool: int | None = None,
    threshold: float | None = None,
    probe: int = 0,
    seed: int = 0,
) -> np.ndarray:
    """`size` eigenvalues of a block, in increasing order, drawn from the nodes of one probe by a rule in `RULES`.

    Nodes far out are eigenvalues; most others stand for many eigenvalues near them. One probe is used because the
    outer nodes of two are the same eigenvalues twice.
    """
    checks.choice("rule", rule, RULES)
    checks.choice("sign", sign, SIGNS)
    size = checks.whole("block_size", size, at_least=1, at_most=MOST)
    probe = checks.whole("probe", probe, at_least=0, at_most=block.probes - 1)
    if pool is not None and rule != "leading":
        raise InputError(f"pool={pool} is for rule leading, not for {rule}")
    if threshold is not None and rule != "above":
        raise InputError(f"threshold={threshold} is for rule above, not for {rule}")
    nodes, weights = block.nodes[probe], block.weights[probe]
    if sign == "positive":
        nodes, weights = nodes[nodes > 0], weights[nodes > 0]
    elif sign == "magnitude":
        nodes = abs(nodes)
    rng = stream(seed, "spectrum", block.name)
    if rule == "mass":
        if weights.sum() == 0:
            raise InputError(f"block {block.name} has no {sign} nodes")
        return np.sort(rng.choice(nodes, size, p=weights / weights.sum()))
    by_size = nodes[np.argsort(-abs(nodes), kind="stable")]
    if rule == "above":
        share = checks.real("threshold", 0.1 if threshold is None else threshold, at_least=0, below=1)
        by_size = by_size[abs(by_size) > share * block.largest]
        if by_size.size == 0:
            raise InputError(f"block {block.name} has no {sign} node above {share:g} of the largest magnitude")
        return np.sort(rng.choice(by_size, size, replace=by_size.size < size))
    if rule == "leading":
        wide = math.ceil(4 * size / 3) if pool is None else checks.whole("pool", pool, at_least=size)
        by_size = by_size[:wide]
    if by_size.size == 0:
        raise InputError(f"block {block.name} has no {sign} nodes")
    if by_size.size < size:
        what = "nodes" if sign == "magnitude" else f"{sign} nodes"
        raise InputError(
            f"block {block.name} has {by_size.size} {what}, and {size} eigenvalues were asked for: "
            f"use block_size={by_size.size} or less{', or another rule' if rule != 'ritz' else ''}"
        )
    return np.sort(rng.choice(by_size, size, replace=False))


def sample_blocks(measured: Measured, blocks: Sequence[str], size: int, **how: Any) -> tuple[np.ndarray, ...]:
    """A sample from each of the blocks; not yet a problem's spectra: they may be zero or negative."""
    if isinstance(blocks, str) or not isinstance(blocks, Sequence) or len(blocks) == 0:
        raise InputTypeError(f"blocks must be a list of names, got {checks.shown(blocks)}")
    names = [str(name) for name in blocks]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"block {name} is named twice")
    if len(names) * checks.whole("block_size", size, at_least=1, at_most=MOST) > MOST:
        raise InputError(f"a problem must have at most {MOST} eigenvalues, got {len(names)} blocks of {size}")
    samples = tuple(sample(measured.block(name), size, **how) for name in names)
    if max(abs(values).max() for values in samples) > LARGEST:
        raise InputError(f"eigenvalues must be at most {LARGEST:g} in magnitude")
    return samples
