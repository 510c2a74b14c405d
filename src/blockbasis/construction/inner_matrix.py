"""The inner matrix C of given bases: the blocks that are kept, how each block is computed, and trimmed blocks.

Blocks are trimmed where that saves floats. The effective rank of an off-diagonal block C_ij is small: few functions of
either cluster have nearly all of its energy. A rotation of each basis sorts its functions by their energy in the
off-diagonal blocks. Each block is then stored with its leading rows and columns only. With U orthonormal,
the added squared Frobenius error is the squared norm of the entries that are not stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from blockbasis._utils.linalg import leading_eigenpairs, symmetric
from blockbasis._utils.parallel import map_threads
from blockbasis._utils.tiling import offsets, tiles
from blockbasis.construction.coordinates import determining_rows, row_pseudo_inverse
from blockbasis.construction.diagonal import fit_core
from blockbasis.construction.sampling import cluster_energies
from blockbasis.construction.semidefinite import semidefinite_inner
from blockbasis.operators.inner import InnerMatrix, Panel

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.construction.cluster_basis import ClusterBasis
    from blockbasis.construction.method import SampleSizes
    from blockbasis.kernels.evaluator import KernelMatrix
    from blockbasis.operators.block_basis import BlockBasis
    from blockbasis.partition import Partition

#: Least number of determining rows for each unit of rank where they are most of the points of a cluster.
_MIN_ROWS_PER_RANK = 2
#: Largest number of updates of the core and the diagonal part of a cluster, in turn.
_CORE_UPDATES = 20
#: No blocks are dropped where fewer than this share could be: dropped blocks can make C indefinite.
_WORTH_DROPPING = 0.25
#: Numbers of leading functions among which the height and the width of a block are chosen, as shares of the rank. Each
#: height in use costs a panel: few heights keep products fast.
_SHARES = (0.0, 0.12, 0.18, 0.27, 0.42, 0.65, 1.0)
#: Share of the blocks of C from which on C counts as dense: it is trimmed only where it has most of the floats.
SPARSE = 0.9
#: Shares of the entries of C that are in kept blocks, and the expected shares of these entries that are stored: 0.2 to
#: 0.45 were measured for small shares, 0.45 to 0.75 for two thirds, and 0.5 to 0.9 for nearly all entries.
_KEPT_SHARES = (0.3, 0.6, SPARSE, 0.95)
_STORED_SHARES = (0.4, 0.55, 0.75, 1.0)
#: Bisection steps for the price of a stored entry.
_HALVINGS = 40


# --- pairs of clusters whose blocks are kept -------------------------------------------------------------------------


def smallest_within(energies: FloatArray, budget: float, spent: float = 0.0) -> tuple[IntArray, float]:
    """Indices of the smallest energies whose sum, added to ``spent``, is within a budget; and this sum."""
    order = np.argsort(energies, kind="stable")
    total = spent + np.cumsum(energies[order])
    count = int(np.searchsorted(total, budget, side="right"))
    return order[:count], float(total[count - 1]) if count else spent


def related_pairs(
    matrix: KernelMatrix, partition: Partition, budget: float, streams: Sequence[np.random.Generator], n_jobs: int
) -> tuple[NDArray[np.bool_], float]:
    """Mask of the pairs of clusters whose blocks are kept, and the squared error of the others, at most ``budget``.

    The energy of a block is estimated from a few sampled entries, and bounded by the distance of the clusters. Blocks
    of least energy are dropped first.
    """
    k = partition.n_clusters
    kept = np.ones((k, k), dtype=bool)
    if budget <= 0 or k < 2:
        return kept, 0.0
    mean_squares = np.array(
        map_threads(
            lambda i: cluster_energies(matrix, partition.cluster(i), partition, streams[i]),
            [(i,) for i in range(k)],
            n_jobs,
            "pairs of clusters",
        )
    )
    energies = np.maximum(mean_squares, mean_squares.T) * np.outer(partition.sizes, partition.sizes)
    i, j = np.triu_indices(k, 1)
    pair_energies = 2 * np.minimum(energies[i, j], _energy_bounds(matrix, partition, i, j))
    dropped, spent = smallest_within(pair_energies, budget)
    if len(dropped) < _WORTH_DROPPING * len(i):
        return kept, 0.0
    kept[i[dropped], j[dropped]] = kept[j[dropped], i[dropped]] = False
    return kept, spent


def near_pairs(matrix: KernelMatrix, partition: Partition, budget: float) -> tuple[NDArray[np.bool_], float]:
    """Mask of the pairs of clusters that are kept when a bound limits the error of the others, and that bound."""
    k = partition.n_clusters
    kept = np.ones((k, k), dtype=bool)
    if budget <= 0:
        return kept, 0.0
    i, j = np.triu_indices(k, 1)
    dropped, spent = smallest_within(2 * _energy_bounds(matrix, partition, i, j), budget)
    kept[i[dropped], j[dropped]] = kept[j[dropped], i[dropped]] = False
    return kept, spent


def _energy_bounds(matrix: KernelMatrix, partition: Partition, i: IntArray, j: IntArray) -> FloatArray:
    """Bound of the squared norm of blocks (i, j): the kernel at the least distance that the radii allow."""
    sizes = partition.sizes.astype(np.float64)
    center_distances = np.linalg.norm(partition.centers[i] - partition.centers[j], axis=1)
    distances = np.maximum(center_distances - partition.radii[i] - partition.radii[j], 0)
    return np.asarray(sizes[i] * sizes[j] * matrix.kernel.bound(distances) ** 2)


def drop_small_blocks(inner: InnerMatrix, budget: float, spent: float) -> tuple[InnerMatrix, float]:
    """C without its smallest off-diagonal blocks, and the squared error of all dropped blocks, at most ``budget``."""
    pairs = [(i, int(j)) for i, kept in enumerate(inner.kept) for j in kept[1:]]
    if budget <= 0 or not pairs:
        return inner, spent
    energies = np.array([2 * float((inner.block(i, j) ** 2).sum()) for i, j in pairs])
    small, spent = smallest_within(energies, budget, spent)
    dropped = {pairs[position] for position in small}
    rows = [
        {int(j): inner.block(i, int(j)) for j in kept if (i, int(j)) not in dropped}
        for i, kept in enumerate(inner.kept)
    ]
    return inner_of_blocks(np.diff(inner.row_offsets).tolist(), rows), spent


# --- blocks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coordinates:
    """Determining rows of a cluster, the pseudo-inverse of the basis on these rows, and the core.

    Parameters
    ----------
    rows : ndarray of shape (m,)
        Indices of points.
    pseudo_inverse : ndarray of shape (r, m)
    core : ndarray of shape (r, r)
        C_ii, positive semi-definite where a diagonal part is carried.
    """

    rows: IntArray
    pseudo_inverse: FloatArray
    core: FloatArray


def coordinates_of(
    matrix: KernelMatrix, basis: ClusterBasis, sizes: SampleSizes, rng: np.random.Generator
) -> Coordinates:
    """Determining rows of a basis among its sampled rows, and its core."""
    scale = basis.scale
    limit = max(_MIN_ROWS_PER_RANK * basis.rank, round(sizes.max_inner_share * basis.size))
    determining = determining_rows(basis.values, min(sizes.inner_rows * basis.rank, limit), rng)
    pseudo_inverse = row_pseudo_inverse(basis.values * scale, determining) * scale
    rows = basis.rows[determining]
    block = symmetric(matrix.block(rows, rows))
    if not basis.diagonal.any():
        return Coordinates(rows, pseudo_inverse, symmetric(pseudo_inverse @ block @ pseudo_inverse.T))
    kernel_diagonal = matrix.diagonal(basis.cluster)[basis.rows - basis.cluster.start].astype(np.float64)
    bound = np.minimum(2 * basis.diagonal, kernel_diagonal)  # near the diagonal part that the basis was fitted with
    core, _ = fit_core(
        block, pseudo_inverse, determining, basis.values, kernel_diagonal, basis.diagonal, bound, _CORE_UPDATES
    )
    return Coordinates(rows, pseudo_inverse, core)


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

    def row_blocks(i: int) -> dict[int, FloatArray]:
        blocks: dict[int, FloatArray] = {i: coordinates[i].core}
        columns = i + 1 + np.flatnonzero(kept[i, i + 1 :])
        if known is not None and known[1][i]:
            blocks |= {int(j): known[0].block(i, int(j)) for j in columns[known[1][columns]]}
        missing = [j for j in columns.tolist() if j not in blocks]
        return blocks | dict(zip(missing, _sampled_blocks(matrix, coordinates, i, missing), strict=True))

    counter = matrix.counter if known is None else None  # known blocks stay in this process
    rows = map_threads(row_blocks, [(i,) for i in range(len(coordinates))], n_jobs, "inner matrix", counter)
    return inner_of_blocks([len(each.core) for each in coordinates], rows)


def _sampled_blocks(
    matrix: KernelMatrix, coordinates: Sequence[Coordinates], i: int, columns: Sequence[int]
) -> list[FloatArray]:
    """Blocks (i, j) of C for the given j, evaluated in strips of several blocks."""
    widths = [len(coordinates[j].rows) for j in columns]
    blocks: list[FloatArray] = []
    for strip in strips(widths, len(coordinates[i].rows)):
        members = columns[strip]
        entries = matrix.block(coordinates[i].rows, np.concatenate([coordinates[j].rows for j in members]))
        product = coordinates[i].pseudo_inverse.astype(entries.dtype, copy=False) @ entries
        pieces = np.split(product.astype(np.float64, copy=False), np.cumsum(widths[strip])[:-1], axis=1)
        blocks += [piece @ coordinates[j].pseudo_inverse.T for j, piece in zip(members, pieces, strict=True)]
    return blocks


def strips(widths: Sequence[int], height: int) -> list[slice]:
    """Groups of consecutive blocks, as slices: a strip of ``height`` rows fits into one tile, or is a single block."""
    limit = max((tile.stop - tile.start for tile in tiles(sum(widths), height)), default=0)
    groups, start, total = [], 0, 0
    for position, width in enumerate(widths):
        if total and total + width > limit:
            groups.append(slice(start, position))
            start, total = position, 0
        total += width
    return [*groups, slice(start, len(widths))] if total else groups


def exact_block(matrix: KernelMatrix, a: slice, U: FloatArray, b: slice, V: FloatArray) -> FloatArray:
    """Uᵀ K_ab V from every entry of K_ab, tile by tile, at a cost quadratic in the number of points."""
    block = np.zeros((U.shape[1], V.shape[1]))
    for tile in tiles(V.shape[0], U.shape[0]):
        block += (U.T @ matrix.block(a, slice(b.start + tile.start, b.start + tile.stop))) @ V[tile]
    return block


def with_exact_inner(matrix: KernelMatrix, A: BlockBasis) -> BlockBasis:
    """The factorization with the same bases and C = Uᵀ (K - D) U, computed from every entry of K."""
    partition, blocks = A.partition, A.bases
    D = None if A.diagonal_part is None else A.diagonal_part[partition.order].astype(np.float64)
    rows = []
    for i, U in enumerate(blocks):
        cluster = partition.cluster(i)
        row = {j: exact_block(matrix, cluster, U, partition.cluster(j), blocks[j]) for j in range(i, len(blocks))}
        if D is not None:
            row[i] = row[i] - (U * D[cluster, np.newaxis]).T @ U
        row[i] = symmetric(row[i])
        rows.append(row)
    inner = semidefinite_inner(inner_of_blocks(A.ranks.tolist(), rows), float(np.finfo(matrix.dtype).eps))
    return replace(A, inner=inner.astype(matrix.dtype))


def inner_of_blocks(
    row_ranks: Sequence[int], rows: Sequence[dict[int, FloatArray]], column_ranks: Sequence[int] | None = None
) -> InnerMatrix:
    """C from its blocks: those on and above the diagonal for a symmetric C, all of them with ``column_ranks``."""
    row_offsets = offsets(row_ranks)
    kept = tuple(np.array(sorted(row), dtype=np.intp) for row in rows)
    panels = tuple(np.concatenate([row[int(j)] for j in own], axis=1) for row, own in zip(rows, kept, strict=True))
    column_offsets = row_offsets if column_ranks is None else offsets(column_ranks)
    return InnerMatrix.of_whole_blocks(row_offsets, column_offsets, kept, panels, symmetric=column_ranks is None)


# --- changes of basis ------------------------------------------------------------------------------------------------


def truncated_inner(inner: InnerMatrix, ranks: IntArray) -> InnerMatrix:
    """C restricted to the leading ``ranks`` functions of every cluster."""
    rows = [{int(j): inner.block(i, int(j))[: ranks[i], : ranks[j]] for j in kept} for i, kept in enumerate(inner.kept)]
    return inner_of_blocks(ranks.tolist(), rows)


def transformed_inner(inner: InnerMatrix, factors: Sequence[FloatArray | None]) -> InnerMatrix:
    """R C Rᵀ for a block diagonal R with the given blocks; None stands for the identity.

    Upper triangular blocks preserve the zero rows and columns of a trimmed block.
    """

    def transformed(panel: Panel) -> FloatArray:
        blocks = np.split(panel.values, np.cumsum(panel.widths)[:-1], axis=1)
        for position, (j, width) in enumerate(zip(panel.columns.tolist(), panel.widths.tolist(), strict=True)):
            if (R := factors[j]) is not None:
                blocks[position] = blocks[position] @ R[:width, :width].T
        values, R = np.concatenate(blocks, axis=1), factors[panel.row]
        return values if R is None else R[: panel.height, : panel.height] @ values

    return inner.with_panels(transformed(panel) for panel in inner.panels)


# --- trimmed blocks --------------------------------------------------------------------------------------------------


def expected_share(density: float) -> float:
    """Expected share of the entries of kept blocks that is stored, where these blocks have `density` of all entries."""
    return float(np.interp(density, _KEPT_SHARES, _STORED_SHARES))


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
