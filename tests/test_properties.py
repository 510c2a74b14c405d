"""Properties that hold for any points: symmetry, definiteness, goals, permutation, scaling, moving and turning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import blockbasis as bb

KERNELS = {
    "gaussian": bb.Gaussian,
    "laplacian": bb.Laplacian,
    "matern-1.5": lambda h: bb.Matern(h, 1.5),
    "matern-2.5": lambda h: bb.Matern(h, 2.5),
    "cauchy": bb.Cauchy,
    "inverse-multiquadric": bb.InverseMultiquadric,
    "rational-quadratic": lambda h: bb.RationalQuadratic(h, 0.5),
}
makers = st.sampled_from(sorted(KERNELS)).map(KERNELS.get)
seeds = st.integers(0, 2**31 - 1)
bandwidths = st.floats(-3, 3).map(lambda exponent: 10**exponent)

#: Every construction that ends in a semi-definite C; nothing is cut off.
DEFINITE = [
    {},
    {"diagonal": False},
    {"inner": "exact"},
    {"sampling": "randomized"},
    {"sampling": "pooled"},
    {"sampling": "uniform"},
    {"sampling": "leverage"},
    {"sampling": "exact", "inner": "exact", "diagonal": False},
    {"partition": "random"},
]


@st.composite
def clouds(draw, smallest=2, largest=60):
    """Points of many shapes: clouds of unlike sizes and spreads, duplicates, lattices, lines."""
    n, d = draw(st.integers(smallest, largest)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(seeds))
    shape = draw(st.sampled_from(["normal", "clouds", "duplicates", "lattice", "line"]))
    X = rng.normal(size=(n, d))
    if shape == "clouds":
        X = X * 10.0 ** rng.uniform(-2, 0, size=(n, 1)) + 3 * rng.integers(-2, 3, size=(n, d))
    elif shape == "duplicates":
        X = X[rng.integers(max(1, n // 4), size=n)]
    elif shape == "lattice":
        X = np.rint(2 * X)
    elif shape == "line":
        X = np.linspace(-1, 1, n)[:, np.newaxis] * np.ones(d)
    return X


# --- symmetry and definiteness ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", DEFINITE, ids=str)
@given(X=clouds(), make=makers, h=bandwidths, k=st.integers(1, 5), rank=st.integers(1, 12), seed=seeds)
def test_symmetric_and_positive_semidefinite(method, X, make, h, k, rank, seed):
    """The smallest eigenvalue of U C Uᵀ + D is not below -1e-10 times the largest."""
    A = bb.factorize(X, make(h), n_clusters=min(k, len(X)), rank=rank, rng=seed, n_jobs=1, **method).todense()
    np.testing.assert_allclose(A, A.T, atol=1e-13 * np.abs(A).max())
    values = np.linalg.eigvalsh((A + A.T) / 2)
    assert values[0] >= -1e-10 * values[-1]


@given(X=clouds(), make=makers, h=bandwidths, k=st.integers(1, 5), rank=st.integers(1, 12), seed=seeds)
def test_the_papers_operator_is_symmetric(X, make, h, k, rank, seed):
    A = bb.factorize(X, make(h), n_clusters=min(k, len(X)), rank=rank, algorithm="paper", rng=seed, n_jobs=1)
    dense = A.todense()
    np.testing.assert_allclose(dense, dense.T, atol=1e-12 * np.abs(dense).max())


@given(X=clouds(), make=makers, h=st.floats(0.3, 1e3), k=st.integers(1, 5), seed=seeds)
def test_full_ranks_are_exact(X, make, h, k, seed):
    """For points that are at most some thirty bandwidths from their centre: rounding grows with the square of that."""
    A = bb.factorize(X, make(h), n_clusters=min(k, len(X)), rank=len(X), rng=seed, n_jobs=1)
    K = make(h)(X)
    assert np.linalg.norm(A.todense() - K) <= 1e-12 * np.linalg.norm(K)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(
    X=clouds(),
    make=makers,
    h=st.floats(-4, 5).map(lambda exponent: 10**exponent),
    method=st.sampled_from(
        [*DEFINITE, {"algorithm": "paper"}, {"sampling": "diagonal-block"}, {"partition": "kcenters"}]
    ),
    k=st.integers(1, 5),
    rank=st.integers(1, 12),
    seed=seeds,
)
@settings(max_examples=60)
@pytest.mark.filterwarnings("ignore:The relative error of K.X_new:blockbasis.AccuracyWarning")
def test_any_points_can_be_factored(dtype, X, make, h, method, k, rank, seed):
    """Duplicates, lines, lattices, pairs; the identity and the matrix of ones: finite, with orthonormal bases."""
    A = bb.factorize(X, make(h), n_clusters=min(k, len(X)), rank=rank, dtype=dtype, rng=seed, n_jobs=1, **method)
    assert np.isfinite(A.todense()).all()
    assert np.isfinite(A.extend(X + 0.1).todense()).all()
    for U in A.bases:
        np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-12 if dtype is np.float64 else 1e-5)


# --- tolerances and budgets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [{}, {"diagonal": False}, {"partition": "random"}, {"dtype": np.float32}], ids=str)
@given(X=clouds(largest=120), make=makers, h=bandwidths, tol=st.floats(-4, -0.5).map(lambda x: 10**x), seed=seeds)
@settings(max_examples=15)
def test_a_tolerance_is_met_or_a_warning_says_that_it_is_not(method, X, make, h, tol, seed):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        A = bb.factorize(X, make(h), tol=tol, rng=seed, n_jobs=1, **method)
    warned = any(issubclass(each.category, bb.AccuracyWarning) for each in caught)
    assert not (warned and A.dtype == np.float64)  # ranks may rise until the matrix is exact
    if not warned:
        K = make(h)(X)
        assert np.linalg.norm(A.todense() - K) <= (1.05 * tol + 1e-12) * np.linalg.norm(K)


@given(X=clouds(largest=120), make=makers, h=bandwidths, share=st.floats(0.05, 1.5), seed=seeds)
@settings(max_examples=40)
def test_a_budget_of_floats_is_kept(X, make, h, share, seed):
    """The floats that a product reads, from the least that one vector in one cluster takes."""
    budget = int(3 * len(X) + 8 + share * len(X) ** 2)
    A = bb.factorize(X, make(h), memory=budget, rng=seed, n_jobs=1)
    assert A.stored <= budget
    assert np.isfinite(A.todense()).all()


@given(X=clouds(smallest=40, largest=120), make=makers, h=bandwidths, kilobytes=st.integers(40, 200), seed=seeds)
@settings(max_examples=25)
def test_a_budget_of_bytes_is_kept(X, make, h, kilobytes, seed):
    A = bb.factorize(X, make(h), memory=f"{kilobytes}kB", rng=seed, n_jobs=1)
    assert A.nbytes <= 1000 * kilobytes
    assert np.isfinite(A.todense()).all()


# --- permutation -----------------------------------------------------------------------------------------------------


@given(X=clouds(), make=makers, h=bandwidths, k=st.integers(1, 4), seed=seeds)
def test_permuted_points_give_the_permuted_matrix(X, make, h, k, seed):
    """Exactly so when ranks are full: whatever clusters the permuted points fall into, the matrix is the same."""
    p = np.random.default_rng(seed).permutation(len(X))
    A, B = (bb.factorize(points, make(h), n_clusters=min(k, len(X)), rank=60, rng=0, n_jobs=1) for points in (X, X[p]))
    np.testing.assert_allclose(B.todense(), A.todense()[np.ix_(p, p)], atol=1e-11)


@given(make=makers, h=st.floats(0.3, 3.0), rank=st.integers(3, 8), diagonal=st.booleans(), seed=seeds)
def test_permuted_points_give_the_permuted_matrix_at_low_rank(make, h, rank, diagonal, seed):
    """With given labels and nothing drawn at random: all columns, all entries, and clusters so small (12 points, of
    which 4 * rank determine coordinates) that all rows are used."""
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(36, 2)), np.arange(36) % 3
    p, names = rng.permutation(36), rng.permutation(3)

    def dense(points, of):
        return bb.factorize(
            points,
            make(h),
            n_clusters=3,
            rank=rank,
            partition=of,
            sampling="exact",
            inner="exact",
            diagonal=diagonal,
            rng=0,
            n_jobs=1,
        ).todense()

    # A tie between the last singular value kept and the first one left is broken by rounding.
    for cluster in range(3):
        s = np.linalg.svd(make(h)(X[labels == cluster], X))[1]
        assume(s[rank - 1] - s[rank] > 1e-4 * s[0])
    np.testing.assert_allclose(dense(X[p], names[labels[p]]), dense(X, labels)[np.ix_(p, p)], atol=1e-6)


# --- scaling, moving, turning ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [{}, {"algorithm": "paper"}, {"partition": "kcenters"}])
@given(X=clouds(), make=makers, h=bandwidths, exponent=st.integers(-20, 20), seed=seeds)
@settings(max_examples=15)
def test_scaling_points_and_bandwidth_by_a_power_of_two_changes_no_bit(method, X, make, h, exponent, seed):
    scale = 2.0**exponent
    common = {"n_clusters": min(3, len(X)), "rank": 5, "rng": seed, "n_jobs": 1, **method}
    A, B = bb.factorize(X, make(h), **common), bb.factorize(scale * X, make(scale * h), **common)
    np.testing.assert_array_equal(A.partition.order, B.partition.order)
    np.testing.assert_array_equal(A.todense(), B.todense())


@given(make=makers, h=st.floats(0.3, 1e3), scale=st.floats(1e-3, 1e3), rank=st.integers(1, 12), seed=seeds)
def test_scaling_points_and_bandwidth_together(make, h, scale, rank, seed):
    """The same draws, the same clusters, the same error but for rounding (at a tiny bandwidth K is the identity, whose
    leading direction is rounding alone)."""
    X = np.random.default_rng(seed).normal(size=(60, 2))
    K = make(h)(X)
    np.testing.assert_allclose(make(scale * h)(scale * X), K, atol=1e-11)
    common = {"n_clusters": 3, "rank": rank, "partition": np.arange(60) % 3, "rng": seed, "n_jobs": 1}
    errors = [
        np.linalg.norm(bb.factorize(points, make(width), **common).todense() - K) / np.linalg.norm(K)
        for points, width in ((X, h), (scale * X, scale * h))
    ]
    assert errors[1] == pytest.approx(errors[0], rel=0.05, abs=1e-11)


@given(make=makers, h=st.floats(0.3, 3.0), seed=seeds)
def test_moving_and_turning_the_points(make, h, seed):
    """Radial kernels see distances alone."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(48, 3))
    turned = X @ np.linalg.qr(rng.normal(size=(3, 3)))[0] + rng.uniform(-100, 100, size=3)
    common = {"n_clusters": 3, "rank": 6, "partition": np.arange(48) % 3, "rng": seed, "n_jobs": 1}
    K = make(h)(X)
    np.testing.assert_allclose(make(h)(turned), K, atol=1e-10)
    errors = [
        np.linalg.norm(bb.factorize(points, make(h), **common).todense() - K) / np.linalg.norm(K)
        for points in (X, turned)
    ]
    assert errors[1] == pytest.approx(errors[0], rel=0.05, abs=1e-10)
