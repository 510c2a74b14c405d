"""Candidates of a ridge regression, their leave-one-out residuals, and regressions along a path of ridges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.validation import check_positive
from blockbasis.solvers.ridge_system import RidgeSystem

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.estimators._continuation import Surroundings
    from blockbasis.estimators._local import LocalWeights
    from blockbasis.estimators._trials import Found
    from blockbasis.kernels import Kernel
    from blockbasis.operators.block_basis import BlockBasis


@dataclass(frozen=True, eq=False)
class Fit:
    """A ridge regression and its leave-one-out residuals.

    Parameters
    ----------
    kernel : Kernel
    A : BlockBasis or None
        Compressed matrix; None for a regression with the kernel matrix itself.
    bandwidth : float or None
    alpha : ndarray of shape (n_targets,)
    coefficients : ndarray of shape (n, n_targets)
    left_out : ndarray of shape (n, n_targets)
        Leave-one-out residuals: y_i minus the prediction at point i by the same mixture, fitted without point i.
    around : tuple of Surroundings
        One for each cluster of A; empty if A is not compressed.
    local : tuple of ndarray of shape (m_i, n_targets), or None
        Weights of the local regression of each cluster.
    shares : ndarray of shape (n_targets,)
        Shares of the local regressions in the prediction.
    """

    kernel: Kernel
    A: BlockBasis | None
    bandwidth: float | None
    alpha: FloatArray
    coefficients: FloatArray
    left_out: FloatArray
    around: tuple[Surroundings, ...]
    local: LocalWeights | None
    shares: FloatArray


@dataclass(frozen=True, eq=False)
class Choices:
    """Candidates of the regression of all points.

    Parameters
    ----------
    kernel : str, Kernel or callable
    bandwidths : list of float or None
    alphas : list of ndarray of shape (n_targets,)
    found : Found or None
        Result of the search that found the kernel.
    rows : ndarray of int or None
        Rows to fit; None stands for all. A time budget can exclude rows.
    exact : bool
        Whether to solve with the kernel matrix itself, for ridges around the one that the search found.
    """

    kernel: Any
    bandwidths: list[float | None]
    alphas: list[FloatArray]
    found: Found | None = None
    rows: IntArray | None = None
    exact: bool = False

    def mapped(self, X: FloatArray) -> FloatArray:
        """Map the columns of points, as the kernel requires."""
        return X if self.found is None else self.found.view.mapped(X)


@dataclass(frozen=True)
class Record:
    """A bandwidth, a ridge, and their leave-one-out score, which is larger for better candidates."""

    bandwidth: float | None
    alpha: FloatArray
    score: float


def cv_results(records: list[Record]) -> dict[str, Any]:
    """Records in the format of ``cv_results_`` of scikit-learn's searches."""
    scores = np.array([record.score for record in records])
    return {
        "param_bandwidth": np.array([np.nan if r.bandwidth is None else r.bandwidth for r in records]),
        "param_alpha": np.array([r.alpha[0] if (r.alpha == r.alpha[0]).all() else np.nan for r in records]),
        "mean_test_score": scores,
        "rank_test_score": np.array([1 + np.count_nonzero(scores > score) for score in scores]),
    }


def check_alphas(alpha: Any, n_targets: int, *, caller: str) -> list[FloatArray]:
    """Candidate ridges. A list holds candidates; an array holds one ridge for each target."""
    if isinstance(alpha, (list, tuple)):
        if len(alpha) == 0:
            raise ValueError(
                f"The 'alpha' parameter of {caller} must be a list of at least one. Got {alpha!r} instead."
            )
        return [np.full(n_targets, check_positive(each, name="alpha", caller=caller)) for each in alpha]
    if isinstance(alpha, np.ndarray) and alpha.ndim:
        if alpha.shape != (n_targets,):
            raise ValueError(
                f"The 'alpha' parameter of {caller} must be an array of shape ({n_targets},), one ridge for each "
                f"target, or a list of candidates. Got an array of shape {alpha.shape} instead."
            )
        return [np.array([check_positive(each, name="alpha", caller=caller) for each in alpha.tolist()])]
    value = alpha.item() if isinstance(alpha, np.ndarray) else alpha
    return [np.full(n_targets, check_positive(value, name="alpha", caller=caller))]


class RidgePath:
    """Ridge regressions with the same matrix and targets, for several ridges.

    The first ridge is solved with a Cholesky factorization. Without weights, all others share one eigendecomposition.

    Parameters
    ----------
    A : BlockBasis
        Factorization without a diagonal part.
    Y : ndarray of shape (n, n_targets)
    weights : ndarray of shape (n,) or None
        Positive. A weight divides the ridge of its point: (A + diag(alpha / weights)) coefficients = Y.
    """

    def __init__(self, A: BlockBasis, Y: FloatArray, weights: FloatArray | None) -> None:
        self.A, self.Y, self.weights = A, Y, weights
        self._last: tuple[float, RidgeSystem] | None = None

    def _system(self, alpha: float) -> RidgeSystem:
        if self._last is None or self._last[0] != alpha:
            ridge = alpha if self.weights is None else alpha / self.weights
            system = RidgeSystem(self.A, ridge) if self._last is None else self._last[1].with_ridge(ridge)
            self._last = alpha, system
        return self._last[1]

    def solve(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients and leave-one-out residuals for one ridge per target.

        With a = (A + ridge)^-1 y, the residual of point i is a_i divided by the i-th diagonal entry of the inverse.
        It is exact for n regressions with the same bases and inner matrix.
        """
        coefficients, left_out = np.empty_like(self.Y), np.empty_like(self.Y)
        for value in np.unique(alpha):
            targets, system = np.flatnonzero(alpha == value), self._system(float(value))
            coefficients[:, targets] = system.solve(self.Y[:, targets])
            left_out[:, targets] = coefficients[:, targets] / system.inverse_diagonal()[:, np.newaxis]
        return coefficients, left_out
