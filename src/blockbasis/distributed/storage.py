"""Distributed factorizations in a directory: a file for each part, one for the functions, and a manifest."""

from __future__ import annotations

import json
import os
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.distributed.client import checked_client, finished, gathered, sent, submitted
from blockbasis.distributed.operator import DistributedBlockBasis, Parts
from blockbasis.distributed.parts import Part
from blockbasis.operators.archive import StorageError, read_archive, write_archive
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.entries import Entries
from blockbasis.operators.storage import basis_arrays, restore_basis
from blockbasis.operators.storage import load as load_file
from blockbasis.operators.storage import save as save_file
from blockbasis.operators.structure import numbers, require
from blockbasis.partition import Partition
from blockbasis.streaming.functions import BasisFunctions

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

_MANIFEST, _FUNCTIONS = "manifest.json", "functions.bbf"


def save(A: DistributedBlockBasis, path: str | PathLike[str]) -> None:
    """Write a factorization: `DistributedBlockBasis.save`. The manifest is written last, when all parts are there."""
    folder = Path(path).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MANIFEST).unlink(missing_ok=True)
    parts = A.parts
    names = [f"part-{i:05d}.bbf" for i in range(len(parts.futures))]
    gathered(parts.client, parts.mapped("save", _write_part, [str(folder / name) for name in names]))
    save_file(_without_points(A), folder / _FUNCTIONS)
    manifest = {"parts": names, "lengths": parts.lengths.tolist(), "diagonal": A.diagonal, "dtype": str(A.dtype)}
    partial = folder / f"{_MANIFEST}.partial"
    partial.write_text(json.dumps(manifest), encoding="utf-8")
    os.replace(partial, folder / _MANIFEST)


def load(path: str | PathLike[str], client: Any = None, *, kernel: Any = None) -> DistributedBlockBasis:
    """Read a factorization that `DistributedBlockBasis.save` wrote; the workers read the parts.

    Parameters
    ----------
    path : path-like
        A directory that all workers share.
    client : distributed.Client, default=None
        None is the default client.
    kernel : callable, default=None
        The user's kernel function, if the factorization was made with one.

    Returns
    -------
    DistributedBlockBasis
    """
    client, folder = checked_client(client, caller="load"), Path(path).resolve()
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        names, lengths = list(manifest["parts"]), np.array(manifest["lengths"], dtype=np.intp)
        dtype, diagonal = np.dtype(manifest["dtype"]), bool(manifest["diagonal"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{folder} has no manifest of a distributed factorization that can be read.") from error
    A = load_file(folder / _FUNCTIONS, kernel=kernel)
    functions, columns = BasisFunctions.of(A), [[str(folder / name) for name in names], lengths.tolist()]
    ranks = [functions.ranks] * len(names)
    futures = submitted(client, "load", _read_part, *columns, ranks)
    finished(client, futures)
    parts = Parts(client, futures, lengths, functions, sent(client, "functions", functions.lean()), dtype)
    return DistributedBlockBasis(parts, diagonal, A.error_estimate)


def _without_points(A: DistributedBlockBasis) -> BlockBasis:
    """Return the functions as a factorization of no points, which a file can hold."""
    functions = A.parts.functions
    k = functions.n_clusters
    partition = Partition(
        np.zeros(0, dtype=np.intp), np.zeros(k + 1, dtype=np.intp), functions.centers, functions.radii
    )
    basis = BlockDiagonal.empty(partition, functions.ranks, functions.inner.dtype)
    return BlockBasis(
        functions.kernel,
        basis,
        functions.inner,
        None,
        functions.extensions,
        Entries(0, 0, 0),
        error_estimate=A.error_estimate,
    )


def _write_part(part: Part, path: str) -> None:
    partial = f"{path}.partial"
    with open(partial, "wb") as stream:
        write_archive(stream, {"kind": "part"}, {**basis_arrays(part.basis), "lost": part.lost})
    os.replace(partial, path)


def _read_part(path: str, length: int, ranks: FloatArray) -> Part:
    meta, arrays = read_archive(path)
    require(meta.get("kind") == "part", path, "a part of a distributed factorization")
    basis = restore_basis(arrays)
    require(basis.partition.n_points == length, path, f"of {length} points, as in the manifest")
    require(np.array_equal(basis.ranks, ranks), path, "of the ranks of the functions")
    return Part(basis, numbers(arrays["lost"], "lost", (length,), np.float64))
