"""Nyström approximation from uniformly sampled columns, and the factor that all Nyström variants share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blockbasis._utils.linalg import nystrom_factor
from blockbasis._utils.parallel import single_threaded
from blockbasis.baselines.protocol import LowRank, Problem, check_problem, low_rank, rounding_level

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, Seed

#: Number of sampled columns per unit of rank: the value of the paper's section 4.2.
OVERSAMPLING = 2


def nystrom(
    X: Any, kernel: Any, *, memory: int | str | None = None, rank: int | None = None, rng: Seed = None
) -> LowRank:
    """Nyström approximation of rank r from 2r columns, sampled uniformly without replacement.

    The approximation is C W_r⁺ Cᵀ. C = K[:, S] holds the sampled columns S, and W_r is the best rank-r approximation
    of the core W = K[S, S].

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Number of floats that may be stored, or a size such as "512MB"; the rank is then ``memory // n``.
    rank : int, default=None
        Rank r of the result, given instead of ``memory``.
    rng : int, Generator or None
        Samples the columns.

    Returns
    -------
    LowRank

    References
    ----------
    C. K. I. Williams and M. Seeger, "Using the Nyström method to speed up kernel machines", NIPS (2001).
    P. Drineas and M. W. Mahoney, "On the Nyström method for approximating a Gram matrix for improved kernel-based
    learning", Journal of Machine Learning Research 6 (2005).

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import nystrom
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = nystrom(X, bb.Gaussian(2.0), rank=20, rng=0)
    >>> A.stored
    6000
    >>> bb.relative_error(A, X, bb.Gaussian(2.0)).value < 0.1
    True
    """
    problem = check_problem(X, kernel, memory, rank, rng, caller="nystrom")
    n = problem.n_points
    sampled = problem.rng.choice(n, min(OVERSAMPLING * problem.rank_limit, n), replace=False)
    with single_threaded():
        columns = problem.matrix.block(slice(0, n), sampled)
        return nystrom_operator("nystrom", columns, columns[sampled], problem)


def nystrom_operator(name: str, columns: FloatArray, core: FloatArray, problem: Problem) -> LowRank:
    """Return the operator ``columns @ pinv(core_r) @ columns.T`` of the rank that the problem allows.

    Parameters
    ----------
    name : str
        Name of the method.
    columns : ndarray of shape (n, m)
        Sampled columns, or kernel values between the points and the landmarks.
    core : ndarray of shape (m, m)
        Kernel matrix of the sampled points or of the landmarks, which is truncated to rank r.
    problem : Problem
        Checked arguments of the method.

    Returns
    -------
    LowRank
    """
    factor = nystrom_factor(columns, core, floor=rounding_level(core), rank=problem.rank_limit)
    return low_rank(name, factor, problem)
