"""MEKA: memory efficient kernel approximation, as its authors published it."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
import numpy.typing as npt

from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.typing import FloatArray, IntArray, Seed
from blockbasis.baselines.protocol import Clustered, Problem, check_clusters, check_problem, largest
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.inner import InnerMatrix
from blockbasis.partition import Partition, kmeans

#: Columns drawn for a diagonal block, and rows for a link between two, for each unit of rank.
_COLUMNS_PER_RANK = 2
_ROWS_PER_RANK = 3
#: Eigenvalues of the sampled normal equations up to this count as zero, whatever their scale.
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
    """Memory efficient kernel approximation: K ~ U S Uᵀ, with a basis for each cluster of points from its own block.

    The points are clustered by k-means. The basis of a cluster comes from a Nyström approximation of its diagonal
    block, 2 r_i columns drawn uniformly and truncated to rank r_i: K_ii ~ U_i U_iᵀ, so that S_ii is the identity. A
    link S_ij is fitted to the block of 3 r_i rows and 3 r_j columns, drawn for each pair anew, by least squares through
    the normal equations. Links between the centres that are farthest apart, by the kernel, are left out.

    The method is given as it was published: the basis does not see the off-diagonal blocks, the fits are hardly
    overdetermined, and the result need be neither positive semi-definite nor close. Errors of the same points differ
    from seed to seed by a factor of ten and more.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Floats, or a size such as "512MB", that U and the links may have; the largest ranks within are taken.
    rank : int, default=None
        Instead of ``memory``: the mean rank of a cluster. ``n_clusters * rank`` is shared out in proportion to the
        clusters' points, what rounding up leaves over taken from the last.
    n_clusters : int, default=None
        None is 10, or the number of points when they are fewer.
    eta : float, default=0.1
        Share of the off-diagonal blocks that are set to zero, from 0 to 1. As published, the block that reaches the
        share is kept.
    rng : int, Generator or None

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
    k = check_clusters(n_clusters, problem, caller=caller)
    eta = _check_share(eta, caller)
    of_partition, *streams = problem.rng.spawn(k + 1)
    with single_threaded():
        partition = kmeans(problem.matrix.rows, k, of_partition)
        far = _far_pairs(problem, partition, eta)
        ranks = _ranks(problem, partition, far, caller)
        matrix = KernelMatrix(problem.matrix.kernel, problem.matrix.rows[partition.order])
        bases = [_basis(matrix, *each) for each in zip(partition.clusters, ranks, streams, strict=False)]
        links = [_links(matrix, partition, bases, i, far, streams[i]) for i in range(partition.n_clusters)]
    blocks = tuple(basis.astype(problem.dtype) for basis in bases)
    offsets = np.concatenate(([0], np.cumsum(ranks))).astype(np.intp)
    kept, panels = [linked for linked, _ in links], [panel for _, panel in links]
    inner = InnerMatrix.of_whole_blocks(offsets, offsets, kept, panels, symmetric=False).astype(problem.dtype)
    return Clustered("meka", BlockDiagonal.from_blocks(partition, blocks), inner, unit_diagonal=True)


def _check_share(eta: Any, caller: str) -> float:
    if isinstance(eta, numbers.Real) and not isinstance(eta, bool) and 0 <= float(eta) <= 1:
        return float(eta)
    raise ValueError(f"The 'eta' parameter of {caller} must be a number from 0 to 1. Got {eta!r} instead.")


def _far_pairs(problem: Problem, partition: Partition, eta: float) -> npt.NDArray[np.bool_]:
    """Pairs of clusters whose block is set to zero: the kernel between their centres is below a quantile."""
    between = problem.matrix.kernel(partition.centers)
    k = len(between)
    count = math.ceil(k * (k - 1) * eta)
    # The quantile is taken over all entries, each pair twice and the diagonal too, as the authors' code does.
    threshold = np.sort(between, axis=None)[count - 1] if count else -np.inf
    return np.asarray(between < threshold)


def _ranks(problem: Problem, partition: Partition, far: npt.NDArray[np.bool_], caller: str) -> IntArray:
    """Rank of each cluster, from the mean rank asked for or the largest that the budget allows."""
    sizes = partition.sizes
    if problem.rank is not None:
        return shared_ranks(sizes, problem.rank * partition.n_clusters)
    near = np.triu(~far, 1)

    def stored(total: int) -> int:
        ranks = shared_ranks(sizes, total)
        return int(sizes @ ranks + ranks @ near @ ranks)

    return shared_ranks(sizes, largest(stored, problem, partition.n_points, caller))


def shared_ranks(sizes: IntArray, total: int) -> IntArray:
    """``total`` shared out in proportion to the sizes, rounded up, the last cluster paying for it."""
    ranks = -(-total * sizes // sizes.sum())
    ranks[-1] -= ranks.sum() - total
    return np.asarray(np.clip(ranks, 1, sizes))


def _basis(matrix: KernelMatrix, cluster: slice, rank: int, rng: np.random.Generator) -> FloatArray:
    """U_i with K_ii ~ U_i U_iᵀ: Nyström's approximation, truncated."""
    size = cluster.stop - cluster.start
    drawn = cluster.start + rng.permutation(size)[: _COLUMNS_PER_RANK * rank]
    columns = matrix.block(cluster, drawn)
    left, values, _ = np.linalg.svd(columns[drawn - cluster.start])
    left, values = left[:, :rank], values[:rank]
    # Directions that are nothing but rounding would be noise of its size; where they are exactly nothing, not a number.
    inverse = np.divide(1, np.sqrt(values), out=np.zeros(rank), where=values > np.finfo(values.dtype).eps * values[0])
    return np.asarray(columns @ (left * inverse))


def _links(
    matrix: KernelMatrix,
    partition: Partition,
    bases: list[FloatArray],
    i: int,
    far: npt.NDArray[np.bool_],
    rng: np.random.Generator,
) -> tuple[IntArray, FloatArray]:
    """The clusters after ``i`` that it is linked with, and the links side by side."""
    linked = i + 1 + np.flatnonzero(~far[i, i + 1 :])
    found = [np.empty((bases[i].shape[1], 0))]
    for j in linked.tolist():
        rows, left = _sampled_rows(bases[i], rng)
        columns, right = _sampled_rows(bases[j], rng)
        block = matrix.block(partition.cluster(i).start + rows, partition.cluster(j).start + columns)
        found.append(left @ block @ right.T)
    return linked.astype(np.intp), np.concatenate(found, axis=1)


def _sampled_rows(basis: FloatArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Some rows of a basis, and what solves least squares with them: (UᵀU)⁺ Uᵀ."""
    size, rank = basis.shape
    rows = rng.choice(size, min(_ROWS_PER_RANK * rank, size), replace=False)
    some = basis[rows]
    values, vectors = np.linalg.eigh(some.T @ some)
    kept = values > _PSEUDO_INVERSE_TOL
    return rows, (vectors[:, kept] / values[kept]) @ vectors[:, kept].T @ some.T
