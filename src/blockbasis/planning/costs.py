"""The cost of a factorization, from the sizes and ranks of its clusters and the share of the blocks of C kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.construction.method import ACCURATE, KEPT_ENTRIES, SampleSizes
from blockbasis.kernels.evaluator import KernelMatrix
from blockbasis.planning.goal import n_checked

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.partition import Partition

#: Side of the block and of the product whose times give the rates, and number of trials.
_TIMED_SIZE = 256
_TRIALS = 3
#: Side of a block whose time is that of the call: its entries take no time.
_CALL_SIZE = 4
#: Speed of factorizations and small products, as a share of the speed of a large product.
_EFFICIENCY = 0.4
#: Operations for each entry of a sampled block and each direction: three products, two of them orthonormalised.
_PASSES = 8.0
#: Operations that take about as long as one kernel entry. Not measured: choices must not depend on the machine.
_OPERATIONS_PER_ENTRY = 200.0
#: Calls of NumPy functions, for the whole construction and for each cluster, each as long as that of a small block.
_CALLS = 1_500
_CALLS_PER_CLUSTER = 150
#: Cholesky factorizations of C in float64 that take as long as the removal of negative eigenvalues.
_REPAIR_FACTORIZATIONS = 5.0
#: Arrays of the size of a sampled block that a thread has all the time, the entries and a scaled copy, and bytes of an
#: entry for the parts that are float64: distances or a factorization.
_BLOCK_COPIES = 2
_PART_BYTES = 4
#: Dense copies of C while C is tested for negative eigenvalues, and while the eigenvalues are removed.
_DENSE_COPIES = 2.0
_REPAIR_COPIES = 2.5
#: Bytes of a file beside its arrays.
_FILE_BYTES = 8_192
#: No warning is given below this many floats.
_FEW_FLOATS = 10**5


def dense_floats(n: int) -> int:
    """Floats of the dense matrix, with each pair of symmetric entries counted once, as in C."""
    return n * (n + 1) // 2


def pays(stored: int, n: int) -> bool:
    """Whether ``stored`` floats are at most those of the dense matrix, or too few to matter."""
    return stored <= max(dense_floats(n), _FEW_FLOATS)


def stored_floats(sizes: IntArray, ranks: IntArray, *, diagonal: bool, density: float = 1.0) -> int:
    """Floats that a product reads: U, each pair of symmetric entries of C once, D.

    ``density`` is the share of the entries of the off-diagonal blocks of C that are stored.
    """
    total, diagonal_blocks = int(ranks.sum()), int((ranks * (ranks + 1) // 2).sum())
    off_diagonal = (total * (total + 1) // 2) - diagonal_blocks
    return int(sizes @ ranks) + diagonal_blocks + round(density * off_diagonal) + (int(sizes.sum()) if diagonal else 0)


def kept_bytes(
    sizes: IntArray, ranks: IntArray, landmarks: IntArray, n_features: int, itemsize: int, stored: int
) -> int:
    """Bytes of everything kept: floats of a product, lower triangles of diagonal blocks, landmarks, partition."""
    n, k = int(sizes.sum()), len(sizes)
    triangles = int((ranks * (ranks - 1) // 2).sum())
    extension = int((landmarks * (n_features + ranks)).sum())
    partition = 8 * (n + k + 1 + k * n_features + k)
    return itemsize * (stored + triangles + extension) + partition


def floats_beside_product(landmarks: float, n: int, k: int, n_coordinates: int, itemsize: int) -> float:
    """Floats of a file beside those of a product, without coefficients: landmarks, partition, index of C, header."""
    indices = 8 * (n + k + 1 + k * n_coordinates + k + k * (k + 1) // 2)
    return landmarks * n_coordinates + (indices + _FILE_BYTES) / itemsize


@dataclass(frozen=True)
class Work:
    """Work of a construction.

    Parameters
    ----------
    pass_entries : int
        Kernel entries that the pass over the points evaluates.
    entries : int
        Total number of kernel entries.
    pass_operations, operations : float
        Multiplications and additions of the pass and in total.
    calls : int
        Calls of NumPy functions.
    """

    pass_entries: int
    entries: int
    pass_operations: float
    operations: float
    calls: int

    @property
    def of_pass(self) -> float:
        """Work of the pass over the points, in kernel entries."""
        return self.pass_entries + self.pass_operations / _OPERATIONS_PER_ENTRY

    @property
    def before_pass(self) -> float:
        """Work before the pass over the points, in kernel entries."""
        return self.entries + self.operations / _OPERATIONS_PER_ENTRY - self.of_pass


def _sample_shapes(
    sizes: IntArray, built: IntArray, samples: SampleSizes, cached: bool
) -> tuple[FloatArray, FloatArray]:
    """Sampled rows and columns of each cluster."""
    n, rows = int(sizes.sum()), np.maximum(samples.rows * built, samples.min_rows)
    rows = np.where(sizes <= np.maximum(2 * rows, samples.all_rows_size), sizes, rows).astype(np.float64)
    max_columns = n if cached else samples.max_column_share * n
    return rows, np.minimum(np.maximum(samples.columns * built, samples.min_columns), max_columns)


def building_work(
    sizes: IntArray, built: IntArray, density: float, samples: SampleSizes, *, cached: bool = False
) -> Work:
    """Work of the bases of ranks ``built``, of C, of one check and of the pass over the points.

    Where all entries are ``cached``, each is evaluated at most once.
    """
    n = int(sizes.sum())
    rows, columns = _sample_shapes(sizes, built, samples, cached)
    landmarks = np.minimum(np.maximum(samples.landmarks * built, samples.min_landmarks), columns)
    determining = np.minimum(samples.inner_rows * built, rows)
    total_determining = float(determining.sum())
    inner_entries = 0.5 * density * total_determining**2 + float((determining**2).sum())
    pass_entries = float(sizes @ landmarks)
    checked = n_checked(n)
    pass_operations = 2 * float((sizes * landmarks) @ built) + 6 * float(sizes @ built**2)
    operations = pass_operations + _PASSES * float((rows * columns) @ (built + 8))
    operations += 2 * float((rows + landmarks / 3) @ landmarks**2)
    operations += 2 * density * total_determining * float(built @ determining)
    operations += 6.0 * checked**2 * (float(built.mean()) + 10)
    entries = float(rows @ columns) + inner_entries + pass_entries + checked**2 / 2
    if cached:
        entries = min(entries, dense_floats(n))
    calls = _CALLS + _CALLS_PER_CLUSTER * len(sizes)
    return Work(int(pass_entries), int(entries), pass_operations, operations, calls)


def repair_operations(ranks: IntArray) -> float:
    """Operations that make C semi-definite where blocks were dropped."""
    return _REPAIR_FACTORIZATIONS * float(ranks.sum()) ** 3 / 3


def inner_bytes(built: IntArray, ranks: IntArray, density: float) -> int:
    """Peak bytes of C: its blocks of the sketched ranks, and dense copies while C is made semi-definite.

    Parameters
    ----------
    built, ranks : ndarray of shape (n_clusters,)
        Ranks for which the bases are sketched, and ranks that are kept.
    density : float
        Share of the off-diagonal blocks of C that is kept. Where it is below 1, negative eigenvalues are expected.
    """
    copies = _DENSE_COPIES if density == 1 else _REPAIR_COPIES
    return int(8 * (density / 2 * float(built.sum()) ** 2 + copies * float(ranks.sum()) ** 2))


def working_bytes(
    sizes: IntArray,
    built: IntArray,
    inner: int,
    samples: SampleSizes,
    threads: int,
    *,
    cached: bool = False,
    single: bool = False,
    keep_samples: bool = True,
) -> int:
    """Peak bytes of a construction, in addition to the bytes that are kept at its end.

    Each thread works on sampled blocks before C is made semi-definite: the larger of the two amounts counts. The other
    parts stay until the end, some of them as pages that the allocator does not return to the system.

    Parameters
    ----------
    sizes, built : ndarray of shape (n_clusters,)
        Number of points and rank of each cluster.
    inner : int
        Peak bytes of C, see `inner_bytes`.
    samples : SampleSizes
    threads : int
    cached : bool, default=False
        Whether all entries of the matrix are evaluated once and cached.
    single : bool, default=False
        Whether kernel entries are float32 before the pass over the points.
    keep_samples : bool, default=True
        Whether small sampled blocks are kept for bases of higher ranks, and entries for a check.
    """
    n, k = int(sizes.sum()), len(sizes)
    itemsize = 4 if single else 8
    rows, columns = _sample_shapes(sizes, built, samples, cached)
    blocks = rows * columns
    largest = int((_BLOCK_COPIES * itemsize + _PART_BYTES) * np.sort(blocks)[-threads:].sum())
    drafted = 8 * int((rows + np.minimum(samples.landmarks * built, columns)) @ built)
    kept = itemsize * int(blocks[blocks <= KEPT_ENTRIES // k].sum()) if keep_samples else 0
    checked = n if cached else n_checked(n)
    check = itemsize * checked**2 if keep_samples else 0
    if n <= checked and k == 1:  # the entries of a single cluster make one strip
        check *= 3
    return max(largest, inner) + drafted + kept + check + (8 * n**2 if cached else 0)


@dataclass(frozen=True)
class Rates:
    """Seconds of one kernel entry, of one operation and of one call, on this machine and for this kernel."""

    entry: float
    operation: float
    call: float

    def seconds(self, work: Work, threads: int, repair: float = 0.0) -> float:
        """Seconds of the given work, of which a fixed share runs on one thread, and of the operations of a repair."""
        spent = self.entry * work.entries + self.operation * work.operations / _EFFICIENCY
        return spent * (0.2 + 0.8 / threads) + self.call * work.calls + self.operation * repair


def measure_rates(matrix: KernelMatrix) -> Rates:
    """Rates from the times of a kernel block and a product; the least of several trials."""
    large, small = (slice(0, min(size, matrix.shape[0])) for size in (_TIMED_SIZE, _CALL_SIZE))
    square = np.ones((_TIMED_SIZE, _TIMED_SIZE))
    uncounted = KernelMatrix(matrix.kernel, matrix.rows[large])
    entries = min(_timed(lambda: uncounted.block(large, large)) for _ in range(_TRIALS))
    product = min(_timed(lambda: square @ square) for _ in range(_TRIALS))
    call = min(_timed(lambda: uncounted.block(small, small)) for _ in range(4 * _TRIALS))  # a short time
    return Rates(entries / large.stop**2, product / (2 * _TIMED_SIZE**3), call)


def _timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def cross_bytes(rows: Partition, columns: Partition, rank: int, n_jobs: int) -> int:
    """Peak bytes of a cross factorization: bases and C, each twice, and the sample of a cluster on each thread."""
    ranks = [np.minimum(rank, side.sizes) for side in (rows, columns)]
    bases = sum(int(side.sizes @ side_ranks) for side, side_ranks in zip((rows, columns), ranks, strict=True))
    sampled = max(
        int(side.sizes.max()) * min(ACCURATE.columns * rank, opposite.n_points)
        for side, opposite in ((rows, columns), (columns, rows))
    )
    return 8 * (2 * bases + 2 * int(ranks[0].sum()) * int(ranks[1].sum()) + 3 * n_jobs * sampled)
