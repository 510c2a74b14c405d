"""Mean function of the targets (none, constant or linear), fitted by least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

TRENDS = ("constant", "linear")


@dataclass(frozen=True, eq=False)
class Trend:
    """Linear function of points.

    Parameters
    ----------
    center, scale : ndarray of shape (d,)
        Means and standard deviations of the columns.
    constant : ndarray of shape (n_targets,)
    slopes : ndarray of shape (d, n_targets)
        Slopes with respect to the standardized columns.
    """

    center: FloatArray
    scale: FloatArray
    constant: FloatArray
    slopes: FloatArray

    @classmethod
    def fitted(cls, kind: str | None, X: FloatArray, Y: FloatArray) -> Trend:
        """Fit the trend of finite targets. Constant columns have the slope zero."""
        center, scale = column_scales(X)
        constant, slopes = np.zeros(Y.shape[1]), np.zeros((X.shape[1], Y.shape[1]))
        if kind is not None:
            unit = largest(Y)
            constant = (Y / unit).mean(axis=0) * unit
            if kind == "linear":
                slopes = np.linalg.lstsq((X - center) / scale, (Y - constant) / unit, rcond=None)[0] * unit
        return cls(center, scale, constant, slopes)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Values at points, of shape (n, n_targets)."""
        if not self.slopes.any():
            return np.broadcast_to(self.constant, (len(X), len(self.constant)))
        return np.asarray(self.constant + ((X - self.center) / self.scale) @ self.slopes)


def column_scales(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations of the columns, in float64. Constant columns have the standard deviation 1."""
    X = X.astype(np.float64, copy=False)
    center, scale = X.mean(axis=0), X.std(axis=0)
    still = scale <= 10 * np.finfo(np.float64).eps * np.abs(center)
    return center, np.where(still, 1.0, scale)


def largest(values: FloatArray) -> float:
    """Largest absolute value, or 1 if it is zero. After division by it, squares do not overflow."""
    return float(np.abs(values).max(initial=0.0)) or 1.0
