"""Truncated singular value decomposition, the best approximation of a given rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.linalg import ArpackError

from blockbasis._utils.linalg import leading_eigenpairs
from blockbasis._utils.parallel import single_threaded
from blockbasis.accuracy.spectrum import lanczos, sparsified
from blockbasis.baselines.protocol import LowRank, Problem, check_problem, low_rank
from blockbasis.operators.exact import ExactKernel

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, Seed

#: Largest numbers of points for which LAPACK decomposes the dense matrix, and for which ARPACK gets a dense matrix
#: (2 GiB in float64).
_LAPACK_POINTS = 2_048
_DENSE_POINTS = 16_384
#: Largest share of all eigenpairs for which ARPACK is faster than LAPACK.
_ARPACK_SHARE = 0.25
#: Residual of an eigenpair relative to its eigenvalue. The relative error of the eigenvalue is of the order 1e-12.
_TOL = 1e-6


def svd(X: Any, kernel: Any, *, memory: int | str | None = None, rank: int | None = None, rng: Seed = None) -> LowRank:
    """Truncated singular value decomposition of K(X, X), the best approximation of its rank.

    LAPACK decomposes the matrix of up to 2,048 points, ARPACK's Lanczos iteration that of more points. Beyond 16,384
    points the matrix is not stored, and every Lanczos step evaluates its entries again.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    memory : int or str, default=None
        Number of floats that may be stored, or a size such as "512MB"; the rank is then ``memory // n``.
    rank : int, default=None
        Number of eigenpairs, given instead of ``memory``.
    rng : int, Generator or None
        Draws the start vector of ARPACK; the result depends on it by rounding only.

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
        values, vectors = _leading_eigenpairs(problem)
    return low_rank("svd", vectors * np.sqrt(np.maximum(values, 0)), problem)


def _leading_eigenpairs(
    problem: Problem, *, lapack_points: int = _LAPACK_POINTS, dense_points: int = _DENSE_POINTS
) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues, descending, and their eigenvectors."""
    n, count = problem.n_points, problem.rank_limit
    operator = ExactKernel(problem.matrix.rows, problem.matrix.kernel)
    if n <= lapack_points or count > _ARPACK_SHARE * n:
        return leading_eigenpairs(operator.todense(), count)
    K = sparsified(operator.todense()) if n <= dense_points else operator
    try:
        return lanczos(K, count, tol=_TOL, rng=problem.rng)
    except ArpackError as error:
        raise ValueError(f"svd cannot compute {count} eigenpairs. ARPACK failed: {error}") from error
