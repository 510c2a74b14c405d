"""Checks of the arrays of a file: error messages name the array."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.operators.archive import StorageError

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.operators.block_diagonal import BlockDiagonal
    from blockbasis.operators.extension import Extension
    from blockbasis.operators.inner import InnerMatrix
    from blockbasis.operators.row_blocks import RowBlocks
    from blockbasis.partition import Partition


def require(condition: Any, name: str, must: str) -> None:
    """Raise a StorageError "NAME must be MUST" unless the condition holds."""
    if not condition:
        raise StorageError(f"{name} must be {must}")


def integers(array: FloatArray, name: str, shape: tuple[int | None, ...], *, low: int = 0) -> IntArray:
    """Return an int64 array after a check of its shape and lower bound; None in ``shape`` matches any length."""
    require(array.dtype == np.int64, name, f"of int64, and is of {array.dtype}")
    _check_shape(array, name, shape)
    require(array.min(initial=low) >= low, name, f"at least {low}")
    return array


def numbers(array: FloatArray, name: str, shape: tuple[int | None, ...], dtype: Any = None) -> FloatArray:
    """Return a finite float array after a check of its shape and dtype; None in ``shape`` matches any length."""
    allowed = (np.dtype(np.float32), np.dtype(np.float64)) if dtype is None else (np.dtype(dtype),)
    require(array.dtype in allowed, name, f"of {' or '.join(map(str, allowed))}, and is of {array.dtype}")
    _check_shape(array, name, shape)
    require(np.isfinite(array).all(), name, "finite")
    return array


def _check_shape(array: FloatArray, name: str, shape: tuple[int | None, ...]) -> None:
    fits = array.ndim == len(shape) and all(
        wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
    )
    require(fits, name, f"of shape {shape}, and is of {array.shape}")


def check_partition(partition: Partition, prefix: str) -> None:
    """Raise a StorageError unless the arrays are a partition of points into clusters."""
    order = integers(partition.order, f"{prefix}partition.order", (None,))
    starts = integers(partition.starts, f"{prefix}partition.starts", (None,))
    require(np.array_equal(np.sort(order), np.arange(len(order))), f"{prefix}partition.order", "a permutation")
    rising = len(starts) > 1 and starts[0] == 0 and starts[-1] == len(order) and (np.diff(starts) >= 0).all()
    require(rising, f"{prefix}partition.starts", f"ascending from 0 to {len(order)}")
    numbers(partition.centers, f"{prefix}partition.centers", (partition.n_clusters, None))
    numbers(partition.radii, f"{prefix}partition.radii", (partition.n_clusters,))


def check_basis_size(ranks: IntArray, partition: Partition, n_values: int, prefix: str) -> None:
    """Raise a StorageError unless blocks of these ranks have ``n_values`` entries in total."""
    name = f"{prefix}basis.ranks"
    integers(ranks, name, (partition.n_clusters,))
    # Python integers: products of int64 values from a forged file may overflow.
    floats = sum(n * r for n, r in zip(partition.sizes.tolist(), ranks.tolist(), strict=True))
    require(floats == n_values, name, f"those of {n_values} values, and are those of {floats}")


def check_inner(inner: InnerMatrix, rows: BlockDiagonal, columns: BlockDiagonal) -> None:
    """Raise a StorageError unless the blocks of C fit the ranks of both bases."""
    for offsets, basis, name in (
        (inner.row_offsets, rows, "inner.row_offsets"),
        (inner.column_offsets, columns, "inner.column_offsets"),
    ):
        fits = np.array_equal(offsets, np.concatenate(([0], np.cumsum(basis.ranks))))
        require(offsets.dtype == np.int64 and fits, name, "the sums of the ranks")
    require(type(inner.symmetric) is bool, "symmetric", "true or false")
    same = np.array_equal(inner.row_offsets, inner.column_offsets)
    require(same or not inner.symmetric, "inner.column_offsets", "those of the rows of a symmetric matrix")
    widths = np.diff(inner.column_offsets)
    for panel in inner.panels:
        kept = integers(panel.columns, "inner.kept", (None,))
        require(kept.max(initial=-1) < len(widths), "inner.kept", f"below {len(widths)}")
        whole = int(rows.ranks[panel.row]), widths[kept]
        require(all(a < b for a, b in pairwise(kept.tolist())), "inner.kept", "ascending in every panel")
        require(len(kept) > 0 or not inner.symmetric, "inner.kept", "those from the diagonal on")
        require(not inner.symmetric or kept[0] >= panel.row, "inner.kept", "those from the diagonal on")
        require(1 <= panel.height <= whole[0], "inner.heights", "between 1 and the rank")
        fits = bool(((panel.widths >= 1) & (panel.widths <= whole[1])).all())
        require(fits, "inner.widths", "between 1 and the rank")
        if kept.size and inner.symmetric and kept[0] == panel.row:
            square = panel.height == panel.widths[0] == whole[0]
            require(square, "inner.heights", "those of a whole block on the diagonal")
        numbers(panel.values, "inner.values", (panel.height, int(panel.widths.sum())), columns.dtype)
    for i, kept in enumerate(inner.kept):
        require(all(a < b for a, b in pairwise(kept.tolist())), "inner.kept", "each once in a row of blocks")
        require(not inner.symmetric or (len(kept) and kept[0] == i), "inner.kept", "those from the diagonal on")


def check_extensions(extensions: Sequence[Extension], basis: BlockDiagonal) -> None:
    """Raise a StorageError unless every cluster has an extension of its rank."""
    columns = basis.partition.centers.shape[1]
    require(len(extensions) == basis.partition.n_clusters, "extension.sizes", "one for each cluster")
    for extension, rank in zip(extensions, basis.ranks.tolist(), strict=True):
        numbers(extension.points, "extension.points", (None, columns))
        numbers(extension.coefficients, "extension.coefficients", (len(extension.points), rank))


def check_row_blocks(near: RowBlocks, dtype: Any) -> None:
    """Raise a StorageError unless each cluster has ascending rows of the matrix."""
    for rows, block in zip(near.rows, near.blocks, strict=True):
        require(all(a < b for a, b in pairwise(rows.tolist())), "near.rows", "ascending in every cluster")
        require(rows.max(initial=-1) < near.n_rows, "near.rows", f"below {near.n_rows}")
        numbers(block, "near.values", block.shape, dtype)
