"""The goal of a factorization, a tolerance or a budget, and the job that it belongs to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from blockbasis._linalg import energy_of
from blockbasis._typing import FloatArray
from blockbasis.construction.method import Method
from blockbasis.kernels import Kernel
from blockbasis.matrix import CachedKernelMatrix, Counter, KernelMatrix, tiles
from blockbasis.partition import Partition

#: Up to so many points, the matrix is evaluated once, half of its entries by symmetry, and cached during compression:
#: the samples together would have more entries. So is the matrix of up to twice as many points where the points are
#: isolated (samples miss the few pairs of near points), or where surveys have evaluated this share of the entries.
FEW_POINTS = 4096
_SOME_THOUSAND_POINTS = 8192
_SURVEYED = 0.25
#: Points that show whether most points are isolated.
_SOME_POINTS = 512
#: Points between which entries are evaluated to estimate the norm of the matrix.
_NORM_POINTS = 1536
#: Entries that are evaluated at once for it.
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
        """Squared relative error that does not matter."""
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
class Job:
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
    cached : bool
        Whether all entries are to be evaluated once and cached, however many points there are.
    """

    X: FloatArray
    kernel: Kernel
    goal: Goal
    method: Method
    n_jobs: int
    counter: Counter = field(default_factory=Counter)
    cached: bool = False

    @property
    def n_points(self) -> int:
        return int(self.X.shape[0])

    def matrix(self, partition: Partition, chosen: np.ndarray | None = None) -> KernelMatrix:
        """The kernel matrix of all points, or of the chosen ones, in the order of their partition."""
        points = self.X if chosen is None else self.X[chosen]
        if chosen is None and self.known:
            order = partition.order
            return CachedKernelMatrix(self.kernel, points[order], self._entries, order, self.counter)
        return KernelMatrix(self.kernel, points[partition.order], counter=self.counter)

    @property
    def known(self) -> bool:
        """Whether all entries of the matrix are evaluated once and cached."""
        n = self.n_points
        if n <= FEW_POINTS or self.cached:
            return True
        return n <= _SOME_THOUSAND_POINTS and (self.counter.value > _SURVEYED * n**2 or self._isolated)

    @property
    def evaluated(self) -> bool:
        """Whether all entries have been evaluated, and are in memory."""
        return "_entries" in vars(self)

    @cached_property
    def _isolated(self) -> bool:
        """Whether points have less energy with all other points than with themselves, as some points show it."""
        n, some = self.n_points, slice(0, _SOME_POINTS)
        chosen = np.random.default_rng(0).choice(n, _SOME_POINTS, replace=False)
        matrix = KernelMatrix(self.kernel, self.X[chosen], counter=self.counter)
        own = float(np.square(matrix.diagonal(some), dtype=np.float64).sum())
        return (energy_of(matrix.block(some, some)) - own) * n / _SOME_POINTS < own

    @cached_property
    def _entries(self) -> FloatArray:
        """All entries of the matrix of a few points, in float64."""
        return KernelMatrix(self.kernel, self.X, counter=self.counter).double.symmetric_dense()

    @cached_property
    def norm(self) -> float:
        """Squared Frobenius norm of the matrix: exact for a few points, else from the entries between some points."""
        n = self.n_points
        if self.known:
            return energy_of(self._entries)
        chosen = np.sort(np.random.default_rng(0).choice(n, _NORM_POINTS, replace=False))
        matrix = KernelMatrix(self.kernel, self.X[chosen], counter=self.counter).single
        own = float(np.square(matrix.diagonal(slice(0, _NORM_POINTS)), dtype=np.float64).sum())
        others = 0.0
        for tile in tiles(_NORM_POINTS, _NORM_POINTS, _NORM_TILE):
            block = matrix.block(slice(0, tile.stop), tile)
            others += 2 * energy_of(block[: tile.start]) + energy_of(block[tile])
        others -= own
        return own * n / _NORM_POINTS + others * n * (n - 1) / (_NORM_POINTS * (_NORM_POINTS - 1))
