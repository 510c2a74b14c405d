"""Direct solution of (A + ridge I) x = b for a factorization A = U C Uᵀ + D, determinant and inverse diagonal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.linalg import exponents_of, times_power_of_two, unit_columns
from blockbasis._utils.tiling import tiles
from blockbasis._utils.validation import check_ridge, check_right_hand_side
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.solvers.components import ComponentSpectra, spectra
from blockbasis.solvers.woodbury import Woodbury, orthonormalizing, woodbury

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

#: Largest number of steps of iterative refinement, and the relative residual at which refinement stops.
_REFINEMENTS = 2
_REFINED = 1e-13
#: Value of (D + ridge) times a diagonal entry of the inverse below which cancellation leaves fewer than ten digits of
#: that entry, which is computed as a difference from 1.
_CANCELLED = 1e-6


@dataclass(frozen=True, eq=False)
class _ScalarRidgeSpectra:
    """Eigenpairs of R C Rᵀ, where U C Uᵀ = Q (R C Rᵀ) Qᵀ with orthonormal Q = U R^-1, for every scalar ridge."""

    A: BlockBasis

    @cached_property
    def _triangles(self) -> tuple[FloatArray, ...]:
        return orthonormalizing(self.A.basis, np.ones(self.A.shape[0]))

    @cached_property
    def _spectra(self) -> ComponentSpectra:
        return spectra(self.A.inner, self._triangles)

    def at(self, ridge: float) -> Woodbury:
        """Return the inverse of U C Uᵀ + ridge I."""
        triangles = tuple(R / np.sqrt(ridge) for R in self._triangles)
        return Woodbury(self.A.basis, np.full(self.A.shape[0], ridge), triangles, self._spectra.scaled(1 / ridge))


class RidgeSystem:
    """Factorized system A + ridge I for a factorization A = U C Uᵀ + D.

    The system computes solutions, the determinant and the diagonal of the inverse. All computations are in float64,
    also if A is float32.

    Parameters
    ----------
    A : BlockBasis
        Factorization that `blockbasis.factorize` returns.
    ridge : float or array-like of shape (n,)
        Nonnegative number, positive if A has no diagonal part. An array, with one number for each point, is the
        diagonal of the system A + diag(ridge), for noise whose variance depends on the point. Sample weights are
        expressed as ``ridge / weights``.

    Raises
    ------
    numpy.linalg.LinAlgError
        If A + ridge I is singular or not positive definite. Negative eigenvalues of A within the rounding of its
        factors count as zero.

    See Also
    --------
    solve : Solution for one right-hand side, by a direct or an iterative method.
    exact_solve : Solution of the system with the exact kernel matrix.

    Notes
    -----
    With D' = D + ridge and the QR factorization D'^(-1/2) U = Q R of every cluster,

        A + ridge I = D'^(1/2) (I + Q S Qᵀ) D'^(1/2),    S = R C Rᵀ.

    The class computes a Cholesky factorization of I + S. The order of S is the sum r of the ranks, so that a dense C
    takes r³ / 3 operations and 8 r² bytes. If blocks of C are zero, each connected component of C is factorized
    separately, a large sparse component inside its envelope.

    Without D and with a scalar ridge, S is a multiple of a matrix that does not depend on the ridge. `with_ridge`
    decomposes this matrix once, and further ridges need no factorization.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> A = bb.factorize(X, bb.Gaussian(2.0), n_clusters=5, rank=20, rng=0)
    >>> system = bb.RidgeSystem(A, 0.1)
    >>> b = np.sin(X[:, 0])
    >>> x = system.solve(b)
    >>> bool(np.allclose(A @ x + 0.1 * x, b))
    True
    >>> dense = A.todense() + 0.1 * np.eye(500)
    >>> bool(np.isclose(system.logdet(), np.linalg.slogdet(dense)[1]))
    True
    >>> leave_one_out_residuals = x / system.inverse_diagonal()
    >>> smoother = system.with_ridge(1.0)
    """

    def __init__(self, A: BlockBasis, ridge: Any) -> None:
        if not isinstance(A, BlockBasis):
            raise TypeError(
                f"The 'A' parameter of RidgeSystem must be a BlockBasis, as factorize returns it. "
                f"Got {type(A).__name__} instead. Use blockbasis.solve(A, b, ridge, method='cg') for other operators."
            )
        self._scalar_ridge_spectra = _ScalarRidgeSpectra(A)
        self._ridge = check_ridge(ridge, A.shape[0], name="ridge", caller="RidgeSystem")
        self._inverse = woodbury(A.basis, A.inner, _total_diagonal(A, self._ridge))

    @property
    def A(self) -> BlockBasis:
        """Factorization of the system."""
        return self._scalar_ridge_spectra.A

    @property
    def ridge(self) -> float | FloatArray:
        """Ridge of the system, a number or one number for each point."""
        return self._ridge

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, n) of the system."""
        n = self.A.shape[0]
        return n, n

    def with_ridge(self, ridge: Any) -> RidgeSystem:
        """Return the system with another ridge.

        If A has no diagonal part, all scalar ridges share one eigendecomposition, which the first call computes; every
        further ridge takes O(r) operations for the sum r of the ranks. If A has a diagonal part, or if ``ridge`` is an
        array, the system is factorized again.

        Parameters
        ----------
        ridge : float or array-like of shape (n,)

        Returns
        -------
        RidgeSystem
        """
        A = self.A
        other = object.__new__(RidgeSystem)
        other._scalar_ridge_spectra = self._scalar_ridge_spectra
        other._ridge = check_ridge(ridge, A.shape[0], name="ridge", caller="with_ridge")
        diagonal = _total_diagonal(A, other._ridge)
        if A.diagonal_part is None and isinstance(other._ridge, float):
            other._inverse = self._scalar_ridge_spectra.at(other._ridge)
        else:
            other._inverse = woodbury(A.basis, A.inner, diagonal)
        return other

    def solve(self, b: Any) -> FloatArray:
        """Return (A + ridge I)^-1 b, with at most two steps of iterative refinement.

        Parameters
        ----------
        b : array-like of shape (n,) or (n, m)

        Returns
        -------
        ndarray of the shape of b, float64
        """
        b = check_right_hand_side(b, self.shape[0], name="b", caller="solve")
        B = b.reshape(len(b), -1)
        exponents = exponents_of(B)  # scaling prevents overflow and underflow of squared entries
        X = self._refined(np.ldexp(B, -exponents))
        return times_power_of_two(X, exponents, name="b", caller="solve").reshape(b.shape)

    def _refined(self, B: FloatArray, steps: int = _REFINEMENTS) -> FloatArray:
        """Solve for the columns of B; a refinement step is accepted in the columns whose residual it reduces."""
        X = self.precondition(B)
        residuals = B - self._product(X)
        sizes, goals = np.linalg.norm(residuals, axis=0), _REFINED * np.linalg.norm(B, axis=0)
        for _ in range(steps):
            if (sizes <= goals).all():
                break
            corrected = X + self.precondition(residuals)
            new_residuals = B - self._product(corrected)
            new_sizes = np.linalg.norm(new_residuals, axis=0)
            better = new_sizes < sizes
            X, residuals = np.where(better, corrected, X), np.where(better, new_residuals, residuals)
            sizes = np.minimum(sizes, new_sizes)
        return X

    def _product(self, X: FloatArray) -> FloatArray:
        """Return (A + ridge I) X in float64, also if A is float32."""
        return np.asarray(self.A._apply(X) + np.asarray(self._ridge)[..., np.newaxis] * X)

    def precondition(self, B: FloatArray) -> FloatArray:
        """Return (A + ridge I)^-1 B for B of shape (n, m), without checks and without iterative refinement."""
        return self._inverse.solve(B)

    def quadratic(self, b: Any) -> float | FloatArray:
        """Return bᵀ (A + ridge I)^-1 b: a float for b of shape (n,), an array of shape (m,) for b of shape (n, m)."""
        b = check_right_hand_side(b, self.shape[0], name="b", caller="quadratic")
        B = b.reshape(len(b), -1)
        exponents = exponents_of(B)
        B = np.ldexp(B, -exponents)
        values = np.einsum("ij,ij->j", B, self._refined(B))
        values = times_power_of_two(values, 2 * exponents, name="b", caller="quadratic")
        return values if b.ndim == 2 else float(values[0])

    def logdet(self) -> float:
        """Return the logarithm of the determinant of A + ridge I."""
        return self._inverse.logdet()

    def inverse_diagonal(self) -> FloatArray:
        """Return the diagonal of (A + ridge I)^-1, in the order of the caller's points.

        With a = (A + ridge I)^-1 y, ``a / inverse_diagonal()`` are the leave-one-out residuals of ridge regression.
        """
        values, diagonal = self._inverse.inverse_diagonal(), self._inverse.diagonal
        # The differences from 1 sum to at most the sum of the ranks, which bounds the number of cancelled entries.
        cancelled = np.flatnonzero(values * diagonal < _CANCELLED)
        for tile in tiles(len(cancelled), len(values)):
            own = cancelled[tile]
            values[own] = self._refined(unit_columns(len(values), own))[own, np.arange(len(own))]
        return values

    def explained(self) -> FloatArray:
        """Return C Uᵀ (A + ridge I)^-1 U C, a dense matrix of the size of C.

        For a Gaussian process with prior covariance u(x)ᵀ C u(x') and noise of variance ``ridge``, the posterior
        covariance is u(x)ᵀ (C - explained()) u(x').
        """
        return self._inverse.explained(self.A.inner)

    def __repr__(self) -> str:
        ridge = f"{self._ridge:g}" if isinstance(self._ridge, float) else f"one for each of {len(self._ridge)} points"
        return f"RidgeSystem({self.A!r}, ridge={ridge})"


def _total_diagonal(A: BlockBasis, ridge: float | FloatArray) -> FloatArray:
    """Return D + ridge; raise a LinAlgError unless all entries are positive."""
    own = np.zeros(A.shape[0]) if A.diagonal_part is None else A.diagonal_part.astype(np.float64)
    diagonal = own + ridge
    if not (diagonal > 0).all():
        zeros = int((diagonal <= 0).sum())
        raise np.linalg.LinAlgError(
            f"A + ridge I is singular, or nearly so: the ridge and the diagonal part of A are both zero for {zeros} of "
            f"the {A.shape[0]} points. Give a positive ridge."
        )
    return diagonal
