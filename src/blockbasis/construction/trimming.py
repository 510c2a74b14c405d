"""Trimmed blocks of the inner matrix C.

The effective rank of an off-diagonal block C_ij is small: few functions of either cluster have nearly all of its
energy. A rotation of each basis sorts its functions by their energy in the off-diagonal blocks. Each block is then
stored with its leading rows and columns only.

With U orthonormal, the added squared Frobenius error is the squared norm of the entries that are not stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from blockbasis._utils.linalg import leading_eigenpairs, symmetric
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.construction.inner_matrix import transformed_inner
from blockbasis.operators.inner import InnerMatrix, Panel

#: Numbers of leading functions among which the height and the width of a block are chosen, as shares of the rank. Each
#: height in use costs a panel: few heights keep products fast.
_SHARES = (0.0, 0.12, 0.18, 0.27, 0.42, 0.65, 1.0)
#: Share of the blocks of C above which trimming does not pay: then most blocks relate near clusters.
SPARSE = 0.6
#: Share of the entries of kept off-diagonal blocks that is stored where at most ``_FEW_BLOCKS`` of the blocks are kept:
#: 0.14 to 0.47 of the entries were measured.
_STORED = 0.3
_FEW_BLOCKS = 0.3
#: Bisection steps for the price of a stored entry.
_HALVINGS = 40


def expected_share(density: float) -> float:
    """Share of the entries of kept off-diagonal blocks that are expected to be stored."""
    return float(np.interp(density, (_FEW_BLOCKS, SPARSE), (_STORED, 1.0)))


def energy_rotations(inner: InnerMatrix) -> list[FloatArray]:
    """Orthogonal matrices V_i whose columns are ordered by their energy in the off-diagonal blocks.

    V_i has the left singular vectors of all blocks (i, j), j different from i, side by side.
    """
    ranks = np.diff(inner.row_offsets).tolist()
    grams = [np.zeros((rank, rank)) for rank in ranks]
    for i, j in _pairs(inner):
        block = inner.block(i, j)
        grams[i] += block @ block.T
        grams[j] += block.T @ block
    return [leading_eigenpairs(gram, len(gram))[1] if gram.any() else np.eye(len(gram)) for gram in grams]


def rotated_inner(inner: InnerMatrix, rotations: Sequence[FloatArray]) -> InnerMatrix:
    """Vᵀ C V for a block diagonal V with the given orthogonal blocks; C has whole blocks."""
    panels = []
    for panel in transformed_inner(inner, [rotation.T for rotation in rotations]).panels:
        values = panel.values.copy()
        values[:, : panel.height] = symmetric(values[:, : panel.height])
        panels.append(values)
    return inner.with_panels(panels)


def trimmed_inner(inner: InnerMatrix, budget: float) -> InnerMatrix:
    """C with the fewest stored entries such that the squared norm of the others is at most ``budget``.

    At a given price of an entry, each off-diagonal block gets the height and the width of least cost: the price of the
    stored entries plus the squared norm of the others. A bisection finds the price.
    """
    ranks = np.diff(inner.row_offsets)
    pairs = np.array(list(_pairs(inner)), dtype=np.intp).reshape(-1, 2)
    if not len(pairs) or budget <= 0:
        return inner
    levels = np.ceil(np.outer(ranks, _SHARES)).astype(np.intp)
    lost = np.array([_lost_energies(inner.block(i, j), levels[i], levels[j]) for i, j in pairs.tolist()])
    entries = (levels[pairs[:, 0]][:, :, np.newaxis] * levels[pairs[:, 1]][:, np.newaxis, :]).astype(np.float64)
    lost, entries = lost.reshape(len(pairs), -1), entries.reshape(len(pairs), -1)

    def cheapest(price: float) -> IntArray:
        return np.asarray(np.argmin(lost + price * entries, axis=1))

    rows = np.arange(len(pairs))
    low, high = math.log(max(budget, np.finfo(float).tiny) / entries[:, -1].sum()) - 10, math.log(lost.max() + budget)
    if lost[rows, cheapest(math.exp(low))].sum() > budget:
        return inner
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = lost[rows, cheapest(math.exp(middle))].sum() <= budget
        low, high = (middle, high) if fits else (low, middle)
    height, width = np.unravel_index(cheapest(math.exp(low)), (len(_SHARES), len(_SHARES)))
    return _with_extents(inner, pairs, levels[pairs[:, 0], height], levels[pairs[:, 1], width])


def _pairs(inner: InnerMatrix) -> list[tuple[int, int]]:
    return [(i, int(j)) for i, kept in enumerate(inner.kept) for j in kept if j != i]


def _lost_energies(block: FloatArray, heights: IntArray, widths: IntArray) -> FloatArray:
    """Squared norm of the entries that are not stored of a block and its transpose, by leading rows and columns."""
    sums = np.zeros((block.shape[0] + 1, block.shape[1] + 1))
    np.cumsum(np.cumsum(np.square(block), axis=0), axis=1, out=sums[1:, 1:])
    return np.asarray(2 * np.maximum(sums[-1, -1] - sums[np.ix_(heights, widths)], 0))


def _with_extents(inner: InnerMatrix, pairs: IntArray, heights: IntArray, widths: IntArray) -> InnerMatrix:
    """C with the given numbers of leading rows and columns of its blocks; blocks of one height share a panel."""
    panels, ranks = [], np.diff(inner.row_offsets)
    starts = np.searchsorted(pairs[:, 0], np.arange(inner.n_rows + 1))
    for i in range(inner.n_rows):
        stored = np.arange(starts[i], starts[i + 1])
        stored = stored[(heights[stored] > 0) & (widths[stored] > 0)]
        rank = int(ranks[i])
        for height in np.unique(np.append(heights[stored], rank))[::-1].tolist():
            members = stored[heights[stored] == height]
            columns, extents = pairs[members, 1], widths[members]
            blocks = [inner.block(i, int(j))[:height, :width] for j, width in zip(columns, extents, strict=True)]
            if height == rank:  # the diagonal block is whole
                columns, extents, blocks = np.append(i, columns), np.append(rank, extents), [inner.block(i, i), *blocks]
            panels.append(Panel(i, columns, extents, np.concatenate(blocks, axis=1)))
    return InnerMatrix(inner.row_offsets, inner.column_offsets, tuple(panels), symmetric=True)
