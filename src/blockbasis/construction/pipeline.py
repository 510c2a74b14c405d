"""From ranks to a factorization: bases of all clusters, inner matrix, one pass over the points, operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from blockbasis._linalg import diagonal_of
from blockbasis._parallel import map_threads
from blockbasis._typing import FloatArray, IntArray
from blockbasis.construction import sampling as sample
from blockbasis.construction.cluster_basis import (
    ClusterBasis,
    basis_of_sketch,
    sketch_block,
    sketched_basis,
    whole_basis,
)
from blockbasis.construction.diagonal import limit_rows
from blockbasis.construction.inner_matrix import (
    Coordinates,
    coordinates_of,
    cutoff_record,
    definite_core,
    drop_small_blocks,
    exact_block,
    far_pairs,
    inner_of_blocks,
    sampled_inner,
    transformed_inner,
    truncated_inner,
)
from blockbasis.construction.method import ACCURATE, KEPT_ENTRIES, Method, SampleSizes
from blockbasis.construction.paper import pairwise_block, paper_basis, pool_of_cluster, randomized_sampling
from blockbasis.construction.sampled_block import evaluate_block
from blockbasis.construction.semidefinite import DECOMPOSED, semidefinite_inner
from blockbasis.matrix import KernelMatrix
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.entries import Entries
from blockbasis.operators.error_estimate import ErrorEstimate
from blockbasis.operators.extension import Extension
from blockbasis.operators.inner import Cutoff, InnerMatrix
from blockbasis.partition import Partition

#: Kernel entries that are evaluated at once in the pass over the points: they stay in a core's cache.
_PASS_ENTRIES = 2**18
#: A Gram matrix whose Cholesky factor has a diagonal with a larger quotient costs too many digits.
_ILL_CONDITIONED = 1e3
#: Share of the squared error that a multiple of the identity may add to an indefinite C.
_SHIFT_SHARE = 2e-2


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
    cut : Cutoff or None
        What was cut off, where that was asked for.
    """

    bases: list[ClusterBasis]
    coordinates: list[Coordinates]
    inner: InnerMatrix
    cut: Cutoff | None = None

    @property
    def ranks(self) -> IntArray:
        return np.array([basis.rank for basis in self.bases], dtype=np.intp)

    def truncated(self, ranks: IntArray) -> Draft:
        """The leading functions of every cluster."""
        if (ranks == self.ranks).all():
            return self
        bases = [basis.truncated(int(rank)) for basis, rank in zip(self.bases, ranks, strict=True)]
        return Draft(bases, [], truncated_inner(self.inner, ranks), self.cut)

    def without_samples(self) -> Draft:
        """The draft without the entries that its bases were sketched from."""
        return replace(self, bases=[basis.without_sample() for basis in self.bases])


def factorize_with_ranks(
    matrix: KernelMatrix,
    partition: Partition,
    ranks: IntArray,
    method: Method,
    streams: tuple[np.random.Generator, np.random.Generator],
    n_jobs: int,
) -> BlockBasis:
    """Algorithm 5, by the method's choices: bases, then the inner matrix, then the operator."""
    of_bases, of_inner = streams
    before = matrix.entries
    bases = make_bases(matrix.double, partition, ranks, method, ACCURATE, of_bases, n_jobs)
    for_bases = matrix.entries
    if method.sketched:
        draft = sketched_draft(matrix.double, partition, bases, method, ACCURATE, of_inner, n_jobs)
    else:
        draft = draft_of_vectors(matrix.double, partition, bases, method, of_inner, n_jobs)
    if not method.paper:
        draft = semidefinite_draft(matrix.double, draft, sum(float(basis.residuals[-1]) for basis in bases))
    for_inner = matrix.entries - for_bases
    return assemble(matrix, partition, draft, Entries(for_bases - before, for_inner, before), n_jobs, method.diagonal)


def sample_sizes(method: Method, n: int) -> SampleSizes:
    """Rows and columns that bases of given ranks are made from, among ``n`` points."""
    if method.sketched:
        return ACCURATE
    if method.sampling == "energy":
        return replace(ACCURATE, whole=n)
    every = n if method.sampling in ("exact", "diagonal-block") else 0
    # Algorithm 1 takes up to three columns for each unit of rank, in two iterations.
    return replace(ACCURATE, whole=n, columns=3, least_columns=every, landmarks=3)


# --- bases -----------------------------------------------------------------------------------------------------------


def make_bases(
    matrix: KernelMatrix,
    partition: Partition,
    ranks: IntArray,
    method: Method,
    sizes: SampleSizes,
    rng: np.random.Generator,
    n_jobs: int,
    chosen: IntArray | None = None,
    least_gains: FloatArray | None = None,
    earlier: list[ClusterBasis] | None = None,
    keep_samples: bool = False,
) -> list[ClusterBasis]:
    """One basis for each cluster, or for the chosen ones: first half of Algorithm 5.

    With ``least_gains``, one for each cluster, the ranks are first guesses: see `sketched_basis`. The samples of
    ``earlier`` bases, one for each cluster, are used again. With ``keep_samples``, bases keep what they were sketched
    from, as far as it is small.
    """
    streams = rng.spawn(partition.n_clusters)
    pool = _pool(matrix, partition, ranks, rng, n_jobs) if method.sampling == "pooled" else None

    def one(i: int) -> ClusterBasis:
        cluster, rank = partition.cluster(i), int(ranks[i])
        if rank >= cluster.stop - cluster.start:
            return whole_basis(matrix, partition, i, streams[i])
        if method.sketched:
            least = None if least_gains is None else float(least_gains[i])
            block, diagonal = None if earlier is None else earlier[i].block, method.diagonal
            basis = sketched_basis(
                matrix, partition, i, rank, sizes, streams[i], diagonal=diagonal, least_gain=least, earlier=block
            )
            most = KEPT_ENTRIES // partition.n_clusters if keep_samples else 0
            return basis if basis.block is None or basis.block.kernel_block.size <= most else basis.without_sample()
        seen = matrix.double if method.paper else matrix
        columns = draw_columns(seen, cluster, partition, rank, method, pool, streams[i])
        if method.paper:
            return paper_basis(matrix, cluster, columns, rank, streams[i])
        block = evaluate_block(matrix, cluster, np.arange(cluster.start, cluster.stop), columns)
        sketch = sketch_block(matrix, block, rank, sizes, streams[i], diagonal=method.diagonal)
        return basis_of_sketch(sketch, rank, sizes, streams[i], singular_vectors=True)

    todo = range(partition.n_clusters) if chosen is None else chosen.tolist()
    return map_threads(one, [(i,) for i in todo], n_jobs, "bases")


def draw_columns(
    matrix: KernelMatrix,
    cluster: slice,
    columns: Partition,
    rank: int,
    method: Method,
    pool: IntArray | None,
    rng: np.random.Generator,
) -> sample.ColumnSample:
    """Columns of a cluster by the method's sampling."""
    sampling = method.sampling
    if sampling == "energy":
        return sample.energy_sampling(matrix, cluster, columns, ACCURATE.columns * rank, rng)
    if sampling == "uniform":
        return sample.uniform_sampling(matrix, sample.PLAIN_COLUMNS_PER_RANK * rank, rng)
    if sampling == "leverage":
        return sample.leverage_sampling(matrix, cluster, rank, sample.PLAIN_COLUMNS_PER_RANK * rank, rng)
    if sampling == "exact":
        return sample.every_column(matrix)
    if sampling == "diagonal-block":
        return sample.own_columns(cluster)
    return randomized_sampling(matrix, cluster, rank, rng, candidates=pool)


def _pool(matrix: KernelMatrix, columns: Partition, ranks: IntArray, rng: np.random.Generator, n_jobs: int) -> IntArray:
    """Candidates of Algorithm 3: important points of every column cluster."""
    rank = int(ranks.max())
    tasks = [(matrix.double.T, columns.cluster(j), rank, own) for j, own in enumerate(rng.spawn(columns.n_clusters))]
    return np.concatenate(map_threads(pool_of_cluster, tasks, n_jobs, "pool of columns"))


# --- inner matrix ----------------------------------------------------------------------------------------------------


def sketched_draft(
    matrix: KernelMatrix,
    partition: Partition,
    bases: list[ClusterBasis],
    method: Method,
    sizes: SampleSizes,
    rng: np.random.Generator,
    n_jobs: int,
    kept: NDArray[np.bool_] | None = None,
    known: tuple[Draft, NDArray[np.bool_]] | None = None,
) -> Draft:
    """Inner matrix of sketched bases, from one set of rows for each cluster.

    Parameters
    ----------
    matrix, partition, bases, method, sizes, rng, n_jobs
        The factorization and its bases.
    kept : ndarray of shape (k, k), default=None
        Pairs of clusters whose blocks are computed; None leaves that to the method's cutoff.
    known : tuple of Draft and mask, default=None
        An earlier draft, and the clusters whose bases are unchanged since.
    """
    streams = rng.spawn(partition.n_clusters)

    def one(i: int) -> Coordinates:
        if known is not None and known[1][i]:
            return known[0].coordinates[i]
        return coordinates_of(matrix, bases[i], sizes, streams[i], diagonal=method.diagonal)

    coordinates = map_threads(one, [(i,) for i in range(partition.n_clusters)], n_jobs, "cores")
    norm = _norm_of(coordinates)
    budget = 0.0 if method.cutoff is None else (method.cutoff * norm) ** 2
    spent = 0.0
    if kept is None:
        kept, spent = far_pairs(matrix, partition, budget)
    earlier = None if known is None else (known[0].inner, known[1])
    inner = sampled_inner(matrix, coordinates, kept, n_jobs, earlier)
    inner, spent = drop_small_blocks(inner, budget, spent)
    cut = None if method.cutoff is None else cutoff_record(inner, spent, norm)
    return Draft(bases, coordinates, inner, cut)


def semidefinite_draft(matrix: KernelMatrix, draft: Draft, error: float) -> Draft:
    """The draft with C positive semi-definite, unless blocks were cut off at the caller's wish.

    ``error`` is the squared error that the draft has or may have.
    """
    # C of all blocks, with no diagonal part taken out, is semi-definite up to rounding.
    exact = matrix.dtype == np.float64 and draft.inner.full
    doubtful = not exact or any(basis.diagonal.any() for basis in draft.bases)
    if not doubtful or (draft.cut is not None and draft.cut.dropped):
        return draft
    inner = semidefinite_inner(draft.inner, float(np.finfo(matrix.dtype).eps), _SHIFT_SHARE * error)
    return draft if inner is draft.inner else replace(draft, inner=inner)


def shift_reserve(draft: Draft) -> float:
    """Share of the allowed squared error to leave for a multiple of the identity that C may need."""
    indefinite = draft.inner.density < 1 or any(basis.diagonal.any() for basis in draft.bases)
    return 1.5 * _SHIFT_SHARE if indefinite and draft.inner.shape[0] > DECOMPOSED else 0.0


def draft_of_vectors(
    matrix: KernelMatrix,
    partition: Partition,
    bases: list[ClusterBasis],
    method: Method,
    rng: np.random.Generator,
    n_jobs: int,
) -> Draft:
    """Inner matrix of bases known on all points: exact, or as in Algorithm 5, or from one set of rows per cluster."""
    if method.inner == "sampled" and not method.paper:
        return sketched_draft(matrix, partition, bases, method, ACCURATE, rng, n_jobs)
    streams = rng.spawn(partition.n_clusters)

    def block(i: int, j: int) -> FloatArray:
        if method.inner == "exact":
            U, V = bases[i].vectors, bases[j].vectors
            assert U is not None and V is not None
            return exact_block(matrix, partition.cluster(i), U, partition.cluster(j), V)
        return pairwise_block(matrix, bases[i], bases[j], streams[i])

    def core(i: int) -> FloatArray:
        own = block(i, i)
        if method.diagonal and bases[i].diagonal.any():
            U = bases[i].vectors
            assert U is not None
            own = own - (U * bases[i].diagonal[:, np.newaxis]).T @ U
        return definite_core(own, diagonal=method.diagonal)

    k = partition.n_clusters
    cores = map_threads(core, [(i,) for i in range(k)], n_jobs, "cores")
    norm = np.sqrt(sum(float((own**2).sum()) for own in cores))
    budget = 0.0 if method.cutoff is None else (method.cutoff * norm) ** 2
    kept, spent = far_pairs(matrix, partition, budget)

    def row(i: int) -> dict[int, FloatArray]:
        others = i + 1 + np.flatnonzero(kept[i, i + 1 :])
        return {i: cores[i]} | {int(j): block(i, int(j)) for j in others}

    rows = map_threads(row, [(i,) for i in range(k)], n_jobs, "inner matrix")
    inner, spent = drop_small_blocks(inner_of_blocks([len(own) for own in cores], rows), budget, spent)
    cut = None if method.cutoff is None else cutoff_record(inner, spent, float(norm))
    return Draft(bases, [], inner, cut)


def _norm_of(coordinates: Sequence[Coordinates]) -> float:
    """Norm of the diagonal blocks of C: a cutoff is relative to it."""
    return float(np.sqrt(sum(float((each.core**2).sum()) for each in coordinates)))


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

    ``entries`` counts what was evaluated before; the entries of the pass count for the bases.
    """
    before = matrix.entries
    seen = matrix.double  # coefficients of narrow directions are large: they amplify the rounding of entries
    U = BlockDiagonal.empty(partition, draft.ranks, matrix.dtype)
    held = np.empty(partition.n_points)

    def one(i: int) -> FloatArray | None:
        basis, cluster = draft.bases[i], partition.cluster(i)
        core = draft.inner.block(i, i)
        if basis.vectors is not None:
            U.block(i)[...] = basis.vectors
            held[cluster] = diagonal_of(basis.vectors, core)
            return None
        values = np.empty((basis.size, basis.rank)) if matrix.dtype != np.float64 else U.block(i)
        own_entries = matrix.diagonal(cluster)
        for start in range(0, basis.size, step := max(1, _PASS_ENTRIES // len(basis.landmarks))):
            rows = slice(start, min(start + step, basis.size))
            points = slice(cluster.start + rows.start, cluster.start + rows.stop)
            values[rows] = basis.evaluate(seen, points)
            held[points] = limit_rows(values[rows], core, own_entries[rows].astype(np.float64))
        factor = orthonormalize(values)
        if matrix.dtype != np.float64:
            U.block(i)[...] = values
        return factor

    factors = map_threads(one, [(i,) for i in range(partition.n_clusters)], n_jobs, "points")
    inner = transformed_inner(draft.inner, factors)
    extensions = [_extension(matrix, basis, factor) for basis, factor in zip(draft.bases, factors, strict=True)]
    part = None
    if diagonal:
        exact = np.concatenate([matrix.diagonal(cluster) for cluster in partition.clusters]).astype(np.float64)
        part = np.empty(partition.n_points, dtype=matrix.dtype)
        part[partition.order] = np.maximum(exact - held, 0)
    return BlockBasis(
        kernel=matrix.kernel,
        basis=U.freeze(),
        inner=inner.astype(matrix.dtype),
        diagonal_part=part,
        extensions=tuple(extensions),
        entries=Entries(entries.bases + matrix.entries - before, entries.inner, entries.planning),
        cutoff=draft.cut,
        error_estimate=error_estimate,
    )


def orthonormalize(values: FloatArray) -> FloatArray:
    """Make the columns of ``values`` orthonormal, in place; return R with the old values = new values R.

    By the Cholesky factor of the Gram matrix, or by Householder reflections where columns are dependent or vanish.
    """
    try:
        factor = linalg.cholesky(values.T @ values, check_finite=False)
        sizes = np.diagonal(factor)
        well_conditioned = bool(sizes.max() <= _ILL_CONDITIONED * sizes.min())
    except linalg.LinAlgError:
        well_conditioned = False
    if not well_conditioned:
        values[...], triangle = np.linalg.qr(values)
        return np.asarray(triangle)
    for start in range(0, len(values), step := max(1, _PASS_ENTRIES // values.shape[1])):
        rows = slice(start, start + step)
        values[rows] = linalg.solve_triangular(factor, values[rows].T, trans=1, check_finite=False).T
    return np.asarray(factor)


def _extension(matrix: KernelMatrix, basis: ClusterBasis, factor: FloatArray | None) -> Extension:
    coefficients = basis.coefficients
    if factor is not None:
        sizes = np.abs(np.diagonal(factor))
        if sizes.min() > np.finfo(np.float64).eps * sizes.max():
            coefficients = linalg.solve_triangular(factor, coefficients.T, trans=1, check_finite=False).T
        else:  # directions that vanish on the points have no continuation
            coefficients = coefficients @ np.linalg.pinv(factor)
    return Extension(matrix.columns[basis.landmarks], coefficients.astype(matrix.dtype))
