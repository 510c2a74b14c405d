"""The improved fast Gauss transform: the Gaussian as a Taylor series around a few centres."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.tiling import tiles
from blockbasis._utils.typing import FloatArray, IntArray, Seed
from blockbasis._utils.validation import check_fraction, check_points, check_rng
from blockbasis.baselines.protocol import Approximation
from blockbasis.exceptions import AccuracyWarning
from blockbasis.kernels import Gaussian, as_kernel
from blockbasis.operators.exact import ExactKernel
from blockbasis.operators.product import Product
from blockbasis.partition import Partition, kcenters

#: Most clusters that are tried, doubling from one.
_MAX_CLUSTERS = 1024
#: Longer series overflow on the way to small terms.
_MAX_ORDER = 100
#: Where one number of clusters needs so many times the work of direct evaluation, more of them will not save it.
_HOPELESS = 1e6
#: Points from which the clusters near a point are counted when costs are compared.
_COST_SAMPLE = 500
#: What an exponential costs, in multiplications.
_EXPONENTIAL = 20
#: Monomials that stay in a core's cache between their evaluation and their product.
_TILE_ENTRIES = 2**18


def ifgt(X: Any, kernel: Any, *, tol: float = 1e-3, rng: Seed = None) -> GaussTransform:
    """Improved fast Gauss transform of a Gaussian kernel, every entry of the matrix to within ``tol``.

    The points are clustered by farthest-point clustering. Around the centre c of a cluster the kernel factors into

        exp(-|y - x|^2 / h^2) = exp(-|x - c|^2 / h^2) exp(-|y - c|^2 / h^2) exp(2 (x - c)(y - c) / h^2),

    whose last factor is a Taylor series, truncated at a total degree and summed in graded lexicographic order. A
    product collects a cluster's points into coefficients and evaluates them at the points within reach; beyond, the
    kernel is below ``tol``. The degree follows from a bound of the error at the cluster's radius, the number of
    clusters from the least work, counted in multiplications. Where no number of clusters needs less work than half of
    the entries of the matrix, all that symmetry leaves (small bandwidths, many dimensions: the terms are binomially
    many in d), products are evaluated directly, in quadratic time. Work is counted, not timed: with NumPy a term of the
    series takes several times as long as what it is weighed against, so that near the balance the entries of the matrix
    would be faster.

    Nothing but the points is kept between products: there is no rank or memory to choose.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : Gaussian
    tol : float, default=1e-3
        Largest absolute error of an entry; no entry of a product with v is then off by more than ``tol`` times the sum
        of the moduli of v. Products are rounded to the precision of the points: a tolerance below it, 1.2e-7 with
        float32 and 2.2e-16 with float64, is out of reach, and an `AccuracyWarning` says so.
    rng : int, Generator or None
        The first centre.

    Returns
    -------
    GaussTransform
        Not exactly symmetric: an entry is expanded around the centre of its column's cluster.

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
class Expansion:
    """Around which centres the kernel is expanded, how far, and up to which degree.

    Parameters
    ----------
    partition : Partition
    reach : ndarray of shape (n_clusters,)
        Distance from a centre beyond which its cluster's kernel is below the tolerance.
    orders : tuple of int
        Terms of total degree below this are kept, for each cluster.
    """

    partition: Partition
    reach: FloatArray
    orders: tuple[int, ...]

    def n_terms(self, dimension: int) -> list[int]:
        """Terms of each cluster's series."""
        return [math.comb(order - 1 + dimension, dimension) for order in self.orders]


@dataclass(frozen=True, eq=False, repr=False)
class GaussTransform(Approximation):
    """A Gaussian kernel matrix by its improved fast Gauss transform, as `ifgt` returns it.

    Parameters
    ----------
    name : str
    points : ndarray of shape (n, d)
    kernel : Gaussian
    tol : float
        Largest absolute error of an entry.
    expansion : Expansion or None
        None where products are evaluated directly.
    result_type : dtype
        Of the products.
    """

    name: str
    points: FloatArray
    kernel: Gaussian
    tol: float
    expansion: Expansion | None
    result_type: np.dtype[Any]

    def __post_init__(self) -> None:
        self._set_type(self.points.shape[0], self.result_type)
        self.points.setflags(write=False)

    @property
    def direct(self) -> bool:
        """Whether the bound cannot serve, and products evaluate the matrix itself."""
        return self.expansion is None

    @property
    def n_clusters(self) -> int:
        return 0 if self.expansion is None else self.expansion.partition.n_clusters

    @property
    def stored(self) -> int:
        """Floats that a product reads: the points, the centres, the coefficients of the series."""
        if self.expansion is None:
            return int(self.points.size)
        centers = self.expansion.partition.centers
        return int(self.points.size + centers.size) + sum(self.expansion.n_terms(self.points.shape[1]))

    def _apply(self, V: FloatArray) -> FloatArray:
        return self._transform(V, transposed=False)

    def _adjoint(self) -> Product:
        return _Transposed(self)

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
                given, wanted = (targets, sources) if transposed else (sources, targets)
                result[wanted] += _through_series(scaled, distances, order, given, wanted, V[given])
        return result.astype(self.dtype, copy=False)


class _Transposed(Product):
    """Points within reach are collected, a cluster's own are evaluated."""

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


def _through_series(
    scaled: FloatArray, distances: FloatArray, order: int, given: IntArray, wanted: IntArray, V: FloatArray
) -> FloatArray:
    """Kernel of the points ``wanted`` with the points ``given``, times V, both about the same centre."""
    constants = series_constants(scaled.shape[1], order)
    coefficients = np.zeros((len(constants), V.shape[1]))
    for tile in tiles(len(given), len(constants), _TILE_ENTRIES):
        coefficients += _damped_monomials(scaled, distances, order, given[tile]) @ V[tile]
    coefficients *= constants[:, np.newaxis]
    result = np.empty((len(wanted), V.shape[1]))
    for tile in tiles(len(wanted), len(constants), _TILE_ENTRIES):
        result[tile] = _damped_monomials(scaled, distances, order, wanted[tile]).T @ coefficients
    return result


def _damped_monomials(scaled: FloatArray, distances: FloatArray, order: int, at: IntArray) -> FloatArray:
    return monomials(scaled[at], order, np.exp(-distances[at]))


def monomials(points: FloatArray, order: int, first: FloatArray) -> FloatArray:
    """Every monomial of total degree below ``order`` at each point, in graded lexicographic order, times ``first``."""
    n, d = points.shape
    values = np.empty((math.comb(order - 1 + d, d), n))
    values[0] = first
    columns = np.ascontiguousarray(points.T)
    for new, old, variable in _graded(order, d):
        np.multiply(values[old], columns[variable], out=values[new])
    return values


def series_constants(dimension: int, order: int) -> FloatArray:
    """2^|a| / a! of every exponent a of `monomials`: the coefficients of exp(2 x y)."""
    exponents = np.zeros((math.comb(order - 1 + dimension, dimension), dimension))
    for new, old, variable in _graded(order, dimension):
        exponents[new] = exponents[old]
        exponents[new, variable] += 1
    return np.asarray(np.exp(exponents.sum(axis=1) * math.log(2) - gammaln(exponents + 1).sum(axis=1)))


def _graded(order: int, dimension: int) -> Iterator[tuple[slice, slice, int]]:
    """Ranges of new monomials, of those one degree lower that they come from, and the variable to multiply with.

    With the i-th variable go those of the last degree that hold none of the variables before it, so that each
    monomial is made once.
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
    """Distance at which the kernel has fallen to ``tol``."""
    return bandwidth * math.sqrt(math.log(1 / tol))


def truncation_order(radius: float, reach: float, bandwidth: float, tol: float) -> int | None:
    """Least order that keeps the error of a cluster's series within ``tol``; None where it is out of the question.

    With a = |x - c| / h and b = |y - c| / h the remainder after the degrees below p is at most
    (2ab)^p / p! exp(-(a - b)^2). It grows with a up to the radius, and with b up to (a + sqrt(a^2 + 2p)) / 2.
    """
    a = radius / bandwidth
    if a == 0:
        return 1
    for order in range(1, _MAX_ORDER + 1):
        b = min((a + math.sqrt(a * a + 2 * order)) / 2, reach / bandwidth)
        if order * math.log(2 * a * b) - math.lgamma(order + 1) - (a - b) ** 2 <= math.log(tol):
            return order
    return None


def _cheapest(points: FloatArray, bandwidth: float, tol: float, seed: int) -> Expansion | None:
    """The number of clusters of least work; None where the entries of the matrix need less."""
    n, d = points.shape
    some = points[np.random.default_rng(seed).choice(n, min(_COST_SAMPLE, n), replace=False)]
    best, least = None, n * n / 2 * (d + _EXPONENTIAL)  # ExactKernel evaluates a pair of symmetric entries once
    k = 1
    while k <= min(_MAX_CLUSTERS, n) and k * n * d < least:
        found = _expand(kcenters(points, k, np.random.default_rng(seed)), bandwidth, tol)
        if found is not None:
            work = _work(found, points, some)
            if work < least:
                best, least = found, work
            elif work > _HOPELESS * least:
                break
        k *= 2
    return best


def _expand(partition: Partition, bandwidth: float, tol: float) -> Expansion | None:
    reach = partition.radii + cutoff_radius(bandwidth, tol)
    orders = []
    for radius, distance in zip(partition.radii, reach, strict=True):
        order = truncation_order(float(radius), float(distance), bandwidth, tol)
        if order is None:
            return None
        orders.append(order)
    return Expansion(partition, reach, tuple(orders))


def _work(expansion: Expansion, points: FloatArray, some: FloatArray) -> float:
    """Multiplications of a product: distances to all centres, and the terms at a cluster's points and within reach."""
    partition = expansion.partition
    n, d = points.shape
    work = float(n * partition.n_clusters * d)
    for i, terms in enumerate(expansion.n_terms(d)):
        within = np.linalg.norm(some - partition.centers[i], axis=1) <= expansion.reach[i]
        work += 2.0 * terms * (float(partition.sizes[i]) + n * float(within.mean()))
    return work
