"""Where eigenvalues come from: hand-made, drawn from a law, or measured; taken to a condition number, dealt to blocks.

Eigenvalues only: no matrices, no bases. A spectrum is an increasing array of positive numbers, and the spectra of
a problem are a tuple of them, one for each block.
"""

from quadsim.spectra.distance import (
    SIGMA,
    Distances,
    density,
    eigenvalue_distance,
    grid,
    js_distance,
    js_matrix,
    probe_distance,
    unit_of,
)
from quadsim.spectra.files import Measured, MeasuredBlock
from quadsim.spectra.library import RULES, SIGNS, library, load, sample, sample_blocks
from quadsim.spectra.made import (
    LARGEST,
    LAWS,
    MAPS,
    MOST,
    SMALLEST,
    Arrangements,
    Spectra,
    arrangement,
    arrangements,
    by_block,
    deal,
    law,
    rescale,
    unshifted,
)

__all__ = [  # noqa: RUF022
    # by hand and by law
    "Arrangements", "LAWS", "MAPS", "Spectra", "arrangement", "arrangements", "by_block", "deal", "law", "rescale",
    "unshifted",
    # measured
    "Measured", "MeasuredBlock", "RULES", "SIGNS", "library", "load", "sample", "sample_blocks",
    # how much they differ
    "Distances", "SIGMA", "density", "eigenvalue_distance", "grid", "js_distance", "js_matrix", "probe_distance",
    "unit_of",
    # limits
    "LARGEST", "MOST", "SMALLEST",
]  # fmt: skip
