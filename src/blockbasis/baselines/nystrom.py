"""The Nyström method on columns drawn uniformly."""

from __future__ import annotations

from typing import Any

from blockbasis._utils.linalg import nystrom_factor
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.typing import Seed
from blockbasis.baselines.protocol import LowRank, check_problem, low_rank, rounding

#: Columns drawn for each unit of rank, as the paper's section 4.2 has it.
OVERSAMPLING = 2


def nystrom(
    X: Any, kernel: Any, *, memory: int | str | None = None, rank: int | None = None, rng: Seed = None
) -> LowRank:
    """Nyström approximation C W_r⁺ Cᵀ of rank r from 2r columns C, drawn uniformly without replacement.

    W_r is the best rank-r approximation of W, the rows of C that were drawn.

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
    n, r = problem.n_points, problem.low_rank
    drawn = problem.rng.choice(n, min(OVERSAMPLING * r, n), replace=False)
    with single_threaded():
        columns = problem.matrix.block(slice(0, n), drawn)
        core = columns[drawn]
        factor = nystrom_factor(columns, core, floor=rounding(core), rank=r)
    return low_rank("nystrom", factor, problem)
