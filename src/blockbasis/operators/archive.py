"""File format of saved objects: JSON metadata and arrays in an uncompressed zip archive.

The members of the archive are ``meta.json`` and one ``.npy`` file for each array. The metadata list the names of the
arrays and have a SHA-256 digest of all contents. Files from untrusted sources are safe to read: no code of the file is
executed, and reading takes at most the size of the file plus a bounded amount of memory.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import struct
import zipfile
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from blockbasis._utils.tiling import ranges

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

FORMAT = "blockbasis"
#: Version of the format. Version 1 has one array for each block of U, each panel of C and each extension. Version 2 has
#: one array for all blocks, one for all panels and one for all extensions. Version 3 supports trimmed blocks of C.
#: Version 4 supports the corrections of a cross factorization at clusters and at single entries.
VERSION = 4
_META = "meta.json"
#: Largest size in bytes of the metadata, which are parsed before the digest is checked.
_MAX_META_BYTES = 2**26
#: Largest number of values in the metadata: an object takes up to 100 bytes of memory for three bytes of JSON.
_MAX_META_VALUES = 10**6
#: Largest size in bytes of the central directory of the zip archive.
_MAX_DIRECTORY_BYTES = 2**21
#: Kinds of dtypes of arrays: numbers, and dates for class labels. Their items have at most eight bytes.
_KINDS = "biufMm"
_MAX_ITEMSIZE = 8
#: Bytes of an array that are read at once.
_READ_BYTES = 2**20


class StorageError(ValueError):
    """Error of a file that does not hold a factorization or an estimator of a supported version."""


def write_archive(stream: BinaryIO, meta: dict[str, Any], arrays: dict[str, FloatArray]) -> None:
    """Write metadata and arrays; the names of the arrays and the digest are added to the metadata."""
    whole = {"format": FORMAT, "version": VERSION, "arrays": list(arrays), **meta}
    text = json.dumps({**whole, "digest": archive_digest(whole, arrays)}).encode()
    if not _is_bounded(text):
        raise ValueError(f"The 'A' parameter of save must have fewer metadata. Got {len(text)} bytes instead.")
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_META, text)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Read the metadata and the arrays of a file; raise a StorageError if the digest does not match."""
    name = os.fspath(path)
    try:
        with _opened(path) as stream:
            meta, arrays = _contents(stream, name)
    except (FileNotFoundError, IsADirectoryError, PermissionError, StorageError):
        raise
    except Exception as error:  # noqa: BLE001 (zipfile, json and numpy raise many errors for invalid bytes)
        raise StorageError(f"{name} is not a complete blockbasis file: {error}.") from error
    if meta.pop("digest", None) != archive_digest(meta, arrays):
        raise StorageError(f"{name} was altered after it was written: its digest does not match.")
    return meta, arrays


def archive_digest(meta: dict[str, Any], arrays: dict[str, FloatArray]) -> str:
    """Return the SHA-256 digest of metadata and arrays."""
    found = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return found.hexdigest()


# --- reading ---------------------------------------------------------------------------------------------------------


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file; reading a device or a pipe may block or never end."""
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
        text = archive.read(_META) if members[_META].file_size <= _MAX_META_BYTES else b""
        if not text or not _is_bounded(text):
            raise StorageError(f"{path} is not a complete blockbasis file: its metadata are empty or too large.")
        meta = json.loads(text)
        _check_format(meta, path)
        names: list[str] = meta["arrays"]
        unknown = set(members) ^ {_META, *(f"{name}.npy" for name in names)}
        if unknown:
            raise ValueError(f"the member {min(unknown)} is missing or unknown")
        return meta, {name: _array(archive, members[f"{name}.npy"]) for name in names}


def _check_directory(stream: BinaryIO, size: int) -> None:
    """Raise a ValueError if the central directory is too large, before zipfile reads it."""
    stream.seek(max(0, size - 42))
    end = stream.read()
    if len(end) < 22 or end[-22:-18] != b"PK\x05\x06":
        raise ValueError("it does not end with a zip directory")
    if struct.unpack("<L", end[-10:-6])[0] > _MAX_DIRECTORY_BYTES or (end[:4] == b"PK\x06\x07" and size < 2**32 - 1):
        raise ValueError("its zip directory is too large")


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    if len({info.filename for info in members}) != len(members):
        raise ValueError("a member occurs twice")
    for info in members:
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.compress_size != info.file_size:
            raise ValueError(f"the member {info.filename} is compressed or encrypted")
    if sum(info.file_size for info in members) > size:
        raise ValueError("its members are larger than the file")


def _is_bounded(text: bytes) -> bool:
    """Return whether the parsed metadata take a bounded amount of memory."""
    return len(text) <= _MAX_META_BYTES and sum(text.count(mark) for mark in (b"[", b"{", b",")) <= _MAX_META_VALUES


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
        if dtype.kind not in _KINDS or dtype.itemsize > _MAX_ITEMSIZE:
            raise ValueError(f"the member {info.filename} has the dtype {dtype}")
        if min(shape, default=1) < 0 or math.prod(shape) * dtype.itemsize != info.file_size - member.tell():
            raise ValueError(f"the member {info.filename} does not have the size of its shape {shape}")
        content = bytearray(info.file_size - member.tell())
        for piece in ranges(0, len(content), _READ_BYTES):  # a single read would hold the member twice
            content[piece] = member.read(piece.stop - piece.start)
        values = np.frombuffer(content, dtype=dtype)
    return values.reshape(shape[::-1]).T if by_columns else values.reshape(shape)
