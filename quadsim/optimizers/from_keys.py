"""Optimizers from the text of the keys optimizers=, rules= and NAME.SETTING=."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quadsim import _parsing, optimizers
from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.optimizers import Optimizer, user_rules


def load_rules(paths: Sequence[str]) -> None:
    """Register the optimizers of users' files."""
    path_of: dict[str, str] = {}
    for path in paths:
        for name in user_rules.load(path):
            if path_of.setdefault(name, path) != path:
                raise InputError(f"optimizer {name} is defined in {path_of[name]} and in {path}: rename one of them")


def checked_names(names: Sequence[str]) -> list[str]:
    """The names of optimizers, if each is known and named once."""
    checked = [checks.choice("optimizer", name.lower().replace("_", "-"), optimizers.OPTIMIZERS) for name in names]
    for name in checked:
        if checked.count(name) > 1:
            example = f"{name}.lr=0.01,0.1"
            raise InputError(f"optimizer {name} is named twice: a sweep varies its settings, such as {example}")
    return checked


def read(names: Sequence[str], settings: Mapping[str, str], rules: Sequence[str] = ()) -> list[Optimizer]:
    """The optimizers of these names with their settings: ``read(["gd"], {"gd.lr": "1e-4"})``."""
    load_rules(rules)
    names = checked_names(names)
    values: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, text in settings.items():
        owner, setting = checked_setting(key, names, text)
        values[owner][setting] = read_setting(owner, setting, text)
    return [optimizers.by_name(name, **values[name]) for name in names]


def checked_setting(key: str, names: Sequence[str], value: Any) -> tuple[str, str]:
    """The optimizer and the setting of a dotted key: ``adam.beta2`` → adam, beta2."""
    owner, _, setting = key.partition(".")
    owner = checks.choice("optimizer", owner.replace("_", "-"), optimizers.OPTIMIZERS)
    if owner not in names:
        raise InputError(f"{key}={value} requires {owner} among optimizers={','.join(names)}")
    defaults = optimizers.OPTIMIZERS[owner]().settings()
    setting = {name.lower(): name for name in defaults}.get(setting.lower(), setting)  # keys are read without case
    return owner, checks.choice(f"setting of {owner}", setting, defaults)


def refuse_bare_setting(key: str, value: Any, names: Any) -> None:
    """Raise if a key is a setting of one of these optimizers without its name: settings are written NAME.SETTING."""
    listed = names.lower().replace("_", "-").split(",") if isinstance(names, str) else list(optimizers.OPTIMIZERS)
    for name in listed:
        kind = optimizers.OPTIMIZERS.get(name)
        if kind is not None and key in kind().settings():
            raise InputError(f"{key} is a setting of an optimizer: write for example {name}.{key}={value}")


def read_setting(owner: str, setting: str, text: str) -> Any:
    """The value of a setting, read by the type of its default; `0.5/0.1` is one learning rate for each block."""
    key, default = f"{owner}.{setting}", optimizers.OPTIMIZERS[owner]().settings()[setting]
    if isinstance(default, bool):
        return _parsing.flag(key, text)
    if isinstance(default, str):
        return text
    if owner == "block-gd" and "/" in text:
        return tuple(_parsing.real(key, item) for item in _parsing.several(key, text, "/"))
    return _parsing.real(key, text)
