"""Files: reading what a user names, the one atomic write, the one file lock.

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
MAX_LOCK_ATTEMPTS = 20  # a holder removes its lock file, so a lock may be taken on a file that is gone
MAX_LOCK_TEXT = 400  # bytes


def read_bytes(key: str, path: str | Path, *, at_most: int) -> bytes:
    """The content of a regular file of at most ``at_most`` bytes; errors begin with ``key=path``."""
    try:
        _check_kind(key, path, os.stat(path))  # before opening: opening a device may have side effects
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
    """The path, if it names a readable regular file (of at most ``at_most`` bytes)."""
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
    """Whether the path names a folder; False also for a path that is not valid."""
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


class AtomicFiles:
    """Files that appear together: written under temporary names beside their paths, renamed by `commit`.

    Leaving the block removes what was not renamed, and folders that were created and are empty. Errors name the file.

    >>> with AtomicFiles() as files:
    ...     files.write(path, lambda draft: draft.write_text("complete"))
    ...     files.commit()
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
        except OSError as error:  # of the system: without a name if a write failed, or with the name of the draft
            if error.errno is None:
                raise
            raise OSError(error.errno, error.strerror, str(path)) from error

    def commit(self) -> list[Path]:
        """Rename all files to their paths, in the order in which they were written; these paths."""
        paths = [path for _, path in self._drafts]
        for path in paths:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        while self._drafts:
            draft, path = self._drafts[0]
            os.replace(draft, path)
            del self._drafts[0]
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
    """Write one file: it appears under its name when it is complete, or not at all."""
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
    """An exclusive lock, held until `release` or until the process ends in any way; `LockedError` if it is taken.

    The lock is on a file beside what it protects (by `filelock`: flock, or LockFileEx on Windows), which `release`
    removes. The holder may write a text into it, which survives a kill. On Windows the first byte is the locked range
    and cannot be read by others, so the text begins at the second.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        for _ in range(MAX_LOCK_ATTEMPTS):
            self._handle = _open_lock_file(path, os.O_RDWR | os.O_CREAT)
            try:
                self._unlock = _try_lock(self._handle, path)
                if self._unlock is None:
                    raise LockedError(self.text().partition("\n")[0].strip())
                if _same_file(path, self._handle):
                    return
                self._unlock()  # its last holder has just removed it
            except BaseException:
                os.close(self._handle)
                raise
            os.close(self._handle)
        raise TimeoutError(errno.ETIMEDOUT, "others lock and release it too often")

    def text(self) -> str:
        """What the lock file says; at first, what the last holder wrote if it did not release the lock."""
        return _lock_text(self._handle)

    def write(self, text: str) -> None:
        content = b"\n" + text.encode()
        os.lseek(self._handle, 0, os.SEEK_SET)
        os.write(self._handle, content)
        os.ftruncate(self._handle, len(content))

    def release(self) -> None:
        if os.name != "nt":
            self._path.unlink(missing_ok=True)  # while the lock is held: afterwards it may be another holder's
        try:
            if self._unlock is not None:
                self._unlock()
        finally:
            os.close(self._handle)
        if os.name == "nt":  # a file that any process has open cannot be removed, so no other holder's is
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    @staticmethod
    def is_held(path: Path) -> bool:
        """Whether a process holds the lock now."""
        try:
            handle = _open_lock_file(path, os.O_RDONLY)
        except OSError:
            return False
        try:
            unlock = _try_lock(handle, path)
            if unlock is not None:
                unlock()
            return unlock is None
        finally:
            os.close(handle)

    @staticmethod
    def text_of(path: Path) -> str:
        """What a lock file says; empty if it cannot be read."""
        try:
            handle = _open_lock_file(path, os.O_RDONLY)
        except OSError:
            return ""
        try:
            return _lock_text(handle)
        finally:
            os.close(handle)


def _open_lock_file(path: Path, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o666)


def _try_lock(handle: int, path: Path) -> Callable[[], None] | None:
    """Lock an open file; what unlocks it, or None if it is locked already.

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
