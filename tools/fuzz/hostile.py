"""Small files that would take much memory or much time, and files that are none."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def hostile_files(folder: Path) -> Iterator[Path]:
    """Sixty of them."""
    yield from _archives(folder)
    yield from _metadata(folder)
    yield from _no_files(folder)


def _archives(folder: Path) -> Iterator[Path]:
    """Members that say that they are larger than the file, or of types that are not in files."""
    meta = {"format": "blockbasis", "version": 2, "kind": "BlockBasis", "arrays": ["a"], "digest": "0"}
    huge = [f"<U{2**k}" for k in range(20, 29)] + [f"|V{2**k}" for k in range(20, 30)] + ["|O", "<f16", "<c16"]
    for i, dtype in enumerate(huge):
        yield _archive(folder / f"dtype{i}", meta, f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': (9,)}}\n")
    for i in range(12):
        shape = (10 ** (i + 4), 1 + i % 3)
        text = f"{{'descr': '<f8', 'fortran_order': {bool(i % 2)}, 'shape': {shape}}}\n"
        yield _archive(folder / f"shape{i}", meta, text)
    many = folder / "many"
    with zipfile.ZipFile(many, "w") as file:
        for i in range(50_000):
            file.writestr(str(i), b"")
    yield many


def _metadata(folder: Path) -> Iterator[Path]:
    """Metadata that are long or deep."""
    for i, count in enumerate([10**5, 10**6, 3 * 10**6, 10**7]):
        for j, text in enumerate(["[]", "{}", "[[]]", '{"a":0}']):
            path = folder / f"json{i}{j}"
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if j % 2 else zipfile.ZIP_STORED) as file:
                file.writestr("meta.json", '{"format": "blockbasis", "x": [' + (text + ",") * count + "0]}")
            yield path
    for name, text in {"deep": "[" * 500_000 + "]" * 500_000, "digits": "9" * 10**6}.items():
        with zipfile.ZipFile(folder / name, "w") as file:
            file.writestr("meta.json", text)
        yield folder / name


def _no_files(folder: Path) -> Iterator[Path]:
    """Devices, a pipe, a folder, a link to itself, and nothing."""
    for name in ("/dev/zero", "/dev/full", "/dev/random"):
        link = folder / name.replace("/", "_")
        link.symlink_to(name)
        yield link
    os.mkfifo(folder / "fifo")
    yield folder / "fifo"
    (folder / "folder").mkdir()
    yield folder / "folder"
    (folder / "loop").symlink_to(folder / "loop")
    yield folder / "loop"
    (folder / "empty").touch()
    yield folder / "empty"


def _archive(path: Path, meta: dict[str, Any], header: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("meta.json", json.dumps(meta))
        file.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(72))
    return path
