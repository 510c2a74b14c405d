"""A zoo of factorizations and dense references from their factors, which never go through the package's products."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.datasets import unit_cube_mixture


def _factored(n=150, h=0.5, **settings):
    chosen = {"n_clusters": 4, "rank": 12, "rng": 0, **settings}
    return bb.factorize(unit_cube_mixture(n, 3, rng=3), bb.Gaussian(h), **chosen)


FACTORIZATIONS = {
    "with D": lambda: _factored(),
    "no D": lambda: _factored(diagonal=False),
    "float32": lambda: _factored(dtype=np.float32),
    "float32, no D": lambda: _factored(dtype=np.float32, diagonal=False),
    "small bandwidth": lambda: _factored(h=0.05),
    "cutoff": lambda: _factored(h=0.08, n_clusters=8, cutoff=1e-3),
    "cutoff, no D": lambda: _factored(h=0.08, n_clusters=8, cutoff=1e-3, diagonal=False),
    "one cluster": lambda: _factored(n_clusters=1, diagonal=False),
    "unequal ranks": lambda: _factored(rank=[1, 20, 5, 400]),
    "whole": lambda: _factored(n=60, h=0.05, n_clusters=3, rank=60, diagonal=False),
    "singletons": lambda: _factored(n=20, n_clusters=20, rank=1, diagonal=False),
    "n=1": lambda: _factored(n=1, n_clusters=1, rank=1, diagonal=False),
}


@functools.cache
def factorization(name):
    return FACTORIZATIONS[name]()


def dense_of(A, dtype=np.float64):
    """U C Uᵀ + D from the factors, in the order of the caller's points."""
    n, ends = A.shape[0], np.cumsum(A.ranks)
    U = np.zeros((n, int(ends[-1])), dtype=dtype)
    for cluster, block, end in zip(A.partition.clusters, A.bases, ends, strict=True):
        U[A.partition.order[cluster], end - block.shape[1] : end] = block
    dense = U @ A.inner.todense().astype(dtype) @ U.T
    if A.diagonal_part is not None:
        dense[np.diag_indices(n)] += A.diagonal_part
    return (dense + dense.T) / 2


def negated(A):
    """The factorization with -C and without D: indefinite."""
    return replace(A, inner=A.inner.with_panels(-panel.values for panel in A.inner.panels), diagonal_part=None)


@pytest.fixture(params=FACTORIZATIONS)
def A(request):
    return factorization(request.param)


@pytest.fixture(params=["with D", "no D"])
def pair(request):
    return factorization(request.param)


@pytest.fixture
def plain():
    return factorization("no D")


@pytest.fixture
def with_diagonal():
    return factorization("with D")


@pytest.fixture
def of():
    """Functions on factorizations, by name."""
    return {"dense": dense_of, "negated": negated, "named": factorization}


@pytest.fixture
def rng():
    return np.random.default_rng(5)
