"""The archive of a saved object: metadata and plain arrays, checked against the size of the file before they are read.

The file is a zip archive of stored, not compressed, members: ``meta.json`` and ``.npy`` arrays. The metadata name the
arrays and hold a digest over everything. A file from anyone may be read: nothing in it is executed, and no more memory
is taken than the file has bytes and a bounded amount beside.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import struct
import zipfile
from typing import Any, BinaryIO

import numpy as np

from blockbasis._utils.typing import FloatArray

FORMAT = "blockbasis"
#: Version 1 had one array for each block of U, each panel of C and each extension; version 2 has one for all of them.
#: Version 3 has trimmed blocks of C.
VERSION = 3
_META = "meta.json"
#: Bounds of what is read before the digest is known: an object of JSON takes up to 100 bytes for three of the file.
_LARGEST_META = 2**26
_MOST_VALUES = 10**6
_LARGEST_DIRECTORY = 2**21
#: Kinds of numbers in arrays, and of dates among labels; none is wider than eight bytes.
_KINDS = "biufMm"
_WIDEST = 8


class StorageError(ValueError):
    """A file that cannot be read as a factorization or an estimator."""


def write_archive(stream: BinaryIO, meta: dict[str, Any], arrays: dict[str, FloatArray]) -> None:
    """Write metadata, to which the names of the arrays and a digest are added, and arrays."""
    whole = {"format": FORMAT, "version": VERSION, "arrays": list(arrays), **meta}
    text = json.dumps({**whole, "digest": digest(whole, arrays)}).encode()
    if not _is_bounded(text):
        raise ValueError(f"The 'A' parameter of save must have less metadata. Got {len(text)} bytes of them instead.")
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_META, text)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Metadata and arrays of a file, whose digest fits."""
    name = os.fspath(path)
    try:
        with _opened(path) as stream:
            meta, arrays = _contents(stream, name)
    except (FileNotFoundError, IsADirectoryError, PermissionError, StorageError):
        raise
    except Exception as error:  # noqa: BLE001 (whatever zipfile, json and numpy make of bytes that are not ours)
        raise StorageError(f"{name} is not a whole blockbasis file: {error}.") from error
    if meta.pop("digest", None) != digest(meta, arrays):
        raise StorageError(f"{name} was altered after it was written: its digest does not fit.")
    return meta, arrays


def digest(meta: dict[str, Any], arrays: dict[str, FloatArray]) -> str:
    """SHA-256 of metadata and arrays."""
    found = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return found.hexdigest()


# --- reading ---------------------------------------------------------------------------------------------------------


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    """The file, if it is a regular one: others may never end, or never begin."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise StorageError(f"{os.fspath(path)} is not a regular file.")
    return os.fdopen(handle, "rb")


def _contents(stream: BinaryIO, path: str) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    size = stream.seek(0, os.SEEK_END)
    _check_directory(stream, size)
    with zipfile.ZipFile(stream) as archive:
        members = {info.filename: info for info in archive.infolist()}
        _check_members(archive.infolist(), size)
        text = archive.read(_META) if members[_META].file_size <= _LARGEST_META else b""
        if not text or not _is_bounded(text):
            raise StorageError(f"{path} is not a whole blockbasis file: its metadata are empty or too large.")
        meta = json.loads(text)
        _check_format(meta, path)
        names: list[str] = meta["arrays"]
        unknown = set(members) ^ {_META, *(f"{name}.npy" for name in names)}
        if unknown:
            raise ValueError(f"the member {min(unknown)} is missing or not known")
        return meta, {name: _array(archive, members[f"{name}.npy"]) for name in names}


def _check_directory(stream: BinaryIO, size: int) -> None:
    """Refuse a directory of members that is far larger than any of ours, before it is read."""
    stream.seek(max(0, size - 42))
    end = stream.read()
    if len(end) < 22 or end[-22:-18] != b"PK\x05\x06":
        raise ValueError("it does not end as an archive does")
    if struct.unpack("<L", end[-10:-6])[0] > _LARGEST_DIRECTORY or (end[:4] == b"PK\x06\x07" and size < 2**32 - 1):
        raise ValueError("its directory of members is too large")


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    if len({info.filename for info in members}) != len(members):
        raise ValueError("a member is there twice")
    for info in members:
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.compress_size != info.file_size:
            raise ValueError(f"the member {info.filename} is not stored as it is")
    if sum(info.file_size for info in members) > size:
        raise ValueError("its members are larger than the file")


def _is_bounded(text: bytes) -> bool:
    """Whether metadata take a bounded amount of memory once they are objects."""
    return len(text) <= _LARGEST_META and sum(text.count(mark) for mark in (b"[", b"{", b",")) <= _MOST_VALUES


def _check_format(meta: Any, path: str) -> None:
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise StorageError(f"{path} is not a blockbasis file.")
    version = meta.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise StorageError(
            f"{path} has format version {version}; this blockbasis reads up to {VERSION}. Install a newer blockbasis."
        )


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> FloatArray:
    with archive.open(info) as member:
        if np.lib.format.read_magic(member) != (1, 0):
            raise ValueError(f"the member {info.filename} has an unknown header")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(member)
        if dtype.kind not in _KINDS or dtype.itemsize > _WIDEST:
            raise ValueError(f"the member {info.filename} has the dtype {dtype}")
        if min(shape, default=1) < 0 or math.prod(shape) * dtype.itemsize != info.file_size - member.tell():
            raise ValueError(f"the member {info.filename} has not the size of its shape {shape}")
        values = np.frombuffer(bytearray(member.read()), dtype=dtype)
    return values.reshape(shape[::-1]).T if by_columns else values.reshape(shape)
