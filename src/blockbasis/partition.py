"""Partitions of points into clusters: contiguous ranges after a permutation, with centres and radii.

Clusters of small diameter are computed in linear time by k-means or k-centers (section 3.2.1 of the paper). Random
clusters are the paper's control.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import NearestNeighbors

from blockbasis._utils.validation import check_choice, check_labels

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

PARTITIONS = ("kmeans", "kcenters", "random")

#: Relative difference of radii that is due to the precision of the points.
_RADIUS_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Partition:
    """Points grouped into clusters.

    Parameters
    ----------
    order : ndarray of shape (n,)
        The caller's index of each point in cluster order: ``X[order]`` has every cluster in one piece.
    starts : ndarray of shape (n_clusters + 1,)
        Cluster i is ``X[order][starts[i]:starts[i + 1]]``.
    centers : ndarray of shape (n_clusters, d)
        Centres of the clusters. In a factorization, centres and radii are in the coordinates of the kernel: see
        `Kernel.coordinates`.
    radii : ndarray of shape (n_clusters,)
        Largest distance of a cluster's points from its centre.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> A = bb.factorize(X, bb.Gaussian(2.0), partition=np.arange(100) % 3, rank=10, rng=0)
    >>> A.partition.sizes.tolist()
    [34, 33, 33]
    >>> bool((A.partition.labels == np.arange(100) % 3).all())
    True
    """

    order: IntArray
    starts: IntArray
    centers: FloatArray
    radii: FloatArray

    @property
    def n_points(self) -> int:
        return int(self.order.shape[0])

    @property
    def n_clusters(self) -> int:
        return int(self.starts.shape[0]) - 1

    @property
    def sizes(self) -> IntArray:
        """Number of points of each cluster."""
        return np.diff(self.starts)

    @property
    def labels(self) -> IntArray:
        """The cluster of each point, in the caller's order."""
        labels = np.empty(self.n_points, dtype=np.intp)
        labels[self.order] = np.repeat(np.arange(self.n_clusters), self.sizes)
        return labels

    def cluster(self, i: int) -> slice:
        """Range of cluster ``i`` in cluster order."""
        return slice(int(self.starts[i]), int(self.starts[i + 1]))

    @property
    def clusters(self) -> tuple[slice, ...]:
        """Ranges of all clusters in cluster order."""
        return tuple(self.cluster(i) for i in range(self.n_clusters))

    def assign(self, X: FloatArray) -> IntArray:
        """The cluster whose centre is nearest to each row of ``X``."""
        return nearest(X, self.centers)

    def regroup(self, X: FloatArray) -> Partition:
        """Partition of other points by the nearest centre; clusters may be empty."""
        return _group(X, self.assign(X), self.centers)


def make_partition(X: FloatArray, n_clusters: int, method: Any, rng: np.random.Generator, *, caller: str) -> Partition:
    """Partition of ``X`` by the name of a method, by labels, or by a given `Partition` of these points.

    There are fewer clusters than ``n_clusters`` where there are fewer distinct points.
    """
    if isinstance(method, Partition):
        if method.n_points != X.shape[0] or method.centers.shape[1] != X.shape[1]:
            raise ValueError(
                f"The 'partition' parameter of {caller} must be of the points given, shape {X.shape}. Got one of "
                f"{method.n_points} points with {method.centers.shape[1]} columns instead."
            )
        if (method.sizes == 0).any():
            empty = int((method.sizes == 0).sum())
            raise ValueError(
                f"The 'partition' parameter of {caller} must have no empty cluster. Got {empty} of them instead."
            )
        return method if _has_radii(method, X) else from_labels(X, method.labels)
    if not isinstance(method, str):
        return from_labels(X, check_labels(method, X.shape[0], name="partition", caller=caller))
    check_choice(method, PARTITIONS, name="partition", caller=caller)
    return {"kmeans": kmeans, "kcenters": kcenters, "random": random_clusters}[method](X, n_clusters, rng)


def _has_radii(partition: Partition, X: FloatArray) -> bool:
    """Whether the radii are those of the given points: a partition may be in the coordinates of another kernel."""
    ordered = _group(X[partition.order], np.repeat(np.arange(partition.n_clusters), partition.sizes), partition.centers)
    return np.allclose(
        ordered.radii, partition.radii, rtol=_RADIUS_TOLERANCE, atol=_RADIUS_TOLERANCE * ordered.radii.max()
    )


@dataclass(frozen=True, eq=False)
class Partitioner:
    """Partitions of the same points by one method, for any number of clusters.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    method : str, Partition or labels
        As `make_partition` takes it.
    n_clusters : int or None
        Requested number of clusters; labels or a `Partition` must have this number.
    caller : str
        Name of the public function, for error messages.
    """

    X: FloatArray
    method: Any
    n_clusters: int | None
    caller: str

    @property
    def given(self) -> int | None:
        """The number of clusters where it is given; 1 for labels, which do not depend on it."""
        return self.n_clusters if isinstance(self.method, str) else 1

    @property
    def by_method(self) -> bool:
        """Whether the clusters are computed from the points, and not given."""
        return isinstance(self.method, str)

    def __call__(
        self,
        k: int,
        rng: np.random.Generator,
        subset: IntArray | None = None,
        effort: KMeansEffort | None = None,
    ) -> Partition:
        """Partition of the points, or of a subset, into ``k`` clusters, or by the given labels."""
        points = self.X if subset is None else self.X[subset]
        if effort is not None and isinstance(self.method, str) and self.method == "kmeans":
            return kmeans(points, k, rng, effort)
        partition = make_partition(points, k, self.method, rng, caller=self.caller)
        if self.n_clusters is not None and not self.by_method and partition.n_clusters != self.n_clusters:
            raise ValueError(
                f"The 'n_clusters' parameter of {self.caller} must be that of the partition given, "
                f"{partition.n_clusters}, or left out. Got {self.n_clusters} instead."
            )
        return partition


@dataclass(frozen=True)
class KMeansEffort:
    """Size of the subsample and number of iterations of k-means.

    Parameters
    ----------
    points, points_per_cluster : int
        Largest number of points of the subsample, in all or for each cluster, whichever is more.
    iterations : int
        Largest number of Lloyd iterations.
    """

    points: int
    points_per_cluster: int
    iterations: int


THOROUGH = KMeansEffort(20_000, 100, 100)
#: For planned factorizations: with more effort they would be smaller by a per cent or two.
QUICK = KMeansEffort(10_000, 50, 20)
#: For surveys, which compare numbers of clusters.
ROUGH = KMeansEffort(4_000, 20, 8)

#: The initial centres of more than ``_MANY_CLUSTERS`` clusters are chosen from this many points for each cluster, with
#: one candidate for each centre.
_MANY_CLUSTERS = 100
_INITIAL_POINTS_PER_CLUSTER = 10


def kmeans(X: FloatArray, n_clusters: int, rng: np.random.Generator, effort: KMeansEffort = THOROUGH) -> Partition:
    """k-means on a subsample when the points are many, then the nearest centre of every point."""
    limit = max(effort.points, effort.points_per_cluster * n_clusters)
    sample = X if X.shape[0] <= limit else X[np.sort(rng.choice(X.shape[0], limit, replace=False))]
    seed = int(rng.integers(2**31))
    initial: Any = "k-means++"
    if n_clusters > _MANY_CLUSTERS and effort is not THOROUGH:
        points = sample[rng.permutation(len(sample))[: _INITIAL_POINTS_PER_CLUSTER * n_clusters]]
        initial, _ = kmeans_plusplus(points, n_clusters, random_state=seed, n_local_trials=1)
    model = KMeans(n_clusters, init=initial, n_init=1, max_iter=effort.iterations, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct points than clusters
        model.fit(sample)
    labels = model.labels_ if sample is X else nearest(X, model.cluster_centers_)
    return from_labels(X, labels)


def kcenters(X: FloatArray, n_clusters: int, rng: np.random.Generator) -> Partition:
    """Farthest-point clustering: each centre is the point farthest from the previous centres."""
    first = int(rng.integers(X.shape[0]))
    chosen = [first]
    labels = np.zeros(X.shape[0], dtype=np.intp)
    nearest = _squared_distances_to(X, X[first])
    while len(chosen) < n_clusters:
        farthest = int(nearest.argmax())
        if nearest[farthest] == 0:  # every point is a centre already
            break
        squared = _squared_distances_to(X, X[farthest])
        closer = squared < nearest
        labels[closer] = len(chosen)
        nearest[closer] = squared[closer]
        chosen.append(farthest)
    return _group(X, labels, X[chosen])


def random_clusters(X: FloatArray, n_clusters: int, rng: np.random.Generator) -> Partition:
    """Random clusters of equal size."""
    labels = rng.permutation(np.arange(X.shape[0]) % n_clusters)
    return from_labels(X, labels)


def from_labels(X: FloatArray, labels: IntArray) -> Partition:
    """Partition by a label for each point, with one cluster for each distinct label."""
    _, compact = np.unique(labels, return_inverse=True)
    sizes = np.bincount(compact)
    order = np.argsort(compact, kind="stable")
    sums = np.add.reduceat(X[order], np.cumsum(sizes) - sizes, axis=0, dtype=np.float64)
    return _group(X, compact, sums / sizes[:, np.newaxis])


def _group(X: FloatArray, labels: IntArray, centers: FloatArray) -> Partition:
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(centers.shape[0] + 1))
    distances = np.sqrt(_squared_distances_to(X[order], centers[labels[order]]))
    radii = np.array([distances[a:b].max(initial=0.0) for a, b in zip(starts[:-1], starts[1:], strict=True)])
    centers = np.ascontiguousarray(centers, dtype=np.float64)
    for array in (order, starts, centers, radii):
        array.setflags(write=False)
    return Partition(order, starts, centers, radii)


def nearest(X: FloatArray, centers: FloatArray) -> IntArray:
    """The nearest centre of each point, computed in coordinates relative to the mean centre to avoid cancellation."""
    middle = centers.mean(axis=0)
    return np.asarray(pairwise_distances_argmin(X - middle, centers - middle), dtype=np.intp)


def two_nearest(X: FloatArray, centers: FloatArray) -> IntArray:
    """The two nearest centres of each point, of shape (n, 2); the same centre twice where there is only one."""
    indices = nearest_points(centers, X, min(2, len(centers)))
    return indices if len(centers) > 1 else np.repeat(indices, 2, axis=1)


def nearest_points(X: FloatArray, places: FloatArray, count: int) -> IntArray:
    """The ``count`` points of X nearest to each of the ``places``, computed in the dtype of the places."""
    middle = X.mean(axis=0)
    search = NearestNeighbors(n_neighbors=count, algorithm="brute").fit((X - middle).astype(places.dtype))
    return np.asarray(search.kneighbors((places - middle).astype(places.dtype), return_distance=False))


def _squared_distances_to(X: FloatArray, places: FloatArray) -> FloatArray:
    difference = X - places
    return np.asarray(np.einsum("ij,ij->i", difference, difference, dtype=np.float64))
