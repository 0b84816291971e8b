"""A result on disk: figures, tables and settings, written together or not at all."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import platform
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import plots
from quadsim._files import AtomicFiles
from quadsim._validation import InputError, shown
from quadsim.plots.text import missing_glyphs_ignored

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DPI = 200  # of PNG files
PACKAGES = ("quadsim", "numpy", "scipy", "numba", "llvmlite", "matplotlib", "pandas")
UNSTAMPED = {".png": {"Software": None}, ".svg": {"Date": None}}  # omit metadata: equal figures are equal files


def check_folder(folder: Path, key: str = "out") -> None:
    """Raise unless files can be written to the folder, creating it if necessary; nothing is left behind."""
    try:
        with AtomicFiles() as files:
            files.make_folder(folder)
            with tempfile.TemporaryFile(dir=folder):
                pass
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        if getattr(error, "errno", None) == errno.EEXIST:
            reason = "a broken symbolic link" if folder.is_symlink() else "not a folder"
        raise InputError(f"{key}={shown(str(folder))} cannot be written ({reason}): give a writable folder") from None


def check_file(path: Path, key: str = "out") -> None:
    """Raise unless a file can be written under this name; nothing is left behind."""
    check_folder(path.parent, key)
    try:
        found = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{key}={shown(str(path))} cannot be written ({reason})") from None
    if not stat.S_ISREG(found):
        raise InputError(f"{key}={shown(str(path))} is not a regular file: give another name")


def write(
    folder: Path,
    stem: str,
    figures: Figure | dict[str, Figure],
    tables: dict[str, pd.DataFrame],
    settings: dict[str, Any],
    texts: dict[str, str] | None = None,
) -> list[Path]:
    """Write stem{suffix}.png and .svg for each figure, stem{suffix}.csv for each table, stem.json; returns the paths.

    ``texts`` are written to stem{suffix} unchanged. No file appears before all of them are complete.
    """
    content = {".json": json.dumps(settings, indent=2, ensure_ascii=False, allow_nan=False) + "\n", **(texts or {})}
    with AtomicFiles() as files:
        files.make_folder(folder)
        for mark, figure in (figures if isinstance(figures, dict) else {"": figures}).items():
            _lay_out(figure)
            for suffix, metadata in UNSTAMPED.items():
                files.write(folder / f"{stem}{mark}{suffix}", partial(_draw, figure, metadata=metadata))
        for suffix, frame in tables.items():
            files.write(folder / f"{stem}{suffix}.csv", partial(frame.to_csv, index=False))
        for suffix, text in content.items():
            files.write(folder / f"{stem}{suffix}", partial(Path.write_text, data=text, encoding="utf-8"))
        return files.commit()


def write_text(path: Path, text: str) -> None:
    """Write one text atomically, creating its folder if necessary; an existing file keeps its permissions."""
    with AtomicFiles() as files:
        files.make_folder(path.parent)
        files.write(path, partial(Path.write_bytes, data=text.encode()), keep_mode=True)
        files.commit()


def _lay_out(figure: Figure) -> None:
    """Run the layout engine once for all files; `savefig` would run it, and draw twice, for each."""
    with _drawing():
        if (engine := figure.get_layout_engine()) is not None:
            figure.set_dpi(DPI)
            engine.execute(figure)
            figure.set_layout_engine(None)


def _draw(figure: Figure, path: Path, **options: Any) -> None:
    with _drawing():
        figure.savefig(path, dpi=DPI, **options)


@contextmanager
def _drawing() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(plots.STYLE), missing_glyphs_ignored():
        yield


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that numbers and figures depend on."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}
