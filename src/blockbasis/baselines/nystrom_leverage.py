"""Nyström approximation from columns sampled by leverage score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.parallel import single_threaded
from blockbasis.accuracy.spectrum import leverage_scores
from blockbasis.baselines.nystrom import OVERSAMPLING, nystrom_operator
from blockbasis.baselines.protocol import LowRank, check_problem
from blockbasis.operators.exact import ExactKernel

if TYPE_CHECKING:
    from blockbasis._utils.typing import Seed


def nystrom_leverage(
    X: Any, kernel: Any, *, memory: int | str | None = None, rank: int | None = None, rng: Seed = None
) -> LowRank:
    """Nyström approximation of rank r from 2r columns, sampled with replacement in proportion to leverage scores.

    The rank-r leverage scores are estimated from a random subspace after one power iteration. The estimate evaluates
    the matrix twice, so that the cost is quadratic in n. A column sampled with probability p is divided by sqrt(2r p),
    both in C and in the core W, before W is truncated to rank r.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Number of floats that may be stored, or a size such as "512MB"; the rank is then ``memory // n``.
    rank : int, default=None
        Rank r of the result and of the leverage scores, given instead of ``memory``.
    rng : int, Generator or None
        Draws the random subspace and samples the columns.

    Returns
    -------
    LowRank

    References
    ----------
    P. Drineas, M. Magdon-Ismail, M. W. Mahoney and D. P. Woodruff, "Fast approximation of matrix coherence and
    statistical leverage", Journal of Machine Learning Research 13 (2012).
    A. Gittens and M. W. Mahoney, "Revisiting the Nyström method for improved large-scale machine learning", Journal of
    Machine Learning Research 17 (2016).

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import nystrom_leverage
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = nystrom_leverage(X, bb.Gaussian(2.0), rank=20, rng=0)
    >>> bb.relative_error(A, X, bb.Gaussian(2.0)).value < 0.1
    True
    """
    problem = check_problem(X, kernel, memory, rank, rng, caller="nystrom_leverage")
    matrix, n, r = problem.matrix, problem.n_points, problem.rank_limit
    scores = leverage_scores(ExactKernel(matrix.rows, matrix.kernel), rank=r, n_iter=1, rng=problem.rng)
    probabilities = scores / scores.sum()
    sampled = problem.rng.choice(n, OVERSAMPLING * r, p=probabilities)
    scale = 1 / np.sqrt(OVERSAMPLING * r * probabilities[sampled])
    with single_threaded():
        columns = matrix.block(slice(0, n), sampled) * scale
        return nystrom_operator("nystrom-leverage", columns, scale[:, np.newaxis] * columns[sampled], problem)
