from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist

from blockbasis import Partition, partition
from blockbasis.partition import from_labels, kcenters, kmeans, make_partition, random_clusters

METHODS = {"kmeans": kmeans, "kcenters": kcenters, "random": random_clusters}


@pytest.fixture(params=METHODS)
def method(request):
    return METHODS[request.param]


@pytest.fixture
def blobs():
    """Five clouds of 30 points, far apart, in random order, with the number of each point's cloud."""
    rng = np.random.default_rng(0)
    cloud = rng.permutation(np.repeat(np.arange(5), 30))
    return 100.0 * np.eye(5)[cloud] + rng.normal(size=(150, 5)), cloud


def assert_valid(parts: Partition, X):
    """What every partition promises, whatever made it."""
    n, k = len(X), parts.n_clusters
    rounding = 1e-12 if X.dtype == np.float64 else 1e-6
    assert parts.n_points == n
    np.testing.assert_array_equal(np.sort(parts.order), np.arange(n))
    assert parts.starts[0] == 0
    assert parts.starts[-1] == n
    assert parts.sizes.min() >= 1, "an empty cluster"
    assert len(parts.clusters) == len(parts.radii) == len(parts.centers) == len(parts.sizes) == k
    for i, cluster in enumerate(parts.clusters):
        members = parts.order[cluster]
        np.testing.assert_array_equal(parts.labels[members], i)
        reach = np.linalg.norm(X[members] - parts.centers[i], axis=1).max()
        assert parts.radii[i] == pytest.approx(reach, rel=rounding, abs=1e-300)
        assert cluster.stop - cluster.start == parts.sizes[i]


# --- every method ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 7, 60])
def test_clusters_are_contiguous_ranges_of_a_permutation(method, points, k):
    parts = method(points, k, np.random.default_rng(0))
    assert_valid(parts, points)
    assert parts.n_clusters == k


def test_as_many_clusters_as_points(method, points):
    parts = method(points, len(points), np.random.default_rng(0))
    np.testing.assert_array_equal(parts.sizes, 1)
    np.testing.assert_allclose(parts.radii, 0, atol=1e-14)


def test_one_point(method):
    parts = method(np.array([[1.0, 2.0]]), 1, np.random.default_rng(0))
    assert_valid(parts, np.array([[1.0, 2.0]]))
    np.testing.assert_array_equal(parts.centers, [[1.0, 2.0]])


@pytest.mark.parametrize("method", ["kmeans", "kcenters"])
def test_fewer_places_than_clusters(method):
    X = np.repeat(np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]]), 6, axis=0)
    parts = METHODS[method](X, 5, np.random.default_rng(0))
    assert_valid(parts, X)
    assert parts.n_clusters == 3
    np.testing.assert_array_equal(parts.radii, 0)


@pytest.mark.parametrize("method", ["kmeans", "kcenters"])
def test_separate_clouds_are_found(method, blobs):
    X, cloud = blobs
    for seed in range(3):
        labels = METHODS[method](X, 5, np.random.default_rng(seed)).labels
        assert len(set(zip(labels, cloud, strict=True))) == 5


def test_the_same_seed_gives_the_same_clusters(method, points):
    first, second = (method(points, 6, np.random.default_rng(5)) for _ in range(2))
    for field in dataclasses.fields(Partition):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name))


def test_float32_points(method, points):
    X = points.astype(np.float32)
    parts = method(X, 5, np.random.default_rng(0))
    assert_valid(parts, X)
    assert parts.centers.dtype == np.float64


def test_partition_is_frozen(points):
    parts = kmeans(points, 4, np.random.default_rng(0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        parts.order = parts.order
    for field in dataclasses.fields(Partition):
        with pytest.raises(ValueError, match="read-only"):
            getattr(parts, field.name)[0] = 0


# --- each method -----------------------------------------------------------------------------------------------------


def test_kmeans_centres_are_means(points):
    parts = kmeans(points, 6, np.random.default_rng(0))
    for i, cluster in enumerate(parts.clusters):
        np.testing.assert_allclose(parts.centers[i], points[parts.order[cluster]].mean(axis=0), rtol=1e-12)


def test_kmeans_clusters_are_tighter_than_random_ones(points):
    def scatter(parts):
        return sum((parts.sizes * parts.radii**2).tolist())

    rng = np.random.default_rng(0)
    assert scatter(kmeans(points, 8, rng)) < scatter(random_clusters(points, 8, rng)) / 3


def test_kmeans_of_many_points_sees_a_subsample_and_assigns_all(blobs, monkeypatch):
    fitted = []

    class Spy(partition.KMeans):
        def fit(self, X, *args, **kwargs):
            fitted.append(len(X))
            return super().fit(X, *args, **kwargs)

    monkeypatch.setattr(partition, "KMeans", Spy)
    X, cloud = blobs
    parts = kmeans(X, 5, np.random.default_rng(0), partition.KMeansEffort(40, 2, 100))
    assert fitted == [40]
    assert_valid(parts, X)
    assert len(set(zip(parts.labels, cloud, strict=True))) == 5
    kmeans(X, 30, np.random.default_rng(0), partition.KMeansEffort(40, 2, 100))
    assert fitted == [40, 60]  # at least so many for each cluster


def test_kcenters_is_farthest_point_clustering(points):
    """Gonzalez: centres are points, each point is with its nearest, no two centres are closer than a radius."""
    parts = kcenters(points, 7, np.random.default_rng(0))
    to_centres = cdist(points, parts.centers)
    np.testing.assert_allclose(to_centres[np.arange(len(points)), parts.labels], to_centres.min(axis=1), atol=1e-14)
    assert to_centres.min(axis=0).max() == 0
    between = cdist(parts.centers, parts.centers)[np.triu_indices(7, 1)]
    assert parts.radii.max() <= between.min() + 1e-14


def test_random_clusters_have_equal_sizes(points):
    parts = random_clusters(points, 7, np.random.default_rng(0))
    assert np.ptp(parts.sizes) <= 1
    other = random_clusters(points, 7, np.random.default_rng(1))
    assert (parts.labels != other.labels).any()


@given(
    arrays(np.int64, st.integers(1, 30), elements=st.integers(-4, 4)),
    st.integers(0, 2**31 - 1),
)
def test_given_labels_of_any_kind(labels, seed):
    X = np.random.default_rng(seed).normal(size=(len(labels), 2))
    parts = from_labels(X, labels)
    assert_valid(parts, X)
    assert parts.n_clusters == len(set(labels.tolist()))
    same = parts.labels[:, np.newaxis] == parts.labels
    np.testing.assert_array_equal(same, labels[:, np.newaxis] == labels)
    np.testing.assert_allclose(parts.centers[0], X[labels == labels.min()].mean(axis=0), atol=1e-12)


# --- by argument -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_make_partition_by_name(points, name):
    parts = make_partition(points, 5, name, np.random.default_rng(3), caller="f")
    np.testing.assert_array_equal(parts.labels, METHODS[name](points, 5, np.random.default_rng(3)).labels)


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda x: np.array(x, dtype=np.uint8)])
def test_make_partition_by_labels(points, kind):
    labels = [7 * (i % 3) for i in range(len(points))]
    parts = make_partition(points, 99, kind(labels), np.random.default_rng(0), caller="f")
    np.testing.assert_array_equal(parts.labels, np.arange(len(points)) % 3)


def test_make_partition_keeps_a_partition(points):
    parts = kmeans(points, 5, np.random.default_rng(0))
    assert make_partition(points, 2, parts, np.random.default_rng(0), caller="f") is parts


@pytest.mark.parametrize("cut", [(slice(0, 100), slice(None)), (slice(None), slice(0, 2))])
def test_partition_of_other_points(points, cut):
    parts = kmeans(points, 5, np.random.default_rng(0))
    with pytest.raises(ValueError) as caught:
        make_partition(points[cut], 5, parts, np.random.default_rng(0), caller="factorize")
    for part in ("'partition' parameter of factorize", str(points[cut].shape), "Got one of 160 points with 3 columns"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("bad", "error", "parts"),
    [
        ("spectral", ValueError, ["one of 'kmeans', 'kcenters', 'random'", "'spectral'"]),
        (np.zeros(159, dtype=int), ValueError, ["one label for each of the 160 points", "(159,)"]),
        (np.zeros((160, 1), dtype=int), ValueError, ["one label for each of the 160 points", "(160, 1)"]),
        (None, ValueError, ["one label for each of the 160 points"]),
        (np.zeros(160), TypeError, ["integers", "float64"]),
        (["a"] * 160, TypeError, ["integers", "<U1"]),
    ],
)
def test_bad_partition(points, bad, error, parts):
    with pytest.raises(error) as caught:
        make_partition(points, 5, bad, np.random.default_rng(0), caller="factorize")
    for part in ["'partition' parameter of factorize must be", *parts]:
        assert part in str(caught.value)


# --- other points ----------------------------------------------------------------------------------------------------


def test_new_points_go_to_the_nearest_centre(blobs):
    X, cloud = blobs
    parts = from_labels(X, cloud)
    rng = np.random.default_rng(1)
    new = rng.normal(size=(40, 5)) * 60
    expected = cdist(new, parts.centers).argmin(axis=1)
    np.testing.assert_array_equal(parts.assign(new), expected)
    np.testing.assert_array_equal(parts.assign(new.astype(np.float32)), expected)
    np.testing.assert_array_equal(parts.regroup(new).labels, expected)


def test_regrouping_may_leave_clusters_empty(blobs):
    X, cloud = blobs
    parts = from_labels(X, cloud)
    grouped = parts.regroup(X[cloud == 3][:4])
    np.testing.assert_array_equal(grouped.sizes, [0, 0, 0, 4, 0])
    np.testing.assert_array_equal(grouped.centers, parts.centers)
    np.testing.assert_array_equal(grouped.radii[[0, 1, 2, 4]], 0)
    assert grouped.radii[3] > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearest_places_far_from_the_origin(dtype):
    rng = np.random.default_rng(0)
    X, centers = (rng.normal(size=(200, 3)) + 1e3).astype(dtype), rng.normal(size=(6, 3)) + 1e3
    distances = cdist(X.astype(np.float64), centers)
    np.testing.assert_array_equal(partition.two_nearest(X, centers), np.argsort(distances, axis=1)[:, :2])
    around = partition.nearest_points(X, centers, 10)
    np.testing.assert_array_equal(np.sort(around), np.sort(np.argsort(distances.T, axis=1)[:, :10]))


def test_the_two_nearest_of_one_centre_are_the_same():
    np.testing.assert_array_equal(partition.two_nearest(np.zeros((3, 2)), np.ones((1, 2))), np.zeros((3, 2)))
