"""Kernels of every kind beside their formulas, written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import blockbasis as bb
from tests.repeating import first_of

LENGTHS = np.array([1.5, 20.0, 400.0])
WIDE = np.array([8.0, 30.0, 900.0])
METRIC = np.array([[0.6, 0.02, 0.0], [-0.3, 0.05, 0.004]])


def distance(X, Y, *, lengths=1.0, L=None):
    """|L (x - y) / lengths| of all pairs, from differences."""
    X, Y = (np.asarray(points, dtype=np.float64) for points in (X, Y))
    return cdist(*((points if L is None else points @ L.T) / lengths for points in (X, Y)))


#: A kernel, its values at two sets of points, and the white noise of its symmetric matrix.
KINDS = {
    "lengths": (bb.Gaussian(LENGTHS), lambda X, Y: np.exp(-(distance(X, Y, lengths=LENGTHS) ** 2)), 0.0),
    "kinked lengths": (bb.Laplacian(2 * LENGTHS), lambda X, Y: np.exp(-distance(X, Y, lengths=2 * LENGTHS)), 0.0),
    "projection": (
        bb.Cauchy(1.3).with_metric(METRIC),
        lambda X, Y: 1 / (1 + (distance(X, Y, L=METRIC) / 1.3) ** 2),
        0.0,
    ),
    "lengths in a metric": (
        bb.Gaussian([0.8, 1.7]).with_metric(METRIC),
        lambda X, Y: np.exp(-(distance(X, Y, lengths=[0.8, 1.7], L=METRIC) ** 2)),
        0.0,
    ),
    "scaled sum": (
        2.5 * bb.Gaussian(LENGTHS) + bb.Matern(3 * LENGTHS, nu=0.5),
        lambda X, Y: (
            2.5 * np.exp(-(distance(X, Y, lengths=LENGTHS) ** 2)) + np.exp(-distance(X, Y, lengths=3 * LENGTHS))
        ),
        0.0,
    ),
    "sum of two metrics": (
        bb.Gaussian(LENGTHS) + 0.5 * bb.Cauchy(1.3).with_metric(METRIC),
        lambda X, Y: (
            np.exp(-(distance(X, Y, lengths=LENGTHS) ** 2)) + 0.5 / (1 + (distance(X, Y, L=METRIC) / 1.3) ** 2)
        ),
        0.0,
    ),
    "product with noise": (
        bb.Gaussian(LENGTHS) * bb.InverseMultiquadric(WIDE) + bb.White(0.3),
        lambda X, Y: np.exp(-(distance(X, Y, lengths=LENGTHS) ** 2)) / np.sqrt(1 + distance(X, Y, lengths=WIDE) ** 2),
        0.3,
    ),
    "nested": (
        3.0 * (bb.Gaussian(LENGTHS) + bb.White(0.1)) * (bb.Cauchy(LENGTHS) + 0.5 * bb.Laplacian(LENGTHS)),
        lambda X, Y: (
            3
            * np.exp(-(distance(X, Y, lengths=LENGTHS) ** 2))
            * (1 / (1 + distance(X, Y, lengths=LENGTHS) ** 2) + 0.5 * np.exp(-distance(X, Y, lengths=LENGTHS)))
        ),
        3.0 * 0.1 * 1.5,
    ),
}


class Kind:
    """One kernel of `KINDS`."""

    def __init__(self, name):
        self.kernel, self.values, self.noise = KINDS[name]

    def matrix(self, X):
        return self.values(X, X) + self.noise * np.eye(len(X))


@pytest.fixture(params=KINDS)
def kind(request):
    return Kind(request.param)


#: For tests that take long: sums, products, noise and lengths are in the first kind, and a metric in the second.
two_kinds = pytest.mark.parametrize(
    "kind", first_of(sorted(KINDS, key=lambda name: name not in ("nested", "projection")), 2), indirect=True
)


def make_points(n, seed):
    """Columns of very unlike scales, which is what lengths are for."""
    return np.random.default_rng(seed).normal(size=(n, 3)) * [1, 10, 200]


@pytest.fixture
def X():
    return make_points(60, 0)


@pytest.fixture
def Y():
    return make_points(45, 1)
