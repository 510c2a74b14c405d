"""What a factorization must keep, and what it will be and cost: goals and plans."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field

import numpy as np

from blockbasis import costs
from blockbasis._typing import FloatArray, IntArray
from blockbasis.construction import Method
from blockbasis.kernels import Kernel
from blockbasis.matrix import Counter, KernelMatrix
from blockbasis.partition import Partition
from blockbasis.ranks import with_reserve


@dataclass(frozen=True)
class Goal:
    """What a factorization must keep: a relative error, or a number of stored floats.

    Parameters
    ----------
    tol : float or None
    memory : int or None
        Stored floats.
    ridge : float
        What is added to the diagonal before a system is solved; zero when nothing is known of it.
    """

    tol: float | None
    memory: int | None
    ridge: float = 0.0

    def allowed(self, norm: float, error: float = 0.0, spectral: float = math.inf) -> float:
        """Squared error allowed, for the squared norm of K; and for the squared error and its squared spectral norm.

        No solution of (K + ridge I) x = b changes by more than |E|₂ / ridge, when A is positive semi-definite. Where
        that is within the tolerance before |E| / |K| is, the rest does not matter: what is allowed is the error
        at which its spectral norm would be tol times ridge.
        """
        assert self.tol is not None
        if self.ridge == 0:
            return self.tol**2 * norm
        return self.tol**2 * max(norm, error * self.ridge**2 / spectral if spectral > 0 else math.inf)


@dataclass(frozen=True)
class Job:
    """What is to be compressed, and how."""

    X: FloatArray
    kernel: Kernel
    goal: Goal
    method: Method
    n_jobs: int
    counter: Counter = field(default_factory=Counter)

    @property
    def dense(self) -> int:
        """Floats of the dense matrix."""
        return costs.dense_floats(int(self.X.shape[0]))

    def matrix(self, partition: Partition) -> KernelMatrix:
        return KernelMatrix(self.kernel, self.X[partition.order], counter=self.counter)


@dataclass(frozen=True, repr=False, eq=False)
class Plan:
    """What a factorization will be and cost, before it is built: see `blockbasis.plan`.

    Parameters
    ----------
    goal : Goal
    method : Method
    partition : Partition
    ranks : ndarray of shape (n_clusters,)
        Expected; those built may differ, since they are checked.
    price : float
        Squared error that a stored float must remove to be worth it.
    kernel : Kernel
    fingerprint : ndarray of shape (n_features,)
        Of the points: a plan is for these, in this order, only.
    dtype : dtype
    entries : int
        Kernel entries that will be evaluated.
    predicted_error : float
        Relative Frobenius error.
    seconds : float
        Time to build, on this machine with the threads asked for.
    fitting_tol : float or None
        Where compression does not pay, or does not fit into free memory: the tolerance that would.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> plan = bb.plan(X, bb.Gaussian(3.0), memory=20_000, rng=0)
    >>> plan.stored <= 20_000 and plan.fitting_tol is None
    True
    """

    goal: Goal
    method: Method
    partition: Partition
    ranks: IntArray
    price: float
    kernel: Kernel
    fingerprint: FloatArray
    dtype: np.dtype[np.floating]
    entries: int
    predicted_error: float
    seconds: float
    fitting_tol: float | None

    def __post_init__(self) -> None:
        for array in (self.ranks, self.fingerprint):
            array.setflags(write=False)

    @property
    def n_clusters(self) -> int:
        return self.partition.n_clusters

    @property
    def n_features(self) -> int:
        return len(self.fingerprint)

    @property
    def dense(self) -> int:
        """Floats of the dense matrix."""
        return costs.dense_floats(self.partition.n_points)

    @property
    def stored(self) -> int:
        """Floats that a product will read, all blocks of C among them: a cutoff may drop some."""
        return costs.stored_floats(self.partition.sizes, self.ranks, diagonal=self.method.diagonal)

    @property
    def nbytes(self) -> int:
        """Bytes of everything that will be kept."""
        sizes, built, itemsize = self.partition.sizes, self._built, self.dtype.itemsize
        return costs.kept_bytes(sizes, self.ranks, built, self.n_features, itemsize, diagonal=self.method.diagonal)

    @property
    def working_bytes(self) -> int:
        """Bytes that building it takes at its height."""
        sizes, itemsize = self.partition.sizes, self.dtype.itemsize
        building = costs.working_bytes(sizes, self._built, self.n_features, itemsize, self._threads)
        return building + (costs.spectral_check_bytes(self.partition.n_points) if self.goal.ridge else 0)

    @property
    def remedy(self) -> str:
        """What to ask for instead, where it does not pay or does not fit."""
        if self.goal.memory is not None:
            return "a smaller memory"
        return f"tol={self.fitting_tol:.2g} or a larger bandwidth" if self.fitting_tol else "a larger tol or bandwidth"

    @property
    def _built(self) -> IntArray:
        return with_reserve(self.ranks, self.partition.sizes)

    @property
    def _threads(self) -> int:
        return min(os.cpu_count() or 1, self.n_clusters)

    def __repr__(self) -> str:
        n = self.partition.n_points
        per_point, share = self.stored / n, self.stored / self.dense
        asked = f"memory={self.goal.memory}" if self.goal.tol is None else f"tol={self.goal.tol:g}"
        lines = [
            f"Plan for {n} points, {asked}",
            f"  clusters         {self.n_clusters}",
            f"  ranks            {self.ranks.min()} to {self.ranks.max()}, {self.ranks.mean():.1f} on average",
            f"  stored           {self.stored} floats, {per_point:.1f} per point, {share:.2%} of the dense matrix",
            f"  bytes            {self.nbytes / 1e6:.1f} MB kept, {self.working_bytes / 1e6:.1f} MB while it is built",
            f"  kernel entries   {self.entries}, {self.entries / self.dense:.2%} of the dense matrix",
            f"  predicted error  {self.predicted_error:.2g}",
            f"  time             {self.seconds:.1f} s",
        ]
        if self.fitting_tol is not None:
            lines.append(f"  too large        {self.remedy} would fit")
        return "\n".join(lines)


def fingerprint(X: FloatArray) -> FloatArray:
    """Sums of the columns, each point weighed by its place: other points, or another order, have others."""
    return np.asarray(np.linspace(1, 2, X.shape[0]) @ X)
