"""A result on disk: the figure, the tables and the settings that made them.

All files are complete before the first one takes its place, and what fails before that leaves nothing.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.metadata
import json
import os
import platform
import stat
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import plots
from quadsim.checks import InputError, shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

PACKAGES = ("quadsim", "numpy", "scipy", "numba", "llvmlite", "matplotlib", "pandas")


def check_folder(folder: Path, key: str = "out") -> None:
    """Raise unless files can be written to the folder; it is made if need be, and nothing is left in it."""
    absent: list[Path] = []
    try:
        absent = _absent(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        if getattr(error, "errno", None) == errno.EEXIST:
            reason = "a symbolic link that leads nowhere" if folder.is_symlink() else "not a folder"
        raise InputError(f"{key}={shown(str(folder))} cannot be written ({reason}): give a folder that can") from None
    finally:
        _remove_empty(absent)


def check_file(path: Path, key: str = "out") -> None:
    """Raise unless a file can be written under this name; nothing is left."""
    check_folder(path.parent, key)
    try:
        found = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{key}={shown(str(path))} cannot be written ({reason})") from None
    if not stat.S_ISREG(found):
        raise InputError(f"{key}={shown(str(path))} is no regular file: give another name")


def _absent(folder: Path) -> list[Path]:
    """The folder and its parents that do not exist yet, innermost first."""
    return [parent for parent in (folder, *folder.parents) if not parent.exists() and parent.name != ".."]


def _remove_empty(folders: list[Path]) -> None:
    """Remove these folders where they are empty."""
    for folder in folders:
        with contextlib.suppress(OSError, ValueError):
            folder.rmdir()


def write(
    folder: Path,
    stem: str,
    figures: Figure | dict[str, Figure],
    tables: dict[str, pd.DataFrame],
    settings: dict[str, Any],
    texts: dict[str, str] | None = None,
) -> list[Path]:
    """Write stem{suffix}.png and .svg for each figure, stem{suffix}.csv for each table, stem.json; the paths written.

    ``texts`` are written to stem{suffix} as they are.

    Every file is made beside its place first and moved there when all of them are complete.
    """
    absent = _absent(folder)
    finished: list[tuple[Path, Path]] = []
    moved = False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for mark, figure in (figures if isinstance(figures, dict) else {"": figures}).items():
            for suffix, unstamped in ((".png", {"Software": None}), (".svg", {"Date": None})):
                _draft(finished, folder / f"{stem}{mark}{suffix}", partial(_draw, figure, metadata=unstamped))
        for suffix, frame in tables.items():
            _draft(finished, folder / f"{stem}{suffix}.csv", partial(frame.to_csv, index=False))
        written = {".json": json.dumps(settings, indent=2, ensure_ascii=False, allow_nan=False) + "\n", **(texts or {})}
        for suffix, text in written.items():
            _draft(finished, folder / f"{stem}{suffix}", partial(Path.write_text, data=text, encoding="utf-8"))
        for _, path in finished:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "A folder stands where a file should go", str(path))
        for draft, path in finished:
            os.replace(draft, path)
            moved = True
    finally:
        for draft, _ in finished:
            draft.unlink(missing_ok=True)
        if not moved:
            _remove_empty(absent)
    return [path for _, path in finished]


def write_text(path: Path, text: str) -> None:
    """Write one text as it is: complete before it takes its place, with the mode of what was there."""
    absent = _absent(path.parent)
    finished: list[tuple[Path, Path]] = []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _draft(finished, path, partial(Path.write_bytes, data=text.encode()))
        if path.exists():
            os.chmod(finished[0][0], path.stat().st_mode & 0o777)
        os.replace(finished[0][0], path)
    finally:
        for draft, _ in finished:
            draft.unlink(missing_ok=True)
        _remove_empty(absent)  # where the text has not taken its place


def _draw(figure: Figure, path: Path, **options: Any) -> None:
    """Save the figure; without stamps and random names, so that the same result is the same file."""
    import matplotlib

    with matplotlib.rc_context(plots.STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is drawn as a box
        figure.savefig(path, dpi=200, **options)


def _draft(finished: list[tuple[Path, Path]], path: Path, fill: Any) -> None:
    """Fill a new file beside `path`, of the same kind, and note both; what fails is reported with the file's name."""
    try:
        handle, name = tempfile.mkstemp(prefix=".draft-", suffix=path.suffix, dir=path.parent)
        finished.append((Path(name), path))
        os.close(handle)
        os.chmod(name, 0o666 & ~_umask())  # mkstemp's files are private
        fill(Path(name))
    except OSError as error:  # of a write, and therefore without a name, or with that of the draft
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def versions() -> dict[str, str]:
    """What made a result: Python and the packages that numbers and figures depend on."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}
