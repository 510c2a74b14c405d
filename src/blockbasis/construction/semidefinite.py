"""C made positive semi-definite, block-sparse as it is.

C = P K(I, I) Pᵀ is positive semi-definite while all its blocks are kept and no diagonal part is taken out. Where blocks
were dropped, or the diagonal parts of near points in different clusters are too large, C has negative eigenvalues. They
are small: the sum of their squares is at most the squared norm of what was dropped.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from blockbasis._linalg import DEFINITE, negative_eigenpairs
from blockbasis._typing import FloatArray
from blockbasis.operators.inner import InnerMatrix

#: Negative eigenvalues of so many roundings of the largest diagonal entry come from the precision of the work.
_ROUNDINGS = 10.0
#: Components of more columns are not decomposed, nor those with blocks dropped, whose nearest semi-definite matrix would
#: fill them: all their eigenvalues are raised. The shift is searched from this share of
#: the largest diagonal entry on, by this factor.
_DECOMPOSED = 1500
_FIRST_SHIFT = 1e-7
_SHIFT_STEP = 3.0


def semidefinite_inner(inner: InnerMatrix, precision: float) -> InnerMatrix:
    """C with no negative eigenvalue beyond rounding, and with the same blocks.

    A Cholesky factorization of each connected component tells whether there are any. The nearest semi-definite matrix
    takes the place of a small component with all its blocks. Others get a multiple of the identity, as small as makes
    them definite.

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
