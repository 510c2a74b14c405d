"""Block basis factorization of a symmetric kernel matrix as immutable data, with its products and its extension."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.html import summary_table
from blockbasis._utils.linalg import diagonal_of
from blockbasis._utils.tiling import tiles
from blockbasis._utils.validation import check_points
from blockbasis.exceptions import AccuracyWarning
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.cross import CrossBlockBasis
from blockbasis.operators.extension_check import CheckedEntries, Probes, planned_correction
from blockbasis.operators.near_field import NearField, correction, landmarks_by_cluster
from blockbasis.operators.product import RealOperator
from blockbasis.operators.shortening import held_variance, largest_variances, shortened, variance_roots

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.kernels import Kernel
    from blockbasis.operators.entries import Entries
    from blockbasis.operators.error_estimate import ErrorEstimate
    from blockbasis.operators.extension import Extension
    from blockbasis.operators.inner import Cutoff, InnerMatrix
    from blockbasis.partition import Partition

#: Bound of the entries of an extension, relative to k(x, x), for kernels with constant k(x, x): 1.5 less rounding.
_LARGEST_ENTRY = 1.4999
#: Largest numbers of new points and of landmarks between which the error of an extension is estimated.
_CHECKED_POINTS = 256
_PROBES = 1024
#: Error of an extension, relative to that of the factorization, above which `extend` corrects it or warns.
_WARNING_RATIO = 4.0
#: The same threshold for a factorization without an error estimate.
_LARGE_ERROR = 0.2
#: Smallest number of new points for which `extend` warns: the error at fewer points varies too much.
_MIN_CHECKED = 20
#: Attributes that `extend` prepares in its first call; they are not pickled.
_PREPARED = ("_allowed_error", "_near_field", "_probes", "_variances")


@dataclass(frozen=True, eq=False, repr=False)
class BlockBasis(RealOperator):
    """Block basis factorization K ~ U C Uᵀ + D of a kernel matrix, as `blockbasis.factorize` returns it.

    It is a `scipy.sparse.linalg.LinearOperator`, and its arrays are read-only. Rows and columns are in the order of the
    caller's points.

    Parameters
    ----------
    kernel : Kernel or None
        Kernel that `extend` evaluates; None if a factorization with a user's kernel function was loaded without the
        function. The centres of the partition and the points of the extensions are in its coordinates.
    basis : BlockDiagonal
        Block-diagonal matrix U with one orthonormal block for each cluster.
    inner : InnerMatrix
        Symmetric inner matrix C.
    diagonal_part : ndarray of shape (n,) or None
        Diagonal of D, in the order of the caller's points.
    extensions : tuple of Extension
        Extension of the basis of each cluster to new points.
    entries : Entries
        Numbers of kernel entries evaluated during the construction.
    cutoff : Cutoff or None
        Record of the blocks of C that were set to zero, if ``cutoff`` was given.
    error_estimate : ErrorEstimate or None
        Relative Frobenius error, estimated from a sample of exact entries, if a tolerance or a budget was given.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> A = bb.factorize(X, bb.Gaussian(3.0), n_clusters=3, rank=20, rng=0)
    >>> A
    BlockBasis(300 x 300, U C Uᵀ + D, 3 clusters, ranks 20 to 20, 27.1 floats per point, float64)
    >>> bool(np.allclose(A @ X, A.todense() @ X))
    True
    """

    kernel: Kernel | None
    basis: BlockDiagonal
    inner: InnerMatrix
    diagonal_part: FloatArray | None
    extensions: tuple[Extension, ...]
    entries: Entries
    cutoff: Cutoff | None = None
    error_estimate: ErrorEstimate | None = None

    def __post_init__(self) -> None:
        n = self.partition.n_points
        self._initialize(self.basis.dtype, (n, n))
        self.basis.freeze()
        for array in self._optional_arrays():
            array.setflags(write=False)

    def _optional_arrays(self) -> list[FloatArray]:
        arrays = [array for ext in self.extensions for array in (ext.points, ext.coefficients)]
        return arrays if self.diagonal_part is None else [*arrays, self.diagonal_part]

    @property
    def partition(self) -> Partition:
        """Partition of the points into clusters."""
        return self.basis.partition

    @property
    def bases(self) -> tuple[FloatArray, ...]:
        """Basis U_i of each cluster, of shape (n_i, r_i), with rows in cluster order."""
        return self.basis.blocks

    @property
    def ranks(self) -> IntArray:
        """Number of basis vectors of each cluster."""
        return self.basis.ranks

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.partition.n_clusters

    @property
    def stored(self) -> int:
        """Number of floats of U, C and D, a symmetric pair of entries of C counted once. This is the paper's memory."""
        return self.basis.size + self.inner.stored + (0 if self.diagonal_part is None else self.shape[0])

    @property
    def nbytes(self) -> int:
        """Number of bytes of all arrays, including the extensions and the partition."""
        partition = self.partition
        arrays = [partition.order, partition.starts, partition.centers, partition.radii, *self._optional_arrays()]
        return self.basis.nbytes + self.inner.nbytes + sum(array.nbytes for array in arrays)

    def _apply(self, V: FloatArray) -> FloatArray:
        result = self.basis.expand(self.inner @ self.basis.project(V))
        if self.diagonal_part is not None:
            result += self.diagonal_part[:, np.newaxis] * V
        return result

    def _adjoint(self) -> BlockBasis:
        return self

    def _transpose(self) -> BlockBasis:
        return self

    def diagonal(self) -> FloatArray:
        """Return the diagonal of U C Uᵀ + D."""
        values = np.empty(self.shape[0], dtype=self.dtype)
        values[self.partition.order] = held_diagonal(self.basis, self.inner)
        return values if self.diagonal_part is None else values + self.diagonal_part

    def frobenius_norm(self) -> float:
        """Return the Frobenius norm, computed from C and D because U is orthonormal."""
        energy = self.inner.energy
        if self.diagonal_part is not None:
            D = self.diagonal_part.astype(np.float64)
            # |U C Uᵀ + D|² = |C|² + 2 <diag(U C Uᵀ), D> + |D|²
            energy += float(D @ (2 * self.diagonal() - D))
        return math.sqrt(max(energy, 0.0))

    def extend(self, X_new: Any) -> CrossBlockBasis:
        """Return an operator for K(X_new, X) between new points and the factorized points, without white noise.

        The kernel is evaluated between the new points and the landmarks of the extensions only. The cost does not
        depend on n after the first call, which reads U once.

        Parameters
        ----------
        X_new : array-like of shape (m, d)
            New points.

        Returns
        -------
        CrossBlockBasis
            Operator of shape (m, n). Its ``error_estimate`` is computed from exact entries between a sample of the new
            points and a sample of the landmarks.

        Warns
        -----
        AccuracyWarning
            If the estimated error at 20 or more new points exceeds four times that of the factorization, relative to
            the norm without white noise, or 0.2 for a factorization without an ``error_estimate`` (one with given
            ranks). The basis does not represent new points whose distance from the factorized points is larger than
            the bandwidth.

        Notes
        -----
        A new point x belongs to the cluster i with the nearest centre, and K(x, X) ~ u(x)ᵀ C_i Uᵀ with the extension
        u(x) of the basis of the cluster and the block row C_i. The factorization assigns the variance
        u(x)ᵀ C_ii u(x) to x. Far from the landmarks this variance can exceed k(x, x); u(x) is then scaled down until
        the variance is at most k(x, x), or at most the largest variance of a factorized point of the cluster if that is
        larger. C is positive semi-definite, so that the entries of K(x, X) are bounded as those of the kernel.

        At small bandwidths, u(x) does not represent x at the other clusters near x. If the estimated error exceeds the
        threshold of the warning, the coordinates of K(x, X_j) in the bases of the clusters j near x are corrected by

            d = (G + λ (I - G))⁻¹ U_Lᵀ (K(L_j, x) - U_L C_ji u(x)),    G = U_Lᵀ U_L,    λ = 0.1,

        where L_j are the landmarks of all extensions that lie in cluster j, and U_L their rows in its basis. If the
        error is still large, single entries at landmarks are corrected too. The result is then (U C + N) Vᵀ + S. A
        correction that does not lower the estimated error is discarded.

        Examples
        --------
        >>> import numpy as np
        >>> import blockbasis as bb
        >>> X = np.random.default_rng(0).normal(size=(300, 2))
        >>> A = bb.factorize(X, bb.Gaussian(3.0), n_clusters=3, rank=20, rng=0)
        >>> X_new = np.array([[0.1, 0.2], [-0.5, 1.0]])
        >>> exact = bb.Gaussian(3.0)(X_new, X)
        >>> bool(np.abs(A.extend(X_new).todense() - exact).max() < 1e-4)
        True
        """
        if self.kernel is None:
            raise ValueError(
                "This factorization was made with a kernel callable, which a file cannot hold. Give it to load: "
                "blockbasis.load(path, kernel=function)."
            )
        n_features = self.kernel.n_features or self.partition.centers.shape[1]
        X = check_points(X_new, name="X_new", caller="extend", n_features=n_features, dtype=self.dtype)
        X = self.kernel.coordinates(X)
        U = self._extended_basis(X)
        checked = self._checked_entries(X, U)
        estimate, found = checked.estimate(), None
        if self._is_large(estimate):
            plan = planned_correction(self._near_field, checked, self._allowed_error)
            if plan is not None:
                estimate, found = plan.error, correction(self._near_field, X, U, plan)
        if self._is_large(estimate) and len(X) >= _MIN_CHECKED:
            self._warn_of_large_error(estimate)
        near, single = (None, None) if found is None else found
        return CrossBlockBasis(U, self.inner, self.basis, error_estimate=estimate, near=near, single=single)

    def _extended_basis(self, X: FloatArray) -> BlockDiagonal:
        """Return u(x) of new points, given in kernel coordinates, grouped by the nearest centre."""
        assert self.kernel is not None
        core, rows = self.kernel.core, self.partition.regroup(X)
        ordered = X[rows.order]
        U = BlockDiagonal.empty(rows, self.ranks, self.dtype)
        for i in np.flatnonzero(rows.sizes).tolist():
            own, block = ordered[rows.cluster(i)], U.block(i)
            for tile in tiles(len(own), len(self.extensions[i].points)):
                block[tile] = self._coordinates(core, own[tile], i)
        return U.freeze()

    def _checked_entries(self, X: FloatArray, U: BlockDiagonal) -> CheckedEntries:
        """Return exact entries between landmarks and a sample of new points, and the errors of the extension.

        ``X`` are the new points in kernel coordinates, and ``U`` holds their u(x).
        """
        assert self.kernel is not None
        if len(X) > _CHECKED_POINTS:
            X = X[np.random.default_rng(0).choice(len(X), _CHECKED_POINTS, replace=False)]
            U = self._extended_basis(X)
        exact = self.kernel.core.block(self._probes.points, X).astype(np.float64)
        difference = exact - CrossBlockBasis(self._probes.basis, self.inner, U).todense()
        return CheckedEntries(X, U, self._probes, exact, difference)

    @cached_property
    def _allowed_error(self) -> float:
        """Error of an extension above which its rows are corrected, and above which `extend` warns."""
        assert self.kernel is not None
        if self.error_estimate is None:
            return _LARGE_ERROR
        error = self.error_estimate.value
        if self.kernel.noise and self.diagonal_part is not None:  # an extension has no noise
            noise_free = replace(self, diagonal_part=self.diagonal_part - self.dtype.type(self.kernel.noise))
            error *= self.frobenius_norm() / max(noise_free.frobenius_norm(), float(np.finfo(self.dtype).tiny))
        return _WARNING_RATIO * max(error, float(np.finfo(self.dtype).eps))

    def _is_large(self, estimate: ErrorEstimate) -> bool:
        """Return whether the error of an extension is certainly above the allowed error."""
        return estimate.value - estimate.stderr > self._allowed_error

    def _warn_of_large_error(self, estimate: ErrorEstimate) -> None:
        own = "" if self.error_estimate is None else f", and that of the factorization {self.error_estimate.value:.2g}"
        warnings.warn(
            f"The relative error of K(X_new, X) is about {estimate.value:.2g}{own}: many new points are far from the "
            "points that were factorized, or the ranks are low. Factorize both together, or take a larger bandwidth or "
            "higher ranks.",
            AccuracyWarning,
            stacklevel=3,
        )

    @cached_property
    def _probes(self) -> Probes:
        """Sample of landmarks at which the error of extensions is estimated."""
        rng, most = np.random.default_rng(0), math.ceil(2 * _PROBES / self.n_clusters)
        some = [e.points[rng.permutation(len(e.points))[:most]] for e in self.extensions]
        points = np.unique(np.concatenate(some), axis=0)
        if len(points) > _PROBES:
            points = points[rng.choice(len(points), _PROBES, replace=False)]
        U = self._extended_basis(points)
        sizes = self.partition.sizes / np.maximum(U.partition.sizes, 1)
        return Probes(points, U, sizes[U.partition.labels])

    def _coordinates(self, core: Kernel, X: FloatArray, i: int) -> FloatArray:
        """Return u(x) of new points of cluster ``i``, in kernel coordinates, scaled down to the allowed variance."""
        extension, (roots, largest) = self.extensions[i], self._variances
        # The first argument centres the distances. Landmarks first: a far new point would cost the others digits.
        u = core.block(extension.points, X).T @ extension.coefficients
        allowed = np.maximum(core.diagonal(X), largest[i])
        if core.at_zero is not None:  # an inaccurate factorization may have variances far above k(x, x)
            most = _LARGEST_ENTRY * core.at_zero
            allowed = np.minimum(allowed, most**2 / max(float(largest.max()), most)) if most else allowed
        return shortened(u, held_variance(u, roots[i]), allowed)

    @cached_property
    def _variances(self) -> tuple[tuple[FloatArray, ...], FloatArray]:
        """Roots of C_ii and largest variances of all clusters, for the bound in `extend`."""
        return variance_roots(self.inner), largest_variances(self.basis, self.inner)

    @cached_property
    def _near_field(self) -> NearField:
        """Landmarks and factors that rows of new points are corrected from."""
        assert self.kernel is not None
        core, (roots, largest) = self.kernel.core, self._variances
        landmarks = landmarks_by_cluster(self.extensions, self.basis, core)
        bound = None if core.at_zero is None else _LARGEST_ENTRY * core.at_zero
        return NearField(core, self.partition, self.inner, landmarks, roots, largest, bound)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in _PREPARED}

    def _repr_html_(self) -> str:
        n = self.shape[0]
        facts = {
            "form": f"{n} x {n}, {'U C Uᵀ' if self.diagonal_part is None else 'U C Uᵀ + D'}, {self.dtype}",
            "clusters": f"{self.n_clusters}, ranks {self.ranks.min()} to {self.ranks.max()}",
            "memory": f"{self.nbytes / 1e6:.3g} MB, {self.stored / n:.1f} floats per point",
        }
        if self.error_estimate is not None:
            facts["relative error"] = f"{self.error_estimate.value:.2e}"
        return summary_table("BlockBasis", facts)

    def __repr__(self) -> str:
        n = self.shape[0]
        form = "U C Uᵀ" if self.diagonal_part is None else "U C Uᵀ + D"
        return (
            f"BlockBasis({n} x {n}, {form}, {self.n_clusters} clusters, "
            f"ranks {self.ranks.min()} to {self.ranks.max()}, {self.stored / n:.1f} floats per point, {self.dtype})"
        )


def held_diagonal(basis: BlockDiagonal, inner: InnerMatrix) -> FloatArray:
    """Return the diagonal of U C Uᵀ, in cluster order."""
    values = np.empty(basis.shape[0], dtype=basis.dtype)
    for i, rows, U in basis.row_pieces():
        values[rows] = diagonal_of(U, inner.block(i, i))
    return values
