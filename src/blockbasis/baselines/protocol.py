"""What every method has in common: the operators it returns, and the question it is asked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from blockbasis._utils.typing import FloatArray, Seed
from blockbasis._utils.validation import check_integer, check_memory, check_points, check_rng
from blockbasis.kernels import as_kernel
from blockbasis.kernels.evaluator import KernelMatrix, check_function
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.inner import InnerMatrix
from blockbasis.operators.product import Product

#: Clusters of the clustered methods where none are asked for: the default of MEKA's authors.
DEFAULT_CLUSTERS = 10


class Approximation(Product):
    """A kernel matrix as one of the methods approximates it: a `scipy.sparse.linalg.LinearOperator`.

    Attributes
    ----------
    name : str
        The method, as `approximate` calls it.

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
        """Floats that a product reads, each pair of symmetric entries counted once."""

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
    """K ~ F Fᵀ.

    Parameters
    ----------
    name : str
    factor : ndarray of shape (n, r)
        F; read-only.
    """

    name: str
    factor: FloatArray

    def __post_init__(self) -> None:
        self._set_type(self.factor.shape[0], self.factor.dtype)
        self.factor.setflags(write=False)

    @property
    def rank(self) -> int:
        return int(self.factor.shape[1])

    @property
    def stored(self) -> int:
        return int(self.factor.size)

    def _apply(self, V: FloatArray) -> FloatArray:
        return np.asarray(self.factor @ (self.factor.T @ V))

    def todense(self) -> FloatArray:
        """F Fᵀ as an array: for small matrices and for tests."""
        return np.asarray(self.factor @ self.factor.T)


@dataclass(frozen=True, eq=False, repr=False)
class Clustered(Approximation):
    """K ~ U C Uᵀ with a block-diagonal U, one block for each cluster.

    Parameters
    ----------
    name : str
    basis : BlockDiagonal
        U.
    inner : InnerMatrix
        C; with ``unit_diagonal`` its blocks above the diagonal only.
    unit_diagonal : bool
        Whether the diagonal blocks of C are identities, which no product reads.
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
        return self.basis.partition.n_clusters

    @property
    def stored(self) -> int:
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
    """Checked arguments of a method: the matrix in float64, and how much of it may be kept.

    Parameters
    ----------
    matrix : KernelMatrix
    dtype : dtype
        Precision of the result: that of the points given.
    memory : int or None
        Floats that the result may store.
    rank : int or None
        Instead of ``memory``.
    rng : Generator
    """

    matrix: KernelMatrix
    dtype: np.dtype[Any]
    memory: int | None
    rank: int | None
    rng: np.random.Generator

    @property
    def n_points(self) -> int:
        return self.matrix.shape[0]

    @property
    def columns(self) -> int:
        """Columns of F in K ~ F Fᵀ: each costs one float for each point."""
        if self.memory is not None:
            return self.memory // self.n_points
        assert self.rank is not None  # one of the two was given
        return self.rank

    @property
    def low_rank(self) -> int:
        """`columns`, and no more than the matrix has."""
        return min(self.columns, self.n_points)


def check_budget(memory: Any, rank: Any, *, caller: str) -> None:
    """One of the two."""
    if (memory is None) == (rank is None):
        raise ValueError(f"{caller} takes one of 'memory' and 'rank'. Got {'neither' if rank is None else 'both'}.")


def check_problem(
    X: Any, kernel: Any, memory: Any, rank: Any, rng: Seed, *, semidefinite: bool = True, caller: str
) -> Problem:
    """Arguments as all methods with a budget take them; a function need not be ``semidefinite`` for all of them."""
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
            f"The 'kernel' parameter of {caller} must have no white noise, which no matrix of low rank holds. "
            f"Got {kernel!r} instead."
        )
    matrix = KernelMatrix(kernel, X.astype(np.float64, copy=False))
    of_check, of_method = generator.spawn(2)
    check_function(matrix, of_check, semidefinite=semidefinite)
    return Problem(matrix, X.dtype, memory, rank, of_method)


def low_rank(name: str, factor: FloatArray, problem: Problem) -> LowRank:
    """The operator F Fᵀ in the precision of the points."""
    return LowRank(name, np.ascontiguousarray(factor, dtype=problem.dtype))


def rounding(core: FloatArray) -> float:
    """Eigenvalues of a semi-definite matrix up to this are rounding."""
    return float(len(core) * np.finfo(np.float64).eps * np.diagonal(core).max(initial=0.0))


def check_clusters(n_clusters: Any, problem: Problem, *, default: int = DEFAULT_CLUSTERS, caller: str) -> int:
    """A number of clusters that the points can have."""
    if n_clusters is None:
        return min(default, problem.n_points)
    return check_integer(n_clusters, name="n_clusters", caller=caller, low=1, high=problem.n_points)


def check_one_each(stored: int, problem: Problem, caller: str) -> None:
    """Room for the floats of one vector in each cluster."""
    assert problem.memory is not None
    if stored > problem.memory:
        raise ValueError(
            f"The 'memory' parameter of {caller} must be enough for one vector in each cluster, {stored} floats. Got "
            f"{problem.memory} floats instead: lower 'n_clusters'."
        )


def largest(stored: Callable[[int], int], problem: Problem, high: int, caller: str) -> int:
    """The largest number from 1 to ``high`` for which no more floats are stored than the budget has."""
    assert problem.memory is not None
    low = 1
    check_one_each(stored(low), problem, caller)
    while high > low:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if stored(middle) <= problem.memory else (low, middle - 1)
    return low
