"""Shared points, kernels with their formulas, and references that never go through the package's own algorithms."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

import blockbasis as bb
from blockbasis._utils import tiling
from blockbasis.datasets import unit_cube_mixture

settings.register_profile(
    "blockbasis",
    deadline=None,  # the machine may be busy
    derandomize=True,  # the same examples everywhere, so that a failure is a failure for everybody
    database=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.register_profile("all", settings.get_profile("blockbasis"), max_examples=50)  # of make test-all
settings.load_profile("blockbasis")

#: Every radial kernel of the package beside its formula in the distance t and the bandwidth h, written out by hand.
KERNELS = {
    "gaussian": (bb.Gaussian, lambda t, h: np.exp(-((t / h) ** 2))),
    "laplacian": (bb.Laplacian, lambda t, h: np.exp(-t / h)),
    "matern-0.5": (lambda h: bb.Matern(h, 0.5), lambda t, h: np.exp(-t / h)),
    "matern-1.5": (lambda h: bb.Matern(h, 1.5), lambda t, h: (1 + 3**0.5 * t / h) * np.exp(-(3**0.5) * t / h)),
    "matern-2.5": (
        lambda h: bb.Matern(h, 2.5),
        lambda t, h: (1 + 5**0.5 * t / h + 5 * t**2 / (3 * h**2)) * np.exp(-(5**0.5) * t / h),
    ),
    "cauchy": (bb.Cauchy, lambda t, h: 1 / (1 + (t / h) ** 2)),
    "inverse-multiquadric": (bb.InverseMultiquadric, lambda t, h: (1 + (t / h) ** 2) ** -0.5),
    "rational-quadratic": (lambda h: bb.RationalQuadratic(h, 0.7), lambda t, h: (1 + (t / h) ** 2 / 0.7) ** -0.7),
}
SAMPLINGS = ("energy", "randomized", "pooled", "uniform", "leverage", "exact", "diagonal-block")


class RadialCase:
    """One kernel family: ``make(h)`` of the package, ``formula(t, h)``, ``matrix(X, Y, h)`` from exact distances."""

    def __init__(self, name):
        self.make, self.formula = KERNELS[name]

    def matrix(self, X, Y, h):
        return self.formula(cdist(np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)), h)


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    """Small matrices on a shared machine: several BLAS threads would only wait for each other."""
    with threadpool_limits(limits=1):
        yield


@pytest.fixture(params=KERNELS)
def radial(request):
    return RadialCase(request.param)


@pytest.fixture(params=SAMPLINGS)
def sampling(request):
    return request.param


@pytest.fixture(params=["kmeans", "kcenters", "random", "labels"])
def partition_of(request):
    """Function from a number of points to the ``partition`` argument."""
    return (lambda n: np.arange(n) % 3 - 1) if request.param == "labels" else (lambda n: request.param)


@pytest.fixture(scope="session")
def points():
    """160 points in three dimensions, around ten centres."""
    return _frozen(unit_cube_mixture(160, 3, rng=3))


@pytest.fixture(scope="session")
def many_points():
    """600 points in four dimensions: enough that 200 sampled columns are few."""
    return _frozen(unit_cube_mixture(600, 4, rng=7))


def _frozen(array):
    array.setflags(write=False)
    return array


@pytest.fixture
def relative():
    """Relative Frobenius distance of two arrays (or of an operator and an array), in plain NumPy."""

    def distance(A, K):
        dense = A if isinstance(A, np.ndarray) else A.todense()
        return np.linalg.norm(dense - K) / np.linalg.norm(K)

    return distance


@pytest.fixture
def tiles_of(monkeypatch):
    """Function that sets the number of entries of a tile for the whole package."""
    return lambda entries: monkeypatch.setattr(tiling, "TILE_ENTRIES", entries)


@pytest.fixture
def best_error():
    """Error of the best bases of a rank, U_i from an SVD of every whole row-submatrix, with the exact inner matrix."""

    def error(K, partition, rank):
        K = K[np.ix_(partition.order, partition.order)]
        projector = np.zeros_like(K)
        for cluster in partition.clusters:
            U = np.linalg.svd(K[cluster], full_matrices=False)[0][:, :rank]
            projector[cluster, cluster] = U @ U.T
        return np.linalg.norm(K - projector @ K @ projector) / np.linalg.norm(K)

    return error


@pytest.fixture
def counting():
    """A Gaussian as a user's own function that counts the entries it is asked for."""

    class Counting:
        seen = 0

        def __call__(self, X, Y):
            self.seen += X.shape[0] * Y.shape[0]
            return np.exp(-cdist(X, Y, "sqeuclidean"))

    return Counting()


def _raw(name):
    """Columns of one of the paper's data sets; the test is skipped where it is not at hand."""
    named = os.environ.get("BLOCKBASIS_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[1].parent / "shared" / "data"
    path = folder / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"no {path}: set BLOCKBASIS_DATA to a directory with the paper's data")
    with np.load(path) as data:
        return data["X"].astype(np.float64)


def _standardized(X):
    return _frozen((X - X.mean(axis=0)) / X.std(axis=0))


@pytest.fixture(scope="session")
def abalone():
    """Abalone, standardised: the paper's real data, where it is at hand."""
    return _standardized(_raw("abalone"))


@pytest.fixture(scope="session")
def abalone_of_the_tables():
    """Abalone with its sexes numbered by the alphabet (F, I, M): what the paper's figures and tables show."""
    X = _raw("abalone")
    X[:, 0] = np.array([np.nan, 3, 1, 2])[X[:, 0].astype(int)]  # the file has M=1, F=2, I=3
    return _standardized(X)


@pytest.fixture(scope="session")
def pendigits():
    """All of Pendigits; skips where there is none."""
    return _standardized(_raw("pendigits"))


@pytest.fixture(scope="session")
def pendigits_of_the_tables():
    """The 7,494 training points of Pendigits, which the paper's table of statistics shows."""
    return _standardized(_raw("pendigits")[:7494])
