"""The ledger of claims: each statement with its proof, its check and the verdict that the check earns.

    from quadsim import claims

    for finding in claims.verify(claims.chosen(["2b"]), draws=10_000, seed=7):
        print(finding.verdict, finding.margin)

Importing this package enters every claim into the ledger, section by section.
"""

from quadsim.claims import (  # noqa: F401
    accuracy,
    attractors,
    descent,
    floors,
    frozen,
    invariances,
    momentum,
    passage,
    published,
    rotation,
    vanishing,
    zipf,
)
from quadsim.claims.ledger import LEDGER, MOST_DRAWS, Claim, Finding, chosen, verify

__all__ = ["LEDGER", "MOST_DRAWS", "Claim", "Finding", "chosen", "verify"]
