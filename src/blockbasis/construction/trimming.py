"""Trimmed blocks of the inner matrix C.

Two clusters see little of each other: of a block C_ij between r_i and r_j basis functions, few functions of either
cluster hold nearly all. A rotation of each basis sorts its functions by what C relates them to in other clusters. Each
block is then stored with its leading rows and columns only.

With U orthonormal, the squared Frobenius error that is added is the squared norm of the entries that are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from blockbasis._utils.linalg import leading_eigenpairs, symmetric
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.construction.pipeline import Draft
from blockbasis.operators.inner import InnerMatrix, Panel

#: Numbers of leading functions among which the height and the width of a block are chosen, as shares of the rank. Each
#: height in use costs a panel: few heights keep products fast.
_SHARES = (0.0, 0.12, 0.18, 0.27, 0.42, 0.65, 1.0)
#: Share of the blocks of C above which trimming does not pay: then most blocks relate near clusters.
SPARSE = 0.6
#: Share of the entries of kept blocks beside the diagonal that trimmed blocks store where few blocks are kept, and the
#: share of the blocks up to which this holds; 0.14 to 0.47 of the entries were measured.
_STORED = 0.3
_FEW_BLOCKS = 0.3
#: Bisection steps for the price of a stored entry.
_HALVINGS = 40


def expected_share(density: float) -> float:
    """Share of the entries of kept blocks beside the diagonal that are expected to be stored."""
    return float(np.interp(density, (_FEW_BLOCKS, SPARSE), (_STORED, 1.0)))


def rotations(inner: InnerMatrix) -> list[FloatArray]:
    """Orthogonal matrices V_i: the columns are ordered by the energy of the blocks beside the diagonal block.

    They are the left singular vectors of all blocks (i, j) with j different from i, side by side.
    """
    ranks = np.diff(inner.row_offsets).tolist()
    grams = [np.zeros((rank, rank)) for rank in ranks]
    for i, j in _pairs(inner):
        block = inner.block(i, j)
        grams[i] += block @ block.T
        grams[j] += block.T @ block
    return [leading_eigenpairs(gram, len(gram))[1] if gram.any() else np.eye(len(gram)) for gram in grams]


def rotated_draft(draft: Draft, turns: Sequence[FloatArray]) -> Draft:
    """The same factorization with the basis of each cluster rotated."""
    bases = [
        replace(
            basis,
            coefficients=basis.coefficients @ turn,
            values=basis.values @ turn,
            vectors=None if basis.vectors is None else basis.vectors @ turn,
        )
        for basis, turn in zip(draft.bases, turns, strict=True)
    ]
    return Draft(bases, [], rotated_inner(draft.inner, turns), draft.cut)


def rotated_inner(inner: InnerMatrix, turns: Sequence[FloatArray]) -> InnerMatrix:
    """Vᵀ C V for V block diagonal with the given orthogonal blocks."""
    panels = []
    for i, turn in enumerate(turns):
        panel = turn.T @ np.concatenate([block @ turns[j] for j, block in _row_blocks(inner, i)], axis=1)
        panel[:, : len(turn)] = symmetric(panel[:, : len(turn)])
        panels.append(panel)
    return InnerMatrix.of_whole_blocks(inner.row_offsets, inner.row_offsets, inner.kept, panels, symmetric=True)


def trimmed_draft(draft: Draft, budget: float) -> Draft:
    """The draft with C trimmed: see `trimmed_inner`."""
    return replace(draft, inner=trimmed_inner(draft.inner, budget))


def trimmed_inner(inner: InnerMatrix, budget: float) -> InnerMatrix:
    """C with the fewest entries such that the others have a squared norm of at most ``budget``.

    At a price of an entry, each block beside the diagonal ones gets the height and the width of least cost: the price
    of the entries that are stored plus the squared norm of the others. A bisection finds the price.
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


def _row_blocks(inner: InnerMatrix, i: int) -> list[tuple[int, FloatArray]]:
    ends = np.cumsum(np.diff(inner.column_offsets)[inner.kept[i]])[:-1]
    return list(zip(inner.kept[i].tolist(), np.split(inner.row_panel(i), ends, axis=1), strict=True))


def _lost_energies(block: FloatArray, heights: IntArray, widths: IntArray) -> FloatArray:
    """Squared norm of what a block and its mirror image lose, for each number of leading rows and of columns."""
    sums = np.zeros((block.shape[0] + 1, block.shape[1] + 1))
    np.cumsum(np.cumsum(np.square(block), axis=0), axis=1, out=sums[1:, 1:])
    return np.asarray(2 * np.maximum(sums[-1, -1] - sums[np.ix_(heights, widths)], 0))


def _with_extents(inner: InnerMatrix, pairs: IntArray, heights: IntArray, widths: IntArray) -> InnerMatrix:
    """C with the given numbers of leading rows and columns of its blocks; blocks of one height share a panel."""
    panels, ranks = [], np.diff(inner.row_offsets)
    starts = np.searchsorted(pairs[:, 0], np.arange(inner.n_rows + 1))
    for i in range(inner.n_rows):
        own = np.arange(starts[i], starts[i + 1])
        own = own[(heights[own] > 0) & (widths[own] > 0)]
        rank = int(ranks[i])
        for height in np.unique(np.append(heights[own], rank))[::-1].tolist():
            some = own[heights[own] == height]
            columns, extents = pairs[some, 1], widths[some]
            blocks = [inner.block(i, int(j))[:height, :width] for j, width in zip(columns, extents, strict=True)]
            if height == rank:  # the diagonal block is whole
                columns, extents, blocks = np.append(i, columns), np.append(rank, extents), [inner.block(i, i), *blocks]
            panels.append(Panel(i, columns, extents, np.concatenate(blocks, axis=1)))
    return InnerMatrix(inner.row_offsets, inner.column_offsets, tuple(panels), symmetric=True)
