"""Labels in sweep figures: optimizers, axes, panels and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from quadsim._format import power_of_ten
from quadsim.plots.style import style_of

SYMBOLS = {"kappa": "κ", "beta1": "β1", "beta2": "β2", "eps": "ε"}
ABSENT = {"lr": "automatic", "momentum": "automatic", "kappa": "its own"}  # for an absent value; otherwise "none"
AXES = {
    "kappa": "condition number κ",
    "heterogeneity": "heterogeneity of the blocks' spectra (0:\u00a0alike, 1:\u00a0sorted)",
    "rotation": "rotation of the blocks' eigenvectors (0:\u00a0none, 1:\u00a0Haar)",
    "js_distance": "Jensen–Shannon distance between the blocks' spectra",
    "lr": "learning rate", "batch": "batch size", "noise.scale": "scale of the noise", "tol": "tolerance",
    "max_steps": "limit on the steps", "steps_to_tol": "steps to tolerance", "loss": "final loss",
    "grad_norm": "final gradient norm", "kappa_eff": "κ_eff, the condition number that frozen Adam sees",
    "max_block_kappa": "largest condition number of a block", "measured_rate": "factor on the loss per step, measured",
    "predicted_rate": "factor on the loss per step, predicted",
}  # fmt: skip


def axis_name(name: str) -> str:
    return AXES.get(name, short_name(name))


def short_name(name: str) -> str:
    return SYMBOLS.get(name, name.replace("_", " "))


def plain_name(name: str) -> str:
    """The short name of an axis, for sentences."""
    return SYMBOLS.get(name, axis_name(name)).split(" (")[0]


def y_label(y: str, frame: pd.DataFrame) -> str:
    """The label of the axis of y, with the tolerance if all runs have the same."""
    if y != "steps_to_tol" or "tol" not in frame or frame["tol"].nunique() != 1:
        return axis_name(y)
    tol = float(frame["tol"].dropna().iloc[0])
    exponent = round(np.log10(tol)) if tol > 0 else 0
    exact = np.isclose(tol, 10.0**exponent, rtol=1e-9, atol=0)
    return f"{axis_name(y)} {power_of_ten(exponent) if exact else f'{tol:g}'}"


def panel_title(panel: Mapping[str, Any]) -> str:
    """The values of a panel: "Adam, case 3, β2 = 0.99"."""
    parts = [setting(name, value) for name, value in panel.items() if name != "optimizer"]
    return ", ".join(([style_of(str(panel["optimizer"])).label] if "optimizer" in panel else []) + parts)


def setting(name: str, value: Any) -> str:
    """A setting with its value: "case 3", "β2 = 0.99", "batch = none"."""
    if name == "case" and value is not None:
        return f"case {value}"
    if value is None or value != value:
        return f"{short_name(name)} = {ABSENT.get(name, 'none')}"
    numeric = isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
    shown = f"{value:.6g}" if numeric else str(value)
    return f"{short_name(name)} = {shown if len(shown) <= 36 else f'{shown[:20]}…{shown[-12:]}'}"


def power(slope: float) -> str:
    return f"{slope:z.2f}".replace("-", "−")
