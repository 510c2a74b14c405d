from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import issparse
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import HuberRegressor, LogisticRegression, PoissonRegressor, QuantileRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import blockbasis as bb
from tests.repeating import first_of


@pytest.fixture(scope="module")
def rough():
    """4,000 points in three columns: at a bandwidth of 0.5 the kernel has a rank of more than a thousand."""
    return np.random.default_rng(0).normal(size=(4000, 3))


def gram(features, others=None):
    product = features @ (features if others is None else others).T
    return product.toarray() if issparse(product) else product


def error(found, exact):
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


# --- features --------------------------------------------------------------------------------------------------------


def test_few_points_have_the_exact_kernel(rough):
    X, X_new = rough[:400], rough[400:500]
    features = bb.BlockBasisFeatures(400, bandwidth=1.0).fit(X)
    assert not issparse(features.transform(X))
    exact = bb.Gaussian(1.0)
    np.testing.assert_allclose(gram(features.transform(X)), exact(X), atol=1e-6)
    np.testing.assert_allclose(gram(features.transform(X_new), features.transform(X)), exact(X_new, X), atol=1e-4)


@pytest.mark.parametrize(("bandwidth", "seed"), first_of([(0.6, 0), (1.0, 1), (1.5, 2)]))
def test_nearer_to_the_kernel_than_nystroem_of_as_many_numbers(rough, bandwidth, seed):
    X, X_new = rough[:3000], rough[3000:]
    exact = bb.Gaussian(bandwidth)(X_new)
    ours = bb.BlockBasisFeatures(150, bandwidth=bandwidth, random_state=seed).fit(X).transform(X_new)
    theirs = Nystroem(gamma=bandwidth**-2, n_components=150, random_state=seed).fit(X).transform(X_new)
    assert (ours.nnz if issparse(ours) else ours.size) <= theirs.size
    assert error(gram(ours), exact) < 0.9 * error(gram(theirs), exact)


def test_the_form_is_the_one_that_is_nearer_to_the_kernel_matrix(rough):
    X = rough[:1200]
    forms = set()
    for bandwidth in (0.3, 1.0):
        exact = bb.Gaussian(bandwidth)(X)
        chosen, sparse, dense = (
            bb.BlockBasisFeatures(100, bandwidth=bandwidth, sparse_output=form, random_state=0).fit_transform(X)
            for form in ("auto", True, False)
        )
        assert issparse(sparse) and not issparse(dense)
        assert dense.shape[1] <= 100 and np.diff(sparse.indptr).max() <= 100
        assert error(gram(chosen), exact) <= 1.02 * min(error(gram(sparse), exact), error(gram(dense), exact))
        forms.add(issparse(chosen))
    assert forms == {True, False}


def test_far_points_have_features_of_bounded_length(rough):
    features = bb.BlockBasisFeatures(60, bandwidth=0.8, n_clusters=10, rank=20, random_state=0).fit(rough)
    for far in (2.0, 10.0, 1e6):
        squares = gram(features.transform(far * rough[:100])).diagonal()
        assert (squares < 1 + 1e-9).all()
    np.testing.assert_allclose(squares, 0, atol=1e-12)


@pytest.mark.parametrize("sparse", [True, False])
def test_linear_models_of_every_loss_follow(rough, sparse):
    X, y = rough[:700], np.sin(2 * rough[:700, 0]) + 0.5 * rough[:700, 1]
    features = bb.BlockBasisFeatures(80, bandwidth=2.0, sparse_output=sparse, n_clusters=5, rank=40, random_state=0)
    linear = Ridge(0.1).fit(X, y).score(X, y)
    for model, target in [
        (LogisticRegression(C=10), y > 0),
        (LinearSVC(C=10), y > 0),
        (PoissonRegressor(alpha=1e-4, max_iter=10_000), np.round(np.exp(y))),
        (HuberRegressor(alpha=0.1, max_iter=10_000), y),
        (QuantileRegressor(alpha=1e-6), y),
    ]:
        fitted = make_pipeline(features, model).fit(X, target)
        assert fitted.score(X, target) > max(linear, 0.6)


def test_names_frames_copies_and_single_precision(rough):
    frame = pd.DataFrame(rough[:1500], columns=list("abc"))
    settings = {"bandwidth": 1.0, "n_clusters": 4, "rank": 20, "random_state": 0}
    model = bb.BlockBasisFeatures(12, sparse_output=False, **settings).set_output(transform="pandas")
    table = model.fit_transform(frame)
    assert list(table.columns) == list(model.get_feature_names_out()) == [f"blockbasisfeatures{i}" for i in range(12)]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(frame), table)
    sparse = bb.BlockBasisFeatures(12, sparse_output=True, **settings)
    double, single = sparse.fit_transform(rough[:1500]), sparse.fit_transform(rough[:1500].astype(np.float32))
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    assert len(sparse.get_feature_names_out()) == single.shape[1]
    np.testing.assert_allclose(gram(single), gram(double), atol=1e-3)


@pytest.mark.parametrize("sparse", [True, False])
def test_saved_and_loaded(rough, tmp_path, sparse):
    model = bb.BlockBasisFeatures(20, bandwidth=1.0, n_clusters=4, rank=20, sparse_output=sparse, random_state=0)
    features = model.fit(rough).transform(rough[:50])
    bb.save(model, tmp_path / "model.bbf")
    again = bb.load(tmp_path / "model.bbf").transform(rough[:50])
    assert issparse(again) == sparse
    assert abs(again - features).max() == 0
    of_basis = 8 * 20 * len(rough)  # what all rows of U would take
    assert (tmp_path / "model.bbf").stat().st_size < 0.5 * of_basis


def test_the_seed_alone_decides(rough):
    settings = {"bandwidth": 0.5, "n_clusters": 6, "rank": 30, "sparse_output": True, "random_state": 1}
    first, second = (bb.BlockBasisFeatures(40, n_jobs=n, **settings).fit_transform(rough) for n in (1, 2))
    assert abs(first - second).max() == 0


@pytest.mark.parametrize(
    ("parameters", "kind", "message"),
    [
        ({"n_components": 0}, ValueError, "'n_components' parameter of BlockBasisFeatures"),
        ({"n_components": 2.5}, TypeError, "'n_components' parameter of BlockBasisFeatures"),
        ({"sparse_output": "yes"}, ValueError, "'sparse_output' parameter of BlockBasisFeatures"),
        ({"bandwidth": -1.0}, ValueError, "'bandwidth' parameter of BlockBasisFeatures"),
        ({"rank": 0}, ValueError, "'rank'"),
    ],
)
def test_bad_parameters_are_refused(rough, parameters, kind, message):
    with pytest.raises(kind, match=message):
        bb.BlockBasisFeatures(**parameters).fit(rough[:100])


def test_float32_points_of_a_smooth_kernel():
    """Coefficients of float32 left products of features off by 2%."""
    X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    kernel = bb.Cauchy(350.0)
    F = bb.BlockBasisFeatures(kernel=kernel, random_state=0).fit_transform(X)
    assert F.dtype == np.float32
    np.testing.assert_allclose(F @ F.T, kernel(X.astype(np.float64)), atol=1e-5)
