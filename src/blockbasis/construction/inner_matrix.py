"""The inner matrix C of given bases: the blocks that are kept, and how each block is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blockbasis._utils.linalg import semidefinite_part, symmetric
from blockbasis._utils.parallel import map_threads
from blockbasis._utils.tiling import tiles
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.construction.cluster_basis import ClusterBasis
from blockbasis.construction.coordinates import determining_rows, interpolate
from blockbasis.construction.diagonal import fit_core
from blockbasis.construction.method import SampleSizes
from blockbasis.construction.sampling import cluster_energies
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.operators.inner import Cutoff, InnerMatrix, Panel
from blockbasis.partition import Partition

#: Least number of determining rows for each unit of rank where they are most of the points of a cluster.
_LEAST_ROWS = 2
#: Updates of the core and the diagonal part of a cluster, in turn.
_CORE_UPDATES = 20
#: No blocks are dropped where fewer than this share could be: dropped blocks can make C indefinite.
_WORTH_DROPPING = 0.25


# --- pairs of clusters that matter -----------------------------------------------------------------------------------


def related_pairs(
    matrix: KernelMatrix, partition: Partition, budget: float, streams: Sequence[np.random.Generator], n_jobs: int
) -> tuple[NDArray[np.bool_], float]:
    """Mask of the pairs of clusters whose blocks are kept, and the squared error of the others, at most ``budget``.

    The energy of a block is estimated from a few sampled entries and limited by a bound that follows from the distance
    of the clusters. Blocks of least energy are dropped first.
    """
    k = partition.n_clusters
    kept = np.ones((k, k), dtype=bool)
    if budget <= 0 or k < 2:
        return kept, 0.0
    rows = map_threads(
        lambda i: cluster_energies(matrix, partition.cluster(i), partition, streams[i]),
        [(i,) for i in range(k)],
        n_jobs,
        "pairs of clusters",
    )
    mean_squares = np.array(rows)
    energies = np.maximum(mean_squares, mean_squares.T) * np.outer(partition.sizes, partition.sizes)
    i, j = np.triu_indices(k, 1)
    pairs = 2 * np.minimum(energies[i, j], _largest_energies(matrix, partition, i, j))
    order = np.argsort(pairs, kind="stable")
    total = np.cumsum(pairs[order])
    count = int(np.searchsorted(total, budget, side="right"))
    if count < _WORTH_DROPPING * len(order):
        return kept, 0.0
    dropped = order[:count]
    kept[i[dropped], j[dropped]] = kept[j[dropped], i[dropped]] = False
    return kept, float(total[count - 1]) if count else 0.0


def far_pairs(matrix: KernelMatrix, partition: Partition, budget: float) -> tuple[NDArray[np.bool_], float]:
    """Mask of the pairs of clusters that are kept when a bound limits the error of the others, and that bound."""
    k = partition.n_clusters
    kept = np.ones((k, k), dtype=bool)
    if budget <= 0:
        return kept, 0.0
    i, j = np.triu_indices(k, 1)
    energies = 2 * _largest_energies(matrix, partition, i, j)
    order = np.argsort(energies, kind="stable")
    total = np.cumsum(energies[order])
    dropped = order[: int(np.searchsorted(total, budget, side="right"))]
    kept[i[dropped], j[dropped]] = kept[j[dropped], i[dropped]] = False
    return kept, float(total[len(dropped) - 1]) if len(dropped) else 0.0


def _largest_energies(matrix: KernelMatrix, partition: Partition, i: IntArray, j: IntArray) -> FloatArray:
    """Bound of the squared norm of blocks (i, j): the kernel at the least distance that the radii allow."""
    sizes = partition.sizes.astype(np.float64)
    apart = np.linalg.norm(partition.centers[i] - partition.centers[j], axis=1)
    gaps = np.maximum(apart - partition.radii[i] - partition.radii[j], 0)
    return np.asarray(sizes[i] * sizes[j] * matrix.kernel.bound(gaps) ** 2)


# --- blocks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coordinates:
    """Determining rows of a cluster, the pseudo-inverse of the basis on these rows, and the core.

    Parameters
    ----------
    rows : ndarray of shape (m,)
        Indices of points.
    interpolation : ndarray of shape (r, m)
    core : ndarray of shape (r, r)
        C_ii, positive semi-definite where a diagonal part is carried.
    """

    rows: IntArray
    interpolation: FloatArray
    core: FloatArray


def coordinates_of(
    matrix: KernelMatrix, basis: ClusterBasis, sizes: SampleSizes, rng: np.random.Generator, *, diagonal: bool
) -> Coordinates:
    """Determining rows of a basis among its sampled rows, and its core."""
    scale = basis.scale
    n_rows = max(_LEAST_ROWS * basis.rank, round(sizes.inner_share * basis.size))
    chosen = determining_rows(basis.values, min(sizes.inner_rows * basis.rank, n_rows), rng)
    interpolation = interpolate(basis.values * scale, chosen) * scale
    rows = basis.rows[chosen]
    block = symmetric(matrix.block(rows, rows))
    if diagonal and basis.diagonal.any():
        own = matrix.diagonal(basis.cluster)[basis.rows - basis.cluster.start].astype(np.float64)
        most = np.minimum(2 * basis.diagonal, own)  # near the diagonal part that the basis was fitted with
        core, _ = fit_core(block, interpolation, chosen, basis.values, own, basis.diagonal, most, _CORE_UPDATES)
    else:
        core = symmetric(interpolation @ block @ interpolation.T)
    return Coordinates(rows, interpolation, core)


def sampled_inner(
    matrix: KernelMatrix,
    coordinates: Sequence[Coordinates],
    kept: NDArray[np.bool_],
    n_jobs: int,
    known: tuple[InnerMatrix, NDArray[np.bool_]] | None = None,
) -> InnerMatrix:
    """C = P K(I, I) Pᵀ from one set of rows for each cluster: positive semi-definite while all blocks are kept.

    ``known`` is an earlier inner matrix and a mask of the clusters whose coordinates have not changed since.
    """
    k = len(coordinates)

    def panel(i: int) -> tuple[IntArray, FloatArray]:
        columns = np.concatenate(([i], i + 1 + np.flatnonzero(kept[i, i + 1 :]))).astype(np.intp)
        blocks: dict[int, FloatArray] = {i: coordinates[i].core}
        old = columns[1:][known[1][columns[1:]] & known[1][i]] if known is not None else columns[:0]
        new = np.setdiff1d(columns[1:], old, assume_unique=True)
        blocks |= {int(j): known[0].block(i, int(j)) for j in old} if known is not None else {}
        blocks |= dict(zip(new.tolist(), _sampled_blocks(matrix, coordinates, i, new.tolist()), strict=True))
        return columns, np.concatenate([blocks[int(j)] for j in columns], axis=1)

    panels = map_threads(panel, [(i,) for i in range(k)], n_jobs, "inner matrix")
    offsets = np.concatenate(([0], np.cumsum([len(each.core) for each in coordinates]))).astype(np.intp)
    return InnerMatrix.of_whole_blocks(offsets, offsets, [p[0] for p in panels], [p[1] for p in panels], symmetric=True)


def _sampled_blocks(
    matrix: KernelMatrix, coordinates: Sequence[Coordinates], i: int, wanted: Sequence[int]
) -> list[FloatArray]:
    widths = [len(coordinates[j].rows) for j in wanted]
    blocks: list[FloatArray] = []
    for group in strips(widths, len(coordinates[i].rows)):
        members = wanted[group]
        there = np.concatenate([coordinates[j].rows for j in members])
        entries = matrix.block(coordinates[i].rows, there)
        strip = coordinates[i].interpolation.astype(entries.dtype, copy=False) @ entries
        pieces = np.split(strip.astype(np.float64, copy=False), np.cumsum(widths[group])[:-1], axis=1)
        blocks += [piece @ coordinates[j].interpolation.T for j, piece in zip(members, pieces, strict=True)]
    return blocks


def strips(widths: Sequence[int], height: int) -> list[slice]:
    """Groups of consecutive blocks, as slices: a strip of ``height`` rows fits into one tile, or is a single block."""
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


def exact_block(matrix: KernelMatrix, a: slice, U: FloatArray, b: slice, V: FloatArray) -> FloatArray:
    """Uᵀ K_ab V from every entry of K_ab, tile by tile, at a cost quadratic in the number of points."""
    block = np.zeros((U.shape[1], V.shape[1]))
    for tile in tiles(V.shape[0], U.shape[0]):
        there = slice(b.start + tile.start, b.start + tile.stop)
        block += (U.T @ matrix.block(a, there)) @ V[tile]
    return block


def inner_of_blocks(
    row_ranks: Sequence[int], rows: Sequence[dict[int, FloatArray]], column_ranks: Sequence[int] | None = None
) -> InnerMatrix:
    """C from its blocks: those on and above the diagonal for a symmetric C, all of them with ``column_ranks``."""
    offsets = _offsets(row_ranks)
    kept = tuple(np.array(sorted(row), dtype=np.intp) for row in rows)
    panels = tuple(np.concatenate([row[int(j)] for j in own], axis=1) for row, own in zip(rows, kept, strict=True))
    columns = offsets if column_ranks is None else _offsets(column_ranks)
    return InnerMatrix.of_whole_blocks(offsets, columns, kept, panels, symmetric=column_ranks is None)


def _offsets(ranks: Sequence[int]) -> IntArray:
    return np.concatenate(([0], np.cumsum(ranks))).astype(np.intp)


# --- changes of an inner matrix --------------------------------------------------------------------------------------


def truncated_inner(inner: InnerMatrix, ranks: IntArray) -> InnerMatrix:
    """C restricted to the leading ``ranks`` functions of every cluster."""
    panels = tuple(
        np.concatenate([inner.block(i, int(j))[: ranks[i], : ranks[j]] for j in kept], axis=1)
        for i, kept in enumerate(inner.kept)
    )
    offsets = _offsets(ranks.tolist())
    return InnerMatrix.of_whole_blocks(offsets, offsets, inner.kept, panels, symmetric=inner.symmetric)


def transformed_inner(inner: InnerMatrix, factors: Sequence[FloatArray | None]) -> InnerMatrix:
    """R C Rᵀ for R block diagonal with upper triangular blocks; None stands for the identity.

    Upper triangular blocks leave rows and columns zero that follow the leading ones of a trimmed block.
    """

    def transformed(panel: Panel) -> FloatArray:
        parts = np.split(panel.values, np.cumsum(panel.widths)[:-1], axis=1)
        for position, (j, width) in enumerate(zip(panel.columns.tolist(), panel.widths.tolist(), strict=True)):
            if (R := factors[j]) is not None:
                parts[position] = parts[position] @ R[:width, :width].T
        values, R = np.concatenate(parts, axis=1), factors[panel.row]
        return values if R is None else R[: panel.height, : panel.height] @ values

    return inner.with_panels(transformed(panel) for panel in inner.panels)


def drop_small_blocks(inner: InnerMatrix, budget: float, spent: float) -> tuple[InnerMatrix, float]:
    """C without its smallest off-diagonal blocks, and the squared error of all dropped blocks, at most ``budget``."""
    pairs = [(i, int(j)) for i, kept in enumerate(inner.kept) for j in kept[1:]]
    if budget <= 0 or not pairs:
        return inner, spent
    energies = np.array([2 * float((inner.block(i, j) ** 2).sum()) for i, j in pairs])
    order = np.argsort(energies, kind="stable")
    total = spent + np.cumsum(energies[order])
    count = int(np.searchsorted(total, budget, side="right"))
    small = {pairs[position] for position in order[:count]}
    ranks = np.diff(inner.row_offsets).tolist()
    rows = [
        {int(j): inner.block(i, int(j)) for j in kept if (i, int(j)) not in small} for i, kept in enumerate(inner.kept)
    ]
    return inner_of_blocks(ranks, rows), float(total[count - 1]) if count else spent


def cutoff_record(inner: InnerMatrix, spent: float, norm: float) -> Cutoff:
    """Share of the blocks that were dropped, and the relative error that this adds."""
    return Cutoff(1 - inner.density, math.sqrt(spent) / norm if norm else 0.0)


def definite_core(core: FloatArray, *, diagonal: bool) -> FloatArray:
    """A diagonal block made exactly symmetric, and positive semi-definite where a diagonal part is carried."""
    core = symmetric(core)
    return semidefinite_part(core) if diagonal else core
