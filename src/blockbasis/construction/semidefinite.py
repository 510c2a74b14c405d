"""C made positive semi-definite, block-sparse as it is.

C = P K(I, I) Pᵀ is positive semi-definite while all its blocks are kept and no diagonal part is taken out. Where blocks
were dropped, or the diagonal parts of near points in different clusters are too large, C has negative eigenvalues.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from blockbasis._linalg import DEFINITE, negative_eigenpairs
from blockbasis._typing import FloatArray
from blockbasis.operators.inner import InnerMatrix

#: Negative eigenvalues of so many roundings of the largest diagonal entry come from the precision of the work.
_ROUNDINGS = 10.0
#: Components of more columns are not decomposed whole: Lanczos finds their lowest eigenvalues, so many at a time.
_DECOMPOSED = 2000
_LANCZOS_PAIRS = 48
_LANCZOS_STEPS = 300
#: How often negative eigenvalues are looked for and repaired.
_REPAIRS = 12


def semidefinite_inner(inner: InnerMatrix, precision: float) -> InnerMatrix:
    """C with no negative eigenvalue beyond rounding, and with the same blocks.

    A Cholesky factorization of each connected component tells whether there are any. Each negative eigenpair
    (-a, v) is compensated in the diagonal blocks: a v vᵀ is at most the block-diagonal matrix of
    a v_i v_iᵀ / w_i for every w with sum 1, and w_i = |v_i| / (|v_1| + ... + |v_k|) changes C least. Near points in
    different clusters have v_i along one point each, so that the change is one of the diagonal, which D takes back.

    Parameters
    ----------
    inner : InnerMatrix
        Symmetric.
    precision : float
        Rounding unit of the kernel entries.
    """
    rounding = max(DEFINITE, _ROUNDINGS * precision)
    changed: dict[int, FloatArray] = {}
    for clusters in inner.components():
        part = inner.component(clusters)
        cores = _repaired(part, rounding)
        if cores is not None:
            changed |= dict(zip(clusters.tolist(), cores, strict=True))
    return _with_cores(inner, changed) if changed else inner


def _repaired(part: InnerMatrix, rounding: float) -> list[FloatArray] | None:
    """Diagonal blocks that make a component semi-definite; None when it is."""
    dense = part.todense().astype(np.float64, copy=False)
    shift = rounding * float(np.abs(np.diagonal(dense)).max(initial=0.0))
    if _is_definite(dense, shift):
        return None
    blocks = [slice(a, b) for a, b in zip(part.row_offsets[:-1], part.row_offsets[1:], strict=True)]
    for _ in range(_REPAIRS):
        values, vectors = _lowest(dense)
        for value, v in zip(values, vectors.T, strict=True):
            if value < 0:
                _compensate(dense, -float(value), v, blocks)
        if _is_definite(dense, shift):
            break
    else:  # what is left is tiny: all of it at once
        values, _ = negative_eigenpairs(dense)
        dense[np.diag_indices_from(dense)] += max(0.0, -float(values.min(initial=0.0)))
    return [dense[block, block] for block in blocks]


def _is_definite(dense: FloatArray, shift: float) -> bool:
    shifted = dense.copy()
    shifted[np.diag_indices_from(shifted)] += shift
    try:
        linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return False
    return True


def _lowest(dense: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Negative eigenpairs of a small matrix, the lowest eigenpairs of a large one."""
    if len(dense) <= _DECOMPOSED:
        return negative_eigenpairs(dense)
    operator = LinearOperator(dense.shape, matvec=lambda v: dense @ v, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(len(dense))
    try:
        found: tuple[FloatArray, FloatArray] = eigsh(
            operator, _LANCZOS_PAIRS, which="SA", v0=start, maxiter=_LANCZOS_STEPS, tol=1e-3
        )
    except ArpackNoConvergence as stopped:
        if len(stopped.eigenvalues) == 0:
            return negative_eigenpairs(dense)
        found = stopped.eigenvalues, stopped.eigenvectors
    return found


def _compensate(dense: FloatArray, amount: float, v: FloatArray, blocks: list[slice]) -> None:
    lengths = np.array([float(np.linalg.norm(v[block])) for block in blocks])
    total = lengths.sum()
    for block, length in zip(blocks, lengths, strict=True):
        if length > 0:
            dense[block, block] += (amount * total / length) * np.outer(v[block], v[block])


def _with_cores(inner: InnerMatrix, cores: dict[int, FloatArray]) -> InnerMatrix:
    panels = []
    for i, panel in enumerate(inner.panels):
        if i in cores:
            panel = panel.copy()
            panel[:, : len(cores[i])] = cores[i]
        panels.append(panel)
    return InnerMatrix(inner.row_offsets, inner.column_offsets, inner.kept, tuple(panels), inner.symmetric)
