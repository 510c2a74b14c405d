"""The basis of a cluster, sketched from sampled rows and columns of its row-submatrix.

The basis functions of cluster i are y(x) = K(x, S_i) T_i for a few landmarks S_i. The leading left singular vectors V
of a sampled block B = K(I, J), columns J drawn by energy, show which functions hold most of the row-submatrix, and T_i
is fitted to V on the rows I. All of this is free of n. One pass over the cluster's points then evaluates
Y = K(X_i, S_i) T_i (`blockbasis.construction.pipeline`), and the same formula continues the basis to new points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from blockbasis._linalg import leading_eigenpairs, shifted_cholesky
from blockbasis._typing import FloatArray, Index, IntArray
from blockbasis.construction.coordinates import determining_rows, interpolate
from blockbasis.construction.diagonal import fit_core, unshared_diagonal
from blockbasis.construction.method import SampleSizes
from blockbasis.construction.sampling import ColumnSample, energy_sampling
from blockbasis.matrix import KernelMatrix, coincidences
from blockbasis.partition import Partition

#: Random directions beyond the rank, and power iterations, of a randomized singular value decomposition.
_OVERSAMPLING = 8
_POWER_ITERATIONS = 1
#: A random range wider than this part of the matrix gains nothing over the whole space.
_DIRECT = 3
#: The Gram matrix of the rows is computed where there are at most so many rows for each unit of rank.
_GRAM = 6
#: Energies of a Gram matrix below this share of the largest are rounding.
_GRAM_NOISE = 1e-14
#: Directions of singular values below so many roundings of the largest are not kept.
_NEGLIGIBLE = 10.0
#: A diagonal part is fitted where the diagonal has more than this share of the error that a basis leaves, and the basis
#: is computed again so many times with the diagonal part taken out.
_DIAGONAL_SHARE = 0.1
_DIAGONAL_ROUNDS = 3
_DIAGONAL_UPDATES = 6
#: Rows for each unit of rank that determine the core while the diagonal part is fitted.
_CORE_ROWS = 4
#: Part of the landmarks drawn by leverage; the others are drawn uniformly.
_LEVERAGE_SHARE = 0.8
#: Part of the rows drawn by squared distance from the centre: points unlike the others decide how far a basis carries.
_DISTANCE_SHARE = 0.5
#: Singular values below this share of the largest are left out of a least-squares fit.
_AMPLIFIED = 1e-8
#: A cluster that is kept whole draws at least so many landmarks from among all points.
_LEAST_OTHERS = 8
#: Added to the Gram matrix of the landmarks' columns, as a share of its trace: smaller directions are rounding.
_RIDGE = 1e-13
#: Where less than this share of the energy is missed, the difference of two norms has too few digits.
_CANCELLED = 1e-9
#: No diagonal part is wanted where the directions leave no more than this share of the diagonal's energy.
_NEARLY_NOTHING = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-8}


@dataclass(frozen=True)
class ClusterBasis:
    """Basis functions of one cluster, y(x) = K(x, landmarks) coefficients, known on some rows.

    Parameters
    ----------
    cluster : slice
        Range of the cluster's points.
    landmarks : ndarray of shape (m,)
        Indices of points.
    coefficients : ndarray of shape (m, r)
    landmark_diagonal : ndarray of shape (m,)
        What is taken off a landmark's kernel entry with itself.
    rows : ndarray of shape (n_rows,)
        Indices of the sampled rows.
    values : ndarray of shape (n_rows, r)
        y on the sampled rows, in the order of energy, scaled so that y is orthonormal over the whole cluster.
    diagonal : ndarray of shape (n_rows,)
        Diagonal part of the sampled rows.
    residuals : ndarray of shape (r + 1,)
        Squared error of the whole matrix that the cluster leaves at each rank, predicted.
    norm : float
        Squared norm of the row-submatrix, the diagonal part taken out.
    vectors : ndarray of shape (n_i, r) or None
        An orthonormal basis of all points, where it is known without evaluating y.
    """

    cluster: slice
    landmarks: IntArray
    coefficients: FloatArray
    landmark_diagonal: FloatArray
    rows: IntArray
    values: FloatArray
    diagonal: FloatArray
    residuals: FloatArray
    norm: float
    vectors: FloatArray | None = None

    @property
    def size(self) -> int:
        return int(self.cluster.stop - self.cluster.start)

    @property
    def rank(self) -> int:
        return int(self.values.shape[1])

    @property
    def scale(self) -> float:
        """Factor that makes the values orthonormal on the sampled rows."""
        return float(np.sqrt(self.size / len(self.rows)))

    def evaluate(self, matrix: KernelMatrix, points: Index) -> FloatArray:
        """Y at points of the matrix, in float64."""
        block = matrix.block(points, self.landmarks).astype(np.float64, copy=False)
        if self.landmark_diagonal.any():
            at = coincidences(points, self.landmarks)
            block[at] -= self.landmark_diagonal[at[1]]
        return np.asarray(block @ self.coefficients)

    def truncated(self, rank: int) -> ClusterBasis:
        """The leading ``rank`` functions."""
        if rank >= self.rank:
            return self
        return replace(
            self,
            coefficients=self.coefficients[:, :rank],
            values=self.values[:, :rank],
            residuals=self.residuals[: rank + 1],
            vectors=None if self.vectors is None else np.ascontiguousarray(self.vectors[:, :rank]),
        )


# --- sampled rows and columns ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SampledBlock:
    """B = K(rows, columns), scaled so that B Bᵀ estimates the row-submatrix times its transpose.

    Parameters
    ----------
    cluster : slice
    rows, columns : ndarray
        Indices of points.
    scales : ndarray of shape (n_columns,)
        Factors of the columns.
    kernel_block : ndarray of shape (n_rows, n_columns)
        Entries without the factors, float64.
    own_entries : ndarray of shape (n_rows,)
        k(x, x) of the rows.
    precision : dtype
        Of the kernel entries.
    """

    cluster: slice
    rows: IntArray
    columns: IntArray
    scales: FloatArray
    kernel_block: FloatArray
    own_entries: FloatArray
    precision: np.dtype[np.floating]

    @property
    def coincident(self) -> tuple[IntArray, IntArray]:
        """Positions at which a point meets itself."""
        return coincidences(self.rows, self.columns)

    @property
    def own_columns(self) -> FloatArray:
        """Mask of the columns that are points of the cluster."""
        return np.asarray((self.columns >= self.cluster.start) & (self.columns < self.cluster.stop))

    def without(self, diagonal: FloatArray) -> FloatArray:
        """B, the diagonal part of each row taken out of its entry with itself."""
        B = self.kernel_block * self.scales
        at = self.coincident
        B[at] -= diagonal[at[0]] * self.scales[at[1]]
        return B


def sample_block(
    matrix: KernelMatrix, partition: Partition, i: int, rank: int, sizes: SampleSizes, rng: np.random.Generator
) -> SampledBlock:
    """Rows and columns of cluster ``i`` for a basis of the given rank."""
    cluster = partition.cluster(i)
    rows = _sample_rows(matrix, cluster, rank, sizes, rng)
    n_columns = max(sizes.columns * rank, sizes.least_columns)
    columns = energy_sampling(matrix, cluster, partition, n_columns, rng, rows)
    block = evaluate_block(matrix, cluster, rows, columns)
    if n_columns < sizes.lonely_columns and _lonely(block):
        columns = energy_sampling(matrix, cluster, partition, sizes.lonely_columns, rng, rows)
        block = evaluate_block(matrix, cluster, rows, columns)
    return block


def evaluate_block(matrix: KernelMatrix, cluster: slice, rows: IntArray, columns: ColumnSample) -> SampledBlock:
    """The block of the given rows and columns."""
    factor = np.sqrt((cluster.stop - cluster.start) / len(rows))
    entries = matrix.block(rows, columns.columns).astype(np.float64, copy=False)
    own = matrix.diagonal(cluster)[rows - cluster.start].astype(np.float64)
    return SampledBlock(cluster, rows, columns.columns, columns.scales * factor, entries, own, matrix.dtype)


def _sample_rows(
    matrix: KernelMatrix, cluster: slice, rank: int, sizes: SampleSizes, rng: np.random.Generator
) -> IntArray:
    """All rows of a small cluster; of a large one some, half of them by distance from the centre."""
    size = cluster.stop - cluster.start
    count = max(sizes.rows * rank, sizes.least_rows)
    if size <= max(2 * count, sizes.whole):
        return np.arange(cluster.start, cluster.stop)
    points = matrix.rows[cluster]
    distances = np.einsum("ij,ij->i", *[points - points.mean(axis=0, dtype=np.float64)] * 2)
    total = float(distances.sum())
    chances = np.full(size, 1 / size)
    if total > 0:
        chances = (1 - _DISTANCE_SHARE) * chances + _DISTANCE_SHARE * distances / total
    return np.sort(cluster.start + rng.choice(size, count, replace=False, p=chances / chances.sum()))


def _lonely(block: SampledBlock) -> bool:
    """Whether the rows have less energy with other points than with themselves."""
    B = block.without(block.own_entries)
    size = block.cluster.stop - block.cluster.start
    return bool(np.einsum("ij,ij->", B, B) < size * np.mean(block.own_entries**2))


# --- directions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Directions:
    """Leading singular triplets: ``right`` holds Bᵀ vectors, not normalised, and ``energies`` the squared values."""

    vectors: FloatArray
    energies: FloatArray
    right: FloatArray

    def leading(self, count: int) -> Directions:
        return Directions(self.vectors[:, :count], self.energies[:count], self.right[:, :count])


def leading_directions(
    B: FloatArray,
    width: int,
    rng: np.random.Generator,
    start: FloatArray | None = None,
    *,
    single: bool = False,
    gram: FloatArray | None = None,
) -> Directions:
    """The ``width`` leading singular triplets of B, by a random range and a power iteration (the paper's Algorithm 4).

    ``start`` is a guess of the left singular vectors. A small matrix is decomposed whole. ``single`` works in float32,
    which is twice as fast and tells directions apart down to about 1e-6 of the largest. ``gram`` is B Bᵀ where it is
    known: the iteration then costs less where B has many columns.
    """
    if gram is not None:
        vectors, energies = _leading_eigenvectors(gram, min(width, *B.shape), rng, start)
        energies[energies < _GRAM_NOISE * energies[0]] = 0
        right = B.astype(np.float32).T @ vectors.astype(np.float32)
        return Directions(vectors, energies, right.astype(np.float64))
    B = B.astype(np.float32) if single else B
    height, length = B.shape
    width = min(width, height, length)
    if height <= _DIRECT * width and height <= length:
        range_ = np.eye(height, dtype=B.dtype)
    elif length <= _DIRECT * width:
        range_ = np.linalg.qr(B)[0]
    else:
        if start is None:
            range_ = np.linalg.qr(B @ rng.standard_normal((length, width), dtype=B.dtype.type))[0]
        else:
            range_ = start.astype(B.dtype)
        for _ in range(_POWER_ITERATIONS):
            range_ = np.linalg.qr(B @ (B.T @ range_))[0]
    projected = B.T @ range_
    small, energies = _right_rotation(projected, width)
    vectors, right = range_ @ small.astype(range_.dtype), projected @ small.astype(projected.dtype)
    return Directions(vectors.astype(np.float64, copy=False), energies, right.astype(np.float64, copy=False))


def _leading_eigenvectors(
    gram: FloatArray, width: int, rng: np.random.Generator, start: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Leading eigenvectors and eigenvalues of a Gram matrix, by the same iteration as `leading_directions`."""
    if len(gram) <= _DIRECT * width:
        range_ = np.eye(len(gram))
    else:
        range_ = rng.standard_normal((len(gram), width)) if start is None else start
        for _ in range(_POWER_ITERATIONS if start is not None else _POWER_ITERATIONS + 1):
            range_ = np.linalg.qr(gram @ range_)[0]
    values, rotation = leading_eigenpairs(range_.T @ gram @ range_, width)
    return range_ @ rotation, np.maximum(values, 0)


def _right_rotation(projected: FloatArray, width: int) -> tuple[FloatArray, FloatArray]:
    """The ``width`` leading right singular vectors of a tall matrix, and the squared singular values.

    Entries in float32 are squared in float64, which loses nothing and takes a third of the time of the factorization.
    """
    if projected.dtype == np.float32:
        tall = projected.astype(np.float64)
        values, vectors = leading_eigenpairs(tall.T @ tall, width)
        return vectors, np.maximum(values, 0)
    left, s, _ = np.linalg.svd(np.asarray(np.linalg.qr(projected, mode="r")).T)
    return left[:, :width], s[:width] ** 2


def resolved(directions: Directions, rank: int) -> Directions:
    """At most ``rank`` directions, those above rounding; at least one."""
    floor = (_NEGLIGIBLE * np.finfo(np.float64).eps) ** 2 * max(float(directions.energies[0]), np.finfo(float).tiny)
    return directions.leading(max(1, min(rank, int(np.count_nonzero(directions.energies > floor)))))


def directions_and_diagonal(
    matrix: KernelMatrix,
    block: SampledBlock,
    rank: int,
    rng: np.random.Generator,
    *,
    diagonal: bool,
    rounds: int,
    sizes: SampleSizes,
) -> tuple[Directions, FloatArray, FloatArray]:
    """Leading directions of a block, the diagonal part beside them, and B without it.

    Blocks of low rank cannot hold the diagonal of a kernel of small bandwidth, and a sampled column must not steer the
    basis by the one entry in which its point meets itself. Where that matters, basis and diagonal part are found in
    turn.
    """
    part = np.zeros(len(block.rows))
    width = rank + _OVERSAMPLING
    B = block.without(part)
    gram = B @ B.T if sizes.single and len(B) <= min(_GRAM * width, B.shape[1]) else None
    found = leading_directions(B, width, rng, single=sizes.single, gram=gram)
    if not diagonal or not _diagonal_matters(block, B, found.leading(rank), sizes.negligible):
        return found, part, B
    part = largest = unshared_diagonal(block.own_entries, block.kernel_block, block.coincident)
    start: FloatArray | None = None
    size = block.cluster.stop - block.cluster.start
    for _ in range(rounds):
        if gram is None:
            start = leading_directions(block.without(part), width, rng, start, single=sizes.single).vectors
        else:
            start, _ = _leading_eigenvectors(_gram_without(gram, B, block, part), width, rng, start)
        values = start[:, :rank] * np.sqrt(len(block.rows) / size)
        determining = determining_rows(values, _CORE_ROWS * values.shape[1], rng)
        at = block.rows[determining]
        scale = np.sqrt(size / len(block.rows))
        interpolation = interpolate(values * scale, determining) * scale
        entries = matrix.block(at, at)
        _, part = fit_core(
            entries, interpolation, determining, values, block.own_entries, part, largest, updates=_DIAGONAL_UPDATES
        )
    gram = None if gram is None else _gram_without(gram, B, block, part)
    B = block.without(part)
    return leading_directions(B, width, rng, start, single=sizes.single, gram=gram), part, B


def _gram_without(gram: FloatArray, B: FloatArray, block: SampledBlock, diagonal: FloatArray) -> FloatArray:
    """B Bᵀ after the diagonal part of each row is taken out of B; ``gram`` is B Bᵀ before."""
    rows, columns = block.coincident
    taken = diagonal[rows] * block.scales[columns]
    crossed = np.zeros_like(gram)
    crossed[rows] = taken[:, np.newaxis] * B[:, columns].T
    changed = gram - crossed - crossed.T
    changed[rows, rows] += taken**2
    return np.asarray(changed)


def _diagonal_matters(block: SampledBlock, B: FloatArray, found: Directions, negligible: float) -> bool:
    """Whether the diagonal has a share of the error that the directions leave, or that is allowed."""
    at = block.coincident
    if not at[0].size:
        return False
    norm = float(np.einsum("ij,ij->", B, B))
    rounding = float(np.finfo(np.float64).eps)  # of the difference
    left = max(norm - float(found.energies.sum()), max(negligible, rounding) * norm)
    held = np.einsum("ij,ij->i", found.vectors[at[0]], found.right[at[1]]) / block.scales[at[1]]
    missing = float(np.mean((block.own_entries[at[0]] - held) ** 2)) * (block.cluster.stop - block.cluster.start)
    nothing = _NEARLY_NOTHING[block.precision] * float(block.own_entries @ block.own_entries)
    return bool(missing > max(_DIAGONAL_SHARE * left, nothing))


def residual_profile(
    block: SampledBlock, B: FloatArray, vectors: FloatArray, right: FloatArray
) -> tuple[FloatArray, float]:
    """Squared error of the whole matrix at ranks 0, 1, ..., and the squared norm of B.

    A lost direction counts as a row and as a column, in the cluster's own block only once. ``right`` holds Bᵀ times the
    orthonormal ``vectors``.
    """
    own = block.own_columns
    columns = np.einsum("ij,ij->j", B, B)
    norm = float(columns.sum())
    missed = columns - np.einsum("ij,ij->i", right, right)
    if float(missed.sum()) < _CANCELLED * norm:
        rest = B - vectors @ right.T
        missed = np.einsum("ij,ij->j", rest, rest)
    left, own_left = (
        np.maximum(float(missed[mask].sum()), 0.0)
        + np.concatenate((np.cumsum(np.einsum("ij,ij->j", right[mask], right[mask])[::-1])[::-1], [0.0]))
        for mask in (slice(None), own)
    )
    return np.maximum(2 * left - own_left, 0), norm


# --- the basis -------------------------------------------------------------------------------------------------------


def sketched_basis(
    matrix: KernelMatrix,
    partition: Partition,
    i: int,
    rank: int,
    sizes: SampleSizes,
    rng: np.random.Generator,
    *,
    diagonal: bool,
) -> ClusterBasis:
    """Basis of cluster ``i`` from sampled rows and columns; see the head of this module."""
    block = sample_block(matrix, partition, i, rank, sizes, rng)
    return basis_of_block(matrix, block, rank, sizes, rng, diagonal=diagonal)


def basis_of_block(
    matrix: KernelMatrix,
    block: SampledBlock,
    rank: int,
    sizes: SampleSizes,
    rng: np.random.Generator,
    *,
    diagonal: bool,
    singular_vectors: bool = False,
) -> ClusterBasis:
    """Basis of the leading directions of a sampled block.

    With ``singular_vectors`` the block has all rows of the cluster, and the basis is its singular vectors themselves;
    the landmarks then only continue the basis to new points.
    """
    found, part, B = directions_and_diagonal(
        matrix, block, rank, rng, diagonal=diagonal, rounds=_DIAGONAL_ROUNDS, sizes=sizes
    )
    found = resolved(found, rank)
    residuals, norm = residual_profile(block, B, found.vectors, found.right)
    landmarks = _draw_landmarks(found, max(sizes.landmarks * rank, sizes.least_landmarks), rng)
    columns, own_part = _landmark_columns(block, landmarks, part)
    size, n_rows = block.cluster.stop - block.cluster.start, len(block.rows)
    # A fit on some rows is the better for the ridge of the faster way.
    coefficients = fitted_coefficients(columns, found.vectors, precise=n_rows == size and not sizes.single)
    if singular_vectors:
        values = found.vectors
    else:
        values = columns @ coefficients
        # The inverse transposed Cholesky factor is triangular: columns stay in the order of energy.
        gram = shifted_cholesky(values.T @ values * (size / n_rows), np.finfo(np.float64).eps)
        inverse = linalg.solve_triangular(gram, np.eye(len(gram)), lower=True, check_finite=False).T
        coefficients, values = coefficients @ inverse, values @ inverse
    return ClusterBasis(
        block.cluster,
        block.columns[landmarks],
        coefficients,
        own_part,
        block.rows,
        values,
        part,
        residuals,
        norm,
        values if singular_vectors else None,
    )


def _landmark_columns(block: SampledBlock, landmarks: IntArray, part: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Columns of the landmarks on the sampled rows, and what is taken off a landmark's entry with itself.

    Many of the sampled rows are landmarks, and few of all rows are. Where not all rows are sampled, the diagonal part
    of a landmark is taken off, so that the fit does not follow it.
    """
    columns = block.kernel_block[:, landmarks]
    off = np.zeros(len(landmarks))
    if len(block.rows) < block.cluster.stop - block.cluster.start and part.any():
        at_row, at_column = coincidences(block.rows, block.columns[landmarks])
        off[at_column] = part[at_row]
        columns[at_row, at_column] -= off[at_column]
    return columns, off


def _draw_landmarks(found: Directions, count: int, rng: np.random.Generator) -> IntArray:
    """Columns that represent the directions, most of them drawn by leverage."""
    length, count = len(found.right), max(count, 1)
    if count >= length:
        return np.arange(length)
    energies = np.maximum(found.energies, np.finfo(np.float64).tiny)
    leverage = np.einsum("ij,ij->i", found.right / energies, found.right)
    total = float(leverage.sum())
    if not np.isfinite(total) or total <= 0:
        return np.sort(rng.choice(length, count, replace=False))
    chances = _LEVERAGE_SHARE * leverage / total + (1 - _LEVERAGE_SHARE) / length
    return np.sort(rng.choice(length, count, replace=False, p=chances / chances.sum()))


def fitted_coefficients(columns: FloatArray, vectors: FloatArray, *, precise: bool = True) -> FloatArray:
    """T with columns T ~ vectors, by least squares without the directions in which rounding would be amplified.

    From a singular value decomposition, or, when not ``precise``, from the Gram matrix: several times faster.
    """
    if not precise:
        gram = columns.T @ columns
        factor = shifted_cholesky(gram, _RIDGE * float(np.trace(gram)))
        coefficients = linalg.cho_solve((factor, True), columns.T @ vectors, check_finite=False)
        missed = vectors - columns @ coefficients
        return np.asarray(coefficients + linalg.cho_solve((factor, True), columns.T @ missed, check_finite=False))
    Q, R = np.linalg.qr(columns)
    left, s, right = np.linalg.svd(R, full_matrices=False)
    kept = s > max(_AMPLIFIED * float(s[0]), np.sqrt(np.finfo(np.float64).tiny))
    return np.asarray((right[kept].T / s[kept]) @ (left[:, kept].T @ (Q.T @ vectors)))


def whole_basis(matrix: KernelMatrix, partition: Partition, i: int, rng: np.random.Generator) -> ClusterBasis:
    """The identity: a cluster of no more points than its rank is kept as it is.

    Landmarks are the cluster's own points and at least as many that it sees: its own few points alone say little of the
    space around them.
    """
    cluster = partition.cluster(i)
    size = cluster.stop - cluster.start
    rows = np.arange(cluster.start, cluster.stop)
    identity = np.eye(size)
    others = energy_sampling(matrix, cluster, partition, max(size, _LEAST_OTHERS), rng).columns
    landmarks = np.union1d(rows, others)
    columns = matrix.block(rows, landmarks).astype(np.float64, copy=False)
    coefficients = fitted_coefficients(columns, identity)
    norm = float(np.einsum("ij,ij->", columns, columns))
    return ClusterBasis(
        cluster,
        landmarks,
        coefficients,
        np.zeros(len(landmarks)),
        rows,
        identity,
        np.zeros(size),
        2 * norm * (1 - np.arange(size + 1) / size),  # every point that is left out is lost
        norm,
        identity,
    )
