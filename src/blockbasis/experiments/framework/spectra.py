"""Singular values of kernel matrices: computation, rows of a result, and plots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

import blockbasis as bb
from blockbasis._utils.parallel import single_threaded
from blockbasis.accuracy.spectrum import lanczos, sparsified
from blockbasis.experiments.framework import points
from blockbasis.report import figures

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.experiments.framework.base import Result, Row, Settings

#: Largest number of singular values of one matrix in a result: enough for a smooth curve.
_MAX_POINTS = 120
#: Number of singular values that the Lanczos method computes, and their relative residual.
_LANCZOS_VALUES, _LANCZOS_TOL = 128, 1e-10
#: Smallest singular value in a plot: a logarithmic axis has no zero.
_PLOT_FLOOR = 1e-17


def singular_values(X: FloatArray, bandwidth: float) -> FloatArray:
    """Return all singular values of the Gaussian kernel matrix of the points, in descending order."""
    return _all_values(_matrix(X, bandwidth))


def leading_singular_values(X: FloatArray, bandwidth: float, tol: float, rng: np.random.Generator) -> FloatArray:
    """Return the leading singular values, at least all above ``tol`` times the largest, in descending order.

    The Lanczos method computes them if they are few; otherwise LAPACK computes all singular values.
    """
    K = _matrix(X, bandwidth)
    if len(K) > _LANCZOS_VALUES:
        with single_threaded():
            values, _ = lanczos(sparsified(K), _LANCZOS_VALUES, tol=_LANCZOS_TOL, rng=rng)
        if values[-1] < tol * values[0]:
            return values
    return _all_values(K)


def _matrix(X: FloatArray, bandwidth: float) -> FloatArray:
    return bb.ExactKernel(X, bb.Gaussian(bandwidth)).todense()


def _all_values(K: FloatArray) -> FloatArray:
    """Return all singular values in descending order; ``K`` is overwritten."""
    with single_threaded():
        # K.T is in LAPACK's column-major order, so that it is overwritten without a copy.
        values = linalg.eigvalsh(K.T, overwrite_a=True, check_finite=False)
    return np.sort(np.abs(values))[::-1]


def rank_from_values(values: FloatArray, tol: float) -> int:
    """Return the number of singular values that are at least ``tol`` times the largest, ``values[0]``."""
    return int(np.count_nonzero(values >= tol * values[0]))


def decay(values: FloatArray, **labels: Any) -> list[Row]:
    """Return rows with the index and the value, relative to the largest, of singular values at geometric indices."""
    indices = np.unique(np.geomspace(1, len(values), _MAX_POINTS).round().astype(int))
    normalized = values / values[0]
    return [{**labels, "index": int(i), "value": float(normalized[i - 1])} for i in indices]


def measure_spectrum(settings: Settings, tol: float) -> list[Row]:
    """Return the numerical rank and the singular values of one data set, ``settings["data"]``, at one bandwidth."""
    X, _ = points.load_points(settings["data"], settings["n"])
    values = singular_values(X, settings["h"])
    return [{"rank": rank_from_values(values, tol), "points": len(X)}, *decay(values)]


def draw_decay(axes: Any, result: Result, by: str, label: str, **selected: Any) -> None:
    """Plot a curve of singular values for each value of the column ``by``."""
    for place, value in enumerate(result.distinct(by, **selected)):
        rows = [row for row in result.where(**selected, **{by: value}) if "index" in row]
        look = figures.style(place)
        axes.plot(
            [row["index"] for row in rows],
            [max(row["value"], _PLOT_FLOOR) for row in rows],
            color=look["color"],
            linestyle=look["linestyle"],
            label=label.format(value),
        )
    axes.set(yscale="log", ylim=(1e-12, 2), xlabel="index", ylabel="singular value / largest")
    axes.legend(frameon=False, fontsize="small")


def draw_spectra(result: Result) -> Any:
    """Plot the singular values in a panel for each data set, with a curve for each bandwidth."""
    names = result.distinct("data")
    figure, axes = figures.panels(len(names))
    for each, name in zip(axes, names, strict=True):
        draw_decay(each, result, "h", "h = {:g}", data=name)
        each.set(title=points.TITLES[name], ylim=(1e-6, 2))
    return figure
