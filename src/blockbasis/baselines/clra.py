"""Clustered low-rank approximation: the best bases of the diagonal blocks, and all of the matrix through them."""

from __future__ import annotations

from typing import Any

import numpy as np

from blockbasis._utils.linalg import leading_eigenpairs
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.typing import FloatArray, IntArray, Seed
from blockbasis.baselines.protocol import Clustered, Problem, check_clusters, check_problem, largest
from blockbasis.construction.inner_matrix import exact_block, inner_of_blocks
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.partition import Partition, kmeans
from blockbasis.planning.costs import stored_floats


def clra(
    X: Any,
    kernel: Any,
    *,
    memory: int | str | None = None,
    rank: int | None = None,
    n_clusters: int | None = None,
    rng: Seed = None,
) -> Clustered:
    """Clustered low-rank approximation K ~ U C Uᵀ: U_i of the best approximation of each diagonal block, C = Uᵀ K U.

    Every entry of the matrix is evaluated: the cost is quadratic in n. The published method clusters a graph; here the
    points are clustered, by k-means.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Floats, or a size such as "512MB", that U and C may have; the largest rank within is taken.
    rank : int, default=None
        Instead of ``memory``: basis vectors of every cluster, or as many as it has points.
    n_clusters : int, default=None
        None is 10, or the number of points when they are fewer.
    rng : int, Generator or None

    Returns
    -------
    Clustered

    References
    ----------
    B. Savas and I. S. Dhillon, "Clustered low rank approximation of graphs in information science applications", SIAM
    International Conference on Data Mining (2011).

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import clra
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = clra(X, bb.Gaussian(2.0), rank=10, n_clusters=3, rng=0)
    >>> bb.relative_error(A, X, bb.Gaussian(2.0)).value < 0.1
    True
    """
    caller = "clra"
    problem = check_problem(X, kernel, memory, rank, rng, caller=caller)
    k = check_clusters(n_clusters, problem, caller=caller)
    with single_threaded():
        partition = kmeans(problem.matrix.rows, k, problem.rng)
        ranks = _ranks(problem, partition, caller)
        matrix = KernelMatrix(problem.matrix.kernel, problem.matrix.rows[partition.order])
        bases = [_best_basis(matrix, *each) for each in zip(partition.clusters, ranks, strict=True)]
        rows = [_exact_row(matrix, partition, bases, i) for i in range(partition.n_clusters)]
    inner = inner_of_blocks([U.shape[1] for U in bases], rows)
    basis = BlockDiagonal.from_blocks(partition, bases, problem.dtype)
    return Clustered("clra", basis, inner.astype(problem.dtype), unit_diagonal=False)


def _ranks(problem: Problem, partition: Partition, caller: str) -> IntArray:
    sizes = partition.sizes
    if problem.rank is not None:
        return np.minimum(problem.rank, sizes)

    def stored(rank: int) -> int:
        return stored_floats(sizes, np.minimum(rank, sizes), diagonal=False)

    return np.minimum(largest(stored, problem, int(sizes.max()), caller), sizes)


def _best_basis(matrix: KernelMatrix, cluster: slice, rank: int) -> FloatArray:
    block = matrix.block(cluster, cluster)
    _, vectors = leading_eigenpairs((block + block.T) / 2, rank)
    return vectors


def _exact_row(matrix: KernelMatrix, partition: Partition, bases: list[FloatArray], i: int) -> dict[int, FloatArray]:
    """Blocks (i, j), j >= i, of the exact inner matrix."""
    first = partition.cluster(i)
    others = range(i, partition.n_clusters)
    return {j: exact_block(matrix, first, bases[i], partition.cluster(j), bases[j]) for j in others}
