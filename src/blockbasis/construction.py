"""The stages of Algorithm 5: columns and basis of every cluster, then the inner matrix, then the operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blockbasis import sampling as sample
from blockbasis._parallel import map_threads
from blockbasis._typing import FloatArray, IntArray
from blockbasis.accuracy import ErrorEstimate
from blockbasis.basis import (
    SKELETON_POINTS_PER_RANK,
    BlockDiagonal,
    ClusterBasis,
    Keep,
    full_basis,
    paper_basis,
    sampled_basis,
    skeleton_basis,
)
from blockbasis.definite import nearest_semidefinite, settled_semidefinite
from blockbasis.inner import Cutoff, InnerMatrix, Known, symmetric_inner
from blockbasis.matrix import KernelMatrix
from blockbasis.operator import BlockBasis, Entries, held_diagonal
from blockbasis.partition import Partition
from blockbasis.settling import DIAGONAL_ROUNDS

ALGORITHMS = ("default", "paper")
SAMPLINGS = ("energy", "randomized", "pooled", "uniform", "leverage", "exact", "diagonal-block")
BASES = ("svd", "skeleton")
INNERS = ("sampled", "exact")


@dataclass(frozen=True)
class Method:
    """The choices of one construction, checked."""

    paper: bool
    sampling: str
    basis: str
    inner: str
    diagonal: bool
    cutoff: float | None

    @property
    def blocks(self) -> str:
        """How the blocks of the inner matrix are computed."""
        return "pairwise" if self.paper and self.inner == "sampled" else self.inner

    @property
    def surrogate(self) -> bool:
        """Whether the result stands for a kernel of its own, extended to new points, and not for entries of K.

        Fewer columns and rows then do, and K's diagonal is not set apart.
        """
        return self.basis == "skeleton" and not self.diagonal

    @property
    def definite(self) -> bool:
        """Whether C = P K(I, I) Pᵀ is positive semi-definite by construction."""
        return self.surrogate and self.inner == "sampled"

    @property
    def columns_per_rank(self) -> int:
        """Columns that energy sampling draws."""
        return sample.ENERGY_COLUMNS_PER_RANK * (3 if self.surrogate else 4) // 4

    def seen(self, matrix: KernelMatrix) -> KernelMatrix:
        """The matrix as columns are sampled from it: Algorithm 1 tells directions apart down to rounding."""
        return matrix.double if self.paper else matrix


def make_bases(
    matrix: KernelMatrix,
    partition: Partition,
    columns: Partition,
    ranks: IntArray,
    method: Method,
    rng: np.random.Generator,
    n_jobs: int,
) -> list[ClusterBasis]:
    """One basis for each row cluster, from columns sampled for it: first half of Algorithm 5."""
    streams = rng.spawn(partition.n_clusters)
    pool = _pool(method.seen(matrix), columns, ranks, rng, n_jobs) if method.sampling == "pooled" else None

    def one(i: int) -> ClusterBasis:
        cluster, rank = partition.cluster(i), int(ranks[i])
        if rank >= cluster.stop - cluster.start:
            return full_basis(matrix, cluster, _others(matrix, cluster, columns, rank, method, streams[i]))
        skeleton = _skeleton(method.seen(matrix), cluster, columns, rank, method, pool, streams[i])
        return basis_of(matrix, cluster, skeleton, rank, method, streams[i])

    return map_threads(one, [(i,) for i in range(partition.n_clusters)], n_jobs, "bases")


def basis_of(
    matrix: KernelMatrix,
    cluster: slice,
    skeleton: sample.Skeleton,
    rank: int,
    method: Method,
    rng: np.random.Generator,
    keep: Keep | None = None,
) -> ClusterBasis:
    """Basis of one cluster from its columns, by the method's kind of basis."""
    if method.paper:
        return paper_basis(matrix, cluster, skeleton, rank, rng)
    if method.basis == "skeleton":
        return skeleton_basis(matrix, cluster, skeleton, rank, rng, keep, diagonal=method.diagonal)
    # Without D the exact row-submatrix, or the exact diagonal block, is what was asked for.
    settle = method.diagonal or method.sampling not in ("exact", "diagonal-block")
    return sampled_basis(matrix, cluster, skeleton, rank, rng, keep, DIAGONAL_ROUNDS if settle else 0)


def _others(
    matrix: KernelMatrix, cluster: slice, columns: Partition, rank: int, method: Method, rng: np.random.Generator
) -> IntArray | None:
    """Columns from which a cluster that is kept whole is extended, where extension is what the basis is for."""
    if method.basis != "skeleton":
        return None
    return sample.energy_sampling(matrix, cluster, columns, int(SKELETON_POINTS_PER_RANK * rank), rng).columns


def _pool(matrix: KernelMatrix, columns: Partition, ranks: IntArray, rng: np.random.Generator, n_jobs: int) -> IntArray:
    """Candidates of Algorithm 3: important points of every column cluster."""
    rank = int(ranks.max())
    tasks = [(matrix.T, columns.cluster(j), rank, child) for j, child in enumerate(rng.spawn(columns.n_clusters))]
    return np.concatenate(map_threads(sample.pool_of_cluster, tasks, n_jobs, "pool of columns"))


def _skeleton(
    matrix: KernelMatrix,
    cluster: slice,
    columns: Partition,
    rank: int,
    method: Method,
    pool: IntArray | None,
    rng: np.random.Generator,
) -> sample.Skeleton:
    sampling = method.sampling
    if sampling == "energy":
        return sample.energy_sampling(matrix, cluster, columns, method.columns_per_rank * rank, rng)
    if sampling == "uniform":
        return sample.uniform_sampling(matrix, sample.PLAIN_COLUMNS_PER_RANK * rank, rng)
    if sampling == "leverage":
        return sample.leverage_sampling(matrix, cluster, rank, sample.PLAIN_COLUMNS_PER_RANK * rank, rng)
    if sampling == "exact":
        return sample.every_column(matrix)
    if sampling == "diagonal-block":
        return sample.own_columns(cluster)
    return sample.randomized_sampling(matrix, cluster, rank, rng, candidates=pool)


def make_inner(
    matrix: KernelMatrix,
    partition: Partition,
    bases: Sequence[ClusterBasis],
    method: Method,
    rng: np.random.Generator,
    n_jobs: int,
    known: Known | None = None,
) -> tuple[InnerMatrix, Cutoff | None]:
    """Inner matrix of the bases: second half of Algorithm 5."""
    return symmetric_inner(
        matrix,
        partition,
        bases,
        method=method.blocks,
        diagonal=method.diagonal,
        cutoff=method.cutoff,
        streams=rng.spawn(partition.n_clusters),
        n_jobs=n_jobs,
        known=known,
    )


def definite_inner(
    matrix: KernelMatrix,
    partition: Partition,
    bases: Sequence[ClusterBasis],
    inner: InnerMatrix,
    cut: Cutoff | None,
    method: Method,
    allowed: float = 0.0,
) -> InnerMatrix:
    """C, positive semi-definite unless blocks were cut off; ``allowed`` is the squared error asked for, if any."""
    if method.paper or method.definite or (cut is not None and cut.dropped):
        return inner
    if not method.diagonal:
        return nearest_semidefinite(inner, matrix.dtype)
    diagonals = [matrix.diagonal(cluster).astype(np.float64) for cluster in partition.clusters]
    return settled_semidefinite(inner, bases, diagonals, matrix.dtype, exact=method.inner == "exact", allowed=allowed)


def assemble(
    matrix: KernelMatrix,
    partition: Partition,
    bases: Sequence[ClusterBasis],
    inner: InnerMatrix,
    cut: Cutoff | None,
    method: Method,
    for_inner: int,
    planning: int = 0,
    error_estimate: ErrorEstimate | None = None,
) -> BlockBasis:
    """The operator from its parts."""
    U = BlockDiagonal.from_blocks(partition, [basis.vectors for basis in bases], matrix.dtype)
    part = _diagonal_part(matrix, U, inner) if method.diagonal else None
    return BlockBasis(
        kernel=matrix.kernel,
        basis=U,
        inner=inner.astype(matrix.dtype),
        diagonal_part=part,
        extensions=tuple(basis.extension for basis in bases if basis.extension is not None),
        entries=Entries(matrix.entries - for_inner - planning, for_inner, planning),
        cutoff=cut,
        error_estimate=error_estimate,
    )


def _diagonal_part(matrix: KernelMatrix, U: BlockDiagonal, inner: InnerMatrix) -> FloatArray:
    """D: what U C Uᵀ leaves of the diagonal of K, never negative, in the caller's order."""
    partition = U.partition
    exact = np.concatenate([matrix.diagonal(cluster) for cluster in partition.clusters])
    part = np.empty(partition.n_points, dtype=matrix.dtype)
    part[partition.order] = np.maximum(exact - held_diagonal(U, inner), 0)
    return part
