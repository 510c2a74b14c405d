"""The best low-rank approximation: what no other of the same rank is better than."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError

from blockbasis._utils.linalg import leading_eigenpairs
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.typing import FloatArray, Seed
from blockbasis.accuracy.spectrum import lanczos, thinned
from blockbasis.baselines.protocol import LowRank, Problem, check_problem, low_rank
from blockbasis.operators.exact import ExactKernel

#: Points up to which LAPACK decomposes the dense matrix, and up to which the matrix is kept dense for ARPACK.
_LAPACK_POINTS = 2_048
_DENSE_POINTS = 16_384
#: ARPACK pays for few eigenpairs only.
_FEW = 0.25
#: Residual of an eigenpair against its eigenvalue; the eigenvalue is then known to the square of it.
_TOL = 1e-6


def svd(X: Any, kernel: Any, *, memory: int | str | None = None, rank: int | None = None, rng: Seed = None) -> LowRank:
    """Truncated singular value decomposition of K(X, X): the best approximation of its rank.

    By LAPACK for few points, by ARPACK's Lanczos iteration for many; beyond 16,384 points the matrix is evaluated
    anew in every step.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Floats, or a size such as "512MB"; the rank is what ``memory // n`` allows.
    rank : int, default=None
        Instead of ``memory``.
    rng : int, Generator or None
        Start of the iteration; the result does not depend on it beyond rounding.

    Returns
    -------
    LowRank

    References
    ----------
    C. Eckart and G. Young, "The approximation of one matrix by another of lower rank", Psychometrika 1 (1936).
    R. B. Lehoucq, D. C. Sorensen and C. Yang, "ARPACK users' guide", SIAM (1998).

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import svd
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = svd(X, bb.Gaussian(2.0), rank=20)
    >>> A.rank, A.stored
    (20, 6000)
    >>> bb.relative_error(A, X, bb.Gaussian(2.0)).value < 1e-2
    True
    """
    problem = check_problem(X, kernel, memory, rank, rng, caller="svd")
    with single_threaded():
        values, vectors = _leading(problem)
    return low_rank("svd", vectors * np.sqrt(np.maximum(values, 0)), problem)


def _leading(problem: Problem) -> tuple[FloatArray, FloatArray]:
    n, count = problem.n_points, problem.low_rank
    operator = ExactKernel(problem.matrix.rows, problem.matrix.kernel)
    if n <= _LAPACK_POINTS or count > _FEW * n:
        return leading_eigenpairs(operator.todense(), count)
    K = thinned(operator.todense()) if n <= _DENSE_POINTS else operator
    try:
        return lanczos(K, count, tol=_TOL, rng=problem.rng)
    except ArpackError as error:
        raise ValueError(f"svd cannot find {count} eigenpairs by ARPACK, which says: {error}") from error
