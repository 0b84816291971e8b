"""Values in the syntax of other programs, rewritten in that of the command line; see `mistakes`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from quadsim import _discovery
from quadsim._parsing import NUMBER
from quadsim._validation import InputError
from quadsim.keys import WHOLE_KINDS, Key

if TYPE_CHECKING:
    from quadsim.cli.mistakes import Draft

QUOTES = "'\"`“”‘’"
POINTS, LINEAR_POINTS = 25, 21  # of a range whose number of values is not given
MAX_SEEDS = 10_000
LIST_KINDS = ("words", "spectrum", "blocks", "numbers")
NUMBER_KINDS = ("real", "whole", "start", "scales", "numbers", "case")
_N = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
RANGE = re.compile(rf"{_N}(?:\.\.\.?|:|-|…|to){_N}(?::(?:log|lin)?(\d{{1,6}}))?")
CALL = re.compile(r"(?:np\.|numpy\.)?(range|arange|linspace|geomspace|logspace)\(([^()]*)\)")
SWITCHES = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}


def correct(draft: Draft) -> None:
    """Rewrite the values of a line that its command would refuse."""
    for word in list(draft.words):
        name, equals, text = word.partition("=")
        name = name.lstrip("-").lower()
        if not equals:
            continue
        if name == "seeds" and "seed" in draft.keys:
            _count_of_seeds(draft, word, text)
            continue
        key = draft.keys.get(name)
        if key is None and "." in name and draft.takes_settings:
            key = Key(name, "real", several=draft.command in ("compare", "tune"))
        if key is None or (key.kind == "text" and not key.names):
            continue
        _correct_value(draft, word, key, text)


def _correct_value(draft: Draft, word: str, key: Key, text: str) -> None:
    new = text
    for rule in (_unquoted, _called, _unbracketed, _separated, _number, _switch):
        changed = rule(key, new)
        if changed is not None and changed[0] != new:
            new = changed[0]
            draft.because(changed[1])
    if key.name == "noise":
        _noise(draft, word, new)
        return
    if key.name == "optimizers":
        _optimizers(draft, word, new)
        return
    ranged = _range(draft, key, new)
    if ranged != text:
        draft.words[draft.words.index(word)] = f"{key.name}={ranged}"
    _one_value(draft, key, ranged)


# ---- notation of one value: the new text and the reason, or None


def _unquoted(key: Key, text: str) -> tuple[str, str] | None:
    bare = text.lstrip("=").strip(QUOTES + " ") if text[:1] in QUOTES + "=" or text[-1:] in QUOTES else text
    return (bare, "keys are written key=value" if text.startswith("=") else "values are written without quotes")


def _called(key: Key, text: str) -> tuple[str, str] | None:
    """`range(10)`, `np.geomspace(10, 1e6, 25)`."""
    found = CALL.fullmatch(text.replace(" ", ""))
    if not found:
        return None
    numbers = found[2].split(",")
    if not all(map(_is_finite, numbers)):
        return None
    why = "a range is written i..j, a:b:logN or a:b:linN"
    if found[1] in ("range", "arange") and len(numbers) in (1, 2):
        first, end = ("0", numbers[0]) if len(numbers) == 1 else numbers
        return (f"{first}..{_shortest(float(end) - 1)}", why)
    if found[1] in ("linspace", "geomspace", "logspace") and len(numbers) == 3:
        ends = [_power(end) if found[1] == "logspace" else end for end in numbers[:2]]
        return (f"{ends[0]}:{ends[1]}:{'lin' if found[1] == 'linspace' else 'log'}{numbers[2]}", why)
    return None


def _unbracketed(key: Key, text: str) -> tuple[str, str] | None:
    """`[1,2,3]`, `[[1,2],[3,4]]`."""
    if not re.fullmatch(r"[\[({].*[\])}]", text):
        return None
    blocks = re.split(r"[\])}]\s*[,;]?\s*[\[({]", text)
    return ("/".join(re.sub(r"[][(){}\s]", "", block) for block in blocks), "lists are written without brackets")


def _separated(key: Key, text: str) -> tuple[str, str] | None:
    """`gd;adam`, `gd adam`, `gd+adam`."""
    if key.kind != "words" or key.name == "rules" or "(" in text or not re.search(r"[;+|\s]", text):
        return None
    return (",".join(filter(None, re.split(r"[;+|,\s]+", text))), "a list is written a,b")


def _number(key: Key, text: str) -> tuple[str, str] | None:
    """`10^6`, `5,000`, `5_000`, `0,5`, `50%`."""
    if key.kind not in NUMBER_KINDS:
        return None
    if power := re.fullmatch(r"10(?:\^|\*\*)([+-]?\d{1,3})", text):
        return (f"1e{power[1]}", "powers of ten are written 1e6")
    digits = text.replace("_", "").replace("'", "")
    if digits != text and NUMBER.fullmatch(digits):
        return (digits, "numbers are written without separators")
    if re.fullmatch(r"\d{1,3}(,\d{3})+", text) and re.search(r",0", text):
        return (text.replace(",", ""), "numbers are written without separators")
    if key.kind == "real" and re.fullmatch(r"0,\d+", text):
        return (text.replace(",", "."), "the decimal separator is a point")
    if key.kind == "real" and re.fullmatch(r"\d{1,3}%", text):
        return (_shortest(float(text[:-1]) / 100), "shares are written as numbers from 0 to 1")
    return None


def _switch(key: Key, text: str) -> tuple[str, str] | None:
    new = SWITCHES.get(text.lower()) if key.kind == "flag" else None
    return None if new is None else (new, f"{key.name} is true or false")


# ---- ranges and lists


def _range(draft: Draft, key: Key, text: str) -> str:
    """A range in the notation of the key: `1e3..1e6` of numbers, `0:10` of seeds."""
    found = RANGE.fullmatch(text.replace(" ", ""))
    if not found or key.kind not in NUMBER_KINDS or not all(map(_is_finite, found.groups()[:2])):
        return text
    first, last, count = found.groups()
    low, high = float(first), float(last)
    if key.kind in WHOLE_KINDS:
        if ":log" in text or ":lin" in text or ".." in text.replace("...", ":"):
            return text
        if low != int(low) or high != int(high) or (":" in text and count):
            return text
        draft.because("a range of whole numbers is written i..j, both included")
        last_seed = high - (":" in text)  # a slice of Python ends before its end
        return _seeds(low, last_seed) if key.name.endswith("seed") else f"{first}..{last}"
    if re.search(r":(log|lin)\d", text) or not low < high:
        return text
    log = low > 0 and high / low >= 10
    points = int(count) if count and int(count) > 1 else POINTS if log else LINEAR_POINTS
    draft.because(f"a range of {key.name} has a number of values")
    return f"{first}:{last}:{'log' if log else 'lin'}{points}"


def _one_value(draft: Draft, key: Key, text: str) -> None:
    """Several values of a key of which the command takes one."""
    if key.several or not getattr(draft.module, "PARSE", True) or key.kind not in ("real", "whole", "case"):
        return
    is_range = ".." in text if key.kind in WHOLE_KINDS else re.search(r":(log|lin)\d", text)
    if not is_range and not ("," in text and all(map(NUMBER.fullmatch, text.split(",")))):
        return
    if draft.takes_settings:
        draft.wanted = "seed" if key.name in ("seed", "case") else "value"
        takers = "cases and sweep take" if draft.wanted == "seed" and draft.command == "run" else "sweep takes"
        what = key.name if key.name in ("seed", "case") else f"value of {key.name}"
        draft.reasons = [reason for reason in draft.reasons if not reason.startswith("a range of ")]
        draft.because(f"{draft.command} takes one {what}, {takers} several")
    else:
        first = re.split(r"[,.:]", text)[0]
        draft.words[draft.words.index(f"{key.name}={text}")] = f"{key.name}={first}"
        draft.because(f"{draft.command} takes one {key.name}")


def _count_of_seeds(draft: Draft, word: str, text: str) -> None:
    """`seeds=30`, `seeds=0:10`, `seeds=range(10)`, `seeds=1,2,3`: the key is seed."""
    key = draft.keys["seed"]
    called = _called(key, text) or _unbracketed(key, text)
    bare = called[0] if called else text
    found = RANGE.fullmatch(bare)
    if re.fullmatch(r"[1-9][0-9]{0,8}", bare):
        new = _seeds(0, int(bare) - 1)
    elif bare != "0" and re.fullmatch(r"\d{1,15}(\.\.\d{1,15}|(,\d{1,15})*)", bare):
        new = bare
    elif found and not found[3] and all(_is_finite(end) and float(end).is_integer() for end in found.groups()[:2]):
        new = _seeds(float(found[1]), float(found[2]) - (":" in bare))
    else:
        return
    draft.replace(word, f"seed={new}", reason="the key is seed")
    _one_value(draft, key, new)


def _seeds(first: float, last: float) -> str:
    return f"{int(first)}..{int(last)}" if last > first else f"{int(first)}"


# ---- keys with values of their own


def _noise(draft: Draft, word: str, text: str) -> None:
    """`noise=0.1`, `noise=true`."""
    if NUMBER.fullmatch(text) and float(text) > 0:
        new = ["noise=gaussian", f"noise.scale={text}"]
        draft.replace(word, *new, reason="noise names a model, noise.scale its size")
    elif SWITCHES.get(text.lower(), text.lower()) == "true":
        draft.replace(word, "noise=gaussian", reason="noise names a model, noise.scale its size")
    elif f"noise={text}" != word.lstrip("-"):
        draft.words[draft.words.index(word)] = f"noise={text}"


def _optimizers(draft: Draft, word: str, text: str) -> None:
    """`sign-gd`, `heavyball`, `adam(lr=0.1,beta2=0.99)`."""
    from quadsim.cli import mistakes, names

    known = {mistakes.plain(name): name for name in names.optimizers()}
    settings: list[str] = []
    listed: list[str] = []
    for item in re.split(r",(?![^(]*\))", text):
        name, bracket, given = item.partition("(")
        found = known.get(mistakes.plain(name), name)
        if bracket and given.endswith(")") and found in names.optimizers():
            pairs = [pair.strip() for pair in given[:-1].split(",") if pair.strip()]
            if not all(pair.partition("=")[0].strip() in _discovery.settings(found) for pair in pairs):
                raise InputError(f"{item!r} is not the name of an optimizer: write {found} and {found}.lr=0.1")
            settings += [f"{found}.{pair.replace(' ', '')}" for pair in pairs]
            draft.because("settings are keys of their own")
        elif found != name and name.lower().replace("_", "-") != found:
            draft.because(f"the optimizer is {found}")
        else:
            found = name
        listed.append(found)
    if (new := f"optimizers={','.join(listed)}") != word or settings:
        draft.words[draft.words.index(word) : draft.words.index(word) + 1] = [new, *settings]


def _is_finite(text: str) -> bool:
    return bool(NUMBER.fullmatch(text)) and math.isfinite(float(text))


def _shortest(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:g}"


def _power(text: str) -> str:
    exponent = float(text)
    return f"1e{int(exponent)}" if exponent == int(exponent) else f"{math.pow(10, min(exponent, 300)):.6g}"
