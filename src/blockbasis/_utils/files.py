"""Files that are written whole or not at all."""

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
    """A stream whose bytes appear at ``path`` in one step at the end; a failure leaves whatever was there before.

    A link is followed, and a file that is replaced leaves its permissions to the new one. Temporary files that
    processes left behind which were killed while they wrote the same file are removed.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = _mode_of(target)
        _remove_leftovers(target)
        handle, temporary = _temporary(target)
    except OSError as error:  # in the name that the caller knows
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            if mode is not None:
                os.chmod(temporary, mode)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if os.name == "posix":  # while it is locked: no one may take it for a leftover
                os.replace(temporary, target)
        if os.name != "posix":
            os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def _mode_of(target: Path) -> int | None:
    """Permissions of the regular file that is there; None where there is nothing."""
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
    """What names of temporary files begin with; a name of any length makes it short."""
    return f".blockbasis-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _temporary(target: Path) -> tuple[int, Path]:
    """A new file beside the target, locked for as long as it is open."""
    while True:
        path = target.parent / f"{_prefix(target)}{secrets.token_hex(8)}"
        handle = os.open(path, _FLAGS, 0o666)
        if fcntl is None:
            return handle, path
        with suppress(OSError):  # some file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():  # another process may have taken it for a leftover before it was locked
            return handle, path
        os.close(handle)


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files of the same target that no process holds."""
    pattern = re.compile(re.escape(_prefix(target)) + "[0-9a-f]{16}")
    with suppress(OSError):  # a folder that can be written to but not listed
        for entry in os.scandir(target.parent):
            if pattern.fullmatch(entry.name):
                with suppress(OSError):  # held, or already gone
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
    """Make the new name last through a loss of power."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
