"""Sources of eigenvalues: given, drawn from a law, or measured; mapped to a condition number, partitioned into blocks.

Eigenvalues only: no matrices, no bases. A spectrum is an increasing array of positive numbers, and the spectra of
a problem are a tuple of them, one for each block.
"""

# ruff: noqa: F401  (the imports are the public names)
from quadsim import _discovery
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
from quadsim.spectra.heterogeneity import Arrangements, arrangement, arrangements, partition
from quadsim.spectra.kappa_maps import KappaMap
from quadsim.spectra.library import SAMPLINGS, SIGNS, library, load, sample, sample_blocks
from quadsim.spectra.synthetic import (
    LAWS,
    MAPPED_LAWS,
    MAPS,
    MAX_DIM,
    MAX_EIGENVALUE,
    MIN_EIGENVALUE,
    Spectra,
    by_block,
    law,
    rescale,
    unshifted,
)


def __dir__() -> list[str]:
    return _discovery.public_names(globals())
