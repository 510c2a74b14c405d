"""The block basis factorization behind the same protocol: the default algorithm, and the paper's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from blockbasis._api import factorize
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.typing import FloatArray, IntArray, Seed
from blockbasis.baselines.protocol import (
    Approximation,
    Problem,
    check_budget,
    check_clusters,
    check_one_each,
    check_problem,
)
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.partition import Partition, kmeans
from blockbasis.planning.costs import stored_floats
from blockbasis.planning.paper_rule import energy_shares, least_rank
from blockbasis.planning.search import default_clusters

#: Tolerances that a budget is translated into, as powers of ten, and the halvings of their range.
_LEAST_TOL = -16.0
_HALVINGS = 40


@dataclass(frozen=True, eq=False, repr=False)
class Compressed(Approximation):
    """A `BlockBasis` with the name of a method.

    Parameters
    ----------
    name : str
    factorization : BlockBasis
    """

    name: str
    factorization: BlockBasis

    def __post_init__(self) -> None:
        self._set_type(self.factorization.shape[0], self.factorization.dtype)

    @property
    def stored(self) -> int:
        return self.factorization.stored

    @property
    def n_clusters(self) -> int:
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
) -> Compressed:
    """Block basis factorization, by `blockbasis.factorize` as it comes.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Floats, or a size such as "512MB"; clusters and ranks are chosen.
    rank : int, default=None
        Instead of ``memory``: basis vectors of every cluster.
    n_clusters : int, default=None
        As in `blockbasis.factorize`.
    rng : int, Generator or None

    Returns
    -------
    Compressed

    References
    ----------
    R. Wang, Y. Li, M. W. Mahoney and E. Darve, "Block basis factorization for scalable kernel evaluation",
    SIAM Journal on Matrix Analysis and Applications 40 (2019).

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
    return Compressed("bbf", factorize(X, kernel, memory=memory, rank=rank, n_clusters=n_clusters, rng=rng))


def bbf_paper(
    X: Any,
    kernel: Any,
    *,
    memory: int | str | None = None,
    rank: int | None = None,
    n_clusters: int | None = None,
    rng: Seed = None,
) -> Compressed:
    """Block basis factorization by the paper's Algorithms 1 to 5.

    The paper turns a tolerance into ranks, by the singular values of the diagonal blocks, and has no rule for a budget.
    With ``memory`` the ranks are those of the smallest tolerance whose ranks fit. Its rule for the number of clusters,
    `blockbasis.selection.select`, needs a tolerance, too: sqrt(n) / 4 are taken instead.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
        A function need not be positive semi-definite: symmetric is enough.
    memory : int or str, default=None
        Floats, or a size such as "512MB", that U and C may have. All singular values of the diagonal blocks are
        computed: cubic time in their points.
    rank : int, default=None
        Instead of ``memory``: basis vectors of every cluster.
    n_clusters : int, default=None
        None is sqrt(n) / 4.
    rng : int, Generator or None

    Returns
    -------
    Compressed

    References
    ----------
    R. Wang, Y. Li, M. W. Mahoney and E. Darve, "Block basis factorization for scalable kernel evaluation",
    SIAM Journal on Matrix Analysis and Applications 40 (2019).

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import bbf_paper
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = bbf_paper(X, bb.Gaussian(2.0), memory=300 * 20, rng=0)
    >>> A.stored <= 300 * 20
    True
    """
    caller = "bbf_paper"
    problem = check_problem(X, kernel, memory, rank, rng, semidefinite=False, caller=caller)
    k = check_clusters(n_clusters, problem, default=default_clusters(problem.n_points), caller=caller)
    of_partition, of_factorization = problem.rng.spawn(2)
    with single_threaded():
        partition = kmeans(problem.matrix.rows, k, of_partition)
        ranks = problem.rank if problem.memory is None else _ranks_within(problem, partition, caller)
    found = factorize(
        problem.matrix.rows,
        problem.matrix.kernel,
        partition=partition,
        rank=ranks,
        algorithm="paper",
        dtype=problem.dtype,
        rng=of_factorization,
    )
    return Compressed("bbf-paper", found)


def _ranks_within(problem: Problem, partition: Partition, caller: str) -> IntArray:
    """The paper's ranks at the smallest tolerance whose U and C fit into the budget."""
    assert problem.memory is not None
    matrix = KernelMatrix(problem.matrix.kernel, problem.matrix.rows[partition.order])
    energies = [np.sort(np.linalg.eigvalsh(matrix.block(i, i)) ** 2)[::-1] for i in partition.clusters]

    def ranks_at(exponent: float) -> IntArray:
        shares = energy_shares(partition, 10**exponent)
        return np.array([least_rank(*each) for each in zip(energies, [0.0] * len(shares), shares, strict=True)])

    def stored(ranks: IntArray) -> int:
        return stored_floats(partition.sizes, ranks, diagonal=False)

    check_one_each(stored(np.ones(partition.n_clusters, dtype=np.intp)), problem, caller)
    low, high = _LEAST_TOL, math.log10(partition.n_points)  # at n one vector is enough for every cluster
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if stored(ranks_at(middle)) <= problem.memory else (middle, high)
    return ranks_at(high)
