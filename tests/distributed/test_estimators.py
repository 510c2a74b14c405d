from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
import blockbasis as bb  # noqa: E402
from blockbasis.distributed import DaskKernelRidge, DaskKernelRidgeClassifier  # noqa: E402
from blockbasis.streaming import ArrayRows  # noqa: E402

SETTINGS = {"bandwidth": 1.0, "n_clusters": 6, "rank": 25, "random_state": 0}


def dask_arrays(X, y, rows=800):
    return da.from_array(X, chunks=(rows, 2)), da.from_array(y, chunks=rows)


def test_the_model_is_that_of_one_process(client, points, small_sample):
    X, y = points
    model = DaskKernelRidge(0.1, client=client, **SETTINGS).fit(*dask_arrays(X, y))
    one = bb.KernelRidge(0.1, **SETTINGS).fit(ArrayRows(X), y)
    np.testing.assert_allclose(model.predict(X), one.predict(X), atol=1e-9)
    local = model.to_local()
    assert isinstance(local, bb.KernelRidge) and local.alpha_ == 0.1
    local.partial_fit(X, y)
    assert local.stream_.sums.n_rows == 6000 and model.local_.stream_.sums.n_rows == 3000


def test_predictions_of_dask_arrays_are_lazy(client, points, small_sample):
    X, y = points
    model = DaskKernelRidge(0.1, client=client, **SETTINGS).fit(*dask_arrays(X, np.stack([y, -y], axis=1)))
    predicted = model.predict(da.from_array(X, chunks=(500, 2)))
    assert isinstance(predicted, da.Array) and predicted.shape == (3000, 2) and predicted.chunks[0] == (500,) * 6
    values = client.compute(predicted).result()
    np.testing.assert_allclose(values, model.predict(X), atol=1e-12)
    np.testing.assert_allclose(values[:, 0], -values[:, 1], atol=1e-8)


def test_scores_weights_and_chunks(client, points, small_sample):
    X, y = points
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    model = DaskKernelRidge(0.1, client=client, **SETTINGS)
    model.fit(da.from_array(X, chunks=(800, 2)), da.from_array(y, chunks=1100), da.from_array(weights, chunks=300))
    one = bb.KernelRidge(0.1, **SETTINGS).fit(ArrayRows(X), y, weights)
    np.testing.assert_allclose(model.predict(X), one.predict(X), atol=1e-9)
    with client.as_current():
        assert model.score(*dask_arrays(X, y)) == pytest.approx(one.score(X, y))


def test_a_classifier_is_that_of_one_process(client, points, small_sample):
    X, _ = points
    y = np.where(np.hypot(*X.T) < 1, "in", np.where(X[:, 0] > 0, "right", "left"))
    model = DaskKernelRidgeClassifier(0.1, client=client, **SETTINGS).fit(*dask_arrays(X, y))
    one = bb.KernelRidgeClassifier(0.1, **SETTINGS).fit(ArrayRows(X), y)
    assert model.classes_.tolist() == ["in", "left", "right"]
    points, targets = dask_arrays(X, y, 1000)
    probabilities = client.compute(model.predict_proba(points)).result()
    np.testing.assert_allclose(probabilities, one.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(
        client.compute(model.decision_function(points)).result(), one.decision_function(X), atol=1e-8
    )
    with client.as_current():
        assert model.score(points, targets) == pytest.approx(one.score(X, y))


def test_data_frames_are_taken_by_the_names_of_their_columns(client, points, small_sample):
    X, y = points
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    table = dd.from_pandas(frame, npartitions=4)
    model = DaskKernelRidge(0.1, client=client, **SETTINGS).fit(table[["a", "b"]], table["y"])
    assert model.local_.feature_names_in_.tolist() == ["a", "b"]
    predicted = model.predict(table[["y", "b", "a"]])
    assert isinstance(predicted, dd.Series)
    values = client.compute(predicted).result()
    np.testing.assert_allclose(values.to_numpy(), model.predict(frame[["a", "b"]]), atol=1e-12)
    assert values.index.tolist() == frame.index.tolist()
    with pytest.raises(ValueError, match="must have the column 'b'"):
        model.predict(table[["a", "y"]])


def test_the_client_is_never_pickled(client, points, small_sample):
    X, y = points
    model = DaskKernelRidge(0.1, client=client, **SETTINGS).fit(*dask_arrays(X, y))
    again = pickle.loads(pickle.dumps(model))
    assert again.client is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert clone(model).get_params()["rank"] == 25


def test_bad_input_is_named(client, points, small_sample):
    X, y = points
    model = DaskKernelRidge(0.1, client=client, **SETTINGS)
    bad = X.copy()
    bad[2000, 1] = np.nan
    with pytest.raises(ValueError, match="free of NaN and infinity. Got one in block 2, row 400"):
        model.fit(*dask_arrays(bad, y))
    with pytest.raises(ValueError, match="'y' parameter of DaskKernelRidge.fit must have the 3000 rows of X"):
        model.fit(da.from_array(X, chunks=(800, 2)), da.from_array(y[:-1], chunks=800))
    with pytest.raises(TypeError, match="must be a dask array or a dask data frame"):
        model.fit(X, y)
    model.fit(*dask_arrays(X, y))
    with pytest.raises(ValueError, match="X has 3 features, but DaskKernelRidge is expecting 2"):
        model.predict(da.zeros((4, 3)))
    with pytest.raises(ValueError, match="at least two classes. Got one class"):
        DaskKernelRidgeClassifier(client=client).fit(*dask_arrays(X, np.ones(3000)))
