"""Leading directions of a cluster's columns: Algorithm 4, and two ways to repeat it while the diagonal is taken out.

Both take the same columns B and give the leading left singular vectors of B less the diagonal part. From the columns:
accurate to rounding, a pass over B for each step. From their Gram matrix: far cheaper for clusters of moderate size,
and blind to singular values below the square root of rounding; `GramDirections.resolves` tells when that matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from blockbasis._linalg import leading_eigenpairs
from blockbasis._typing import FloatArray, IntArray
from blockbasis.matrix import KernelMatrix, coincidences, tiles
from blockbasis.sampling import Skeleton

SVD_ITERATIONS = 2
OVERSAMPLING = 10

#: A random range that would be more than one such part of the space gains nothing over the whole space.
_DIRECT = 3
#: With more columns than this for each row, and more entries in all, only their products with each other are kept.
_MANY_COLUMNS = 4
_MANY_ENTRIES = 2**22
#: Up to this many rows for each direction wanted, the Gram matrix is the cheaper way.
_GRAM_ROWS_PER_DIRECTION = 12
#: Squared singular values below this share of the largest are lost in a Gram matrix.
_GRAM_PRECISION = 1e-13


# --- Algorithm 4 -----------------------------------------------------------------------------------------------------


def randomized_svd(
    M: FloatArray,
    rank: int,
    rng: np.random.Generator,
    *,
    iterations: int = SVD_ITERATIONS,
    oversampling: int = OVERSAMPLING,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Algorithm 4: leading singular triplets by a random range and power iterations.

    Parameters
    ----------
    M : ndarray of shape (m, n)
    rank : int
    rng : Generator
    iterations : int, default=2
        The paper's q.
    oversampling : int, default=10
        The paper's l: extra random directions.

    Returns
    -------
    U : ndarray of shape (m, rank)
    s : ndarray of shape (rank,)
    Vt : ndarray of shape (rank, n)

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.directions import randomized_svd
    >>> U, s, Vt = randomized_svd(np.diag([3.0, 2.0, 1.0, 0.0]), 2, np.random.default_rng(0))
    >>> s.round(6)
    array([3., 2.])
    """
    Q = _random_range(M, rank + oversampling, rng, iterations)
    small, s, Vt = np.linalg.svd(Q.T @ M, full_matrices=False)
    return Q @ small[:, :rank], s[:rank], Vt[:rank]


def _random_range(
    M: FloatArray, width: int, rng: np.random.Generator, iterations: int, start: FloatArray | None = None
) -> FloatArray:
    """Orthonormal columns that span the leading left directions of M; ``start`` is a guess of them."""
    if min(M.shape) <= _DIRECT * width:
        return _orth(M) if M.shape[1] <= M.shape[0] else np.eye(M.shape[0], dtype=M.dtype)
    if start is None:
        start = _orth(M @ rng.standard_normal((M.shape[1], width), dtype=M.dtype.type))
    for _ in range(iterations):
        start = _orth(M @ _orth(M.T @ start))
    return start


def _left_singular(M: FloatArray, Q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Left singular vectors and values of Q Qᵀ M: the last step of Algorithm 4, without the right vectors."""
    small, s, _ = np.linalg.svd(triangle(M.T @ Q).T)
    return Q @ small, s


def _orth(M: FloatArray) -> FloatArray:
    return np.linalg.qr(M)[0]


def triangle(M: FloatArray) -> FloatArray:
    """R of a QR factorization."""
    return np.asarray(np.linalg.qr(M, mode="r"))


# --- the columns a basis is taken from -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """Columns of a row-submatrix, scaled.

    Parameters
    ----------
    values : ndarray of shape (n_i, t)
    scales : ndarray of shape (len(points),)
    points : ndarray
        Column indices of the first ``len(points)`` columns; any others are combinations of columns.
    """

    values: FloatArray
    scales: FloatArray
    points: IntArray


def gather(matrix: KernelMatrix, cluster: slice, skeleton: Skeleton) -> Columns:
    """The sampled columns; when they are very many, own ones and a triangle for the others: bounded memory."""
    if not _many(cluster, skeleton):
        return _sampled(matrix, cluster, skeleton)
    own, strips = _own_and_others(matrix, cluster, skeleton)
    R = np.empty((0, cluster.stop - cluster.start), dtype=matrix.dtype)
    for strip in strips:
        R = triangle(np.concatenate((R, strip.T)))
    return Columns(np.concatenate((own.values, R.T), axis=1), own.scales, own.points)


def _sampled(matrix: KernelMatrix, cluster: slice, skeleton: Skeleton) -> Columns:
    values = matrix.block(cluster, skeleton.columns)
    scales = skeleton.scales.astype(values.dtype)
    values *= scales
    return Columns(values, scales, skeleton.columns)


def _many(cluster: slice, skeleton: Skeleton) -> bool:
    height, width = cluster.stop - cluster.start, skeleton.columns.shape[0]
    return bool(width > _MANY_COLUMNS * height and width * height > _MANY_ENTRIES)


def _own_and_others(matrix: KernelMatrix, cluster: slice, skeleton: Skeleton) -> tuple[Columns, Iterator[FloatArray]]:
    """All columns of the cluster itself, and the sampled others in strips, scaled."""
    height = cluster.stop - cluster.start
    points = np.arange(cluster.start, cluster.stop) if matrix.symmetric else np.empty(0, dtype=np.intp)
    outside = ~np.isin(skeleton.columns, points)
    others, scales = skeleton.columns[outside], skeleton.scales[outside].astype(matrix.dtype)
    values = matrix.block(cluster, points) if points.size else np.empty((height, 0), dtype=matrix.dtype)
    strips = (matrix.block(cluster, others[tile]) * scales[tile] for tile in tiles(others.shape[0], height))
    return Columns(values, np.ones(points.shape[0], dtype=matrix.dtype), points), strips


# --- leading directions, the diagonal taken out ----------------------------------------------------------------------


class Directions(Protocol):
    """Columns of a cluster less a diagonal part, and their leading left singular vectors."""

    columns: Columns

    @property
    def energy(self) -> float:
        """Squared Frobenius norm of the columns as they are now."""

    def deflate(self, diagonal: FloatArray) -> None:
        """Take ``diagonal`` out of the entries in which a point meets itself, in place of what was out before."""

    def leading(self, width: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Leading left singular vectors and squared singular values."""

    def own_energy(self, vectors: FloatArray) -> float:
        """Energy of the cluster's own columns along ``vectors``."""


def directions_of(matrix: KernelMatrix, cluster: slice, skeleton: Skeleton, width: int) -> Directions:
    """The cheaper way for a cluster of this size."""
    if cluster.stop - cluster.start > _GRAM_ROWS_PER_DIRECTION * width and not _many(cluster, skeleton):
        return ColumnDirections(_sampled(matrix, cluster, skeleton), cluster)
    return GramDirections(matrix, cluster, skeleton)


class ColumnDirections:
    """Directions from the columns themselves: Algorithm 4, each time from where it stood."""

    def __init__(self, columns: Columns, cluster: slice) -> None:
        self.columns = columns
        self._own = coincidences(cluster, columns.points)
        self._spikes = columns.values[self._own].copy()
        self._deflated = columns.values.copy()
        self._range: FloatArray | None = None

    @property
    def energy(self) -> float:
        return energy_of(self._deflated)

    def deflate(self, diagonal: FloatArray) -> None:
        self._deflated[self._own] = self._spikes - diagonal[self._own[0]] * self.columns.scales[self._own[1]]

    def leading(self, width: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        self._range = _random_range(self._deflated, width, rng, 1, self._range)
        vectors, s = _left_singular(self._deflated, self._range)
        return vectors[:, :width], s[:width].astype(np.float64) ** 2

    def energies(self, vectors: FloatArray) -> FloatArray:
        """Energy of the columns as they are now along each vector."""
        along = self._deflated.T @ vectors
        return np.asarray(np.einsum("ij,ij->j", along, along, dtype=np.float64))

    def own_energy(self, vectors: FloatArray) -> float:
        return energy_of(self._deflated[:, self._own[1]].T @ vectors)


class GramDirections:
    """Directions from B Bᵀ, which a new diagonal changes in its own rows and columns only."""

    def __init__(self, matrix: KernelMatrix, cluster: slice, skeleton: Skeleton) -> None:
        self.whole = not _many(cluster, skeleton)
        if not self.whole:
            self.columns, strips = _own_and_others(matrix, cluster, skeleton)
            self._whole = _gram(self.columns.values)
            for strip in strips:
                self._whole += _gram(strip)
        else:
            self.columns = _sampled(matrix, cluster, skeleton)
            self._whole = _gram(self.columns.values)
        self._own = coincidences(cluster, self.columns.points)
        self._own_columns = self.columns.values[:, self._own[1]].astype(np.float64)
        self._own_scales = self.columns.scales[self._own[1]].astype(np.float64)
        self._gram = self._whole
        self._out = np.zeros(len(self._own_scales))
        self._range: FloatArray | None = None

    @property
    def energy(self) -> float:
        return float(np.trace(self._gram))

    def deflate(self, diagonal: FloatArray) -> None:
        rows = self._own[0]
        self._out = diagonal[rows] * self._own_scales
        crossed = self._own_columns * self._out
        self._gram = self._whole.copy()
        self._gram[:, rows] -= crossed
        self._gram[rows] -= crossed.T
        self._gram[rows, rows] += self._out**2

    def leading(self, width: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        height = self._gram.shape[0]
        width = min(width, height)
        if height <= _DIRECT * width:
            values, vectors = leading_eigenpairs(self._gram, width)
        else:
            cold = self._range is None
            Q = rng.standard_normal((height, width)) if self._range is None else self._range
            for _ in range(SVD_ITERATIONS if cold else 1):
                Q = _orth(self._gram @ Q)
            values, small = leading_eigenpairs(Q.T @ (self._gram @ Q), width)
            self._range = vectors = Q @ small
        return vectors.astype(self.columns.values.dtype), np.maximum(values, 0)

    def own_energy(self, vectors: FloatArray) -> float:
        seen = self._own_columns.T @ vectors
        seen -= self._out[:, np.newaxis] * vectors[self._own[0]]
        return energy_of(seen)

    @staticmethod
    def resolves(energies: FloatArray) -> bool:
        """Whether the given squared singular values stand clear of the rounding of a Gram matrix."""
        return bool(energies[-1] > _GRAM_PRECISION * energies[0])


def _gram(M: FloatArray) -> FloatArray:
    M = M.astype(np.float64, copy=False)
    return M @ M.T


def energy_of(M: FloatArray) -> float:
    """Squared Frobenius norm."""
    return float(np.einsum("ij,ij->", M, M, dtype=np.float64))
