"""Values in the syntax of other programs, rewritten in that of the command line; see `mistakes`."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from quadsim import _discovery, _parsing
from quadsim._parsing import NUMBER
from quadsim._validation import InputError
from quadsim.cli import names
from quadsim.cli.synonyms import plain
from quadsim.keys import WHOLE_KINDS, Key

if TYPE_CHECKING:
    from quadsim.cli.mistakes import Draft

DEFAULT_WORDS: tuple[str, ...] = ("none", "null", "auto", "best", "optimal", "default", "off", "full")
UNITS = {"k": "e3", "m": "e6"}
QUOTES = "'\"`“”‘’"
POINTS, LINEAR_POINTS = 25, 21  # of a range whose number of values is not given
MAX_SEEDS = 10_000
MAX_LISTED = 50  # numbers that a range is replaced by
LIST_KINDS = ("words", "spectrum", "blocks", "numbers")
NUMBER_KINDS = ("real", "whole", "start", "scales", "numbers", "case")
_N = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
RANGE = re.compile(rf"{_N}(?:\.\.\.?|:|-|…|to){_N}(?::(?:log|lin)?(\d{{1,6}}))?")
SPACED = re.compile(rf"{_N}(?:\.\.\.?|:|,){_N}[:,](\d{{1,6}})?(log|lin|geom)[a-z]*(\d{{1,6}})?")
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
        if not _left_out(draft, word, key, text):
            _correct_value(draft, word, key, text)
    if draft.text("noise.scale") and not draft.text("noise") and "noise" in draft.keys:
        draft.words.append("noise=gaussian")
        draft.because("noise names a model, noise.scale its size")


def _left_out(draft: Draft, word: str, key: Key, text: str) -> bool:
    """`gd.lr=best`, `noise=none`: the default, for which the key is left out."""
    absent = (*DEFAULT_WORDS, "false", "no", "0") if key.kind == "models" else DEFAULT_WORDS
    takes_number = key.kind in ("real", "whole", "models") and getattr(draft.module, "PARSE", True)
    if not takes_number or text.lower() not in absent:
        return False
    draft.words.remove(word)
    draft.because(f"leave {word} out for the default")
    return True


def _correct_value(draft: Draft, word: str, key: Key, text: str) -> None:
    new = text
    for rule in (_unquoted, _called, _unbracketed, _separated, _listed, _number, _switch, _name):
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
    if key.kind == "spectrum":
        new = _spectrum(draft, new)
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
    numbers = [number.removeprefix("num=") for number in found[2].split(",")]
    if not all(map(_is_finite, numbers)):
        return None
    why = "a range is written i..j, a:b:logN or a:b:linN"
    if found[1] in ("range", "arange") and len(numbers) in (1, 2):
        first, end = ("0", numbers[0]) if len(numbers) == 1 else numbers
        return (f"{first}..{_shortest(float(end) - 1)}", why)
    if found[1] in ("linspace", "geomspace", "logspace") and len(numbers) in (2, 3):
        numbers = [*numbers, str(LINEAR_POINTS if found[1] == "linspace" else POINTS)][:3]
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
    """`gd;adam`, `gd adam`, `gd+adam`, `gd,adam,`."""
    if key.kind != "words" or key.name == "rules" or "(" in text:
        return None
    separators = r"[;+|,/&\s]+" if key.name == "optimizers" else r"[;+|,\s]+"
    return (",".join(filter(None, re.split(separators, text))) or text, "a list is written a,b")


def _listed(key: Key, text: str) -> tuple[str, str] | None:
    """`10;100`, `10 100`, `0..9,20`."""
    if key.kind in ("real", "whole", "numbers", "case"):
        separators = r"[;|\s]+" if "." in key.name else r"[;|/\s]+"  # block-gd.lr=0.1/0.01 has a rate for each block
        items = list(filter(None, re.split(separators, text)))
        thousands = re.fullmatch(r"\d{1,3}(\s000)+", text)
        if len(items) > 1 and not thousands and all(map(NUMBER.fullmatch, items)):
            return (",".join(items), "a list is written a,b")
    if key.kind in ("whole", "case") and "," in text and re.fullmatch(r"\d+(\.\.\d+)?(,\d+(\.\.\d+)?)+", text):
        ends = [item.split("..") for item in text.split(",")]
        if sum(int(end[-1]) - int(end[0]) + 1 for end in ends) <= MAX_LISTED:
            numbers = [str(number) for end in ends for number in range(int(end[0]), int(end[-1]) + 1)]
            return (",".join(numbers), "a list of numbers has no ranges")
    return None


def _number(key: Key, text: str) -> tuple[str, str] | None:
    """`10^6`, `5,000`, `5_000`, `0,5`, `50%`."""
    if key.kind not in NUMBER_KINDS:
        return None
    if power := re.fullmatch(r"10(?:\^|\*\*)([+-]?\d{1,3})", text):
        return (f"1e{power[1]}", "powers of ten are written 1e6")
    if key.kind != "case" and re.fullmatch(rf"{_N}[kKmM]", text):
        return (text[:-1] + UNITS[text[-1].lower()] if "e" not in text.lower() else text, "1k is written 1e3, 1M 1e6")
    if key.kind == "case" and (number := re.fullmatch(r"case[-_ ]?(\d)", text.lower())):
        return (number[1], "a case is a number")
    if key.kind == "case" and text.lower() in ("all", "*"):
        return (f"{key.words[0]}..{key.words[-1]}", "all cases are written as a range")
    digits = re.sub(r"[_'\s]", "", text)
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


def _name(key: Key, text: str) -> tuple[str, str] | None:
    """`GPT2`, `gpt-2`, `log_uniform`: a name that is written otherwise."""
    known = key.words if key.kind in ("choice", "spectrum") else ()
    if key.kind == "text" and key.names:
        known = getattr(names, key.names)()
    named = {plain(name): name for name in known}.get(plain(text), text)
    return (named, f"the name is {named}") if named != text.lower() or key.kind == "text" else None


# ---- ranges and lists


def _spectrum(draft: Draft, text: str) -> str:
    """`1;2;3`, `1,2|3,4`, `1:100:log5`, `1..5`, `mine.csv`."""
    if re.search(r"\.(csv|npz|npy|txt|json)$", text.lower()):
        raise InputError(f"spectrum takes numbers or a law, network a file of spectra: write case=1 network={text}")
    sweeps = not getattr(draft.module, "PARSE", True)  # ; separates spectra
    between = r"\s*[|]\s*" if sweeps else r"\s*[;|]\s*"
    if re.search(rf"{between}|\s", text):
        blocks = re.split(between, text.strip())
        new = ("/" if any(re.search(r"[,\s]", block) for block in blocks) else ",").join(
            re.sub(r"[,\s]+", ",", block) for block in blocks
        )
        if all(map(NUMBER.fullmatch, re.split("[,/;]", new))):
            draft.because("eigenvalues are written a,b, blocks a,b/c,d")
            text = new
    found = RANGE.fullmatch(text)
    if not found or not all(map(_is_finite, found.groups()[:2])):
        return text
    low, high = float(found[1]), float(found[2])
    log = ":lin" not in text and ".." not in text
    whole = low == int(low) and high == int(high) and not found[3] and low < high
    count = int(found[3]) if found[3] else int(high - low) + 1 if whole else 0
    if not 0 < low < high or count < 2:
        return text
    if count > MAX_LISTED:
        law = "log-uniform" if log else "linear"
        sizes = f"blocks=1 block_size={count} kappa={_shortest(high / low)}"
        raise InputError(f"spectrum takes numbers or a law: write spectrum={law} {sizes}")
    spacing = f"{low}:{high}:{'log' if log and found[3] else 'lin'}{count}"
    draft.because("eigenvalues are listed")
    return ",".join(f"{float(value):.6g}" for value in _parsing.alternatives("spectrum", spacing))


def _range(draft: Draft, key: Key, text: str) -> str:
    """A range in the notation of the key: `1e3..1e6` of numbers, `0:10` of seeds."""
    spaced = SPACED.fullmatch(text.replace(" ", ""))
    if spaced and key.kind in ("real", "numbers") and not re.fullmatch(r"[^,]*:[^,]*:(log|lin)\d+", text):
        first, last, before, spacing, after = spaced.groups()
        draft.because("a range is written a:b:logN or a:b:linN")
        points = before or after or str(LINEAR_POINTS if spacing == "lin" else POINTS)
        return f"{first}:{last}:{'lin' if spacing == 'lin' else 'log'}{points}"
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
    if re.search(r":(log|lin)\d", text) or low == high:
        return text
    log = min(low, high) > 0 and max(low, high) / min(low, high) >= 10
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
    if NUMBER.fullmatch(bare) and 1 <= float(bare) <= MAX_SEEDS and float(bare).is_integer():
        new = _seeds(0, float(bare) - 1)
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
    sized = re.fullmatch(rf"(gaussian|labels)[:(,]{_N}\)?", text.lower())
    if sized and _is_finite(sized[2]):
        new = [f"noise={sized[1]}", f"noise.scale={sized[2]}"]
        draft.replace(word, *new, reason="noise names a model, noise.scale its size")
    elif NUMBER.fullmatch(text) and float(text) > 0:
        new = ["noise=gaussian", f"noise.scale={text}"]
        draft.replace(word, *new, reason="noise names a model, noise.scale its size")
    elif SWITCHES.get(text.lower(), text.lower()) == "true":
        draft.replace(word, "noise=gaussian", reason="noise names a model, noise.scale its size")
    elif f"noise={text}" != word.lstrip("-"):
        draft.words[draft.words.index(word)] = f"noise={text}"


def _optimizers(draft: Draft, word: str, text: str) -> None:
    """`sign-gd`, `heavyball`, `adam(lr=0.1,beta2=0.99)`."""
    known = {plain(name): name for name in names.optimizers()}
    settings: list[str] = []
    listed: list[str] = []
    for item in re.split(r",(?![^(]*\))", text):
        name, bracket, given = item.partition("(")
        found = known.get(plain(name), name)
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
