"""The non-symmetric factorization, K(Y, X) ~ U C Vᵀ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from blockbasis._utils.parallel import map_threads
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.construction.cluster_basis import ClusterBasis
from blockbasis.construction.coordinates import determining_rows, interpolate
from blockbasis.construction.inner_matrix import exact_block, inner_of_blocks
from blockbasis.construction.method import ACCURATE, Method
from blockbasis.construction.paper import pairwise_block, paper_basis, pool_of_cluster
from blockbasis.construction.pipeline import draw_columns
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.cross import CrossBlockBasis
from blockbasis.operators.entries import Entries
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
    of_rows, of_columns, of_inner = rng.spawn(3)
    left = _bases(matrix, rows, columns, rank, method, of_rows, n_jobs)
    right = _bases(matrix.T, columns, rows, rank, method, of_columns, n_jobs)
    for_bases = matrix.entries
    streams = of_inner.spawn(rows.n_clusters)
    coordinates = [[_coordinates(basis) for basis in side] for side in (left, right)] if not method.paper else []

    def block(i: int, j: int) -> FloatArray:
        if method.inner == "exact":
            U, V = left[i].vectors, right[j].vectors
            assert U is not None and V is not None
            return exact_block(matrix, rows.cluster(i), U, columns.cluster(j), V)
        if method.paper:
            return pairwise_block(matrix, left[i], right[j], streams[i])
        (at, P), (there, Q) = coordinates[0][i], coordinates[1][j]
        return np.asarray(P @ matrix.block(at, there).astype(np.float64, copy=False) @ Q.T)

    def row(i: int) -> dict[int, FloatArray]:
        return {j: block(i, j) for j in range(columns.n_clusters)}

    blocks = map_threads(row, [(i,) for i in range(rows.n_clusters)], n_jobs, "inner matrix")
    inner = inner_of_blocks([basis.rank for basis in left], blocks, [basis.rank for basis in right])
    U, V = (
        BlockDiagonal.from_blocks(side, [basis.vectors for basis in bases if basis.vectors is not None], matrix.dtype)
        for side, bases in ((rows, left), (columns, right))
    )
    return CrossBlockBasis(U, inner.astype(matrix.dtype), V, Entries(for_bases, matrix.entries - for_bases))


def _bases(
    matrix: KernelMatrix,
    rows: Partition,
    columns: Partition,
    rank: int,
    method: Method,
    rng: np.random.Generator,
    n_jobs: int,
) -> list[ClusterBasis]:
    streams = rng.spawn(rows.n_clusters)
    seen = matrix.double if method.paper else matrix
    pool: IntArray | None = None
    if method.sampling == "pooled":
        tasks = [(seen.T, columns.cluster(j), rank, own) for j, own in enumerate(rng.spawn(columns.n_clusters))]
        pool = np.concatenate(map_threads(pool_of_cluster, tasks, n_jobs, "pool of columns"))

    def one(i: int) -> ClusterBasis:
        cluster = rows.cluster(i)
        size = cluster.stop - cluster.start
        if rank >= size:
            return _identity(cluster)
        sample = draw_columns(seen, cluster, columns, rank, method, pool, streams[i])
        basis = paper_basis(matrix, cluster, sample, rank, streams[i])
        if method.paper:
            return basis
        assert basis.vectors is not None
        chosen = determining_rows(basis.vectors, ACCURATE.inner_rows * basis.rank, streams[i])
        return replace(basis, rows=cluster.start + chosen, values=basis.vectors[chosen])

    return map_threads(one, [(i,) for i in range(rows.n_clusters)], n_jobs, "bases")


def _identity(cluster: slice) -> ClusterBasis:
    size = cluster.stop - cluster.start
    identity, nothing = np.eye(size), np.empty(0, dtype=np.intp)
    every = np.arange(cluster.start, cluster.stop)
    return ClusterBasis(
        cluster,
        nothing,
        np.empty((0, size)),
        np.empty(0),
        every,
        identity,
        np.zeros(size),
        np.zeros(size + 1),
        0.0,
        identity,
    )


def _coordinates(basis: ClusterBasis) -> tuple[IntArray, FloatArray]:
    assert basis.vectors is not None
    return basis.rows, interpolate(basis.vectors, basis.rows - basis.cluster.start)
