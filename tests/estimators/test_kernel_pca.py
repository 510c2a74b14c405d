from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import KernelPCA as Exact
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import blockbasis as bb
from blockbasis import KernelPCA
from blockbasis.estimators.kernel_pca import centred_eigh
from tests.repeating import first_of


@pytest.fixture
def centred():
    """H A H by plain arithmetic."""

    def of(A):
        dense = A.todense().astype(np.float64)
        return dense - dense.mean(axis=0) - dense.mean(axis=1, keepdims=True) + dense.mean()

    return of


@pytest.mark.parametrize(
    ("k", "rank", "dtype"), [(1, 5, float), (4, 12, float), (4, 12, np.float32), (3, 200, float), (1, 160, float)]
)
def test_centred_eigenpairs_are_those_of_the_dense_matrix(points, centred, k, rank, dtype):
    A = bb.factorize(points, bb.Gaussian(0.5), n_clusters=k, rank=rank, diagonal=False, dtype=dtype, rng=0)
    values, vectors = centred_eigh(A, 5)
    M = centred(A)
    tol = 1e-10 if dtype is float else 1e-5
    np.testing.assert_allclose(values, np.linalg.eigvalsh(M)[::-1][:5], rtol=tol, atol=tol)
    np.testing.assert_allclose(M @ vectors, vectors * values, atol=10 * tol * values[0])
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=tol)
    np.testing.assert_allclose(vectors.sum(axis=0), 0, atol=1e-6)


def test_a_constant_vector_nearly_in_the_basis(points):
    A = bb.factorize(points, bb.Gaussian(1e4), n_clusters=2, rank=3, diagonal=False, rng=0)
    values, vectors = centred_eigh(A, 1)
    assert np.isfinite(vectors).all()
    assert values[0] >= 0


@pytest.mark.parametrize("settings", [{}, {"n_clusters": 3, "rank": 110}])
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_equal_to_scikit_learns(many_points, settings, seed):
    X, X_new = many_points[:500], many_points[500:]
    theirs = Exact(6, kernel="rbf", gamma=1.0, eigen_solver="dense").fit(X)
    ours = KernelPCA(6, bandwidth=1.0, random_state=seed, **settings)
    scores = ours.fit_transform(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-5)
    np.testing.assert_allclose(ours.eigenvectors_, theirs.eigenvectors_, atol=1e-4)
    np.testing.assert_allclose(scores, theirs.transform(X), atol=1e-3)
    np.testing.assert_allclose(ours.transform(X_new), theirs.transform(X_new), atol=1e-3)


def test_all_components_that_are_not_zero(points):
    ours, theirs = KernelPCA(bandwidth=3.0).fit(points), Exact(kernel="rbf", gamma=1 / 9).fit(points)
    assert abs(len(ours.eigenvalues_) - len(theirs.eigenvalues_)) <= 3  # the threshold meets rounding
    np.testing.assert_allclose(ours.eigenvalues_[:40], theirs.eigenvalues_[:40], rtol=1e-4)
    assert (ours.eigenvalues_ > 0).all()
    few = KernelPCA(bandwidth=0.5, n_clusters=4, rank=5, random_state=0).fit(points)
    assert len(few.eigenvalues_) == 20


def test_points_that_are_all_the_same():
    model = KernelPCA(2, bandwidth=1.0)
    np.testing.assert_allclose(model.fit_transform(np.ones((10, 2))), 0, atol=1e-7)


def test_more_components_than_there_are(points):
    assert KernelPCA(1000, bandwidth=0.5).fit(points).eigenvalues_.shape == (160,)
    with pytest.raises(ValueError, match="'n_components' parameter of KernelPCA must be at most 20"):
        KernelPCA(21, bandwidth=0.5, n_clusters=4, rank=5).fit(points)
    with pytest.raises(ValueError, match="'n_components'"):
        KernelPCA(0).fit(points)
    with pytest.raises(TypeError, match="'n_components'"):
        KernelPCA(1.5).fit(points)
    with pytest.raises(NotFittedError):
        KernelPCA().transform(points)


def test_pandas_pipelines_grids_and_copies(points):
    frame = pd.DataFrame(points, columns=list("abc"))
    model = KernelPCA(2, bandwidth=0.5, random_state=0).set_output(transform="pandas")
    scores = model.fit_transform(frame)
    assert list(scores.columns) == ["kernelpca0", "kernelpca1"]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(frame), model.transform(frame))
    single = clone(model).set_output(transform="default").fit(points.astype(np.float32))
    np.testing.assert_allclose(single.eigenvalues_, model.eigenvalues_, rtol=1e-4)
    y = np.sin(9 * points[:, 0])
    search = GridSearchCV(
        make_pipeline(KernelPCA(random_state=0), Ridge(1e-3)), {"kernelpca__bandwidth": [0.5, 1e3]}, cv=3
    ).fit(points, y)
    assert search.best_params_ == {"kernelpca__bandwidth": 0.5}


def test_saved_and_loaded(points, tmp_path):
    model = KernelPCA(3, bandwidth=0.5, n_clusters=3, rank=10, random_state=0).fit(points)
    bb.save(model, tmp_path / "model.bbf")
    again = bb.load(tmp_path / "model.bbf")
    np.testing.assert_array_equal(again.transform(points), model.transform(points))
    np.testing.assert_array_equal(again.eigenvalues_, model.eigenvalues_)


def test_the_seed_alone_decides(many_points):
    settings = {"bandwidth": 0.5, "n_clusters": 5, "rank": 6, "random_state": 1}
    first = KernelPCA(3, **settings, n_jobs=1).fit(many_points)
    second = KernelPCA(3, **settings, n_jobs=2).fit(many_points)
    np.testing.assert_array_equal(first.eigenvectors_, second.eigenvectors_)


@pytest.mark.parametrize("n", [21, 35])
def test_points_that_are_all_isolated(n):
    X = np.random.default_rng(0).normal(size=(n, 3))
    model = KernelPCA(n_components=2, kernel=bb.Gaussian(1e-80), random_state=0).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, 1, rtol=1e-12)
