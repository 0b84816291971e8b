"""Published figures, recomputed and checked; the verdict tables and the HTML report."""

from quadsim.reproduce.reproduction import Check, Reproduction

__all__ = ["Check", "Reproduction"]
