"""Named arrays of the parts of a factorization, as a file stores them, and the parts from such arrays.

Each part has a function that returns its arrays and one that restores it, with a check of the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.extension import Extension
from blockbasis.operators.inner import InnerMatrix, Panel
from blockbasis.operators.row_blocks import RowBlocks
from blockbasis.operators.structure import (
    check_basis_size,
    check_partition,
    check_row_blocks,
    integers,
    numbers,
    require,
)
from blockbasis.partition import Partition

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray


def near_arrays(near: RowBlocks | None) -> dict[str, FloatArray]:
    """Arrays of the correction of a cross factorization at clusters near its rows, by name; none without one."""
    if near is None:
        return {}
    return {
        "near.sizes": np.array([len(rows) for rows in near.rows]),
        "near.rows": np.concatenate(near.rows),
        "near.values": np.concatenate([block.ravel() for block in near.blocks]),
    }


def restore_near(arrays: dict[str, FloatArray], rows: BlockDiagonal, columns: BlockDiagonal) -> RowBlocks | None:
    """Return the blocks that `near_arrays` has described, after a check of their arrays, or None."""
    if not any(name.startswith("near.") for name in arrays):
        return None
    sizes = integers(arrays["near.sizes"], "near.sizes", (len(columns.ranks),))
    parts = _parts(integers(arrays["near.rows"], "near.rows", (None,)), sizes, "near.rows")
    shapes = list(zip(sizes.tolist(), columns.ranks.tolist(), strict=True))
    near = RowBlocks(rows.partition.n_points, parts, _reshaped(arrays, "near.values", shapes))
    check_row_blocks(near, columns.dtype)
    return near


def single_arrays(single: csr_array | None) -> dict[str, FloatArray]:
    """Arrays of the sparse correction of a cross factorization, by name; none without one."""
    if single is None:
        return {}
    return {
        "single.starts": single.indptr.astype(np.int64),
        "single.columns": single.indices.astype(np.int64),
        "single.values": single.data,
    }


def restore_single(arrays: dict[str, FloatArray], rows: BlockDiagonal, columns: BlockDiagonal) -> csr_array | None:
    """Return the sparse matrix that `single_arrays` has described, after a check of its arrays, or None."""
    if not any(name.startswith("single.") for name in arrays):
        return None
    shape = rows.partition.n_points, columns.partition.n_points
    starts = integers(arrays["single.starts"], "single.starts", (shape[0] + 1,))
    values = numbers(arrays["single.values"], "single.values", (None,), columns.dtype)
    rising = starts[0] == 0 and starts[-1] == len(values) and (np.diff(starts) >= 0).all()
    require(rising, "single.starts", f"ascending from 0 to {len(values)}")
    indices = integers(arrays["single.columns"], "single.columns", values.shape)
    require(indices.max(initial=-1) < shape[1], "single.columns", f"below {shape[1]}")
    return csr_array((values, indices, starts), shape=shape)


def basis_arrays(basis: BlockDiagonal, prefix: str = "") -> dict[str, FloatArray]:
    """Arrays of a basis and of its partition, by name."""
    partition = {f"{prefix}partition.{f.name}": getattr(basis.partition, f.name) for f in fields(Partition)}
    return {**partition, f"{prefix}basis.ranks": basis.ranks, f"{prefix}basis.values": basis.values}


def restore_basis(arrays: dict[str, FloatArray], prefix: str = "") -> BlockDiagonal:
    """Return the basis that `basis_arrays` has described, after a check of its arrays."""
    partition = Partition(*(arrays[f"{prefix}partition.{f.name}"] for f in fields(Partition)))
    check_partition(partition, prefix)
    for f in fields(Partition):
        getattr(partition, f.name).setflags(write=False)
    if f"{prefix}basis.values" not in arrays:  # version 1
        return BlockDiagonal.from_blocks(partition, _numbered(arrays, f"{prefix}basis", partition.n_clusters))
    values = numbers(arrays[f"{prefix}basis.values"], f"{prefix}basis.values", (None,))
    check_basis_size(arrays[f"{prefix}basis.ranks"], partition, len(values), prefix)
    return BlockDiagonal(partition, arrays[f"{prefix}basis.ranks"], values)


def inner_arrays(inner: InnerMatrix) -> dict[str, FloatArray]:
    """Arrays of an inner matrix, by name; those of trimmed blocks only where blocks are trimmed."""
    arrays = {
        "inner.row_offsets": inner.row_offsets,
        "inner.column_offsets": inner.column_offsets,
        "inner.counts": np.array([len(panel.columns) for panel in inner.panels]),
        "inner.kept": np.concatenate([panel.columns for panel in inner.panels]),
        "inner.values": np.concatenate([panel.values.ravel() for panel in inner.panels]),
    }
    if not inner.trimmed:
        return arrays
    return arrays | {
        "inner.rows": np.array([panel.row for panel in inner.panels]),
        "inner.heights": np.array([panel.height for panel in inner.panels]),
        "inner.widths": np.concatenate([panel.widths for panel in inner.panels]),
    }


def restore_inner(arrays: dict[str, FloatArray], n_rows: int, *, symmetric: bool) -> InnerMatrix:
    """Return the inner matrix that `inner_arrays` has described, after a check of its indices."""
    row_offsets, column_offsets = arrays["inner.row_offsets"], arrays["inner.column_offsets"]
    if "inner.values" not in arrays:  # version 1
        kept, panels = _numbered(arrays, "inner.kept", n_rows), _numbered(arrays, "inner.panel", n_rows)
        return InnerMatrix.of_whole_blocks(row_offsets, column_offsets, kept, panels, symmetric=symmetric)
    ranks, widths = np.diff(row_offsets), np.diff(column_offsets)
    columns = integers(arrays["inner.kept"], "inner.kept", (None,))
    require(columns.max(initial=-1) < len(widths), "inner.kept", f"below {len(widths)}")
    if "inner.rows" not in arrays:  # whole blocks, one panel for each row of blocks
        arrays = {**arrays, "inner.rows": np.arange(n_rows), "inner.heights": ranks, "inner.widths": widths[columns]}
    rows = integers(arrays["inner.rows"], "inner.rows", (None,))
    require(rows.max(initial=-1) < n_rows, "inner.rows", f"below {n_rows}")
    heights, counts = (integers(arrays[f"inner.{name}"], f"inner.{name}", rows.shape) for name in ("heights", "counts"))
    kept = _parts(columns, counts, "inner.kept")
    own = _parts(integers(arrays["inner.widths"], "inner.widths", columns.shape), counts, "inner.widths")
    shapes = [(int(height), int(each.sum())) for height, each in zip(heights, own, strict=True)]
    values = _reshaped(arrays, "inner.values", shapes)
    parts = tuple(Panel(int(row), *each) for row, *each in zip(rows, kept, own, values, strict=True))
    return InnerMatrix(row_offsets, column_offsets, parts, symmetric)


def extension_arrays(extensions: Sequence[Extension]) -> dict[str, FloatArray]:
    """Arrays of the extensions of all clusters to new points, by name."""
    return {
        "extension.sizes": np.array([len(extension.points) for extension in extensions]),
        "extension.points": np.concatenate([extension.points for extension in extensions]),
        "extension.coefficients": np.concatenate([extension.coefficients.ravel() for extension in extensions]),
    }


def restore_extensions(arrays: dict[str, FloatArray], basis: BlockDiagonal) -> tuple[Extension, ...]:
    """Return the extensions that `extension_arrays` has described, one for each cluster."""
    if "extension.sizes" not in arrays:  # version 1
        k = basis.partition.n_clusters
        points, coefficients = (_numbered(arrays, f"extension.{name}", k) for name in ("points", "coefficients"))
    else:
        sizes = integers(arrays["extension.sizes"], "extension.sizes", (len(basis.ranks),))
        points = _parts(arrays["extension.points"], sizes, "extension.points")
        shapes = list(zip(sizes.tolist(), basis.ranks.tolist(), strict=True))
        coefficients = _reshaped(arrays, "extension.coefficients", shapes)
    return tuple(Extension(own, weights) for own, weights in zip(points, coefficients, strict=True))


def _numbered(arrays: dict[str, FloatArray], name: str, count: int) -> tuple[FloatArray, ...]:
    return tuple(arrays[f"{name}.{i}"] for i in range(count))


def _parts(array: FloatArray, sizes: FloatArray, name: str) -> tuple[FloatArray, ...]:
    """Split an array into consecutive parts of the given sizes."""
    require(array.ndim > 0 and sum(sizes.tolist()) == len(array), name, "as long as its parts")
    return tuple(np.split(array, np.cumsum(sizes)[:-1]))


def _reshaped(arrays: dict[str, FloatArray], name: str, shapes: Sequence[tuple[int, int]]) -> tuple[FloatArray, ...]:
    """Split a flat array into consecutive matrices of the given shapes."""
    values = numbers(arrays[name], name, (None,))
    parts = _parts(values, np.array([height * width for height, width in shapes]), name)
    return tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
