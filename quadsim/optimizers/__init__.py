"""The optimizers: one file with one class for each. Nothing here loops over steps.

`OPTIMIZERS` maps the names of the command line to the classes. The classes are attributes of this package and are found
by `quadsim._discovery`: a new optimizer is a new file.
"""

from __future__ import annotations

import importlib
from dataclasses import fields
from typing import Any

from quadsim import _discovery
from quadsim import _validation as checks
from quadsim.optimizers.base import LearningRate, Optimizer

#: The classes of the built-in optimizers and of registered rules, by their names on the command line.
OPTIMIZERS: dict[str, type[Optimizer]] = {
    info.name: getattr(importlib.import_module(info.module), info.class_name) for info in _discovery.optimizers()
}
_CLASSES = {kind.__name__: kind for kind in OPTIMIZERS.values()}
__all__ = ["OPTIMIZERS", "LearningRate", "Optimizer", "by_name", *_CLASSES]


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return _CLASSES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return _discovery.public_names(globals())


def by_name(name: str, **settings: Any) -> Optimizer:
    """An optimizer by its name on the command line.

    Parameters
    ----------
    name : str
    **settings :
        Those of its class.

    Returns
    -------
    Optimizer

    Examples
    --------
    >>> qs.optimizers.by_name("adam", beta2=0.99)
    Adam(beta2=0.99)
    >>> qs.optimizers.by_name("frozen-adam").settings()
    {'lr': None, 'beta1': 0.0}
    """
    name = name.lower().replace("_", "-") if isinstance(name, str) else name
    cls = OPTIMIZERS[checks.choice("optimizer", name, OPTIMIZERS)]
    for key in settings:
        checks.choice(f"setting of {cls.name}", key, [item.name for item in fields(cls)])
    return cls(**settings)
