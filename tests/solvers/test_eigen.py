from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse.linalg import ArpackNoConvergence

import blockbasis as bb
from blockbasis.solvers import eigen
from tests.repeating import first_of


def assert_eigenpairs(found, M, count, tol):
    exact = np.linalg.eigvalsh(M)[::-1][:count]
    scale = np.abs(exact).max()
    np.testing.assert_allclose(found.values, exact, atol=tol * scale)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(count), atol=1e-10)
    np.testing.assert_allclose(M @ found.vectors, found.vectors * found.values, atol=100 * tol * scale)


def test_eigenpairs_are_the_dense_matrixs(A, of):
    most = int(A.ranks.sum()) if A.diagonal_part is None else A.shape[0]
    for count in {1, min(5, most), most}:
        assert_eigenpairs(bb.eigh(A, count), of["dense"](A), count, 1e-12)


def test_eigenpairs_of_the_exact_kernel_matrix(many_points):
    kernel = bb.Gaussian(1.0)
    A = bb.factorize(many_points, kernel, n_clusters=3, rank=80, diagonal=False, rng=0)
    values, vectors = bb.eigh(A, 10)
    exact_values, exact_vectors = np.linalg.eigh(kernel(many_points))
    np.testing.assert_allclose(values, exact_values[::-1][:10], rtol=1e-5)
    alignment = np.abs((vectors * exact_vectors[:, ::-1][:, :10]).sum(axis=0))
    assert alignment[:5].min() > 1 - 1e-6


def test_the_sign_is_that_of_the_largest_entry(pair):
    vectors = bb.eigh(pair, 6).vectors
    largest = np.abs(vectors).argmax(axis=0)
    assert (vectors[largest, np.arange(6)] > 0).all()
    again = bb.eigh(pair, 6)
    assert (again.vectors == vectors).all()


def test_negative_eigenvalues_come_last(plain, of):
    A = of["negated"](plain)
    most = int(A.ranks.sum())
    found = bb.eigh(A, most)
    assert found.values[-1] == pytest.approx(-np.linalg.norm(of["dense"](plain), 2), rel=1e-12)
    assert (np.diff(found.values) <= 0).all()


def test_iteration_without_convergence_is_an_error(with_diagonal, monkeypatch):
    def gives_up(operator, k, **settings):
        raise ArpackNoConvergence("%s", np.ones(1), np.ones((150, 1)))

    expected = bb.eigh(with_diagonal, 4).values
    monkeypatch.setattr(eigen, "eigsh", gives_up)
    np.testing.assert_allclose(bb.eigh(with_diagonal, 4).values, expected)  # few points: the dense matrix
    X = np.random.default_rng(0).normal(size=(2100, 2))
    many = bb.factorize(X, bb.Gaussian(0.05), n_clusters=3, rank=2, rng=0)
    with pytest.raises(np.linalg.LinAlgError, match="Only 1 of 4 eigenpairs.*diagonal=False"):
        bb.eigh(many, 4)


def test_a_diagonal_part_that_moves_the_eigenvalues(with_diagonal, of, rng):
    A = replace(with_diagonal, diagonal_part=rng.uniform(0, 20.0, size=150))
    assert_eigenpairs(bb.eigh(A, 8), of["dense"](A), 8, 1e-10)


@pytest.mark.parametrize(
    ("count", "error", "message"),
    [
        (0, ValueError, "'n_components' parameter of eigh"),
        (-1, ValueError, "at least 1"),
        (2.0, TypeError, "an integer"),
        (None, TypeError, "an integer"),
    ],
)
def test_bad_numbers_of_components(pair, count, error, message):
    with pytest.raises(error, match=message):
        bb.eigh(pair, count)


def test_no_more_components_than_there_are(plain, with_diagonal):
    rank = int(plain.ranks.sum())
    with pytest.raises(ValueError, match=f"at most {rank}"):
        bb.eigh(plain, rank + 1)
    with pytest.raises(ValueError, match="at most 150"):
        bb.eigh(with_diagonal, 151)


def test_only_factorizations_have_them():
    with pytest.raises(TypeError, match="must be a BlockBasis.*eigsh"):
        bb.eigh(np.eye(3), 1)


@pytest.mark.parametrize("seed", first_of([9, 21, 37, 59, *range(100, 120)], fast=6))
def test_repeated_eigenvalues_are_not_missed(seed):
    """Points that come several times, with D: Lanczos iteration from one vector sees each eigenspace once."""
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(int(rng.integers(5, 40)), 2)), int(rng.integers(2, 5)), axis=0)
    A = bb.factorize(X, bb.Gaussian(0.05), n_clusters=int(rng.integers(1, 4)), rank=3, rng=0)
    count = min(6, len(X) // 3)
    values, vectors = bb.eigh(A, count)
    expected = np.linalg.eigvalsh(A.todense())[::-1][:count]
    np.testing.assert_allclose(values, expected, rtol=1e-8, atol=1e-12 * expected[0])
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(count), atol=1e-8)
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-7 * values[0])


@pytest.mark.parametrize("n", [6, 40, 200])
def test_points_that_are_all_equal(n):
    """One eigenvalue is n and the others are zero: Lanczos iteration has nothing left to start from."""
    A = bb.factorize(np.ones((n, 2)), bb.Cauchy(1.0), n_clusters=2, rank=3, rng=0)
    assert_eigenpairs(bb.eigh(A, 2), np.ones((n, n)), 2, 1e-10)
