"""Algorithm 5 of the paper as a pipeline: points -> partition -> columns -> bases -> inner matrix -> operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from blockbasis import sampling as sample
from blockbasis._parallel import check_n_jobs, map_threads, single_threaded
from blockbasis._typing import FloatArray, IntArray, Seed
from blockbasis._validation import (
    check_choice,
    check_dtype,
    check_flag,
    check_fraction,
    check_integer,
    check_points,
    check_ranks,
    check_rng,
)
from blockbasis.basis import BlockDiagonal, ClusterBasis, full_basis, paper_basis, sampled_basis, skeleton_basis
from blockbasis.inner import InnerMatrix, cross_inner, nearest_semidefinite, symmetric_inner
from blockbasis.kernels import CallableKernel, Kernel, as_kernel
from blockbasis.matrix import KernelMatrix
from blockbasis.operator import BlockBasis, CrossBlockBasis, Entries, held_diagonal
from blockbasis.partition import Partition, make_partition

ALGORITHMS = ("default", "paper")
SAMPLINGS = ("energy", "randomized", "pooled", "uniform", "leverage", "exact", "diagonal-block")
BASES = ("svd", "skeleton")
INNERS = ("sampled", "exact")

#: Points on which a user's kernel function is asked whether it is symmetric.
_SYMMETRY_SAMPLE = 64


@dataclass(frozen=True)
class _Method:
    """The choices of one construction, checked."""

    paper: bool
    sampling: str
    basis: str
    inner: str
    diagonal: bool
    cutoff: float | None


def factorize(
    X: Any,
    kernel: Any,
    *,
    n_clusters: int | None = None,
    rank: Any = None,
    partition: Any = "kmeans",
    algorithm: str = "default",
    sampling: str | None = None,
    basis: str = "svd",
    inner: str = "sampled",
    diagonal: bool | None = None,
    cutoff: float | None = None,
    dtype: npt.DTypeLike | None = None,
    rng: Seed = None,
    n_jobs: int | None = None,
) -> BlockBasis:
    """Compress the kernel matrix of ``X`` into U C Uᵀ + D."""
    caller = "factorize"
    X = check_points(X, name="X", caller=caller)
    X = X.astype(check_dtype(dtype, X.dtype, name="dtype", caller=caller), copy=False)
    kernel = as_kernel(kernel, caller=caller)
    method = _check_method(algorithm, sampling, basis, inner, diagonal, cutoff, caller)
    n_jobs = check_n_jobs(n_jobs, caller=caller)
    root = check_rng(rng, name="rng", caller=caller)
    k = (
        X.shape[0]
        if not isinstance(partition, str)
        else check_integer(n_clusters, name="n_clusters", caller=caller, low=1, high=X.shape[0])
    )
    with single_threaded():
        of_partition, of_bases, of_inner = root.spawn(3)
        _check_symmetric(kernel, X, of_partition)
        parts = make_partition(X, k, partition, of_partition, caller=caller)
        ranks = check_ranks(rank, parts.n_clusters, name="rank", caller=caller)
        matrix = KernelMatrix(kernel, X[parts.order])
        bases = make_bases(matrix, parts, parts, ranks, method, of_bases, n_jobs)
        return assemble(matrix, parts, bases, method, of_inner, n_jobs)


def assemble(
    matrix: KernelMatrix,
    partition: Partition,
    bases: Sequence[ClusterBasis],
    method: _Method,
    rng: np.random.Generator,
    n_jobs: int,
) -> BlockBasis:
    """The operator from its bases: second half of Algorithm 5."""
    for_bases = matrix.entries
    inner, cut = symmetric_inner(
        matrix,
        partition,
        bases,
        method="pairwise" if method.paper and method.inner == "sampled" else method.inner,
        diagonal=method.diagonal,
        cutoff=method.cutoff,
        streams=rng.spawn(partition.n_clusters),
        n_jobs=n_jobs,
    )
    if not method.paper and (cut is None or cut.dropped == 0):
        inner = nearest_semidefinite(inner)
    U = BlockDiagonal(partition, tuple(basis.vectors for basis in bases))
    part = _diagonal_part(matrix, U, inner) if method.diagonal else None
    return BlockBasis(
        kernel=matrix.kernel,
        basis=U,
        inner=_cast(inner, matrix.dtype),
        diagonal_part=part,
        extensions=tuple(basis.extension for basis in bases if basis.extension is not None),
        entries=Entries(for_bases, matrix.entries - for_bases),
        cutoff=cut,
    )


def factorize_cross(
    Y: Any,
    X: Any,
    kernel: Any,
    *,
    n_clusters: int | tuple[int, int],
    rank: int,
    partition: str = "kmeans",
    algorithm: str = "default",
    sampling: str | None = None,
    inner: str = "sampled",
    dtype: npt.DTypeLike | None = None,
    rng: Seed = None,
    n_jobs: int | None = None,
) -> CrossBlockBasis:
    """Compress the kernel matrix of two sets of points, K(Y, X) ~ U C Vᵀ."""
    caller = "factorize_cross"
    Y = check_points(Y, name="Y", caller=caller)
    X = check_points(X, name="X", caller=caller, n_features=Y.shape[1])
    chosen = check_dtype(dtype, np.result_type(X, Y), name="dtype", caller=caller)
    X, Y = X.astype(chosen, copy=False), Y.astype(chosen, copy=False)
    kernel = as_kernel(kernel, caller=caller)
    method = _check_method(algorithm, sampling, "svd", inner, False, None, caller)
    n_jobs = check_n_jobs(n_jobs, caller=caller)
    root = check_rng(rng, name="rng", caller=caller)
    of_rows, of_columns = n_clusters if isinstance(n_clusters, tuple) else (n_clusters, n_clusters)
    of_rows = check_integer(of_rows, name="n_clusters", caller=caller, low=1, high=Y.shape[0])
    of_columns = check_integer(of_columns, name="n_clusters", caller=caller, low=1, high=X.shape[0])
    with single_threaded():
        streams = root.spawn(5)
        rows = make_partition(Y, of_rows, partition, streams[0], caller=caller)
        columns = make_partition(X, of_columns, partition, streams[1], caller=caller)
        matrix = KernelMatrix(kernel, Y[rows.order], X[columns.order])
        row_ranks = check_ranks(rank, rows.n_clusters, name="rank", caller=caller)
        column_ranks = check_ranks(rank, columns.n_clusters, name="rank", caller=caller)
        left = make_bases(matrix, rows, columns, row_ranks, method, streams[2], n_jobs)
        right = make_bases(matrix.T, columns, rows, column_ranks, method, streams[3], n_jobs)
        for_bases = matrix.entries
        C = cross_inner(
            matrix,
            rows,
            columns,
            left,
            right,
            method="pairwise" if method.paper and method.inner == "sampled" else method.inner,
            streams=streams[4].spawn(rows.n_clusters),
            n_jobs=n_jobs,
        )
    U = BlockDiagonal(rows, tuple(basis.vectors for basis in left))
    V = BlockDiagonal(columns, tuple(basis.vectors for basis in right))
    return CrossBlockBasis(U, _cast(C, chosen), V, Entries(for_bases, matrix.entries - for_bases))


# --- stages ----------------------------------------------------------------------------------------------------------


def make_bases(
    matrix: KernelMatrix,
    partition: Partition,
    columns: Partition,
    ranks: IntArray,
    method: _Method,
    rng: np.random.Generator,
    n_jobs: int,
) -> list[ClusterBasis]:
    """One basis for each row cluster, from columns sampled for it: first half of Algorithm 5."""
    streams = rng.spawn(partition.n_clusters)
    pool = _pool(matrix, columns, ranks, rng, n_jobs) if method.sampling == "pooled" else None

    def one(i: int) -> ClusterBasis:
        cluster, rank = partition.cluster(i), int(ranks[i])
        if rank >= cluster.stop - cluster.start:
            return full_basis(matrix, cluster)
        skeleton = _skeleton(matrix, cluster, columns, rank, method.sampling, pool, streams[i])
        build = paper_basis if method.paper else skeleton_basis if method.basis == "skeleton" else sampled_basis
        return build(matrix, cluster, skeleton, rank, streams[i])

    return map_threads(one, [(i,) for i in range(partition.n_clusters)], n_jobs)


def _pool(matrix: KernelMatrix, columns: Partition, ranks: IntArray, rng: np.random.Generator, n_jobs: int) -> IntArray:
    """Candidates of Algorithm 3: important points of every column cluster."""
    rank = int(ranks.max())
    tasks = [(matrix.T, columns.cluster(j), rank, child) for j, child in enumerate(rng.spawn(columns.n_clusters))]
    return np.concatenate(map_threads(sample.pool_of_cluster, tasks, n_jobs))


def _skeleton(
    matrix: KernelMatrix,
    cluster: slice,
    columns: Partition,
    rank: int,
    sampling: str,
    pool: IntArray | None,
    rng: np.random.Generator,
) -> sample.Skeleton:
    if sampling == "energy":
        return sample.energy_sampling(matrix, cluster, columns, sample.ENERGY_COLUMNS_PER_RANK * rank, rng)
    if sampling == "uniform":
        return sample.uniform_sampling(matrix, sample.PLAIN_COLUMNS_PER_RANK * rank, rng)
    if sampling == "leverage":
        return sample.leverage_sampling(matrix, cluster, rank, sample.PLAIN_COLUMNS_PER_RANK * rank, rng)
    if sampling == "exact":
        return sample.every_column(matrix)
    if sampling == "diagonal-block":
        return sample.own_columns(cluster)
    return sample.randomized_sampling(matrix, cluster, rank, rng, candidates=pool)


def _diagonal_part(matrix: KernelMatrix, U: BlockDiagonal, inner: InnerMatrix) -> FloatArray:
    """D: what U C Uᵀ leaves of the diagonal of K, never negative, in the caller's order."""
    partition = U.partition
    exact = np.concatenate([matrix.diagonal(partition.cluster(i)) for i in range(partition.n_clusters)])
    part = np.empty(partition.n_points, dtype=matrix.dtype)
    part[partition.order] = np.maximum(exact - held_diagonal(U, inner), 0)
    return part


def _cast(inner: InnerMatrix, dtype: np.dtype[Any]) -> InnerMatrix:
    panels = tuple(panel.astype(dtype, copy=False) for panel in inner.panels)
    return InnerMatrix(inner.row_offsets, inner.column_offsets, inner.kept, panels, inner.symmetric)


# --- checks ----------------------------------------------------------------------------------------------------------


def _check_method(
    algorithm: str,
    sampling: str | None,
    basis: str,
    inner: str,
    diagonal: bool | None,
    cutoff: float | None,
    caller: str,
) -> _Method:
    paper = check_choice(algorithm, ALGORITHMS, name="algorithm", caller=caller) == "paper"
    chosen = ("randomized" if paper else "energy") if sampling is None else sampling
    carried = not paper if diagonal is None else check_flag(diagonal, name="diagonal", caller=caller)
    if paper and (carried or basis != "svd"):
        wrong = "diagonal=True" if carried else f"basis={basis!r}"
        raise ValueError(f"{wrong} contradicts algorithm='paper', which has no diagonal part and SVD bases.")
    return _Method(
        paper,
        check_choice(chosen, SAMPLINGS, name="sampling", caller=caller),
        check_choice(basis, BASES, name="basis", caller=caller),
        check_choice(inner, INNERS, name="inner", caller=caller),
        carried,
        None if cutoff is None else check_fraction(cutoff, name="cutoff", caller=caller),
    )


def _check_symmetric(kernel: Kernel, X: FloatArray, rng: np.random.Generator) -> None:
    if isinstance(kernel, CallableKernel):
        kernel.check_symmetric(X[np.sort(rng.choice(X.shape[0], min(_SYMMETRY_SAMPLE, X.shape[0]), replace=False))])
