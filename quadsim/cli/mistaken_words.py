"""Words that are not key=value, rewritten as key=value, as a command or as a flag; see `mistakes`."""

from __future__ import annotations

import difflib
import os
import re
from typing import TYPE_CHECKING

from quadsim import _validation as checks
from quadsim._parsing import NUMBER
from quadsim._validation import InputError
from quadsim.cli import help_text, names
from quadsim.cli.synonyms import canonical, plain
from quadsim.keys import KEYS, Key

if TYPE_CHECKING:
    from quadsim.cli.mistakes import Draft

WHY = "keys are written key=value"
TAKE_ALL = ("verify", "reproduce", "list")  # commands
SWITCHES = ("true", "false", "yes", "no", "on", "off", "1", "0")


def split(draft: Draft) -> None:
    """Split `case=3,kappa=100` and `"case=3 kappa=100"`."""
    for word in list(draft.words):
        parts = [part for part in re.split(r"[\s,;&]+(?=[\w.-]+=[^=])", word) if part]
        keys = [part.partition("=")[0] for part in parts]
        first = draft.keys.get(keys[0].lstrip("-").lower()) if keys else None
        if len(parts) < 2 or "(" in word or (first is not None and first.kind == "text"):
            continue
        if all(known_key(draft, key) for key in keys):
            draft.replace(word, *parts, reason="keys are separate words")


def join(draft: Draft) -> None:
    """Make key=value of `case 3`, `--case 3`, `case3`, `case = 3`, `optimizers=gd adam`, `spectrum=[1, 2]`, `gd`."""
    words, draft.words = draft.words, []
    while words:
        word = words.pop(0)
        key = known_key(draft, word.rstrip(":="))
        if "=" in word.rstrip("=") and not word.startswith("="):
            while words and "=" not in words[0] and _unfinished(word):
                word += words.pop(0)
                draft.because("a list is written without spaces")
            draft.words.append(word)
        elif key and _is_switch(draft.keys.get(key)) and not (words and words[0].lower() in SWITCHES):
            draft.words.append(f"{key}=true")
            draft.because(WHY)
        elif key and words and not _is_flag(words[0]) and (word[-1] == "=" or "=" not in words[0].strip("=")):
            value = words.pop(0).lstrip("=")
            value = value or (words.pop(0) if words else "")
            draft.words.append(f"{key}={value}")
            draft.because(WHY)
        elif key and word not in _positional(draft):
            _needs_value(draft, key)
        elif flag := draft.meant_flag(word):
            draft.words.append(flag)
            if flag != word:
                draft.because(f"{flag} is a flag")
        elif word.lstrip("-") == "all" and draft.command in TAKE_ALL:
            draft.because(f"{draft.command} takes all if none is named")
        elif not _add_value(draft, word):
            draft.words.append(word)
        else:
            draft.because(WHY)


def name_command(draft: Draft) -> None:
    """`swep case=3`: the command with a similar name; `claims`: the list."""
    word = next((word for word in draft.words if "=" not in word and not word.startswith("-")), "help")
    if draft.named or word == "help":
        return
    if word in names.LISTS and not any("=" in word for word in draft.words):
        draft.command, draft.named = "list", True
        draft.because("list shows names")
        return
    if known_key(draft, word):
        return
    if close := difflib.get_close_matches(word.lower(), help_text.commands(), n=1, cutoff=0.75):
        draft.words.remove(word)
        draft.command, draft.named = close[0], True
        draft.because(f"unknown command {checks.shown(word)}")


def known_key(draft: Draft, word: str) -> str:
    """The key that a word means; empty if it is none."""
    if not word or "=" in word:
        return ""
    word = word.lstrip("-")
    found = re.fullmatch(r"([\w-]+)\.(\w+)", word) if draft.takes_settings else None
    if found and plain(found[1]) in map(plain, names.optimizers()):
        return word
    found_key = draft.key(word, *draft.settings(), "seeds")
    return found_key or (canonical(word, KEYS) if draft.command == "run" else "")


def _unfinished(word: str) -> bool:
    """Whether the list of a word continues in the next one."""
    return word.endswith(",") or sum(map(word.count, "[(")) > sum(map(word.count, "])"))


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not re.match(r"-[0-9.]", word)


def _is_switch(key: Key | None) -> bool:
    return key is not None and key.kind == "flag"


def _needs_value(draft: Draft, key: str) -> None:
    entry = draft.keys.get(key)
    shape = help_text.value_shape(entry) if entry else "VALUE"
    raise InputError(f"{key} needs a value: write {key}={shape} (see {help_text.PROGRAM} help {key})")


def _positional(draft: Draft) -> tuple[str, ...]:
    """The words that a command takes beside keys, as far as they have names."""
    shows_list = draft.command == "list" or (not draft.named and len(draft.given) == 1)
    return tuple(names.LISTS) if shows_list else ()


def _add_value(draft: Draft, word: str) -> bool:
    """Add a value without a key to the line, if it is clear which key it belongs to."""
    return _glued(draft, word) or _continued(draft, word) or _named_value(draft, word) or _folder(draft, word)


def _glued(draft: Draft, word: str) -> bool:
    """`case3`, `kappa:100`, `adam.lr:0.1`."""
    setting = re.fullmatch(r"-*([\w-]+\.[^\W\d]\w*):([^=]+)", word)
    if setting and known_key(draft, setting[1]):
        draft.words.append(f"{setting[1]}={setting[2]}")
        return True
    glued = re.fullmatch(r"-*([^\W\d]+)[:_-]?([0-9][^=]*)", word)
    key = draft.key(glued[1]) if glued else ""
    if glued and key:
        draft.words.append(f"{key}={glued[2]}")
    return bool(key)


def _continued(draft: Draft, word: str) -> bool:
    """The 2 of `spectrum=1 2` and of `sweep case=3 kappa=1 2`: a number after a number."""
    name, _, text = draft.words[-1].partition("=") if draft.words else ("", "", "")
    items = text.split(",")
    if name == "case" or not (draft.text("case") or draft.text("spectrum")) or not NUMBER.fullmatch(word):
        return False
    if not all(map(NUMBER.fullmatch, items)):
        return False
    draft.words[-1] += f",{word}"
    return True


def _named_value(draft: Draft, word: str) -> bool:
    """A case, a law, an optimizer, a network, a claim or a format."""
    word = word.removeprefix("--")
    for key, entry in draft.keys.items():
        allowed = entry.words if entry.kind in ("case", "spectrum", "words") else ()
        if entry.names and not allowed:
            allowed = getattr(names, entry.names)()
        if entry.names == "claims":
            allowed = (*allowed, *{re.sub(r"\D", "", claim) for claim in allowed})  # and their sections
        items = re.split(r"\.\.|[-:]", word) if re.fullmatch(r"\d(\.\.|[-:])\d", word) else word.split(",")
        if not allowed or not all(item and plain(item) in map(plain, allowed) for item in items):
            continue
        given = draft.text(key)
        lists = key == "optimizers" or entry.kind == "case"
        if given and lists:
            place = next(k for k, known in enumerate(draft.words) if known.startswith(f"{key}="))
            draft.words[place] = f"{key}={given.rstrip(',')},{word}"
        elif not given and not (key == "spectrum" and draft.text("case")) and key != "reference":
            draft.words.append(f"{key}={word}")
        else:
            continue
        return True
    return False


def _folder(draft: Draft, word: str) -> bool:
    """`report figures/`: the folder of `report`."""
    takes = (
        draft.command == "report"
        and (word.endswith("/") or os.path.isdir(word))
        and not draft.text("figures")
        and not _is_flag(word)
    )
    if takes:
        draft.words.append(f"figures={word}")
    return takes
