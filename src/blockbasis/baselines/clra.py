"""Clustered low-rank approximation: eigenvectors of the diagonal blocks and the exact projection onto them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.linalg import leading_eigenpairs
from blockbasis._utils.parallel import single_threaded
from blockbasis.baselines.protocol import Clustered, Problem, check_n_clusters, check_problem, largest_within_budget
from blockbasis.construction.inner_matrix import exact_block, inner_of_blocks
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.partition import Partition, kmeans
from blockbasis.planning.costs import stored_floats

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray, Seed


def clra(
    X: Any,
    kernel: Any,
    *,
    memory: int | str | None = None,
    rank: int | None = None,
    n_clusters: int | None = None,
    rng: Seed = None,
) -> Clustered:
    """Clustered low-rank approximation K ~ U C Uᵀ with C = Uᵀ K U.

    The columns of U_i are the leading eigenvectors of the diagonal block K_ii. The method evaluates every entry of K,
    so that its cost is quadratic in n. The published method clusters the nodes of a graph; this function clusters the
    points by k-means.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Largest number of floats of U and C, or a size such as "512MB". The rank is the largest one that fits.
    rank : int, default=None
        Number of basis vectors of every cluster, given instead of ``memory``. A cluster with fewer points has as many
        basis vectors as points.
    n_clusters : int, default=None
        Number of clusters; None selects 10, or the number of points if it is smaller.
    rng : int, Generator or None
        Initializes k-means.

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
    k = check_n_clusters(n_clusters, problem, caller=caller)
    with single_threaded():
        partition = kmeans(problem.matrix.rows, k, problem.rng)
        ranks = _ranks(problem, partition, caller)
        matrix = KernelMatrix(problem.matrix.kernel, problem.matrix.rows[partition.order])
        bases = [_leading_eigenvectors(matrix, *each) for each in zip(partition.clusters, ranks, strict=True)]
        rows = [_exact_row(matrix, partition, bases, i) for i in range(partition.n_clusters)]
    inner = inner_of_blocks([U.shape[1] for U in bases], rows)
    basis = BlockDiagonal.from_blocks(partition, bases, problem.dtype)
    return Clustered("clra", basis, inner.astype(problem.dtype), unit_diagonal=False)


def _ranks(problem: Problem, partition: Partition, caller: str) -> IntArray:
    """Return the rank of each cluster: the given rank, or the largest common rank that the budget allows."""
    sizes = partition.sizes
    if problem.rank is not None:
        return np.minimum(problem.rank, sizes)

    def stored(rank: int) -> int:
        return stored_floats(sizes, np.minimum(rank, sizes), diagonal=False)

    return np.minimum(largest_within_budget(stored, problem, int(sizes.max()), caller), sizes)


def _leading_eigenvectors(matrix: KernelMatrix, cluster: slice, rank: int) -> FloatArray:
    block = matrix.block(cluster, cluster)
    _, vectors = leading_eigenpairs((block + block.T) / 2, rank)
    return vectors


def _exact_row(matrix: KernelMatrix, partition: Partition, bases: list[FloatArray], i: int) -> dict[int, FloatArray]:
    """Return the blocks U_iᵀ K_ij U_j, j >= i, of row i of the inner matrix by j."""
    first = partition.cluster(i)
    others = range(i, partition.n_clusters)
    return {j: exact_block(matrix, first, bases[i], partition.cluster(j), bases[j]) for j in others}
