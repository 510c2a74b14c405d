from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import blockbasis as bb

COMPRESSED = {"n_clusters": 5, "rank": 20, "random_state": 0}


def through_file(model, tmp_path, **given):
    bb.save(model, tmp_path / "model.bbf")
    return bb.load(tmp_path / "model.bbf", **given)


def assert_same_value(first, second):
    """Equal bit for bit, through lists, dictionaries and arrays."""
    if isinstance(first, dict):
        assert list(first) == list(second)
        for key in first:
            assert_same_value(first[key], second[key])
    elif isinstance(first, (list, tuple)):
        assert type(first) is type(second) and len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same_value(one, other)
    elif isinstance(first, np.ndarray):
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)
    elif isinstance(first, bb.BlockBasis):
        np.testing.assert_array_equal(first.todense(), second.todense())
    elif hasattr(first, "weights"):
        assert_same_value(vars(first), vars(second))
    else:
        assert first == second


@pytest.mark.parametrize(
    "model",
    [
        bb.KernelRidge(),
        bb.KernelRidge(np.array([0.1, 1.0]), kernel=bb.Matern(1.0, nu=2.5), bandwidth="auto", **COMPRESSED),
        bb.KernelRidge([0.1, 1.0], bandwidth=(0.5, 2.0), keep_points=False, **COMPRESSED),
        bb.KernelRidgeClassifier(class_weight={"small": 2.0, "left": 1.0, "right": 1.0}, **COMPRESSED),
        bb.KernelRidgeClassifier([0.1, 1.0], bandwidth="per-class", n_jobs=1, **COMPRESSED),
    ],
    ids=str,
)
def test_everything_comes_back(model, classes, tmp_path):
    X, y, X_new, _ = classes
    targets = y if hasattr(model, "class_weight") else np.stack([X[:, 0], X[:, 1] ** 2], axis=1)
    model.fit(pd.DataFrame(X, columns=["a", "b"]), targets)
    again = through_file(model, tmp_path)
    assert type(again) is type(model)
    assert_same_value(model.get_params(), again.get_params())
    assert_same_value(dict(vars(model)), dict(vars(again)))
    frame = pd.DataFrame(X_new, columns=["a", "b"])
    np.testing.assert_array_equal(model.predict(frame), again.predict(frame))
    np.testing.assert_array_equal(
        again.fit(frame, again.predict(frame)).predict(frame).shape, again.predict(frame).shape
    )


def test_a_function_is_given_again(regression, tmp_path):
    X, y, X_new = regression

    def function(A, B):
        return bb.Gaussian(2.0)(A, B)

    model = bb.KernelRidge(kernel=function, **COMPRESSED).fit(X, y)
    again = through_file(model, tmp_path, kernel=function)
    assert again.kernel is function
    np.testing.assert_array_equal(model.predict(X_new), again.predict(X_new))
    with pytest.raises(ValueError, match="kernel callable, which a file cannot hold"):
        bb.load(tmp_path / "model.bbf")


def test_what_is_refused(regression, tmp_path):
    X, y, _ = regression
    with pytest.raises(NotFittedError):
        bb.save(bb.KernelRidge(), tmp_path / "model.bbf")
    model = bb.KernelRidge(random_state=np.random.RandomState(0)).fit(X, y)
    with pytest.raises(TypeError, match="Got RandomState in its parameters.random_state instead"):
        bb.save(model, tmp_path / "model.bbf")
    assert not (tmp_path / "model.bbf").exists()
    with pytest.raises(ValueError, match="must be left out"):
        through_file(bb.KernelRidge().fit(X, y), tmp_path, kernel=bb.Gaussian(1.0).block)

    class KernelRidge(bb.KernelRidge):
        pass

    with pytest.raises(TypeError, match="'A' parameter of save must be"):
        bb.save(KernelRidge().fit(X, y), tmp_path / "model.bbf")
