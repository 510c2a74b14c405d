"""Repair of an indefinite inner matrix C that keeps its zero blocks.

C = P K(I, I) Pᵀ is positive semi-definite while all of its blocks are kept and no diagonal part is subtracted. C can
have negative eigenvalues where blocks were dropped, or where the diagonal parts of near points in different clusters
are too large. Negative eigenvalues that are due to dropped blocks are small: the sum of their squares is at most the
squared norm of the dropped blocks.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from blockbasis._linalg import DEFINITE, negative_eigenpairs
from blockbasis._typing import FloatArray
from blockbasis.operators.inner import InnerMatrix

#: Negative eigenvalues below so many rounding units of the largest diagonal entry are rounding errors.
_ROUNDINGS = 10.0
#: Components of more columns are not decomposed, nor are those with dropped blocks: their nearest semi-definite matrix
#: would have no zero blocks. A multiple of the identity is added to them instead. The search for the smallest multiple
#: starts at this share of the largest diagonal entry and goes up by this factor, and refined by halving its logarithm.
_DECOMPOSED = 1500
_FIRST_SHIFT = 1e-5
_SHIFT_STEP = 8.0
_REFINEMENTS = 2


def semidefinite_inner(inner: InnerMatrix, precision: float) -> InnerMatrix:
    """C with no negative eigenvalue beyond rounding, and with the same blocks.

    A Cholesky factorization of each connected component shows whether the component has negative eigenvalues. A small
    component with all of its blocks is replaced by the nearest semi-definite matrix. To any other component a multiple
    of the identity is added, the first of an increasing sequence that makes the component definite.

    Parameters
    ----------
    inner : InnerMatrix
        Symmetric.
    precision : float
        Rounding unit of the kernel entries.
    """
    rounding = max(DEFINITE, _ROUNDINGS * precision)
    panels = list(inner.panels)
    for clusters in inner.components():
        part = inner.component(clusters)
        for i, panel in zip(clusters.tolist(), _semidefinite_panels(part, rounding), strict=True):
            panels[i] = panel
    return InnerMatrix(inner.row_offsets, inner.column_offsets, inner.kept, tuple(panels), inner.symmetric)


def _semidefinite_panels(part: InnerMatrix, rounding: float) -> tuple[FloatArray, ...]:
    """Panels of a connected component."""
    dense = part.todense().astype(np.float64, copy=False)
    largest = float(np.abs(np.diagonal(dense)).max(initial=0.0))
    negligible = rounding * largest
    if _is_definite(dense, negligible):
        return part.panels
    if part.density == 1 and len(dense) <= _DECOMPOSED:
        values, vectors = negative_eigenpairs(dense)
        return part.with_entries(dense - (vectors * values) @ vectors.T).panels
    shift = max(negligible, _FIRST_SHIFT * largest, float(np.finfo(np.float64).tiny))
    while not _is_definite(dense, shift):
        shift *= _SHIFT_STEP
    low = shift / _SHIFT_STEP
    for _ in range(_REFINEMENTS):
        middle = float(np.sqrt(low * shift))
        low, shift = (low, middle) if _is_definite(dense, middle) else (middle, shift)
    return tuple(_shifted(panel, shift) for panel in part.panels)


def _shifted(panel: FloatArray, shift: float) -> FloatArray:
    panel = panel.copy()
    own = np.arange(panel.shape[0])
    panel[own, own] += shift
    return panel


def _is_definite(dense: FloatArray, shift: float) -> bool:
    shifted = dense.astype(np.float64)
    shifted[np.diag_indices_from(shifted)] += shift
    try:
        linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return False
    return True
