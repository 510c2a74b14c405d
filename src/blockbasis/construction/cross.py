"""The non-symmetric factorization, K(Y, X) ~ U C Vᵀ."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from blockbasis._utils.parallel import map_threads
from blockbasis.construction.cluster_basis import ClusterBasis
from blockbasis.construction.coordinates import determining_rows, row_pseudo_inverse
from blockbasis.construction.inner_matrix import exact_block, inner_of_blocks
from blockbasis.construction.method import ACCURATE, Method
from blockbasis.construction.paper import column_pool, pairwise_block, paper_basis
from blockbasis.construction.pipeline import draw_columns
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.cross import CrossBlockBasis
from blockbasis.operators.entries import Entries

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.kernels.evaluator import KernelMatrix
    from blockbasis.partition import Partition


def cross_factorization(
    matrix: KernelMatrix,
    rows: Partition,
    columns: Partition,
    rank: int,
    method: Method,
    rng: np.random.Generator,
    n_jobs: int,
) -> CrossBlockBasis:
    """Bases of the rows and of the columns, then the inner matrix between them with all of its blocks."""
    row_stream, column_stream, inner_stream = rng.spawn(3)
    row_bases = _bases(matrix, rows, columns, rank, method, row_stream, n_jobs)
    column_bases = _bases(matrix.T, columns, rows, rank, method, column_stream, n_jobs)
    after_bases = matrix.entries
    streams = inner_stream.spawn(rows.n_clusters)
    row_coordinates, column_coordinates = (
        [] if method.paper else [_coordinates(basis) for basis in bases] for bases in (row_bases, column_bases)
    )

    def block(i: int, j: int) -> FloatArray:
        if method.inner == "exact":
            U, V = row_bases[i].vectors, column_bases[j].vectors
            assert U is not None and V is not None
            return exact_block(matrix, rows.cluster(i), U, columns.cluster(j), V)
        if method.paper:
            return pairwise_block(matrix, row_bases[i], column_bases[j], streams[i])
        (row_indices, P), (column_indices, Q) = row_coordinates[i], column_coordinates[j]
        entries = matrix.block(row_indices, column_indices).astype(np.float64, copy=False)
        return np.asarray(P @ entries @ Q.T)

    def row(i: int) -> dict[int, FloatArray]:
        return {j: block(i, j) for j in range(columns.n_clusters)}

    blocks = map_threads(row, [(i,) for i in range(rows.n_clusters)], n_jobs, "inner matrix")
    inner = inner_of_blocks([basis.rank for basis in row_bases], blocks, [basis.rank for basis in column_bases])
    U, V = (
        BlockDiagonal.from_blocks(side, [basis.vectors for basis in bases if basis.vectors is not None], matrix.dtype)
        for side, bases in ((rows, row_bases), (columns, column_bases))
    )
    return CrossBlockBasis(U, inner.astype(matrix.dtype), V, Entries(after_bases, matrix.entries - after_bases))


def _bases(
    matrix: KernelMatrix,
    rows: Partition,
    columns: Partition,
    rank: int,
    method: Method,
    rng: np.random.Generator,
    n_jobs: int,
) -> list[ClusterBasis]:
    """One basis for each row cluster."""
    streams = rng.spawn(rows.n_clusters)
    sampled = matrix.double if method.paper else matrix
    pool = column_pool(sampled, columns, rank, rng, n_jobs) if method.sampling == "pooled" else None

    def make_basis(i: int) -> ClusterBasis:
        cluster = rows.cluster(i)
        if rank >= cluster.stop - cluster.start:
            return _identity(cluster)
        sample = draw_columns(sampled, cluster, columns, rank, method, pool, streams[i])
        basis = paper_basis(matrix, cluster, sample, rank, streams[i])
        if method.paper:
            return basis
        assert basis.vectors is not None
        determining = determining_rows(basis.vectors, ACCURATE.inner_rows * basis.rank, streams[i])
        return replace(basis, rows=cluster.start + determining, values=basis.vectors[determining])

    return map_threads(make_basis, [(i,) for i in range(rows.n_clusters)], n_jobs, "bases")


def _identity(cluster: slice) -> ClusterBasis:
    """The identity as the basis of a cluster of no more points than the rank; it has no landmarks."""
    size = cluster.stop - cluster.start
    identity = np.eye(size)
    return ClusterBasis(
        cluster=cluster,
        landmarks=np.empty(0, dtype=np.intp),
        coefficients=np.empty((0, size)),
        landmark_diagonal=np.empty(0),
        rows=np.arange(cluster.start, cluster.stop),
        values=identity,
        diagonal=np.zeros(size),
        residuals=np.zeros(size + 1),
        vectors=identity,
    )


def _coordinates(basis: ClusterBasis) -> tuple[IntArray, FloatArray]:
    """Determining rows of a basis, and the pseudo-inverse of the basis on these rows."""
    assert basis.vectors is not None
    return basis.rows, row_pseudo_inverse(basis.vectors, basis.rows - basis.cluster.start)
