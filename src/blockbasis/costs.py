"""What a factorization costs, from the sizes of its clusters and their ranks alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from blockbasis._typing import FloatArray, IntArray
from blockbasis.basis import INNER_ROWS_PER_RANK
from blockbasis.matrix import KernelMatrix
from blockbasis.sampling import ENERGY_COLUMNS_PER_RANK
from blockbasis.verification import n_check_rows

#: Points that a basis is extended from, for each of its vectors.
_EXTENSION_POINTS = 2
#: Copies of the inner matrix alive at once while its definiteness is ensured.
_INNER_COPIES = 5
#: Copies of the products of check rows alive at once.
_PRODUCT_COPIES = 8
#: Size of the block and of the product that rates are measured on, and how often.
_SAMPLE = 384
_TRIALS = 3
#: Products that the eigendecompositions of C are worth, in cubes of its size: a third of one where C is found definite,
#: five for each time that it settles with the diagonal part.
_DECOMPOSITION = 7.0
#: How often the error of a choice of ranks is measured while the smallest are searched.
_MEASUREMENTS = 18
#: So few floats are not worth a warning.
_TRIFLE = 10**5


def dense_floats(n: int) -> int:
    """Floats of the dense matrix, counted as those of C are: each pair of symmetric entries once."""
    return n * (n + 1) // 2


def pays(stored: int, n: int) -> bool:
    """Whether so many floats are fewer than those of the dense matrix, or too few to speak of."""
    return stored <= max(dense_floats(n), _TRIFLE)


def stored_floats(sizes: IntArray, ranks: IntArray, *, diagonal: bool) -> int:
    """Floats that a product reads: U, each pair of symmetric entries of C once, D."""
    total = int(ranks.sum())
    return int(sizes @ ranks) + dense_floats(total) + (int(sizes.sum()) if diagonal else 0)


def kept_bytes(
    sizes: IntArray, ranks: IntArray, built: IntArray, n_features: int, itemsize: int, *, diagonal: bool
) -> int:
    """Bytes of everything kept: the extension and the partition too. An extension has the points of the ranks built."""
    total, n, k = int(ranks.sum()), int(sizes.sum()), len(sizes)
    inner = (total**2 + int((ranks**2).sum())) // 2  # whole blocks on the diagonal
    extension = int((_EXTENSION_POINTS * built * (n_features + ranks)).sum())
    partition = 8 * (n + k + 1 + k * n_features + k)
    return itemsize * (int(sizes @ ranks) + inner + extension + (n if diagonal else 0)) + partition


def working_bytes(sizes: IntArray, ranks: IntArray, n_features: int, itemsize: int, threads: int) -> int:
    """Bytes alive at once while it is built and checked: columns of a cluster on each thread, or what comes after."""
    n, total = int(sizes.sum()), int(ranks.sum())
    columns = threads * int((sizes * np.minimum(ENERGY_COLUMNS_PER_RANK * ranks, n)).max()) * itemsize
    interpolation = INNER_ROWS_PER_RANK * int((ranks**2).sum())
    later = 8 * (_INNER_COPIES * total**2 + n_check_rows(n) * total)
    kept = kept_bytes(sizes, ranks, ranks, n_features, itemsize, diagonal=True)
    return kept + 8 * interpolation + max(columns, later)


def spectral_check_bytes(n: int) -> int:
    """Bytes of the products of check rows with each other, which the spectral norm of the error takes."""
    return 8 * _PRODUCT_COPIES * n_check_rows(n) ** 2


def needed_entries(sizes: IntArray, ranks: IntArray, *, exact_inner: bool) -> int:
    """Kernel entries evaluated for bases, inner matrix and check."""
    n = int(sizes.sum())
    columns = np.minimum(ENERGY_COLUMNS_PER_RANK * ranks, n)
    inner = dense_floats(n) if exact_inner else _inner_entries(sizes, ranks)
    return int(sizes @ columns) + inner + n_check_rows(n) * n


def _inner_entries(sizes: IntArray, ranks: IntArray) -> int:
    return int(np.minimum(INNER_ROWS_PER_RANK * ranks, sizes).sum()) ** 2 // 2


@dataclass(frozen=True)
class Rates:
    """Seconds for one kernel entry and for one multiplication, on this machine and this kernel."""

    entry: float
    product: float


def measure_rates(matrix: KernelMatrix) -> Rates:
    """Blocks and products, timed; the best of several, since other work may come between."""
    some = slice(0, min(_SAMPLE, matrix.shape[0]))
    square = np.ones((_SAMPLE, _SAMPLE), dtype=matrix.dtype)
    entry = min(_timed(lambda: matrix.block(some, some)) for _ in range(_TRIALS))
    product = min(_timed(lambda: square @ square) for _ in range(_TRIALS))
    return Rates(entry / some.stop**2, product / _SAMPLE**3)


def _timed(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def building_seconds(sizes: IntArray, ranks: IntArray, rates: Rates, for_bases: FloatArray, threads: int) -> float:
    """Time to build and check, when the bases take ``for_bases`` seconds each on one thread."""
    n, total, rows = int(sizes.sum()), int(ranks.sum()), np.minimum(INNER_ROWS_PER_RANK * ranks, sizes)
    entries = _inner_entries(sizes, ranks) + n_check_rows(n) * n
    inner = float(ranks @ rows) * int(rows.sum()) / 2 + total * float(ranks @ rows) / 2
    checks = n_check_rows(n) * float(sizes @ ranks)
    parallel = float(for_bases.sum()) + rates.entry * entries + rates.product * (inner + checks)
    measured = _MEASUREMENTS * checks / n * total
    return parallel / threads + rates.product * (measured + _DECOMPOSITION * total**3)
