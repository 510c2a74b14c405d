"""From ranks to a factorization: bases of all clusters, inner matrix, one pass over the points, operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from blockbasis._utils.linalg import diagonal_of, semidefinite_part, symmetric
from blockbasis._utils.parallel import map_threads
from blockbasis._utils.tiling import ranges
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.construction import sampling
from blockbasis.construction.cluster_basis import (
    ClusterBasis,
    basis_of_sketch,
    identity_basis,
    sketch_block,
    sketched_basis,
)
from blockbasis.construction.diagonal import limit_rows
from blockbasis.construction.inner_matrix import (
    Coordinates,
    coordinates_of,
    drop_small_blocks,
    exact_block,
    inner_of_blocks,
    near_pairs,
    sampled_inner,
    transformed_inner,
    truncated_inner,
)
from blockbasis.construction.method import ACCURATE, KEPT_ENTRIES, Method, SampleSizes
from blockbasis.construction.paper import column_pool, pairwise_block, paper_basis, randomized_sampling
from blockbasis.construction.semidefinite import DECOMPOSED, semidefinite_inner
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.entries import Entries
from blockbasis.operators.error_estimate import ErrorEstimate
from blockbasis.operators.extension import Extension
from blockbasis.operators.inner import Cutoff, InnerMatrix
from blockbasis.partition import Partition

#: Kernel entries that are evaluated at once in the pass over the points, 2 MB of float64: they stay in a core's cache.
_PASS_ENTRIES = 2**18
#: Largest ratio of the diagonal of a Cholesky factor for which the Gram matrix is accurate enough.
_ILL_CONDITIONED = 1e3
#: Share of the squared error that a multiple of the identity may add to an indefinite C.
SHIFT_SHARE = 2e-2

T = TypeVar("T")


@dataclass(frozen=True)
class Construction:
    """The kernel matrix, its clusters, and the method by which bases and inner matrix are computed.

    Parameters
    ----------
    matrix : KernelMatrix
        In cluster order.
    partition : Partition
    method : Method
    sizes : SampleSizes
    n_jobs : int
    """

    matrix: KernelMatrix
    partition: Partition
    method: Method
    sizes: SampleSizes
    n_jobs: int

    def map_clusters(self, function: Callable[[int], T], stage: str) -> list[T]:
        """Results of a function of the index of a cluster, for all clusters."""
        return map_threads(function, [(i,) for i in range(self.partition.n_clusters)], self.n_jobs, stage)


@dataclass(frozen=True)
class Draft:
    """Bases and inner matrix before the pass over the points.

    Parameters
    ----------
    bases : list of ClusterBasis
    coordinates : list of Coordinates
        Empty where the inner matrix does not come from one set of rows for each cluster.
    inner : InnerMatrix
        C in the coordinates of the bases.
    cutoff : Cutoff or None
        Share of the blocks that were dropped, where the method has a cutoff.
    """

    bases: list[ClusterBasis]
    coordinates: list[Coordinates]
    inner: InnerMatrix
    cutoff: Cutoff | None = None

    @property
    def ranks(self) -> IntArray:
        return np.array([basis.rank for basis in self.bases], dtype=np.intp)

    @property
    def has_diagonal(self) -> bool:
        """Whether a cluster has a diagonal part."""
        return any(basis.diagonal.any() for basis in self.bases)

    def truncated(self, ranks: IntArray) -> Draft:
        """The leading functions of every cluster."""
        if (ranks == self.ranks).all():
            return self
        bases = [basis.truncated(int(rank)) for basis, rank in zip(self.bases, ranks, strict=True)]
        return Draft(bases, [], truncated_inner(self.inner, ranks), self.cutoff)

    def without_samples(self) -> Draft:
        """The draft without the entries that its bases were sketched from."""
        return replace(self, bases=[replace(basis, block=None) for basis in self.bases])


def factorize_with_ranks(
    matrix: KernelMatrix,
    partition: Partition,
    ranks: IntArray,
    method: Method,
    streams: tuple[np.random.Generator, np.random.Generator],
    n_jobs: int,
) -> BlockBasis:
    """Algorithm 5 by the given method: bases, then the inner matrix, then the operator."""
    before = matrix.entries
    construction = Construction(matrix.double, partition, method, ACCURATE.adapted(method), n_jobs)
    bases = make_bases(construction, ranks, streams[0])
    after_bases = matrix.entries
    sampled = method.inner == "sampled" and not method.paper
    draft = (sketched_draft if sampled else draft_of_vectors)(construction, bases, streams[1])
    if not method.paper:
        draft = semidefinite_draft(matrix.double, draft, sum(float(basis.residuals[-1]) for basis in bases), n_jobs)
    entries = Entries(after_bases - before, matrix.entries - after_bases, before)
    return assemble(matrix, partition, draft, entries, n_jobs, method.diagonal)


def sample_sizes(method: Method, n: int) -> SampleSizes:
    """Rows and columns that bases of given ranks are made from, among ``n`` points."""
    if method.sketched:
        return ACCURATE
    if method.sampling == "energy":
        return replace(ACCURATE, all_rows_size=n)
    every = n if method.sampling in ("exact", "diagonal-block") else 0
    # Algorithm 1 takes up to three columns for each unit of rank, in two iterations.
    return replace(ACCURATE, all_rows_size=n, columns=3, min_columns=every, landmarks=3)


# --- bases -----------------------------------------------------------------------------------------------------------


def make_bases(
    construction: Construction,
    ranks: IntArray,
    rng: np.random.Generator,
    *,
    selected: IntArray | None = None,
    least_gains: FloatArray | None = None,
    earlier: list[ClusterBasis] | None = None,
    keep_samples: bool = False,
) -> list[ClusterBasis]:
    """One basis for each cluster, or for the selected ones: first half of Algorithm 5.

    Parameters
    ----------
    construction : Construction
    ranks : ndarray of shape (n_clusters,)
    rng : Generator
    selected : ndarray, default=None
        Indices of the clusters whose bases are computed; None is all of them.
    least_gains : ndarray of shape (n_clusters,), default=None
        With it the ranks are first guesses: see `sketched_basis`.
    earlier : list of ClusterBasis, default=None
        Earlier bases of all clusters, whose samples are used again.
    keep_samples : bool, default=False
        Whether bases keep the entries that they were sketched from, up to `KEPT_ENTRIES` in all.
    """
    matrix, partition = construction.matrix, construction.partition
    method, sizes = construction.method, construction.sizes
    streams = rng.spawn(partition.n_clusters)
    pool = None
    if method.sampling == "pooled":
        pool = column_pool(matrix.double, partition, int(ranks.max()), rng, construction.n_jobs)
    max_kept = KEPT_ENTRIES // partition.n_clusters if keep_samples else 0

    def make_basis(i: int) -> ClusterBasis:
        cluster, rank = partition.cluster(i), int(ranks[i])
        if rank >= cluster.stop - cluster.start:
            return identity_basis(matrix, partition, i, streams[i])
        if method.sketched:
            least_gain = None if least_gains is None else float(least_gains[i])
            sample = None if earlier is None else earlier[i].block
            basis = sketched_basis(matrix, partition, i, rank, sizes, streams[i], least_gain=least_gain, earlier=sample)
            kept = basis.block is None or basis.block.kernel_block.size <= max_kept
            return basis if kept else replace(basis, block=None)
        columns = draw_columns(
            matrix.double if method.paper else matrix, cluster, partition, rank, method, pool, streams[i]
        )
        if method.paper:
            return paper_basis(matrix, cluster, columns, rank, streams[i])
        block = sampling.evaluate_block(matrix, cluster, np.arange(cluster.start, cluster.stop), columns)
        sketch = sketch_block(matrix, block, rank, sizes, streams[i])
        return basis_of_sketch(sketch, rank, sizes, streams[i], singular_vectors=True)

    indices = range(partition.n_clusters) if selected is None else selected.tolist()
    counter = matrix.counter if earlier is None else None  # earlier samples stay in this process
    return map_threads(make_basis, [(i,) for i in indices], construction.n_jobs, "bases", counter)


def draw_columns(
    matrix: KernelMatrix,
    cluster: slice,
    columns: Partition,
    rank: int,
    method: Method,
    pool: IntArray | None,
    rng: np.random.Generator,
) -> sampling.ColumnSample:
    """Columns of a cluster by the sampling of the method."""
    if method.sampling == "energy":
        return sampling.energy_sampling(matrix, cluster, columns, ACCURATE.columns * rank, rng)
    if method.sampling == "uniform":
        return sampling.uniform_sampling(matrix, sampling.PLAIN_COLUMNS_PER_RANK * rank, rng)
    if method.sampling == "leverage":
        return sampling.leverage_sampling(matrix, cluster, rank, sampling.PLAIN_COLUMNS_PER_RANK * rank, rng)
    if method.sampling == "exact":
        return sampling.every_column(matrix)
    if method.sampling == "diagonal-block":
        return sampling.own_columns(cluster)
    return randomized_sampling(matrix, cluster, rank, rng, candidates=pool)


# --- inner matrix ----------------------------------------------------------------------------------------------------


def sketched_draft(
    construction: Construction,
    bases: list[ClusterBasis],
    rng: np.random.Generator,
    kept: NDArray[np.bool_] | None = None,
    known: tuple[Draft, NDArray[np.bool_]] | None = None,
) -> Draft:
    """Inner matrix from one set of rows for each cluster.

    Parameters
    ----------
    construction : Construction
    bases : list of ClusterBasis
    rng : Generator
    kept : ndarray of shape (k, k), default=None
        Mask of the pairs of clusters whose blocks are computed; None follows from the method's cutoff.
    known : tuple of Draft and mask, default=None
        An earlier draft, and the clusters whose bases have not changed since.
    """
    matrix, streams = construction.matrix, rng.spawn(len(bases))

    def make_coordinates(i: int) -> Coordinates:
        if known is not None and known[1][i]:
            return known[0].coordinates[i]
        return coordinates_of(matrix, bases[i], construction.sizes, streams[i])

    coordinates = construction.map_clusters(make_coordinates, "cores")

    def make_inner(kept_pairs: NDArray[np.bool_]) -> InnerMatrix:
        earlier = None if known is None else (known[0].inner, known[1])
        return sampled_inner(matrix, coordinates, kept_pairs, construction.n_jobs, earlier)

    inner, cutoff = _cut_off(construction, [each.core for each in coordinates], make_inner, kept)
    return Draft(bases, coordinates, inner, cutoff)


def draft_of_vectors(construction: Construction, bases: list[ClusterBasis], rng: np.random.Generator) -> Draft:
    """Inner matrix of bases known on all points: exact, or as in Algorithm 5."""
    matrix, partition, method = construction.matrix, construction.partition, construction.method
    streams = rng.spawn(partition.n_clusters)

    def block(i: int, j: int) -> FloatArray:
        if method.inner == "exact":
            U, V = bases[i].vectors, bases[j].vectors
            assert U is not None and V is not None
            return exact_block(matrix, partition.cluster(i), U, partition.cluster(j), V)
        return pairwise_block(matrix, bases[i], bases[j], streams[i])

    def make_core(i: int) -> FloatArray:
        core = block(i, i)
        if bases[i].diagonal.any():
            U = bases[i].vectors
            assert U is not None
            core = core - (U * bases[i].diagonal[:, np.newaxis]).T @ U
        return semidefinite_part(symmetric(core)) if method.diagonal else symmetric(core)

    cores = construction.map_clusters(make_core, "cores")

    def make_inner(kept: NDArray[np.bool_]) -> InnerMatrix:
        def row(i: int) -> dict[int, FloatArray]:
            columns = i + 1 + np.flatnonzero(kept[i, i + 1 :])
            return {i: cores[i]} | {int(j): block(i, int(j)) for j in columns}

        rows = construction.map_clusters(row, "inner matrix")
        return inner_of_blocks([len(core) for core in cores], rows)

    inner, cutoff = _cut_off(construction, cores, make_inner)
    return Draft(bases, [], inner, cutoff)


def _cut_off(
    construction: Construction,
    cores: list[FloatArray],
    make_inner: Callable[[NDArray[np.bool_]], InnerMatrix],
    kept: NDArray[np.bool_] | None = None,
) -> tuple[InnerMatrix, Cutoff | None]:
    """C of the kept pairs without its smallest blocks, and the error of the dropped ones, within the method's cutoff.

    The cutoff is relative to the norm of the diagonal blocks.
    """
    norm = float(np.sqrt(sum(float((core**2).sum()) for core in cores)))
    cutoff, error = construction.method.cutoff, 0.0
    budget = 0.0 if cutoff is None else (cutoff * norm) ** 2
    if kept is None:
        kept, error = near_pairs(construction.matrix, construction.partition, budget)
    inner, error = drop_small_blocks(make_inner(kept), budget, error)
    return inner, None if cutoff is None else Cutoff(1 - inner.density, math.sqrt(error) / norm if norm else 0.0)


def semidefinite_draft(
    matrix: KernelMatrix, draft: Draft, error: float, n_jobs: int, share: float = SHIFT_SHARE
) -> Draft:
    """The draft with C positive semi-definite, unless blocks were dropped by a cutoff.

    ``error`` is the squared error that the draft has or may have; a multiple of the identity may add ``share`` of it.
    """
    # C of all blocks, with no diagonal part subtracted, is semi-definite up to rounding.
    exact = matrix.dtype == np.float64 and draft.inner.full
    if (exact and not draft.has_diagonal) or (draft.cutoff is not None and draft.cutoff.dropped):
        return draft
    inner = semidefinite_inner(draft.inner, float(np.finfo(matrix.dtype).eps), share * error, n_jobs)
    return draft if inner is draft.inner else replace(draft, inner=inner)


def shift_reserve(draft: Draft) -> float:
    """Share of the allowed squared error to reserve for a multiple of the identity that C may need."""
    indefinite = draft.inner.density < 1 or draft.has_diagonal
    return 1.5 * SHIFT_SHARE if indefinite and draft.inner.shape[0] > DECOMPOSED else 0.0


# --- the pass over the points ----------------------------------------------------------------------------------------


def assemble(
    matrix: KernelMatrix,
    partition: Partition,
    draft: Draft,
    entries: Entries,
    n_jobs: int,
    diagonal: bool,
    error_estimate: ErrorEstimate | None = None,
) -> BlockBasis:
    """The operator of a draft: U evaluated at all points and orthonormalised, C and the extensions with it, and D.

    Parameters
    ----------
    matrix, partition, draft, n_jobs
    entries : Entries
        Entries evaluated before; those of the pass over the points are added to the entries of the bases.
    diagonal : bool
        Whether D is carried.
    error_estimate : ErrorEstimate, default=None
    """
    before = matrix.entries
    double = matrix.double  # coefficients of directions of low energy are large and amplify the rounding of entries
    U = BlockDiagonal.empty(partition, draft.ranks, matrix.dtype)
    approximated = np.empty(partition.n_points)  # diagonal of U C Uᵀ

    def evaluate(i: int) -> FloatArray | None:
        basis, cluster = draft.bases[i], partition.cluster(i)
        core = draft.inner.block(i, i)
        if basis.vectors is not None:
            U.block(i)[...] = basis.vectors
            approximated[cluster] = diagonal_of(basis.vectors, core)
            return None
        values = np.empty((basis.size, basis.rank)) if matrix.dtype != np.float64 else U.block(i)
        kernel_diagonal = matrix.diagonal(cluster)
        for rows in ranges(0, basis.size, max(1, _PASS_ENTRIES // len(basis.landmarks))):
            points = slice(cluster.start + rows.start, cluster.start + rows.stop)
            values[rows] = basis.evaluate(double, points)
            approximated[points] = limit_rows(values[rows], core, kernel_diagonal[rows].astype(np.float64))
        factor = orthonormalize(values)
        if matrix.dtype != np.float64:
            U.block(i)[...] = values
        return factor

    factors = map_threads(evaluate, [(i,) for i in range(partition.n_clusters)], n_jobs, "points")
    inner = transformed_inner(draft.inner, factors)
    extensions = [_extension(matrix, basis, factor) for basis, factor in zip(draft.bases, factors, strict=True)]
    diagonal_part = None
    if diagonal:
        exact = np.concatenate([matrix.diagonal(cluster) for cluster in partition.clusters]).astype(np.float64)
        diagonal_part = np.empty(partition.n_points, dtype=matrix.dtype)
        diagonal_part[partition.order] = np.maximum(exact - approximated, 0)
    return BlockBasis(
        kernel=matrix.kernel,
        basis=U.freeze(),
        inner=inner.astype(matrix.dtype),
        diagonal_part=diagonal_part,
        extensions=tuple(extensions),
        entries=replace(entries, bases=entries.bases + matrix.entries - before),
        cutoff=draft.cutoff,
        error_estimate=error_estimate,
    )


def orthonormalize(values: FloatArray) -> FloatArray:
    """Make the columns of ``values`` orthonormal, in place; return R with old values = new values R.

    R is the Cholesky factor of the Gram matrix, or that of a QR factorization where columns are dependent or vanish.
    """
    try:
        factor = linalg.cholesky(values.T @ values, check_finite=False)
        pivots = np.diagonal(factor)
        well_conditioned = bool(pivots.max() <= _ILL_CONDITIONED * pivots.min())
    except linalg.LinAlgError:
        well_conditioned = False
    if not well_conditioned:
        values[...], triangle = np.linalg.qr(values)
        return np.asarray(triangle)
    for rows in ranges(0, len(values), max(1, _PASS_ENTRIES // values.shape[1])):
        values[rows] = linalg.solve_triangular(factor, values[rows].T, trans=1, check_finite=False).T
    return np.asarray(factor)


def _extension(matrix: KernelMatrix, basis: ClusterBasis, factor: FloatArray | None) -> Extension:
    """Landmarks and coefficients of the orthonormalised basis functions."""
    coefficients = basis.coefficients
    if factor is not None:
        pivots = np.abs(np.diagonal(factor))
        if pivots.min() > np.finfo(np.float64).eps * pivots.max():
            coefficients = linalg.solve_triangular(factor, coefficients.T, trans=1, check_finite=False).T
        else:  # directions that vanish on the points have no extension
            coefficients = coefficients @ np.linalg.pinv(factor)
    return Extension(matrix.columns[basis.landmarks], coefficients.astype(matrix.dtype))
