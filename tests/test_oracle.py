"""Public functions against slow and obvious dense references, on random small problems."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import blockbasis as bb

FAMILIES = {
    "Gaussian": lambda r: np.exp(-(r**2)),
    "Laplacian": lambda r: np.exp(-r),
    "Matern": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "Cauchy": lambda r: 1 / (1 + r**2),
    "InverseMultiquadric": lambda r: 1 / np.sqrt(1 + r**2),
    "RationalQuadratic": lambda r: 1 / (1 + r**2),
}


class Problem:
    """Points, a kernel and its dense matrix by a loop over all pairs."""

    def __init__(self, seed, family, n, d, form, ridge):
        rng = np.random.default_rng(seed)
        self.rng, self.ridge = rng, ridge
        self.X, self.X_new = rng.normal(size=(n, d)), rng.normal(size=(7, d))
        lengths = np.exp(rng.uniform(-1, 1.5, size=d if form == "lengths" else 1))
        L = np.diag(1 / lengths) if form == "lengths" else np.eye(d) / lengths[0]
        self.kernel = getattr(bb, family)(lengths if form == "lengths" else float(lengths[0]))
        if form == "metric":
            M = rng.normal(size=(d, d))
            self.kernel, L = self.kernel.with_metric(M), L @ M
        self.scale = float(np.exp(rng.uniform(-2, 2))) if form == "scaled" else 1.0
        if form == "scaled":
            self.kernel = self.scale * self.kernel
        self.profile, self.L = FAMILIES[family], L
        self.K, self.K_new = self.dense(self.X, self.X), self.dense(self.X_new, self.X)
        self.b = rng.normal(size=n)
        self.seed = seed

    def dense(self, X, Y):
        return np.array([[self.scale * self.profile(np.linalg.norm(self.L @ (x - y))) for y in Y] for x in X])

    def factorized(self, **given):
        settings = {"n_clusters": 2, "rank": 8, "rng": self.seed, **given}
        return bb.factorize(self.X, self.kernel, **settings)


problems = st.builds(
    Problem,
    st.integers(0, 2**31),
    st.sampled_from(sorted(FAMILIES)),
    st.integers(3, 30),
    st.integers(1, 4),
    st.sampled_from(["one", "lengths", "metric", "scaled"]),
    st.floats(1e-2, 1e1),
)
oracle = settings(
    max_examples=7 * settings.default.max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
few = settings(max_examples=settings.default.max_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(problems)
@oracle
def test_kernels_and_exact_operators(p):
    np.testing.assert_allclose(p.kernel(p.X), p.K, atol=1e-9 * p.scale)
    np.testing.assert_allclose(p.kernel(p.X_new, p.X), p.K_new, atol=1e-9 * p.scale)
    operator = bb.ExactKernel(p.X, p.kernel, n_jobs=1)
    np.testing.assert_allclose(operator @ p.b, p.K @ p.b, atol=1e-8 * p.scale * len(p.b))
    np.testing.assert_allclose(operator.diagonal(), np.diag(p.K), rtol=1e-12)
    assert operator.frobenius_norm() == pytest.approx(np.linalg.norm(p.K))
    cross = bb.ExactCrossKernel(p.X_new, p.X, p.kernel, n_jobs=1)
    np.testing.assert_allclose(cross @ p.b, p.K_new @ p.b, atol=1e-8 * p.scale * len(p.b))


@given(problems)
@oracle
def test_factorizations_and_what_is_said_of_them(p):
    A = p.factorized()
    dense = A.todense()
    np.testing.assert_allclose(dense, dense.T, atol=1e-12 * p.scale)
    np.testing.assert_allclose(A @ p.b, dense @ p.b, atol=1e-9 * p.scale * len(p.b))
    np.testing.assert_allclose(A.diagonal(), np.diag(dense), atol=1e-9 * p.scale)
    true = np.linalg.norm(dense - p.K) / np.linalg.norm(p.K)
    assert bb.relative_error(A, p.X, p.kernel).value == pytest.approx(true, rel=1e-5, abs=1e-8)
    assert np.linalg.eigvalsh(dense)[0] >= -1e-8 * np.linalg.norm(dense)
    whole = p.factorized(n_clusters=1, rank=len(p.X))
    np.testing.assert_allclose(whole.todense(), p.K, atol=1e-7 * p.scale * len(p.X))


@given(problems)
@oracle
def test_systems_and_eigenpairs(p):
    A = p.factorized()
    shifted = A.todense() + p.ridge * np.eye(len(p.b))
    expected = np.linalg.solve(shifted, p.b)
    system = bb.RidgeSystem(A, p.ridge)
    size = np.linalg.norm(expected)
    np.testing.assert_allclose(system.solve(p.b), expected, atol=1e-7 * size)
    for method in ("direct", "cg", "minres"):
        found = bb.solve(A, p.b, p.ridge, method=method)
        assert found.converged
        np.testing.assert_allclose(found.x, expected, atol=1e-4 * size)
    assert system.logdet() == pytest.approx(np.linalg.slogdet(shifted)[1], rel=1e-8, abs=1e-8)
    assert system.quadratic(p.b) == pytest.approx(p.b @ expected, rel=1e-7)
    np.testing.assert_allclose(system.inverse_diagonal(), np.diag(np.linalg.inv(shifted)), rtol=1e-6)
    exact = bb.exact_solve(p.X, p.kernel, p.b, p.ridge, preconditioner=A, n_jobs=1)
    true = np.linalg.solve(p.K + p.ridge * np.eye(len(p.b)), p.b)
    np.testing.assert_allclose(exact.x, true, atol=1e-4 * np.linalg.norm(true))
    count = min(3, int(A.ranks.sum()))
    values = np.linalg.eigvalsh(A.todense())[::-1][:count]
    np.testing.assert_allclose(bb.eigh(A, count).values, values, atol=1e-8 * values[0])


@given(problems)
@few
def test_ridge_regression_with_room_for_everything_is_the_dense_one(p):
    """Few points: the estimators take the dense matrix, and predictions are those of the textbook."""
    coefficients = np.linalg.solve(p.K + p.ridge * np.eye(len(p.b)), p.b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = bb.KernelRidge(
            p.ridge, kernel=p.kernel, n_clusters=1, rank=len(p.b), fit_intercept=False, random_state=0, n_jobs=1
        ).fit(p.X, p.b)
    size = np.abs(p.K_new).max() * np.abs(coefficients).sum()
    np.testing.assert_allclose(model.predict(p.X), p.K @ coefficients, atol=1e-5 * max(size, np.abs(p.b).max()))
