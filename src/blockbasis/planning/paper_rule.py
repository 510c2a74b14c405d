"""The paper's choice of its own parameters: ranks from the diagonal blocks, and the number of clusters from the ranks.

Section 3.2.2, part 3 ("Pre-computation: parameter selection"). A tolerance fixes the rank of every cluster's diagonal
block; the memory g(k) that these ranks need is close to convex in the number of clusters k, so that a dichotomy finds
its minimum. Off-diagonal blocks are taken to need no more rank than diagonal ones, and nothing is checked afterwards:
the tolerance is a guide, not a promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.linalg import energy_of, nystrom_factor
from blockbasis._utils.parallel import check_n_jobs, map_threads, single_threaded
from blockbasis._utils.validation import check_fraction, check_integer, check_points, check_rng
from blockbasis.kernels import Kernel, as_kernel
from blockbasis.kernels.evaluator import Counter, KernelMatrix, check_function
from blockbasis.partition import Partition, Partitioner

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray, Seed

#: The paper looks for k in [1, O(sqrt(n))]; with 4 sqrt(n) clusters C alone has at least 16 floats for each point.
_CLUSTERS_PER_ROOT = 4
#: The minimum of g is flat: numbers closer than this ratio differ less by their g than by their runs of k-means.
_RATIO = 1.25
_GOLDEN = (3 - math.sqrt(5)) / 2

#: Columns drawn first, and columns drawn next as a share of those drawn so far.
_FIRST_COLUMNS = 32
_GROWTH = 0.25
#: A factor is large enough once its residual is this share of the squared error allowed to the rank.
_RESIDUAL_SHARE = 0.25
#: A block of which more than this share of the columns would be drawn is decomposed whole.
_WHOLE_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class Selection:
    """Parameters of the paper's algorithm for a tolerance.

    Parameters
    ----------
    partition : Partition
        The clusters.
    ranks : ndarray of shape (n_clusters,)
        One for each cluster.
    memory : int
        The paper's g(k) = sum n_i r_i + (sum r_i)^2: floats that U and C need at the most.
    searched : tuple of (int, int)
        Numbers of clusters with their g, in the order of the search.
    entries : int
        Kernel entries evaluated.
    """

    partition: Partition
    ranks: IntArray
    memory: int
    searched: tuple[tuple[int, int], ...]
    entries: int


def select(
    X: Any,
    kernel: Any,
    tol: float,
    *,
    n_clusters: int | None = None,
    partition: Any = "kmeans",
    rng: Seed = None,
    n_jobs: int | None = None,
) -> Selection:
    """Clusters and ranks that the paper's rule gives for a tolerance.

    These are the parameters of ``factorize(X, kernel, tol=tol, algorithm="paper")``.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
        A function must be symmetric and positive semi-definite.
    tol : float
        The paper's epsilon.
    n_clusters : int, default=None
        None searches for the number that needs least memory.
    partition, rng, n_jobs
        As in `blockbasis.factorize`.

    Returns
    -------
    Selection

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.planning.paper_rule import select
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> selection = select(X, bb.Gaussian(2.0), 1e-2, rng=0)
    >>> selection.memory == min(memory for _, memory in selection.searched)
    True
    >>> A = bb.factorize(
    ...     X, bb.Gaussian(2.0), algorithm="paper", partition=selection.partition, rank=selection.ranks, rng=0
    ... )
    >>> A.stored <= selection.memory
    True
    """
    caller = "select"
    X = check_points(X, name="X", caller=caller)
    kernel = as_kernel(kernel, caller=caller)
    X, kernel = kernel.coordinates(X), kernel.core
    tol = check_fraction(tol, name="tol", caller=caller)
    if n_clusters is not None:
        n_clusters = check_integer(n_clusters, name="n_clusters", caller=caller, low=1, high=X.shape[0])
    n_jobs = check_n_jobs(n_jobs, caller=caller)
    check_stream, search_stream = check_rng(rng, name="rng", caller=caller).spawn(2)
    partitioner = Partitioner(X, partition, n_clusters, caller)
    counter = Counter()
    with single_threaded():
        check_function(KernelMatrix(kernel, X, counter=counter), check_stream, semidefinite=True)
        return select_parameters(X, kernel, tol, partitioner, counter, search_stream, n_jobs)


# --- the number of clusters ------------------------------------------------------------------------------------------


def select_parameters(
    X: FloatArray,
    kernel: Kernel,
    tol: float,
    partitioner: Partitioner,
    counter: Counter,
    rng: np.random.Generator,
    n_jobs: int,
) -> Selection:
    """Partition and ranks of least memory; the number of clusters is searched where it is not given."""
    results: dict[int, tuple[Partition, IntArray, int]] = {}

    def memory(k: int) -> int:
        (child,) = rng.spawn(1)
        partition = partitioner(k, child)
        # In float64: residuals are small relative to the block.
        matrix = KernelMatrix(kernel, X[partition.order].astype(np.float64, copy=False), counter=counter)
        ranks = select_ranks(matrix, partition, tol, child, n_jobs)
        results[k] = partition, ranks, memory_bound(partition.sizes, ranks)
        return results[k][-1]

    k = dichotomy(memory, candidates(X.shape[0]) if partitioner.given is None else [partitioner.given])
    searched = tuple((partition.n_clusters, needed) for partition, _, needed in results.values())
    return Selection(*results[k], searched, counter.value)


def candidates(n: int) -> list[int]:
    """Numbers of clusters to choose among for ``n`` points: the first few, then a ratio apart, up to O(sqrt(n))."""
    largest = min(n, math.isqrt(_CLUSTERS_PER_ROOT**2 * n))
    numbers = [1]
    while numbers[-1] < largest:
        numbers.append(min(max(numbers[-1] + 1, int(_RATIO * numbers[-1])), largest))
    return numbers


def dichotomy(function: Callable[[int], int], numbers: Sequence[int]) -> int:
    """The one of ascending ``numbers`` at which a nearly convex function is least, by golden-section search.

    The two inner numbers of the interval are not adjacent: g varies with the result of k-means.
    """
    values: dict[int, int] = {}
    low, high = 0, len(numbers) - 1
    while high - low > 2:
        step = max(1, int(_GOLDEN * (high - low)))
        lower, upper = numbers[low + step], numbers[high - step]
        values |= {k: function(k) for k in (lower, upper) if k not in values}
        if values[upper] < values[lower]:
            low += step + 1
        else:
            high -= step + 1
    values |= {k: function(k) for k in numbers[low : high + 1] if k not in values}
    return min(values, key=lambda k: (values[k], k))


def memory_bound(sizes: IntArray, ranks: IntArray) -> int:
    """The paper's g: floats of U and of C, every block of it kept."""
    return int(sizes @ ranks) + int(ranks.sum()) ** 2


# --- the ranks -------------------------------------------------------------------------------------------------------


def select_ranks(
    matrix: KernelMatrix, partition: Partition, tol: float, rng: np.random.Generator, n_jobs: int
) -> IntArray:
    """The paper's rank of every cluster: the squared residual of M_ii is below (n_i / n)^2 |M_ii|^2 tol^2."""
    shares = energy_shares(partition, tol)
    tasks = zip(partition.clusters, shares, rng.spawn(partition.n_clusters), strict=True)
    ranks = map_threads(lambda *task: _rank(matrix, *task), tasks, n_jobs)
    return np.array(ranks, dtype=np.intp)


def energy_shares(partition: Partition, tol: float) -> FloatArray:
    """Allowed relative squared residual of each diagonal block."""
    return np.asarray((partition.sizes / partition.n_points * tol) ** 2)


def _rank(matrix: KernelMatrix, cluster: slice, share: float, rng: np.random.Generator) -> int:
    """Least rank of a diagonal block whose relative squared residual is below ``share``; at least one."""
    return least_rank(*_spectrum(matrix, cluster, share, rng), share)


def least_rank(energies: FloatArray, residual: float, share: float) -> int:
    """Least rank whose relative squared residual is below ``share``; at least one.

    ``energies`` are squared singular values, descending, and ``residual`` is the sum of those that are not given.
    """
    tails = np.cumsum(energies[::-1])[::-1] + residual  # summed from the smallest: no difference of large numbers
    allowed = share * (energies.sum() + residual)
    return max(1, int(np.count_nonzero((tails >= allowed) & (tails > 0))))


def _spectrum(matrix: KernelMatrix, cluster: slice, share: float, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """Squared singular values of a diagonal block, descending, and the energy of those that are not among them.

    A randomly pivoted Cholesky factorization M_ii ~ G Gᵀ (Chen, Epperly, Tropp and Webber, 2023), in blocks. Columns
    are drawn by the diagonal of the residual E = M_ii - G Gᵀ, so that isolated points are not missed. The columns of a
    block are an independent sample of E before they are added to G: they give an unbiased estimate of |E|^2 without
    cancellation. The eigenvalues of G Gᵀ are at most those of M_ii; |E|^2, before the last block is added, compensates
    for it. O(n_i r) entries, O(n_i r^2) operations.
    """
    height = cluster.stop - cluster.start
    residual_diagonal = matrix.diagonal(cluster)
    rounding = float(np.finfo(matrix.dtype).eps * residual_diagonal.max())
    factor, energy, n_drawn = np.empty((height, 0)), 0.0, 0
    while residual_diagonal.any():
        count = max(_FIRST_COLUMNS, int(_GROWTH * n_drawn))
        if n_drawn + count > _WHOLE_SHARE * height:
            return np.sort(np.linalg.eigvalsh(matrix.block(cluster, cluster)) ** 2)[::-1], 0.0
        drawn, weights = _draw_columns(residual_diagonal, count, rng)
        columns = matrix.block(cluster, cluster.start + drawn) - factor @ factor[drawn].T
        residual = float(np.einsum("ij,ij->j", columns, columns) @ weights)
        sufficient = residual <= _RESIDUAL_SHARE * share * (energy + residual)
        new = nystrom_factor(columns, columns[drawn], floor=rounding * count)
        energy += 2 * energy_of(factor.T @ new) + energy_of(new.T @ new)
        factor = np.concatenate((factor, new), axis=1)
        if sufficient:
            return _energies(factor), residual
        residual_diagonal = np.maximum(residual_diagonal - np.einsum("ij,ij->i", new, new), 0)
        n_drawn += len(drawn)
    return _energies(factor), 0.0


def _draw_columns(residual_diagonal: FloatArray, count: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Columns drawn with replacement by the residual diagonal, and weights that make sums over them unbiased."""
    probabilities = residual_diagonal / residual_diagonal.sum()
    drawn, counts = np.unique(rng.choice(len(probabilities), count, p=probabilities), return_counts=True)
    return drawn, counts / (count * probabilities[drawn])


def _energies(factor: FloatArray) -> FloatArray:
    """Squared singular values of G Gᵀ, descending."""
    return np.asarray(np.linalg.eigvalsh(factor.T @ factor)[::-1] ** 2)
