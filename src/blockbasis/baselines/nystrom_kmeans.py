"""The Nyström method on the centroids of k-means."""

from __future__ import annotations

from typing import Any

from blockbasis._utils.linalg import nystrom_factor
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.typing import Seed
from blockbasis.baselines.protocol import LowRank, check_problem, low_rank, rounding
from blockbasis.partition import kmeans


def nystrom_kmeans(
    X: Any, kernel: Any, *, memory: int | str | None = None, rank: int | None = None, rng: Seed = None
) -> LowRank:
    """Nyström approximation from as many landmarks as its rank: the centroids of k-means.

    K(X, Z) K(Z, Z)⁺ K(Z, X), with the centroids Z, which need not be among the points.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Floats, or a size such as "512MB"; the rank is what ``memory // n`` allows.
    rank : int, default=None
        Instead of ``memory``.
    rng : int, Generator or None

    Returns
    -------
    LowRank

    References
    ----------
    K. Zhang, I. W. Tsang and J. T. Kwok, "Improved Nyström low-rank approximation and error analysis", ICML (2008).

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import nystrom_kmeans
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = nystrom_kmeans(X, bb.Gaussian(2.0), rank=20, rng=0)
    >>> bb.relative_error(A, X, bb.Gaussian(2.0)).value < 0.05
    True
    """
    problem = check_problem(X, kernel, memory, rank, rng, caller="nystrom_kmeans")
    points, kernel = problem.matrix.rows, problem.matrix.kernel
    with single_threaded():
        landmarks = kmeans(points, problem.low_rank, problem.rng).centers
        core = kernel(landmarks)
        factor = nystrom_factor(kernel.block(points, landmarks), core, floor=rounding(core))
    return low_rank("nystrom-kmeans", factor, problem)
