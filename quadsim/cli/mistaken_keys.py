"""Keys and settings under other names, and settings without an optimizer; see `mistakes`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from quadsim import _discovery
from quadsim._validation import MAX_MESSAGE_LENGTH, PREFIX, InputError
from quadsim.cli import completion, names
from quadsim.cli.synonyms import SYNONYMS, canonical, plain
from quadsim.keys import RENAMED

if TYPE_CHECKING:
    from quadsim.cli.mistakes import Draft

RUN_OPTIMIZERS = ("run", "cases", "compare", "tune", "sweep")  # commands


def rename(draft: Draft) -> None:
    """The names of the table for `optimizer=`, `max-steps=`, `κ=`, `adam.beta_2=`; --json for `json=true`."""
    for word in list(draft.words):
        key, equals, value = word.partition("=")
        shown = key.lstrip("-")
        if not equals or shown in draft.keys or not shown:
            continue
        if flag := draft.meant_flag(shown):
            draft.replace(word, flag, reason=f"{flag} is a flag")
        elif draft.command == "completion" and value in completion.SHELLS:
            draft.replace(word, value, reason="the shell is a word")
        elif new := draft.key(shown.rstrip(":")) if shown.lower() not in RENAMED or shown.lower() in SYNONYMS else "":
            draft.replace(
                word,
                f"{new}={value}",
                reason=f"the key is {new}, not {shown.rstrip(':')}"
                if new != shown.rstrip(":")
                else "keys are written key=value",
            )
        elif draft.takes_settings and (setting := _dotted(shown)):
            draft.replace(word, f"{setting}={value}", reason=f"the setting is {setting}, not {shown}")
        elif draft.takes_settings and "." in shown:
            _rename_setting(draft, word, shown, value)
        elif canonical(shown, ["seeds"]):
            draft.replace(word, f"seeds={value}", reason="")
        elif draft.takes_settings and plain(shown) == "betas" and (pair := _pair(value)):
            has_both = [name for name in draft.optimizers() if {"beta1", "beta2"} <= set(_discovery.settings(name))]
            owner = has_both[0] if has_both else "adam"
            reason = f"{owner} has beta1 and beta2"
            draft.replace(word, f"{owner}.beta1={pair[0]}", f"{owner}.beta2={pair[1]}", reason=reason)


def _dotted(key: str) -> str:
    """NAME.SETTING of `adam_lr`, `adam:lr`, `adam/lr`, `lr.adam`; empty for other keys."""
    parts = plain(re.sub(r"[:./]", "", key))
    if plain(key.partition(".")[0]) in map(plain, names.optimizers()):
        return ""
    for name in names.optimizers():
        for setting in _discovery.settings(name):
            if parts in (plain(name) + plain(setting), plain(setting) + plain(name)):
                return f"{name}.{setting}"
    return ""


def _pair(text: str) -> tuple[str, str] | None:
    """The numbers of `0.9,0.99` and `(0.9,0.99)`."""
    first, comma, second = text.strip("[]()").partition(",")
    first, second = first.strip(), second.strip()
    return (first, second) if comma and first and second and "," not in second else None


def _rename_setting(draft: Draft, word: str, key: str, value: str) -> None:
    owner, _, setting = key.partition(".")
    owner = {plain(name): name for name in names.optimizers()}.get(plain(owner), owner)
    known = _discovery.settings(owner)
    if plain(setting) == "betas" and {"beta1", "beta2"} <= set(known):
        if pair := _pair(value):
            new = [f"{owner}.beta{number}={part}" for number, part in enumerate(pair, start=1)]
            draft.replace(word, *new, reason=f"{owner} has beta1 and beta2")
    elif known and setting.lower() not in map(str.lower, known) and (new_name := canonical(setting, known)):
        draft.replace(word, f"{owner}.{new_name}={value}", reason=f"the setting is {owner}.{new_name}, not {key}")


def name_optimizers(draft: Draft) -> None:
    """`lr=0.1`: for which optimizer?"""
    if not draft.takes_settings:
        return
    for word in list(draft.words):
        key, equals, value = word.lstrip("-").partition("=")
        setting = canonical(key, draft.settings()) if equals and "." not in key else ""
        if not setting or key in draft.keys:
            continue
        used = [name for name in draft.optimizers() if setting in _discovery.settings(name)]
        if len(used) == 1:
            draft.replace(word, f"{used[0]}.{setting}={value}", reason=f"{key} for which optimizer?")
        elif used:
            every = f", or lrs={value} for all" if setting == "lr" and "lrs" in draft.keys else ""
            choices = [f"{name}.{setting}={value}" for name in used]
            for count in range(len(choices), 0, -1):
                listed = f"{', '.join(choices[: count - 1])} or {choices[count - 1]}" if count > 1 else choices[0]
                sentence = f"{key} for which optimizer? write {listed}{every}"
                if len(sentence) <= MAX_MESSAGE_LENGTH - len(PREFIX):
                    raise InputError(sentence)
        else:
            _name_another(draft, word, setting, value)


def _name_another(draft: Draft, word: str, setting: str, value: str) -> None:
    """No optimizer of the line has the setting: name one that has."""
    owners = [name for name in names.optimizers() if setting in _discovery.settings(name)]
    used = draft.optimizers()
    alike = [name for name in owners if name.removesuffix("w") in used]  # adamw beside adam
    owner = alike[0] if alike else "adam" if "adam" in owners else owners[0]
    if all(name in names.optimizers() for name in used):  # and no rules of the user
        reason = f"{', '.join(used)} {'has' if len(used) == 1 else 'have'} no {setting}, {owner} has"
        draft.replace(word, f"{owner}.{setting}={value}", reason=reason)
        _add_optimizer(draft, owner, f"{owner}.{setting}={value}")


def add_optimizers(draft: Draft) -> None:
    """`case=3 adam.beta2=0.99`: adam is not among the optimizers."""
    if draft.command not in RUN_OPTIMIZERS or draft.text("rules"):
        return
    for word in list(draft.words):
        owner, dot, setting = word.partition("=")[0].partition(".")
        owner = owner.lstrip("-").lower().replace("_", "-")
        if dot and setting in _discovery.settings(owner) and owner not in draft.optimizers():
            given = draft.text("optimizers")
            if given and not all(name in names.optimizers() for name in draft.optimizers()):
                continue  # `optimizers=` has a mistake of its own
            draft.because(f"{owner} is not among the optimizers")
            _add_optimizer(draft, owner, word)


def _add_optimizer(draft: Draft, owner: str, word: str) -> None:
    """Add an optimizer to those of the line, or before a word of its settings."""
    given = draft.text("optimizers")
    listed = f"optimizers={given or 'gd'},{owner}"
    if given:
        draft.words[draft.words.index(f"optimizers={given}")] = listed
    else:
        draft.words.insert(draft.words.index(word), listed)
