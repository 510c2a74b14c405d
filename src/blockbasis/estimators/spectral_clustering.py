"""Spectral clustering with compressed affinity matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg
from sklearn.base import ClusterMixin
from sklearn.cluster import KMeans

from blockbasis._utils.linalg import leading_eigenpairs
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.validation import check_choice, check_integer
from blockbasis.estimators._base import KernelEstimator, all_or_nothing, bandwidth_of
from blockbasis.operators.storage import storable
from blockbasis.solvers.eigen import with_signs
from blockbasis.solvers.woodbury import congruent, orthonormalizing, triangular_solve

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.operators.block_basis import BlockBasis

_ASSIGNMENTS = ("kmeans", "cluster_qr")


def degrees(A: BlockBasis, X: FloatArray) -> FloatArray:
    """Row sums of an affinity matrix. The degree of an isolated point is its affinity to itself."""
    assert A.kernel is not None
    own = A.kernel.without_noise().diagonal(X).astype(np.float64)
    return np.maximum(A._apply(np.ones((A.shape[0], 1)))[:, 0], own)


def embedding(A: BlockBasis, degrees: FloatArray, n_components: int) -> FloatArray:
    """Leading eigenvectors of the random walk on the points, of shape (n, n_components).

    Let E be the diagonal matrix of the degrees, and E^(-1/2) U = Q R. The eigenpairs of
    E^(-1/2) A E^(-1/2) = Q (R C Rᵀ) Qᵀ follow from those of a matrix of the size of C. Its eigenvectors, divided by the
    roots of the degrees, are those of E^-1 A.
    """
    triangles = orthonormalizing(A.basis, degrees)
    _, small = leading_eigenpairs(congruent(A.inner, triangles), n_components)
    vectors = A.basis.expand(triangular_solve(triangles, small))
    return with_signs(vectors / degrees[:, np.newaxis])


def pivoted_labels(vectors: FloatArray) -> IntArray:
    """Labels by pivoted QR, which selects a typical point of each cluster and rotates the vectors towards them.

    References
    ----------
    A. Damle, V. Minden and L. Ying, "Simple, direct and efficient multi-way spectral clustering", Information and
    Inference 8 (2019).
    """
    _, pivots = linalg.qr(vectors.T, mode="r", pivoting=True)
    rotation, _ = linalg.polar(vectors[pivots[: vectors.shape[1]]].T)
    return np.asarray(np.abs(vectors @ rotation).argmax(axis=1), dtype=np.intp)


@storable
class SpectralClustering(ClusterMixin, KernelEstimator):
    """Spectral clustering of many points.

    The parameters are those of scikit-learn's ``SpectralClustering``. The affinity matrix is compressed.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters to find, as in scikit-learn. ``n_blocks`` is the number of clusters of the factorization.
    n_components : int, default=None
        Number of eigenvectors. None uses ``n_clusters``.
    kernel : str, Kernel or callable, default="gaussian"
        Affinity, which must not be negative; see `KernelRidge`.
    bandwidth : float, "median" or None, default=None
        See `KernelRidge`.
    n_init : int, default=10
        Number of starts of k-means.
    assign_labels : {"kmeans", "cluster_qr"}, default="kmeans"
        Method that computes the labels from the eigenvectors. "cluster_qr" is deterministic, and needs as many
        eigenvectors as clusters.
    tol, memory, n_blocks, rank
        Accuracy or size of the compression: ``tol``, ``memory``, ``n_clusters`` and ``rank`` of
        `blockbasis.factorize`. If ``tol``, ``memory`` and ``rank`` are None, up to 1,000 points are stored exactly, and
        more points with 100 floats for each point.
    random_state : int, RandomState or None, default=None
        Seed.
    n_jobs : int, default=None
        Number of threads. None uses one for each core.
    verbose : int, default=0
        If above 0, show progress.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Label of each point.
    affinity_matrix_ : BlockBasis
        Compressed affinity matrix, with its diagonal.
    kernel_ : Kernel
        Kernel with its bandwidth.
    bandwidth_ : float, ndarray of shape (n_features,) or None
        Bandwidth of the kernel.
    n_features_in_ : int

    Notes
    -----
    scikit-learn sets the affinity of each point to itself to zero. Here it is as large as the compressed matrix
    contains it. The difference matters for isolated points only.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> angles = np.random.default_rng(0).uniform(0, 2 * np.pi, size=600)
    >>> rings = np.repeat([1.0, 3.0], 300)[:, np.newaxis] * np.column_stack((np.cos(angles), np.sin(angles)))
    >>> labels = bb.SpectralClustering(2, bandwidth=0.5, random_state=0).fit_predict(rings)
    >>> len(set(labels[:300])), len(set(labels[300:])), bool(labels[0] != labels[-1])
    (1, 1, True)
    """

    _partition_parameter = "n_blocks"

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_components: int | None = None,
        kernel: Any = "gaussian",
        bandwidth: Any = None,
        n_init: int = 10,
        assign_labels: str = "kmeans",
        tol: float | None = None,
        memory: int | str | None = None,
        n_blocks: int | None = None,
        rank: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.n_init = n_init
        self.assign_labels = assign_labels
        self.tol = tol
        self.memory = memory
        self.n_blocks = n_blocks
        self.rank = rank
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> SpectralClustering:
        """Cluster the points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        X = self._check_X(X, reset=True)
        n_clusters, n_components = self._counts(X.shape[0])
        streams = self._streams(3)
        A = self._factorize(X, self._kernel(self._bandwidth(X, streams[0])), streams[1])
        if n_components > A.ranks.sum():
            raise ValueError(
                f"{n_components} eigenvectors are wanted, and the compressed matrix has rank {A.ranks.sum()}. "
                f"Give {self._caller} fewer n_clusters, a larger memory or rank, or a smaller tol."
            )
        with single_threaded():
            found = embedding(A, degrees(A, X), n_components)
            if self.assign_labels == "cluster_qr":
                self.labels_ = pivoted_labels(found)
            else:
                seed = int(streams[2].integers(2**31))
                self.labels_ = KMeans(n_clusters, n_init=self.n_init, random_state=seed).fit(found).labels_
        self.affinity_matrix_ = A
        self.kernel_ = A.kernel
        self.bandwidth_ = bandwidth_of(self.kernel_)
        return self

    def _counts(self, n: int) -> tuple[int, int]:
        """Numbers of clusters and of eigenvectors."""
        check_choice(self.assign_labels, _ASSIGNMENTS, name="assign_labels", caller=self._caller)
        n_clusters = check_integer(self.n_clusters, name="n_clusters", caller=self._caller, low=1, high=n)
        if self.n_components is None:
            return n_clusters, n_clusters
        n_components = check_integer(self.n_components, name="n_components", caller=self._caller, low=1, high=n)
        if self.assign_labels == "cluster_qr" and n_components != n_clusters:
            raise ValueError(
                f"The 'n_components' parameter of {self._caller} must be None or n_clusters={n_clusters} for "
                f"assign_labels='cluster_qr'. Got {n_components} instead."
            )
        return n_clusters, n_components
