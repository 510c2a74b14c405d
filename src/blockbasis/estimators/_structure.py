"""Checks of the parts of an estimator that was read from a file. Each error names the part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.validation import check_threads
from blockbasis.estimators._blending import Blend
from blockbasis.estimators._calibration import Calibration
from blockbasis.estimators._columns import ColumnMap
from blockbasis.estimators._expansion import Expansion
from blockbasis.estimators._feature_map import FeatureMap
from blockbasis.estimators._intervals import Residuals
from blockbasis.estimators._local_posterior import LocalPosterior
from blockbasis.estimators._posterior import Posterior
from blockbasis.estimators._trend import Trend
from blockbasis.kernels import Kernel
from blockbasis.operators.structure import numbers, require

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray


def check_attributes(cls: type[Any], parameters: dict[str, Any], fitted: dict[str, Any]) -> None:
    """Raise unless the class has these parameters, and its ``fit`` can have set these attributes."""
    wrong = set(parameters) ^ set(cls._get_param_names())
    require(not wrong, "the parameters", f"those of {cls.__name__}, and are not in {sorted(map(str, wrong))}")
    check_threads(parameters["n_jobs"], name="n_jobs", caller=cls.__name__)
    require(isinstance(parameters["verbose"], (int, float)), "verbose", "a number")
    for name in fitted:
        own = isinstance(name, str) and name.isidentifier() and name.startswith("_") != name.endswith("_")
        require(own and not hasattr(cls, name), f"the attribute {name!r}", "one that fitting sets")
    columns = fitted.get("n_features_in_", 1)
    require(isinstance(columns, int) and columns > 0, "n_features_in_", "a number of columns")


def check_outputs(fitted: dict[str, Any]) -> None:
    """Raise unless means, scales and groups of classes match the outputs of the learned functions."""
    if "intercept_" in fitted:
        learnt = fitted["expansions_"] if "expansions_" in fitted else [fitted["expansion_"]]
        numbers(fitted["intercept_"], "intercept_", (sum(each.n_outputs for each in learnt),))
    if "_means" in fitted:
        numbers(fitted["_means"], "_means", (fitted["_components"].n_outputs,))
    if "_posterior" in fitted:
        trend, shape = fitted["_trend"], (fitted["n_features_in_"], fitted["_posterior"].mean.n_outputs)
        for name in ("_scale", "_y_scale"):
            numbers(fitted[name], name, shape[1:])
        require(isinstance(trend, Trend) and trend.slopes.shape == shape, "_trend", f"a Trend of shape {shape}")
    if fitted.get("column_map_") is not None:
        columns, d = fitted["column_map_"].columns, fitted["n_features_in_"]
        require(((columns >= 0) & (columns < d)).all(), "column_map_", f"of columns below {d}")
    if "groups_" in fitted:
        groups, outputs = fitted["groups_"], [each.n_outputs for each in fitted["expansions_"]]
        require([len(group) for group in groups] == outputs, "groups_", "one class for each function")
        classes = np.sort(np.concatenate(groups))
        require(np.array_equal(classes, np.arange(sum(outputs))), "groups_", "every class once")


def check_structure(value: Any) -> None:
    """Raise unless the parts of a structure fit together."""
    if isinstance(value, (Blend, Calibration)):
        fits = all(isinstance(each, (int, float)) and each >= 0 for each in vars(value).values())
        require(fits, type(value).__name__.lower(), "positive")
    elif isinstance(value, ColumnMap):
        require(value.columns.ndim == 1 and value.columns.dtype.kind == "i", "columns", "places of columns")
        numbers(value.centers, "centers", (len(value.columns),))
        numbers(value.spreads, "spreads", (len(value.columns),))
        require((value.spreads > 0).all(), "spreads", "positive")
    elif isinstance(value, Residuals):
        numbers(value.points, "points", (None, None))
        numbers(value.sizes, "sizes", (len(value.points), None))
        numbers(value.weights, "weights", (len(value.points),))
    elif isinstance(value, Trend):
        numbers(value.slopes, "slopes", (None, None))
        numbers(value.center, "center", (len(value.slopes),))
        numbers(value.scale, "scale", (len(value.slopes),))
        numbers(value.constant, "constant", (value.slopes.shape[1],))
    elif isinstance(value, LocalPosterior):
        _check_local_posterior(value)
    elif isinstance(value, Expansion):
        _check_kernel(value.kernel)
        require(isinstance(value.blend, Blend), "blend", "a Blend")
        outputs = {weights.shape[1:] for weights in value.weights}
        require(len(outputs) == 1, "weights", "of as many columns in every cluster")
        _check_clusters(value.centers, value.points, value.weights, "weights")
    elif isinstance(value, FeatureMap):
        _check_kernel(value.kernel)
        _check_clusters(value.centers, value.points, value.coefficients, "coefficients")
        require(type(value.n_shared) is int and type(value.sparse) is bool, "n_shared and sparse", "a count and a flag")
        require(len(value.roots) == len(value.points), "roots", "one for each cluster")
        for root, coefficients in zip(value.roots, value.coefficients, strict=True):
            numbers(root, "roots", (coefficients.shape[1], None))
            require(0 <= value.n_shared <= root.shape[1], "n_shared", f"at most {root.shape[1]}")
    elif isinstance(value, Posterior):
        require(isinstance(value.mean, Expansion), "mean", "an Expansion")
        _check_clusters(value.mean.centers, value.points, value.coefficients, "coefficients")
        require(len(value.spreads) in (0, len(value.points)), "spreads", "one for each cluster")
        for spread, points in zip(value.spreads, value.points, strict=False):
            numbers(spread, "spreads", (len(points), None))
        total = sum(each.shape[1] for each in value.coefficients)
        numbers(value.largest, "largest", (len(value.points),))
        numbers(value.explained, "explained", (total, total))


def _check_local_posterior(value: LocalPosterior) -> None:
    require(isinstance(value.mean, Expansion), "mean", "an Expansion")
    numbers(value.root, "root", (None, None))
    m = len(value.root)
    numbers(value.root, "root", (m, m))
    numbers(value.precision, "precision", (m, m))
    numbers(value.evidence, "evidence", (m, value.mean.n_outputs))
    require(len(value.noises) == len(value.mean.points), "noises", "one for each cluster")
    for noise, points in zip(value.noises, value.mean.points, strict=True):
        numbers(noise, "noises", (len(points) - m,))


def _check_kernel(kernel: Any) -> None:
    require(isinstance(kernel, Kernel), "kernel", "a kernel")


def _check_clusters(centers: FloatArray, points: Sequence[FloatArray], others: Sequence[FloatArray], name: str) -> None:
    """Raise unless each cluster has points, and an array with one row for each point."""
    numbers(centers, "centers", (None, None))
    require(len(points) == len(others) == len(centers) > 0, f"points and {name}", "one for each cluster")
    for own, other in zip(points, others, strict=True):
        numbers(own, "points", (None, centers.shape[1]))
        numbers(np.asarray(other), name, (len(own), None))
