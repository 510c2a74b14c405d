"""Common parts of all methods: the operators that they return and the arguments that they take."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.validation import check_integer, check_memory, check_points, check_rng
from blockbasis.kernels import as_kernel
from blockbasis.kernels.evaluator import KernelMatrix, check_function
from blockbasis.operators.product import RealOperator

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, Seed
    from blockbasis.operators.block_diagonal import BlockDiagonal
    from blockbasis.operators.inner import InnerMatrix

#: Default number of clusters of "meka" and "clra": the default of MEKA's authors.
DEFAULT_CLUSTERS = 10


class Approximation(RealOperator):
    """Base class of the approximations of K(X, X): a symmetric `scipy.sparse.linalg.LinearOperator`.

    Attributes
    ----------
    name : str
        Name of the method in `approximate`.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import Approximation, approximate
    >>> A = approximate(np.linspace(0, 1, 50)[:, None], bb.Gaussian(1.0), "svd", rank=3)
    >>> isinstance(A, Approximation), A.stored
    (True, 150)
    """

    name: str

    @property
    @abstractmethod
    def stored(self) -> int:
        """Number of floats that a product reads; a pair of symmetric entries counts once."""

    def _adjoint(self) -> Any:
        return self

    def _transpose(self) -> Any:
        return self._adjoint()

    def _set_type(self, n: int, dtype: np.dtype[Any]) -> None:
        self._initialize(dtype, (n, n))

    def __repr__(self) -> str:
        n = self.shape[0]
        return f"{type(self).__name__}({self.name}, {n} x {n}, {self.stored / n:.1f} floats per point, {self.dtype})"


@dataclass(frozen=True, eq=False, repr=False)
class LowRank(Approximation):
    """Low-rank approximation K ~ F Fᵀ.

    Parameters
    ----------
    name : str
        Name of the method.
    factor : ndarray of shape (n, r)
        Factor F, made read-only.
    """

    name: str
    factor: FloatArray

    def __post_init__(self) -> None:
        self._set_type(self.factor.shape[0], self.factor.dtype)
        self.factor.setflags(write=False)

    @property
    def rank(self) -> int:
        """Number r of columns of F."""
        return int(self.factor.shape[1])

    @property
    def stored(self) -> int:
        """Number n r of entries of F."""
        return int(self.factor.size)

    def _apply(self, V: FloatArray) -> FloatArray:
        return np.asarray(self.factor @ (self.factor.T @ V))

    def todense(self) -> FloatArray:
        """Return F Fᵀ as an array, which takes O(n²) memory."""
        return np.asarray(self.factor @ self.factor.T)


@dataclass(frozen=True, eq=False, repr=False)
class Clustered(Approximation):
    """Approximation K ~ U C Uᵀ with a block-diagonal U, one block for each cluster.

    Parameters
    ----------
    name : str
        Name of the method.
    basis : BlockDiagonal
        Block-diagonal matrix U.
    inner : InnerMatrix
        Inner matrix C. With ``unit_diagonal`` it holds only the blocks above the diagonal.
    unit_diagonal : bool
        Whether the diagonal blocks of C are identities, which are not stored.
    """

    name: str
    basis: BlockDiagonal
    inner: InnerMatrix
    unit_diagonal: bool

    def __post_init__(self) -> None:
        self._set_type(self.basis.partition.n_points, self.basis.dtype)
        self.basis.freeze()

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.basis.partition.n_clusters

    @property
    def stored(self) -> int:
        """Number of floats of U and of the stored part of C."""
        return self.basis.size + self.inner.stored

    def _apply(self, V: FloatArray) -> FloatArray:
        W = self.basis.project(V)
        image = self.inner @ W
        if self.unit_diagonal:
            image += W
            image += self.inner.transpose_matmul(W)
        return self.basis.expand(image)


@dataclass(frozen=True, eq=False)
class Problem:
    """Checked arguments of a method.

    Parameters
    ----------
    matrix : KernelMatrix
        Kernel matrix in float64.
    dtype : dtype
        Dtype of the result, which is that of the points.
    memory : int or None
        Largest number of floats that the result may store; None if ``rank`` is given.
    rank : int or None
        Rank of the result; None if ``memory`` is given.
    rng : Generator
        Source of random numbers of the method.
    """

    matrix: KernelMatrix
    dtype: np.dtype[Any]
    memory: int | None
    rank: int | None
    rng: np.random.Generator

    @property
    def n_points(self) -> int:
        """Number n of points."""
        return self.matrix.shape[0]

    @property
    def budget_rank(self) -> int:
        """Number of columns of F in K ~ F Fᵀ that the budget allows: a column takes n floats."""
        if self.memory is not None:
            return self.memory // self.n_points
        assert self.rank is not None  # check_budget guarantees one of memory and rank
        return self.rank

    @property
    def rank_limit(self) -> int:
        """`budget_rank`, and at most the number n of points."""
        return min(self.budget_rank, self.n_points)


def check_budget(memory: Any, rank: Any, *, caller: str) -> None:
    """Raise a ValueError unless exactly one of ``memory`` and ``rank`` is given."""
    if (memory is None) == (rank is None):
        got = "neither" if rank is None else "both"
        raise ValueError(f"Exactly one of the 'memory' and 'rank' parameters of {caller} must be given. Got {got}.")


def check_problem(
    X: Any, kernel: Any, memory: Any, rank: Any, rng: Seed, *, semidefinite: bool = True, caller: str
) -> Problem:
    """Check the arguments that every method with a budget takes.

    Parameters
    ----------
    X, kernel, memory, rank, rng
        Arguments of the method, unchecked.
    semidefinite : bool, default=True
        Whether a user's kernel function must be positive semi-definite.
    caller : str
        Name of the method in error messages.

    Returns
    -------
    Problem
    """
    check_budget(memory, rank, caller=caller)
    X = check_points(X, name="X", caller=caller)
    if memory is not None:
        memory = check_memory(memory, X.dtype.itemsize, X.shape[0], name="memory", caller=caller)
    else:
        rank = check_integer(rank, name="rank", caller=caller, low=1)
    generator = check_rng(rng, name="rng", caller=caller)
    kernel = as_kernel(kernel, caller=caller)
    if kernel.noise:
        raise ValueError(
            f"The 'kernel' parameter of {caller} must have no white noise term, which has full rank. "
            f"Got {kernel!r} instead."
        )
    matrix = KernelMatrix(kernel, X.astype(np.float64, copy=False))
    validation_rng, method_rng = generator.spawn(2)
    check_function(matrix, validation_rng, semidefinite=semidefinite)
    return Problem(matrix, X.dtype, memory, rank, method_rng)


def low_rank(name: str, factor: FloatArray, problem: Problem) -> LowRank:
    """Return the operator F Fᵀ in the dtype of the points."""
    return LowRank(name, np.ascontiguousarray(factor, dtype=problem.dtype))


def rounding_level(core: FloatArray) -> float:
    """Return the size m eps max(diag) below which computed eigenvalues of an m by m PSD matrix are rounding errors."""
    return float(len(core) * np.finfo(np.float64).eps * np.diagonal(core).max(initial=0.0))


def check_n_clusters(n_clusters: Any, problem: Problem, *, default: int = DEFAULT_CLUSTERS, caller: str) -> int:
    """Return the number of clusters, between 1 and the number of points; None selects ``default``."""
    if n_clusters is None:
        return min(default, problem.n_points)
    return check_integer(n_clusters, name="n_clusters", caller=caller, low=1, high=problem.n_points)


def check_smallest_budget(stored: int, problem: Problem, caller: str) -> None:
    """Raise a ValueError if the memory is below ``stored``, the number of floats at rank 1 in every cluster."""
    assert problem.memory is not None
    if stored > problem.memory:
        raise ValueError(
            f"The 'memory' parameter of {caller} must be enough for one vector in each cluster, {stored} floats. Got "
            f"{problem.memory} floats instead. Decrease 'n_clusters' or increase 'memory'."
        )


def largest_within_budget(stored: Callable[[int], int], problem: Problem, high: int, caller: str) -> int:
    """Return the largest r in 1..high with ``stored(r) <= memory``, by bisection; ``stored`` must be increasing."""
    assert problem.memory is not None
    low = 1
    check_smallest_budget(stored(low), problem, caller)
    while high > low:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if stored(middle) <= problem.memory else (low, middle - 1)
    return low
