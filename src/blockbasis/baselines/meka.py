"""MEKA, the memory efficient kernel approximation of Si, Hsieh and Dhillon."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from blockbasis._utils.parallel import single_threaded
from blockbasis.baselines.protocol import Clustered, Problem, check_n_clusters, check_problem, largest_within_budget
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.inner import InnerMatrix
from blockbasis.partition import Partition, kmeans

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray, Seed

#: Number of columns sampled in a diagonal block, and of rows sampled for an off-diagonal block, per unit of rank: the
#: values of the authors' code.
_COLUMNS_PER_RANK = 2
_ROWS_PER_RANK = 3
#: Eigenvalues of the sampled normal equations up to this absolute value count as zero: the value of the authors' code.
_PSEUDO_INVERSE_TOL = 1e-6


def meka(
    X: Any,
    kernel: Any,
    *,
    memory: int | str | None = None,
    rank: int | None = None,
    n_clusters: int | None = None,
    eta: float = 0.1,
    rng: Seed = None,
) -> Clustered:
    """Memory efficient kernel approximation K ~ U S Uᵀ with one basis for each cluster, from its diagonal block.

    K-means clusters the points. The basis U_i is a Nyström approximation of the diagonal block, from 2 r_i columns
    sampled uniformly and truncated to rank r_i: K_ii ~ U_i U_iᵀ, so that S_ii is the identity. An off-diagonal block
    S_ij is a least-squares fit, by the normal equations, to 3 r_i rows and 3 r_j columns of K_ij; the rows and columns
    are sampled anew for every pair. S_ij is zero for pairs of clusters with the smallest kernel between their centres.

    Notes
    -----
    The method is implemented as published. The bases do not depend on the off-diagonal blocks and the least-squares
    problems have few more equations than unknowns, so that the result can be indefinite and inaccurate. The error for
    the same points varies with the seed by a factor of ten or more.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Largest number of floats of U and S, or a size such as "512MB". The ranks are the largest ones that fit.
    rank : int, default=None
        Mean rank of the clusters, given instead of ``memory``. The ranks are proportional to the sizes of the clusters
        and rounded up; the rank of the last cluster is reduced so that they sum to ``n_clusters * rank``.
    n_clusters : int, default=None
        Number of clusters; None selects 10, or the number of points if it is smaller.
    eta : float, default=0.1
        Fraction of the off-diagonal blocks that are set to zero, from 0 to 1. As in the authors' code, the block at
        the quantile is kept.
    rng : int, Generator or None
        Initializes k-means and samples rows and columns.

    Returns
    -------
    Clustered

    References
    ----------
    S. Si, C.-J. Hsieh and I. S. Dhillon, "Memory efficient kernel approximation", ICML (2014); Journal of Machine
    Learning Research 18 (2017). The details are those of the authors' code.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import meka
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = meka(X, bb.Gaussian(2.0), memory=300 * 30, n_clusters=3, rng=0)
    >>> A.n_clusters, A.stored <= 300 * 30
    (3, True)
    """
    caller = "meka"
    problem = check_problem(X, kernel, memory, rank, rng, caller=caller)
    k = check_n_clusters(n_clusters, problem, caller=caller)
    eta = _check_eta(eta, caller)
    partition_rng, *streams = problem.rng.spawn(k + 1)
    with single_threaded():
        partition = kmeans(problem.matrix.rows, k, partition_rng)
        far = _far_pairs(problem, partition, eta)
        ranks = _ranks(problem, partition, far, caller)
        matrix = KernelMatrix(problem.matrix.kernel, problem.matrix.rows[partition.order])
        bases = [_basis(matrix, *each) for each in zip(partition.clusters, ranks, streams, strict=False)]
        rows = [_inner_row(matrix, partition, bases, i, far, streams[i]) for i in range(partition.n_clusters)]
    blocks = tuple(basis.astype(problem.dtype) for basis in bases)
    offsets = np.concatenate(([0], np.cumsum(ranks))).astype(np.intp)
    kept, panels = [columns for columns, _ in rows], [panel for _, panel in rows]
    inner = InnerMatrix.of_whole_blocks(offsets, offsets, kept, panels, symmetric=False).astype(problem.dtype)
    return Clustered("meka", BlockDiagonal.from_blocks(partition, blocks), inner, unit_diagonal=True)


def _check_eta(eta: Any, caller: str) -> float:
    if isinstance(eta, numbers.Real) and not isinstance(eta, bool) and 0 <= float(eta) <= 1:
        return float(eta)
    raise ValueError(f"The 'eta' parameter of {caller} must be a number from 0 to 1. Got {eta!r} instead.")


def _far_pairs(problem: Problem, partition: Partition, eta: float) -> npt.NDArray[np.bool_]:
    """Return a mask of the zero blocks: those with the smallest kernel between the centres of their clusters."""
    between = problem.matrix.kernel(partition.centers)
    k = len(between)
    count = math.ceil(k * (k - 1) * eta)
    # As in the authors' code, the quantile is that of all k**2 entries: each pair twice, and the diagonal.
    threshold = np.sort(between, axis=None)[count - 1] if count else -np.inf
    return np.asarray(between < threshold)


def _ranks(problem: Problem, partition: Partition, far: npt.NDArray[np.bool_], caller: str) -> IntArray:
    """Return the rank of each cluster, from the given mean rank or from the largest sum of ranks within the budget."""
    sizes = partition.sizes
    if problem.rank is not None:
        return proportional_ranks(sizes, problem.rank * partition.n_clusters)
    near = np.triu(~far, 1)

    def stored(total: int) -> int:
        ranks = proportional_ranks(sizes, total)
        return int(sizes @ ranks + ranks @ near @ ranks)

    return proportional_ranks(sizes, largest_within_budget(stored, problem, partition.n_points, caller))


def proportional_ranks(sizes: IntArray, total: int) -> IntArray:
    """Return ranks proportional to ``sizes`` and rounded up, the last one reduced so that their sum is ``total``."""
    ranks = -(-total * sizes // sizes.sum())
    ranks[-1] -= ranks.sum() - total
    return np.asarray(np.clip(ranks, 1, sizes))


def _basis(matrix: KernelMatrix, cluster: slice, rank: int, rng: np.random.Generator) -> FloatArray:
    """Return U_i with K_ii ~ U_i U_iᵀ, a Nyström approximation truncated to the rank."""
    size = cluster.stop - cluster.start
    sampled = cluster.start + rng.permutation(size)[: _COLUMNS_PER_RANK * rank]
    columns = matrix.block(cluster, sampled)
    vectors, values, _ = np.linalg.svd(columns[sampled - cluster.start])
    vectors, values = vectors[:, :rank], values[:rank]
    # Singular values at rounding level have random vectors, and a division by zero would give NaN.
    inverse = np.divide(1, np.sqrt(values), out=np.zeros(rank), where=values > np.finfo(values.dtype).eps * values[0])
    return np.asarray(columns @ (vectors * inverse))


def _inner_row(
    matrix: KernelMatrix,
    partition: Partition,
    bases: list[FloatArray],
    i: int,
    far: npt.NDArray[np.bool_],
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray]:
    """Return the columns j > i of the nonzero blocks S_ij of row i, and these blocks side by side."""
    nonzero = i + 1 + np.flatnonzero(~far[i, i + 1 :])
    blocks = [np.empty((bases[i].shape[1], 0))]
    for j in nonzero.tolist():
        rows, row_inverse = _sampled_rows(bases[i], rng)
        columns, column_inverse = _sampled_rows(bases[j], rng)
        block = matrix.block(partition.cluster(i).start + rows, partition.cluster(j).start + columns)
        blocks.append(row_inverse @ block @ column_inverse.T)
    return nonzero.astype(np.intp), np.concatenate(blocks, axis=1)


def _sampled_rows(basis: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Sample rows of a basis; return their indices and the pseudo-inverse (UᵀU)⁺ Uᵀ of the sampled rows U."""
    size, rank = basis.shape
    rows = rng.choice(size, min(_ROWS_PER_RANK * rank, size), replace=False)
    U = basis[rows]
    values, vectors = np.linalg.eigh(U.T @ U)
    kept = values > _PSEUDO_INVERSE_TOL
    return rows, (vectors[:, kept] / values[kept]) @ vectors[:, kept].T @ U.T
