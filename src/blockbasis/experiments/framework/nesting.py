"""What the two experiments on classes within a larger class share: facts of a class, and the verdict."""

from __future__ import annotations

import numpy as np

from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis.experiments.framework.base import Result, Row, Verdict

#: Labels of the generators: around the others, the larger inner class, the smaller one.
_LARGER, _SMALLER = 1, 2
#: F1 scores within this of the best are as good as it.
_GOOD = 0.02
#: A class is lost where its score is below this share of its best.
_LOST = 0.5


def describe(X: FloatArray, y: IntArray, label: int) -> Row:
    """Points of a class, and the largest distance of one from their centre."""
    inside = X[y == label]
    radius = float(np.linalg.norm(inside - inside.mean(axis=0), axis=1).max())
    return {"size": len(inside), "radius": radius}


def judge_nested(result: Result) -> Verdict:
    """The smaller class is good up to a smaller bandwidth, and is lost sooner as the bandwidth grows."""
    good = {c: _bandwidths(result, c, 1 - _GOOD) for c in (_SMALLER, _LARGER)}
    kept = {c: max(_bandwidths(result, c, _LOST)) for c in (_SMALLER, _LARGER)}
    smaller, larger = (f"from h = {min(good[c]):.2g} to {max(good[c]):.2g}" for c in (_SMALLER, _LARGER))
    return Verdict(
        max(good[_SMALLER]) < max(good[_LARGER]) and kept[_SMALLER] < kept[_LARGER],
        f"The smaller class is within {_GOOD:.0%} of its best F1 {smaller}, the larger {larger}; half of the best is "
        f"left up to {kept[_SMALLER]:.2g} and {kept[_LARGER]:.2g}.",
    )


def _bandwidths(result: Result, label: int, share: float) -> list[float]:
    """Bandwidths at which a class has a share of its best score."""
    rows = result.where(**{"class": label})
    top = max(row["f1"] for row in rows)
    return [row["h"] for row in rows if row["f1"] >= share * top]
