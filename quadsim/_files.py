"""Files: reading files that a user names, atomic writes, file locks.

Reading accepts regular files only, and every failure is an `InputError`. A path may be a symlink loop, a directory, a
FIFO (opening it blocks), a device (reading it never ends), too long, or not a path at all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from quadsim._validation import InputError, shown

Result = TypeVar("Result")

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
UNITS = ((2**20, "MB"), (2**10, "KB"), (1, "bytes"))
DRAFT_PREFIX = ".draft-"
MAX_LOCK_ATTEMPTS = 20  # `release` removes the lock file, so the file that was locked may no longer exist
MAX_LOCK_TEXT = 400  # bytes


def read_bytes(key: str, path: str | Path, *, at_most: int) -> bytes:
    """The content of a regular file of at most ``at_most`` bytes; errors begin with ``key=path``."""
    check_file(key, path, at_most=at_most)  # before opening: opening a device may have side effects
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as file:
            _check_kind(key, path, os.fstat(handle))  # the path may have been replaced
            content = file.read(at_most + 1)  # a file may grow, and /proc has files of size 0 that are not empty
    except OSError as error:
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


def check_file(key: str, path: str | Path, *, at_most: int) -> Path:
    """The path, if it names a readable regular file of at most ``at_most`` bytes."""
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise _unreadable(key, path, error) from None
    _check_kind(key, path, status)
    if status.st_size > at_most:
        raise _too_large(key, path, at_most)
    if not os.access(path, os.R_OK):
        raise InputError(f"{_named(key, path)} cannot be read (Permission denied)")
    return Path(path)


def _check_kind(key: str, path: str | Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = next((name for test, name in KINDS if test(status.st_mode)), "no regular file")
        raise InputError(f"{_named(key, path)} is {kind}: give a regular file")


def _unreadable(key: str, path: str | Path, error: Exception) -> InputError:
    return InputError(f"{_named(key, path)} cannot be read ({getattr(error, 'strerror', None) or error})")


def _too_large(key: str, path: str | Path, at_most: int) -> InputError:
    size, unit = next((at_most // size, unit) for size, unit in UNITS if at_most >= size)
    return InputError(f"{_named(key, path)} is larger than {size} {unit}, the limit")


def _named(key: str, path: str | Path) -> str:
    return f"{key}={shown(str(path))}" if key else shown(str(path))


class AtomicFiles:
    """Files that appear together: written under temporary names beside their paths, renamed by `commit`.

    On exit, temporary files that were not renamed and new folders that are empty are removed. Errors name the file.

        with AtomicFiles() as files:
            files.write(path, lambda draft: draft.write_text("complete"))
            files.commit()
    """

    def __init__(self) -> None:
        self._drafts: list[tuple[Path, Path]] = []
        self._created: list[Path] = []  # innermost first

    def make_folder(self, folder: Path) -> None:
        """Create the folder and its parents where they are missing."""
        missing = [path for path in (folder, *folder.parents) if not path.exists() and path.name != ".."]
        self._created = [*missing, *self._created]
        folder.mkdir(parents=True, exist_ok=True)

    def write(
        self, path: Path, fill: Callable[[Path], Result], *, keep_mode: bool = False, sync: bool = False
    ) -> Result:
        """Fill a temporary file with the same suffix as ``path``; returns what ``fill`` returns.

        ``keep_mode``: take the permissions of the file that is replaced. ``sync``: flush to disk before renaming.
        """
        try:
            handle, name = tempfile.mkstemp(prefix=DRAFT_PREFIX, suffix=path.suffix, dir=path.parent)
            draft = Path(name)
            self._drafts.append((draft, path))
            os.close(handle)
            replaced = keep_mode and path.exists()
            os.chmod(draft, path.stat().st_mode & 0o777 if replaced else 0o666 & ~_umask())  # mkstemp's mode is 0600
            result = fill(draft)
            if sync:
                with open(draft, "rb+") as file:
                    os.fsync(file.fileno())
            return result
        except OSError as error:  # a system error has no file name (failed write), or that of the draft
            if error.errno is None:
                raise
            raise OSError(error.errno, error.strerror, str(path)) from error

    def commit(self) -> list[Path]:
        """Rename all files to their paths, in the order in which they were written; returns the paths."""
        paths = [path for _, path in self._drafts]
        for path in paths:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        for draft, path in self._drafts:
            os.replace(draft, path)
        self._drafts.clear()
        return paths

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for draft, _path in self._drafts:
            draft.unlink(missing_ok=True)
        for folder in self._created:
            with contextlib.suppress(OSError, ValueError):
                folder.rmdir()  # fails unless it is empty


def write_atomically(path: Path, fill: Callable[[Path], Result], *, sync: bool = False) -> Result:
    """Write one file: it appears under its name once it is complete, or not at all."""
    with AtomicFiles() as files:
        result = files.write(path, fill, sync=sync)
        files.commit()
    return result


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class LockedError(Exception):
    """Another process holds the lock; the message is the first line of the holder's text."""


class FileLock:
    """An exclusive lock, held until `release` or the end of the process; `LockedError` if another process holds it.

    The lock file lies beside the file that it protects; `filelock` locks it (flock, or LockFileEx on Windows), and
    `release` removes it. The holder may write a text into it, which survives a kill. On Windows the first byte is the
    locked range and cannot be read by others, so the text begins at the second.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        for _ in range(MAX_LOCK_ATTEMPTS):
            with contextlib.ExitStack() as cleanup:
                self._handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
                cleanup.callback(os.close, self._handle)
                unlock = _try_lock(self._handle, path)
                if unlock is None:
                    raise LockedError(self.text().partition("\n")[0].strip())
                cleanup.callback(unlock)
                if _same_file(path, self._handle):  # else its last holder has just removed it
                    self._cleanup = cleanup.pop_all()
                    return
        raise TimeoutError(errno.ETIMEDOUT, "other processes lock and release it too often")

    def text(self) -> str:
        """The text of the lock file; initially that of the last holder, if it did not release the lock."""
        return _lock_text(self._handle)

    def write(self, text: str) -> None:
        content = b"\n" + text.encode()
        os.lseek(self._handle, 0, os.SEEK_SET)
        os.write(self._handle, content)
        os.ftruncate(self._handle, len(content))

    def release(self) -> None:
        if os.name != "nt":
            self._path.unlink(missing_ok=True)  # while the lock is held: afterwards it may be another holder's
        self._cleanup.close()  # unlocks the file and closes it
        if os.name == "nt":  # the removal fails while any process has the file open, so it cannot be another holder's
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    @staticmethod
    def is_held(path: Path) -> bool:
        """Whether a process holds the lock now."""
        try:
            file = open(path, "rb")  # noqa: SIM115
        except OSError:
            return False
        with file:
            unlock = _try_lock(file.fileno(), path)
            if unlock is not None:
                unlock()
            return unlock is None

    @staticmethod
    def text_of(path: Path) -> str:
        """The text of a lock file; empty if it cannot be read."""
        try:
            with open(path, "rb") as file:
                return _lock_text(file.fileno())
        except OSError:
            return ""


def _try_lock(handle: int, path: Path) -> Callable[[], None] | None:
    """Lock an open file; returns the function that unlocks it, or None if it is already locked.

    Where there are no native locks (no `fcntl`, or a file system without flock), a second file marks the lock.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # filelock warns if it is imported where `fcntl` is missing
        import filelock
    try:
        return partial(filelock.unlock_descriptor, handle) if filelock.lock_descriptor(handle, blocking=False) else None
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    marker = filelock.SoftFileLock(f"{path}.held", timeout=0)
    try:
        marker.acquire()
    except filelock.Timeout:
        return None
    return marker.release


def _lock_text(handle: int) -> str:
    os.lseek(handle, 1, os.SEEK_SET)
    return os.read(handle, MAX_LOCK_TEXT).decode("utf-8", "replace")


def _same_file(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
