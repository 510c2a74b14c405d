"""Bases into the inner matrix C: which of its blocks are kept, and how each is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from blockbasis._linalg import semidefinite_part
from blockbasis._parallel import map_threads
from blockbasis._typing import FloatArray, IntArray
from blockbasis.basis import ClusterBasis
from blockbasis.coordinates import interpolate
from blockbasis.kernels import RadialKernel
from blockbasis.matrix import KernelMatrix, tiles
from blockbasis.operators.inner import Cutoff as Cutoff
from blockbasis.operators.inner import InnerMatrix as InnerMatrix
from blockbasis.partition import Partition

# --- the three ways to compute a block -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sides:
    """What the blocks of C lie between: clusters and bases of the rows, and of the columns."""

    matrix: KernelMatrix
    row_clusters: tuple[slice, ...]
    row_bases: Sequence[ClusterBasis]
    column_clusters: tuple[slice, ...]
    column_bases: Sequence[ClusterBasis]


def sampled_blocks(sides: Sides, i: int, wanted: Sequence[int], rng: np.random.Generator) -> list[FloatArray]:
    """Blocks (i, j) from one set of rows per cluster, so that C = P K(I, I) Pᵀ is positive semi-definite."""
    at = sides.row_clusters[i].start + sides.row_bases[i].rows
    widths = [len(sides.column_bases[j].rows) for j in wanted]
    blocks = []
    for group in groups(widths, len(at)):
        members = wanted[group]
        there = np.concatenate([sides.column_clusters[j].start + sides.column_bases[j].rows for j in members])
        strip = sides.row_bases[i].interpolation @ sides.matrix.block(at, there).astype(np.float64)
        pieces = np.split(strip, np.cumsum(widths[group])[:-1], axis=1)
        blocks += [piece @ sides.column_bases[j].interpolation.T for j, piece in zip(members, pieces, strict=True)]
    return blocks


def exact_blocks(sides: Sides, i: int, wanted: Sequence[int], rng: np.random.Generator) -> list[FloatArray]:
    """Blocks U_iᵀ K_ij U_j from every entry of K_ij: quadratic in the number of points."""
    U = sides.row_bases[i].vectors
    blocks = []
    for j in wanted:
        V, start = sides.column_bases[j].vectors, sides.column_clusters[j].start
        block = np.zeros((U.shape[1], V.shape[1]))
        for tile in tiles(V.shape[0], U.shape[0]):
            there = slice(start + tile.start, start + tile.stop)
            block += (U.T @ sides.matrix.block(sides.row_clusters[i], there)) @ V[tile]
        blocks.append(block)
    return blocks


def pairwise_blocks(sides: Sides, i: int, wanted: Sequence[int], rng: np.random.Generator) -> list[FloatArray]:
    """Blocks (i, j) of Algorithm 5: important rows and fresh uniform ones, drawn for each pair anew."""
    blocks = []
    for j in wanted:
        rows = _with_uniform_rows(sides.row_bases[i], rng)
        same = sides.matrix.symmetric and i == j
        there = rows if same else _with_uniform_rows(sides.column_bases[j], rng)
        at = sides.row_clusters[i].start + rows, sides.column_clusters[j].start + there
        left = interpolate(sides.row_bases[i].vectors, rows)
        right = left if same else interpolate(sides.column_bases[j].vectors, there)
        blocks.append(left @ sides.matrix.double.block(*at) @ right.T)
    return blocks


_BLOCKS = {"sampled": sampled_blocks, "exact": exact_blocks, "pairwise": pairwise_blocks}


def _with_uniform_rows(basis: ClusterBasis, rng: np.random.Generator) -> IntArray:
    height, rank = basis.vectors.shape
    return np.union1d(basis.rows, rng.choice(height, min(rank, height), replace=False))


def groups(widths: Sequence[int], height: int) -> list[slice]:
    """Consecutive blocks whose strip of ``height`` rows stays within one tile (or is a single block)."""
    limit = max((tile.stop - tile.start for tile in tiles(sum(widths), height)), default=0)
    found, start, width = [], 0, 0
    for position, own in enumerate(widths):
        if width and width + own > limit:
            found.append(slice(start, position))
            start, width = position, 0
        width += own
    if width:
        found.append(slice(start, len(widths)))
    return found


@dataclass(frozen=True)
class Known:
    """An inner matrix computed before, and the clusters whose bases are still the same."""

    inner: InnerMatrix
    same: npt.NDArray[np.bool_]

    def of(self, i: int, wanted: IntArray) -> IntArray:
        """Those of the wanted blocks (i, j) that need not be computed again."""
        if not self.same[i]:
            return wanted[:0]
        return wanted[self.same[wanted] & np.isin(wanted, self.inner.kept[i])]


# --- the whole inner matrix ------------------------------------------------------------------------------------------


def symmetric_inner(
    matrix: KernelMatrix,
    partition: Partition,
    bases: Sequence[ClusterBasis],
    *,
    method: str,
    diagonal: bool,
    cutoff: float | None,
    streams: Sequence[np.random.Generator],
    n_jobs: int,
    known: Known | None = None,
) -> tuple[InnerMatrix, Cutoff | None]:
    """Inner matrix of a symmetric factorization.

    Parameters
    ----------
    method : {"sampled", "pairwise", "exact"}
    diagonal : bool
        Whether the operator carries the bases' diagonal beside U C Uᵀ; otherwise C takes in what U can hold of it.
    cutoff : float or None
        Relative Frobenius error that cut-off blocks may add.
    known : Known, default=None
        Blocks of an earlier inner matrix that are taken over.
    """
    k = partition.n_clusters
    clusters = partition.clusters
    sides = Sides(matrix, clusters, bases, clusters, bases)
    own = [_own_block(sides, i, method, diagonal, streams[i]) for i in range(k)]
    norm = math.sqrt(sum(float((block**2).sum()) for block in own) + diagonal * _diagonal_energy(bases))
    budget = 0.0 if cutoff is None else (cutoff * norm) ** 2
    far, spent = _far_pairs(matrix, partition, budget)

    def others(i: int) -> tuple[IntArray, list[FloatArray]]:
        wanted = np.arange(i + 1, k)[~far[i, i + 1 :]]
        old = wanted[:0] if known is None else known.of(i, wanted)
        new = np.setdiff1d(wanted, old, assume_unique=True)
        blocks = dict(zip(new.tolist(), _BLOCKS[method](sides, i, new.tolist(), streams[i]), strict=True))
        if known is not None:
            blocks |= {j: known.inner.block(i, j) for j in old.tolist()}
        return wanted, [blocks[j] for j in wanted.tolist()]

    rows = map_threads(others, [(i,) for i in range(k)], n_jobs, "inner matrix")
    rows, spent = _drop_small(rows, budget, spent)
    kept = tuple(np.concatenate(([i], wanted)).astype(np.intp) for i, (wanted, _) in enumerate(rows))
    panels = tuple(np.concatenate([own[i], *blocks], axis=1) for i, (_, blocks) in enumerate(rows))
    offsets = _offsets(bases)
    inner = InnerMatrix(offsets, offsets, kept, panels, symmetric=True)
    if cutoff is None:
        return inner, None
    return inner, Cutoff(1 - inner.density, math.sqrt(spent) / norm if norm else 0.0)


def cross_inner(
    matrix: KernelMatrix,
    row_partition: Partition,
    column_partition: Partition,
    row_bases: Sequence[ClusterBasis],
    column_bases: Sequence[ClusterBasis],
    *,
    method: str,
    streams: Sequence[np.random.Generator],
    n_jobs: int,
) -> InnerMatrix:
    """Inner matrix of K(Y, X) ~ U C Vᵀ, every block kept."""
    sides = Sides(matrix, row_partition.clusters, row_bases, column_partition.clusters, column_bases)
    every = np.arange(column_partition.n_clusters)

    def panel(i: int) -> FloatArray:
        return np.concatenate(_BLOCKS[method](sides, i, every.tolist(), streams[i]), axis=1)

    panels = map_threads(panel, [(i,) for i in range(row_partition.n_clusters)], n_jobs, "inner matrix")
    return InnerMatrix(_offsets(row_bases), _offsets(column_bases), (every,) * len(panels), tuple(panels), False)


def _diagonal_energy(bases: Sequence[ClusterBasis]) -> float:
    return sum(float((basis.diagonal**2).sum()) for basis in bases)


def _offsets(bases: Sequence[ClusterBasis]) -> IntArray:
    return np.concatenate(([0], np.cumsum([basis.vectors.shape[1] for basis in bases]))).astype(np.intp)


def _own_block(sides: Sides, i: int, method: str, diagonal: bool, rng: np.random.Generator) -> FloatArray:
    """Diagonal block C_ii, for K less the diagonal part where that is carried apart."""
    basis = sides.row_bases[i]
    if method == "sampled":
        block = basis.core if diagonal or not basis.diagonal.any() else basis.core + _projected_diagonal(basis)
    else:
        (block,) = _BLOCKS[method](sides, i, [i], rng)
        if diagonal:
            block = block - _projected_diagonal(basis)
    block = (block + block.T) / 2
    return semidefinite_part(block) if diagonal else block  # the diagonal was settled beside the definite part


def _projected_diagonal(basis: ClusterBasis) -> FloatArray:
    weighted = basis.vectors * basis.diagonal[:, np.newaxis]
    return np.asarray(basis.vectors.T.astype(np.float64) @ weighted)


# --- cutoff ----------------------------------------------------------------------------------------------------------


def _far_pairs(matrix: KernelMatrix, partition: Partition, budget: float) -> tuple[np.ndarray, float]:
    """Pairs of clusters so far apart that their blocks need no evaluation, and the energy given up with them.

    A decreasing profile bounds every entry of block (i, j) by f at the least distance that centres and radii allow.
    """
    k = partition.n_clusters
    far = np.zeros((k, k), dtype=bool)
    if budget == 0 or not isinstance(matrix.kernel, RadialKernel):
        return far, 0.0
    i, j = np.triu_indices(k, 1)
    gaps = np.linalg.norm(partition.centers[i] - partition.centers[j], axis=1) - partition.radii[i] - partition.radii[j]
    bounds = matrix.kernel.profile(np.maximum(gaps, 0) ** 2)
    energies = 2.0 * partition.sizes[i] * partition.sizes[j] * bounds**2
    order = np.argsort(energies, kind="stable")
    total = np.cumsum(energies[order])
    dropped = order[: int(np.searchsorted(total, budget, side="right"))]
    far[i[dropped], j[dropped]] = True
    return far, float(total[len(dropped) - 1]) if len(dropped) else 0.0


def _drop_small(
    rows: list[tuple[IntArray, list[FloatArray]]], budget: float, spent: float
) -> tuple[list[tuple[IntArray, list[FloatArray]]], float]:
    """Drop computed off-diagonal blocks, smallest norm first, while the energy given up stays in the budget."""
    if budget == 0:
        return rows, spent
    energies = np.array([2 * float((block**2).sum()) for _, blocks in rows for block in blocks])
    order = np.argsort(energies, kind="stable")
    total = spent + np.cumsum(energies[order])
    count = int(np.searchsorted(total, budget, side="right"))
    keep = np.ones(len(energies), dtype=bool)
    keep[order[:count]] = False
    result, position = [], 0
    for wanted, blocks in rows:
        mask = keep[position : position + len(blocks)]
        position += len(blocks)
        result.append((wanted[mask], [block for block, kept in zip(blocks, mask, strict=True) if kept]))
    return result, float(total[count - 1]) if count else spent
