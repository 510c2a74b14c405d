"""Solution of linear systems by a direct method, MINRES or conjugate gradients, and of exact kernel systems."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, minres
from sklearn.exceptions import ConvergenceWarning

from blockbasis._utils.linalg import exponents_of, times_power_of_two
from blockbasis._utils.parallel import check_n_jobs
from blockbasis._utils.progress import counting, reporting
from blockbasis._utils.validation import (
    check_choice,
    check_fraction,
    check_integer,
    check_points,
    check_progress,
    check_ridge,
    check_right_hand_side,
    check_shape,
    check_symmetric,
)
from blockbasis.kernels import as_kernel
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.exact import ExactKernel
from blockbasis.solvers.block_cg import BlockFunction, block_cg
from blockbasis.solvers.ridge_system import RidgeSystem

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

METHODS = ("direct", "minres", "cg")


@dataclass(frozen=True, eq=False)
class Solution:
    """Solution of a linear system and its residual.

    Parameters
    ----------
    x : ndarray of shape (n,) or (n, m)
        Solution.
    residual : float
        Relative residual |b - (A + ridge I) x| / |b|, computed from ``x``; the largest one of the columns of b.
    iterations : int
        Number of iterations; 0 for a direct solution.
    converged : bool
        Whether the residual is at most the tolerance.
    message : str
        Description of the result, with advice if the iteration has not converged.
    history : ndarray of shape (iterations,)
        Relative residual after each iteration.
    """

    x: FloatArray
    residual: float
    iterations: int
    converged: bool
    message: str
    history: FloatArray

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return f"Solution({state}, residual {self.residual:.2g}, {self.iterations} iterations)"


def solve(
    A: Any, b: Any, ridge: Any, *, method: str = "direct", tol: float = 1e-8, max_iterations: int = 1000
) -> Solution:
    """Solve (A + ridge I) x = b.

    Parameters
    ----------
    A : BlockBasis or operator
        Factorization that `factorize` returns, or, for an iterative method, any symmetric operator with a ``shape``
        and products ``A @ V``.
    b : array-like of shape (n,) or (n, m)
        One or several right-hand sides.
    ridge : float or array-like of shape (n,)
        Nonnegative number, or an array with one number for each point for the system A + diag(ridge).
    method : {"direct", "minres", "cg"}, default="direct"
        "direct" is `RidgeSystem`. "minres" is SciPy's MINRES for each column; A + ridge I may be indefinite. "cg" is
        the block conjugate gradient method for all columns together; A + ridge I must be positive definite.
    tol : float, default=1e-8
        Relative residual at which the solution counts as converged.
    max_iterations : int, default=1000
        Largest number of iterations of an iterative method.

    Returns
    -------
    Solution

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        When the residual is above ``tol``.

    See Also
    --------
    RidgeSystem : Factorized system for repeated solutions and for several ridges.
    exact_solve : Solution of the system with the exact kernel matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> A = bb.factorize(X, bb.Gaussian(2.0), n_clusters=5, rank=20, rng=0)
    >>> b = np.sin(X[:, 0])
    >>> direct = bb.solve(A, b, 0.1)
    >>> iterative = bb.solve(A, b, 0.1, method="cg")
    >>> direct.converged, iterative.converged
    (True, True)
    >>> bool(np.abs(direct.x - iterative.x).max() < 1e-6)
    True
    """
    caller = "solve"
    method = check_choice(method, METHODS, name="method", caller=caller)
    n = check_symmetric(A, np.random.default_rng(0), name="A", caller=caller)
    b = check_right_hand_side(b, n, name="b", caller=caller)
    ridge = check_ridge(ridge, n, name="ridge", caller=caller)
    tol = check_fraction(tol, name="tol", caller=caller)
    max_iterations = check_integer(max_iterations, name="max_iterations", caller=caller, low=1)
    scaled, exponents = _scaled(b)
    apply = _shifted_product(A, ridge)
    if method == "direct":
        found = _solve_directly(A, scaled, ridge, tol)
    elif method == "cg":
        found = _solve_by_cg(apply, scaled, lambda R: R, tol, max_iterations, "Give a larger ridge or method='direct'.")
    else:
        found = _solve_by_minres(apply, scaled, tol, max_iterations)
    return _unscaled(found, exponents, caller)


def exact_solve(
    X: Any,
    kernel: Any,
    b: Any,
    ridge: Any,
    *,
    preconditioner: BlockBasis | RidgeSystem | None = None,
    tol: float = 1e-8,
    max_iterations: int = 1000,
    n_jobs: int | None = None,
    progress: bool | Callable[..., Any] = False,
) -> Solution:
    """Solve (K(X, X) + ridge I) x = b with the exact kernel matrix, by preconditioned conjugate gradients.

    Every iteration evaluates the entries of K in float64 tile by tile. K is not stored, so that the memory is linear
    in n. The accuracy of the preconditioner affects the number of iterations, but not the solution.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    b : array-like of shape (n,) or (n, m)
        One or several right-hand sides. Several right-hand sides take little longer than one.
    ridge : float or array-like of shape (n,)
        Nonnegative number, or an array with one number for each point for the system K + diag(ridge).
    preconditioner : BlockBasis or RidgeSystem, default=None
        Factorization of K(X, X), from which a `RidgeSystem` with the same ridge is computed, or a `RidgeSystem`.
    tol : float, default=1e-8
        Relative residual at which the solution counts as converged.
    max_iterations : int, default=1000
        Largest number of iterations.
    n_jobs : int, default=None
        Number of threads; None selects one for each core.
    progress : bool or callable, default=False
        Report of the progress, as in `factorize`, in percent of log(residual) / log(tol).

    Returns
    -------
    Solution

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        When the residual is above ``tol``.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> kernel, b = bb.Gaussian(2.0), np.sin(X[:, 0])
    >>> A = bb.factorize(X, kernel, n_clusters=2, rank=40, rng=0)
    >>> plain = bb.exact_solve(X, kernel, b, 1e-2)
    >>> quick = bb.exact_solve(X, kernel, b, 1e-2, preconditioner=A)
    >>> quick.converged, quick.iterations < plain.iterations / 5
    (True, True)
    >>> bool(np.allclose((kernel(X) + 1e-2 * np.eye(200)) @ quick.x, b))
    True
    """
    caller = "exact_solve"
    X = check_points(X, name="X", caller=caller)
    n = X.shape[0]
    b = check_right_hand_side(b, n, name="b", caller=caller)
    ridge = check_ridge(ridge, n, name="ridge", caller=caller)
    tol = check_fraction(tol, name="tol", caller=caller)
    max_iterations = check_integer(max_iterations, name="max_iterations", caller=caller, low=1)
    progress = check_progress(progress, name="progress", caller=caller)
    kernel = as_kernel(kernel, caller=caller)
    K = ExactKernel(X, kernel, dtype=np.float64, n_jobs=check_n_jobs(n_jobs, caller=caller))
    system = _preconditioning_system(preconditioner, n, ridge, caller)
    better = "a factorization as preconditioner" if system is None else "a preconditioner of smaller tol"
    scaled, exponents = _scaled(b)
    with reporting(progress):
        found = _solve_by_cg(
            _shifted_product(K, ridge),
            scaled,
            (lambda R: R) if system is None else system.precondition,
            tol,
            max_iterations,
            f"Give {better}, or a larger ridge.",
        )
    return _unscaled(found, exponents, caller)


def _scaled(b: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return b with columns divided by powers of two so that their largest entries are about 1, and the exponents.

    The scaling prevents overflow and underflow of squared entries in norms and inner products.
    """
    exponents = exponents_of(_as_columns(b))
    return np.ldexp(b, -exponents if b.ndim == 2 else -exponents[0]), exponents


def _unscaled(found: Solution, exponents: IntArray, caller: str) -> Solution:
    """Return the solution for the right-hand sides before `_scaled`."""
    x = times_power_of_two(_as_columns(found.x), exponents, name="b", caller=caller)
    return replace(found, x=x.reshape(found.x.shape))


def _preconditioning_system(given: Any, n: int, ridge: float | FloatArray, caller: str) -> RidgeSystem | None:
    if given is None:
        return None
    if not isinstance(given, (BlockBasis, RidgeSystem)):
        raise TypeError(
            f"The 'preconditioner' parameter of {caller} must be a BlockBasis, a RidgeSystem or None. "
            f"Got {type(given).__name__} instead."
        )
    check_shape(given, (n, n), name="preconditioner", caller=caller)
    return given if isinstance(given, RidgeSystem) else RidgeSystem(given, ridge)


def _shifted_product(A: Any, ridge: float | FloatArray) -> BlockFunction:
    """Return the function V -> (A + ridge I) V for V of shape (n, m)."""
    shift = np.asarray(ridge)[..., np.newaxis]
    # BlockBasis._apply computes in the dtype of V, float64, also if the factors are float32.
    product: BlockFunction = A._apply if isinstance(A, BlockBasis) else lambda V: np.asarray(A @ V)
    return lambda V: product(V) + shift * V


def _solve_directly(A: Any, b: FloatArray, ridge: float | FloatArray, tol: float) -> Solution:
    x = RidgeSystem(A, ridge).solve(b)
    residuals = _as_columns(b) - _shifted_product(A, ridge)(_as_columns(x))
    sizes = np.linalg.norm(_as_columns(b), axis=0)
    residual = float(
        np.divide(np.linalg.norm(residuals, axis=0), sizes, out=np.zeros_like(sizes), where=sizes > 0).max(initial=0.0)
    )
    return _solution(x, residual, [], tol, "Rounding prevents a smaller residual for this ridge. Give a larger ridge.")


# --- iterative methods -----------------------------------------------------------------------------------------------


def _solve_by_cg(
    apply: BlockFunction, b: FloatArray, precondition: BlockFunction, tol: float, max_iterations: int, remedy: str
) -> Solution:
    B, x = _as_columns(b), np.zeros_like(b)
    wanted = B.any(axis=0)
    if not wanted.any():
        return _solution(x, 0.0, [], tol, "")
    found = block_cg(
        apply,
        B[:, wanted],
        precondition=precondition,
        tol=tol,
        max_iterations=max_iterations,
        callback=_progress_callback(tol),
    )
    _as_columns(x)[:, wanted] = found.X
    if found.indefinite:
        remedy = "A + ridge I is not positive definite. Give a larger ridge, or method='minres' of blockbasis.solve."
    elif len(found.history) < max_iterations:
        remedy = f"Rounding prevents a smaller residual. {remedy}"
    else:
        remedy = f"The limit of {max_iterations} iterations was reached. {remedy} Or increase max_iterations."
    return _solution(x, found.residual, found.history, tol, remedy)


def _progress_callback(tol: float) -> Callable[[float], None]:
    """Return a callback that reports every percent of log(residual) / log(tol)."""
    count, done = counting("conjugate gradients", 100), 0

    def callback(residual: float) -> None:
        nonlocal done
        reached = min(100, int(100 * math.log(max(residual, tol)) / math.log(tol)))
        while done < reached:
            done += 1
            count()

    return callback


class _Converged(Exception):
    """Stops SciPy's MINRES when the residual is at most the tolerance."""


def _solve_by_minres(apply: BlockFunction, b: FloatArray, tol: float, max_iterations: int) -> Solution:
    B, x = _as_columns(b), np.zeros_like(b)
    histories: list[list[float]] = [[]]
    residuals = [0.0]
    for j in np.flatnonzero(B.any(axis=0)).tolist():
        _as_columns(x)[:, j], residual, history = _minres_column(apply, B[:, j], tol, max_iterations)
        histories.append(history)
        residuals.append(residual)
    length = max(len(history) for history in histories)
    # A column that has converged keeps its last residual.
    padded = [history + history[-1:] * (length - len(history)) for history in histories if history]
    slowest = np.max(padded, axis=0).tolist() if padded else []
    remedy = "Give a larger ridge, a larger max_iterations, or method='direct'."
    return _solution(x, max(residuals), slowest, tol, remedy)


def _minres_column(
    apply: BlockFunction, b: FloatArray, tol: float, max_iterations: int
) -> tuple[FloatArray, float, list[float]]:
    n, size = len(b), float(np.linalg.norm(b))
    operator = LinearOperator((n, n), matvec=lambda v: apply(v.reshape(-1, 1))[:, 0], dtype=np.float64)
    history: list[float] = []
    x = np.zeros(n)

    def callback(iterate: FloatArray) -> None:
        # The convergence test of SciPy's MINRES is relative to |A| |x| and not to |b|.
        nonlocal x
        x = iterate.copy()
        history.append(float(np.linalg.norm(b - operator.matvec(x))) / size)
        if history[-1] <= tol:
            raise _Converged

    with contextlib.suppress(_Converged):
        minres(operator, b, rtol=0.0, maxiter=max_iterations, callback=callback)
    return x, history[-1] if history else 1.0, history


def _solution(x: FloatArray, residual: float, history: list[float], tol: float, remedy: str) -> Solution:
    converged = residual <= tol and bool(np.isfinite(x).all())
    message = f"The relative residual is {residual:.2g}, within {tol:g}."
    if not converged:
        message = f"The relative residual is {residual:.2g}, above {tol:g}. {remedy}"
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    return Solution(x, residual, len(history), converged, message, np.array(history))


def _as_columns(b: FloatArray) -> FloatArray:
    """Return a view of shape (n, m)."""
    return b.reshape(len(b), -1)
