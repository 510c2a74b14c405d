"""Kernel from a function k(X, Y) of the user."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.kernels.base import Kernel

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """Kernel from a function k(X, Y) that returns an array, whose shape and values are checked at each call.

    Parameters
    ----------
    function : callable
        Takes points of shape (n, d) and (m, d) and returns real, finite values of shape (n, m).
    """

    function: Callable[[FloatArray, FloatArray], Any]

    def block(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        values = np.asarray(self.function(X, Y))
        expected = (X.shape[0], Y.shape[0])
        if values.shape != expected:
            raise ValueError(
                f"The kernel callable must return an array of shape {expected} for points of shapes {X.shape} and "
                f"{Y.shape}. Got shape {values.shape} instead."
            )
        if values.dtype.kind not in "fiub":
            raise TypeError(f"The kernel callable must return real numbers. Got dtype {values.dtype} instead.")
        if not np.isfinite(values).all():
            raise ValueError("The kernel callable must return finite values. Got NaN or infinity instead.")
        return np.array(values, dtype=X.dtype)

    @staticmethod
    def check_symmetric(K: FloatArray) -> None:
        """Raise a ValueError unless the kernel matrix of a sample of points is symmetric."""
        scale = np.abs(K).max(initial=0.0)
        tolerance = math.sqrt(np.finfo(K.dtype).eps) * scale
        if np.abs(K - K.T).max(initial=0.0) > tolerance:
            i, j = np.unravel_index(int(np.abs(K - K.T).argmax()), K.shape)
            raise ValueError(
                f"The kernel callable must be symmetric, k(x, y) = k(y, x). Got {K[i, j]} and {K[j, i]} for the "
                "same two points instead; use factorize_cross for a kernel that is not."
            )

    @staticmethod
    def check_semidefinite(K: FloatArray) -> None:
        """Raise a ValueError unless the kernel matrix of a sample of points is positive semi-definite."""
        values = np.linalg.eigvalsh((K + K.T) / 2)
        if values[0] < -math.sqrt(np.finfo(K.dtype).eps) * max(values[-1], 0.0):
            raise ValueError(
                f"The kernel callable must be positive semi-definite. Got a smallest eigenvalue of {values[0]:.3g} "
                f"beside a largest of {values[-1]:.3g} on {len(values)} of the points instead; factorize with "
                "algorithm='paper' and 'rank' given takes any symmetric function."
            )
