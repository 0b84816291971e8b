"""Text measured in inches: widths and line breaks."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from quadsim._format import enumerated

MAX_LABEL = 45  # characters of an optimizer's or a block's name in a figure


@contextmanager
def missing_glyphs_ignored() -> Iterator[None]:
    """A letter that the font lacks is drawn as a box, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        yield


@lru_cache(maxsize=4096)
def _line_width(line: str, size: float, bold: bool) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(weight="bold" if bold else "normal", size=size)
    with missing_glyphs_ignored():
        width = text_to_path.get_text_width_height_descent(line, font, False)[0]
    return float(1.06 * width / 72)  # hinted letters are up to 6 % wider than drawn ones


def width_of(texts: Sequence[str], size: float = 7.5, *, bold: bool = False) -> float:
    """The width in inches of the widest line."""
    return max((_line_width(line, size, bold) for text in texts for line in text.splitlines()), default=0.0)


def shortened(text: str, at_most: int = MAX_LABEL) -> str:
    """The text, with … in its middle if it has more characters."""
    half = (at_most - 1) // 2
    return text if len(text) <= at_most else f"{text[:half]}…{text[-half:]}"


def fitted(text: str, inches: float, size: float, *, bold: bool = False) -> str:
    """The text, with … in its middle if it is wider than this."""
    at_most = len(text)
    while at_most > 5 and width_of([shortened(text, at_most)], size, bold=bold) > inches:
        at_most -= 1
    return shortened(text, at_most)


def all_shortened(texts: Sequence[str], at_most: int = MAX_LABEL) -> list[str]:
    """Each text shortened; texts that differ stay different, by what differs or by a number."""
    short = [shortened(text, at_most) for text in texts]
    for same in {name for name in short if len({t for t, s in zip(texts, short, strict=True) if s == name}) > 1}:
        group = list(dict.fromkeys(text for text, name in zip(texts, short, strict=True) if name == same))
        start = _common_start(group)
        after = min(_common_start([text[::-1] for text in group]), min(map(len, group)) - start)
        around = {text: _around(text, start, len(text) - after, at_most) for text in group}
        if len(set(around.values())) < len(group):
            marks = {text: f"…({number})" for number, text in enumerate(group, start=1)}
            around = {text: text[: max(at_most - len(mark), 1)] + mark for text, mark in marks.items()}
        short = [around[text] if name == same else name for text, name in zip(texts, short, strict=True)]
    return short


def _common_start(texts: Sequence[str]) -> int:
    """How many characters all texts have in common at their start."""
    return next(
        (k for k, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1), min(map(len, texts))
    )


def _around(text: str, start: int, stop: int, at_most: int) -> str:
    """The part of a text from start to stop, with what fits before and after it."""
    room = max(at_most - 2, 1)
    first = int(np.clip(start - max(room - (stop - start), 0) // 2, 0, max(len(text) - room, 0)))
    part = text[first : first + room]
    return ("…" if first else "") + part + ("…" if first + room < len(text) else "")


def all_fitted(texts: Sequence[str], inches: float, size: float, *, bold: bool = False) -> list[str]:
    """Each text at most this wide; texts that differ stay different."""
    alone = [fitted(text, inches, size, bold=bold) for text in texts]
    if len(set(alone)) == len(set(texts)):
        return alone
    at_most = max(map(len, texts))
    while at_most > 8 and width_of(all_shortened(texts, at_most), size, bold=bold) > inches:
        at_most -= 1
    return all_shortened(texts, at_most)


def wrapped(text: str, inches: float, size: float) -> list[str]:
    """Lines of at most this width. "case 3" and "β2 = 1" are not broken; a word wider than a line is."""
    text = text.replace(" = ", "\u00a0=\u00a0").replace(" (β", "\u00a0(β").replace("case ", "case\u00a0")
    space = width_of(["n n"], size) - width_of(["nn"], size)
    lines: list[str] = []
    room = 0.0
    for word in filter(None, text.split(" ")):
        width = width_of([word], size)
        if lines and space + width <= room:
            lines[-1] += f" {word}"
            room -= space + width
            continue
        while width > inches and len(word) > 1:
            cut = max(1, int(len(word) * inches / width) - 1)
            lines.append(word[:cut])
            word = word[cut:]
            width = width_of([word], size)
        lines.append(word)
        room = inches - width
    return [line.replace("\u00a0", " ") for line in lines]


def evenly_wrapped(text: str, inches: float, size: float) -> list[str]:
    """As many lines as `wrapped` needs, of similar widths."""
    best = wrapped(text, inches, size)
    for share in np.arange(0.95, 0.45, -0.05) if len(best) > 1 else ():
        lines = wrapped(text, share * inches, size)
        if len(lines) > len(best) or width_of(lines, size) > share * inches:
            break
        best = lines
    return best


def default_rates(origins: Iterable[tuple[str, str]]) -> str:
    """Whose learning rates are library defaults, if others were chosen for the problem; of pairs (label, origin)."""
    labels: dict[str, dict[str, None]] = {}
    for label, origin in origins:
        labels.setdefault(origin, {})[label] = None
    best = [
        f"{how} of {enumerated(list(labels[origin]))}"
        for origin, how in (("theory", "best in closed form"), ("tuned", "tuned ones"))
        if origin in labels
    ]
    if "default" not in labels or not best:
        return ""
    return f"Learning rates: library default of {enumerated(list(labels['default']))}, {', '.join(best)}."
