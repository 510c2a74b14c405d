"""Division of index ranges into consecutive slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from blockbasis._utils.typing import IntArray

#: Default number of entries of a tile: 64 MiB in float64.
TILE_ENTRIES = 2**23


def tiles(length: int, height: int, entries: int | None = None) -> list[slice]:
    """Divide ``length`` columns of ``height`` rows into slices of at most ``entries`` entries, or of one column."""
    return ranges(0, length, max(1, (TILE_ENTRIES if entries is None else entries) // max(height, 1)))


def ranges(start: int, stop: int, step: int) -> list[slice]:
    """Divide the range from ``start`` to ``stop`` into slices of length ``step``; the last one may be shorter."""
    return [slice(first, min(first + step, stop)) for first in range(start, stop, step)]


def offsets(lengths: Sequence[int] | IntArray) -> IntArray:
    """Start of each of several consecutive ranges of the given lengths, and the end of the last one."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.intp)
