"""The paper's Algorithms 1 to 5, with its settings (section 3.2).

Algorithm 1 is `randomized_sampling`. Algorithm 2 applies it to all columns, Algorithm 3 to the pool of
`column_pool`. Algorithm 4 is `randomized_svd`. Algorithm 5 is `paper_basis` for every cluster and `pairwise_block`
for every pair of clusters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blockbasis._utils.parallel import map_threads
from blockbasis.construction.cluster_basis import ClusterBasis, fitted_coefficients
from blockbasis.construction.coordinates import determining_rows, row_pseudo_inverse, tournament
from blockbasis.construction.sampling import ColumnSample, unscaled

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, Index, IntArray
    from blockbasis.kernels.evaluator import KernelMatrix
    from blockbasis.partition import Partition

#: The paper's q of Algorithm 1, and q and l of Algorithm 4.
SAMPLING_ITERATIONS = 2
SVD_ITERATIONS = 2
OVERSAMPLING = 10
#: A matrix whose smaller side is at most this many times the number of random directions is decomposed whole.
_DIRECT = 3
#: Singular values below this many rounding units of the largest one are dropped.
_ROUNDINGS = 10.0


# --- Algorithms 1, 2 and 3: columns ----------------------------------------------------------------------------------


def randomized_sampling(
    matrix: KernelMatrix,
    cluster: slice,
    rank: int,
    rng: np.random.Generator,
    *,
    iterations: int = SAMPLING_ITERATIONS,
    candidates: IntArray | None = None,
) -> ColumnSample:
    """Algorithm 1: important columns by pivoted QR on the important rows, and important rows on these columns.

    Iteration s chooses s * rank pivots (the paper's sets grow to q r) and drops those whose diagonal entry of R is
    negligible. The loop ends early when an iteration does not change the pivots.

    Parameters
    ----------
    matrix : KernelMatrix
    cluster : slice
        Rows of the row-submatrix.
    rank : int
        Rows and columns that each iteration adds.
    rng : Generator
    iterations : int, default=2
        The paper's q.
    candidates : ndarray, default=None
        Columns to choose among (Algorithm 3's pool); None is all of them (Algorithm 2).
    """
    available = matrix.shape[1] if candidates is None else len(candidates)
    height = cluster.stop - cluster.start
    rows = np.empty(0, dtype=np.intp)
    columns = rows
    previous: IntArray | None = None
    for iteration in range(1, iterations + 1):
        count = iteration * rank
        rows = np.union1d(rows, rng.choice(height, min(rank, height), replace=False))
        pivots = _important_columns_of(matrix, cluster.start + rows, candidates, count)
        drawn = rng.choice(available, min(rank, available), replace=False)
        columns = np.union1d(pivots, drawn)
        rows = _important_rows_of(matrix, cluster, columns if candidates is None else candidates[columns], count)
        if previous is not None and np.array_equal(np.sort(pivots), previous):
            break
        previous = np.sort(pivots)
    return unscaled(columns if candidates is None else candidates[columns], np.sort(rows))


def _important_columns_of(matrix: KernelMatrix, rows: IntArray, candidates: IntArray | None, count: int) -> IntArray:
    """Pivots among the candidates (None is all columns) on the given rows; entries are evaluated tile by tile."""

    def evaluate(tile: slice) -> FloatArray:
        columns: Index = tile if candidates is None else candidates[tile]
        return matrix.block(rows, columns)

    available = matrix.shape[1] if candidates is None else len(candidates)
    return tournament(evaluate, (len(rows), available), count)


def _important_rows_of(matrix: KernelMatrix, cluster: slice, columns: IntArray, count: int) -> IntArray:
    """Pivots among the rows of a cluster on the given columns, as positions in the cluster: pivoted LQ by tiles."""

    def evaluate(tile: slice) -> FloatArray:
        return matrix.block(slice(cluster.start + tile.start, cluster.start + tile.stop), columns).T

    return tournament(evaluate, (len(columns), cluster.stop - cluster.start), count)


def column_pool(matrix: KernelMatrix, columns: Partition, rank: int, rng: np.random.Generator, n_jobs: int) -> IntArray:
    """First loop of Algorithm 3: the important points of every column cluster for ``rank`` random rows.

    The pool is the set of candidates of the second loop, which applies Algorithm 1.
    """
    transpose = matrix.T
    available = transpose.shape[1]

    def important_points(j: int, stream: np.random.Generator) -> IntArray:
        cluster = columns.cluster(j)
        drawn = stream.choice(available, min(rank, available), replace=False)
        return np.asarray(cluster.start + np.sort(_important_rows_of(transpose, cluster, drawn, rank)))

    tasks = enumerate(rng.spawn(columns.n_clusters))
    return np.concatenate(map_threads(important_points, tasks, n_jobs, "pool of columns"))


# --- Algorithm 4: singular vectors -----------------------------------------------------------------------------------


def randomized_svd(
    M: FloatArray,
    rank: int,
    rng: np.random.Generator,
    *,
    iterations: int = SVD_ITERATIONS,
    oversampling: int = OVERSAMPLING,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Algorithm 4: leading singular triplets by a randomized range finder with power iterations.

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
    >>> from blockbasis.construction.paper import randomized_svd
    >>> U, s, Vt = randomized_svd(np.diag([3.0, 2.0, 1.0, 0.0]), 2, np.random.default_rng(0))
    >>> s.round(6)
    array([3., 2.])
    """
    width = rank + oversampling
    if min(M.shape) <= _DIRECT * width:
        Q = np.linalg.qr(M)[0] if M.shape[1] <= M.shape[0] else np.eye(M.shape[0], dtype=M.dtype)
    else:
        Q = np.linalg.qr(M @ rng.standard_normal((M.shape[1], width), dtype=M.dtype.type))[0]
        for _ in range(iterations):
            Q = np.linalg.qr(M @ np.linalg.qr(M.T @ Q)[0])[0]
    small, s, Vt = np.linalg.svd(Q.T @ M, full_matrices=False)
    return Q @ small[:, :rank], s[:rank], Vt[:rank]


# --- Algorithm 5: bases and inner blocks -----------------------------------------------------------------------------


def paper_basis(
    matrix: KernelMatrix, cluster: slice, sample: ColumnSample, rank: int, rng: np.random.Generator
) -> ClusterBasis:
    """First half of Algorithm 5: Algorithm 4 on the important columns; the inner matrix uses the important rows.

    The sampled columns are the landmarks that extend the basis to new points.
    """
    # The pseudo-inverse of few rows of U amplifies rounding errors, so that all work is in float64.
    columns = matrix.double.block(cluster, sample.columns)
    U, s, _ = randomized_svd(columns * sample.scales, rank, rng)
    negligible = max(_ROUNDINGS * float(np.finfo(np.float64).eps), float(np.finfo(matrix.dtype).eps))
    U = U[:, : max(1, int(np.count_nonzero(s > negligible * s[0])))]
    rows = sample.rows if sample.rows.size else determining_rows(U, rank, rng)
    return ClusterBasis(
        cluster=cluster,
        landmarks=sample.columns,
        coefficients=fitted_coefficients(columns, U) if matrix.symmetric else np.empty((0, U.shape[1])),
        landmark_diagonal=np.zeros(len(sample.columns)),
        rows=cluster.start + rows,
        values=U[rows],
        diagonal=np.zeros(len(rows)),
        residuals=np.zeros(U.shape[1] + 1),
        vectors=U,
    )


def pairwise_block(
    matrix: KernelMatrix, row_basis: ClusterBasis, column_basis: ClusterBasis, rng: np.random.Generator
) -> FloatArray:
    """Second half of Algorithm 5 for one pair of clusters: the important rows and new uniform rows of both."""
    same = matrix.symmetric and row_basis is column_basis
    rows, P = _drawn_coordinates(row_basis, rng)
    columns, Q = (rows, P) if same else _drawn_coordinates(column_basis, rng)
    return np.asarray(P @ matrix.double.block(rows, columns) @ Q.T)


def _drawn_coordinates(basis: ClusterBasis, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Important and uniform rows of a basis, and the pseudo-inverse of the basis on these rows."""
    assert basis.vectors is not None
    height, rank = basis.vectors.shape
    rows = np.union1d(basis.rows - basis.cluster.start, rng.choice(height, min(rank, height), replace=False))
    return basis.cluster.start + rows, row_pseudo_inverse(basis.vectors, rows)
