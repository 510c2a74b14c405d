from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import blockbasis as bb
from blockbasis.estimators._streamed_ridge import sample_rows
from blockbasis.streaming import ArrayRows, ChunkRows, ParquetRows

SETTINGS = {"bandwidth": 1.0, "n_clusters": 8, "rank": 30, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(5000, 2))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=5000)


@pytest.fixture(scope="module")
def whole(data):
    return bb.KernelRidge(0.1, **SETTINGS).fit(ArrayRows(data[0]), data[1])


def test_fifty_chunks_give_the_model_of_one_fit_with_the_same_basis(data):
    X, y = data
    model = bb.KernelRidge(0.1, **SETTINGS).partial_fit(X[:1000], y[:1000])
    together = pickle.loads(pickle.dumps(model)).partial_fit(X[1000:], y[1000:])
    for rows in np.array_split(np.arange(1000, 5000), 50):
        model.partial_fit(X[rows], y[rows])
    assert model.stream_.sums.n_rows == 5000
    np.testing.assert_allclose(model.predict(X), together.predict(X), rtol=0, atol=1e-8)


def test_the_order_of_the_points_does_not_matter(data):
    X, y = data
    first = bb.KernelRidge(0.1, **SETTINGS).partial_fit(X[:1000], y[:1000])
    other = pickle.loads(pickle.dumps(first))
    order = np.random.default_rng(1).permutation(np.arange(1000, 5000))
    first.partial_fit(X[1000:], y[1000:])
    other.partial_fit(X[order], y[order])
    np.testing.assert_allclose(first.predict(X), other.predict(X), atol=1e-8)


def test_a_stream_is_the_ridge_regression_of_the_compressed_matrix(data, whole):
    """The dense solution of the same basis: U C Uᵀ + alpha, by the direct solver in memory."""
    from blockbasis.streaming.factorization import factorize_rows

    X, y = data
    A = factorize_rows(
        whole.stream_.functions, ArrayRows(X), dtype=np.float64, diagonal=False, workspace=None, n_jobs=1
    )
    coefficients = bb.solve(A, y, ridge=0.1).x
    prediction = A @ coefficients
    # At the points that only one cluster has a share in.
    alone = np.zeros(5000)
    for _, rows, weights in whole.expansion_.blend.shares(X, whole.expansion_.centers):
        alone[rows] = np.maximum(alone[rows], weights)
    inside = alone == 1
    assert inside.mean() > 0.3
    np.testing.assert_allclose(whole.predict(X)[inside], prediction[inside], atol=1e-6)


@pytest.mark.parametrize("kind", ["chunks", "hdf5", "parquet"])
def test_sources_give_the_same_model(kind, data, whole, tmp_path):
    X, y = data
    rows = ChunkRows(np.array_split(X, 9), 5000)
    if kind == "hdf5":
        rows = ArrayRows(pytest.importorskip("h5py").File(tmp_path / "X.h5", "w").create_dataset("X", data=X))
    if kind == "parquet":
        pyarrow, tables = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        table = pyarrow.table({"a": X[:, 0], "b": X[:, 1], "y": y})
        tables.write_table(table, tmp_path / "all.parquet", row_group_size=700)
        rows, y = ParquetRows(tmp_path, columns=["a", "b"]), ParquetRows(tmp_path, columns="y")
    model = bb.KernelRidge(0.1, **SETTINGS).fit(rows, y)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), atol=1e-9)


def test_rows_on_disk_are_predicted_in_pieces(data, whole):
    X, y = data
    np.testing.assert_allclose(whole.predict(ChunkRows(np.array_split(X, 7), 5000)), whole.predict(X), atol=1e-10)
    lower, upper = whole.predict_interval(ArrayRows(X), coverage=0.9)
    assert 0.85 < np.mean((lower <= y) & (y <= upper)) < 0.95
    assert whole.gradient(ArrayRows(X[:100])).shape == (100, 2)
    with pytest.raises(ValueError, match="free of NaN and infinity. Got one in chunk 1, row 0"):
        whole.predict(ChunkRows([X[:5], np.full((1, 2), np.nan)], 6))


@pytest.mark.parametrize("size", [{}, {"n_clusters": 8, "rank": 30}])
def test_rows_on_disk_and_in_memory_give_the_same_model(size, data, tmp_path, monkeypatch):
    for module in ("blockbasis.estimators._streamed_ridge", "blockbasis.streaming.sources"):
        monkeypatch.setattr(f"{module}.SAMPLE_ROWS", 1000)
    X, y = data
    np.save(tmp_path / "X.npy", X)
    model = bb.KernelRidge(0.1, bandwidth=1.0, random_state=0, **size)
    on_disk = clone(model).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    in_one_call, began = clone(model).partial_fit(X, y), clone(model).fit(X, y)
    began.begin_stream()
    assert on_disk.stream_.sums.n_rows == in_one_call.stream_.sums.n_rows == 5000
    np.testing.assert_allclose(in_one_call.predict(X), on_disk.predict(X), rtol=0, atol=1e-6)
    np.testing.assert_allclose(began.predict(X), on_disk.predict(X), rtol=0, atol=1e-6)


def test_only_a_sample_determines_the_functions(data, monkeypatch):
    for module in ("blockbasis.estimators._streamed_ridge", "blockbasis.streaming.sources"):
        monkeypatch.setattr(f"{module}.SAMPLE_ROWS", 1000)
    X, y = data
    model = bb.KernelRidge(0.1, bandwidth=1.0, random_state=0).fit(ArrayRows(X), y)
    assert model.stream_.sums.n_rows == 5000 and model.stream_.functions.n_clusters == 1
    assert model.score(X, y) > 0.98
    drawn = sample_rows(5000, np.random.default_rng(0))
    assert len(drawn) == 1000 and (np.diff(drawn) > 0).all()


def test_partial_fit_goes_on_after_a_fit(data):
    X, y = data
    model = bb.KernelRidge([0.01, 0.1, 1.0], bandwidth=[0.5, 1.0], random_state=0, rank=30, n_clusters=8)
    model.fit(X[:2000], y[:2000])
    chosen = model.alpha_, model.bandwidth_
    before = np.mean((model.predict(X[4000:]) - y[4000:]) ** 2)
    model.partial_fit(X[2000:4000], y[2000:4000])
    after = np.mean((model.predict(X[4000:]) - y[4000:]) ** 2)
    assert model.stream_.sums.n_rows == 4000 and (model.alpha_, model.bandwidth_) == chosen
    assert after < 1.1 * before
    assert not hasattr(model, "X_fit_")


def test_a_fit_that_kept_nothing_is_not_gone_on_with(data, tmp_path):
    X, y = data
    model = bb.KernelRidge(0.1, keep_points=False, **SETTINGS).fit(X[:500], y[:500])
    with pytest.raises(ValueError, match="goes on after a fit that kept its points"):
        model.partial_fit(X, y)
    bb.save(bb.KernelRidge(0.1, **SETTINGS).partial_fit(X[:500], y[:500]), tmp_path / "model.bbf")
    with pytest.raises(ValueError, match="Got a model that was loaded"):
        bb.load(tmp_path / "model.bbf").partial_fit(X, y)
    with pytest.raises(ValueError, match="choose_alpha goes on where partial_fit"):
        bb.load(tmp_path / "model.bbf").choose_alpha(X, y)


def test_a_saved_stream_predicts(data, whole, tmp_path):
    bb.save(whole, tmp_path / "model.bbf")
    again = bb.load(tmp_path / "model.bbf")
    np.testing.assert_array_equal(again.predict(data[0]), whole.predict(data[0]))
    assert again.far_share_ < 1e-3 and not hasattr(again, "stream_")


def test_a_held_out_stream_chooses_the_ridge(data):
    X, y = data
    model = bb.KernelRidge(1e3, **SETTINGS).partial_fit(X[:2000], y[:2000])
    alphas = [1e-6, 0.1, 1e3]
    errors = [
        np.mean((bb.KernelRidge(a, **SETTINGS).partial_fit(X[:2000], y[:2000]).predict(X[2000:]) - y[2000:]) ** 2)
        for a in alphas
    ]
    model.choose_alpha(ArrayRows(X[2000:]), y[2000:], alphas)
    assert model.alpha_ == alphas[int(np.argmin(errors))] == 0.1
    assert np.mean((model.predict(X[2000:]) - y[2000:]) ** 2) == pytest.approx(min(errors))


def test_a_list_of_ridges_is_chosen_among_at_held_out_rows(data):
    X, y = data
    model = bb.KernelRidge([1e-7, 0.1, 1e4], **SETTINGS).partial_fit(X[:1000], y[:1000])
    model.predict(X[:1])
    assert model.alpha_ == 0.1


def test_drift_is_reported_and_new_clusters_learn_it(data):
    X, y = data
    model = bb.KernelRidge(0.01, **SETTINGS).partial_fit(X, y)
    assert model.far_share_ < 1e-3
    shifted, targets = X + [6.0, 0.0], np.cos(2 * X[:, 0]) + X[:, 1]
    blind = pickle.loads(pickle.dumps(model)).partial_fit(shifted, targets)
    assert blind.far_share_ > 0.9
    before = model.predict(X)
    model.extend_clusters(ArrayRows(shifted)).partial_fit(shifted, targets)
    assert model.far_share_ < 0.05 and model.stream_.functions.n_clusters == 16
    assert model.score(shifted, targets) > 0.99 > blind.score(shifted, targets)
    inside = np.abs(X).max(axis=1) < 1
    np.testing.assert_allclose(model.predict(X)[inside], before[inside], atol=0.02)


def test_without_far_points_no_cluster_is_added(data, whole):
    model = pickle.loads(pickle.dumps(whole))
    assert model.extend_clusters(data[0]).stream_ is not None
    assert model.stream_.functions.n_clusters == 8
    np.testing.assert_array_equal(model.predict(data[0]), whole.predict(data[0]))


def test_bad_rows_leave_the_model_as_it_was(data):
    X, y = data
    model = bb.KernelRidge(0.1, **SETTINGS).partial_fit(X[:1000], y[:1000])
    before = model.predict(X)
    bad = ChunkRows([X[:3000], np.full((5, 2), np.nan)], 3005)
    with pytest.raises(ValueError, match="Got one in chunk 1, row 0"):
        model.partial_fit(bad, y[:3005])
    with pytest.raises(ValueError, match="X has 3 features, but KernelRidge is expecting 2 features"):
        model.partial_fit(np.zeros((5, 3)), np.zeros(5))
    with pytest.raises(ValueError, match="X has 3 features, but KernelRidge is expecting 2 features"):
        model.partial_fit(ArrayRows(np.zeros((5, 3))), np.zeros(5))
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.stream_.sums.n_rows == 1000


def test_several_bandwidths_are_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="'bandwidth' parameter of KernelRidge must be one bandwidth"):
        bb.KernelRidge(bandwidth=[0.5, 1.0]).partial_fit(X[:100], y[:100])


def test_the_first_call_may_be_one_point():
    model = bb.KernelRidge(0.1, bandwidth=1.0).partial_fit([[0.0, 0.0]], [1.0]).partial_fit([[1.0, 1.0]], [2.0])
    assert np.isfinite(model.predict([[0.5, 0.5]])).all()


def test_a_learnt_metric_is_that_of_the_first_rows(data):
    X, y = data
    settings = {"alpha": 0.1, "metric": "diagonal", "random_state": 0}
    in_memory = bb.KernelRidge(**settings).fit(X[:1500], y[:1500])
    model = bb.KernelRidge(**settings).partial_fit(X[:1500], y[:1500])
    model.partial_fit(X[1500:], y[1500:])
    np.testing.assert_allclose(model.metric_, in_memory.metric_, rtol=1e-2)  # of other samples
    assert model.score(X, y) > in_memory.score(X, y)


def test_a_search_is_that_of_the_first_rows(data):
    X, y = data
    model = bb.KernelRidgeCV(random_state=0, n_jobs=1).partial_fit(X[:600], y[:600]).partial_fit(X[600:], y[600:])
    assert model.score(X, y) > 0.98 and model.best_params_["alpha"] > 0


def test_a_second_fit_of_rows_begins_anew(data, whole):
    X, y = data
    model = bb.KernelRidge(bandwidth=1.0, alpha=1e-2, random_state=0).fit(X, y).fit(ArrayRows(X), y)
    first = model.predict(X[:20])
    np.testing.assert_array_equal(model.fit(ArrayRows(X), y).predict(X[:20]), first)


def test_the_first_call_keeps_the_names_of_the_columns(data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    frame = pandas.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    model = bb.KernelRidge(bandwidth=1.0, alpha=1e-2, random_state=0).partial_fit(frame, y)
    assert list(model.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])
