"""Common parts of the experiments with classes inside a larger class: size and radius of a class, and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blockbasis.experiments.framework.base import Result, Row, Verdict

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

#: Labels of the larger and of the smaller inner class in the generators.
_LARGER, _SMALLER = 1, 2
#: Relative distance from the best F1 score within which a score counts as good.
_GOOD = 0.02
#: Score, relative to the best, below which a class counts as lost.
_LOST = 0.5


def class_size_and_radius(X: FloatArray, y: IntArray, label: int) -> Row:
    """Return the number of points of a class, and the largest distance of a point from their centre."""
    inside = X[y == label]
    radius = float(np.linalg.norm(inside - inside.mean(axis=0), axis=1).max())
    return {"size": len(inside), "radius": radius}


def judge_nested(result: Result) -> Verdict:
    """Judge whether the smaller class is good up to, and is lost at, a smaller bandwidth than the larger class."""
    good = {c: _bandwidths(result, c, 1 - _GOOD) for c in (_SMALLER, _LARGER)}
    kept = {c: max(_bandwidths(result, c, _LOST)) for c in (_SMALLER, _LARGER)}
    smaller, larger = (f"from h = {min(good[c]):.2g} to {max(good[c]):.2g}" for c in (_SMALLER, _LARGER))
    return Verdict(
        max(good[_SMALLER]) < max(good[_LARGER]) and kept[_SMALLER] < kept[_LARGER],
        f"The smaller class is within {_GOOD:.0%} of its best F1 {smaller}, the larger {larger}; half of the best is "
        f"left up to {kept[_SMALLER]:.2g} and {kept[_LARGER]:.2g}.",
    )


def _bandwidths(result: Result, label: int, share: float) -> list[float]:
    """Return the bandwidths at which the score of a class is at least ``share`` times its best score."""
    rows = result.where(**{"class": label})
    top = max(row["f1"] for row in rows)
    return [row["h"] for row in rows if row["f1"] >= share * top]
