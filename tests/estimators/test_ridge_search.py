"""Choices that both searches make before they begin; the searches are tested in test_ridge_cv.py."""

from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._ridge_search import default_number_of_clusters, default_rank


@pytest.fixture
def data():
    X = np.random.default_rng(0).normal(size=(60, 2))
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture(params=[bb.KernelRidgeCV, bb.KernelRidgeClassifierCV])
def cls(request):
    return request.param


def test_the_total_rank_is_bounded_and_clusters_grow_with_the_points():
    sizes = [100, 1_000, 10_000, 10**5, 10**6, 10**7]
    ranks, clusters = [default_rank(n) for n in sizes], [default_number_of_clusters(n) for n in sizes]
    assert ranks == sorted(ranks, reverse=True)
    assert clusters == sorted(clusters)
    assert clusters[0] == 1
    assert ranks[0] * clusters[0] <= 100
    assert all(rank * k < n for n, rank, k in zip(sizes, ranks, clusters, strict=True))


def test_a_grid_of_ridges_is_kept(cls, data):
    model = cls(alphas=[1.0, 0.01], random_state=0, n_jobs=1).fit(*data)
    assert np.ravel(model.alpha_)[0] in (0.01, 1.0)
    assert set(model.cv_results_["param_alpha"]) <= {0.01, 1.0}


def test_a_gamma_is_kept_and_columns_stay_as_they_are(cls, data):
    model = cls(kernel="rbf", gamma=4.0, random_state=0, n_jobs=1).fit(*data)
    assert model.best_params_["bandwidth"] == pytest.approx(0.5)
    np.testing.assert_array_equal(model.scale_, 1)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"alphas": []}, ValueError, "'alphas' parameter of .* must have at least one ridge"),
        ({"alphas": [1.0, -1.0]}, ValueError, "'alphas' parameter of .* must be a positive"),
        ({"kernel": "laplacian", "gamma": 1.0}, ValueError, "'gamma' parameter of .* goes with kernel='rbf'"),
        ({"kernel": bb.Gaussian([1.0, 2.0])}, ValueError, "must be a radial kernel of one bandwidth"),
        pytest.param(  # the name of a function has its address, which differs from process to process
            {"kernel": lambda X, Y: X @ Y.T},
            ValueError,
            "radial kernel of one bandwidth.* Other kernels are for KernelRi",
            id="function",
        ),
        ({"metric": "skew"}, ValueError, "'metric' parameter of"),
        ({"standardize": "some"}, ValueError, "'standardize' parameter of"),
        ({"standardize": 3}, TypeError, "'standardize' parameter of"),
        ({"time_budget": 0.0}, ValueError, "'time_budget' parameter of"),
    ],
    ids=str,
)
def test_bad_parameters(cls, data, settings, error, message):
    with pytest.raises(error, match=message):
        cls(**settings).fit(*data)


@pytest.mark.parametrize(("scale", "views"), [(1.1, 1), (3.0, 2), (30.0, 1)])
def test_columns_are_left_as_they_are_only_where_that_differs_from_standardised_ones(scale, views):
    X = np.random.default_rng(0).uniform(size=(500, 2)) * [1.0, scale]
    assert len(bb.KernelRidgeCV()._views(X, None)) == views
