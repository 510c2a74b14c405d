"""A factorization checked against kernel entries it has not used, and cut to what its tolerance or budget needs.

The bases are nested and C is a small matrix, so the error of every choice of smaller ranks follows from the same few
exact rows: with p = k U, the squared norm of k - c Uᵀ is that of k - p Uᵀ, which is computed once, and that of p - c.
Only what D makes exact is subtracted, so that errors are known down to rounding times the diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.linalg import eigsh

from blockbasis._parallel import map_threads
from blockbasis._typing import FloatArray, IntArray
from blockbasis.accuracy import ErrorEstimate
from blockbasis.basis import ClusterBasis
from blockbasis.extension import Extension
from blockbasis.inner import InnerMatrix, groups
from blockbasis.matrix import KernelMatrix
from blockbasis.partition import Partition
from blockbasis.ranks import Market, residual
from blockbasis.settling import Spectrum, diagonal_of, regained_by_diagonal

#: Rows checked; all of them when the points are few.
_CHECK_ROWS = 2048
_FEW_POINTS = 4096
_ROWS_PER_CLUSTER = 2
#: Clusters whose products of check rows are held at once.
_AT_ONCE = 4
#: A squared spectral norm is computed to this precision, and raised by this when it comes from some rows only.
_SPECTRAL_PRECISION = 1e-4
_SPECTRAL_MARGIN = 1.1


@dataclass(frozen=True)
class CheckRows:
    """Exact rows of one cluster against every basis.

    Parameters
    ----------
    rows : ndarray of shape (m,)
        Counted inside the cluster.
    weight : float
        Rows that each of them stands for.
    norms : ndarray of shape (m,)
        Squared norm of each exact row.
    own : ndarray of shape (m,)
        k(x, x).
    projections : ndarray of shape (m, R)
        Exact rows times U.
    outside : ndarray of shape (m,)
        Squared norm of what U cannot hold of each exact row.
    """

    rows: IntArray
    weight: float
    norms: FloatArray
    own: FloatArray
    projections: FloatArray
    outside: FloatArray


@dataclass(frozen=True)
class Measured:
    """Squared error and squared norm of the whole matrix, from check rows."""

    error: float
    error_stderr: float
    norm: float
    per_cluster: FloatArray
    exact: bool

    def upper(self, deviations: float) -> float:
        """A squared error that the true one stays below."""
        return self.error + deviations * self.error_stderr

    def relative(self) -> ErrorEstimate:
        """Relative error with its standard error."""
        if self.norm == 0:
            return ErrorEstimate(0.0, 0.0, self.exact)
        value = math.sqrt(max(self.error, 0.0) / self.norm)
        return ErrorEstimate(value, self.error_stderr / (2 * value * self.norm) if value else 0.0, self.exact)


def n_check_rows(n: int) -> int:
    """Rows to check of a matrix of ``n`` rows."""
    return n if n <= _FEW_POINTS else _CHECK_ROWS


def draw_check_rows(
    matrix: KernelMatrix,
    partition: Partition,
    bases: Sequence[ClusterBasis],
    rng: np.random.Generator,
    n_jobs: int,
) -> list[CheckRows]:
    """Exact rows from every cluster: half of them where points are, half where error is expected."""
    n = partition.n_points
    wanted = n_check_rows(n)
    expected = np.sqrt([size * _expected_error(basis) for size, basis in zip(partition.sizes, bases, strict=True)])
    share = partition.sizes / n / 2 + (expected / expected.sum() / 2 if expected.sum() > 0 else partition.sizes / n / 2)
    counts = np.minimum(np.maximum(np.rint(wanted * share).astype(int), _ROWS_PER_CLUSTER), partition.sizes)
    if wanted == n:
        counts = partition.sizes

    def one(i: int, stream: np.random.Generator) -> CheckRows:
        size, count = int(partition.sizes[i]), int(counts[i])
        rows = np.sort(stream.choice(size, count, replace=False))
        at = partition.cluster(i).start + rows
        norms, outside = np.zeros(count), np.zeros(count)
        pieces = []
        for group in groups(partition.sizes.tolist(), count):
            edges = partition.starts[group.start : group.stop + 1]
            strip = matrix.block(at, slice(int(edges[0]), int(edges[-1])))
            norms += np.einsum("ij,ij->i", strip, strip, dtype=np.float64)
            blocks = np.split(strip, edges[1:-1] - edges[0], axis=1)
            for block, basis in zip(blocks, bases[group], strict=True):
                U = basis.vectors.astype(np.float64, copy=False)
                pieces.append(block @ U)
                outside += np.einsum("ij->i", (block - pieces[-1] @ U.T) ** 2)
        own = matrix.diagonal(partition.cluster(i))[rows].astype(np.float64)
        return CheckRows(rows, size / count, norms, own, np.concatenate(pieces, axis=1), outside)

    return map_threads(one, list(enumerate(rng.spawn(partition.n_clusters))), n_jobs, "check")


def _expected_error(basis: ClusterBasis) -> float:
    return 0.0 if basis.spectrum is None else residual(basis.spectrum, basis.vectors.shape[1])


def measure(
    checks: Sequence[CheckRows],
    bases: Sequence[ClusterBasis],
    inner: FloatArray,
    ranks: IntArray,
    *,
    diagonal: bool,
) -> Measured:
    """Error at the given ranks, none above those of the bases; ``inner`` is C as a dense array."""
    full = np.array([basis.vectors.shape[1] for basis in bases])
    offsets = np.concatenate(([0], np.cumsum(full)))
    kept = _kept_coordinates(bases, ranks)
    totals, variances, norms = np.zeros(len(bases)), np.zeros(len(bases)), np.zeros(len(bases))
    for i, (check, basis, rank) in enumerate(zip(checks, bases, ranks, strict=True)):
        u = basis.vectors[check.rows, :rank].astype(np.float64)
        own_columns = slice(offsets[i], offsets[i] + rank)
        row = u @ inner[own_columns][:, kept]
        missed = check.projections.copy()
        missed[:, kept] -= row
        errors = check.outside + np.einsum("ij,ij->i", missed, missed)
        if diagonal:  # D makes the own entry exact, unless U C Uᵀ is above it already
            left = check.own - diagonal_of(u, inner[own_columns, own_columns])
            errors -= np.maximum(left, 0) ** 2
        errors = np.maximum(errors, 0)
        totals[i] = check.weight * errors.sum()
        norms[i] = check.weight * check.norms.sum()
        if check.weight > 1 and len(errors) > 1:
            variances[i] = check.weight**2 * len(errors) * errors.var(ddof=1) * (1 - 1 / check.weight)
    every = all(check.weight == 1 for check in checks)
    return Measured(float(totals.sum()), math.sqrt(variances.sum()), float(norms.sum()), totals, every)


# --- the largest error of any direction ------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowProducts:
    """Inner products of the check rows of all clusters, in the order of the clusters.

    Parameters
    ----------
    outside : ndarray of shape (m, m)
        Of what U cannot hold of them.
    block : ndarray of shape (m, m)
        The exact matrix between the check rows' points.
    """

    outside: FloatArray
    block: FloatArray


def row_products(
    matrix: KernelMatrix,
    partition: Partition,
    bases: Sequence[ClusterBasis],
    checks: Sequence[CheckRows],
    n_jobs: int,
) -> RowProducts:
    """Products of the check rows with each other, a few clusters of columns at a time."""
    clusters = partition.clusters
    at = np.concatenate([cluster.start + check.rows for cluster, check in zip(clusters, checks, strict=True)])

    def one(i: int) -> tuple[FloatArray, FloatArray]:
        strip = matrix.block(at, clusters[i]).astype(np.float64)
        seen = strip[:, checks[i].rows]
        U = bases[i].vectors.astype(np.float64, copy=False)
        strip -= (strip @ U) @ U.T
        return strip @ strip.T, seen

    outside, columns = np.zeros((len(at), len(at))), []
    for start in range(0, len(clusters), _AT_ONCE):  # added up in one order, whatever the threads do
        tasks = [(i,) for i in range(start, min(start + _AT_ONCE, len(clusters)))]
        for products, seen in map_threads(one, tasks, n_jobs):
            outside += products
            columns.append(seen)
    return RowProducts(outside, np.concatenate(columns, axis=1))


def spectral_error(
    products: RowProducts,
    checks: Sequence[CheckRows],
    bases: Sequence[ClusterBasis],
    inner: FloatArray,
    ranks: IntArray,
    *,
    diagonal: bool,
) -> float:
    """Squared spectral norm of the error at the given ranks, from the check rows E_S of E.

    The mean of E_Sᵀ W E_S over draws is EᵀE, W the rows that each row stands for, and the largest eigenvalue is convex:
    from some rows the figure is too large on average, and a margin is for its scatter; from all of them it is exact.
    """
    kept, row, u = _approximate_rows(checks, bases, inner, ranks)
    missed = np.concatenate([check.projections for check in checks])
    missed[:, kept] -= row
    gram = products.outside + missed @ missed.T
    if diagonal:  # the own entries, at right angles to nothing: taken out of the products one by one
        error = products.block - row @ u.T
        own = np.maximum(np.diagonal(error), 0)
        crossed = error * own
        gram -= crossed + crossed.T
        gram[np.diag_indices_from(gram)] += own**2
    weights = np.sqrt(np.concatenate([np.full(len(check.rows), check.weight) for check in checks]))
    gram *= weights[:, np.newaxis] * weights
    if not gram.any():
        return 0.0
    (largest,) = eigsh(gram, 1, tol=_SPECTRAL_PRECISION, v0=weights, return_eigenvectors=False)
    return max(float(largest), 0.0) * (1.0 if (weights == 1).all() else _SPECTRAL_MARGIN)


def _approximate_rows(
    checks: Sequence[CheckRows], bases: Sequence[ClusterBasis], inner: FloatArray, ranks: IntArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Coordinates that ``ranks`` keep, the check rows of U C in them, and those of U."""
    kept = _kept_coordinates(bases, ranks)
    edges = np.concatenate(([0], np.cumsum(ranks)))
    u = np.zeros((sum(len(check.rows) for check in checks), len(kept)))
    top = 0
    for check, basis, start, stop in zip(checks, bases, edges[:-1], edges[1:], strict=True):
        u[top : top + len(check.rows), start:stop] = basis.vectors[check.rows, : stop - start]
        top += len(check.rows)
    return kept, u @ inner[np.ix_(kept, kept)], u


def _kept_coordinates(bases: Sequence[ClusterBasis], ranks: IntArray) -> IntArray:
    offsets = np.concatenate(([0], np.cumsum([basis.vectors.shape[1] for basis in bases])))
    return np.concatenate([offset + np.arange(rank) for offset, rank in zip(offsets[:-1], ranks, strict=True)])


# --- smaller ranks ---------------------------------------------------------------------------------------------------


def market_of(bases: Sequence[ClusterBasis], inner: FloatArray, *, diagonal: bool) -> Market:
    """All clusters, each basis vector valued by the energy that it holds of the matrix in C, rows and columns."""
    edges = np.cumsum([0] + [basis.vectors.shape[1] for basis in bases])
    energies = np.einsum("ij,ij->i", inner, inner)
    spectra = []
    for basis, start, stop in zip(bases, edges[:-1], edges[1:], strict=True):
        core = inner[start:stop, start:stop]
        squares = core**2
        # Its row and column of its own block, up to itself: what is behind it is given up before.
        own = 2 * np.triu(squares, 1).sum(axis=0) + np.diagonal(squares)
        counted = 2 * (energies[start:stop] - squares.sum(axis=1)) + own
        regained = regained_by_diagonal(basis.vectors, core) if diagonal else np.zeros(stop - start)
        spectra.append(Spectrum(counted, tail=0.0, own_share=1.0, norm=0.0, regained=regained))
    sizes = np.array([basis.vectors.shape[0] for basis in bases])
    return Market(int(sizes.sum()), sizes, np.ones(len(bases)), spectra, diagonal)


def smallest_within(market: Market, enough: Callable[[IntArray], bool]) -> IntArray:
    """The ranks of least memory that are ``enough``."""
    price = market.price_within(enough)
    return market.ranks(0.0 if price is None else price)


def cut_bases(bases: Sequence[ClusterBasis], ranks: IntArray) -> list[ClusterBasis]:
    """The leading ``ranks`` vectors of every cluster."""
    return [_cut(basis, int(rank)) for basis, rank in zip(bases, ranks, strict=True)]


def _cut(basis: ClusterBasis, rank: int) -> ClusterBasis:
    if rank == basis.vectors.shape[1]:
        return basis
    extension = basis.extension
    if extension is not None:
        extension = Extension(extension.points, np.ascontiguousarray(extension.coefficients[:, :rank]))
    return replace(basis, vectors=np.ascontiguousarray(basis.vectors[:, :rank]), extension=extension)


def cut_inner(inner: InnerMatrix, ranks: IntArray) -> InnerMatrix:
    """C of the leading ``ranks`` vectors of every cluster."""
    offsets = np.concatenate(([0], np.cumsum(ranks))).astype(np.intp)
    panels = tuple(
        np.concatenate([inner.block(i, int(j))[: ranks[i], : ranks[j]] for j in kept], axis=1)
        for i, kept in enumerate(inner.kept)
    )
    return InnerMatrix(offsets, offsets, inner.kept, panels, inner.symmetric)
