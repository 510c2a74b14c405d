"""Columns as regressions may see them: scaled, and those of heavy tails drawn in.

A few values far out take most of the standard deviation of a column, and distances tell the many others apart no more.
Regression trees do not mind, since only the order of values matters to them; a kernel wants them drawn in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockbasis._utils.typing import FloatArray, IntArray

#: A column has heavy tails where its largest deviation from the median is so many median deviations.
_HEAVY = 30


@dataclass(frozen=True, eq=False)
class ColumnMap:
    """A monotone map of some columns: about the identity near the middle, and logarithmic far out.

    x goes to center + spread * asinh((x - center) / spread).

    Parameters
    ----------
    columns : ndarray of shape (m,)
        The columns that are mapped; others stay as they are.
    centers, spreads : ndarray of shape (m,)
        Of these, in their units; spreads are positive.
    """

    columns: IntArray
    centers: FloatArray
    spreads: FloatArray

    def __call__(self, X: FloatArray) -> FloatArray:
        """The points with mapped columns, in the dtype of ``X``."""
        mapped = X.copy()
        mapped[:, self.columns] = self.centers + self.spreads * np.arcsinh(self._deviations(X))
        return mapped

    def slopes(self, X: FloatArray) -> FloatArray:
        """Derivatives of mapped columns by the columns, at every point."""
        slopes = np.ones(X.shape)
        slopes[:, self.columns] = 1 / np.hypot(1, self._deviations(X))
        return slopes

    def _deviations(self, X: FloatArray) -> FloatArray:
        return np.asarray((X[:, self.columns].astype(np.float64) - self.centers) / self.spreads)


@dataclass(frozen=True, eq=False)
class View:
    """Columns as a regression sees them: mapped, around a centre, and multiplied.

    Parameters
    ----------
    center, scale : ndarray of shape (d,)
    mapping : ColumnMap or None
    """

    center: FloatArray
    scale: FloatArray
    mapping: ColumnMap | None = None

    def mapped(self, X: FloatArray) -> FloatArray:
        """The points with mapped columns, in their units."""
        return X if self.mapping is None else self.mapping(X)

    def __call__(self, X: FloatArray) -> FloatArray:
        """The points as they are seen, in float64."""
        return np.asarray((self.mapped(X).astype(np.float64) - self.center) * self.scale)


def standardized(X: FloatArray, weights: FloatArray | None, mapping: ColumnMap | None = None) -> View:
    """Columns of standard deviation 1."""
    mapped = X if mapping is None else mapping(X)
    return View(mapped.mean(axis=0, dtype=np.float64), column_scale(mapped, weights), mapping)


def as_they_are(X: FloatArray, weights: FloatArray | None) -> View:
    """Columns in their units, without those that never vary, which tell nothing."""
    return View(X.mean(axis=0, dtype=np.float64), (column_scale(X, weights) > 0).astype(np.float64))


def heavy_tails(X: FloatArray) -> ColumnMap | None:
    """The map of the columns that have heavy tails; None where none has."""
    found = list[tuple[int, float, float]]()
    for j, column in enumerate(X.T):
        center = float(np.median(column))
        deviations = np.abs(column.astype(np.float64) - center)
        deviations = deviations[deviations > 0]  # many values may be the same, as zeros
        spread = float(np.median(deviations)) if len(deviations) else 0.0
        if 0 < spread < np.inf and deviations.max() > _HEAVY * spread:
            found.append((j, center, spread))
    if not found:
        return None
    columns, centers, spreads = zip(*found, strict=True)
    return ColumnMap(np.array(columns, dtype=np.intp), np.array(centers), np.array(spreads))


def column_scale(X: FloatArray, weights: FloatArray | None) -> FloatArray:
    """What makes the standard deviation of each column 1; zero for constant columns, which tell nothing."""
    double = X.astype(np.float64, copy=False)
    centred = double - double[0]  # far from zero the mean is rounded
    mean = np.average(centred, axis=0, weights=weights)
    deviation = np.sqrt(np.average((centred - mean) ** 2, axis=0, weights=weights))
    varies = (centred != 0).any(axis=0) & (deviation > 0)
    if not varies.any():
        return np.ones(X.shape[1])
    return np.asarray(np.divide(1, deviation, out=np.zeros_like(deviation), where=varies))
