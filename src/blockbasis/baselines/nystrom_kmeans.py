"""Nyström approximation whose landmarks are the centroids of k-means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blockbasis._utils.parallel import single_threaded
from blockbasis.baselines.nystrom import nystrom_operator
from blockbasis.baselines.protocol import LowRank, check_problem
from blockbasis.partition import kmeans

if TYPE_CHECKING:
    from blockbasis._utils.typing import Seed


def nystrom_kmeans(
    X: Any, kernel: Any, *, memory: int | str | None = None, rank: int | None = None, rng: Seed = None
) -> LowRank:
    """Nyström approximation of rank r from r landmarks, the centroids of k-means.

    The approximation is K(X, Z) K(Z, Z)⁺ K(Z, X). The centroids Z are not points of X in general.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Number of floats that may be stored, or a size such as "512MB"; the rank is then ``memory // n``.
    rank : int, default=None
        Number r of centroids, given instead of ``memory``.
    rng : int, Generator or None
        Initializes k-means.

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
    >>> nystrom_kmeans(X, bb.Gaussian(2.0), rank=20, rng=0)
    LowRank(nystrom-kmeans, 300 x 300, 20.0 floats per point, float64)
    """
    problem = check_problem(X, kernel, memory, rank, rng, caller="nystrom_kmeans")
    points, kernel = problem.matrix.rows, problem.matrix.kernel
    with single_threaded():
        landmarks = kmeans(points, problem.rank_limit, problem.rng).centers
        return nystrom_operator("nystrom-kmeans", kernel.block(points, landmarks), kernel(landmarks), problem)
