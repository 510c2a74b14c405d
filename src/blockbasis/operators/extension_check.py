"""Estimates of the error of K(X_new, X) from exact entries between new points and landmarks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from blockbasis.operators.error_estimate import ErrorEstimate
from blockbasis.operators.near_field import CorrectionPlan, NearField, near_errors, nearest_clusters, sufficient_count

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.operators.block_diagonal import BlockDiagonal

#: Error that may remain beyond the near clusters, relative to the error above which the rows are corrected.
_REMAINING = 0.25
#: Least error of an entry that is corrected by itself, relative to the allowed error of a row.
_LEAST_ENTRY = 0.125
#: Largest error after a correction that is worth its floats, relative to the error before.
_WORTHWHILE = 0.9


class Probes(NamedTuple):
    """Landmarks in kernel coordinates, their u(x), and the number of factorized points that each represents."""

    points: FloatArray
    basis: BlockDiagonal
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class CheckedEntries:
    """Exact entries between landmarks and a sample of the new points, and the errors of their approximation.

    Parameters
    ----------
    X : ndarray of shape (m, d)
        Sample of the new points in kernel coordinates.
    U : BlockDiagonal
        Their u(x).
    probes : Probes
        Landmarks.
    exact, difference : ndarray of shape (n_probes, m)
        Exact entries, and their differences from the approximation.
    """

    X: FloatArray
    U: BlockDiagonal
    probes: Probes
    exact: FloatArray
    difference: FloatArray

    @property
    def norms(self) -> FloatArray:
        """Estimated squared norm of each row of K(X_new, X)."""
        return np.asarray(self.probes.weights @ self.exact**2)

    @property
    def labels(self) -> IntArray:
        """Cluster of each landmark."""
        return self.probes.basis.partition.labels

    def estimate(self) -> ErrorEstimate:
        """Return the estimated error of the rows without a correction."""
        return ErrorEstimate.of_sampled_rows(self.probes.weights @ self.difference**2, self.norms)


def planned_correction(field: NearField, checked: CheckedEntries, threshold: float) -> CorrectionPlan | None:
    """Choose the extent of the correction; None if it does not lower the estimated error by a tenth.

    Single entries are corrected if the error is still above ``threshold`` after the correction of the coordinates.
    """
    nearest = nearest_clusters(field.partition.centers, checked.X, field.partition.n_clusters)
    errors, norms = checked.probes.weights[:, np.newaxis] * checked.difference**2, checked.norms
    norm = math.sqrt(float(norms.sum()))
    count = sufficient_count(errors, checked.labels, nearest, (_REMAINING * threshold * norm) ** 2)
    position = np.argsort(nearest, axis=1)[:, checked.labels].T
    beyond = np.where(position >= count, errors, 0.0).sum(axis=0)
    least = _LEAST_ENTRY * threshold * norm / math.sqrt(len(norms))
    near = near_errors(field, checked.X, checked.U, count, least)
    plan = CorrectionPlan(count, None, ErrorEstimate.of_sampled_rows(beyond + near.after, norms))
    if plan.error.value > threshold:
        plan = CorrectionPlan(count, least, ErrorEstimate.of_sampled_rows(beyond + near.with_entries, norms))
    lower = near.after.sum() < near.before.sum() and plan.error.value < _WORTHWHILE * checked.estimate().value
    return plan if lower else None
