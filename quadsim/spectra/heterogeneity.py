"""Partitions of eigenvalues into blocks, from similar blocks to sorted chunks.

`partition` makes the arrangement that a heterogeneity selects, `arrangement` is its number, and `arrangements` is the
list of all.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.spectra.synthetic import Spectra, check_eigenvalues

if TYPE_CHECKING:
    import pandas as pd


def partition(eigenvalues: Any, blocks: int | Sequence[int], heterogeneity: float) -> Spectra:
    """Partition eigenvalues into blocks: similar at heterogeneity 0 (round-robin, Case 4), sorted chunks at 1 (Case 3).

    In between, this share of the adjacent exchanges that sort the round-robin order is made, and the result is cut into
    blocks. So a small change of heterogeneity makes a few adjacent exchanges, and any two eigenvalues change their
    order at most once on the way from 0 to 1.

    Heterogeneity is not a continuous parameter: it selects one of finitely many arrangements (`arrangements`), five of
    them for three blocks of three.

    Parameters
    ----------
    eigenvalues : list of float
    blocks : int or list of int
        The number of blocks, as equal in size as possible, or their sizes.
    heterogeneity : float
        From 0 to 1.

    Returns
    -------
    tuple of arrays

    Examples
    --------
    >>> values = [1, 2, 3, 99, 100, 101, 4998, 4999, 5000]
    >>> [part.tolist() for part in qs.partition(values, 3, heterogeneity=0)]
    [[1.0, 99.0, 4998.0], [2.0, 100.0, 4999.0], [3.0, 101.0, 5000.0]]
    >>> [part.tolist() for part in qs.partition(values, 3, heterogeneity=1)]
    [[1.0, 2.0, 3.0], [99.0, 100.0, 101.0], [4998.0, 4999.0, 5000.0]]
    """
    values = check_eigenvalues(eigenvalues, "the list")
    sizes = _sizes(values.size, blocks)
    heterogeneity = checks.real("heterogeneity", heterogeneity, at_least=0, at_most=1)
    order = _round_robin(sizes)
    for _ in _sort_sweeps(order, round(heterogeneity * _inversions(order))):
        pass
    return tuple(np.sort(chunk) for chunk in np.split(values[order], np.cumsum(sizes)[:-1]))


@dataclass(frozen=True, repr=False)
class Arrangements:
    """The distinct partitions that `partition` makes of one set of eigenvalues, by increasing heterogeneity.

    Attributes
    ----------
    first : tuple of int
        The number of adjacent exchanges at which each arrangement begins.
    exchanges : int
        The number of exchanges at heterogeneity 1.

    Examples
    --------
    >>> five = qs.spectra.arrangements(range(1, 10), 3)
    >>> len(five), five.exchanges
    (5, 9)
    """

    first: tuple[int, ...]
    exchanges: int

    def __len__(self) -> int:
        return len(self.first)

    def __repr__(self) -> str:
        return f"<Arrangements: {len(self)}, by {self.exchanges} adjacent exchanges>"

    def to_frame(self) -> pd.DataFrame:
        """The arrangements as a tidy table.

        Returns
        -------
        DataFrame
            One row for each arrangement; the columns are arrangement (its number, from 1), first (the number of
            exchanges at which it begins), low and high (the ends of its range of heterogeneities), and heterogeneity
            (one of them, as in ``values``).

        Examples
        --------
        >>> qs.spectra.arrangements(range(1, 10), 3).to_frame()["heterogeneity"].round(2).tolist()
        [0.0, 0.22, 0.61, 0.89, 1.0]
        """
        import pandas as pd

        edges = np.concatenate([[0.0], self.breaks, [1.0]])
        columns = {"first": self.first, "low": edges[:-1], "high": edges[1:], "heterogeneity": self.values}
        return pd.DataFrame({"arrangement": np.arange(1, len(self) + 1), **columns})

    @property
    def breaks(self) -> np.ndarray:
        """The heterogeneities at which the arrangement changes, one fewer than there are arrangements."""
        return (np.array(self.first[1:]) - 0.5) / max(self.exchanges, 1)

    @property
    def values(self) -> np.ndarray:
        """One heterogeneity for each arrangement: 0 for the first, 1 for the last, the middle of its range between."""
        edges = np.concatenate([[0.0], self.breaks, [1.0]])
        middle = (edges[1:] + edges[:-1]) / 2
        return np.concatenate([[0.0], middle[1:-1], [1.0]]) if len(self) > 1 else np.zeros(1)

    def index(self, heterogeneity: float) -> int:
        """The index of the arrangement at a heterogeneity.

        Parameters
        ----------
        heterogeneity : float

        Returns
        -------
        int
            From 0.

        Examples
        --------
        >>> qs.spectra.arrangements(range(1, 10), 3).index(0.5)
        2
        """
        heterogeneity = checks.real("heterogeneity", heterogeneity, at_least=0, at_most=1)
        return bisect_right(self.first, round(heterogeneity * self.exchanges)) - 1

    def range(self, heterogeneity: float) -> tuple[float, float]:
        """The heterogeneities with the same arrangement as this one.

        Parameters
        ----------
        heterogeneity : float

        Returns
        -------
        low, high : float

        Examples
        --------
        >>> low, high = qs.spectra.arrangements(range(1, 10), 3).range(0.5)
        >>> round(low, 3), round(high, 3)
        (0.389, 0.833)
        """
        edges, index = [0.0, *self.breaks.tolist(), 1.0], self.index(heterogeneity)
        return edges[index], edges[index + 1]


def arrangements(eigenvalues: Any, blocks: int | Sequence[int]) -> Arrangements:
    """The distinct arrangements of these eigenvalues that `partition` can make.

    An adjacent exchange changes the blocks only across a boundary between two of them, and only if the two eigenvalues
    differ. It then moves the smaller one to the earlier block, so that no arrangement occurs twice.

    Parameters
    ----------
    eigenvalues : list of float
    blocks : int or list of int
        The number of blocks, as equal in size as possible, or their sizes.

    Returns
    -------
    Arrangements

    Examples
    --------
    >>> [len(qs.spectra.arrangements(range(1, 3 * size + 1), 3)) for size in (1, 3, 30)]
    [1, 5, 51]
    >>> qs.spectra.arrangements(range(1, 10), 3).breaks.round(3).tolist()
    [0.056, 0.389, 0.833, 0.944]
    """
    values = check_eigenvalues(eigenvalues, "the list")
    return _arrangements(tuple(_sizes(values.size, blocks)), tuple(np.unique(values, return_inverse=True)[1].tolist()))


def arrangement(parts: Sequence[np.ndarray], heterogeneity: float) -> tuple[int, int]:
    """The number of the arrangement of some blocks at a heterogeneity.

    Parameters
    ----------
    parts : list of arrays
        The eigenvalues of each block.
    heterogeneity : float

    Returns
    -------
    number, count : int
        The number, from 1, and the total number.

    Examples
    --------
    >>> qs.spectra.arrangement(qs.partition(range(1, 10), 3, 0.5), 0.5)
    (3, 5)
    """
    distinct = arrangements(np.concatenate(list(parts)), [part.size for part in parts])
    return distinct.index(heterogeneity) + 1, len(distinct)


@functools.lru_cache(maxsize=256)
def _arrangements(sizes: tuple[int, ...], ranks: tuple[int, ...]) -> Arrangements:
    """`arrangements`, from the sizes of the blocks and the ranks of the eigenvalues, equal for equal ones."""
    order, value = _round_robin(sizes), np.array(ranks)
    boundary = np.zeros(len(ranks), dtype=bool)
    boundary[np.cumsum(sizes)[:-1] - 1] = True  # the last index of each block but the last
    first, done = [0], 0
    for left in _sort_sweeps(order):
        changing = boundary[left] & (value[order[left]] != value[order[left + 1]])
        first += (done + 1 + np.flatnonzero(changing)).tolist()
        done += left.size
    return Arrangements(tuple(first), done)


def _round_robin(sizes: Sequence[int]) -> np.ndarray:
    """The eigenvalues' ranks, block by block, when blocks take one in turn until they are full."""
    owners = np.array([block for turn in range(max(sizes)) for block, size in enumerate(sizes) if turn < size])
    return np.lexsort((np.arange(owners.size), owners))


def _inversions(order: np.ndarray) -> int:
    """The number of inversions, which is the number of adjacent exchanges that sort the order."""
    return sum(int((order[:i] > here).sum()) for i, here in enumerate(order))


def _sizes(total: int, blocks: int | Sequence[int]) -> list[int]:
    """The sizes of the blocks into which `total` eigenvalues are partitioned."""
    if isinstance(blocks, Sequence) and not isinstance(blocks, str):
        sizes = [checks.whole("a block's size", size, at_least=1) for size in blocks]
        if sum(sizes) != total:
            raise InputError(f"blocks must have {total} eigenvalues in all, got sizes {checks.shown(sizes)}")
        return sizes
    count = checks.whole("blocks", blocks, at_least=1, at_most=total)
    return [total // count + (block < total % count) for block in range(count)]


def _sort_sweeps(order: np.ndarray, exchanges: int | None = None) -> Iterator[np.ndarray]:
    """Sort `order` in place by odd-even transposition; stop after this number of exchanges, if given.

    Yields the indices whose right neighbour is smaller, sweep by sweep, before they are exchanged.
    """
    remaining = order.size**2 if exchanges is None else exchanges
    odd, idle = False, 0
    while idle < 2 and remaining > 0:
        left = np.arange(int(odd), order.size - 1, 2)
        left = left[order[left] > order[left + 1]][:remaining]
        if left.size:
            yield left
            order[left], order[left + 1] = order[left + 1], order[left]
        idle = 0 if left.size else idle + 1
        remaining -= left.size
        odd = not odd
