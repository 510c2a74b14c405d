"""Repair of an indefinite inner matrix C that keeps its zero blocks.

C = P K(I, I) Pᵀ is positive semi-definite while all of its blocks are kept and no diagonal part is subtracted. C can
have negative eigenvalues where blocks were dropped, or where the diagonal parts of near points in different clusters
are too large. Negative eigenvalues that are due to dropped blocks are small: the sum of their squares is at most the
squared norm of the dropped blocks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from blockbasis._utils.linalg import DEFINITE, negative_eigenpairs
from blockbasis._utils.tiled_cholesky import factorize_in_place

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.operators.inner import InnerMatrix

#: Negative eigenvalues below this many rounding units of the largest diagonal entry are rounding errors.
_ROUNDINGS = 10.0
#: All eigenpairs of components of at most this many columns are computed; only the lowest ones of larger components.
DECOMPOSED = 400
#: Size above which a component is factorized by tiles, on several threads.
_TILED_SIZE = 1500
#: Least width of a block of the Krylov space, columns of C for each unit of the width, and number of blocks. The space
#: holds a few hundred of the lowest eigenvectors, more where a factorization takes longer.
_BLOCK_WIDTH = 32
_COLUMNS_PER_WIDTH = 256
_BLOCKS = 12
#: First trial shift as a multiple of the allowed shift, and the factor from one trial shift to the next.
_FIRST_SHIFT = 6.0
_STEP_UP = 1.5
#: Multiple of the allowed shift that is accepted: a further removal takes longer than a better shift is worth.
_ACCEPTED = 1.15
#: A removal of the lowest eigenpairs usually reduces the lowest eigenvalue to this share: the entries of the removed
#: part in dropped blocks stay zero. Largest number of removals.
_LOWERED = 0.7
_REMOVALS = 6
#: Float32 units of the largest diagonal entry that a shift must exceed for factorizations in float32, and that are
#: added to such a shift: the least shifts that succeed in float32 and in float64 differ by a tenth of a unit.
_SINGLE_SAFE = 100.0
_SINGLE_MARGIN = 5.0
_SINGLE = np.dtype(np.float32)
_DOUBLE = np.dtype(np.float64)


def semidefinite_inner(inner: InnerMatrix, precision: float, allowed: float = 0.0, n_jobs: int = 1) -> InnerMatrix:
    """C with no negative eigenvalue beyond rounding, and with the same blocks.

    A Cholesky factorization of each connected component shows whether the component has negative eigenvalues. Where it
    has, its lowest eigenpairs are subtracted from the kept blocks, until a small multiple of the identity makes the
    component definite.

    Parameters
    ----------
    inner : InnerMatrix
        Symmetric.
    precision : float
        Rounding unit of the kernel entries.
    allowed : float, default=0.0
        Squared Frobenius norm that the multiple of the identity may have.
    n_jobs : int, default=1
        Number of threads.
    """
    rounding = max(DEFINITE, _ROUNDINGS * precision)
    shift = math.sqrt(allowed / max(inner.shape[0], 1))
    values = [panel.values for panel in inner.panels]
    panels_of_row: list[list[int]] = [[] for _ in range(inner.n_rows)]
    for position, panel in enumerate(inner.panels):
        panels_of_row[panel.row].append(position)
    changed = False
    for clusters in inner.components():
        component = inner.component(clusters)
        repaired = _semidefinite_component(component, rounding, shift, n_jobs)
        if repaired is not component:
            changed = True
            positions = [position for i in clusters.tolist() for position in panels_of_row[i]]
            for position, panel in zip(positions, repaired.panels, strict=True):
                values[position] = panel.values
    return inner.with_panels(values) if changed else inner


def squared_changes(before: InnerMatrix, after: InnerMatrix) -> FloatArray:
    """Squared norms of the changes in the block rows of a repaired C, one for each cluster."""
    changes = np.zeros(before.n_rows)
    for old, new in zip(before.panels, after.panels, strict=True):
        starts = np.cumsum(old.widths) - old.widths
        energies = np.add.reduceat(np.square(new.values - old.values).sum(axis=0), starts)
        changes[old.row] += energies.sum()
        off_diagonal = old.columns != old.row
        np.add.at(changes, old.columns[off_diagonal], energies[off_diagonal])
    return changes


def _semidefinite_component(component: InnerMatrix, rounding: float, smallest: float, n_jobs: int) -> InnerMatrix:
    """A connected component made semi-definite; ``smallest`` is a shift that is negligible."""
    C = np.array(component.todense(), dtype=np.float64)
    negligible = rounding * float(np.abs(np.diagonal(C)).max(initial=0.0))
    exact = DEFINITE / rounding * negligible
    if len(C) <= DECOMPOSED:
        if _cholesky(C, exact, n_jobs) is not None:
            return component
        if rounding > DEFINITE and _cholesky(C, negligible, n_jobs) is not None:
            return _shifted(component, C, negligible)
        # The nearest semi-definite matrix is cheap to compute, and needs a shift of the size of rounding only.
        smallest = max(negligible, float(np.finfo(np.float64).tiny))
        return _without_negative_part(component, C, smallest, smallest, n_jobs)
    if (
        component.full and _cholesky(C, exact, n_jobs) is not None
    ):  # semi-definite by construction where nothing is subtracted
        return component
    smallest = max(smallest, negligible, float(np.finfo(np.float64).tiny))
    if _cholesky(C, smallest, n_jobs, _precision(C, smallest)) is None:
        return _without_negative_part(component, C, smallest, _FIRST_SHIFT * smallest, n_jobs)
    if _cholesky(C, negligible, n_jobs) is not None:
        return component if exact == negligible else _shifted(component, C, negligible)
    between = math.sqrt(negligible * smallest)
    return _shifted(component, C, _safe(C, smallest) if _cholesky(C, between, n_jobs) is None else between)


def _precision(C: FloatArray, shift: float) -> np.dtype[Any]:
    """Float32 where its rounding is far below the shift."""
    return _SINGLE if shift > _SINGLE_SAFE * _single_unit(C) else _DOUBLE


def _safe(C: FloatArray, shift: float) -> float:
    """The shift, and a margin for the rounding of a factorization in float32."""
    return shift + _SINGLE_MARGIN * _single_unit(C) if _precision(C, shift) == _SINGLE else shift


def _single_unit(C: FloatArray) -> float:
    """Float32 rounding unit of the largest diagonal entry."""
    return float(np.finfo(np.float32).eps) * float(np.diagonal(C).max())


def _shifted(component: InnerMatrix, C: FloatArray, shift: float) -> InnerMatrix:
    """C + shift I, written over C."""
    C[np.diag_indices_from(C)] += shift
    return component.with_entries(C)


def _without_negative_part(
    component: InnerMatrix, C: FloatArray, smallest: float, trial: float, n_jobs: int
) -> InnerMatrix:
    """C minus its lowest eigenpairs in the kept blocks, plus a shift that makes C definite."""
    dtype = _precision(C, smallest) if len(C) > DECOMPOSED else _DOUBLE
    zeros = None if component.full else component.with_entries(np.ones_like(C)).todense() == 0
    shift, factor = _definite_shift(C, trial, n_jobs, dtype)
    for _ in range(_REMOVALS):
        if shift <= _ACCEPTED * smallest:
            break
        values, vectors = _lowest_eigenpairs(C, factor)
        removed = (vectors * values.astype(vectors.dtype)) @ vectors.T
        if zeros is not None:
            removed[zeros] = 0
        C -= removed
        del removed, factor
        lowest = float(np.abs(values).max(initial=0.0))
        shift, factor = _definite_shift(C, max(_LOWERED * lowest, smallest), n_jobs, dtype)
    del factor
    if len(C) <= DECOMPOSED:
        if shift <= smallest:
            return _shifted(component, C, shift)
        lowest = float(np.abs(negative_eigenpairs(C)[0]).max(initial=0.0))
        return _shifted(component, C, lowest + smallest)
    if shift > _ACCEPTED * smallest:  # a smaller shift may suffice after the last removal
        shift = _definite_shift(C, max(shift / _STEP_UP, smallest), n_jobs, dtype)[0]
    return _shifted(component, C, _safe(C, shift))


def _definite_shift(C: FloatArray, shift: float, n_jobs: int, dtype: np.dtype[Any]) -> tuple[float, FloatArray]:
    """The first of shift, 2 shift, 4 shift, ... that makes C definite, and the Cholesky factor in the given dtype."""
    while math.isfinite(shift):
        if (factor := _cholesky(C, shift, n_jobs, dtype)) is not None:
            return shift, factor
        shift *= _STEP_UP
    raise linalg.LinAlgError("the inner matrix has entries that are not finite")


def _lowest_eigenpairs(C: FloatArray, factor: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues of C below zero, ascending, and their vectors; those of a large C are Ritz pairs.

    The Ritz pairs are those of a block Krylov space of (C + s I)⁻¹, whose Cholesky factor is given.
    """
    height = C.shape[0]
    if height <= DECOMPOSED:
        return negative_eigenpairs(C)
    width = max(_BLOCK_WIDTH, height // _COLUMNS_PER_WIDTH)
    start = np.random.default_rng(0).standard_normal((height, width))
    space = np.linalg.qr(start)[0].astype(factor.dtype, copy=False)
    for _ in range(_BLOCKS - 1):
        block = linalg.cho_solve((factor, True), space[:, -width:], check_finite=False)
        for _ in range(2):  # once is not enough for orthogonality to rounding
            block -= space @ (space.T @ block)
        space = np.concatenate((space, np.linalg.qr(block)[0]), axis=1)
    values, rotation = negative_eigenpairs((space.T @ (C.astype(space.dtype, copy=False) @ space)).astype(np.float64))
    return values, space @ rotation.astype(space.dtype)


def _cholesky(C: FloatArray, shift: float, n_jobs: int, dtype: np.dtype[Any] = _DOUBLE) -> FloatArray | None:
    """Lower Cholesky factor of C + shift I, or None where that is not definite."""
    shifted = C.T.astype(dtype)  # C is symmetric, and LAPACK needs contiguous columns
    shifted[np.diag_indices_from(shifted)] += shift
    try:
        if len(C) > _TILED_SIZE:
            return factorize_in_place(shifted, n_jobs)
        return np.asarray(linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False))
    except linalg.LinAlgError:
        return None
