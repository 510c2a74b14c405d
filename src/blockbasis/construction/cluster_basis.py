"""The basis of a cluster, sketched from sampled rows and columns of its row-submatrix.

The basis functions of cluster i are y(x) = K(x, S_i) T_i for a few landmarks S_i. The leading left singular vectors V
of a sampled block B = K(I, J), columns J drawn by energy, show which functions hold most of the row-submatrix, and T_i
is fitted to V on the rows I. All of this is free of n. One pass over the cluster's points then evaluates
Y = K(X_i, S_i) T_i (`blockbasis.construction.pipeline`), and the same formula continues the basis to new points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg
from scipy.optimize import isotonic_regression

from blockbasis._utils.linalg import shifted_cholesky
from blockbasis._utils.typing import FloatArray, Index, IntArray
from blockbasis.construction.directions import (
    OVERSAMPLING,
    Directions,
    directions_and_diagonal,
    residual_profile,
    resolved,
)
from blockbasis.construction.method import SampleSizes
from blockbasis.construction.sampled_block import SampledBlock, sample_block
from blockbasis.construction.sampling import energy_sampling
from blockbasis.kernels.evaluator import KernelMatrix, coincidences
from blockbasis.partition import Partition

#: A cluster is kept whole where its rank exceeds this share of its points.
WHOLE_SHARE = 0.75
#: Oversampled directions that are accurate enough to be taken.
_SPARE = OVERSAMPLING // 2
#: Share of the least gain of a function down to which functions are kept in reserve.
_RESERVE = 0.4
#: Least factor by which a rank grows that turns out too small, and largest factor over the guess, for which memory was
#: planned; a low guess counts as this rank.
_GROWTH = 1.2
_MOST_GROWTH = 4
_LOW_RANK = 16
#: Part of the landmarks drawn by leverage; the others are drawn uniformly.
_LEVERAGE_SHARE = 0.8
#: Singular values below this share of the largest are left out of a least-squares fit.
_AMPLIFIED = 1e-8
#: A cluster that is kept whole draws at least so many landmarks from among all points.
_LEAST_OTHERS = 8
#: Added to the Gram matrix of the landmarks' columns, as a share of its trace: this share of the squared relative error
#: that does not matter, within limits. Smaller directions are rounding, or belong to the sampled rows alone.
_RIDGE = 1e-5
_LEAST_RIDGE = 1e-13
_MOST_RIDGE = 1e-9


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
    block : SampledBlock or None
        Entries that the basis was sketched from, for a basis of a higher rank.
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
    block: SampledBlock | None = None

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

    def without_sample(self) -> ClusterBasis:
        """The basis without the entries that it was sketched from."""
        return replace(self, block=None)

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


def most_directions(sizes: IntArray | int) -> IntArray:
    """Largest rank of clusters of these sizes: a cluster of a higher rank is kept whole."""
    return np.ceil(WHOLE_SHARE * np.asarray(sizes)).astype(np.intp)


@dataclass(frozen=True)
class Sketch:
    """Leading directions of a sampled block.

    Parameters
    ----------
    block : SampledBlock
    directions : Directions
    diagonal : ndarray of shape (n_rows,)
        Diagonal part of the sampled rows.
    residuals : ndarray
        Squared error of the whole matrix that the cluster leaves at ranks 0, 1, ..., predicted.
    norm : float
        Squared norm of the row-submatrix, the diagonal part taken out.
    """

    block: SampledBlock
    directions: Directions
    diagonal: FloatArray
    residuals: FloatArray
    norm: float


def sketch_block(
    matrix: KernelMatrix,
    block: SampledBlock,
    rank: int,
    sizes: SampleSizes,
    rng: np.random.Generator,
    *,
    diagonal: bool,
    spare: int = 0,
) -> Sketch:
    """The ``rank`` leading directions of a block and up to ``spare`` more, as far as they are above rounding."""
    found, part, B = directions_and_diagonal(matrix, block, rank, sizes, rng, diagonal=diagonal)
    found = resolved(found, rank + spare, B.dtype)
    residuals, norm = residual_profile(block, B, found.vectors, found.right, changed=bool(part.any()))
    return Sketch(block, found, part, residuals, norm)


def sketched_basis(
    matrix: KernelMatrix,
    partition: Partition,
    i: int,
    rank: int,
    sizes: SampleSizes,
    rng: np.random.Generator,
    *,
    diagonal: bool,
    least_gain: float | None = None,
    earlier: SampledBlock | None = None,
) -> ClusterBasis:
    """Basis of cluster ``i`` from sampled rows and columns; see the head of this module.

    The samples of an ``earlier`` basis are used again where there are enough of them.

    With ``least_gain``, ``rank`` is a first guess, and the basis gets all functions each of which reduces the squared
    error by more than ``least_gain``, and a reserve.
    """
    if least_gain is None:
        block = sample_block(matrix, partition, i, rank, sizes, rng, earlier)
        sketch = sketch_block(matrix, block, rank, sizes, rng, diagonal=diagonal)
        return basis_of_sketch(sketch, rank, sizes, rng)
    most = int(most_directions(int(partition.sizes[i])))
    rank = min(rank, most)
    highest = min(most, _MOST_GROWTH * max(rank, _LOW_RANK))
    while True:
        block = earlier = sample_block(matrix, partition, i, rank, sizes, rng, earlier)
        sketch = sketch_block(matrix, block, rank, sizes, rng, diagonal=diagonal, spare=_SPARE)
        known = len(sketch.residuals) - 1
        enough = rank_of_gain(sketch.residuals, least_gain) < known or known < rank + _SPARE
        if enough or rank >= highest:
            break
        rank = min(highest, 2 * rank, max(grown_rank(sketch.residuals, least_gain), math.ceil(_GROWTH * rank)))
    if not enough and rank >= most:
        return whole_basis(matrix, partition, i, rng)
    return basis_of_sketch(sketch, rank_of_gain(sketch.residuals, _RESERVE * least_gain), sizes, rng)


def rank_of_gain(residuals: FloatArray, least: float) -> int:
    """Number of functions that each reduce the squared error by more than ``least``; at least one."""
    gains = isotonic_regression(-np.diff(residuals), increasing=False).x
    return max(1, int(np.count_nonzero(gains > least)))


def grown_rank(residuals: FloatArray, least: float) -> int:
    """Rank at which the gain of a function falls to ``least``, where the residuals go on decaying as they did last."""
    rank = len(residuals) - 1
    some = max(1, rank // 8)
    gain = float(residuals[rank - some] - residuals[rank]) / some
    return (
        rank + _SPARE + math.ceil(math.log(max(gain / least, 1.0)) / decay_rate(residuals)) if least > 0 else 2 * rank
    )


def decay_rate(residuals: FloatArray) -> float:
    """Rate at which the logarithm of the residuals falls with the rank, over the second half of the ranks."""
    rank = len(residuals) - 1
    tiny = float(np.finfo(np.float64).tiny)
    fall = math.log(max(float(residuals[rank // 2]), tiny) / max(float(residuals[rank]), tiny))
    return max(fall, 1e-2) / max(rank - rank // 2, 1)


def basis_of_sketch(
    sketch: Sketch, rank: int, sizes: SampleSizes, rng: np.random.Generator, *, singular_vectors: bool = False
) -> ClusterBasis:
    """Basis of the leading ``rank`` directions of a sampled block.

    With ``singular_vectors`` the block has all rows of the cluster, and the basis is its singular vectors themselves;
    the landmarks then only continue the basis to new points.
    """
    block, found = sketch.block, sketch.directions.leading(rank)
    landmarks = _draw_landmarks(found, max(sizes.landmarks * rank, sizes.least_landmarks), rng)
    columns, own_part = _landmark_columns(block, landmarks, sketch.diagonal)
    size, n_rows = block.cluster.stop - block.cluster.start, len(block.rows)
    # A fit on some rows is the better for the ridge of the faster way.
    ridge = min(max(_RIDGE * sizes.negligible, _LEAST_RIDGE), _MOST_RIDGE)
    precise = n_rows == size and sizes.precise
    coefficients = fitted_coefficients(columns, found.vectors, ridge=None if precise else ridge)
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
        sketch.diagonal,
        sketch.residuals[: values.shape[1] + 1],
        sketch.norm,
        values if singular_vectors else None,
        None if singular_vectors else block,
    )


def _landmark_columns(block: SampledBlock, landmarks: IntArray, part: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Columns of the landmarks on the sampled rows, and what is taken off a landmark's entry with itself.

    Many of the sampled rows are landmarks, and few of all rows are. Where not all rows are sampled, the diagonal part
    of a landmark is taken off, so that the fit does not follow it.
    """
    columns = block.kernel_block[:, landmarks].astype(np.float64, copy=False)
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


def fitted_coefficients(columns: FloatArray, vectors: FloatArray, *, ridge: float | None = None) -> FloatArray:
    """T with columns T ~ vectors, by least squares without the directions in which rounding would be amplified.

    From a singular value decomposition, or, with a ridge that is a share of the trace, from the Gram matrix: several
    times faster.
    """
    if ridge is not None:
        gram = columns.T @ columns
        factor = shifted_cholesky(gram, ridge * float(np.trace(gram)))
        return np.asarray(linalg.cho_solve((factor, True), columns.T @ vectors, check_finite=False))
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
