"""Block basis factorization as a baseline: the default algorithm and the paper's algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._api import factorize
from blockbasis._utils.parallel import single_threaded
from blockbasis.baselines.protocol import (
    Approximation,
    Problem,
    check_budget,
    check_n_clusters,
    check_problem,
    check_smallest_budget,
)
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.partition import Partition, kmeans
from blockbasis.planning.costs import stored_floats
from blockbasis.planning.paper_rule import energy_shares, least_rank
from blockbasis.planning.search import default_clusters

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray, Seed
    from blockbasis.operators.block_basis import BlockBasis

#: Smallest exponent e of the tolerances 10**e between which the bisection searches: float64 resolves no smaller one.
_MIN_EXPONENT = -16.0
#: Number of bisection steps. They determine the exponent to (16 + log10(n)) / 2**40.
_BISECTIONS = 40


@dataclass(frozen=True, eq=False, repr=False)
class BlockBasisApproximation(Approximation):
    """A `BlockBasis` with the interface of `Approximation`.

    Parameters
    ----------
    name : str
        Name of the method.
    factorization : BlockBasis
        Factorization that computes the products.
    """

    name: str
    factorization: BlockBasis

    def __post_init__(self) -> None:
        self._set_type(self.factorization.shape[0], self.factorization.dtype)

    @property
    def stored(self) -> int:
        """Number of floats that a product reads."""
        return self.factorization.stored

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.factorization.n_clusters

    def _apply(self, V: FloatArray) -> FloatArray:
        return np.asarray(self.factorization @ V)


def bbf(
    X: Any,
    kernel: Any,
    *,
    memory: int | str | None = None,
    rank: int | None = None,
    n_clusters: int | None = None,
    rng: Seed = None,
) -> BlockBasisApproximation:
    """Block basis factorization by `blockbasis.factorize` with its default algorithm.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Number of floats that may be stored, or a size such as "512MB". Clusters and ranks are chosen automatically.
    rank : int, default=None
        Number of basis vectors of every cluster, given instead of ``memory``.
    n_clusters : int, default=None
        Number of clusters, as in `blockbasis.factorize`.
    rng : int, Generator or None
        Source of random numbers of the factorization.

    Returns
    -------
    BlockBasisApproximation

    See Also
    --------
    blockbasis.factorize : The algorithm and its reference.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import bbf
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = bbf(X, bb.Gaussian(2.0), memory=300 * 20, rng=0)
    >>> A.stored <= 300 * 20
    True
    """
    check_budget(memory, rank, caller="bbf")
    found = factorize(X, kernel, memory=memory, rank=rank, n_clusters=n_clusters, rng=rng)
    return BlockBasisApproximation("bbf", found)


def bbf_paper(
    X: Any,
    kernel: Any,
    *,
    memory: int | str | None = None,
    rank: int | None = None,
    n_clusters: int | None = None,
    rng: Seed = None,
) -> BlockBasisApproximation:
    """Block basis factorization by Algorithms 1 to 5 of the paper.

    The paper derives ranks from a tolerance, by the singular values of the diagonal blocks, and has no rule for a
    budget. With ``memory`` the ranks are those of the smallest tolerance at which U and C fit into the budget. The
    paper's rule for the number of clusters, `blockbasis.selection.select`, requires a tolerance as well; the default
    here is sqrt(n) / 4.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
        A function must be symmetric; it may be indefinite.
    memory : int or str, default=None
        Largest number of floats of U and C, or a size such as "512MB". The search computes all singular values of the
        diagonal blocks, in time cubic in the number of their points.
    rank : int, default=None
        Number of basis vectors of every cluster, given instead of ``memory``.
    n_clusters : int, default=None
        Number of clusters; None selects sqrt(n) / 4.
    rng : int, Generator or None
        Source of random numbers of the clustering and of the sampling.

    Returns
    -------
    BlockBasisApproximation

    References
    ----------
    R. Wang, Y. Li, M. W. Mahoney and E. Darve, "Block basis factorization for scalable kernel evaluation",
    SIAM Journal on Matrix Analysis and Applications 40 (2019).

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import approximate
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = approximate(X, bb.Gaussian(2.0), "bbf-paper", memory=300 * 20, rng=0)
    >>> A.n_clusters, A.stored <= 300 * 20
    (4, True)
    """
    caller = "bbf_paper"
    problem = check_problem(X, kernel, memory, rank, rng, semidefinite=False, caller=caller)
    k = check_n_clusters(n_clusters, problem, default=default_clusters(problem.n_points), caller=caller)
    partition_rng, factorization_rng = problem.rng.spawn(2)
    with single_threaded():
        partition = kmeans(problem.matrix.rows, k, partition_rng)
        ranks = problem.rank if problem.memory is None else _ranks_within(problem, partition, caller)
    found = factorize(
        problem.matrix.rows,
        problem.matrix.kernel,
        partition=partition,
        rank=ranks,
        algorithm="paper",
        dtype=problem.dtype,
        rng=factorization_rng,
    )
    return BlockBasisApproximation("bbf-paper", found)


def _ranks_within(problem: Problem, partition: Partition, caller: str) -> IntArray:
    """Return the paper's ranks at the smallest tolerance at which U and C fit into the budget."""
    assert problem.memory is not None
    matrix = KernelMatrix(problem.matrix.kernel, problem.matrix.rows[partition.order])
    energies = [np.sort(np.linalg.eigvalsh(matrix.block(i, i)) ** 2)[::-1] for i in partition.clusters]

    def ranks_at(exponent: float) -> IntArray:
        shares = energy_shares(partition, 10**exponent)
        return np.array([least_rank(*each) for each in zip(energies, [0.0] * len(shares), shares, strict=True)])

    def stored(ranks: IntArray) -> int:
        return stored_floats(partition.sizes, ranks, diagonal=False)

    check_smallest_budget(stored(np.ones(partition.n_clusters, dtype=np.intp)), problem, caller)
    low, high = _MIN_EXPONENT, math.log10(partition.n_points)  # at tolerance n every cluster has rank 1
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if stored(ranks_at(middle)) <= problem.memory else (middle, high)
    return ranks_at(high)
