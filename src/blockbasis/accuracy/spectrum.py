"""Statistics of one symmetric matrix's spectrum: its norm, its stable and numerical rank, its leverage scores.

Each takes any symmetric operator: `ExactKernel` for the truth, a factorization, or an array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackError, eigsh

from blockbasis._utils.linalg import leading_eigenpairs, unit_columns
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.tiling import tiles
from blockbasis._utils.typing import FloatArray, Seed
from blockbasis._utils.validation import check_fraction, check_integer, check_positive, check_rng, check_symmetric
from blockbasis.operators.product import RealOperator
from blockbasis.solvers.block_lanczos import extreme_eigenvalues

#: Directions beyond the rank asked for, and the first guess of a numerical rank.
_OVERSAMPLING = 10
_FIRST_WIDTH = 64
#: Share of its entries up to which a matrix is multiplied faster without its zeros.
_SPARSE = 0.15
#: One of so many rows tells whether a matrix is far from that, and so many are taken at a time.
_LOOKED_AT, _STRIP = 16, 64


@dataclass(frozen=True)
class SpectralEstimate:
    """A figure that rests on an extreme eigenvalue, with what vouches for it.

    Parameters
    ----------
    value : float
    bound : float
        What the residual allows the figure to be off, when the eigenvalue found is the extreme one. Errors are
        usually far smaller: of the order of its square.
    iterations : int
        Products with a block of vectors.
    converged : bool
        Whether the bound met the tolerance.
    """

    value: float
    bound: float
    iterations: int
    converged: bool

    def __format__(self, spec: str) -> str:
        return f"{self.value:{spec or '.3g'}}" + ("" if self.converged else " (not converged)")


def spectral_norm(A: Any, *, tol: float = 1e-3, max_iter: int = 100, rng: Seed = None) -> SpectralEstimate:
    """Largest modulus of an eigenvalue of a symmetric matrix, |A|_2.

    By power iteration with a block of vectors that remembers its last images (block Lanczos): it sees the matrix in
    products only, and never returns more than the norm.

    Parameters
    ----------
    A : operator
        Anything symmetric with a ``shape`` and products ``A @ V``.
    tol : float, default=1e-3
        Relative size of the residual at which to stop.
    max_iter : int, default=100
        Products at the most.
    rng : int, Generator or None

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
    """`spectral_norm` of the matrix whose product is ``apply``; a residual below ``noise`` is as good as none."""

    def settled(values: FloatArray, bounds: FloatArray) -> FloatArray:
        end = np.abs(values).argmax()
        return np.full(2, bounds[end] <= max(tol * abs(values[end]), noise))

    with single_threaded():
        found = extreme_eigenvalues(lambda V: (apply(V), V), n, settled=settled, max_iter=max_iter, rng=rng)
    end = np.abs(found.values).argmax()
    return SpectralEstimate(float(abs(found.values[end])), float(found.bounds[end]), found.iterations, found.converged)


def stable_rank(A: Any, *, tol: float = 1e-4, max_iter: int = 100, rng: Seed = None) -> SpectralEstimate:
    """|A|_F^2 / |A|_2^2 of a symmetric matrix: at most its rank, and blind to small eigenvalues.

    The Frobenius norm is exact: one pass over an `ExactKernel` or an array, closed form for a `BlockBasis`, n products
    otherwise.

    Parameters
    ----------
    A : operator
        Anything symmetric with a ``shape`` and products ``A @ V``.
    tol : float, default=1e-4
        As in `spectral_norm`.
    max_iter : int, default=100
    rng : int, Generator or None

    Returns
    -------
    SpectralEstimate
        The paper's tables hold ``math.ceil`` of the value.

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
    """How many singular values of a symmetric matrix are at least ``tol`` times the largest.

    The paper's figures show the index of the first singular value below, which is one more.

    Parameters
    ----------
    A : operator
        Anything symmetric with a ``shape`` and products ``A @ V``.
    tol : float
        Strictly between 0 and 1.
    n_iter : int, default=None
        None: exact, from all eigenvalues of the dense matrix, n^2 memory and n^3 time. A number: from as many power
        iterations of a random subspace, which is widened until it holds the rank; 2 to 4 are plenty. Memory for at
        most twice as many vectors as the rank, or for 64. The result is then an estimate, as a rule from below.
    rng : int, Generator or None

    Returns
    -------
    int

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
        values, _ = _leading(A, width, n_iter, generator)
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
    """Leverage of every point: how much of it the leading directions, or the directions above a ridge, hold.

    Give one of ``rank`` and ``ridge``. With ``rank`` the scores are squared row norms of the eigenvectors of the
    ``rank`` largest eigenvalues, and sum to ``rank``, or to the numerical rank of A where that is smaller; the paper's
    l_r is the r-th largest times n / r. With ``ridge`` they are the diagonal of A (A + ridge I)^-1, and sum to the
    effective dimension.

    Parameters
    ----------
    A : operator
        Anything symmetric with a ``shape`` and products ``A @ V``; A + ridge I must be positive definite.
    rank : int, default=None
    ridge : float, default=None
    n_iter : int, default=None
        None: exact, from the dense matrix, n^2 memory and n^3 time. A number, with ``rank`` only: an estimate from as
        many power iterations of a random subspace, in memory for rank + 10 vectors. It is good where the eigenvalues
        fall off around the rank, and too even where they do not.
    rng : int, Generator or None

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
        raise ValueError(f"{caller} takes one of 'rank' and 'ridge'. Got {got}.")
    generator = check_rng(rng, name="rng", caller=caller)
    n = check_symmetric(A, generator, name="A", caller=caller)
    if ridge is not None:
        ridge = check_positive(ridge, name="ridge", caller=caller)
        if n_iter is not None:
            raise ValueError(
                f"The 'n_iter' parameter of {caller} must be None with 'ridge', whose scores need all eigenvalues. "
                f"Got {n_iter!r} instead."
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
        values, vectors = _leading(A, min(rank + _OVERSAMPLING, n), n_iter, generator)
    # Eigenvectors of eigenvalues that are rounding errors are arbitrary.
    values, vectors = values[-rank:], vectors[:, -rank:]
    leading = vectors[:, values > n * np.finfo(np.float64).eps * values[-1]]
    return np.asarray(np.einsum("ij,ij->i", leading, leading))


def _ridge_scores(K: FloatArray, ridge: float, caller: str) -> FloatArray:
    """1 - ridge [(K + ridge I)^-1]_ii; ``K`` is overwritten."""
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
    """A semi-definite matrix without the entries that its rounding hides, as a sparse array where few are left.

    All that is left out of a row is no more than the rounding of the largest entry, which stands on the diagonal.
    """
    floor = np.finfo(K.dtype).eps * float(np.diagonal(K).max()) / len(K)
    if np.count_nonzero(np.abs(K[::_LOOKED_AT]) > floor) * _LOOKED_AT > 2 * _SPARSE * K.size:
        return K
    strips = (K[start : start + _STRIP] for start in range(0, len(K), _STRIP))
    thin = sparse.vstack([sparse.csr_array(np.where(np.abs(some) > floor, some, 0)) for some in strips], format="csr")
    return K if thin.nnz > _SPARSE * K.size else thin


def lanczos(K: Any, count: int, *, tol: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """The ``count`` largest eigenvalues of a symmetric operator, descending, and their vectors.

    By ARPACK, to residuals of ``tol`` times the eigenvalue. It fails for a matrix near the identity, whose eigenvalues
    are all the same: an array, dense or sparse, is then decomposed by LAPACK.
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
    """A new symmetric float64 array of an operator's entries."""
    entries = A.todense() if isinstance(A, RealOperator) else A @ np.eye(A.shape[0])
    entries = np.asarray(entries, dtype=np.float64)
    return (entries + entries.T) / 2


def _leading(A: Any, width: int, n_iter: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Ritz values and vectors of a random subspace after ``n_iter`` power iterations."""
    Q = rng.standard_normal((A.shape[0], width))
    with single_threaded():
        for _ in range(n_iter):
            Q = np.linalg.qr(A @ Q)[0]
        small = Q.T @ (A @ Q)
        values, vectors = np.linalg.eigh((small + small.T) / 2)
        return values, Q @ vectors
