"""Singular values of kernel matrices, exact, and how experiments keep and draw them."""

from __future__ import annotations

from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis import plotting
from blockbasis._parallel import single_threaded
from blockbasis._typing import FloatArray
from blockbasis.experiments.base import Result, Row

#: Singular values kept of one matrix: enough for a picture.
_KEPT = 120


def singular_values(X: FloatArray, bandwidth: float) -> FloatArray:
    """All singular values of the Gaussian kernel matrix of the points, largest first."""
    with single_threaded():
        values = np.linalg.eigvalsh(bb.ExactKernel(X, bb.Gaussian(bandwidth)).todense())
    return np.sort(np.abs(values))[::-1]


def numerical_rank(values: FloatArray, tol: float) -> int:
    """How many singular values are at least ``tol`` times the largest."""
    return int(np.count_nonzero(values >= tol * values[0]))


def decay(values: FloatArray, **labels: Any) -> list[Row]:
    """Rows of some singular values, over the largest: all of the first, then ever fewer."""
    places = np.unique(np.geomspace(1, len(values), _KEPT).round().astype(int))
    normalized = values / values[0]
    return [{**labels, "index": int(i), "value": float(normalized[i - 1])} for i in places]


def draw_decay(axes: Any, result: Result, by: str, label: str, **selected: Any) -> None:
    """A curve of singular values for each value of the column ``by``."""
    for place, value in enumerate(result.distinct(by, **selected)):
        rows = [row for row in result.where(**selected, **{by: value}) if "index" in row]
        look = plotting.style(place)
        axes.plot(
            [row["index"] for row in rows],
            [max(row["value"], 1e-17) for row in rows],
            color=look["color"],
            linestyle=look["linestyle"],
            label=label.format(value),
        )
    axes.set(yscale="log", ylim=(1e-12, 2), xlabel="index", ylabel="singular value / largest")
    axes.legend(frameon=False, fontsize="small")
