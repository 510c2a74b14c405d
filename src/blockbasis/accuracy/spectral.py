"""Relative spectral error of an approximation, and spectral approximation relative to a ridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from blockbasis._utils.parallel import check_n_jobs, single_threaded
from blockbasis._utils.validation import (
    check_fraction,
    check_integer,
    check_points,
    check_positive,
    check_rng,
    check_shape,
    check_symmetric,
)
from blockbasis.accuracy.spectrum import SpectralEstimate, dense, largest_modulus
from blockbasis.kernels import as_kernel
from blockbasis.operators.exact import ExactKernel
from blockbasis.solvers.block_lanczos import extreme_eigenvalues

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, Seed

#: Size of residuals that count as rounding, in units of eps |K|.
_ROUNDING_UNITS = 100
#: Largest number of points for which `spectral_approximation` decomposes dense matrices: 32 MiB each.
DENSE_POINTS = 2048
#: Delta below which the tolerance is absolute, ``tol`` times this value.
_SMALL_DELTA = 1e-2
#: Relative residual, and largest number of conjugate gradient steps, of the preconditioner's system A + ridge I.
_INNER_TOL = 0.1
_INNER_STEPS = 50


def spectral_error(
    A: Any, X: Any, kernel: Any, *, tol: float = 1e-3, max_iter: int = 100, rng: Seed = None, n_jobs: int | None = None
) -> SpectralEstimate:
    """Estimate the relative spectral error |K - A|_2 / |K|_2 of a symmetric approximation A of K(X, X).

    Both norms are computed from products, as in `spectral_norm`, in memory linear in n. Each iteration evaluates all
    entries of K once.

    Parameters
    ----------
    A : operator
        Symmetric operator with a ``shape`` and products ``A @ V``.
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    tol : float, default=1e-3
        Relative residual at which the iteration stops.
    max_iter : int, default=100
        Largest number of iterations for each norm.
    rng : int, Generator or None
        Draws the starting vectors.
    n_jobs : int, default=None
        Number of threads; None selects one for each core.

    Returns
    -------
    SpectralEstimate

    See Also
    --------
    relative_error : Relative Frobenius error.
    spectral_approximation : Spectral error relative to a ridge.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> A = bb.factorize(X, bb.Gaussian(2.0), n_clusters=5, rank=30, rng=0)
    >>> error = bb.spectral_error(A, X, bb.Gaussian(2.0), rng=0)
    >>> error.converged, error.value < 1e-3
    (True, True)
    """
    caller = "spectral_error"
    K = _exact_kernel(X, kernel, n_jobs, caller)
    tol = check_fraction(tol, name="tol", caller=caller)
    max_iter = check_integer(max_iter, name="max_iter", caller=caller, low=1)
    generator = check_rng(rng, name="rng", caller=caller)
    check_shape(A, K.shape, name="A", caller=caller)
    n = check_symmetric(A, generator, name="A", caller=caller)
    precision = np.finfo(np.asarray(A @ np.ones(n)).dtype).eps
    norm = largest_modulus(lambda V: K @ V, n, tol=tol, max_iter=max_iter, rng=generator)
    error = largest_modulus(
        lambda V: K @ V - A @ V,
        n,
        tol=tol,
        max_iter=max_iter,
        rng=generator,
        noise=_ROUNDING_UNITS * float(precision) * norm.value,
    )
    return _quotient(error, norm)


def _quotient(top: SpectralEstimate, bottom: SpectralEstimate) -> SpectralEstimate:
    """Return the quotient of two norms, with the bound of its error."""
    iterations, converged = top.iterations + bottom.iterations, top.converged and bottom.converged
    if bottom.value == 0:
        return SpectralEstimate(0.0 if top.value == 0 else np.inf, 0.0, iterations, converged)
    value = top.value / bottom.value
    bound = (top.bound + value * bottom.bound) / bottom.value
    return SpectralEstimate(value, bound, iterations, converged)


@dataclass(frozen=True)
class SpectralApproximation:
    """Constants of (1 - lower)(K + ridge I) <= A + ridge I <= (1 + upper)(K + ridge I) in the Loewner order.

    Parameters
    ----------
    lower : float
        Delta_1, at least 0. A + ridge I is positive definite if and only if it is below 1.
    upper : float
        Delta_2, at least 0.
    exact : bool
        Whether both constants are from dense matrices. Otherwise they are lower bounds of the smallest constants for
        which the inequalities hold.
    bounds : tuple of two float
        Residual bounds of the errors of ``lower`` and ``upper``, valid if the iteration found the extreme eigenvalues;
        zero if ``exact``.
    iterations : int
        Number of products of K with a block of vectors.
    converged : bool
        Whether the bounds are within the tolerance.
    """

    lower: float
    upper: float
    exact: bool
    bounds: tuple[float, float]
    iterations: int
    converged: bool


def spectral_approximation(
    A: Any,
    X: Any,
    kernel: Any,
    ridge: float,
    *,
    tol: float = 1e-2,
    max_iter: int = 100,
    rng: Seed = None,
    n_jobs: int | None = None,
) -> SpectralApproximation:
    """Compute the smallest (Delta_1, Delta_2) for which A + ridge I is a spectral approximation of K + ridge I.

    The constants satisfy, in the Loewner order,

        (1 - Delta_1)(K + ridge I) <= A + ridge I <= (1 + Delta_2)(K + ridge I).

    Delta_1 determines the generalization error of ridge regression with A instead of K.

    Parameters
    ----------
    A : operator
        Symmetric operator with a ``shape`` and products ``A @ V``; it may be indefinite.
    X : array-like of shape (n, d)
    kernel : Kernel or callable
        Positive semi-definite kernel.
    ridge : float
        Positive number.
    tol : float, default=1e-2
        Residual at which the iteration stops, relative to max(Delta, 0.01), or absolute if Delta is zero.
    max_iter : int, default=100
        Largest number of products with K.
    rng : int, Generator or None
        Draws the starting vectors.
    n_jobs : int, default=None
        Number of threads; None selects one for each core.

    Returns
    -------
    SpectralApproximation

    Notes
    -----
    -Delta_1 and Delta_2 are the extreme eigenvalues of the pencil (A - K, K + ridge I). Up to 2048 points they are
    computed from dense matrices. For more points block Davidson iteration computes lower bounds of both, in memory
    linear in n; conjugate gradient steps with A + ridge I are the preconditioner. The iteration needs few products with
    K if the constants are of order one or less, and many if the ridge is far below the error of A.

    References
    ----------
    J. Zhang, A. May, T. Dao and C. Ré, "Low-precision random Fourier features for memory-constrained kernel
    approximation", AISTATS 2019 (arXiv 2018).

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> A = bb.factorize(X, bb.Gaussian(2.0), n_clusters=5, rank=30, rng=0)
    >>> deltas = bb.spectral_approximation(A, X, bb.Gaussian(2.0), ridge=1.0)
    >>> deltas.exact, deltas.lower < 0.1, deltas.upper < 0.1
    (True, True, True)
    """
    caller = "spectral_approximation"
    K = _exact_kernel(X, kernel, n_jobs, caller)
    ridge = check_positive(ridge, name="ridge", caller=caller)
    tol = check_fraction(tol, name="tol", caller=caller)
    max_iter = check_integer(max_iter, name="max_iter", caller=caller, low=1)
    generator = check_rng(rng, name="rng", caller=caller)
    check_shape(A, K.shape, name="A", caller=caller)
    n = check_symmetric(A, generator, name="A", caller=caller)
    try:
        with single_threaded():
            if n <= DENSE_POINTS:
                return _from_dense(dense(A), dense(K), ridge)
            return _from_products(A, K, ridge, tol, max_iter, generator)
    except linalg.LinAlgError as error:
        raise ValueError(
            f"The 'ridge' parameter of {caller} must be large enough that K + ridge I is positive definite in "
            f"float64. Got {ridge!r} instead."
        ) from error


def _from_dense(A: FloatArray, K: FloatArray, ridge: float) -> SpectralApproximation:
    values = linalg.eigh(A - K, K + ridge * np.eye(len(K)), eigvals_only=True)
    return SpectralApproximation(*_deltas(values), exact=True, bounds=(0.0, 0.0), iterations=1, converged=True)


def _from_products(
    A: Any, K: ExactKernel, ridge: float, tol: float, max_iter: int, rng: np.random.Generator
) -> SpectralApproximation:
    def pencil(V: FloatArray) -> tuple[FloatArray, FloatArray]:
        image = K @ V
        return A @ V - image, image + ridge * V

    def converged(values: FloatArray, bounds: FloatArray) -> FloatArray:
        deltas = np.array(_deltas(values))
        # If A <= K, eigenvalues accumulate below zero. Their exact size does not matter.
        return np.asarray(bounds <= tol * np.where(deltas > 0, np.maximum(deltas, _SMALL_DELTA), 1.0))

    found = extreme_eigenvalues(
        pencil,
        K.shape[0],
        converged=converged,
        max_iter=max_iter,
        rng=rng,
        floor=ridge,
        precondition=lambda R: _approximate_solution(A, ridge, R),
    )
    lower, upper = (float(bound) for bound in found.bounds)
    return SpectralApproximation(*_deltas(found.values), False, (lower, upper), found.iterations, found.converged)


def _deltas(values: FloatArray) -> tuple[float, float]:
    """Return (Delta_1, Delta_2) from the ascending eigenvalues of the pencil."""
    return max(0.0, -float(values[0])), max(0.0, float(values[-1]))


def _approximate_solution(A: Any, ridge: float, B: FloatArray) -> FloatArray:
    """Approximate (A + ridge I)^-1 B by conjugate gradients for each column; a column stops at negative curvature."""
    X = np.zeros_like(B)
    residuals, directions = B, B
    squares = np.einsum("ij,ij->j", B, B)
    goals = _INNER_TOL**2 * squares
    for _ in range(_INNER_STEPS):
        images = A @ directions + ridge * directions
        curvatures = np.einsum("ij,ij->j", directions, images)
        active = (curvatures > 0) & (squares > goals)
        if not active.any():
            break
        steps = np.divide(squares, curvatures, out=np.zeros_like(squares), where=active)
        X = X + steps * directions
        residuals = residuals - steps * images
        before, squares = squares, np.einsum("ij,ij->j", residuals, residuals)
        ratios = np.divide(squares, before, out=np.zeros_like(squares), where=active)
        directions = residuals + ratios * directions
    # A column that has negative curvature in the first step is returned without preconditioning.
    return np.where(X.any(axis=0), X, B)


def _exact_kernel(X: Any, kernel: Any, n_jobs: int | None, caller: str) -> ExactKernel:
    """Return K(X, X) in float64; error messages name the caller."""
    X = check_points(X, name="X", caller=caller)
    kernel = as_kernel(kernel, caller=caller)
    return ExactKernel(X, kernel, dtype=np.float64, n_jobs=check_n_jobs(n_jobs, caller=caller))
