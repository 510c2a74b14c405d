"""Explicit features of compressed kernels, for linear models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from blockbasis._utils.progress import reporting
from blockbasis._utils.validation import check_choice, check_integer
from blockbasis.estimators._base import KernelEstimator, all_or_nothing, bandwidth_of
from blockbasis.estimators._feature_map import FeatureMap, leading_root, left_out, own_roots
from blockbasis.operators.storage import storable

if TYPE_CHECKING:
    from blockbasis.operators.block_basis import BlockBasis

#: In sparse features, at least this share of the components is shared by all clusters.
_SHARED = 0.25
#: Default size of the factorization: floats for each point and component.
_FLOATS_PER_COMPONENT = 0.5
_SPARSE = ("auto",)


@storable
class BlockBasisFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Features phi(x) of a compressed kernel with phi(x) phi(y)ᵀ ~ k(x, y), for linear models.

    It replaces scikit-learn's ``Nystroem``: a linear model of these features, with any loss, approximates the kernel
    method with that loss. With the same number of components for each point, the features are more accurate at small
    bandwidths, because most components are specific to a cluster.

    Parameters
    ----------
    n_components : int, default=500
        Maximum number of nonzeros in a row of the features.
    kernel : str, Kernel or callable, default="gaussian"
        See `KernelRidge`. White noise is ignored.
    bandwidth : float, "median" or None, default=None
        See `KernelRidge`.
    sparse_output : bool or "auto", default="auto"
        If True, the features are a sparse matrix. A quarter of ``n_components``, or more if ranks are small, are
        columns that all points share; the others belong to the cluster of the point. If False, they are an array of
        ``n_components`` columns that all points share. "auto" chooses the form with the smaller error in the Frobenius
        norm.
    tol, memory, n_clusters, rank
        Accuracy or size of the compression, as in `blockbasis.factorize`, without a diagonal part. If ``tol``,
        ``memory`` and ``rank`` are None, up to 1,000 points are stored exactly, and more points with
        ``n_components / 2`` floats for each point. If ``n_clusters`` and ``tol`` are None, there are
        sqrt(n_samples) / 4 clusters.
    random_state : int, RandomState or None, default=None
        Seed.
    n_jobs : int, default=None
        Number of threads. None uses one for each core.
    verbose : int, default=0
        If above 0, show progress.

    Attributes
    ----------
    feature_map_ : FeatureMap
        Some points of each cluster, and matrices whose size is its rank.
    kernel_ : Kernel
        Kernel with its bandwidth.
    bandwidth_ : float, ndarray of shape (n_features,) or None
        Bandwidth of the kernel.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    KernelRidge, KernelRidgeClassifier : Ridge regressions, which can choose ridge and bandwidth.
    KernelPCA : Centred and uncorrelated components.

    Notes
    -----
    Let K ~ U C Uᵀ, and let u(x) extend the rows of U to new points; only the columns of the cluster of x are nonzero in
    u(x). With C = L Lᵀ, the features u(x) L would have as many nonzeros as C has columns. Instead, C is split into a
    part of low rank W Wᵀ, which represents smooth functions on all clusters, and the diagonal blocks of the remainder,
    C_ii - W_i W_iᵀ = L_i L_iᵀ. The features are phi(x) = [u(x) W_i, u(x) L_i]. For two points in one cluster,
    phi(x) phi(y)ᵀ is the kernel of the factorization, truncated to ``n_components``; for points in different clusters,
    it is the part of low rank. With ``sparse_output=False``, the features are the leading directions of the whole
    matrix. They suffice for smooth kernels, and are inaccurate for small bandwidths.

    A linear model has one coefficient for each column, and the sparse matrix has about as many columns as C. Linear
    models of scikit-learn accept sparse matrices; ``set_output(transform="pandas")`` needs ``sparse_output=False``.
    The features are discontinuous at the borders between clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> import blockbasis as bb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(3000, 2))
    >>> y = np.sin(4 * X[:, 0]) * np.sin(4 * X[:, 1]) > 0
    >>> model = make_pipeline(bb.BlockBasisFeatures(100, bandwidth=0.5, random_state=0), LogisticRegression(C=100))
    >>> model.fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) > 0.95
    True
    >>> features = model[0].transform(X[2000:])
    >>> features.shape
    (1000, 100)
    >>> exact = bb.Gaussian(0.5)(X[2000:])
    >>> bool(np.linalg.norm(features @ features.T - exact) < 0.05 * np.linalg.norm(exact))
    True
    """

    def __init__(
        self,
        n_components: int = 500,
        *,
        kernel: Any = "gaussian",
        bandwidth: Any = None,
        sparse_output: bool | str = "auto",
        tol: float | None = None,
        memory: int | str | None = None,
        n_clusters: int | None = None,
        rank: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.sparse_output = sparse_output
        self.tol = tol
        self.memory = memory
        self.n_clusters = n_clusters
        self.rank = rank
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> BlockBasisFeatures:
        """Compress the kernel matrix of points, and compute a root of its inner matrix.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        X = self._check_X(X, reset=True)
        count = self._count()
        of_bandwidth, of_matrix, of_roots = self._streams(3)
        X = X.astype(np.float64, copy=False)  # coefficients of smooth kernels amplify rounding errors
        A = self._factorize(X, self._kernel(self._bandwidth(X, of_bandwidth)), of_matrix)
        self.feature_map_ = self._map(A, count, of_roots)
        self.kernel_ = A.kernel
        self.bandwidth_ = bandwidth_of(self.kernel_)
        return self

    def transform(self, X: Any) -> Any:
        """Features of points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray or csr_array of shape (n_samples, n_features_out)
        """
        check_is_fitted(self)
        X = self._check_X(X, reset=False)
        with reporting(self.verbose > 0):
            return self.feature_map_(X.astype(np.float64, copy=False), self._threads()).astype(X.dtype, copy=False)

    def _count(self) -> int:
        return check_integer(self.n_components, name="n_components", caller=self._caller, low=1)

    def _map(self, A: BlockBasis, count: int, rng: np.random.Generator) -> FeatureMap:
        """Feature map in the requested form, or in the form with the smaller error."""
        either = not isinstance(self.sparse_output, (bool, np.bool_))
        if either:
            check_choice(self.sparse_output, _SPARSE, name="sparse_output", caller=self._caller)
        if self.sparse_output is False or (either and (A.n_clusters == 1 or A.ranks.sum() <= count)):
            return FeatureMap.of(A, leading_root(A.inner, count, rng), None)
        shared = leading_root(A.inner, _n_shared(A, count), rng)
        own = own_roots(A.inner, shared, count - shared.shape[1])
        if either:
            leading = leading_root(A.inner, count, rng)
            if left_out(A.inner, leading, None) <= left_out(A.inner, shared, own):
                return FeatureMap.of(A, leading, None)
        return FeatureMap.of(A, shared, own)

    @property
    def _takes_default_clusters(self) -> bool:
        """Whether there is no tolerance: the search for a number of clusters takes long."""
        return self.tol is None

    @property
    def _floats_per_point(self) -> int:
        return max(1, int(_FLOATS_PER_COMPONENT * self._count()))

    @property
    def _n_features_out(self) -> int:
        return self.feature_map_.n_columns

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _n_shared(A: BlockBasis, count: int) -> int:
    """Number of components, of ``count``, that all clusters share."""
    return max(1, int(_SHARED * count), count - int(A.ranks.max()))
