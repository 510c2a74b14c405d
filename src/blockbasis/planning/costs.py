"""What a factorization costs, from the sizes of its clusters, their ranks and the pairs of clusters that C relates."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from blockbasis._typing import IntArray
from blockbasis.construction.method import SampleSizes
from blockbasis.matrix import KernelMatrix
from blockbasis.planning.check import n_checked

#: Size of the block and of the product that rates are measured on, and how often.
_SAMPLE = 384
_TRIALS = 3
#: Factorizations and small products run at this part of the speed of a large product.
_EFFICIENCY = 0.4
#: Operations for each entry of a sampled block and each direction: four products, two of them orthonormalised.
_PASSES = 14.0
#: So few floats are not worth a warning.
_TRIFLE = 10**5


def dense_floats(n: int) -> int:
    """Floats of the dense matrix, counted as those of C are: each pair of symmetric entries once."""
    return n * (n + 1) // 2


def pays(stored: int, n: int) -> bool:
    """Whether so many floats are fewer than those of the dense matrix, or too few to speak of."""
    return stored <= max(dense_floats(n), _TRIFLE)


def stored_floats(sizes: IntArray, ranks: IntArray, *, diagonal: bool, density: float = 1.0) -> int:
    """Floats that a product reads: U, each pair of symmetric entries of C once, D.

    ``density`` is the part of the off-diagonal blocks of C that is kept.
    """
    total, own = int(ranks.sum()), int((ranks * (ranks + 1) // 2).sum())
    others = (total * (total + 1) // 2) - own
    return int(sizes @ ranks) + own + round(density * others) + (int(sizes.sum()) if diagonal else 0)


def kept_bytes(
    sizes: IntArray, ranks: IntArray, landmarks: IntArray, n_features: int, itemsize: int, stored: int
) -> int:
    """Bytes of everything kept: what a product reads, the other half of the diagonal blocks, landmarks, partition."""
    n, k = int(sizes.sum()), len(sizes)
    halves = int((ranks * (ranks - 1) // 2).sum())
    extension = int((landmarks * (n_features + ranks)).sum())
    partition = 8 * (n + k + 1 + k * n_features + k)
    return itemsize * (stored + halves + extension) + partition


@dataclass(frozen=True)
class Work:
    """Work of a construction, counted.

    Parameters
    ----------
    entries_per_point : float
        Kernel entries that the pass over the points evaluates for each point.
    entries : int
        Kernel entries in all.
    operations : float
        Multiplications and additions.
    """

    entries_per_point: float
    entries: int
    operations: float


def building_work(sizes: IntArray, built: IntArray, density: float, samples: SampleSizes) -> Work:
    """Work to sketch bases of ranks ``built``, to compute C, to check and to pass over the points."""
    n = int(sizes.sum())
    count = np.maximum(samples.rows * built, samples.least_rows)
    rows = np.where(sizes <= np.maximum(2 * count, samples.whole), sizes, count).astype(np.float64)
    columns = np.minimum(np.maximum(samples.columns * built, samples.least_columns), n).astype(np.float64)
    landmarks = np.minimum(np.maximum(samples.landmarks * built, samples.least_landmarks), columns)
    determining = np.minimum(samples.inner_rows * built, rows)
    total_rows = float(determining.sum())
    pairs = 0.5 * density * total_rows**2 + float((determining**2).sum())
    passed = float(sizes @ landmarks)
    checked = n_checked(n)
    operations = _PASSES * float((rows * columns) @ (built + 8))
    operations += 2 * float((rows + landmarks / 3) @ landmarks**2) + 2 * float((sizes * landmarks) @ built)
    operations += 2 * density * total_rows * float(built @ determining) + 6 * float(sizes @ built**2)
    operations += 12.0 * checked**2 * (float(built.mean()) + 10)
    entries = float(rows @ columns) + pairs + passed + checked**2
    if n <= checked:  # all entries are evaluated once, and kept
        entries = min(entries, dense_floats(n))
    return Work(passed / n, int(entries), operations)


def working_bytes(sizes: IntArray, built: IntArray, density: float, samples: SampleSizes, threads: int) -> int:
    """Bytes alive at once while it is built: samples of a cluster on each thread, copies of C, the check."""
    n, total = int(sizes.sum()), int(built.sum())
    count = np.maximum(samples.rows * built, samples.least_rows)
    rows = np.where(sizes <= np.maximum(2 * count, samples.whole), sizes, count)
    columns = np.minimum(np.maximum(samples.columns * built, samples.least_columns), n)
    sampled = 5 * threads * int((rows * columns).max()) * 8
    inner = 8 * int((3 * density + 1) * total**2)
    check = 6 * 8 * n_checked(n) ** 2
    return int(sizes @ built) * 8 + sampled + inner + check + int((rows * built).sum()) * 8


@dataclass(frozen=True)
class Rates:
    """Seconds for one kernel entry and for one operation, on this machine and this kernel."""

    entry: float
    operation: float

    def seconds(self, work: Work, threads: int) -> float:
        """Time of some work; some of it runs on one thread."""
        spent = self.entry * work.entries + self.operation * work.operations / _EFFICIENCY
        return spent * (0.2 + 0.8 / threads)


def measure_rates(matrix: KernelMatrix) -> Rates:
    """Blocks and products, timed; the best of several, since other work may come between."""
    some = slice(0, min(_SAMPLE, matrix.shape[0]))
    square = np.ones((_SAMPLE, _SAMPLE))
    entry = min(_timed(lambda: KernelMatrix.block(matrix, some, some)) for _ in range(_TRIALS))
    product = min(_timed(lambda: square @ square) for _ in range(_TRIALS))
    return Rates(entry / some.stop**2, product / (2 * _SAMPLE**3))


def _timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
