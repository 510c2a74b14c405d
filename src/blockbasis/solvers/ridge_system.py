"""Direct solution of (A + ridge I) x = b for a factorization A ~ U C Uᵀ + D, with what goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from blockbasis._utils.linalg import exponents_of, times_power_of_two, unit_columns
from blockbasis._utils.tiling import tiles
from blockbasis._utils.typing import FloatArray
from blockbasis._utils.validation import check_ridge, check_right_hand_side
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.solvers.components import Spectra, spectra
from blockbasis.solvers.woodbury import Woodbury, orthonormalizing, woodbury

#: Solutions are corrected by their own residual at most so often, and while it is above so much of the right-hand side.
_REFINEMENTS = 2
_REFINED = 1e-13
#: Where (D + ridge) times the inverse's diagonal is below this, too few digits are left of a difference from 1.
_CANCELLED = 1e-6


@dataclass(frozen=True, eq=False)
class _RidgePath:
    """U C Uᵀ = Q (R C Rᵀ) Qᵀ for orthonormal Q = U R^-1: eigenpairs of each component for every scalar ridge."""

    A: BlockBasis

    @cached_property
    def _triangles(self) -> tuple[FloatArray, ...]:
        return orthonormalizing(self.A.basis, np.ones(self.A.shape[0]))

    @cached_property
    def _spectra(self) -> Spectra:
        return spectra(self.A.inner, self._triangles)

    def at(self, ridge: float) -> Woodbury:
        triangles = tuple(R / np.sqrt(ridge) for R in self._triangles)
        return Woodbury(self.A.basis, np.full(self.A.shape[0], ridge), triangles, self._spectra.scaled(1 / ridge))


class RidgeSystem:
    """A + ridge I for a factorization A = U C Uᵀ + D, factored: solutions, determinant, diagonal of the inverse.

    All work is in float64, whatever the precision of A. It factors one matrix of the size of C, R by R with R the sum
    of the ranks: R³ / 3 operations and 8 R² bytes when C is dense. Where blocks of C are zero, each connected component
    is factored by itself, and a large component that is sparse inside the envelope of its blocks.

    Parameters
    ----------
    A : BlockBasis
    ridge : float or array-like of shape (n,)
        At least 0, and above 0 wherever A has no diagonal part. One number for each point stands for noise that
        differs from point to point: the system is A + diag(ridge). Sample weights enter as ``ridge / weights``.

    Raises
    ------
    numpy.linalg.LinAlgError
        When A + ridge I is singular or not positive definite. Eigenvalues of A that are negative within the rounding
        of its own storage count as zero.

    See Also
    --------
    solve : The same for one right-hand side, and iterative methods.
    exact_solve : The system of the exact kernel matrix.

    Notes
    -----
    With D' = D + ridge and D'^(-1/2) U = Q R, cluster by cluster, A + ridge I = D'^(1/2) (I + Q S Qᵀ) D'^(1/2), where
    S = R C Rᵀ: a Cholesky factorization of I + S does all. Without D and with a scalar ridge S is a multiple of one
    matrix, whatever the ridge: `with_ridge` then decomposes that once, and each further ridge costs no factorization.

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
    >>> left_out = x / system.inverse_diagonal()  # residuals of each point predicted from all the others
    >>> smoother = system.with_ridge(1.0)
    """

    def __init__(self, A: BlockBasis, ridge: Any) -> None:
        if not isinstance(A, BlockBasis):
            raise TypeError(
                f"The 'A' parameter of RidgeSystem must be a BlockBasis, as factorize returns it. "
                f"Got {type(A).__name__} instead. For other operators: blockbasis.solve(A, b, ridge, method='cg')."
            )
        self._path = _RidgePath(A)
        self._ridge = check_ridge(ridge, A.shape[0], name="ridge", caller="RidgeSystem")
        self._factors = woodbury(A.basis, A.inner, _total_diagonal(A, self._ridge))

    @property
    def A(self) -> BlockBasis:
        return self._path.A

    @property
    def ridge(self) -> float | FloatArray:
        return self._ridge

    @property
    def shape(self) -> tuple[int, int]:
        n = self.A.shape[0]
        return n, n

    def with_ridge(self, ridge: Any) -> RidgeSystem:
        """The system of another ridge.

        Without D, scalar ridges share one eigendecomposition of C, made at the first call; each then costs O(R).
        With D, or with one ridge for each point, the system is factored anew.

        Parameters
        ----------
        ridge : float or array-like of shape (n,)

        Returns
        -------
        RidgeSystem
        """
        A = self.A
        other = object.__new__(RidgeSystem)
        other._path = self._path
        other._ridge = check_ridge(ridge, A.shape[0], name="ridge", caller="with_ridge")
        diagonal = _total_diagonal(A, other._ridge)
        if A.diagonal_part is None and isinstance(other._ridge, float):
            other._factors = self._path.at(other._ridge)
        else:
            other._factors = woodbury(A.basis, A.inner, diagonal)
        return other

    def solve(self, b: Any) -> FloatArray:
        """(A + ridge I)^-1 b, corrected by its own residual where rounding shows.

        Parameters
        ----------
        b : array-like of shape (n,) or (n, m)

        Returns
        -------
        ndarray of the shape of b, float64
        """
        b = check_right_hand_side(b, self.shape[0], name="b", caller="solve")
        B = b.reshape(len(b), -1)
        exponents = exponents_of(B)  # norms square the entries: no scale of b may overflow or underflow in them
        X = self._refined(np.ldexp(B, -exponents))
        return times_power_of_two(X, exponents, name="b", caller="solve").reshape(b.shape)

    def _refined(self, B: FloatArray) -> FloatArray:
        """Solutions of many right-hand sides; a correction is kept where it makes the residual smaller."""
        X = self.precondition(B)
        residuals = B - self._product(X)
        sizes, goals = np.linalg.norm(residuals, axis=0), _REFINED * np.linalg.norm(B, axis=0)
        for _ in range(_REFINEMENTS):
            if (sizes <= goals).all():
                break
            corrected = X + self.precondition(residuals)
            left = B - self._product(corrected)
            new_sizes = np.linalg.norm(left, axis=0)
            better = new_sizes < sizes
            X, residuals = np.where(better, corrected, X), np.where(better, left, residuals)
            sizes = np.minimum(sizes, new_sizes)
        return X

    def _product(self, X: FloatArray) -> FloatArray:
        """(A + ridge I) X in float64, also where A is float32."""
        return np.asarray(self.A._apply(X) + np.asarray(self._ridge)[..., np.newaxis] * X)

    def precondition(self, B: FloatArray) -> FloatArray:
        """(A + ridge I)^-1 B, of shape (n, m), by the factors alone: without checks and without correction."""
        return self._factors.solve(B)

    def quadratic(self, b: Any) -> float | FloatArray:
        """bᵀ (A + ridge I)^-1 b: a number for b of shape (n,), one for each column for b of shape (n, m)."""
        b = check_right_hand_side(b, self.shape[0], name="b", caller="quadratic")
        B = b.reshape(len(b), -1)
        exponents = exponents_of(B)
        B = np.ldexp(B, -exponents)
        values = np.einsum("ij,ij->j", B, self._refined(B))
        values = times_power_of_two(values, 2 * exponents, name="b", caller="quadratic")
        return values if b.ndim == 2 else float(values[0])

    def logdet(self) -> float:
        """Logarithm of the determinant of A + ridge I."""
        return self._factors.logdet()

    def inverse_diagonal(self) -> FloatArray:
        """Diagonal of (A + ridge I)^-1, in the order of the caller's points.

        For a = (A + ridge I)^-1 y, ``a / inverse_diagonal`` are the leave-one-out residuals of ridge regression.
        """
        values, diagonal = self._factors.inverse_diagonal(), self._factors.diagonal
        # The differences from 1 sum to R at most, so that no more than about R points are solved for one by one.
        lost = np.flatnonzero(values * diagonal < _CANCELLED)
        for tile in tiles(len(lost), len(values)):
            own = lost[tile]
            values[own] = self._refined(unit_columns(len(values), own))[own, np.arange(len(own))]
        return values

    def explained(self) -> FloatArray:
        """C Uᵀ (A + ridge I)^-1 U C, of the size of C.

        For a Gaussian process with covariance u(x)ᵀ C u(x') it is what data with noise of variance ``ridge`` take away
        from C: the posterior covariance of the coordinates in U is the difference.
        """
        return self._factors.explained(self.A.inner)

    def __repr__(self) -> str:
        ridge = f"{self._ridge:g}" if isinstance(self._ridge, float) else f"one for each of {len(self._ridge)} points"
        return f"RidgeSystem({self.A!r}, ridge={ridge})"


def _total_diagonal(A: BlockBasis, ridge: float | FloatArray) -> FloatArray:
    """D + ridge, which must be positive."""
    own = np.zeros(A.shape[0]) if A.diagonal_part is None else A.diagonal_part.astype(np.float64)
    diagonal = own + ridge
    if not (diagonal > 0).all():
        zeros = int((diagonal <= 0).sum())
        raise np.linalg.LinAlgError(
            f"A + ridge I is singular, or nearly so: ridge and diagonal part of A are both zero for {zeros} of the "
            f"{A.shape[0]} points. Give a positive ridge."
        )
    return diagonal
