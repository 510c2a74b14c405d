"""Consecutive ranges of rows or columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blockbasis._utils.typing import IntArray

#: Entries of one tile of a matrix that is evaluated tile by tile: 64 MB of float64.
_TILE_ENTRIES = 2**23


def tiles(length: int, height: int, entries: int | None = None) -> list[slice]:
    """Ranges that cover ``length`` columns, few enough that a tile of ``height`` rows has no more than ``entries``."""
    return ranges(length, max(1, (_TILE_ENTRIES if entries is None else entries) // max(height, 1)))


def ranges(length: int, step: int) -> list[slice]:
    """Ranges of ``step`` indices, the last one shorter, that cover ``length`` indices."""
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def offsets(lengths: Sequence[int] | IntArray) -> IntArray:
    """Start of each of several consecutive ranges of the given lengths, and the end of the last one."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.intp)
