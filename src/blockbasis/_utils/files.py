"""Atomic replacement of files, and their sizes as text."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed in any case
    fcntl = None  # type: ignore[assignment]

_FLAGS = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Context manager with a binary stream that replaces the file ``path`` atomically at the end.

    After a failure ``path`` has its previous contents. A symbolic link is followed, and the new file has the
    permissions of the file that it replaces. Temporary files of processes that were killed while they wrote ``path``
    are removed.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = _mode_of(target)
        _remove_abandoned(target)
        handle, temporary = _temporary(target)
    except OSError as error:  # with the path that the caller gave
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            if mode is not None:
                os.chmod(temporary, mode)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if os.name == "posix":  # before the lock is released: an unlocked file counts as abandoned
                os.replace(temporary, target)
        if os.name != "posix":
            os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def _mode_of(target: Path) -> int | None:
    """Return the permissions of a regular file; None if it does not exist."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file")
    return stat.S_IMODE(mode)


def _prefix(target: Path) -> str:
    """Return the prefix of the names of temporary files; its length does not depend on the target's name."""
    return f".blockbasis-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _temporary(target: Path) -> tuple[int, Path]:
    """Create a file in the folder of the target, locked while it is open."""
    while True:
        path = target.parent / f"{_prefix(target)}{secrets.token_hex(8)}"
        handle = os.open(path, _FLAGS, 0o666)
        if fcntl is None:
            return handle, path
        with suppress(OSError):  # some file systems do not support locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():  # another process may have removed it before it was locked
            return handle, path
        os.close(handle)


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of the same target that no process has locked."""
    pattern = re.compile(re.escape(_prefix(target)) + "[0-9a-f]{16}")
    with suppress(OSError):  # a folder with write permission but without read permission
        for entry in os.scandir(target.parent):
            if pattern.fullmatch(entry.name):
                with suppress(OSError):  # locked, or already removed
                    _remove_unlocked(entry.path)


def _remove_unlocked(path: str) -> None:
    if fcntl is None:
        os.unlink(path)
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Write the directory entry to disk, so that it survives a power failure."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def in_bytes(count: float) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> from blockbasis._utils.files import in_bytes
    >>> in_bytes(734_000), in_bytes(3.2e11), in_bytes(999_900)
    ('734 kB', '320 GB', '1 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:  # which is not rounded to 1e+03
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
