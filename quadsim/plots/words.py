"""What things are called in a figure of a sweep: optimizers, axes, values and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

LABELS = {
    "gd": "GD", "block-gd": "Block GD", "heavy-ball": "Heavy ball", "nesterov": "Nesterov", "sgd": "SGD",
    "frozen-adam": "Adam (β2 = 1)", "adam": "Adam", "adamw": "AdamW", "amsgrad": "AMSGrad", "nadam": "NAdam",
    "adam-variance": "Adam (β1 = β2)", "rmsprop": "RMSProp", "adagrad": "AdaGrad", "signgd": "SignGD",
    "signum": "Signum", "lion": "Lion", "adam-mini": "Adam-mini", "adasgd": "AdaSGD", "muon": "Muon",
    "skip-update": "SkipUpdate", "magma": "Magma",
}  # fmt: skip
SYMBOLS = {"kappa": "κ", "beta1": "β1", "beta2": "β2", "eps": "ε"}
ABSENT = {"lr": "automatic", "momentum": "automatic", "kappa": "its own"}  # what an absent value means; others: none
AXES = {
    "kappa": "condition number κ",
    "heterogeneity": "heterogeneity of the blocks' spectra (0:\u00a0alike, 1:\u00a0sorted)",
    "rotation": "rotation of the blocks' eigenvectors (0:\u00a0none, 1:\u00a0Haar)",
    "js_distance": "Jensen–Shannon distance between the blocks' spectra",
    "lr": "learning rate", "batch": "batch size", "noise": "noise on the gradient", "tol": "tolerance",
    "steps": "limit on the steps", "steps_to_tol": "steps to tolerance", "loss": "final loss",
    "grad_norm": "final gradient norm", "kappa_eff": "κ_eff, the condition number that frozen Adam sees",
    "max_block_kappa": "largest condition number of a block", "measured_rate": "factor on the loss per step, measured",
    "predicted_rate": "factor on the loss per step, predicted",
}  # fmt: skip


def labels_of(frame: pd.DataFrame, table: pd.DataFrame, own: Mapping[str, str] | None) -> dict[str, str]:
    """What each optimizer in a table of medians is called, in the order in which they come in the frame."""
    there = set(table["optimizer"])
    called = {**LABELS, **(own or {})}
    return {str(name): called.get(str(name), str(name)) for name in frame["optimizer"].unique() if name in there}


def axis_name(name: str) -> str:
    return AXES.get(name, short_name(name))


def short_name(name: str) -> str:
    return SYMBOLS.get(name, name.replace("_", " "))


def plain_name(name: str) -> str:
    """An axis inside a sentence."""
    return SYMBOLS.get(name, axis_name(name)).split(" (")[0]


def in_sentence(label: str) -> str:
    """A label that is plain words, not a name, begins small: "heavy ball", but "GD" and "Adam (β2 = 1)"."""
    plain = " " in label and label.replace(" ", "").isalpha() and label[1:].islower()
    return label[0].lower() + label[1:] if plain else label


def place(panel: Mapping[str, Any], labels: Mapping[str, str] = LABELS) -> str:
    """A panel's values in words: "Adam, case 3, β2 = 0.99"."""
    told: list[str] = []
    for name, value in panel.items():
        if name == "optimizer":
            told.insert(0, labels.get(value, str(value)))
        elif name == "case" and value is not None:
            told.append(f"case {value}")
        else:
            told.append(setting(name, value))
    return ", ".join(told)


def setting(name: str, value: Any) -> str:
    """A setting with its value: "β2 = 0.99", "batch = none"."""
    if value is None or value != value:
        return f"{short_name(name)} = {ABSENT.get(name, 'none')}"
    numeric = isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
    shown = f"{value:.6g}" if numeric else str(value)
    return f"{short_name(name)} = {shown if len(shown) <= 36 else f'{shown[:20]}…{shown[-12:]}'}"


def power(slope: float) -> str:
    told = f"{slope:.2f}"
    return "0.00" if told == "-0.00" else told.replace("-", "−")


def number(value: float) -> str:
    """Two digits that matter: 33,000, 1.2 million, 15, 0.0031."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.1e}")
    if abs(rounded) >= 1e15 or abs(rounded) < 1e-3:
        return f"{rounded:.2g}"
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if abs(rounded) >= size:
            return f"{rounded / size:g} {word}"
    return f"{rounded:,.0f}" if abs(rounded) >= 10 else f"{rounded:g}"


def and_(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
