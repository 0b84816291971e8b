"""Files that a user names: only regular ones are read, and no path raises anything but `InputError`.

A path may be a symlink loop, a directory, a FIFO (whose open blocks), a device (whose read never ends), too long, or
not a path at all.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from quadsim.checks import InputError, shown

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
UNITS = ((2**20, "MB"), (2**10, "KB"), (1, "bytes"))


def read_bytes(key: str, path: str | Path, *, at_most: int) -> bytes:
    """The content of a regular file of at most so many bytes; `key` is what the error calls it."""
    try:
        _check_kind(key, path, os.stat(path))  # before it is opened: opening a device may do something
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with open(handle, "rb") as file:
            _check_kind(key, path, os.fstat(handle))
            content = file.read(at_most + 1)  # a file may grow, and /proc has files of size 0 that are not empty
    except InputError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(key, path, error) from None
    if len(content) > at_most:
        raise _too_large(key, path, at_most)
    return content


def read_text(key: str, path: str | Path, *, at_most: int) -> str:
    """The text of a regular file in UTF-8, with or without a byte order mark."""
    try:
        return read_bytes(key, path, at_most=at_most).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise InputError(f"{_named(key, path)} cannot be read (it is not UTF-8 text)") from None


def check_file(key: str, path: str | Path, *, at_most: int | None = None) -> Path:
    """The path, if it is that of a regular file (of at most so many bytes)."""
    try:
        found = os.stat(path)
    except (OSError, ValueError) as error:
        raise _unreadable(key, path, error) from None
    _check_kind(key, path, found)
    if at_most is not None and found.st_size > at_most:
        raise _too_large(key, path, at_most)
    if not os.access(path, os.R_OK):
        raise InputError(f"{_named(key, path)} cannot be read (Permission denied)")
    return Path(path)


def is_folder(path: str | Path) -> bool:
    """Whether the path is that of a folder; False for whatever cannot be one."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _check_kind(key: str, path: str | Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for test, name in KINDS if test(found.st_mode)), "no regular file")
        raise InputError(f"{_named(key, path)} is {kind}: give a regular file")


def _unreadable(key: str, path: str | Path, error: Exception) -> InputError:
    return InputError(f"{_named(key, path)} cannot be read ({getattr(error, 'strerror', None) or error})")


def _too_large(key: str, path: str | Path, at_most: int) -> InputError:
    size, unit = next((at_most // size, unit) for size, unit in UNITS if at_most >= size)
    return InputError(f"{_named(key, path)} is larger than {size} {unit}, the most that is read")


def _named(key: str, path: str | Path) -> str:
    return f"{key}={shown(str(path))}" if key else shown(str(path))
