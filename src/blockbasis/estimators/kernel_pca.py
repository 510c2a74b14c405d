"""Kernel principal component analysis with compressed kernel matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from blockbasis._utils.linalg import leading_eigenpairs
from blockbasis._utils.validation import check_integer
from blockbasis.estimators._base import KernelEstimator, all_or_nothing, bandwidth_of
from blockbasis.estimators._continuation import extended
from blockbasis.operators.storage import storable
from blockbasis.solvers.eigen import Eigenpairs, with_signs
from blockbasis.solvers.woodbury import congruent, orthonormalizing, triangular_solve

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.operators.block_basis import BlockBasis

#: Eigenvalues below this share of the largest count as zero, as in scikit-learn.
_NEGLIGIBLE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-7}
#: If the distance of the constant vector from the range of U is below this share of its length, it is rounding error.
_HELD = 1e-14


def centred_eigh(A: BlockBasis, n_components: int) -> Eigenpairs:
    """Leading eigenpairs of H A H, where A = U C Uᵀ has no D and H = I - 1 1ᵀ / n subtracts the mean.

    Let U = Q R, S = R C Rᵀ and g = Qᵀ 1. The columns of H Q have the Gram matrix G = I - g gᵀ / n. The eigenvalues of
    H A H are those of G^(1/2) S G^(1/2), a matrix of the size of C, and its eigenvectors are H Q G^(-1/2) v, where v
    are those of the smaller matrix. There is no approximation.
    """
    n = A.shape[0]
    triangles = orthonormalizing(A.basis, np.ones(n))
    g = triangular_solve(triangles, A.basis.project(np.ones((n, 1))), transposed=True)
    length = float(np.linalg.norm(g))
    direction = g / length if length else g
    left = max(1 - length**2 / n, 0.0)  # eigenvalue of G for the eigenvector g; all others are 1
    root = np.sqrt(left) if left > _HELD else 0.0

    S = _scaled_along(congruent(A.inner, triangles), direction, root)
    S = _scaled_along(S.T, direction, root)
    values, small = leading_eigenpairs((S + S.T) / 2, n_components)
    small = _scaled_along(small, direction, 1 / root if root else 0.0)
    vectors = A.basis.expand(triangular_solve(triangles, small))
    return Eigenpairs(values, with_signs(vectors - vectors.mean(axis=0)))


def _scaled_along(M: FloatArray, direction: FloatArray, factor: float) -> FloatArray:
    """Scale the columns of M by ``factor`` in one direction of unit length."""
    return np.asarray(M + (factor - 1) * direction @ (direction.T @ M))


@storable
class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Kernel principal component analysis for many points.

    The parameters and attributes are those of scikit-learn's ``KernelPCA``. The kernel matrix is compressed. The
    eigenpairs are exact for the compressed matrix, and the cost of `transform` does not depend on the number of
    training points.

    Parameters
    ----------
    n_components : int, default=None
        Number of components. None keeps all components with nonzero eigenvalues.
    kernel : str, Kernel or callable, default="gaussian"
        See `KernelRidge`.
    bandwidth : float, "median" or None, default=None
        See `KernelRidge`.
    tol, memory, n_clusters, rank
        Accuracy or size of the compression, as in `blockbasis.factorize`. If ``tol``, ``memory`` and ``rank`` are None,
        up to 1,000 points are stored exactly, and more points with 100 floats for each point.
    random_state : int, RandomState or None, default=None
        Seed.
    n_jobs : int, default=None
        Number of threads. None uses one for each core.
    verbose : int, default=0
        If above 0, show progress.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the centred matrix in descending order.
    eigenvectors_ : ndarray of shape (n_samples, n_components)
        Eigenvectors of unit length, in which the entry of largest absolute value is positive.
    kernel_ : Kernel
        Kernel with its bandwidth.
    bandwidth_ : float, ndarray of shape (n_features,) or None
        Bandwidth of the kernel.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> angles = np.random.default_rng(0).uniform(0, 2 * np.pi, size=600)
    >>> rings = np.repeat([1.0, 3.0], 300)[:, np.newaxis] * np.column_stack((np.cos(angles), np.sin(angles)))
    >>> model = bb.KernelPCA(n_components=2, bandwidth=2.0, random_state=0)
    >>> scores = model.fit_transform(rings)
    >>> scores.shape
    (600, 2)
    >>> bool(np.allclose(model.transform(rings), scores, atol=1e-6))
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: Any = "gaussian",
        bandwidth: Any = None,
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
        self.tol = tol
        self.memory = memory
        self.n_clusters = n_clusters
        self.rank = rank
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> KernelPCA:
        """Compute the components.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        X = self._check_X(X, reset=True)
        streams = self._streams(2)
        A = self._factorize(X, self._kernel(self._bandwidth(X, streams[0])), streams[1])
        values, vectors = centred_eigh(A, self._count(A))
        values = np.where(values > _NEGLIGIBLE[A.dtype] * values[0], values, 0.0)
        if self.n_components is None:
            values, vectors = values[values > 0], vectors[:, values > 0]

        self.kernel_ = A.kernel
        self.bandwidth_ = bandwidth_of(self.kernel_)
        self.eigenvalues_, self.eigenvectors_ = values, vectors
        scales = np.sqrt(values)
        scaled = np.divide(vectors, scales, out=np.zeros_like(vectors), where=scales > 0)
        self._components = extended(A, scaled)
        self._means = np.asarray(A._apply(scaled)).mean(axis=0)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> FloatArray:
        """Fit, and return the scores of the training points, computed from the eigenvectors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        self.fit(X)
        return np.asarray(self.eigenvectors_ * np.sqrt(self.eigenvalues_))

    def transform(self, X: Any) -> FloatArray:
        """Scores of new points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return np.asarray(self._components(self._check_X(X, reset=False), self._threads()) - self._means)

    def _count(self, A: BlockBasis) -> int:
        n, most = int(A.shape[0]), int(A.ranks.sum())
        if self.n_components is None:
            return most
        count = check_integer(self.n_components, name="n_components", caller=self._caller, low=1)
        if min(count, n) > most:
            raise ValueError(
                f"The 'n_components' parameter of {self._caller} must be at most {most}, the rank of the compressed "
                f"matrix. Got {count} instead. Give a larger memory or rank, or a smaller tol."
            )
        return min(count, n)

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)
