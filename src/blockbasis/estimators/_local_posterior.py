"""Posterior of a Gaussian process with many data: exact for near data, and with inducing points for all others.

The prior is the fully independent training conditional (FITC) with inducing points Z. Let L Lᵀ = k(Z, Z) and
phi(x) = L^-1 k(Z, x). The prior covariance of two points is phi(x)ᵀ phi(x'), and the prior variance of a point is
k(x, x). The difference k(x, x) - |phi(x)|² is never negative, so that all covariance matrices are positive
semi-definite. The block basis does not have this property, and is not used here.

For each cluster, FITC is replaced by the exact covariance for the data of its neighbourhood. This is a partially
independent conditional (E. Snelson, Z. Ghahramani, AISTATS 2007) with overlapping blocks. Near the border between two
clusters, predictions are weighted means of both, with continuous weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg
from scipy.linalg import blas

from blockbasis._utils.linalg import shifted_cholesky, symmetric
from blockbasis._utils.parallel import map_threads, single_threaded
from blockbasis._utils.tiling import tiles
from blockbasis.estimators._blending import Blend
from blockbasis.estimators._continuation import among, some_of
from blockbasis.estimators._expansion import Expansion, kernel_rows
from blockbasis.partition import QUICK, Partition, kmeans, nearest, nearest_points

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray
    from blockbasis.estimators._posterior import Posterior
    from blockbasis.kernels import Kernel

#: Inducing points, points of a cluster, and points of a neighbourhood at most. Clusters of 300 points lose more of the
#: data across gaps, and save a quarter of the time.
INDUCING_POINTS = 300
CLUSTER_POINTS = 500
_NEIGHBOURHOOD_POINTS = 1_800
#: Points of a neighbourhood, without those across a gap, in units of the mean number of points of a cluster. Near
#: points matter more than inducing points: with 3.1 and 300 inducing points, the mean of a Laplacian kernel in two
#: dimensions is nearer to the exact one than with 2.2 and 500, in the same time.
_AROUND = 3.1
#: Neighbourhoods have points of the _CANDIDATES nearest clusters. They include the _SIDE points nearest to the middle
#: between the cluster and each of at most _FACING clusters, of the _BESIDE clusters nearest to the middle.
_CANDIDATES = 64
_FACING = 8
_BESIDE = 12
_SIDE = 200
#: Shifts of matrices, relative to the mean of the diagonal, which exceed their rounding errors.
_ROUNDING = 1e-10
_PRECISE = 1e-14


@dataclass(frozen=True, eq=False)
class Inducing:
    """Posterior of FITC, which all clusters share.

    The function is phi(x)ᵀ w plus independent noise, and the prior of w is standard normal.

    Parameters
    ----------
    kernel : Kernel
        Kernel as a function of mapped points, without white noise.
    points : ndarray of shape (m, d)
        Inducing points Z.
    root : ndarray of shape (m, m)
        Cholesky factor L.
    precision : ndarray of shape (m, m)
        Precision matrix B of the posterior of w.
    evidence : ndarray of shape (m, n_targets)
        B times the posterior mean of w.
    """

    kernel: Kernel
    points: FloatArray
    root: FloatArray
    precision: FloatArray
    evidence: FloatArray

    def features(self, X: FloatArray) -> FloatArray:
        """Features phi(x) of each row of ``X``."""
        return _features(self.kernel, self.points, self.root, X)

    @cached_property
    def factor(self) -> FloatArray:
        """Cholesky factor of B."""
        return np.asarray(linalg.cholesky(self.precision, lower=True, check_finite=False))

    def covariance(self, X: FloatArray) -> FloatArray:
        """Posterior covariance matrix of new points."""
        p = self.features(X)
        spread = linalg.solve_triangular(self.factor, p.T, lower=True, check_finite=False)
        return symmetric(among(self.kernel, X) - p @ p.T + spread.T @ spread)


class Near(NamedTuple):
    """Data of a neighbourhood, given all other data.

    Parameters
    ----------
    features : ndarray of shape (n_near, m)
    far : ndarray of shape (m, m)
        Cholesky factor of the precision of w given the data outside of the neighbourhood.
    spread : ndarray of shape (m, n_near)
        Inverse of ``far`` times the features.
    factor : ndarray of shape (n_near, n_near)
        Cholesky factor of the covariance of the near targets.
    weighted : ndarray of shape (n_near, m)
        Features divided by the variances of the targets in FITC.
    """

    features: FloatArray
    far: FloatArray
    spread: FloatArray
    factor: FloatArray
    weighted: FloatArray


@dataclass(frozen=True, eq=False)
class LocalPosterior:
    """Posterior of a Gaussian process with signal variance 1.

    Parameters
    ----------
    mean : Expansion
        Posterior mean, one function for each target. The points of each cluster are the inducing points and those of
        its neighbourhood.
    noises : tuple of ndarray of shape (n_near,)
        Variances of the noise in each neighbourhood.
    root, precision, evidence : ndarray
        As in `Inducing`.
    """

    mean: Expansion
    noises: tuple[FloatArray, ...]
    root: FloatArray
    precision: FloatArray
    evidence: FloatArray

    @property
    def _inducing(self) -> Inducing:
        points = self.mean.points[0][: len(self.root)]
        return Inducing(self.mean.kernel.core, points, self.root, self.precision, self.evidence)

    def variance(self, X: FloatArray, n_jobs: int) -> FloatArray:
        """Variances of new points: weighted means over the clusters, with the weights of the mean function."""
        X = self.mean.kernel.coordinates(X).astype(np.float64, copy=False)
        shares = self.mean.blend.shares(X, self.mean.centers)
        variances = np.zeros(len(X))
        with single_threaded():
            found = map_threads(self._variances, [(i, X[rows]) for i, rows, _ in shares], n_jobs, "variance")
        for (_, rows, weights), values in zip(shares, found, strict=True):
            variances[rows] += weights * values
        return variances

    def covariance(self, X: FloatArray) -> FloatArray:
        """Covariance matrix of new points, with the correlations of FITC and the variances of `variance`."""
        variances = self.variance(X, 1)
        found = self._inducing.covariance(self.mean.kernel.coordinates(X).astype(np.float64, copy=False))
        own = np.maximum(np.diagonal(found), np.finfo(np.float64).tiny)
        scales = np.sqrt(variances / own)
        return symmetric(scales[:, np.newaxis] * found * scales)

    def _variances(self, i: int, X: FloatArray) -> FloatArray:
        inducing, points = self._inducing, self.mean.points[i][len(self.root) :]
        near = _near(inducing, points, self.noises[i])
        own, variances = inducing.kernel.diagonal(X), np.empty(len(X))
        for tile in tiles(len(X), len(points) + len(self.root)):
            p = inducing.features(X[tile])
            left = linalg.solve_triangular(near.far, p.T, lower=True, check_finite=False)
            columns = kernel_rows(inducing.kernel, X[tile], points).T - near.features @ p.T + near.spread.T @ left
            known = linalg.solve_triangular(near.factor, columns, lower=True, check_finite=False)
            given = _squares(left.T) - _squares(p) - _squares(known.T)
            variances[tile] = np.clip(own[tile] + given, 0, own[tile])
        return variances


class Conditioned(NamedTuple):
    """Posterior, log-likelihood of the targets and dual coefficients, for signal variance 1."""

    posterior: LocalPosterior | Posterior
    value: float
    dual: FloatArray


def conditioned(
    kernel: Kernel,
    X: FloatArray,
    Y: FloatArray,
    noise: FloatArray,
    n_clusters: int,
    rng: np.random.Generator,
    n_jobs: int,
) -> Conditioned:
    """Condition the process with signal variance 1 on targets.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, n_targets)
    noise : ndarray of shape (n,)
        Variances of the noise of the targets, including the white noise of the kernel.
    n_clusters : int
    rng : Generator
    n_jobs : int
    """
    core, X = kernel.core, kernel.coordinates(X).astype(np.float64, copy=False)
    drawn, clustered, thinned = rng.spawn(3)
    with single_threaded():
        inducing, value, dual = _induced(core, X, Y, noise, drawn, n_jobs)
        partition = kmeans(X, n_clusters, clustered, QUICK)
        around = [np.union1d(*both) for both in zip(_within(partition, X), _across(partition, X), strict=True)]
        rows = [some_of(each, _NEIGHBOURHOOD_POINTS, thinned) for each in around]
        tasks = [(inducing, X[each], Y[each], noise[each]) for each in rows]
        weights = map_threads(_weights, tasks, n_jobs, "neighbourhoods")
    points = tuple(np.concatenate((inducing.points, X[each])) for each in rows)
    mean = Expansion(kernel, partition.centers, points, tuple(weights), Blend.of(partition, X))
    noises = tuple(noise[each] for each in rows)
    return Conditioned(LocalPosterior(mean, noises, inducing.root, inducing.precision, inducing.evidence), value, dual)


def _induced(
    kernel: Kernel, X: FloatArray, Y: FloatArray, noise: FloatArray, rng: np.random.Generator, n_jobs: int
) -> tuple[Inducing, float, FloatArray]:
    """Posterior of FITC, the log-likelihood of the targets, and their dual coefficients."""
    n, n_targets = Y.shape
    points = X[np.sort(rng.choice(n, min(INDUCING_POINTS, n), replace=False))]
    K = among(kernel, points)
    root = shifted_cholesky(K, _ROUNDING * float(np.trace(K)) / len(K))

    def seen(rows: slice) -> tuple[FloatArray, FloatArray]:
        """Features of some points, and the variances of their targets given w."""
        p = _features(kernel, points, root, X[rows])
        return p, _left(kernel, X[rows], p) + noise[rows]

    def sums(rows: slice) -> tuple[FloatArray, FloatArray, float]:
        p, variances = seen(rows)
        weighted = p / variances[:, np.newaxis]
        size = float(((Y[rows] / variances[:, np.newaxis]) * Y[rows]).sum())
        return p.T @ weighted, weighted.T @ Y[rows], size + n_targets * float(np.log(variances).sum())

    pieces = [(tile,) for tile in tiles(n, len(points))]
    grams, right, sizes = zip(*map_threads(sums, pieces, n_jobs, "inducing points"), strict=True)
    precision = np.eye(len(points)) + symmetric(sum(grams))
    inducing = Inducing(kernel, points, root, precision, np.asarray(sum(right)))
    weights = linalg.cho_solve((inducing.factor, True), inducing.evidence, check_finite=False)
    logdet = 2 * float(np.log(np.diagonal(inducing.factor)).sum())
    spread = sum(sizes) - float(np.vdot(inducing.evidence, weights)) + n_targets * logdet
    value = -0.5 * (spread + n_targets * n * math.log(2 * math.pi))

    def residuals(rows: slice) -> FloatArray:
        p, variances = seen(rows)
        return np.asarray((Y[rows] - p @ weights) / variances[:, np.newaxis])

    return inducing, value, np.concatenate(map_threads(residuals, pieces, n_jobs))


def _within(partition: Partition, X: FloatArray) -> list[IntArray]:
    """For each cluster, its points and the points of other clusters that are nearest to its border.

    Let c be the centre of the cluster and c' that of a point x in another cluster. The difference |x - c|² - |x - c'|²
    is proportional to the distance of x from the border between both, the plane in which it is zero.
    """
    centers, k = partition.centers, partition.n_clusters
    from_own = _squares(X - centers[partition.labels])
    count = min(int(_AROUND * partition.n_points / k), _NEIGHBOURHOOD_POINTS)
    found = []
    for i, clusters in enumerate(nearest_points(centers, centers, min(_CANDIDATES, k))):
        rows = _members(partition, clusters)
        beyond = _squares(X[rows] - centers[i]) - from_own[rows]
        found.append(np.union1d(_members(partition, [i]), rows[_smallest(beyond, count)]))
    return found


def _across(partition: Partition, X: FloatArray) -> list[IntArray]:
    """For each cluster, the points around the gaps beside it.

    Predictions in a gap between clusters need data from all sides. Two clusters face each other if no other centre is
    nearer to the midpoint of their centres (a Gabriel graph). The points nearest to the midpoint are used.
    """
    centers, k = partition.centers, partition.n_clusters
    found = []
    for i, candidates in enumerate(nearest_points(centers, centers, min(_CANDIDATES, k))):
        middles = (centers[i] + centers[candidates]) / 2
        at = nearest(middles, centers)
        facing = np.flatnonzero((candidates != i) & ((at == candidates) | (at == i)))[:_FACING]
        chosen = [np.empty(0, dtype=np.intp)]
        for middle in middles[facing]:
            rows = _members(partition, nearest_points(centers, middle[np.newaxis], min(_BESIDE, k))[0])
            chosen.append(rows[_smallest(_squares(X[rows] - middle), _SIDE)])
        found.append(np.concatenate(chosen))
    return found


def _members(partition: Partition, clusters: Iterable[int]) -> IntArray:
    """Points of some clusters."""
    return np.concatenate([partition.order[partition.cluster(i)] for i in clusters])


def _smallest(values: FloatArray, count: int) -> IntArray:
    """Positions of at most ``count`` of the smallest values."""
    return np.argpartition(values, min(count, len(values)) - 1)[:count]


def _near(inducing: Inducing, X: FloatArray, noise: FloatArray) -> Near:
    p = inducing.features(X)
    deviations = np.sqrt(_left(inducing.kernel, X, p) + noise)[:, np.newaxis]
    scaled = p / deviations
    # Only the lower triangles are computed and read.
    rest = _plus_gram(np.array(inducing.precision, order="F"), -1.0, scaled)
    far = shifted_cholesky(rest, _PRECISE * float(inducing.precision.max()))
    spread = linalg.solve_triangular(far, p.T, lower=True, check_finite=False)
    covariance = inducing.kernel.block(X, X).T  # contiguous columns, which BLAS and LAPACK overwrite
    covariance[np.diag_indices_from(covariance)] = inducing.kernel.diagonal(X) + noise
    covariance = _plus_gram(_plus_gram(covariance, -1.0, p.T), 1.0, spread)
    factor = shifted_cholesky(covariance, _PRECISE * float(np.diagonal(covariance).max()))
    return Near(p, far, spread, factor, scaled / deviations)


def _plus_gram(M: FloatArray, factor: float, A: FloatArray) -> FloatArray:
    """The lower triangle of M + factor Aᵀ A, for a symmetric M, which is overwritten if its columns are contiguous."""
    return np.asarray(blas.dsyrk(factor, A, beta=1.0, c=M, trans=1, lower=1, overwrite_c=1))


def _weights(inducing: Inducing, X: FloatArray, Y: FloatArray, noise: FloatArray) -> FloatArray:
    """Weights of the kernel columns of the inducing points and the neighbourhood in the mean of a cluster."""
    near = _near(inducing, X, noise)
    far_mean = linalg.cho_solve((near.far, True), inducing.evidence - near.weighted.T @ Y, check_finite=False)
    dual = linalg.cho_solve((near.factor, True), Y - near.features @ far_mean, check_finite=False)
    through = near.features.T @ dual
    held = far_mean - through + linalg.cho_solve((near.far, True), through, check_finite=False)
    return np.concatenate((linalg.solve_triangular(inducing.root, held, lower=True, trans=1, check_finite=False), dual))


def _features(kernel: Kernel, points: FloatArray, root: FloatArray, X: FloatArray) -> FloatArray:
    columns = kernel.block(points, X).astype(np.float64, copy=False)
    return np.asarray(linalg.solve_triangular(root, columns, lower=True, check_finite=False).T)


def _left(kernel: Kernel, X: FloatArray, features: FloatArray) -> FloatArray:
    """Prior variance of each point minus |phi(x)|², and at least a positive rounding error, since it is a divisor."""
    own = kernel.diagonal(X)
    return np.asarray(np.maximum(own - _squares(features), _PRECISE * own))


def _squares(rows: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
