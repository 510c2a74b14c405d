"""Skyline (envelope) Cholesky factorization of I + S for a block-sparse S.

The blocks are sorted in the reverse Cuthill-McKee order of their graph, which makes the envelope narrow. Consecutive
blocks are joined into steps of at least 128 columns, so that the factorization consists of products of large dense
matrices. The factor L has fill-in only inside the envelope: row i is stored from its first nonzero block up to the
diagonal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg
from scipy.sparse.csgraph import reverse_cuthill_mckee

from blockbasis.solvers.shifted import check_conditioning

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.operators.inner import InnerMatrix

#: Smallest number of columns of a step: enough for fast matrix products, and few compared with the envelope.
_STEP = 128
#: Number of columns below which a dense factorization is faster.
_DENSE_COLUMNS = 512
#: Work inside the envelope, relative to a dense factorization, from which a dense factorization is faster.
_DENSE_WORK = 0.5


@dataclass(frozen=True, eq=False)
class Envelope:
    """Envelope of a block matrix, in steps of consecutive columns.

    Parameters
    ----------
    order : ndarray of shape (k,)
        Clusters in the order of the factorization.
    columns : ndarray of shape (R,)
        Columns of S in the same order.
    offsets : ndarray of shape (n_steps + 1,)
        First column of each step, and R.
    first : ndarray of shape (n_steps,)
        First step in the envelope of each step.
    """

    order: IntArray
    columns: IntArray
    offsets: IntArray
    first: IntArray

    @property
    def work(self) -> float:
        """Approximate number of multiplications of the factorization."""
        heights, widths = np.diff(self.offsets), self.offsets[1:] - self.offsets[self.first]
        return float((heights * widths.astype(np.float64) ** 2).sum()) / 2

    @property
    def is_faster_than_dense(self) -> bool:
        """Whether the factorization inside the envelope is faster than a dense factorization."""
        size = len(self.columns)
        return size >= _DENSE_COLUMNS and self.work < _DENSE_WORK * size**3 / 6

    def step(self, i: int) -> slice:
        """Return the columns of step ``i``."""
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))

    def row(self, i: int) -> slice:
        """Return the columns of the envelope of step ``i`` before the step itself."""
        return slice(int(self.offsets[self.first[i]]), int(self.offsets[i]))


def envelope(inner: InnerMatrix) -> Envelope:
    """Return the envelope of a symmetric matrix in the reverse Cuthill-McKee order of its blocks."""
    graph = inner.graph()
    graph = (graph + graph.T).tocsr()
    order = np.asarray(reverse_cuthill_mckee(graph, symmetric_mode=True), dtype=np.intp)
    ranks = np.diff(inner.row_offsets)[order]
    ends = np.cumsum(ranks)
    step_of = _steps(ranks)
    last = np.flatnonzero(np.diff(step_of, append=-1))
    offsets = np.concatenate(([0], ends[last])).astype(np.intp)
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    entries = graph.tocoo()
    row, column = step_of[place[entries.coords[0]]], step_of[place[entries.coords[1]]]
    first = np.arange(len(last))
    np.minimum.at(first, row, column)
    starts = inner.row_offsets[order]
    columns = np.concatenate([np.arange(a, a + r) for a, r in zip(starts.tolist(), ranks.tolist(), strict=True)])
    return Envelope(order, columns, offsets, first)


def _steps(ranks: IntArray) -> IntArray:
    """Return the step of each block: consecutive blocks are joined until a step has at least `_STEP` columns."""
    steps, width, step = [], 0, 0
    for rank in ranks.tolist():
        if width >= _STEP:
            step, width = step + 1, 0
        steps.append(step)
        width += rank
    return np.array(steps, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class SkylineFactorization:
    """Cholesky factorization I + S = L Lᵀ inside an envelope.

    Parameters
    ----------
    envelope : Envelope
        Envelope of S.
    rows : tuple of arrays
        Rows of L of each step, from the start of the envelope up to the diagonal block.
    diagonals : tuple of arrays
        Lower triangular diagonal blocks of L.
    """

    envelope: Envelope
    rows: tuple[FloatArray, ...]
    diagonals: tuple[FloatArray, ...]

    def solve(self, W: FloatArray) -> FloatArray:
        """Return (I + S)^-1 W."""
        shape = self.envelope
        Z = W[shape.columns].astype(np.float64)
        steps = range(len(self.rows))
        for i in steps:
            own = Z[shape.step(i)]
            own -= self.rows[i] @ Z[shape.row(i)]
            own[...] = _lower_solve(self.diagonals[i], own)
        for i in reversed(steps):
            own = Z[shape.step(i)]
            own[...] = _lower_solve(self.diagonals[i], own, transposed=True)
            Z[shape.row(i)] -= self.rows[i].T @ own
        result = np.empty_like(Z)
        result[shape.columns] = Z
        return result

    def logdet(self) -> float:
        """Return log det(I + S)."""
        return 2 * sum(float(np.log(np.diagonal(L)).sum()) for L in self.diagonals)

    def inverse_blocks(self, blocks: list[slice]) -> Iterator[FloatArray]:
        """Yield the diagonal blocks of (I + S)^-1 of clusters, given by their ranges of columns."""
        shape = self.envelope
        place = np.empty(len(shape.columns), dtype=np.intp)
        place[shape.columns] = np.arange(len(place))
        for block in blocks:
            start = int(place[block.start]) if block.stop > block.start else 0
            i = int(np.searchsorted(shape.offsets, start, side="right")) - 1
            own = slice(start - int(shape.offsets[i]), start - int(shape.offsets[i]) + block.stop - block.start)
            yield self._inverse[i][own, own]

    @cached_property
    def _inverse(self) -> tuple[FloatArray, ...]:
        """Diagonal blocks of Z = (I + S)^-1, one for each step, by Takahashi's equations.

        Z_Sj = -Z_SS L_Sj L_jj^-1 and Z_jj = (L_jj L_jjᵀ)^-1 - Z_jS L_Sj L_jj^-1, where S are the steps after j whose
        envelope includes step j. The equations are solved from the last step to the first. Z_SS lies inside the
        envelope, so that only the part of Z inside the envelope is stored.
        """
        shape, count = self.envelope, len(self.rows)
        below: list[FloatArray] = [np.empty_like(row) for row in self.rows]
        own: list[FloatArray] = [np.empty((0, 0))] * count
        for j in reversed(range(count)):
            identity = np.eye(len(self.diagonals[j]))
            inverse = _lower_solve(self.diagonals[j], identity)
            reaching = [i for i in range(j + 1, count) if shape.first[i] <= j]
            own[j] = inverse.T @ inverse
            if not reaching:
                continue
            factor = np.concatenate([self._part(self.rows, i, j) for i in reaching]) @ inverse
            Z = self._between(below, own, reaching)
            column = -(Z @ factor)
            own[j] -= column.T @ factor
            ends = np.cumsum([len(self.diagonals[i]) for i in reaching])
            for i, part in zip(reaching, np.split(column, ends[:-1]), strict=True):
                self._part(below, i, j)[...] = part
        return tuple(own)

    def _part(self, rows: list[FloatArray] | tuple[FloatArray, ...], i: int, j: int) -> FloatArray:
        """Return a view of block (i, j), j < i, of a matrix that is stored as rows of the envelope."""
        start = self.envelope.row(i).start
        own = self.envelope.step(j)
        return rows[i][:, own.start - start : own.stop - start]

    def _between(self, below: list[FloatArray], own: list[FloatArray], steps: list[int]) -> FloatArray:
        """Return the submatrix of the inverse for steps that lie in each other's envelopes."""
        ends = np.cumsum([len(own[i]) for i in steps]).tolist()
        Z = np.empty((ends[-1], ends[-1]))
        places = [slice(end - len(own[i]), end) for i, end in zip(steps, ends, strict=True)]
        for at, i in zip(places, steps, strict=True):
            Z[at, at] = own[i]
            for before, j in zip(places, steps, strict=True):
                if j < i:
                    part = self._part(below, i, j)
                    Z[at, before], Z[before, at] = part, part.T
        return Z


def skyline_factorization(
    inner: InnerMatrix, triangles: tuple[FloatArray, ...], shape: Envelope
) -> SkylineFactorization | None:
    """Return the Cholesky factorization of I + R C Rᵀ inside an envelope; None if it is not positive definite.

    Parameters
    ----------
    inner : InnerMatrix
        Symmetric matrix C.
    triangles : tuple of arrays
        Triangular factor R_i of each cluster.
    shape : Envelope
        Envelope of C.
    """
    rows, diagonals = _assembled(inner, triangles, shape)
    check_conditioning(max(float(np.diagonal(block).max(initial=0.0)) for block in diagonals))
    for i, (row, own) in enumerate(zip(rows, diagonals, strict=True)):
        start = shape.row(i).start
        for j in range(int(shape.first[i]), i):
            at = slice(shape.step(j).start - start, shape.step(j).stop - start)
            common = max(start, shape.row(j).start)
            done = row[:, common - start : at.start] @ rows[j][:, common - shape.row(j).start :].T
            row[:, at] = _lower_solve(diagonals[j], (row[:, at] - done).T).T
        own -= row @ row.T
        own[np.diag_indices_from(own)] += 1
        try:
            diagonals[i] = np.asarray(linalg.cholesky(own, lower=True, check_finite=False))
        except linalg.LinAlgError:
            return None
    return SkylineFactorization(shape, tuple(rows), tuple(diagonals))


def _assembled(
    inner: InnerMatrix, triangles: tuple[FloatArray, ...], shape: Envelope
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Return R C Rᵀ by rows of the envelope: the parts before the diagonal blocks, and the diagonal blocks."""
    count = len(shape.first)
    rows = [np.zeros((int(np.diff(shape.offsets)[i]), shape.row(i).stop - shape.row(i).start)) for i in range(count)]
    diagonals = [np.zeros((len(row), len(row))) for row in rows]
    ranks = np.diff(inner.row_offsets)
    place = np.empty(len(ranks), dtype=np.intp)
    place[shape.order] = np.cumsum(ranks[shape.order]) - ranks[shape.order]
    step_of = np.searchsorted(shape.offsets, place, side="right") - 1
    for i, kept in enumerate(inner.kept):
        scaled = triangles[i] @ inner.row_panel(i)
        ends = np.cumsum(ranks[kept]).tolist()
        for j, end in zip(kept.tolist(), ends, strict=True):
            block = scaled[:, end - int(ranks[j]) : end] @ triangles[j].T
            a, b = (i, j) if place[i] >= place[j] else (j, i)
            block = block if a == i else block.T
            at = int(place[a] - shape.offsets[step_of[a]])
            if step_of[a] == step_of[b]:
                target, there = diagonals[step_of[a]], int(place[b] - shape.offsets[step_of[a]])
                target[there : there + block.shape[1], at : at + block.shape[0]] = block.T
            else:
                target, there = rows[step_of[a]], int(place[b]) - shape.row(int(step_of[a])).start
            target[at : at + block.shape[0], there : there + block.shape[1]] = block
    return rows, diagonals


def _lower_solve(L: FloatArray, B: FloatArray, *, transposed: bool = False) -> FloatArray:
    return np.asarray(linalg.solve_triangular(L, B, lower=True, trans=int(transposed), check_finite=False))
