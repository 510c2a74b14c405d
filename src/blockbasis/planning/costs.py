"""The cost of a factorization, from the sizes and ranks of its clusters and the share of the blocks of C kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from blockbasis._typing import FloatArray, IntArray
from blockbasis.construction.method import KEPT_ENTRIES, SampleSizes
from blockbasis.matrix import KernelMatrix
from blockbasis.planning.check import n_checked

#: Size of the block and of the product whose times give the rates, and number of trials.
_SAMPLE = 256
_TRIALS = 3
#: Speed of factorizations and small products, as a share of the speed of a large product.
_EFFICIENCY = 0.4
#: Operations for each entry of a sampled block and each direction: three products, two of them orthonormalised.
_PASSES = 8.0
#: Operations that take about as long as one kernel entry. Not measured: choices must not depend on the machine.
_OPERATIONS_PER_ENTRY = 200.0
#: Calls of functions of NumPy, for the whole construction and for each cluster, each as long as that of a small block.
_CALLS = 1_500
_CALLS_PER_CLUSTER = 150
#: Side of a small block: its entries take no time beside the call.
_SMALL_SAMPLE = 4
#: Arrays of the size of a sampled block that a thread has at once: the entries and a scaled copy all the time, the
#: distances or a factorization for a part of it.
_BLOCK_COPIES = 2.5
#: Dense copies of C with which it is tested for negative eigenvalues, and with which they are removed.
_DENSE_COPIES = 2.0
_REPAIR_COPIES = 2.5
#: No warning is given below so many floats.
_TRIFLE = 10**5


def dense_floats(n: int) -> int:
    """Floats of the dense matrix, with each pair of symmetric entries counted once, as in C."""
    return n * (n + 1) // 2


def pays(stored: int, n: int) -> bool:
    """Whether ``stored`` floats are at most those of the dense matrix, or too few to matter."""
    return stored <= max(dense_floats(n), _TRIFLE)


def stored_floats(sizes: IntArray, ranks: IntArray, *, diagonal: bool, density: float = 1.0) -> int:
    """Floats that a product reads: U, each pair of symmetric entries of C once, D.

    ``density`` is the share of the entries of the off-diagonal blocks of C that are stored.
    """
    total, own = int(ranks.sum()), int((ranks * (ranks + 1) // 2).sum())
    others = (total * (total + 1) // 2) - own
    return int(sizes @ ranks) + own + round(density * others) + (int(sizes.sum()) if diagonal else 0)


def kept_bytes(
    sizes: IntArray, ranks: IntArray, landmarks: IntArray, n_features: int, itemsize: int, stored: int
) -> int:
    """Bytes of everything kept: the floats of a product, the other halves of diagonal blocks, landmarks, partition."""
    n, k = int(sizes.sum()), len(sizes)
    halves = int((ranks * (ranks - 1) // 2).sum())
    extension = int((landmarks * (n_features + ranks)).sum())
    partition = 8 * (n + k + 1 + k * n_features + k)
    return itemsize * (stored + halves + extension) + partition


@dataclass(frozen=True)
class Work:
    """Counted work of a construction.

    Parameters
    ----------
    pass_entries : int
        Kernel entries that the pass over the points evaluates.
    entries : int
        Total number of kernel entries.
    pass_operations, operations : float
        Multiplications and additions of the pass and in total.
    calls : int
        Calls of functions of NumPy.
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


def building_work(
    sizes: IntArray, built: IntArray, density: float, samples: SampleSizes, *, known: bool = False
) -> Work:
    """Work of the bases of ranks ``built``, of C, of one check and of the pass over the points.

    Where all entries are ``known``, they are evaluated once and cached.
    """
    n = int(sizes.sum())
    rows, columns = _sampled(sizes, built, samples, known)
    landmarks = np.minimum(np.maximum(samples.landmarks * built, samples.least_landmarks), columns)
    determining = np.minimum(samples.inner_rows * built, rows)
    total_rows = float(determining.sum())
    pairs = 0.5 * density * total_rows**2 + float((determining**2).sum())
    passed = float(sizes @ landmarks)
    checked = n_checked(n)
    of_pass = 2 * float((sizes * landmarks) @ built) + 6 * float(sizes @ built**2)
    operations = of_pass + _PASSES * float((rows * columns) @ (built + 8))
    operations += 2 * float((rows + landmarks / 3) @ landmarks**2)
    operations += 2 * density * total_rows * float(built @ determining)
    operations += 6.0 * checked**2 * (float(built.mean()) + 10)
    entries = float(rows @ columns) + pairs + passed + checked**2 / 2
    if known:
        entries = min(entries, dense_floats(n))
    return Work(int(passed), int(entries), of_pass, operations, _CALLS + _CALLS_PER_CLUSTER * len(sizes))


def working_bytes(
    sizes: IntArray,
    built: IntArray,
    density: float,
    samples: SampleSizes,
    threads: int,
    *,
    known: bool = False,
    itemsize: int = 8,
    keeps: bool = True,
) -> int:
    """Peak bytes of a construction beside those that are kept at its end.

    Sampled blocks are worked on by each thread before C is made semi-definite: the larger of the two counts. All other
    parts stay until the end, some as pages that the allocator does not give back.

    Parameters
    ----------
    sizes, built : ndarray of shape (n_clusters,)
        Points and ranks of the clusters.
    density : float
        Share of the off-diagonal blocks of C that is kept.
    samples : SampleSizes
    threads : int
    known : bool, default=False
        Whether all entries of the matrix are evaluated once and cached.
    itemsize : int, default=8
        Bytes of a kernel entry before the pass over the points.
    keeps : bool, default=True
        Whether small sampled blocks are kept for bases of higher ranks.
    """
    n, total, k = int(sizes.sum()), int(built.sum()), len(sizes)
    rows, columns = _sampled(sizes, built, samples, known)
    blocks = rows * columns
    largest = int(itemsize * _BLOCK_COPIES * np.sort(blocks)[-threads:].sum())
    inner = int(8 * total**2 * (density / 2 + (_DENSE_COPIES if density == 1 else _REPAIR_COPIES)))
    drafted = 8 * int((rows + np.minimum(samples.landmarks * built, columns)) @ built)
    kept = itemsize * int(blocks[blocks <= KEPT_ENTRIES // k].sum()) if keeps else 0
    checked = n if known else n_checked(n)
    check = itemsize * checked**2 if keeps else 0
    if n <= checked and k == 1:  # the entries of a single cluster make one strip
        check *= 3
    return max(largest, inner) + drafted + kept + check + (8 * n**2 if known else 0)


def _sampled(sizes: IntArray, built: IntArray, samples: SampleSizes, known: bool) -> tuple[FloatArray, FloatArray]:
    """Rows and columns of the sampled block of each cluster."""
    count = np.maximum(samples.rows * built, samples.least_rows)
    rows = np.where(sizes <= np.maximum(2 * count, samples.whole), sizes, count).astype(np.float64)
    most = sizes.sum() * (1.0 if known else samples.most_columns)
    return rows, np.minimum(np.maximum(samples.columns * built, samples.least_columns), most)


@dataclass(frozen=True)
class Rates:
    """Seconds of one kernel entry, of one operation and of one call, on this machine and for this kernel."""

    entry: float
    operation: float
    call: float

    def seconds(self, work: Work, threads: int) -> float:
        """Seconds of the given work; a fixed share of the work runs on one thread."""
        spent = self.entry * work.entries + self.operation * work.operations / _EFFICIENCY
        return spent * (0.2 + 0.8 / threads) + self.call * work.calls


def measure_rates(matrix: KernelMatrix) -> Rates:
    """Rates from the times of a kernel block and a product; the least of several trials."""
    some = slice(0, min(_SAMPLE, matrix.shape[0]))
    square = np.ones((_SAMPLE, _SAMPLE))
    uncounted = KernelMatrix(matrix.kernel, matrix.rows[some])
    entry = min(_timed(lambda: uncounted.block(some, some)) for _ in range(_TRIALS))
    product = min(_timed(lambda: square @ square) for _ in range(_TRIALS))
    few = slice(0, min(_SMALL_SAMPLE, matrix.shape[0]))
    call = min(_timed(lambda: uncounted.block(few, few)) for _ in range(4 * _TRIALS))  # a short time
    return Rates(entry / some.stop**2, product / (2 * _SAMPLE**3), call)


def _timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
