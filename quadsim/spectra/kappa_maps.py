"""How a problem's eigenvalues got their condition number, as data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SAME_KAPPA = 1e-9  # relative: a map that changes κ by no more leaves it unchanged
PHRASES = {
    "affine": "eigenvalues mapped affinely",
    "geometric": "eigenvalues mapped by a power",
    "clusters": "clusters of eigenvalues scaled",
}


@dataclass(frozen=True)
class KappaMap:
    """The map that took eigenvalues to their condition number.

    Attributes
    ----------
    map : str
        Its name in `spectra.MAPS`.
    kappa : float
        The condition number after it.
    kappa_from : float or None
        The condition number before it; None if it is not defined, as eigenvalues were zero or negative, or not known.

    Examples
    --------
    >>> qs.case(3, kappa=100).kappa_map
    KappaMap(map='clusters', kappa=100.0, kappa_from=5000.0)
    >>> str(qs.case(3, kappa=100).kappa_map)
    'clusters of eigenvalues scaled from κ = 5000 to 100'
    """

    map: str
    kappa: float
    kappa_from: float | None = None

    def __str__(self) -> str:
        before = "" if self.kappa_from is None else f" from κ = {self.kappa_from:.4g}"
        return f"{PHRASES[self.map]}{before} to {'' if before else 'κ = '}{self.kappa:.6g}"

    @classmethod
    def of(cls, before: Sequence[np.ndarray], kappa: float, map: str) -> KappaMap | None:
        """The map as a record.

        Parameters
        ----------
        before : list of arrays
            The eigenvalues before the map.
        kappa : float
            The condition number after it.
        map : str
            Its name.

        Returns
        -------
        KappaMap or None
            None if the map leaves the condition number unchanged.

        Examples
        --------
        >>> qs.spectra.KappaMap.of([np.array([1.0, 10.0])], 100.0, "affine")
        KappaMap(map='affine', kappa=100.0, kappa_from=10.0)
        """
        low, high = min(part.min() for part in before), max(part.max() for part in before)
        if low <= 0 or low < high / np.finfo(float).max:  # the condition number is not a float64
            return cls(map, float(kappa))
        own = float(high / low)
        return None if abs(own / kappa - 1) <= SAME_KAPPA else cls(map, float(kappa), own)
