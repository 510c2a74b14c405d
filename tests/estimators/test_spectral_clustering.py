from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.cluster import SpectralClustering as Exact
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import blockbasis as bb
from blockbasis import SpectralClustering
from blockbasis.estimators.spectral_clustering import degrees, embedding, pivoted_labels
from tests.repeating import first_of

CASES = {
    "circles": (*make_circles(300, factor=0.4, noise=0.04, random_state=0), 0.25),
    "moons": (*make_moons(300, noise=0.05, random_state=0), 0.2),
    "blobs": (*make_blobs(300, centers=[[0, 0], [5, 0], [0, 5], [6, 6]], cluster_std=0.6, random_state=1), 1.0),
}


@pytest.fixture(params=CASES)
def case(request):
    X, truth, h = CASES[request.param]
    return X, truth, h, len(set(truth))


@pytest.mark.parametrize("assign_labels", ["kmeans", "cluster_qr"])
@pytest.mark.parametrize("settings", [{}, {"n_blocks": 6, "rank": 25}])
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_the_labels_of_scikit_learn_and_of_the_truth(case, assign_labels, settings, seed):
    X, truth, h, k = case
    theirs = Exact(k, gamma=1 / h**2, random_state=0, assign_labels=assign_labels).fit(X)
    ours = SpectralClustering(k, bandwidth=h, random_state=seed, assign_labels=assign_labels, **settings).fit(X)
    assert adjusted_rand_score(ours.labels_, truth) == 1
    assert adjusted_rand_score(ours.labels_, theirs.labels_) == 1
    assert ours.labels_.shape == (300,)


def test_the_embedding_is_that_of_the_dense_random_walk(many_points):
    A = bb.factorize(many_points, bb.Gaussian(0.5), n_clusters=4, rank=30, diagonal=False, rng=0)
    E = degrees(A, many_points)
    np.testing.assert_allclose(E, A.todense().sum(axis=1), rtol=1e-10)
    found = embedding(A, E, 5)
    walk = A.todense() / E[:, np.newaxis]
    values = np.einsum("ij,ij->j", found, walk @ found) / np.einsum("ij,ij->j", found, found)
    np.testing.assert_allclose(walk @ found, found * values, atol=1e-10)
    expected = np.sort(np.linalg.eigvalsh(A.todense() / np.sqrt(E[:, np.newaxis] * E)))[::-1][:5]
    np.testing.assert_allclose(values, expected, rtol=1e-9)


def test_isolated_points_have_a_degree_and_a_label():
    X = np.vstack((np.random.default_rng(0).normal(size=(200, 2)), [[50.0, 0.0], [0.0, -80.0]]))
    model = SpectralClustering(2, bandwidth=1.0, n_blocks=4, rank=10, random_state=0).fit(X)
    assert (degrees(model.affinity_matrix_, X) >= 1).all()
    assert set(model.labels_) <= {0, 1}


def test_pivots_find_indicator_vectors():
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [5, 20, 40]))
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    indicators = np.eye(3)[labels] / np.sqrt([5, 20, 40])
    assert adjusted_rand_score(pivoted_labels(indicators @ rotation), labels) == 1


def test_blocks_of_the_factorization_are_not_the_clusters_to_find(case):
    X, _, h, k = case
    model = SpectralClustering(k, bandwidth=h, n_blocks=7, rank=10, random_state=0).fit(X)
    assert model.affinity_matrix_.n_clusters == 7
    assert len(set(model.labels_)) == k


def test_the_seed_alone_decides_and_copies_are_equal(case):
    X, _, h, k = case
    settings = {"bandwidth": h, "n_blocks": 5, "rank": 10, "random_state": 2}
    first = SpectralClustering(k, **settings, n_jobs=1).fit(X)
    second = SpectralClustering(k, **settings, n_jobs=2).fit(X)
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).labels_, first.labels_)
    single = SpectralClustering(k, **settings).fit(X.astype(np.float32))
    assert adjusted_rand_score(single.labels_, first.labels_) == 1


def test_saved_and_loaded(case, tmp_path):
    X, _, h, k = case
    model = SpectralClustering(k, bandwidth=h, n_blocks=5, rank=10, random_state=2).fit(X)
    bb.save(model, tmp_path / "model.bbf")
    again = bb.load(tmp_path / "model.bbf")
    np.testing.assert_array_equal(again.labels_, model.labels_)
    np.testing.assert_array_equal(again.affinity_matrix_.todense(), model.affinity_matrix_.todense())


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_clusters": 0}, ValueError, "'n_clusters' parameter of SpectralClustering"),
        ({"n_clusters": 301}, ValueError, "at most 300"),
        ({"n_components": 2.5}, TypeError, "'n_components' parameter of SpectralClustering"),
        ({"n_blocks": 0}, ValueError, "'n_blocks' parameter of SpectralClustering"),
        ({"assign_labels": "discretize"}, ValueError, "'assign_labels' parameter of SpectralClustering"),
        ({"assign_labels": "cluster_qr", "n_components": 3}, ValueError, "must be None or n_clusters=2"),
        ({"n_clusters": 5, "n_blocks": 2, "rank": 2}, ValueError, "5 eigenvectors are wanted.*rank 4"),
        ({"bandwidth": 0.0}, ValueError, "'bandwidth' parameter of SpectralClustering"),
    ],
)
def test_bad_parameters(settings, error, message):
    X = CASES["moons"][0]
    with pytest.raises(error, match=message):
        SpectralClustering(**{"n_clusters": 2, "bandwidth": 0.25, "random_state": 0, **settings}).fit(X)
