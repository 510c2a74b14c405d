"""The basis of a cluster, sketched from sampled rows and columns of its row-submatrix.

The basis functions of cluster i are y(x) = K(x, S_i) T_i for a few landmarks S_i. The leading left singular vectors V
of a sampled block B = K(I, J), columns J drawn by energy, span most of the row-submatrix, and T_i is fitted to V on the
rows I. The cost of all of this does not depend on n. One pass over the cluster's points then evaluates
Y = K(X_i, S_i) T_i (`blockbasis.construction.pipeline`), and the same formula extends the basis to new points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg
from scipy.optimize import isotonic_regression

from blockbasis._utils.linalg import eigenpairs, shifted_cholesky
from blockbasis.construction.diagonal import directions_and_diagonal
from blockbasis.construction.directions import OVERSAMPLING, Directions, residual_profile
from blockbasis.construction.sampling import SampledBlock, energy_sampling, sample_block
from blockbasis.kernels.evaluator import KernelMatrix, coincidences

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, Index, IntArray
    from blockbasis.construction.method import SampleSizes
    from blockbasis.partition import Partition

#: The basis of a cluster is the identity where its rank exceeds this share of its points.
IDENTITY_SHARE = 0.75
#: Oversampled directions that are accurate enough to be used.
_SPARE = OVERSAMPLING // 2
#: Functions whose gain is above this share of the least gain are kept in reserve.
_RESERVE = 0.4
#: Least factor by which a rank grows that turns out too small, and largest factor over the first guess, for which
#: memory was planned; a guess below ``_LOW_RANK`` counts as this rank.
_GROWTH = 1.2
_MAX_GROWTH = 4
_LOW_RANK = 16
#: Share of the landmarks drawn by leverage; the others are drawn uniformly.
_LEVERAGE_SHARE = 0.8
#: Singular values below this share of the largest one are dropped from a least-squares fit.
_AMPLIFIED = 1e-8
#: Least number of landmarks that an identity basis draws from among all points.
_MIN_SAMPLED_LANDMARKS = 8
#: Ridge of a fit, as a share of the trace of the Gram matrix: this share of the negligible squared relative error,
#: within limits. Directions below the ridge are rounding, or specific to the sampled rows.
_RIDGE = 1e-5
_MIN_RIDGE = 1e-13
_MAX_RIDGE = 1e-9


@dataclass(frozen=True)
class ClusterBasis:
    """Basis functions of one cluster, y(x) = K(x, landmarks) coefficients, with their values on some rows.

    Parameters
    ----------
    cluster : slice
        Range of the cluster's points.
    landmarks : ndarray of shape (m,)
        Indices of points.
    coefficients : ndarray of shape (m, r)
    landmark_diagonal : ndarray of shape (m,)
        Diagonal part that is subtracted from the kernel entry of each landmark with itself.
    rows : ndarray of shape (n_rows,)
        Indices of the sampled rows.
    values : ndarray of shape (n_rows, r)
        y on the sampled rows, in the order of energy, scaled so that y is orthonormal over the whole cluster.
    diagonal : ndarray of shape (n_rows,)
        Diagonal part of the sampled rows.
    residuals : ndarray of shape (r + 1,)
        Predicted squared error of the whole matrix due to the cluster at ranks 0, 1, ..., r.
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
    vectors: FloatArray | None = None
    block: SampledBlock | None = None

    @property
    def size(self) -> int:
        """Number of points of the cluster."""
        return int(self.cluster.stop - self.cluster.start)

    @property
    def rank(self) -> int:
        return int(self.values.shape[1])

    @property
    def scale(self) -> float:
        """Factor that makes the values orthonormal on the sampled rows."""
        return float(np.sqrt(self.size / len(self.rows)))

    def evaluate(self, matrix: KernelMatrix, points: Index) -> FloatArray:
        """Basis functions at points of the matrix, in float64."""
        block = matrix.block(points, self.landmarks).astype(np.float64, copy=False)
        if self.landmark_diagonal.any():
            row, column = coincidences(points, self.landmarks)
            block[row, column] -= self.landmark_diagonal[column]
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

    def rotated(self, V: FloatArray) -> ClusterBasis:
        """The functions times an orthogonal matrix V; the residuals are still those of the functions before."""
        vectors = None if self.vectors is None else self.vectors @ V
        return replace(self, coefficients=self.coefficients @ V, values=self.values @ V, vectors=vectors)


def max_rank(sizes: IntArray | int) -> IntArray:
    """Largest rank of clusters of the given sizes: above it the basis is the identity."""
    return np.ceil(IDENTITY_SHARE * np.asarray(sizes)).astype(np.intp)


# --- sketched bases --------------------------------------------------------------------------------------------------


def sketched_basis(
    matrix: KernelMatrix,
    partition: Partition,
    i: int,
    rank: int,
    sizes: SampleSizes,
    rng: np.random.Generator,
    *,
    least_gain: float | None = None,
    earlier: SampledBlock | None = None,
) -> ClusterBasis:
    """Basis of cluster ``i`` from sampled rows and columns.

    Parameters
    ----------
    matrix, partition, i
        The kernel matrix in cluster order, its clusters, and the index of one of them.
    rank : int
        Number of functions, or a first guess of it where ``least_gain`` is given.
    sizes : SampleSizes
    rng : Generator
    least_gain : float, default=None
        The basis gets all functions each of which reduces the squared error by more than ``least_gain``, and a reserve.
    earlier : SampledBlock, default=None
        Sample of an earlier basis, which is used again where it is large enough.
    """
    if least_gain is None:
        block = sample_block(matrix, partition, i, rank, sizes, rng, earlier)
        return basis_of_sketch(sketch_block(matrix, block, rank, sizes, rng), rank, sizes, rng)
    limit = int(max_rank(int(partition.sizes[i])))
    rank = min(rank, limit)
    highest = min(limit, _MAX_GROWTH * max(rank, _LOW_RANK))
    while True:
        block = earlier = sample_block(matrix, partition, i, rank, sizes, rng, earlier)
        sketch = sketch_block(matrix, block, rank, sizes, rng, spare=_SPARE)
        resolved = len(sketch.residuals) - 1
        sufficient = rank_of_gain(sketch.residuals, least_gain) < resolved or resolved < rank + _SPARE
        if sufficient or rank >= highest:
            break
        rank = min(highest, 2 * rank, max(extrapolated_rank(sketch.residuals, least_gain), math.ceil(_GROWTH * rank)))
    if not sufficient and rank >= limit:
        return identity_basis(matrix, partition, i, rng)
    return basis_of_sketch(sketch, rank_of_gain(sketch.residuals, _RESERVE * least_gain), sizes, rng)


@dataclass(frozen=True)
class Sketch:
    """Leading directions of a sampled block, its diagonal part, and the residuals as of `ClusterBasis`."""

    block: SampledBlock
    directions: Directions
    diagonal: FloatArray
    residuals: FloatArray


def sketch_block(
    matrix: KernelMatrix,
    block: SampledBlock,
    rank: int,
    sizes: SampleSizes,
    rng: np.random.Generator,
    *,
    spare: int = 0,
) -> Sketch:
    """The ``rank`` leading directions of a block and up to ``spare`` more, as far as they are above rounding."""
    directions, diagonal, B = directions_and_diagonal(matrix, block, rank, sizes, rng)
    directions = directions.resolved(rank + spare, B.dtype)
    residuals = residual_profile(block, B, directions.vectors, directions.right, changed=bool(diagonal.any()))
    return Sketch(block, directions, diagonal, residuals)


def rank_of_gain(residuals: FloatArray, least_gain: float) -> int:
    """Number of functions that each reduce the squared error by more than ``least_gain``; at least one."""
    gains = isotonic_regression(-np.diff(residuals), increasing=False).x
    return max(1, int(np.count_nonzero(gains > least_gain)))


def extrapolated_rank(residuals: FloatArray, least_gain: float) -> int:
    """Rank at which the gain of a function falls to ``least_gain``, by extrapolation of the residuals."""
    rank = len(residuals) - 1
    if least_gain <= 0:
        return 2 * rank
    last = max(1, rank // 8)
    gain = float(residuals[rank - last] - residuals[rank]) / last
    return rank + _SPARE + math.ceil(math.log(max(gain / least_gain, 1.0)) / decay_rate(residuals))


def decay_rate(residuals: FloatArray) -> float:
    """Rate at which the logarithm of the residuals decreases with the rank, over the second half of the ranks."""
    rank = len(residuals) - 1
    tiny = float(np.finfo(np.float64).tiny)
    decrease = math.log(max(float(residuals[rank // 2]), tiny) / max(float(residuals[rank]), tiny))
    return max(decrease, 1e-2) / max(rank - rank // 2, 1)


def basis_of_sketch(
    sketch: Sketch, rank: int, sizes: SampleSizes, rng: np.random.Generator, *, singular_vectors: bool = False
) -> ClusterBasis:
    """Basis of the leading ``rank`` directions of a sampled block.

    With ``singular_vectors`` the block has all rows of the cluster, and the basis is its singular vectors themselves;
    the landmarks then only extend the basis to new points.
    """
    block, directions = sketch.block, sketch.directions.leading(rank)
    landmarks = _draw_landmarks(directions, max(sizes.landmarks * rank, sizes.min_landmarks), rng)
    columns, landmark_diagonal = _landmark_columns(block, landmarks, sketch.diagonal)
    n_rows = len(block.rows)
    # A fit on a sample of rows is more accurate at the other rows with a ridge.
    ridge = min(max(_RIDGE * sizes.negligible, _MIN_RIDGE), _MAX_RIDGE)
    precise = n_rows == block.size and sizes.precise
    coefficients = fitted_coefficients(columns, directions.vectors, ridge=None if precise else ridge)
    values = directions.vectors
    if not singular_vectors:
        values = columns @ coefficients
        # The inverse transposed Cholesky factor is triangular: columns stay in the order of energy.
        factor = shifted_cholesky(values.T @ values * (block.size / n_rows), np.finfo(np.float64).eps)
        inverse = linalg.solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False).T
        coefficients, values = coefficients @ inverse, values @ inverse
    return ClusterBasis(
        cluster=block.cluster,
        landmarks=block.columns[landmarks],
        coefficients=coefficients,
        landmark_diagonal=landmark_diagonal,
        rows=block.rows,
        values=values,
        diagonal=sketch.diagonal,
        residuals=sketch.residuals[: values.shape[1] + 1],
        vectors=values if singular_vectors else None,
        block=None if singular_vectors else block,
    )


def _landmark_columns(block: SampledBlock, landmarks: IntArray, diagonal: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Columns of the landmarks on the sampled rows, and the diagonal part subtracted from them.

    Landmarks are frequent among the sampled rows, and rare among all rows. Where not all rows are sampled, the diagonal
    part of a landmark is therefore subtracted: the coefficients would otherwise be fitted to it.
    """
    columns = block.kernel_block[:, landmarks].astype(np.float64, copy=False)
    subtracted = np.zeros(len(landmarks))
    if len(block.rows) < block.size and diagonal.any():
        row, column = coincidences(block.rows, block.columns[landmarks])
        subtracted[column] = diagonal[row]
        columns[row, column] -= subtracted[column]
    return columns, subtracted


def _draw_landmarks(directions: Directions, count: int, rng: np.random.Generator) -> IntArray:
    """Columns that represent the directions, most of them drawn by leverage."""
    length, count = len(directions.right), max(count, 1)
    if count >= length:
        return np.arange(length)
    energies = np.maximum(directions.energies, np.finfo(np.float64).tiny)
    leverage = np.einsum("ij,ij->i", directions.right / energies, directions.right)
    total = float(leverage.sum())
    if not np.isfinite(total) or total <= 0:
        return np.sort(rng.choice(length, count, replace=False))
    weights = _LEVERAGE_SHARE * leverage / total + (1 - _LEVERAGE_SHARE) / length
    return np.sort(rng.choice(length, count, replace=False, p=weights / weights.sum()))


def fitted_coefficients(columns: FloatArray, vectors: FloatArray, *, ridge: float | None = None) -> FloatArray:
    """T with columns T ~ vectors, by least squares without the directions in which rounding would be amplified.

    Parameters
    ----------
    columns : ndarray of shape (n_rows, m)
    vectors : ndarray of shape (n_rows, r)
    ridge : float, default=None
        Ridge as a share of the trace of the Gram matrix, which is then factorized: several times faster than the
        truncated singular value decomposition that None stands for.
    """
    if ridge is not None:
        gram = columns.T @ columns
        factor = shifted_cholesky(gram, ridge * float(np.trace(gram)))
        return np.asarray(linalg.cho_solve((factor, True), columns.T @ vectors, check_finite=False))
    Q, R = np.linalg.qr(columns)
    U, s, Vt = np.linalg.svd(R, full_matrices=False)
    kept = s > max(_AMPLIFIED * float(s[0]), np.sqrt(np.finfo(np.float64).tiny))
    return np.asarray((Vt[kept].T / s[kept]) @ (U[:, kept].T @ (Q.T @ vectors)))


def pseudo_inverse(K: FloatArray) -> FloatArray:
    """Pseudo-inverse of a symmetric matrix, without the directions in which rounding would be amplified."""
    values, vectors = eigenpairs(K)
    kept = np.abs(values) > max(_AMPLIFIED * float(np.abs(values).max()), np.sqrt(np.finfo(np.float64).tiny))
    return np.asarray((vectors[:, kept] / values[kept]) @ vectors[:, kept].T)


def identity_basis(matrix: KernelMatrix, partition: Partition, i: int, rng: np.random.Generator) -> ClusterBasis:
    """The identity as the basis of a cluster of no more points than its rank.

    Landmarks are the cluster's own points and at least as many points sampled by energy: the extension to new points
    would be inaccurate with the few points of the cluster alone.
    """
    cluster = partition.cluster(i)
    size = cluster.stop - cluster.start
    rows = np.arange(cluster.start, cluster.stop)
    sampled = energy_sampling(matrix, cluster, partition, max(size, _MIN_SAMPLED_LANDMARKS), rng).columns
    landmarks = np.union1d(rows, sampled)
    columns = matrix.block(rows, landmarks).astype(np.float64, copy=False)
    energy = float(np.einsum("ij,ij->", columns, columns))
    identity = np.eye(size)
    # Without other landmarks, the columns are symmetric.
    coefficients = pseudo_inverse(columns) if len(landmarks) == size else fitted_coefficients(columns, identity)
    return ClusterBasis(
        cluster=cluster,
        landmarks=landmarks,
        coefficients=coefficients,
        landmark_diagonal=np.zeros(len(landmarks)),
        rows=rows,
        values=identity,
        diagonal=np.zeros(size),
        residuals=2 * energy * (1 - np.arange(size + 1) / size),  # a lower rank loses whole rows
        vectors=identity,
    )
