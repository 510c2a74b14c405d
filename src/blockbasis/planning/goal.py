"""The goal of a factorization, a tolerance or a budget, and the request that it belongs to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from blockbasis._utils.linalg import energy_of
from blockbasis._utils.machine import require_memory
from blockbasis._utils.tiling import tiles
from blockbasis.construction.method import ALGORITHMS, INNERS, Method
from blockbasis.kernels.evaluator import CachedKernelMatrix, Counter, KernelMatrix
from blockbasis.partition import PARTITIONS, Partition

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.kernels import Kernel

#: Relative error where neither a tolerance nor a budget nor ranks are given.
DEFAULT_TOL = 1e-3
#: Defaults of arguments of `blockbasis.factorize` that are not None by default.
DEFAULTS = {"partition": PARTITIONS[0], "algorithm": ALGORITHMS[0], "inner": INNERS[0]}
#: The matrix of at most this many points is evaluated once, half of its entries by symmetry, and cached: the samples
#: together would have more entries.
FEW_POINTS = 4096
#: Number of checked points where there are more points than that; otherwise all points are checked.
_CHECKED_POINTS = 1536
#: So is the matrix of at most this many points where the points are isolated (samples would miss the few pairs of near
#: points), or where the rank of a submatrix is high: samples would then have most entries. For the largest number of
#: points, a rank is high above this share of the size of the submatrix; for fewer points, above a share in proportion.
_MAX_CACHED_POINTS = 8192
_HIGH_RANK_SHARE = 0.25
#: Sampled points of this submatrix, and the error of its rank where the goal is a budget.
_SUBMATRIX_POINTS = 512
_BUDGET_TOL = 0.1
#: Sampled points between which entries are evaluated to estimate the norm of the matrix, and entries of one tile.
_NORM_POINTS = 1536
_NORM_TILE = 2**18
#: Smallest error for which float32 is accurate enough before the pass over the points.
SINGLE_PRECISION = 3e-4


@dataclass(frozen=True)
class Goal:
    """The goal of a factorization: a relative error, or a number of floats.

    Parameters
    ----------
    tol : float or None
        Relative Frobenius error.
    memory : int or None
        Floats.
    everything : bool
        Whether ``memory`` bounds everything that is kept, and not only the floats that a product reads.
    ridge : float
        Ridge that is added to the diagonal before a system is solved; zero when it is not known.
    """

    tol: float | None
    memory: int | None
    everything: bool = False
    ridge: float = 0.0

    @property
    def negligible(self) -> float:
        """Squared relative error that is negligible."""
        return 0.0 if self.tol is None else self.tol**2

    @property
    def single(self) -> bool:
        """Whether float32 is accurate enough for the work before the pass over the points."""
        return self.tol is not None and self.tol >= SINGLE_PRECISION

    def allowed(self, norm: float, error: float = 0.0, spectral: float = math.inf) -> float:
        """Allowed squared error.

        When A is positive semi-definite, the error E = K - A changes no solution of (K + ridge I) x = b by more than
        |E|₂ / ridge of its norm. The allowed error is tol |K|, or the error at which |E|₂ would be tol times ridge if
        that is larger.

        Parameters
        ----------
        norm, error, spectral : float
            Squared Frobenius norm of K, and squared Frobenius and spectral norms of E.
        """
        assert self.tol is not None
        if self.ridge == 0:
            return self.tol**2 * norm
        return self.tol**2 * max(norm, error * self.ridge**2 / spectral if spectral > 0 else math.inf)


@dataclass(frozen=True)
class Request:
    """Points, kernel, goal and method of one factorization.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    kernel : Kernel
    goal : Goal
    method : Method
    n_jobs : int
    counter : Counter
        Kernel entries evaluated so far.
    always_cached : bool
        Whether all entries are to be evaluated once and cached, however many points there are.
    """

    X: FloatArray
    kernel: Kernel
    goal: Goal
    method: Method
    n_jobs: int
    counter: Counter = field(default_factory=Counter)
    always_cached: bool = False

    @property
    def n_points(self) -> int:
        return int(self.X.shape[0])

    def matrix(self, partition: Partition, subset: IntArray | None = None) -> KernelMatrix:
        """The kernel matrix of all points, or of a subset, in the order of their partition."""
        points = self.X if subset is None else self.X[subset]
        if subset is None and self.cached:
            order = partition.order
            return CachedKernelMatrix(self.kernel, points[order], self._entries, order, self.counter)
        return KernelMatrix(self.kernel, points[partition.order], counter=self.counter)

    @property
    def cached(self) -> bool:
        """Whether all entries of the matrix are evaluated once and cached."""
        n = self.n_points
        return n <= FEW_POINTS or self.always_cached or (n <= _MAX_CACHED_POINTS and self._needs_most_entries)

    @property
    def evaluated(self) -> bool:
        """Whether all entries have been evaluated, and are in memory."""
        return "_entries" in vars(self)

    @cached_property
    def _needs_most_entries(self) -> bool:
        """Whether samples would have most entries of the matrix, estimated from a submatrix of sampled points.

        This is so where points have less energy with all other points than with themselves, or where the ranks are
        high, both with and without a diagonal part.
        """
        n, size, tol = self.n_points, _SUBMATRIX_POINTS, self.goal.tol or _BUDGET_TOL
        sample = np.random.default_rng(0).choice(n, size, replace=False)
        matrix = KernelMatrix(self.kernel, self.X[sample], counter=self.counter).double
        submatrix = matrix.symmetric_dense()
        rank = _rank(submatrix, tol**2 * energy_of(submatrix))
        diagonal = float(np.square(np.diagonal(submatrix)).sum())
        np.fill_diagonal(submatrix, 0)
        off_diagonal = energy_of(submatrix)
        rank = min(rank, _rank(submatrix, tol**2 * (off_diagonal + diagonal * size / n)))
        high = _HIGH_RANK_SHARE * size * n / _MAX_CACHED_POINTS
        return off_diagonal * n / size < diagonal or rank > high

    @cached_property
    def _entries(self) -> FloatArray:
        """All entries of the matrix, in float64."""
        require_memory(8 * self.n_points**2, "fewer points")  # before NumPy fails, or the system ends the process
        return KernelMatrix(self.kernel, self.X, counter=self.counter).double.symmetric_dense()

    @cached_property
    def norm(self) -> float:
        """Squared Frobenius norm of the matrix: exact where it is cached, otherwise estimated from a sample."""
        n = self.n_points
        if self.cached:
            return energy_of(self._entries)
        sample = np.sort(np.random.default_rng(0).choice(n, _NORM_POINTS, replace=False))
        matrix = KernelMatrix(self.kernel, self.X[sample], counter=self.counter).single
        diagonal = float(np.square(matrix.diagonal(slice(0, _NORM_POINTS)), dtype=np.float64).sum())
        off_diagonal = 0.0
        for tile in tiles(_NORM_POINTS, _NORM_POINTS, _NORM_TILE):
            block = matrix.block(slice(0, tile.stop), tile)
            off_diagonal += 2 * energy_of(block[: tile.start]) + energy_of(block[tile])
        off_diagonal -= diagonal
        return diagonal * n / _NORM_POINTS + off_diagonal * n * (n - 1) / (_NORM_POINTS * (_NORM_POINTS - 1))


def _rank(matrix: FloatArray, allowed: float) -> int:
    """Number of eigenvalues of a symmetric matrix beyond those whose sum of squares is at most ``allowed``."""
    energies = np.sort(np.square(np.linalg.eigvalsh(matrix)))
    return int(np.count_nonzero(np.cumsum(energies) > allowed))


def n_checked(n: int) -> int:
    """Number of points, of ``n`` points, between which exact entries are compared with those of a draft."""
    return n if n <= FEW_POINTS else _CHECKED_POINTS
