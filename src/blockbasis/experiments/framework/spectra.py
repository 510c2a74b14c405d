"""Singular values of kernel matrices, exact, and how experiments keep and draw them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

import blockbasis as bb
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.typing import FloatArray
from blockbasis.accuracy.spectrum import lanczos, thinned
from blockbasis.experiments.framework.base import Result, Row
from blockbasis.report import figures

#: Singular values kept of one matrix: enough for a picture.
_KEPT = 120
#: Singular values that Lanczos' method is asked for, and residuals of theirs.
_FEW, _LANCZOS_TOL = 128, 1e-10


def singular_values(X: FloatArray, bandwidth: float) -> FloatArray:
    """All singular values of the Gaussian kernel matrix of the points, largest first."""
    return _all_values(_matrix(X, bandwidth))


def leading_singular_values(X: FloatArray, bandwidth: float, tol: float, rng: np.random.Generator) -> FloatArray:
    """Singular values down to some below ``tol`` times the largest: by Lanczos' method where these are few."""
    K = _matrix(X, bandwidth)
    if len(K) > _FEW:
        with single_threaded():
            values, _ = lanczos(thinned(K), _FEW, tol=_LANCZOS_TOL, rng=rng)
        if values[-1] < tol * values[0]:
            return values
    return _all_values(K)


def _matrix(X: FloatArray, bandwidth: float) -> FloatArray:
    return bb.ExactKernel(X, bb.Gaussian(bandwidth)).todense()


def _all_values(K: FloatArray) -> FloatArray:
    """``K`` is overwritten."""
    with single_threaded():
        values = linalg.eigvalsh(K.T, overwrite_a=True, check_finite=False)  # columns in a row need no copy
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
        look = figures.style(place)
        axes.plot(
            [row["index"] for row in rows],
            [max(row["value"], 1e-17) for row in rows],
            color=look["color"],
            linestyle=look["linestyle"],
            label=label.format(value),
        )
    axes.set(yscale="log", ylim=(1e-12, 2), xlabel="index", ylabel="singular value / largest")
    axes.legend(frameon=False, fontsize="small")
