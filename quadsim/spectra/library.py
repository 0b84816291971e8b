"""The library of measured spectra of network blocks that ships with quadsim, and samples of eigenvalues from them.

`load("gpt2")` and `load("mine.npz")` return the same type. A quadratic depends strongly on how many eigenvalues are
sampled from a block, and how; `sample` names each choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import numpy as np

from quadsim import _validation as checks
from quadsim._random import stream
from quadsim._validation import InputError, InputTypeError
from quadsim.spectra import files
from quadsim.spectra.files import Measured, MeasuredBlock
from quadsim.spectra.synthetic import MAX_DIM, MAX_EIGENVALUE

#: How `sample` draws eigenvalues from the nodes of a block, by name.
SAMPLINGS = {
    "leading": "without replacement from the `pool` largest in magnitude (4/3 of the number requested)",
    "ritz": "without replacement from all nodes",
    "mass": "with replacement from all nodes, by quadrature weight: the density of eigenvalues",
    "above": "from the nodes above `threshold` times the largest magnitude (0.1); with replacement if they are too few",
}
#: Which nodes `sample` draws from, by name.
SIGNS = {
    "magnitude": "magnitudes of the eigenvalues",
    "signed": "unchanged, with negative ones; a quadratic of them requires map affine",
    "positive": "positive nodes only",
}


def library() -> dict[str, Measured]:
    """The measured networks that ship with quadsim.

    Returns
    -------
    dict
        `Measured` by name.

    Examples
    --------
    >>> "gpt2" in qs.spectra.library()
    True
    """
    return {name: load(name) for name in _shipped()}


def _shipped() -> list[str]:
    folder = resources("quadsim.spectra") / "data"
    return sorted(file.name.removesuffix(".npz") for file in folder.iterdir() if file.name.endswith(".npz"))


def load(name: str | Path) -> Measured:
    """Measured spectra by their name in the library, or from a user's file.

    Parameters
    ----------
    name : str or path
        A name in the library, or an .npz or CSV file: one vector of eigenvalues for each block in an .npz; in a CSV one
        column for each block under its name, or the columns block and eigenvalue.

    Returns
    -------
    Measured

    Examples
    --------
    >>> np.savez("mine.npz", fc1=[1.0, 2.0, 5.0], fc2=[100.0, 300.0])
    >>> list(qs.spectra.load("mine.npz").blocks)
    ['fc1', 'fc2']
    """
    text = str(name)
    if not isinstance(name, str | Path) or "\0" in text:
        raise InputTypeError(f"network must be a name in the library or a file, got {checks.shown(name)}")
    if isinstance(name, Path) or is_path(text):
        return files.read(Path(text))
    checks.choice("network", text, _shipped())
    return replace(files.read(path_of(text)), name=text)


def is_path(name: str) -> bool:
    """Whether this names a file, and not an entry of the library."""
    return Path(name).suffix.lower() in (".npz", ".csv") or "/" in name


def path_of(name: str) -> Path:
    """The file of spectra that `load` reads."""
    return Path(name) if is_path(name) else Path(str(resources("quadsim.spectra") / "data" / f"{name}.npz"))


def sample(
    block: MeasuredBlock,
    size: int,
    *,
    sampling: str = "leading",
    sign: str = "magnitude",
    pool: int | None = None,
    threshold: float | None = None,
    probe: int = 0,
    seed: int = 0,
) -> np.ndarray:
    """Eigenvalues of a block, drawn from the nodes of one probe.

    Outer nodes are converged eigenvalues; most others represent many eigenvalues near them. Only one probe is used,
    since the outer nodes of two are the same eigenvalues.

    Parameters
    ----------
    block : MeasuredBlock
    size : int
        The number of eigenvalues.
    sampling : str
        How they are drawn, by name in `SAMPLINGS`.
    sign : str
        Which nodes count, by name in `SIGNS`.
    pool : int, optional
        For sampling "leading": the number of largest nodes to draw from.
    threshold : float, optional
        For sampling "above": the share of the largest magnitude.
    probe, seed : int

    Returns
    -------
    (size,) array
        Increasing.

    Examples
    --------
    >>> block = qs.spectra.load("gpt2").block("layer3.query")
    >>> values = qs.spectra.sample(block, 5, seed=1)
    >>> values.size, bool((np.diff(values) >= 0).all())
    (5, True)
    """
    checks.choice("sampling", sampling, SAMPLINGS)
    checks.choice("sign", sign, SIGNS)
    size = checks.whole("block_size", size, at_least=1, at_most=MAX_DIM)
    probe = checks.whole("probe", probe, at_least=0, at_most=block.probes - 1)
    if pool is not None and sampling != "leading":
        raise InputError(f"pool={pool} is for sampling leading, not for {sampling}")
    if threshold is not None and sampling != "above":
        raise InputError(f"threshold={threshold} is for sampling above, not for {sampling}")
    nodes, weights = block.nodes[probe], block.weights[probe]
    if sign == "positive":
        nodes, weights = nodes[nodes > 0], weights[nodes > 0]
    elif sign == "magnitude":
        nodes = abs(nodes)
    if nodes.size == 0 or (sampling == "mass" and weights.sum() == 0):
        raise InputError(f"block {block.name} has no {sign} nodes")
    rng = stream(seed, "spectrum", block.name)
    if sampling == "mass":
        return np.sort(rng.choice(nodes, size, p=weights / weights.sum()))
    ranked = nodes[np.argsort(-abs(nodes), kind="stable")]
    if sampling == "above":
        share = checks.real("threshold", 0.1 if threshold is None else threshold, at_least=0, below=1)
        ranked = ranked[abs(ranked) > share * block.largest]
        if ranked.size == 0:
            raise InputError(f"block {block.name} has no {sign} node above {share:g} of the largest magnitude")
        return np.sort(rng.choice(ranked, size, replace=ranked.size < size))
    if sampling == "leading":
        pool_size = math.ceil(4 * size / 3) if pool is None else checks.whole("pool", pool, at_least=size)
        ranked = ranked[:pool_size]
    if ranked.size < size:
        what = "nodes" if sign == "magnitude" else f"{sign} nodes"
        raise InputError(
            f"block {block.name} has {ranked.size} {what}, and {size} eigenvalues were asked for: "
            f"use block_size={ranked.size} or less{', or another sampling' if sampling != 'ritz' else ''}"
        )
    return np.sort(rng.choice(ranked, size, replace=False))


def sample_blocks(measured: Measured, blocks: Sequence[str], size: int, **how: Any) -> tuple[np.ndarray, ...]:
    """A sample from each of several blocks.

    Parameters
    ----------
    measured : Measured
    blocks : list of str
    size : int
        The number of eigenvalues of each block.
    **how :
        As in `sample`.

    Returns
    -------
    tuple of (size,) arrays
        They may hold zero or negative eigenvalues if ``sign`` allows them.

    Examples
    --------
    >>> gpt2 = qs.spectra.load("gpt2")
    >>> [part.size for part in qs.spectra.sample_blocks(gpt2, ["embedding", "layer3.query"], 10)]
    [10, 10]
    """
    if isinstance(blocks, str) or not isinstance(blocks, Sequence) or len(blocks) == 0:
        raise InputTypeError(f"blocks must be a list of names, got {checks.shown(blocks)}")
    names = [str(name) for name in blocks]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"block {name} is named twice")
    if len(names) * checks.whole("block_size", size, at_least=1, at_most=MAX_DIM) > MAX_DIM:
        raise InputError(f"a problem must have at most {MAX_DIM} eigenvalues, got {len(names)} blocks of {size}")
    samples = tuple(sample(measured.block(name), size, **how) for name in names)
    if max(abs(values).max() for values in samples) > MAX_EIGENVALUE:
        raise InputError(f"eigenvalues must be at most {MAX_EIGENVALUE:g} in magnitude")
    return samples
