"""Files that were corrupted, forged with a digest that fits, or made to take memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis.operators.archive import read_archive, write_archive
from tools.fuzz.case import Case, Peak, used
from tools.fuzz.hostile import hostile_files

#: Bytes that loading may take beside the size of the file.
BESIDE_THE_FILE = 200 * 10**6


def files(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Files that were corrupted, forged with a digest that fits, or made to take memory."""
    saved = _saved_objects(folder)
    hostile = list(hostile_files(folder))
    while True:
        path, expected = saved[int(rng.integers(len(saved)))]
        target = folder / "case.bbf"
        for _ in range(10):
            target.write_bytes(_corrupted(path.read_bytes(), rng))
            yield "corrupted", _loading(target, expected)
        what = _forge(path, target, rng)
        found = _loading(target, expected)
        yield "forged", found if found is None else f"{what}: {found}"
        if hostile:
            yield "hostile", _loading(hostile.pop(), None)


def _saved_objects(folder: Path) -> list[tuple[Path, bytes]]:
    X = np.random.default_rng(0).normal(size=(60, 2))
    A = bb.factorize(X, bb.Gaussian(0.5), n_clusters=4, rank=5, cutoff=0.1, rng=0)
    settings: dict[str, Any] = {"n_clusters": 3, "rank": 6, "random_state": 0}
    objects = {
        "factorization": A,
        "extension": A.extend(X[:7]),
        "ridge": bb.KernelRidge(**settings).fit(X, X[:, 0]),
        "classifier": bb.KernelRidgeClassifier(**settings).fit(X, np.where(X[:, 0] > 0, "right", "left")),
        "features": bb.BlockBasisFeatures(**settings).fit(X),
        "components": bb.KernelPCA(n_components=3, **settings).fit(X),
        "process": bb.GaussianProcessRegressor(**settings).fit(X, X[:, 0]),
    }
    for name, each in objects.items():
        bb.save(each, folder / name)
    return [(folder / name, used(each)) for name, each in objects.items()]


def _loading(path: Path, expected: bytes | None) -> str | None:
    """What is wrong with loading a file that must be refused, or be what was saved."""
    with Peak() as peak:
        wrong = _wrong_with(path, expected)
    allowed = path.lstat().st_size + BESIDE_THE_FILE
    if wrong is None and peak.grown is not None and peak.grown > allowed:
        return f"took {peak.grown / 1e6:.0f} MB for a file of {path.lstat().st_size / 1e6:.1f} MB"
    return wrong


def _wrong_with(path: Path, expected: bytes | None) -> str | None:
    try:
        found = used(bb.load(path))
    except bb.StorageError:
        return None
    except Exception as error:  # noqa: BLE001 (that it is not one of ours is what is looked for)
        return f"{type(error).__name__}: {error}"
    return None if found == expected else "another result"


def _corrupted(data: bytes, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(len(data)))
    length = int(2 ** rng.uniform(0, 10))
    kind = rng.integers(5)
    if kind == 0:
        return data[:place]
    if kind == 1:
        return data[:place] + rng.bytes(length) + data[place:]
    if kind == 2:
        return data[:place] + data[place + length :]
    if kind == 3:
        return data[:place] + bytes(length) + data[place + length :]
    return data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]


def _forge(path: Path, target: Path, rng: np.random.Generator) -> str:
    """Write a copy that has one thing in it that cannot be, and a digest that fits; says what."""
    meta, arrays = read_archive(path)
    del meta["arrays"]
    if rng.random() < 0.6:
        name = str(rng.choice(sorted(arrays)))
        array = arrays[name]
        changes: list[Callable[[], Any]] = [
            lambda: array[:-1],
            lambda: array[..., None],
            lambda: array.astype(np.float16),
            lambda: array.astype(np.int8),
            lambda: np.full(array.shape, np.nan),
            lambda: np.full_like(array, -(2**40)) if array.dtype.kind == "i" else np.full_like(array, np.inf),
            lambda: np.empty(0),
            lambda: None,
        ]
        kind = int(rng.integers(len(changes)))
        with np.errstate(all="ignore"):
            changed = changes[kind]()
        arrays = {**arrays, name: changed} if changed is not None else {k: v for k, v in arrays.items() if k != name}
        what = f"{name} by change {kind}"
    else:
        what = _forge_metadata(meta, rng)
    with open(target, "wb") as stream:
        write_archive(stream, meta, arrays)
    return what


def _forge_metadata(meta: dict[str, Any], rng: np.random.Generator) -> str:
    """Replace a value somewhere in the metadata by one of another type, or leave it out."""
    place: Any = meta
    path = []
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[int(rng.integers(len(keys)))]
        path.append(key)
        if not isinstance(place[key], (dict, list)) or not place[key] or rng.random() < 0.3:
            break
        place = place[key]
    if isinstance(place, dict) and rng.random() < 0.3:
        del place[key]
        return f"{path} left out"
    value: Any = [None, "other", -1, [], {}, [[1]], True][int(rng.integers(7))]
    place[key] = value
    return f"{path} = {value!r}"
