"""Each part of a fitted estimator that does not fit is refused by its name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._blending import Blend
from blockbasis.estimators._calibration import Calibration
from blockbasis.estimators._columns import ColumnMap
from blockbasis.estimators._structure import check_attributes, check_outputs, check_structure
from blockbasis.operators.archive import StorageError


@pytest.fixture(scope="module")
def model(points):
    y = np.sin(points @ np.arange(1, 4))
    return bb.KernelRidge(0.1, bandwidth=0.5, n_clusters=3, rank=8, random_state=0).fit(points, y)


def test_what_a_fitted_estimator_holds_is_accepted(model):
    check_attributes(bb.KernelRidge, model.get_params(), {"n_features_in_": 3, "expansion_": model.expansion_})
    check_outputs({"intercept_": model.intercept_, "expansion_": model.expansion_})
    for each in (model.expansion_, model.expansion_.blend, model.residuals_, Calibration(1.0, 1.0)):
        check_structure(each)


def test_parameters_and_attributes_of_another_class(model):
    parameters = model.get_params()
    with pytest.raises(StorageError, match=r"the parameters must be those of KernelRidge, .*\['power'\]"):
        check_attributes(bb.KernelRidge, parameters | {"power": 2}, {})
    for name in ("fit", "__class__", "plain", "_private_", "not a name_"):
        with pytest.raises(StorageError, match="must be one that fitting sets"):
            check_attributes(bb.KernelRidge, parameters, {name: 1})
    with pytest.raises(StorageError, match="n_features_in_ must be a number of columns"):
        check_attributes(bb.KernelRidge, parameters, {"n_features_in_": 0})
    with pytest.raises(StorageError, match="verbose must be a number"):
        check_attributes(bb.KernelRidge, parameters | {"verbose": "very"}, {})


def test_means_of_other_targets(model):
    with pytest.raises(StorageError, match=r"intercept_ must be of shape \(1,\)"):
        check_outputs({"intercept_": np.zeros(2), "expansion_": model.expansion_})


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("expansion_", {"kernel": "gaussian"}, "kernel must be a kernel"),
        ("expansion_", {"blend": None}, "blend must be a Blend"),
        ("expansion_", {"centers": np.zeros((2, 3))}, "points and weights must be one for each cluster"),
        ("residuals_", {"weights": np.ones(1)}, "weights must be of shape"),
        ("residuals_", {"sizes": np.ones((1, 1))}, "sizes must be of shape"),
    ],
)
def test_parts_that_do_not_fit_together(model, part, change, message):
    with pytest.raises(StorageError, match=message):
        check_structure(replace(getattr(model, part), **change))


def test_negative_widths():
    with pytest.raises(StorageError, match="blend must be positive"):
        check_structure(Blend(-1.0, 1.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": np.array([0.0, 1.0])}, "columns must be places of columns"),
        ({"centers": np.zeros(3)}, "centers must be of shape"),
        ({"spreads": np.array([1.0, 0.0])}, "spreads must be positive"),
    ],
)
def test_maps_of_columns_that_do_not_fit_together(change, message):
    with pytest.raises(StorageError, match=message):
        check_structure(replace(ColumnMap(np.array([0, 1]), np.zeros(2), np.ones(2)), **change))


def test_maps_of_columns_that_there_are_not():
    mapping = ColumnMap(np.array([0, 3]), np.zeros(2), np.ones(2))
    with pytest.raises(StorageError, match="column_map_ must be of columns below 3"):
        check_outputs({"column_map_": mapping, "n_features_in_": 3})
