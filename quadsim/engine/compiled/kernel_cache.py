"""Compiled kernels on disk: one file per kernel, with a checksum, in a folder that only its user can write.

Loading a kernel means unpickling it and running its machine code, so a file is used only if this user wrote it:

* The folder and the file belong to the effective user, and nobody else can write to them. Parents of the folder belong
  to the user or to root, and others can write there only if the sticky bit is set, as in /tmp. The folder and the file
  are checked through open descriptors, and the file is opened relative to its folder: replacing a path after the check
  has no effect.
* A SHA-256 covers the content together with the identity of the kernel (its text, the versions and the processor that
  it was compiled for), so a damaged, truncated or renamed file is a cache miss.
* A file is written under a temporary name and renamed, so concurrent processes and kills leave no partial file.

A folder that fails the check, or that cannot be written, is not used: kernels are compiled in each process, and the
reason is logged once.
"""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"quadsim kernel 1\n"
DIGEST_SIZE = hashlib.sha256().digest_size
MAX_TEMPORARY_AGE = 3600.0  # seconds after which a temporary file was left behind by a killed process
MAX_PATH_SHOWN = 80  # characters, so that a message stays below 200
POSIX = hasattr(os, "geteuid") and os.open in os.supports_dir_fd
_logger = logging.getLogger("quadsim")
_has_logged = False


class UntrustedError(Exception):
    """Another user could have written here."""


def load(identity: str) -> bytes | None:
    """The content that was saved under this identity; None unless it is intact and trusted."""
    with _opened_folder() as folder:
        stored = None if folder is None else folder.read(_name(identity))
    if stored is None or not stored.startswith(MAGIC):
        return None
    digest, content = stored[len(MAGIC) : len(MAGIC) + DIGEST_SIZE], stored[len(MAGIC) + DIGEST_SIZE :]
    return content if secrets.compare_digest(digest, _digest(identity, content)) else None


def save(identity: str, content: bytes) -> None:
    """Store the content, replacing an existing file; without a usable folder, or on a full disk, log the reason."""
    with _opened_folder(create=True) as folder:
        try:
            if folder is not None:
                folder.remove_leftovers()
                folder.write(_name(identity), MAGIC + _digest(identity, content) + content)
        except OSError as error:
            _log_unusable(error)


def has(identity: str) -> bool:
    """Whether `load` would return something."""
    return load(identity) is not None


def check_folder() -> bool:
    """Whether kernels can be cached; if not, log the reason."""
    with _opened_folder(create=True) as folder:
        return folder is not None


def folder_path() -> Path:
    """$QUADSIM_CACHE_DIR, or quadsim in the user's cache folder."""
    chosen = os.environ.get("QUADSIM_CACHE_DIR")
    return Path(chosen or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quadsim")


def _name(identity: str) -> str:
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:40]}.kernel"


def _digest(identity: str, content: bytes) -> bytes:
    identity_digest = hashlib.sha256(identity.encode()).digest()
    return hashlib.sha256(identity_digest + content).digest()


@dataclass(frozen=True)
class _Folder:
    """An open folder. Without POSIX, folders have no descriptors and files are opened by their paths."""

    path: Path
    descriptor: int | None

    def _at(self, name: str) -> str:
        return name if self.descriptor is not None else str(self.path / name)

    def _open(self, name: str, flags: int) -> int:
        for extra in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
            flags |= getattr(os, extra, 0)
        return os.open(self._at(name), flags, 0o600, dir_fd=self.descriptor)

    def read(self, name: str) -> bytes | None:
        try:
            with open(self._open(name, os.O_RDONLY), "rb") as file:
                _check_file(self.path / name, os.fstat(file.fileno()))
                return file.read()
        except OSError:
            return None
        except UntrustedError as error:
            _log(f"a cached kernel is compiled again: {error}")
            return None

    def write(self, name: str, content: bytes) -> None:
        """Write and rename, as `_files` does, but relative to the open folder: its path is not resolved again."""
        temporary = f".{name}.{secrets.token_hex(8)}"
        try:
            with open(self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(content)
            old, new = self._at(temporary), self._at(name)
            os.replace(old, new, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(self._at(temporary), dir_fd=self.descriptor)
            raise

    def remove_leftovers(self) -> None:
        """Remove temporary files of processes that were killed while writing."""
        for name in os.listdir(self.path if self.descriptor is None else self.descriptor):
            if name.startswith(".") and ".kernel." in name:
                with suppress(OSError):
                    written = os.stat(self._at(name), dir_fd=self.descriptor, follow_symlinks=False).st_mtime
                    if time.time() - written > MAX_TEMPORARY_AGE:
                        os.unlink(self._at(name), dir_fd=self.descriptor)


@contextmanager
def _opened_folder(*, create: bool = False) -> Iterator[_Folder | None]:
    """The cache folder; None if it does not exist, cannot be created or is not trusted."""
    folder = None
    with ExitStack() as opened:
        try:
            path, descriptor = Path(os.path.realpath(folder_path())), None
            if create:
                _make_folder(path)
            if POSIX:
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                opened.callback(os.close, descriptor)
                _check_folder(path, descriptor)
            folder = _Folder(path, descriptor)
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no home folder
            if create:
                _log_unusable(error)
        except UntrustedError as error:
            _log(f"kernels are compiled without a cache: {error}")
        yield folder


def _make_folder(path: Path) -> None:
    """Create the folder and its missing parents, all of them private."""
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)


def _check_folder(path: Path, descriptor: int) -> None:
    """Raise unless no other user can write to the open folder or replace it."""
    _check_owner(path, os.fstat(descriptor), (os.geteuid(),))
    for parent in path.parents:
        _check_owner(parent, parent.lstat(), (os.geteuid(), 0), sticky=True)


def _check_file(path: Path, state: os.stat_result) -> None:
    """Raise unless this is a regular file that only the user can write, with a single link."""
    if POSIX:
        _check_owner(path, state, (os.geteuid(),))
        if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:  # 0 if it was replaced after it was opened
            raise UntrustedError(f"{_shown(path)} is not a regular file with a single link")


def _check_owner(path: Path, state: os.stat_result, owners: tuple[int, ...], *, sticky: bool = False) -> None:
    """Raise unless the path belongs to one of the owners and others cannot write there."""
    if state.st_uid not in owners:
        raise UntrustedError(f"{_shown(path)} belongs to another user; set QUADSIM_CACHE_DIR to a folder of your own")
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (sticky and state.st_mode & stat.S_ISVTX):
        raise UntrustedError(f"{_shown(path)} can be written by other users; chmod go-w would prevent that")


def _shown(path: Path) -> str:
    """The path on one line; only its end if it is long."""
    text = repr(str(path))
    return text if len(text) <= MAX_PATH_SHOWN else "…" + text[1 - MAX_PATH_SHOWN :]


def _log_unusable(error: Exception) -> None:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    with suppress(RuntimeError):  # no home folder
        reason = f"{_shown(folder_path())}: {reason}"
    _log(f"kernels are compiled without a cache: {reason}")


def _log(reason: str) -> None:
    """Log the first reason of this process; worker processes log nothing, since their parent does."""
    global _has_logged
    if not _has_logged and multiprocessing.parent_process() is None:
        _has_logged = True
        _logger.warning("quadsim: %s", reason)
