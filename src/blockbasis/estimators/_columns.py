"""Maps of columns before a regression: scaling, and asinh for heavy tails.

In a column with heavy tails, a few extreme values determine the standard deviation. After scaling, the distances
between all other values are close to zero. Regression trees depend only on the order of the values. Kernels depend on
the distances, and asinh makes the extreme values smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

#: A column has heavy tails if its largest deviation from the median exceeds the median deviation by this factor.
_HEAVY = 30


@dataclass(frozen=True, eq=False)
class ColumnMap:
    """Monotone map of some columns: near the identity at the centre, and logarithmic for large values.

    The map is x -> center + spread * asinh((x - center) / spread).

    Parameters
    ----------
    columns : ndarray of shape (m,)
        Indices of the mapped columns. Other columns do not change.
    centers, spreads : ndarray of shape (m,)
        Centres and positive spreads of the mapped columns, in their units.
    """

    columns: IntArray
    centers: FloatArray
    spreads: FloatArray

    def __call__(self, X: FloatArray) -> FloatArray:
        """Points with mapped columns, in the dtype of ``X``."""
        mapped = X.copy()
        mapped[:, self.columns] = self.centers + self.spreads * np.arcsinh(self._deviations(X))
        return mapped

    def slopes(self, X: FloatArray) -> FloatArray:
        """Derivatives of the map with respect to the columns, at every point."""
        slopes = np.ones(X.shape)
        slopes[:, self.columns] = 1 / np.hypot(1, self._deviations(X))
        return slopes

    def _deviations(self, X: FloatArray) -> FloatArray:
        return np.asarray((X[:, self.columns].astype(np.float64) - self.centers) / self.spreads)


@dataclass(frozen=True, eq=False)
class View:
    """Columns after a map, the subtraction of a centre, and the multiplication with a scale.

    Parameters
    ----------
    center, scale : ndarray of shape (d,)
    mapping : ColumnMap or None
    """

    center: FloatArray
    scale: FloatArray
    mapping: ColumnMap | None = None

    def mapped(self, X: FloatArray) -> FloatArray:
        """Points after the map only."""
        return X if self.mapping is None else self.mapping(X)

    def __call__(self, X: FloatArray) -> FloatArray:
        """Points after map, centre and scale, in float64."""
        return np.asarray((self.mapped(X).astype(np.float64) - self.center) * self.scale)


def standardized(X: FloatArray, weights: FloatArray | None, mapping: ColumnMap | None = None) -> View:
    """Columns of standard deviation 1."""
    mapped = X if mapping is None else mapping(X)
    return View(mapped.mean(axis=0, dtype=np.float64), column_scale(mapped, weights), mapping)


def as_they_are(X: FloatArray, weights: FloatArray | None) -> View:
    """Columns in their units; constant columns have the scale zero."""
    return View(X.mean(axis=0, dtype=np.float64), (column_scale(X, weights) > 0).astype(np.float64))


def heavy_tails(X: FloatArray) -> ColumnMap | None:
    """Map of the columns with heavy tails; None if there are none."""
    found = list[tuple[int, float, float]]()
    for j, column in enumerate(X.T):
        center = float(np.median(column))
        deviations = np.abs(column.astype(np.float64) - center)
        deviations = deviations[deviations > 0]  # many values can be equal, for example zero
        spread = float(np.median(deviations)) if len(deviations) else 0.0
        if 0 < spread < np.inf and deviations.max() > _HEAVY * spread:
            found.append((j, center, spread))
    if not found:
        return None
    columns, centers, spreads = zip(*found, strict=True)
    return ColumnMap(np.array(columns, dtype=np.intp), np.array(centers), np.array(spreads))


def column_scale(X: FloatArray, weights: FloatArray | None) -> FloatArray:
    """One over the standard deviation of each column; zero for constant columns."""
    double = X.astype(np.float64, copy=False)
    centred = double - double[0]  # the mean of large values has rounding errors
    mean = np.average(centred, axis=0, weights=weights)
    deviation = np.sqrt(np.average((centred - mean) ** 2, axis=0, weights=weights))
    varies = (centred != 0).any(axis=0) & (deviation > 0)
    if not varies.any():
        return np.ones(X.shape[1])
    return np.asarray(np.divide(1, deviation, out=np.zeros_like(deviation), where=varies))
