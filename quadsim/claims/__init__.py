"""The ledger of claims: each statement with its proof, its check and the verdict of the check.

    from quadsim import claims

    for finding in claims.verify(claims.select(["2b"]), draws=10_000, seed=7):
        print(finding.verdict, finding.margin)

Importing this package imports all of its modules, in alphabetical order; a module records its claims when imported.
"""

import importlib
import pkgutil

from quadsim.claims.ledger import LEDGER, Claim, Finding, select
from quadsim.claims.verification import MAX_DRAWS, verify

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["LEDGER", "MAX_DRAWS", "Claim", "Finding", "select", "verify"]
