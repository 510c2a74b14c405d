"""The factorization as immutable data, with its products, in the order of the caller's points."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from blockbasis._utils.linalg import diagonal_of
from blockbasis._utils.tiling import tiles
from blockbasis._utils.typing import FloatArray, IntArray
from blockbasis._utils.validation import check_points
from blockbasis.exceptions import AccuracyWarning
from blockbasis.kernels import Kernel
from blockbasis.operators.block_diagonal import BlockDiagonal
from blockbasis.operators.cross import CrossBlockBasis
from blockbasis.operators.entries import Entries
from blockbasis.operators.error_estimate import ErrorEstimate
from blockbasis.operators.extension import Extension
from blockbasis.operators.inner import Cutoff, InnerMatrix
from blockbasis.operators.product import RealOperator
from blockbasis.operators.shortening import held_variance, largest_variances, shortened, variance_roots
from blockbasis.partition import Partition

#: No entry of an extension exceeds this multiple of k(x, x), for kernels that have the same for all x.
_LARGEST_ENTRY = 1.4999
#: New points and landmarks between which the error of an extension is estimated, at most.
_CHECKED_POINTS = 256
_PROBES = 1024
#: New points are unlike the old ones where the error of their rows is so many times that of the factorization, as at
#: least so many new points show.
_UNLIKE = 4.0
_LEAST_CHECKED = 20


@dataclass(frozen=True, eq=False, repr=False)
class BlockBasis(RealOperator):
    """K ~ U C Uᵀ + D: a kernel matrix in block basis form, as `blockbasis.factorize` returns it.

    A `scipy.sparse.linalg.LinearOperator`; every array in it is read-only.

    Parameters
    ----------
    kernel : Kernel or None
        What `extend` evaluates; None after loading a factorization of a user's own function. The centres of the
        partition and the points of the extensions are in its coordinates.
    basis : BlockDiagonal
        U, one orthonormal block for each cluster.
    inner : InnerMatrix
        C, symmetric.
    diagonal_part : ndarray of shape (n,) or None
        D, in the order of the caller's points.
    extensions : tuple of Extension
        How each cluster's basis continues to new points.
    entries : Entries
        Kernel entries evaluated to build it.
    cutoff : Cutoff or None
        Record of the blocks of C that were dropped, when ``cutoff`` was given.
    error_estimate : ErrorEstimate or None
        Relative Frobenius error, from a sample of exact entries, when a tolerance or a budget was given.

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
        return self.basis.partition

    @property
    def bases(self) -> tuple[FloatArray, ...]:
        """U_i of each cluster, of shape (n_i, r_i), rows in cluster order."""
        return self.basis.blocks

    @property
    def ranks(self) -> IntArray:
        return self.basis.ranks

    @property
    def n_clusters(self) -> int:
        return self.partition.n_clusters

    @property
    def stored(self) -> int:
        """Floats that a product reads: U, each kept entry of C once per symmetric pair, D. The paper's memory."""
        return self.basis.size + self.inner.stored + (0 if self.diagonal_part is None else self.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of everything kept: the extension and the partition too."""
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
        """Diagonal of the approximation."""
        values = np.empty(self.shape[0], dtype=self.dtype)
        values[self.partition.order] = held_diagonal(self.basis, self.inner)
        return values if self.diagonal_part is None else values + self.diagonal_part

    def frobenius_norm(self) -> float:
        """Root of the sum of all squared entries, from the factors: U is orthonormal."""
        energy = self.inner.energy
        if self.diagonal_part is not None:
            D = self.diagonal_part.astype(np.float64)
            # |U C Uᵀ + D|² = |C|² + 2 <diag(U C Uᵀ), D> + |D|²
            energy += float(D @ (2 * self.diagonal() - D))
        return math.sqrt(max(energy, 0.0))

    def extend(self, X_new: Any) -> CrossBlockBasis:
        """Operator for K(X_new, X), without touching the points factored, and without white noise.

        Each new point takes the basis of the cluster i with the nearest centre: K(x, X) ~ u(x) C_i Uᵀ. Far from the
        points that u(x) was fitted to, u(x) can become too long. It is then shortened until u(x)ᵀ C_ii u(x), the
        variance that the approximation gives to x, is at most k(x, x), or the largest variance of an old point of the
        cluster when that is more. C is positive semi-definite, so that no entry of K(x, X) exceeds what the kernel
        allows.

        New points that are farther from the old points than a bandwidth are not represented by the basis. The result
        therefore has its own ``error_estimate``, from exact entries between some of the new points and some landmarks,
        and an `AccuracyWarning` tells where this error is far above that of the factorization.

        Parameters
        ----------
        X_new : array-like of shape (m, d)

        Returns
        -------
        CrossBlockBasis
            Of shape (m, n).

        Warns
        -----
        AccuracyWarning
            If the estimated error exceeds four times that of the factorization.

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
                "This factorization was made with a kernel callable, which a file cannot hold. Give it again: "
                "blockbasis.load(path, kernel=function)."
            )
        n_features = self.kernel.n_features or self.partition.centers.shape[1]
        X = check_points(X_new, name="X_new", caller="extend", n_features=n_features, dtype=self.dtype)
        X = self.kernel.coordinates(X)
        U = self._continued(X)
        estimate = self._error_at(X, U)
        self._warn_of_unlike_points(estimate, len(X))
        return CrossBlockBasis(U, self.inner, self.basis, error_estimate=estimate)

    def _continued(self, X: FloatArray) -> BlockDiagonal:
        """u(x) of new points, mapped, grouped by the nearest centre."""
        assert self.kernel is not None
        core, rows = self.kernel.core, self.partition.regroup(X)
        ordered = X[rows.order]
        U = BlockDiagonal.empty(rows, self.ranks, self.dtype)
        for i in np.flatnonzero(rows.sizes).tolist():
            own, block = ordered[rows.cluster(i)], U.block(i)
            for tile in tiles(len(own), len(self.extensions[i].points)):
                block[tile] = self._coordinates(core, own[tile], i)
        return U.freeze()

    def _error_at(self, X: FloatArray, U: BlockDiagonal) -> ErrorEstimate:
        """Relative error of K(X_new, X), from entries between some new points, mapped, and the probes.

        ``U`` has u(x) of the new points.
        """
        assert self.kernel is not None
        if len(X) > _CHECKED_POINTS:
            X = X[np.random.default_rng(0).choice(len(X), _CHECKED_POINTS, replace=False)]
            U = self._continued(X)
        points, of_points, weights = self._probes
        exact = self.kernel.core.block(points, X).astype(np.float64)
        difference = exact - CrossBlockBasis(of_points, self.inner, U).todense()
        return ErrorEstimate.of_sampled_rows(weights @ difference**2, weights @ exact**2)

    def _warn_of_unlike_points(self, estimate: ErrorEstimate, count: int) -> None:
        """Warn where the error at ``count`` new points is far above that of the factorization; few points vary."""
        assert self.kernel is not None
        if self.error_estimate is None or self.kernel.noise or count < _LEAST_CHECKED:
            return
        expected = max(self.error_estimate.value, float(np.finfo(self.dtype).eps))
        if estimate.value - estimate.stderr > _UNLIKE * expected:
            warnings.warn(
                f"The relative error of K(X_new, X) is about {estimate.value:.2g}, and that of the factorization "
                f"{expected:.2g}: many new points are far from the points that were factorized. Factorize both "
                "together, or take a larger bandwidth.",
                AccuracyWarning,
                stacklevel=3,
            )

    @cached_property
    def _probes(self) -> tuple[FloatArray, BlockDiagonal, FloatArray]:
        """Some landmarks of all clusters, mapped, u(x) of each, and the number of points that each represents."""
        rng, most = np.random.default_rng(0), math.ceil(2 * _PROBES / self.n_clusters)
        some = [e.points[rng.permutation(len(e.points))[:most]] for e in self.extensions]
        points = np.unique(np.concatenate(some), axis=0)
        if len(points) > _PROBES:
            points = points[rng.choice(len(points), _PROBES, replace=False)]
        U = self._continued(points)
        sizes = self.partition.sizes / np.maximum(U.partition.sizes, 1)
        return points, U, sizes[U.partition.labels]

    def _coordinates(self, core: Kernel, X: FloatArray, i: int) -> FloatArray:
        """u(x) of new points, mapped, in cluster ``i``, none longer than its own variance allows."""
        extension, (roots, largest) = self.extensions[i], self._variances
        # As the transpose of K(points, X): distances are centred on the first points, which no far new point may blur.
        u = core.block(extension.points, X).T @ extension.coefficients
        allowed = np.maximum(core.diagonal(X), largest[i])
        if core.at_zero is not None:  # old points of a poor factorization may have far more than k(x, x)
            most = _LARGEST_ENTRY * core.at_zero
            allowed = np.minimum(allowed, most**2 / max(float(largest.max()), most)) if most else allowed
        return shortened(u, held_variance(u, roots[i]), allowed)

    @cached_property
    def _variances(self) -> tuple[tuple[FloatArray, ...], FloatArray]:
        """What `extend` shortens by: computed at its first call, and kept."""
        return variance_roots(self.inner), largest_variances(self.basis, self.inner)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_probes", "_variances")}

    def __repr__(self) -> str:
        n = self.shape[0]
        form = "U C Uᵀ" if self.diagonal_part is None else "U C Uᵀ + D"
        return (
            f"BlockBasis({n} x {n}, {form}, {self.n_clusters} clusters, "
            f"ranks {self.ranks.min()} to {self.ranks.max()}, {self.stored / n:.1f} floats per point, {self.dtype})"
        )


def held_diagonal(basis: BlockDiagonal, inner: InnerMatrix) -> FloatArray:
    """Diagonal of U C Uᵀ, in cluster order."""
    values = np.empty(basis.shape[0], dtype=basis.dtype)
    for i, rows, U in basis.row_pieces():
        values[rows] = diagonal_of(U, inner.block(i, i))
    return values
