"""Improved fast Gauss transform: the Gaussian kernel as Taylor series around the centres of clusters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.tiling import tiles
from blockbasis._utils.validation import check_fraction, check_points, check_rng
from blockbasis.baselines.protocol import Approximation
from blockbasis.exceptions import AccuracyWarning
from blockbasis.kernels import Gaussian, as_kernel
from blockbasis.operators.exact import ExactKernel
from blockbasis.operators.product import RealOperator
from blockbasis.partition import Partition, kcenters

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray, Seed

#: Largest number of clusters that is tried; the search doubles the number, starting from 1.
_MAX_CLUSTERS = 1024
#: Largest truncation order: the terms of longer series overflow before they become small.
_MAX_ORDER = 100
#: Work of a series, relative to direct evaluation, above which the search stops: more clusters do not make up for it.
_SEARCH_STOP = 1e6
#: Number of sampled points from which the estimate of the work counts the points within reach of a centre.
_COST_SAMPLE = 500
#: Cost of an exponential, in multiplications.
_EXPONENTIAL = 20
#: Number of float64 monomials in a tile, 2 MiB: a tile stays in the cache between its evaluation and its product.
_TILE_ENTRIES = 2**18


def ifgt(X: Any, kernel: Any, *, tol: float = 1e-3, rng: Seed = None) -> GaussTransform:
    """Improved fast Gauss transform of a Gaussian kernel with an absolute error of at most ``tol`` in every entry.

    The points are clustered by farthest-point clustering. Around the centre c of a cluster the kernel factors into

        exp(-|y - x|^2 / h^2) = exp(-|x - c|^2 / h^2) exp(-|y - c|^2 / h^2) exp(2 (x - c)(y - c) / h^2),

    and the last factor is expanded in a Taylor series, which is truncated at a total degree and summed in graded
    lexicographic order. A product computes the coefficients of the series of every cluster and evaluates the series at
    the points within a cutoff distance of the centre; beyond that distance the kernel is below ``tol``. The degree
    follows from a bound of the error at the radius of the cluster. The number of clusters minimizes the number of
    multiplications.

    The series has binom(p - 1 + d, d) terms. For small bandwidths or many dimensions it needs more work than the
    n² / 2 different entries of the matrix. Products are then evaluated directly, in quadratic time.

    The transform keeps only the points between products, so that it has no rank or memory to choose.

    Notes
    -----
    The choice between series and direct evaluation counts multiplications. A term of the series takes several times as
    long in NumPy as a multiplication of the direct evaluation. Near the balance of the counts, direct evaluation would
    be faster than the series that is chosen.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Gaussian
    tol : float, default=1e-3
        Largest absolute error of an entry of the matrix. The error of an entry of A v is at most ``tol`` times the sum
        of the absolute values of v. Products are rounded to the dtype of the points, so that a ``tol`` below 1.2e-7
        for float32, or below 2.2e-16 for float64, cannot be met.
    rng : int, Generator or None
        Draws the first centre.

    Returns
    -------
    GaussTransform
        The operator is not exactly symmetric: an entry is expanded around the centre of the cluster of its column.

    Warns
    -----
    AccuracyWarning
        If ``tol`` is below the rounding of the dtype of the points.

    References
    ----------
    C. Yang, R. Duraiswami, N. A. Gumerov and L. Davis, "Improved fast Gauss transform and efficient kernel density
    estimation", ICCV (2003).
    V. C. Raykar, C. Yang, R. Duraiswami and N. A. Gumerov, "Fast computation of sums of Gaussians in high dimensions",
    University of Maryland, CS-TR-4767 (2005): the bound.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from blockbasis.baselines import ifgt
    >>> X = np.random.default_rng(0).uniform(size=(2000, 2))
    >>> A = ifgt(X, bb.Gaussian(0.5), tol=1e-4, rng=0)
    >>> A.direct
    False
    >>> v = np.ones(2000)
    >>> bool(np.abs(A @ v - bb.ExactKernel(X, bb.Gaussian(0.5)) @ v).max() < 1e-4 * 2000)
    True
    """
    caller = "ifgt"
    X = check_points(X, name="X", caller=caller)
    kernel = as_kernel(kernel, caller=caller)
    core = kernel.core
    if not isinstance(core, Gaussian) or kernel.noise:
        raise ValueError(f"The 'kernel' parameter of {caller} must be a Gaussian. Got {kernel!r} instead.")
    tol = check_fraction(tol, name="tol", caller=caller)
    precision = float(np.finfo(X.dtype).eps)
    if tol < precision:
        warnings.warn(
            f"The tolerance of {tol:g} cannot be reached: products in {X.dtype} are rounded to {precision:.2g}.",
            AccuracyWarning,
            stacklevel=2,
        )
    first = int(check_rng(rng, name="rng", caller=caller).integers(2**31))
    points = np.array(kernel.coordinates(X.astype(np.float64, copy=False)))
    with single_threaded():
        expansion = _cheapest(points, core.bandwidth, tol, first)
    return GaussTransform("ifgt", points, core, tol, expansion, X.dtype)


@dataclass(frozen=True, eq=False)
class TaylorExpansion:
    """Centres, cutoff distances and truncation orders of the Taylor series of all clusters.

    Parameters
    ----------
    partition : Partition
        Clusters; each series is expanded around the centre of its cluster.
    reach : ndarray of shape (n_clusters,)
        Distance from the centre beyond which the kernel with every point of the cluster is below the tolerance.
    orders : tuple of int
        Truncation order p of each series, which has the terms of total degree below p.
    """

    partition: Partition
    reach: FloatArray
    orders: tuple[int, ...]

    def n_terms(self, dimension: int) -> list[int]:
        """Number of terms of the series of each cluster."""
        return [math.comb(order - 1 + dimension, dimension) for order in self.orders]


@dataclass(frozen=True, eq=False, repr=False)
class GaussTransform(Approximation):
    """Gaussian kernel matrix whose products are improved fast Gauss transforms, as `ifgt` returns it.

    Parameters
    ----------
    name : str
        Name of the method.
    points : ndarray of shape (n, d)
        Points in the coordinates of the kernel, made read-only.
    kernel : Gaussian
    tol : float
        Largest absolute error of an entry.
    expansion : TaylorExpansion or None
        Series of the clusters; None if products are evaluated directly.
    result_type : dtype
        Dtype of the products.
    """

    name: str
    points: FloatArray
    kernel: Gaussian
    tol: float
    expansion: TaylorExpansion | None
    result_type: np.dtype[Any]

    def __post_init__(self) -> None:
        self._set_type(self.points.shape[0], self.result_type)
        self.points.setflags(write=False)

    @property
    def direct(self) -> bool:
        """Whether products evaluate the entries of the matrix because the series would need more work."""
        return self.expansion is None

    @property
    def n_clusters(self) -> int:
        """Number of clusters; 0 if products are evaluated directly."""
        return 0 if self.expansion is None else self.expansion.partition.n_clusters

    @property
    def stored(self) -> int:
        """Number of floats that a product reads: points, centres and coefficients of the series."""
        if self.expansion is None:
            return int(self.points.size)
        centers = self.expansion.partition.centers
        return int(self.points.size + centers.size) + sum(self.expansion.n_terms(self.points.shape[1]))

    def _apply(self, V: FloatArray) -> FloatArray:
        return self._transform(V, transposed=False)

    def _adjoint(self) -> RealOperator:
        return _TransposedGaussTransform(self)

    def _transform(self, V: FloatArray, *, transposed: bool) -> FloatArray:
        V = V.astype(np.float64, copy=False)
        if self.expansion is None:
            return np.asarray(ExactKernel(self.points, self.kernel) @ V).astype(self.dtype, copy=False)
        result = np.zeros((self.shape[0], V.shape[1]))
        partition = self.expansion.partition
        with single_threaded():
            for i, order in enumerate(self.expansion.orders):
                scaled = (self.points - partition.centers[i]) / self.kernel.bandwidth
                distances = np.einsum("ij,ij->i", scaled, scaled)
                sources = partition.order[partition.cluster(i)]
                targets = np.flatnonzero(distances <= (self.expansion.reach[i] / self.kernel.bandwidth) ** 2)
                columns, rows = (targets, sources) if transposed else (sources, targets)
                result[rows] += _series_product(scaled, distances, order, rows, columns, V[columns])
        return result.astype(self.dtype, copy=False)


class _TransposedGaussTransform(RealOperator):
    """Transposed transform: coefficients from the points within reach, evaluation at the points of the cluster."""

    def __init__(self, original: GaussTransform) -> None:
        super().__init__(original.dtype, original.shape)
        self._original = original

    def _apply(self, V: FloatArray) -> FloatArray:
        return self._original._transform(V, transposed=True)

    def _adjoint(self) -> GaussTransform:
        return self._original

    def _transpose(self) -> GaussTransform:
        return self._original


# --- the series ------------------------------------------------------------------------------------------------------


def _series_product(
    scaled: FloatArray,
    distances: FloatArray,
    order: int,
    rows: IntArray,
    columns: IntArray,
    V: FloatArray,
    tile_entries: int = _TILE_ENTRIES,
) -> FloatArray:
    """Return K[rows, columns] V by the series around one centre.

    ``scaled`` holds (x - c) / h of all points x, and ``distances`` its squared norms. ``tile_entries`` is the number of
    monomials that are evaluated at a time.
    """
    constants = series_constants(scaled.shape[1], order)
    coefficients = np.zeros((len(constants), V.shape[1]))
    for tile in tiles(len(columns), len(constants), tile_entries):
        coefficients += _weighted_monomials(scaled, distances, order, columns[tile]) @ V[tile]
    coefficients *= constants[:, np.newaxis]
    result = np.empty((len(rows), V.shape[1]))
    for tile in tiles(len(rows), len(constants), tile_entries):
        result[tile] = _weighted_monomials(scaled, distances, order, rows[tile]).T @ coefficients
    return result


def _weighted_monomials(scaled: FloatArray, distances: FloatArray, order: int, indices: IntArray) -> FloatArray:
    """Return exp(-|x - c|^2 / h^2) times every monomial of (x - c) / h at the given points."""
    return monomials(scaled[indices], order, np.exp(-distances[indices]))


def monomials(points: FloatArray, order: int, first: FloatArray) -> FloatArray:
    """Return ``first`` times every monomial of degree below ``order`` at each point, in graded lexicographic order."""
    n, d = points.shape
    values = np.empty((math.comb(order - 1 + d, d), n))
    values[0] = first
    columns = np.ascontiguousarray(points.T)
    for new, old, variable in _graded(order, d):
        np.multiply(values[old], columns[variable], out=values[new])
    return values


def series_constants(dimension: int, order: int) -> FloatArray:
    """Return the Taylor coefficients 2^|a| / a! of exp(2 x y) for every multi-index a of `monomials`."""
    exponents = np.zeros((math.comb(order - 1 + dimension, dimension), dimension))
    for new, old, variable in _graded(order, dimension):
        exponents[new] = exponents[old]
        exponents[new, variable] += 1
    return np.asarray(np.exp(exponents.sum(axis=1) * math.log(2) - gammaln(exponents + 1).sum(axis=1)))


def _graded(order: int, dimension: int) -> Iterator[tuple[slice, slice, int]]:
    """Yield steps that generate all monomials of total degree below ``order``.

    A step is a tuple (new, old, variable): the monomials in the range ``new`` are those in the range ``old``, of one
    degree less, times one variable. Variable i multiplies only monomials without the variables before i, so that each
    monomial is generated once.
    """
    heads, stop = [0] * dimension, 1
    for _ in range(1, order):
        position = stop
        for variable in range(dimension):
            old = slice(heads[variable], stop)
            heads[variable] = position
            position += old.stop - old.start
            yield slice(heads[variable], position), old, variable
        stop = position


# --- the bound -------------------------------------------------------------------------------------------------------


def cutoff_radius(bandwidth: float, tol: float) -> float:
    """Return the distance at which the kernel equals ``tol``."""
    return bandwidth * math.sqrt(math.log(1 / tol))


def truncation_order(radius: float, reach: float, bandwidth: float, tol: float) -> int | None:
    """Return the smallest order p with a truncation error of at most ``tol``; None if p would exceed 100.

    With a = |x - c| / h and b = |y - c| / h the error of the series with degrees below p is at most
    (2ab)^p / p! exp(-(a - b)^2). The bound increases with a, up to the radius, and with b up to
    (a + sqrt(a^2 + 2p)) / 2.
    """
    a = radius / bandwidth
    if a == 0:
        return 1
    for order in range(1, _MAX_ORDER + 1):
        b = min((a + math.sqrt(a * a + 2 * order)) / 2, reach / bandwidth)
        if order * math.log(2 * a * b) - math.lgamma(order + 1) - (a - b) ** 2 <= math.log(tol):
            return order
    return None


def _cheapest(points: FloatArray, bandwidth: float, tol: float, seed: int) -> TaylorExpansion | None:
    """Return the expansion with the least work; None if direct evaluation needs less."""
    n, d = points.shape
    sample = points[np.random.default_rng(seed).choice(n, min(_COST_SAMPLE, n), replace=False)]
    best, least = None, n * n / 2 * (d + _EXPONENTIAL)  # ExactKernel evaluates each symmetric pair once
    k = 1
    while k <= min(_MAX_CLUSTERS, n) and k * n * d < least:
        found = _expand(kcenters(points, k, np.random.default_rng(seed)), bandwidth, tol)
        if found is not None:
            work = _work(found, points, sample)
            if work < least:
                best, least = found, work
            elif work > _SEARCH_STOP * least:
                break
        k *= 2
    return best


def _expand(partition: Partition, bandwidth: float, tol: float) -> TaylorExpansion | None:
    """Return the expansion around the centres of a partition; None if a cluster needs too high an order."""
    reach = partition.radii + cutoff_radius(bandwidth, tol)
    orders = []
    for radius, distance in zip(partition.radii, reach, strict=True):
        order = truncation_order(float(radius), float(distance), bandwidth, tol)
        if order is None:
            return None
        orders.append(order)
    return TaylorExpansion(partition, reach, tuple(orders))


def _work(expansion: TaylorExpansion, points: FloatArray, sample: FloatArray) -> float:
    """Estimate the multiplications of a product: distances to all centres, and the evaluation of all series.

    The number of points within reach of a centre is estimated from ``sample``.
    """
    partition = expansion.partition
    n, d = points.shape
    work = float(n * partition.n_clusters * d)
    for i, terms in enumerate(expansion.n_terms(d)):
        within = np.linalg.norm(sample - partition.centers[i], axis=1) <= expansion.reach[i]
        work += 2.0 * terms * (float(partition.sizes[i]) + n * float(within.mean()))
    return work
