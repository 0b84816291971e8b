"""Jensen–Shannon distances between the smoothed eigenvalue densities of blocks.

JS(p, q) = ½ ∫ p ln(2p/(p+q)) + ½ ∫ q ln(2q/(p+q)), between 0 and ln 2. It is called a distance here as in the papers;
its square root is the metric. Compare a distance between blocks with that between two probes of one block, which is
sampling noise (of single probes; block densities are means over probes, and a mean of two has about half the noise).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.spectra.files import Measured, MeasuredBlock
from quadsim.spectra.synthetic import MIN_EIGENVALUE

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The width of the Gaussians of `density`, as in the public code of arXiv 2402.16788.
SIGMA = 1e-5**0.5
SCALES = ("raw", "tenth")
MAX_BINS = 2**22
RANK = 10


def density(
    block: MeasuredBlock, grid: Any, *, sigma: float = SIGMA, scale: str = "raw", probe: int | None = None
) -> np.ndarray:
    """The density of a block's eigenvalues on a grid: a Gaussian at every node, by weight.

    Parameters
    ----------
    block : MeasuredBlock
    grid : list of float
        Increasing.
    sigma : float
        The width of the Gaussians.
    scale : "raw" or "tenth"
        "raw" leaves eigenvalues unchanged, "tenth" divides them by the tenth largest magnitude, so that blocks of
        different scale can be compared in shape.
    probe : int, optional
        The probe; by default the mean over all probes.

    Returns
    -------
    array
        In the shape of the grid.

    Examples
    --------
    >>> block = qs.spectra.load("gpt2").block("layer3.query")
    >>> points = qs.spectra.grid([block])
    >>> round(float((qs.spectra.density(block, points) * qs.spectra.SIGMA / 4).sum()), 9)
    1.0
    """
    points = checks.numbers_of("grid must be numbers", grid)
    if points.ndim != 1 or (np.diff(points) < 0).any():
        raise InputError("grid must be a list of increasing numbers")
    sigma = checks.real("sigma", sigma, above=0)
    unit = unit_of(block, scale)
    probes = range(block.probes)
    if probe is not None:
        probes = range(checks.whole("probe", probe, at_least=0, at_most=block.probes - 1), probe + 1)
    total = np.zeros(points.shape)
    for number in probes:
        for node, weight in zip(block.nodes[number] / unit, block.weights[number], strict=True):
            # Beyond nine widths a Gaussian is below 1e-18 of its peak.
            window = slice(*np.searchsorted(points, (node - 9 * sigma, node + 9 * sigma)))
            total[window] += weight * np.exp(-0.5 * ((points[window] - node) / sigma) ** 2)
    return total / (len(probes) * sigma * np.sqrt(2 * np.pi))


def unit_of(block: MeasuredBlock, scale: str) -> float:
    """The unit in which a block's eigenvalues are measured.

    Parameters
    ----------
    block : MeasuredBlock
    scale : "raw" or "tenth"
        1, or the tenth largest magnitude.

    Returns
    -------
    float

    Examples
    --------
    >>> block = qs.spectra.load("gpt2").block("layer3.query")
    >>> qs.spectra.unit_of(block, "raw"), qs.spectra.unit_of(block, "tenth") < block.largest
    (1.0, True)
    """
    if checks.choice("scale", scale, SCALES) == "raw":
        return 1.0
    ranked = np.sort(abs(block.nodes[0]))[::-1]
    unit = float(ranked[min(RANK, ranked.size) - 1])
    if unit == 0:
        raise InputError(f"block {block.name}: its tenth largest eigenvalue is 0: scale=tenth is not defined")
    return unit


def grid(blocks: Sequence[MeasuredBlock], *, sigma: float = SIGMA, scale: str = "raw") -> np.ndarray:
    """The points k·sigma/4, k whole, within nine widths of a node; elsewhere the densities vanish.

    Sums over them are integrals to rounding, since a Gaussian is smooth at this spacing; their number depends on the
    nodes, not on the range of eigenvalues.

    Parameters
    ----------
    blocks : list of MeasuredBlock
    sigma, scale :
        As in `density`.

    Returns
    -------
    array

    Examples
    --------
    >>> points = qs.spectra.grid([qs.spectra.load("gpt2").block("layer3.query")])
    >>> bool((np.diff(points) > 0).all())
    True
    """
    step = checks.real("sigma", sigma, above=0) / 4
    nodes = np.concatenate([part / unit_of(block, scale) for block in blocks for part in block.nodes])
    if abs(nodes).max() > 1e15 * step:
        raise InputError(f"sigma={sigma:g} is too small for eigenvalues up to {abs(nodes).max():g}")
    multiples = np.unique(np.round(nodes / step).astype(np.int64)[:, None] + np.arange(-36, 37))
    return multiples * step


def density_table(blocks: Sequence[MeasuredBlock], scale: str = "raw") -> pd.DataFrame:
    """Each block's density on 800 points of its range, smoothed by a 200th of it, so that narrow spectra show too.

    The columns are block, eigenvalue and density, as `quadsim.plots.densities` reads them.
    """
    import pandas as pd

    parts = []
    for block in blocks:
        unit = unit_of(block, scale)
        low, high = min(nodes[0] for nodes in block.nodes) / unit, max(nodes[-1] for nodes in block.nodes) / unit
        width = max((high - low) / 200, 1e-9 * max(abs(high), abs(low)), MIN_EIGENVALUE)
        points = np.linspace(low - 5 * width, high + 5 * width, 800)
        values = density(block, points, sigma=width, scale=scale)
        parts.append(pd.DataFrame({"block": block.name, "eigenvalue": points, "density": values}))
    return pd.concat(parts, ignore_index=True)


def js_distance(
    one: MeasuredBlock,
    other: MeasuredBlock,
    *,
    sigma: float = SIGMA,
    scale: str = "raw",
    normalised: bool = True,
    bins: int = 10_000,
) -> float:
    """The Jensen–Shannon distance of two blocks' densities, in nats: 0 to ln 2.

    Parameters
    ----------
    one, other : MeasuredBlock
    sigma, scale :
        As in `density`.
    normalised : bool
        False is the variant whose values in the literature exceed ln 2: densities at the points of a grid of `bins`
        points are summed as if they were probabilities. Where bins are narrower than `sigma` it is the normalised
        distance divided by their width; wider ones miss the peaks. So it depends on the bins and on the range of
        eigenvalues: compare only values with the same bins and range.
    bins : int
        Of the variant that is not normalised.

    Returns
    -------
    float

    Examples
    --------
    >>> gpt2 = qs.spectra.load("gpt2")
    >>> query, embedding = gpt2.block("layer3.query"), gpt2.block("embedding")
    >>> qs.spectra.js_distance(query, query)
    0.0
    >>> bool(0 < qs.spectra.js_distance(query, embedding) < np.log(2))
    True
    """
    points = grid([one, other], sigma=sigma, scale=scale)
    if not normalised:
        points = np.linspace(points[0], points[-1], checks.whole("bins", bins, at_least=2, at_most=MAX_BINS))
    p, q = (density(block, points, sigma=sigma, scale=scale) for block in (one, other))
    return _js(p / p.sum(), q / q.sum()) if normalised else _js(p, q)


def _js(p: np.ndarray, q: np.ndarray) -> float:
    middle = (p + q) / 2
    total = 0.0
    for part in (p, q):
        positive = part > 0
        total += 0.5 * float(np.sum(part[positive] * np.log(part[positive] / middle[positive])))
    return max(total, 0.0)


def probe_distance(block: MeasuredBlock, *, sigma: float = SIGMA, scale: str = "raw") -> float | None:
    """The mean distance between the densities of two probes of one block: the noise of a distance.

    Parameters
    ----------
    block : MeasuredBlock
    sigma, scale :
        As in `density`.

    Returns
    -------
    float or None
        None with one probe.

    Examples
    --------
    >>> block = qs.spectra.load("gpt2").block("layer3.query")
    >>> bool(0 < qs.spectra.probe_distance(block) < np.log(2))
    True
    """
    if block.probes < 2:
        return None
    points = grid([block], sigma=sigma, scale=scale)
    parts = [density(block, points, sigma=sigma, scale=scale, probe=probe) for probe in range(block.probes)]
    return float(np.mean([_js(p / p.sum(), q / q.sum()) for p, q in combinations(parts, 2)]))


@dataclass(frozen=True, repr=False)
class Distances:
    """The distances between all pairs of blocks.

    Attributes
    ----------
    blocks : tuple of str
    matrix : (blocks, blocks) array
    mean : float
        Over pairs: JS⁰ if the network is at initialization.
    noise : tuple of (float or None)
        The distance between two probes of each block.

    Examples
    --------
    >>> distances = qs.spectra.js_matrix(qs.spectra.load("gpt2"), ["layer3.query", "layer3.key"])
    >>> distances.matrix.shape, bool(distances.mean == distances.matrix[0, 1])
    ((2, 2), True)
    """

    blocks: tuple[str, ...]
    matrix: np.ndarray
    mean: float
    noise: tuple[float | None, ...]

    def __repr__(self) -> str:
        from quadsim._display import spectra

        return spectra.distances_text(self)

    def _repr_html_(self) -> str:
        from quadsim._display import spectra

        return spectra.distances_html(self)

    def to_frame(self) -> pd.DataFrame:
        """The distances as a tidy table.

        Returns
        -------
        DataFrame
            One row for each ordered pair; the columns are block, other and distance. The distance of a block to itself
            is its noise, that between two of its probes; NaN if there is one probe.

        Examples
        --------
        >>> distances = qs.spectra.js_matrix(qs.spectra.load("gpt2"), ["embedding", "layer3.query"])
        >>> distances.to_frame().columns.tolist()
        ['block', 'other', 'distance']
        """
        import pandas as pd

        matrix = self.matrix.copy()
        np.fill_diagonal(matrix, np.array(self.noise, dtype=float))
        return pd.DataFrame(product(self.blocks, self.blocks), columns=["block", "other"]).assign(
            distance=matrix.ravel()
        )

    def plot(self, ax: Axes | None = None, **options: Any) -> Figure | Axes:
        """Draw the distances as a shaded matrix.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.
        options :
            As in `quadsim.plots.heat_map`.

        Returns
        -------
        Figure or Axes
            The new figure, or ``ax``.

        Examples
        --------
        >>> figure = qs.spectra.js_matrix(qs.spectra.load("gpt2"), ["embedding", "layer3.query"]).plot()
        """
        from quadsim import plots

        return plots.heat_map(self, ax=ax, **options)


def js_matrix(
    measured: Measured,
    blocks: Sequence[str] | None = None,
    *,
    sigma: float = SIGMA,
    scale: str = "raw",
    normalised: bool = True,
    bins: int = 10_000,
) -> Distances:
    """The Jensen–Shannon distances between all pairs of a network's blocks.

    Parameters
    ----------
    measured : Measured
    blocks : list of str, optional
        By default all of them.
    sigma, scale, normalised, bins :
        As in `js_distance`.

    Returns
    -------
    Distances

    Examples
    --------
    >>> qs.spectra.js_matrix(qs.spectra.load("gpt2"), ["embedding", "layer3.query", "layer3.value"]).matrix.shape
    (3, 3)
    """
    names = list(measured.blocks) if blocks is None else [str(name) for name in blocks]
    if len(set(names)) < max(2, len(names)):
        raise InputError(f"distances need at least two different blocks, got {', '.join(names) or 'none'}")
    parts = [measured.block(name) for name in names]
    matrix = np.zeros((len(names), len(names)))
    if normalised:  # one grid serves all pairs: its points are the same multiples of sigma/4 for each of them
        points = grid(parts, sigma=sigma, scale=scale)
        densities = [density(part, points, sigma=sigma, scale=scale) for part in parts]
        densities = [values / values.sum() for values in densities]
    for row, column in combinations(range(len(names)), 2):
        matrix[row, column] = matrix[column, row] = (
            _js(densities[row], densities[column])
            if normalised
            else js_distance(parts[row], parts[column], sigma=sigma, scale=scale, normalised=False, bins=bins)
        )
    mean = float(matrix[np.triu_indices(len(names), 1)].mean())
    noise = tuple(probe_distance(part, sigma=sigma, scale=scale) for part in parts)
    return Distances(tuple(names), matrix, mean, noise)


DEFAULT_WIDTH = 0.5  # decades
MAX_BLOCKS = 64  # that are compared


def eigenvalue_distance(blocks: Sequence[Any], *, width: float = DEFAULT_WIDTH) -> float:
    """How much the spectra of a problem's blocks differ: the mean Jensen–Shannon distance over pairs, 0 to ln 2.

    The density of a block is that of log₁₀ of its eigenvalues, each a Gaussian: eigenvalues that differ by a small
    factor count as near, however large they are. (On the scale of `js_distance` the few exact eigenvalues of a
    quadratic never meet, and all distances would be ln 2.) Of more than 64 blocks, 64 evenly spaced ones are compared.

    Parameters
    ----------
    blocks : list of lists
        The eigenvalues of each block.
    width : float
        Of the Gaussians, in decades.

    Returns
    -------
    float

    Examples
    --------
    >>> [round(qs.spectra.eigenvalue_distance(qs.case(number).eigenvalues), 3) for number in (3, 4)]
    [0.615, 0.014]
    """
    width = checks.real("width", width, above=0)
    parts = [np.log10(checks.numbers_of("eigenvalues must be numbers", block)) for block in blocks]
    if len(parts) < 2:
        raise InputError(f"distances need at least two blocks, got {len(parts)}")
    if len(parts) > MAX_BLOCKS:
        parts = [parts[k] for k in np.linspace(0, len(parts) - 1, MAX_BLOCKS).round().astype(int)]
    low, high = min(part.min() for part in parts), max(part.max() for part in parts)
    points = np.arange(low - 7 * width, high + 7 * width, width / 8)
    p = np.stack([np.exp(-0.5 * ((points[:, None] - part) / width) ** 2).mean(axis=1) for part in parts])
    p /= p.sum(axis=1, keepdims=True)
    entropy = _entropy(p)
    first, second = np.triu_indices(len(parts), 1)
    return float(np.maximum(_entropy((p[first] + p[second]) / 2) - (entropy[first] + entropy[second]) / 2, 0).mean())


def _entropy(p: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.where(p > 0, p * np.log(p), 0.0).sum(axis=-1)
