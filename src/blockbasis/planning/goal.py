"""What a factorization must keep: a tolerance or a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from blockbasis._typing import FloatArray
from blockbasis.construction.method import Method
from blockbasis.kernels import Kernel
from blockbasis.matrix import CachedKernelMatrix, Counter, KernelMatrix
from blockbasis.partition import Partition

#: Matrices of so few points are evaluated once, half of their entries by symmetry, and kept while they are compressed:
#: samples of them would soon have more entries.
_FEW_POINTS = 4096
#: Tolerances from this on need no directions that float32 cannot tell apart.
SINGLE_PRECISION = 3e-4


@dataclass(frozen=True)
class Goal:
    """What a factorization must keep: a relative error, or a number of floats.

    Parameters
    ----------
    tol : float or None
        Relative Frobenius error.
    memory : int or None
        Floats.
    everything : bool
        Whether ``memory`` counts all that is kept, and not only the floats that a product reads.
    ridge : float
        What is added to the diagonal before a system is solved; zero when nothing is known of it.
    """

    tol: float | None
    memory: int | None
    everything: bool = False
    ridge: float = 0.0

    @property
    def negligible(self) -> float:
        """Squared relative error that does not matter."""
        return 0.0 if self.tol is None else self.tol**2

    def allowed(self, norm: float, error: float = 0.0, spectral: float = math.inf) -> float:
        """Squared error allowed, for the squared norm of K, the squared error and its squared spectral norm.

        No solution of (K + ridge I) x = b changes by more than |E|₂ / ridge when A is positive semi-definite. Where
        that is within the tolerance before |E| / |K| is, the error allowed is the one at which its spectral norm would
        be tol times ridge.
        """
        assert self.tol is not None
        if self.ridge == 0:
            return self.tol**2 * norm
        return self.tol**2 * max(norm, error * self.ridge**2 / spectral if spectral > 0 else math.inf)


@dataclass(frozen=True)
class Job:
    """What is to be compressed, and how.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    kernel : Kernel
    goal : Goal
    method : Method
    n_jobs : int
    counter : Counter
        Kernel entries evaluated so far.
    """

    X: FloatArray
    kernel: Kernel
    goal: Goal
    method: Method
    n_jobs: int
    counter: Counter = field(default_factory=Counter)
    _dense: dict[str, FloatArray] = field(default_factory=dict)

    @property
    def n_points(self) -> int:
        return int(self.X.shape[0])

    def matrix(self, partition: Partition, chosen: np.ndarray | None = None) -> KernelMatrix:
        """The kernel matrix of the points, or of some of them, in the order of a partition of these."""
        points = self.X if chosen is None else self.X[chosen]
        if chosen is None and self.n_points <= _FEW_POINTS:
            if "K" not in self._dense:
                self._dense["K"] = KernelMatrix(self.kernel, self.X, counter=self.counter).symmetric_dense()
            order = partition.order
            return CachedKernelMatrix(self.kernel, points[order], self._dense["K"], order, self.counter)
        return KernelMatrix(self.kernel, points[partition.order], counter=self.counter)
