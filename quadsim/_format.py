"""Numbers, counts and lists as text for people; `shortest` is also what keys and columns hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

UNITS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
NEAR_ONE = math.log10(1.1)  # decades: ratios up to this have three digits
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def shortest(value: float) -> str:
    """The shortest text that reads back as this float64: 5000, 0.1, 1e-06; no minus before zero."""
    value = float(value) + 0.0
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else repr(value)


def in_words(value: float) -> str:
    """Two significant digits, for titles and ticks: 33,000, 1.2 million, 15, 0.0031."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.1e}")
    if abs(rounded) >= 1e15 or abs(rounded) < 1e-3:
        return f"{rounded:.2g}"
    for size, unit in UNITS:
        if abs(rounded) >= size:
            return f"{rounded / size:g} {unit}"
    return f"{rounded:,.0f}" if abs(rounded) >= 10 else f"{rounded:g}"


def compact(value: float, exponent_from: float = 1e6) -> str:
    """Two significant digits, or all before the point, for tables: 0.0031, 1.2, 140, 33,412, 1.2e+06, ∞; – for NaN."""
    if not math.isfinite(value):
        return _not_finite(value)
    return f"{value:,.0f}" if 10 <= abs(value) < exponent_from else f"{value:.2g}"


def significant(value: float, digits: int = 3) -> str:
    """So many significant digits of a positive number, without exponent: 0.0119, 1.57, 5,118."""
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(value)))}f}"


def duration(seconds: float) -> str:
    """`3 s`, `4 min 10 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 6000:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min" if whole < 360_000 else f"{whole / 86_400:,.0f} days"


def scientific(value: float | None) -> str:
    """Two digits with exponent, for margins: 3.1e-16; empty for None, and no minus before zero."""
    return "" if value is None else f"{value or 0.0:.1e}"


def ratio(decades: float) -> str:
    """10**decades: 1.04, 2.3, 1.4e+02; ∞, 0; – for NaN."""
    if not math.isfinite(decades):
        return _not_finite(decades).replace("−∞", "0")
    return f"{10**decades:.3g}" if abs(decades) < NEAR_ONE else f"{10**decades:.2g}"


def factor(decades: float) -> str:
    """10**decades of at least 1, in a sentence: 1.04×, 2.3×, 140×, 10¹⁹×, ∞×."""
    if decades < 1 or not math.isfinite(decades):
        return f"{ratio(decades)}×"
    if decades < 4:
        return f"{float(f'{10**decades:.2g}'):,.0f}×"
    return f"{power_of_ten(round(decades))}×"


def signed_decades(decades: float) -> str:
    """A difference of logarithms with its sign: +0.31, -1.2, ∞, −∞; – for NaN."""
    return f"{decades:+.2g}" if math.isfinite(decades) else _not_finite(decades)


def power_of_ten(exponent: int) -> str:
    """10⁻⁶."""
    return "10" + str(exponent).translate(SUPERSCRIPTS)


def counted(count: int, one: str, several: str | None = None) -> str:
    """1 run, 2 runs, 2,048 runs."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def enumerated(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _not_finite(value: float) -> str:
    return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"


def tuned_or_given(tuned: str, given: Sequence[str], count: int) -> str:
    """`learning rates tuned on 6 other draws, given for Adam`; ``given``: labels, of ``count`` optimizers in all."""
    if len(given) == count:
        return "learning rates as given, not tuned"
    return f"learning rates {tuned}" + (f", given for {', '.join(given)}" if given else "")
