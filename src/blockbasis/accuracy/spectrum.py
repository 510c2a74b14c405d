"""Statistics of the spectrum of a symmetric matrix: norm, stable rank, numerical rank and leverage scores.

Every function accepts any symmetric operator, for example an `ExactKernel`, a factorization or an array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackError, eigsh

from blockbasis._utils.linalg import leading_eigenpairs, unit_columns
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.tiling import tiles
from blockbasis._utils.validation import check_fraction, check_integer, check_positive, check_rng, check_symmetric
from blockbasis.operators.product import RealOperator
from blockbasis.solvers.block_lanczos import extreme_eigenvalues

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, Seed

#: Dimension of a random subspace in excess of the rank.
_OVERSAMPLING = 10
#: First dimension of the random subspace from which a numerical rank is estimated.
_FIRST_WIDTH = 64
#: Largest fraction of nonzero entries for which products with a sparse array are faster than with a dense array.
_SPARSE = 0.15
#: Every 16th row is inspected before a matrix is converted to a sparse array, 64 rows at a time.
_ROW_STRIDE, _STRIP = 16, 64


@dataclass(frozen=True)
class SpectralEstimate:
    """Quantity that is computed from an extreme eigenvalue, with the bound of its error.

    Parameters
    ----------
    value : float
        Estimate.
    bound : float
        Residual bound of the error of ``value``, valid if the iteration found the extreme eigenvalue. The error is
        usually of the order of the squared relative residual, and far smaller than the bound.
    iterations : int
        Number of products with a block of vectors.
    converged : bool
        Whether the bound is within the tolerance.
    """

    value: float
    bound: float
    iterations: int
    converged: bool

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec or '.3g'}}" + ("" if self.converged else " (not converged)")


def spectral_norm(A: Any, *, tol: float = 1e-3, max_iter: int = 100, rng: Seed = None) -> SpectralEstimate:
    """Estimate the spectral norm |A|_2, the largest absolute value of an eigenvalue of a symmetric matrix.

    Block Lanczos iteration computes the estimate from products with A. The estimate is a lower bound of the norm.

    Parameters
    ----------
    A : operator
        Symmetric operator with a ``shape`` and products ``A @ V``.
    tol : float, default=1e-3
        Relative residual at which the iteration stops.
    max_iter : int, default=100
        Largest number of iterations.
    rng : int, Generator or None
        Draws the starting vectors.

    Returns
    -------
    SpectralEstimate

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> norm = bb.spectral_norm(bb.ExactKernel(X, bb.Gaussian(1.0)), rng=0)
    >>> norm.converged
    True
    >>> bool(np.isclose(norm.value, np.linalg.norm(bb.Gaussian(1.0)(X), 2), rtol=1e-3))
    True
    """
    caller = "spectral_norm"
    tol = check_fraction(tol, name="tol", caller=caller)
    max_iter = check_integer(max_iter, name="max_iter", caller=caller, low=1)
    generator = check_rng(rng, name="rng", caller=caller)
    n = check_symmetric(A, generator, name="A", caller=caller)
    return largest_modulus(lambda V: A @ V, n, tol=tol, max_iter=max_iter, rng=generator)


def largest_modulus(
    apply: Callable[[FloatArray], FloatArray],
    n: int,
    *,
    tol: float,
    max_iter: int,
    rng: np.random.Generator,
    noise: float = 0.0,
) -> SpectralEstimate:
    """Return the `spectral_norm` of the matrix with products ``apply``; residuals below ``noise`` count as zero."""

    def converged(values: FloatArray, bounds: FloatArray) -> FloatArray:
        end = np.abs(values).argmax()
        return np.full(2, bounds[end] <= max(tol * abs(values[end]), noise))

    with single_threaded():
        found = extreme_eigenvalues(lambda V: (apply(V), V), n, converged=converged, max_iter=max_iter, rng=rng)
    end = np.abs(found.values).argmax()
    return SpectralEstimate(float(abs(found.values[end])), float(found.bounds[end]), found.iterations, found.converged)


def stable_rank(A: Any, *, tol: float = 1e-4, max_iter: int = 100, rng: Seed = None) -> SpectralEstimate:
    """Compute the stable rank |A|_F^2 / |A|_2^2 of a symmetric matrix.

    The stable rank is at most the rank, and small eigenvalues have little effect on it.

    Parameters
    ----------
    A : operator
        Symmetric operator with a ``shape`` and products ``A @ V``.
    tol : float, default=1e-4
        Relative residual of the spectral norm, as in `spectral_norm`.
    max_iter : int, default=100
        Largest number of iterations.
    rng : int, Generator or None
        Draws the starting vectors.

    Returns
    -------
    SpectralEstimate
        The paper's tables have ``math.ceil`` of the value.

    Notes
    -----
    The Frobenius norm is exact. It takes one evaluation of an `ExactKernel`, the factors of a `BlockBasis`, or n
    products with any other operator.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> round(bb.stable_rank(np.diag([2.0, 1.0, 1.0]), rng=0).value, 6)
    1.5
    """
    caller = "stable_rank"
    tol = check_fraction(tol, name="tol", caller=caller)
    max_iter = check_integer(max_iter, name="max_iter", caller=caller, low=1)
    generator = check_rng(rng, name="rng", caller=caller)
    n = check_symmetric(A, generator, name="A", caller=caller)
    norm = largest_modulus(lambda V: A @ V, n, tol=tol, max_iter=max_iter, rng=generator)
    if norm.value == 0:
        return norm
    value = (_frobenius_norm(A) / norm.value) ** 2
    return SpectralEstimate(value, 2 * value * norm.bound / norm.value, norm.iterations, norm.converged)


def _frobenius_norm(A: Any) -> float:
    if hasattr(A, "frobenius_norm"):
        return float(A.frobenius_norm())
    if isinstance(A, np.ndarray) or sparse.issparse(A):
        return float(np.linalg.norm(A.data if sparse.issparse(A) else A))
    n = A.shape[0]
    columns = (A @ unit_columns(n, np.arange(n)[tile]) for tile in tiles(n, n))
    return math.sqrt(sum(float(np.linalg.norm(some)) ** 2 for some in columns))


def numerical_rank(A: Any, tol: float, *, n_iter: int | None = None, rng: Seed = None) -> int:
    """Return the number of singular values of a symmetric matrix that are at least ``tol`` times the largest.

    The paper's figures show the index of the first singular value below ``tol`` times the largest, which is larger by
    one.

    Parameters
    ----------
    A : operator
        Symmetric operator with a ``shape`` and products ``A @ V``.
    tol : float
        Tolerance, strictly between 0 and 1.
    n_iter : int, default=None
        Number of power iterations of a random subspace, usually 2 to 4. Its dimension is doubled until it exceeds the
        rank; it is at most twice the rank, or 64. The result is an estimate, usually from below. None computes the
        exact result from all eigenvalues of the dense matrix, in O(n^2) memory and O(n^3) time.
    rng : int, Generator or None
        Draws the random subspace.

    Returns
    -------
    int

    See Also
    --------
    stable_rank : Rank that does not depend on a tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> K = bb.ExactKernel(X, bb.Gaussian(4.0))
    >>> bb.numerical_rank(K, 1e-3), bb.numerical_rank(K, 1e-3, n_iter=2, rng=0)
    (8, 8)
    """
    caller = "numerical_rank"
    tol = check_fraction(tol, name="tol", caller=caller)
    generator = check_rng(rng, name="rng", caller=caller)
    n = check_symmetric(A, generator, name="A", caller=caller)
    if n_iter is None:
        with single_threaded():
            return _count_above(np.linalg.eigvalsh(dense(A)), tol)
    n_iter = check_integer(n_iter, name="n_iter", caller=caller, low=1)
    width = min(_FIRST_WIDTH, n)
    while True:
        values, _ = _subspace_iteration(A, width, n_iter, generator)
        rank = _count_above(values, tol)
        if rank <= width - _OVERSAMPLING or width == n:
            return rank
        width = min(2 * width, n)


def _count_above(values: FloatArray, tol: float) -> int:
    moduli = np.abs(values)
    return int(np.count_nonzero((moduli >= tol * moduli.max()) & (moduli > 0)))


def leverage_scores(
    A: Any, *, rank: int | None = None, ridge: float | None = None, n_iter: int | None = None, rng: Seed = None
) -> FloatArray:
    """Compute the rank-r or the ridge leverage scores of a symmetric matrix.

    Exactly one of ``rank`` and ``ridge`` must be given. The rank-r scores are the squared row norms of the eigenvectors
    of the r largest eigenvalues, without those of eigenvalues at rounding level. They sum to r, or to the rank of A if
    that is smaller; the paper's l_r is the r-th largest score times n / r. The ridge scores are the diagonal of
    A (A + ridge I)^-1; they sum to the effective dimension.

    Parameters
    ----------
    A : operator
        Symmetric operator with a ``shape`` and products ``A @ V``; A + ridge I must be positive definite.
    rank : int, default=None
        Number r of eigenvectors.
    ridge : float, default=None
        Positive number.
    n_iter : int, default=None
        Number of power iterations of a random subspace of dimension rank + 10, from which rank-r scores are estimated.
        The estimate is accurate if the eigenvalues decay around the rank; otherwise it is too uniform. None computes
        the exact scores from the dense matrix, in O(n^2) memory and O(n^3) time. ``ridge`` requires None.
    rng : int, Generator or None
        Draws the random subspace.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> K = bb.ExactKernel(X, bb.Gaussian(1.0))
    >>> scores = bb.leverage_scores(K, rank=10)
    >>> round(float(scores.sum()), 9)
    10.0
    >>> bool(0 < bb.leverage_scores(K, ridge=0.1).min())
    True
    """
    caller = "leverage_scores"
    if (rank is None) == (ridge is None):
        got = "neither" if rank is None else "both"
        raise ValueError(f"Exactly one of the 'rank' and 'ridge' parameters of {caller} must be given. Got {got}.")
    generator = check_rng(rng, name="rng", caller=caller)
    n = check_symmetric(A, generator, name="A", caller=caller)
    if ridge is not None:
        ridge = check_positive(ridge, name="ridge", caller=caller)
        if n_iter is not None:
            raise ValueError(
                f"The 'n_iter' parameter of {caller} must be None if 'ridge' is given. Got {n_iter!r} instead."
            )
        return _ridge_scores(dense(A), ridge, caller)
    rank = check_integer(rank, name="rank", caller=caller, low=1, high=n)
    if n_iter is None:
        with single_threaded():
            values, vectors = linalg.eigh(
                dense(A), subset_by_index=[n - rank, n - 1], overwrite_a=True, check_finite=False
            )
    else:
        n_iter = check_integer(n_iter, name="n_iter", caller=caller, low=1)
        values, vectors = _subspace_iteration(A, min(rank + _OVERSAMPLING, n), n_iter, generator)
    # Eigenvectors of eigenvalues that are rounding errors are arbitrary.
    values, vectors = values[-rank:], vectors[:, -rank:]
    leading = vectors[:, values > n * np.finfo(np.float64).eps * values[-1]]
    return np.asarray(np.einsum("ij,ij->i", leading, leading))


def _ridge_scores(K: FloatArray, ridge: float, caller: str) -> FloatArray:
    """Return 1 - ridge [(K + ridge I)^-1]_ii; ``K`` is overwritten."""
    K[np.diag_indices_from(K)] += ridge
    with single_threaded():
        try:
            factor = linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError as error:
            raise ValueError(
                f"The 'ridge' parameter of {caller} must be large enough that A + ridge I is positive definite. "
                f"Got {ridge!r} instead."
            ) from error
        inverse, _ = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    return np.asarray(1 - ridge * np.diagonal(inverse))


def sparsified(K: FloatArray) -> Any:
    """Return a positive semi-definite matrix as a sparse array if most of its entries are negligible.

    The sum of the absolute values of the entries that are removed from a row is at most eps times the largest entry,
    which lies on the diagonal. The matrix is returned unchanged if more than 15% of its entries are not negligible.
    """
    floor = np.finfo(K.dtype).eps * float(np.diagonal(K).max()) / len(K)
    if np.count_nonzero(np.abs(K[::_ROW_STRIDE]) > floor) * _ROW_STRIDE > 2 * _SPARSE * K.size:
        return K
    strips = (K[start : start + _STRIP] for start in range(0, len(K), _STRIP))
    thin = sparse.vstack([sparse.csr_array(np.where(np.abs(some) > floor, some, 0)) for some in strips], format="csr")
    return K if thin.nnz > _SPARSE * K.size else thin


def lanczos(K: Any, count: int, *, tol: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return the ``count`` largest eigenvalues of a symmetric operator, descending, and their eigenvectors.

    ARPACK computes them to residuals of ``tol`` times the eigenvalue. ARPACK fails for a matrix close to a multiple of
    the identity; LAPACK then decomposes a dense or sparse array.
    """
    try:
        values, vectors = eigsh(K, count, which="LA", tol=tol, v0=rng.standard_normal(K.shape[0]))
    except ArpackError:
        if isinstance(K, RealOperator):
            raise
        return leading_eigenpairs(K.toarray() if sparse.issparse(K) else K, count)
    order = np.argsort(-values)
    return values[order], vectors[:, order]


def dense(A: Any) -> FloatArray:
    """Return the entries of an operator as a new symmetric float64 array."""
    entries = A.todense() if isinstance(A, RealOperator) else A @ np.eye(A.shape[0])
    entries = np.asarray(entries, dtype=np.float64)
    return (entries + entries.T) / 2


def _subspace_iteration(A: Any, width: int, n_iter: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return the Ritz values, ascending, and Ritz vectors of a random subspace after ``n_iter`` power iterations."""
    Q = rng.standard_normal((A.shape[0], width))
    with single_threaded():
        for _ in range(n_iter):
            Q = np.linalg.qr(A @ Q)[0]
        small = Q.T @ (A @ Q)
        values, vectors = np.linalg.eigh((small + small.T) / 2)
        return values, Q @ vectors
