"""Systems by products alone: of a factorization, of any other symmetric operator, of the exact kernel matrix."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, minres
from sklearn.exceptions import ConvergenceWarning

from blockbasis._utils.linalg import exponents_of, times_power_of_two
from blockbasis._utils.parallel import check_n_jobs
from blockbasis._utils.progress import counting, reporting
from blockbasis._utils.typing import FloatArray, IntArray
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
from blockbasis.solvers.block_cg import Map, block_cg
from blockbasis.solvers.ridge_system import RidgeSystem

METHODS = ("direct", "minres", "cg")


@dataclass(frozen=True, eq=False)
class Solution:
    """Solution of a linear system, and what vouches for it.

    Parameters
    ----------
    x : ndarray of shape (n,) or (n, m)
    residual : float
        |b - (A + ridge I) x| / |b|, recomputed at the end; the largest of the columns.
    iterations : int
        Products with a vector or a block of vectors; 0 for a direct solution.
    converged : bool
        Whether the residual is within the tolerance.
    message : str
        What happened; when it has not converged, what to do.
    history : ndarray of shape (iterations,)
        The residual after each iteration.
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
        With ``method="direct"`` what `factorize` returns; otherwise anything symmetric with a ``shape`` and products
        ``A @ V``.
    b : array-like of shape (n,) or (n, m)
    ridge : float or array-like of shape (n,)
        At least 0; one number for each point stands for diag(ridge).
    method : {"direct", "minres", "cg"}, default="direct"
        "direct": `RidgeSystem`. "minres": SciPy's, each column for itself; A + ridge I may be indefinite. "cg":
        conjugate gradients, all columns together; A + ridge I must be positive definite.
    tol : float, default=1e-8
        Relative residual asked for.
    max_iterations : int, default=1000

    Returns
    -------
    Solution

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        When the residual is above ``tol``.

    See Also
    --------
    RidgeSystem : The direct method for many right-hand sides, one after the other, and for many ridges.
    exact_solve : The system of the exact kernel matrix.

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
        found = _directly(A, scaled, ridge, tol)
    elif method == "cg":
        found = _by_cg(apply, scaled, lambda R: R, tol, max_iterations, "Give a larger ridge or method='direct'.")
    else:
        found = _by_minres(apply, scaled, tol, max_iterations)
    return _at_scale(found, exponents, caller)


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
    """Solve the true system (K(X, X) + ridge I) x = b by conjugate gradients on the exact kernel matrix.

    Entries are evaluated tile by tile in float64 in every iteration and never stored: memory linear in n. A
    factorization only preconditions, so that the solution does not depend on its accuracy; the iterations do.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Kernel or callable
    b : array-like of shape (n,) or (n, m)
        Many right-hand sides cost little more than one.
    ridge : float or array-like of shape (n,)
        At least 0; one number for each point stands for diag(ridge).
    preconditioner : BlockBasis or RidgeSystem, default=None
        A factorization of K(X, X), which is factored with the same ridge; or a system that is ready.
    tol : float, default=1e-8
        Relative residual asked for.
    max_iterations : int, default=1000
    n_jobs : int, default=None
        Threads; None is one for each core.
    progress : bool or callable, default=False
        As in `factorize`; the pieces are hundredths of the digits asked for.

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
        found = _by_cg(
            _shifted_product(K, ridge),
            scaled,
            (lambda R: R) if system is None else system.precondition,
            tol,
            max_iterations,
            f"Give {better}, or a larger ridge.",
        )
    return _at_scale(found, exponents, caller)


def _scaled(b: FloatArray) -> tuple[FloatArray, IntArray]:
    """Right-hand sides with entries of about 1, and the powers of two that they were divided by.

    Norms and inner products square them: no scale of b may overflow or underflow.
    """
    exponents = exponents_of(_columns(b))
    return np.ldexp(b, -exponents if b.ndim == 2 else -exponents[0]), exponents


def _at_scale(found: Solution, exponents: IntArray, caller: str) -> Solution:
    x = times_power_of_two(_columns(found.x), exponents, name="b", caller=caller)
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


def _shifted_product(A: Any, ridge: float | FloatArray) -> Map:
    """(A + ridge I) V for V of shape (n, m)."""
    shift = np.asarray(ridge)[..., np.newaxis]
    # The product of a factorization takes the precision of V, also where its factors are float32.
    product: Map = A._apply if isinstance(A, BlockBasis) else lambda V: np.asarray(A @ V)
    return lambda V: product(V) + shift * V


def _directly(A: Any, b: FloatArray, ridge: float | FloatArray, tol: float) -> Solution:
    x = RidgeSystem(A, ridge).solve(b)
    left = _columns(b) - _shifted_product(A, ridge)(_columns(x))
    sizes = np.linalg.norm(_columns(b), axis=0)
    residual = float(
        np.divide(np.linalg.norm(left, axis=0), sizes, out=np.zeros_like(sizes), where=sizes > 0).max(initial=0.0)
    )
    return _solution(x, residual, [], tol, "Rounding allows no less with so small a ridge. Give a larger one.")


# --- iterations ------------------------------------------------------------------------------------------------------


def _by_cg(apply: Map, b: FloatArray, precondition: Map, tol: float, max_iterations: int, remedy: str) -> Solution:
    B, x = _columns(b), np.zeros_like(b)
    wanted = B.any(axis=0)
    if not wanted.any():
        return _solution(x, 0.0, [], tol, "")
    found = block_cg(
        apply,
        B[:, wanted],
        precondition=precondition,
        tol=tol,
        max_iterations=max_iterations,
        watch=_digits_counted(tol),
    )
    _columns(x)[:, wanted] = found.X
    if found.indefinite:
        remedy = "A + ridge I is not positive definite. Give a larger ridge, or method='minres' of blockbasis.solve."
    elif len(found.history) < max_iterations:
        remedy = f"Rounding allows no less. {remedy}"
    else:
        remedy = f"The limit of {max_iterations} iterations was met. {remedy} Or raise max_iterations."
    return _solution(x, found.residual, found.history, tol, remedy)


def _digits_counted(tol: float) -> Callable[[float], None]:
    """Report each hundredth of the way from 1 to ``tol``, in logarithms."""
    count, done = counting("conjugate gradients", 100), 0

    def watch(residual: float) -> None:
        nonlocal done
        reached = min(100, int(100 * math.log(max(residual, tol)) / math.log(tol)))
        while done < reached:
            done += 1
            count()

    return watch


class _Reached(Exception):
    """The residual is within the tolerance."""


def _by_minres(apply: Map, b: FloatArray, tol: float, max_iterations: int) -> Solution:
    B, x = _columns(b), np.zeros_like(b)
    histories: list[list[float]] = [[]]
    residuals = [0.0]
    for j in np.flatnonzero(B.any(axis=0)).tolist():
        _columns(x)[:, j], residual, history = _minres_column(apply, B[:, j], tol, max_iterations)
        histories.append(history)
        residuals.append(residual)
    length = max(len(history) for history in histories)
    # A column that is done keeps its last residual while the others go on.
    padded = [history + history[-1:] * (length - len(history)) for history in histories if history]
    slowest = np.max(padded, axis=0).tolist() if padded else []
    remedy = "Give a larger ridge, more max_iterations, or method='direct'."
    return _solution(x, max(residuals), slowest, tol, remedy)


def _minres_column(apply: Map, b: FloatArray, tol: float, max_iterations: int) -> tuple[FloatArray, float, list[float]]:
    n, size = len(b), float(np.linalg.norm(b))
    operator = LinearOperator((n, n), matvec=lambda v: apply(v.reshape(-1, 1))[:, 0], dtype=np.float64)
    history: list[float] = []
    x = np.zeros(n)

    def watch(iterate: FloatArray) -> None:
        # SciPy's own test is relative to |A| |x|, so that the residual has to be looked at here.
        nonlocal x
        x = iterate.copy()
        history.append(float(np.linalg.norm(b - operator.matvec(x))) / size)
        if history[-1] <= tol:
            raise _Reached

    with contextlib.suppress(_Reached):
        minres(operator, b, rtol=0.0, maxiter=max_iterations, callback=watch)
    return x, history[-1] if history else 1.0, history


def _solution(x: FloatArray, residual: float, history: list[float], tol: float, remedy: str) -> Solution:
    converged = residual <= tol and bool(np.isfinite(x).all())
    message = f"The relative residual is {residual:.2g}, within {tol:g}."
    if not converged:
        message = f"The relative residual is {residual:.2g}, above {tol:g}. {remedy}"
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    return Solution(x, residual, len(history), converged, message, np.array(history))


def _columns(b: FloatArray) -> FloatArray:
    """A view of shape (n, m)."""
    return b.reshape(len(b), -1)
