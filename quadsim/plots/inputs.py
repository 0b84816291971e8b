"""What plot functions accept: tidy tables, objects with `to_frame`, and lists of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quadsim._validation import InputError, InputTypeError, shown

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

CURVE_COLUMNS = ("optimizer", "step", "relative")


def table(given: Any, columns: Sequence[str], *, function: str, expected: str) -> pd.DataFrame:
    """The rows of a table, of an object with `to_frame`, or of a list of them; `columns` must be among its own.

    Parts of a list are told apart by the column "part".
    """
    import pandas as pd

    frame = _frame(given, function, expected)
    if frame is None:
        parts = _parts(given, function, expected)
        frame = pd.concat([part.assign(part=k) for k, part in enumerate(parts)], ignore_index=True)
    missing = [name for name in columns if name not in frame]
    if missing:
        has = ", ".join(map(str, frame.columns[:6])) + (", …" if len(frame.columns) > 6 else "")
        raise InputError(f"{function} needs the columns {', '.join(missing)}: give {expected}; this table has {has}")
    if frame.empty:
        raise InputError(f"nothing to draw: the table is empty; {function} takes {expected}")
    return frame


def lanes(given: Any, function: str) -> list[tuple[str, str, np.ndarray, np.ndarray]]:
    """The optimizer's name and label, the steps and the relative gradient norms of each run.

    Runs are read directly: their table would need pandas, whose import takes longer than drawing.
    """
    listed = [given] if _is_run(given) else list(given) if isinstance(given, Sequence) else []
    if listed and all(map(_is_run, listed)):
        return [(run.optimizer.name, run.optimizer.label, run.steps, run.relative) for run in listed]
    found = []
    for (name, label, _), curve in curves(given, function).groupby(["optimizer", "label", "lane"], sort=False):
        steps, norms = (curve[key].to_numpy(dtype=float) for key in ("step", "relative"))
        found.append((str(name), str(label), steps, norms))
    return found


def rate_origins(given: Any) -> list[tuple[str, str]]:
    """The label of each run's optimizer with the origin of its learning rate; none of a table."""
    listed = [given] if _is_run(given) else list(given) if isinstance(given, Sequence) else []
    if listed and all(map(_is_run, listed)):
        return [(run.optimizer.label, str(getattr(run, "lr_from", ""))) for run in listed]
    return []


def _is_run(given: Any) -> bool:
    return hasattr(getattr(given, "optimizer", None), "label") and hasattr(given, "relative")


def curves(given: Any, function: str) -> pd.DataFrame:
    """The curves of runs, one lane for each run."""
    frame = table(given, CURVE_COLUMNS, function=function, expected="a run, a list of runs, or qs.table.curves(runs)")
    names = [name for name in ("part", "lane", "problem", "optimizer", "seed") if name in frame]
    labels = frame["label"] if "label" in frame else frame["optimizer"]
    return frame.assign(label=labels, lane=frame.groupby(names, sort=False, dropna=False).ngroup())


def sweep_rows(given: Any, function: str) -> pd.DataFrame:
    """The rows of a sweep; parts of a list are one table."""
    import pandas as pd

    if isinstance(given, pd.DataFrame):
        return given
    expected = "the table that qs.sweep returned, or a list of such tables"
    return table(given, ("optimizer",), function=function, expected=expected).drop(columns="part", errors="ignore")


def bands(given: Any, columns: Sequence[str], function: str) -> pd.DataFrame:
    """Medians and quartiles by step, of runs, of comparisons, or as a table."""
    import pandas as pd

    from quadsim import _quantiles

    expected = "runs, a comparison, or the table of qs.table.bands(runs)"
    listed = [given] if _is_run(given) or _has_bands(given) else given
    listed = list(listed.values()) if isinstance(listed, Mapping) else listed
    if isinstance(listed, Sequence) and not isinstance(listed, str) and listed:
        nested = [list(one) if isinstance(one, Sequence) and not isinstance(one, str) else [one] for one in listed]
        listed = [one for part in nested for one in part]
        if all(map(_is_run, listed)):
            return _quantiles.bands(listed)
        if all(map(_has_bands, listed)):
            given = pd.concat([one.bands for one in listed], ignore_index=True)
    return table(given, columns, function=function, expected=expected)


def _has_bands(given: Any) -> bool:
    import pandas as pd

    return isinstance(getattr(given, "bands", None), pd.DataFrame)


def names(name: str, given: Any) -> list[str]:
    """Names of columns as a list; one name may stand alone."""
    listed = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    for one in listed:
        if not isinstance(one, str):
            raise InputTypeError(f"{name} must be names of columns, got {shown(one)}")
    return listed


def comparisons(given: Any, attributes: Sequence[str], function: str) -> list[Any]:
    """One or more comparisons, as a list."""
    import pandas as pd

    found = [given] if hasattr(given, attributes[0]) else given
    found = list(found.values()) if isinstance(found, Mapping) else found
    if not isinstance(found, Iterable) or isinstance(found, str | pd.DataFrame):
        raise InputTypeError(f"{function} takes a comparison (qs.compare) or a list of them, got {shown(given)}")
    found = list(found)
    if not found:
        raise InputError(f"nothing to draw: the list is empty; {function} takes a comparison or a list of them")
    for one in found:
        if not all(hasattr(one, name) for name in attributes):
            raise InputTypeError(f"{function} takes a comparison (qs.compare) or a list of them, got {shown(one)}")
    return found


def _frame(given: Any, function: str, expected: str) -> pd.DataFrame | None:
    """The table, if what was given is one or makes one."""
    import pandas as pd

    if isinstance(given, pd.DataFrame):
        return given
    if callable(make := getattr(given, "to_frame", None)) and not isinstance(given, type):
        made = make()
        if isinstance(made, pd.DataFrame):
            return made
        raise InputTypeError(f"{function}: to_frame() of {type(given).__name__} must return a DataFrame")
    if isinstance(given, str | bytes | type) or not isinstance(given, Iterable):
        raise InputTypeError(f"{function} takes {expected}, got {shown(given)}")
    return None


def _parts(given: Any, function: str, expected: str) -> list[pd.DataFrame]:
    given = given.values() if isinstance(given, Mapping) else given
    parts = []
    for one in given:
        part = _frame(one, function, expected)
        parts += _parts(one, function, expected) if part is None else [part]
    if not parts:
        raise InputError(f"nothing to draw: the list is empty; {function} takes {expected}")
    return parts
