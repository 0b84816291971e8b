"""Files of spectra: those of `quadsim measure`, and users' eigenvalues in .npz or CSV. Nothing is unpickled.

A measured file is an .npz with one array for each block and probe, called ``layer3.query/0``, whose rows are nodes,
weights and residuals, and with the text ``provenance``: JSON with what was measured, how, and the command that
repeats it. A user's .npz holds one vector of eigenvalues for each block; a user's CSV has one column for each
block under its name, or the columns ``block`` and ``eigenvalue``.
"""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import _files
from quadsim._parsing import NUMBER
from quadsim._source import PARSE_LOCK
from quadsim._validation import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_BYTES = 2**28  # of a file, unpacked


@dataclass(frozen=True, repr=False)
class MeasuredBlock:
    """One block's spectrum: for each probe, quadrature nodes, their weights and the residuals of the Ritz pairs.

    Eigenvalues that are known exactly are nodes of equal weight and residual 0.

    Attributes
    ----------
    name : str
    size : int
        The number of parameters of the block.
    nodes, weights, residuals : tuple of arrays
        One array for each probe; nodes increase, weights add to 1.

    Examples
    --------
    >>> block = qs.spectra.load("gpt2").block("layer3.query")
    >>> block.size, block.probes, block.nodes[0].size
    (589824, 2, 60)
    """

    name: str
    size: int
    nodes: tuple[np.ndarray, ...]
    weights: tuple[np.ndarray, ...]
    residuals: tuple[np.ndarray, ...]

    @property
    def probes(self) -> int:
        """The number of probes."""
        return len(self.nodes)

    @property
    def largest(self) -> float:
        """The largest magnitude of a node over all probes."""
        return max(float(abs(nodes).max()) for nodes in self.nodes)

    def __repr__(self) -> str:
        from quadsim._display import spectra

        return spectra.block_text(self)

    def _repr_html_(self) -> str:
        from quadsim._display import spectra

        return spectra.block_html(self)

    def to_frame(self) -> pd.DataFrame:
        """The nodes as a tidy table.

        Returns
        -------
        DataFrame
            One row for each node; the columns are block, probe, eigenvalue and weight (within a probe they add to 1).

        Examples
        --------
        >>> qs.spectra.load("gpt2").block("layer3.query").to_frame().groupby("probe")["weight"].sum().round(12).tolist()
        [1.0, 1.0]
        """
        import pandas as pd

        columns = ("probe", "eigenvalue", "weight")
        parts = [
            pd.DataFrame(dict(zip(columns, (probe, *values), strict=True)))
            for probe, values in enumerate(zip(self.nodes, self.weights, strict=True))
        ]
        return pd.concat(parts, ignore_index=True).assign(block=self.name)[["block", *columns]]

    def plot(self, ax: Axes | None = None, **options: Any) -> Figure | Axes:
        """Draw the density of the eigenvalues.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.
        options :
            As in `quadsim.plots.densities`.

        Returns
        -------
        Figure or Axes
            The new figure, or ``ax``.

        Examples
        --------
        >>> figure = qs.spectra.load("gpt2").block("layer3.query").plot()
        """
        from quadsim import plots
        from quadsim.spectra import distance

        return plots.densities(distance.density_table([self]), ax=ax, **options)


@dataclass(frozen=True, repr=False)
class Measured:
    """The blocks of one network, and where they come from.

    Attributes
    ----------
    name : str
    blocks : dict
        `MeasuredBlock` by name.
    provenance : dict
        What was measured, how, and the command that repeats it.

    Examples
    --------
    >>> gpt2 = qs.spectra.load("gpt2")
    >>> gpt2.name, gpt2.finished, list(gpt2.blocks)[:2]
    ('gpt2', True, ['embedding', 'layer3.query'])
    """

    name: str
    blocks: Mapping[str, MeasuredBlock]
    provenance: Mapping[str, Any]

    @property
    def finished(self) -> bool:
        """Whether every block has all of its probes."""
        return bool(self.provenance.get("finished", True))

    def block(self, name: str) -> MeasuredBlock:
        """A block by its name.

        Parameters
        ----------
        name : str

        Returns
        -------
        MeasuredBlock

        Examples
        --------
        >>> qs.spectra.load("gpt2").block("layer3.query").name
        'layer3.query'
        """
        if name not in self.blocks:
            raise InputError(f"{self.name} has no block {name!r}: it has {', '.join(self.blocks)}")
        return self.blocks[name]

    def __repr__(self) -> str:
        from quadsim._display import spectra

        return spectra.measured_text(self)

    def _repr_html_(self) -> str:
        from quadsim._display import spectra

        return spectra.measured_html(self)

    def to_frame(self) -> pd.DataFrame:
        """The nodes of all blocks as a tidy table.

        Returns
        -------
        DataFrame
            One row for each node; the columns are those of `MeasuredBlock.to_frame`.

        Examples
        --------
        >>> qs.spectra.load("gpt2").to_frame().columns.tolist()
        ['block', 'probe', 'eigenvalue', 'weight']
        """
        import pandas as pd

        return pd.concat([block.to_frame() for block in self.blocks.values()], ignore_index=True)

    def plot(self, ax: Axes | None = None, **options: Any) -> Figure | Axes:
        """Draw the density of the eigenvalues of each block, in a panel of its own.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.
        options :
            As in `quadsim.plots.densities`.

        Returns
        -------
        Figure or Axes
            The new figure, or ``ax``.

        Examples
        --------
        >>> figure = qs.spectra.load("gpt2").plot()
        """
        from quadsim import plots
        from quadsim.spectra import distance

        return plots.densities(distance.density_table(list(self.blocks.values())), ax=ax, **options)


def exact(name: str, eigenvalues: Any) -> MeasuredBlock:
    """A block whose eigenvalues are all known."""
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"block {name} must be a list of at least one eigenvalue, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise InputError(f"block {name}: eigenvalues must be finite, got {values[~np.isfinite(values)][0]}")
    even = np.full(values.size, 1 / values.size)
    return MeasuredBlock(name, values.size, (values,), (even,), (np.zeros(values.size),))


def read(path: Path) -> Measured:
    """The spectra in a file, by its suffix: .npz or .csv."""
    _files.check_file("network", path, at_most=MAX_BYTES)
    readers = {".npz": _read_npz, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise InputError(f"{path} must be an .npz or a .csv file")
    return readers[path.suffix.lower()](path)


def _read_npz(path: Path) -> Measured:
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > MAX_BYTES:
                raise InputError(f"{path} unpacks to more than {MAX_BYTES // 2**20} MB: not a file of spectra")
        with PARSE_LOCK, np.load(path, allow_pickle=False) as content:  # the header of an array is parsed by `ast`
            arrays = dict(content)
    except InputError:
        raise
    except Exception as error:  # numpy and zipfile raise about ten kinds of exceptions on malformed files
        pickled = "pickled objects" in str(error) or "allow_pickle" in str(error)
        why = "it holds pickled objects, which are never loaded" if pickled else "it is truncated or not an .npz file"
        raise InputError(f"{path} cannot be read: {why}") from None
    if "provenance" in arrays:
        return _measured(path, arrays)
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "iuf" or array.ndim != 1:
            raise InputError(f"{path}: {name!r} must be a vector of eigenvalues")
    return _exact_blocks(path, arrays)


def _exact_blocks(path: Path, eigenvalues: Mapping[str, Any]) -> Measured:
    """The blocks of a user's file, whose eigenvalues are all known."""
    if not eigenvalues:
        raise InputError(f"{path} holds no eigenvalues")
    return Measured(path.stem, {name: exact(name, part) for name, part in eigenvalues.items()}, {"source": path.name})


def _measured(path: Path, arrays: dict[str, np.ndarray]) -> Measured:
    """The contents of a measured file, checked, since it may have been altered."""
    try:
        provenance = json.loads(str(arrays.pop("provenance")), parse_constant=_no_constant)
        sizes = {name: int(facts["size"]) for name, facts in provenance["blocks"].items()}
        measured = {key.rpartition("/")[0] for key in arrays}
        if not isinstance(provenance.get("settings", {}), dict) or set(sizes) != measured:
            raise ValueError
        blocks = {name: _block(name, size, arrays) for name, size in sizes.items()}
    except Exception:  # anything missing or of the wrong type
        raise InputError(f"{path} was not written by quadsim measure, or is damaged") from None
    return Measured(str(provenance.get("name", path.stem)), blocks, provenance)


def _no_constant(word: str) -> float:
    raise ValueError(word)  # NaN and Infinity are not JSON


def _block(name: str, size: int, arrays: dict[str, np.ndarray]) -> MeasuredBlock:
    """A block from its arrays, one for each probe from 0 on."""
    count = sum(key.rpartition("/")[0] == name for key in arrays)
    rules = [arrays[f"{name}/{probe}"] for probe in range(count)]
    for rule in rules:
        nodes, weights, _ = rule
        sound = rule.dtype == np.float64 and rule.ndim == 2 and nodes.size > 0 and np.isfinite(rule).all()
        sound = sound and (np.diff(nodes) >= 0).all() and rule[1:].min() >= 0 and weights.sum() > 0
        if not sound:
            raise ValueError(name)
    nodes, weights, residuals = (tuple(rule[part] for rule in rules) for part in range(3))
    return MeasuredBlock(name, size, nodes, weights, residuals)


def _read_csv(path: Path) -> Measured:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path} cannot be read: it is not a CSV text") from None
    if not rows:
        raise InputError(f"{path} is empty")
    head, body = [cell.strip() for cell in rows[0][1]], rows[1:]
    if all(NUMBER.fullmatch(cell) for cell in head):  # no names: number the columns
        head, body = [f"block{number}" for number in range(len(head))], rows
    columns: dict[str, list[float]] = {}
    tidy = {"block", "eigenvalue"} <= set(head)
    if not tidy and len(set(head)) < len(head):
        raise InputError(f"{path} has two columns with the same name: block names must be distinct")
    for line, row in body:
        if len(row) > len(head):
            raise InputError(f"{path}, line {line}: {len(row)} cells under {len(head)} names")
        cells = dict(zip(head, (cell.strip() for cell in row), strict=False))
        pairs = [(cells.get("block", ""), cells.get("eigenvalue", ""))] if tidy else list(cells.items())
        for name, cell in pairs:
            if cell == "" and not tidy:
                continue  # blocks may be of different length
            if name == "":
                raise InputError(f"{path}, line {line}: {cell} is in a column without a name; leave index columns out")
            if not NUMBER.fullmatch(cell):
                raise InputError(f"{path}, line {line}: {cell!r} is not a number")
            columns.setdefault(name, []).append(float(cell))
    return _exact_blocks(path, columns)


def write(path: Path, measured: Measured) -> None:
    """Write a measurement atomically."""
    arrays = {
        f"{name}/{probe}": np.stack([block.nodes[probe], block.weights[probe], block.residuals[probe]])
        for name, block in measured.blocks.items()
        for probe in range(block.probes)
    }
    text = json.dumps(dict(measured.provenance), ensure_ascii=False, allow_nan=False)

    def fill(draft: Path) -> None:
        with open(draft, "wb") as file:
            np.savez(file, provenance=np.array(text), **arrays)  # type: ignore[arg-type]

    _files.write_atomically(path, fill, sync=True)
