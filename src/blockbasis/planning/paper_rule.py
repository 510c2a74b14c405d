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
from typing import Any

import numpy as np

from blockbasis._utils.linalg import energy_of, nystrom_factor
from blockbasis._utils.parallel import check_n_jobs, map_threads, single_threaded
from blockbasis._utils.typing import FloatArray, IntArray, Seed
from blockbasis._utils.validation import check_fraction, check_integer, check_points, check_rng
from blockbasis.kernels import Kernel, as_kernel
from blockbasis.kernels.evaluator import Counter, KernelMatrix, check_function
from blockbasis.partition import Partition, Partitioner

#: The paper looks for k in [1, O(sqrt(n))]; with 4 sqrt(n) clusters C alone has at least 16 floats for each point.
_CLUSTERS_PER_ROOT = 4
#: The minimum of g is flat: numbers closer than this ratio differ less by their g than by their runs of k-means.
_RATIO = 1.25
_GOLDEN = (3 - math.sqrt(5)) / 2

#: Columns of a block drawn at first, and the part of those seen that is drawn next.
_FIRST_COLUMNS = 32
_GROWTH = 0.25
#: A factor is large enough once the energy it leaves is this part of what the rank may leave.
_RESIDUAL_SHARE = 0.25
#: A block of which more than this part of the columns would be drawn is decomposed whole.
_WHOLE = 0.5


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
        Every number of clusters looked at with its g, in that order.
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

    What ``factorize(X, kernel, tol=tol, algorithm="paper")`` runs with, to be looked at.

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
    >>> found = select(X, bb.Gaussian(2.0), 1e-2, rng=0)
    >>> found.memory == min(memory for _, memory in found.searched)
    True
    >>> A = bb.factorize(
    ...     X, bb.Gaussian(2.0), algorithm="paper", partition=found.partition, rank=found.ranks, rng=0
    ... )
    >>> A.stored <= found.memory
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
    of_check, of_search = check_rng(rng, name="rng", caller=caller).spawn(2)
    clusters = Partitioner(X, partition, n_clusters, caller)
    counter = Counter()
    with single_threaded():
        check_function(KernelMatrix(kernel, X, counter=counter), of_check, semidefinite=True)
        return search(X, kernel, tol, clusters, counter, of_search, n_jobs)


# --- the number of clusters ------------------------------------------------------------------------------------------


def search(
    X: FloatArray,
    kernel: Kernel,
    tol: float,
    clusters: Partitioner,
    counter: Counter,
    rng: np.random.Generator,
    n_jobs: int,
) -> Selection:
    """Parameters of least memory; the number of clusters is searched for where it is not given."""
    found: dict[int, tuple[Partition, IntArray, int]] = {}

    def memory(k: int) -> int:
        (child,) = rng.spawn(1)
        partition = clusters(k, child)
        # In double precision: what a rank leaves is small beside the block.
        matrix = KernelMatrix(kernel, X[partition.order].astype(np.float64, copy=False), counter=counter)
        ranks = select_ranks(matrix, partition, tol, child, n_jobs)
        found[k] = partition, ranks, memory_bound(partition.sizes, ranks)
        return found[k][-1]

    k = dichotomy(memory, candidates(X.shape[0]) if clusters.given is None else [clusters.given])
    searched = tuple((partition.n_clusters, needed) for partition, _, needed in found.values())
    return Selection(*found[k], searched, counter.value)


def candidates(n: int) -> list[int]:
    """Numbers of clusters to choose among for ``n`` points: the first few, then a ratio apart, up to O(sqrt(n))."""
    largest = min(n, math.isqrt(_CLUSTERS_PER_ROOT**2 * n))
    numbers = [1]
    while numbers[-1] < largest:
        numbers.append(min(max(numbers[-1] + 1, int(_RATIO * numbers[-1])), largest))
    return numbers


def dichotomy(function: Callable[[int], int], numbers: Sequence[int]) -> int:
    """The one of ascending ``numbers`` that has the least value, of those looked at.

    For a function close to convex: its values at two numbers inside an interval tell which end to cut off. They stand
    apart, not side by side, because g is as rough as k-means; at the golden section, so that one of them often serves
    again.
    """
    values: dict[int, int] = {}
    low, high = 0, len(numbers) - 1
    while high - low > 2:
        step = max(1, int(_GOLDEN * (high - low)))
        left, right = numbers[low + step], numbers[high - step]
        values |= {k: function(k) for k in (left, right) if k not in values}
        if values[right] < values[left]:
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
    """The paper's rank of every cluster: what it leaves of M_ii is less than (n_i / n)^2 |M_ii|^2 tol^2."""
    shares = energy_shares(partition, tol)
    tasks = zip(partition.clusters, shares, rng.spawn(partition.n_clusters), strict=True)
    ranks = map_threads(lambda *task: _rank(matrix, *task), tasks, n_jobs)
    return np.array(ranks, dtype=np.intp)


def energy_shares(partition: Partition, tol: float) -> FloatArray:
    """What a rank may leave of the energy of each diagonal block."""
    return np.asarray((partition.sizes / partition.n_points * tol) ** 2)


def _rank(matrix: KernelMatrix, cluster: slice, share: float, rng: np.random.Generator) -> int:
    """Least rank of a diagonal block that leaves less than ``share`` of its energy; at least one."""
    return least_rank(*_spectrum(matrix, cluster, share, rng), share)


def least_rank(energies: FloatArray, rest: float, share: float) -> int:
    """Least rank that leaves less than ``share`` of the energy of these, descending, and the rest; at least one."""
    tails = np.cumsum(energies[::-1])[::-1] + rest  # summed from the smallest: no difference of large numbers
    allowed = share * (energies.sum() + rest)
    return max(1, int(np.count_nonzero((tails >= allowed) & (tails > 0))))


def _spectrum(matrix: KernelMatrix, cluster: slice, share: float, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """Squared singular values of a diagonal block, descending, and the energy of those that are not among them.

    A randomly pivoted Cholesky factorization M_ii ~ G Gᵀ (Chen, Epperly, Tropp and Webber, 2023), in blocks. Columns
    are drawn by what G leaves of the diagonal, so that points far from all others, which are few and leave most, are
    not missed. Before they join G the columns drawn are a fresh sample of E = M_ii - G Gᵀ, from which |E|^2 is
    estimated without bias, and not as the difference of two large numbers. The eigenvalues of G Gᵀ are not above those
    of M_ii; |E|^2, from before the last columns joined, makes up for it. O(n_i r) entries, O(n_i r^2) operations.
    """
    height = cluster.stop - cluster.start
    left = matrix.diagonal(cluster)
    rounding = float(np.finfo(matrix.dtype).eps * left.max())
    factor, energy, seen = np.empty((height, 0)), 0.0, 0
    while left.any():
        count = max(_FIRST_COLUMNS, int(_GROWTH * seen))
        if seen + count > _WHOLE * height:
            return np.sort(np.linalg.eigvalsh(matrix.block(cluster, cluster)) ** 2)[::-1], 0.0
        drawn, weights = _draw(left, count, rng)
        columns = matrix.block(cluster, cluster.start + drawn) - factor @ factor[drawn].T
        rest = float(np.einsum("ij,ij->j", columns, columns) @ weights)
        enough = rest <= _RESIDUAL_SHARE * share * (energy + rest)
        more = nystrom_factor(columns, columns[drawn], floor=rounding * count)
        energy += 2 * energy_of(factor.T @ more) + energy_of(more.T @ more)
        factor = np.concatenate((factor, more), axis=1)
        if enough:
            return _energies(factor), rest
        left = np.maximum(left - np.einsum("ij,ij->i", more, more), 0)
        seen += len(drawn)
    return _energies(factor), 0.0


def _draw(left: FloatArray, count: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Columns drawn in proportion to ``left``, with replacement, and weights that make sums over them unbiased."""
    chances = left / left.sum()
    drawn, times = np.unique(rng.choice(len(left), count, p=chances), return_counts=True)
    return drawn, times / (count * chances[drawn])


def _energies(factor: FloatArray) -> FloatArray:
    """Squared singular values of G Gᵀ, descending."""
    return np.asarray(np.linalg.eigvalsh(factor.T @ factor)[::-1] ** 2)
