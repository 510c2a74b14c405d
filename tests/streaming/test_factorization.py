from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.streaming import ArrayRows, factorization
from blockbasis.streaming.factorization import (
    draw_sample,
    factorize_rows,
    held_out_error,
    sample_counts,
    warn_of_missed_tolerance,
)
from blockbasis.streaming.functions import BasisFunctions


@pytest.fixture(scope="module")
def functions():
    X = np.random.default_rng(0).normal(size=(1500, 2))
    return BasisFunctions.of(bb.factorize(X, bb.Gaussian(1.5), n_clusters=5, rank=40, diagonal=False, rng=0))


def evaluated(functions, X, **changes):
    settings = {"dtype": np.float64, "diagonal": False, "workspace": None, "n_jobs": 1} | changes
    return factorize_rows(functions, ArrayRows(X), **settings)


def test_all_rows_have_an_orthonormal_basis_and_the_kernel_is_approximated(functions):
    X = np.random.default_rng(1).normal(size=(2500, 2))
    A = evaluated(functions, X)
    for U in A.bases:
        np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-8)
    exact = bb.Gaussian(1.5)(X)
    assert np.linalg.norm(A.todense() - exact) < 1e-3 * np.linalg.norm(exact)
    np.testing.assert_allclose(A.extend(X[:50]).todense(), A.todense()[:50], atol=1e-5)


def test_the_pieces_and_the_threads_do_not_matter(functions, monkeypatch):
    X = np.random.default_rng(1).normal(size=(1000, 2))
    A = evaluated(functions, X)
    monkeypatch.setattr("blockbasis.streaming.sources._PIECE_ROWS", 64)
    B = evaluated(functions, X, n_jobs=2)
    np.testing.assert_allclose(A.todense(), B.todense(), atol=1e-10)


def test_a_workspace_gives_the_same_factorization(functions, tmp_path, monkeypatch):
    monkeypatch.setattr(factorization, "_RESIDENT", 1000)
    X = np.random.default_rng(1).normal(size=(1000, 2))
    A, B = evaluated(functions, X), evaluated(functions, X, workspace=tmp_path)
    np.testing.assert_array_equal(A.basis.values, B.basis.values)
    assert list(tmp_path.iterdir()) == []


def test_the_diagonal_part_is_the_variance_that_the_basis_does_not_hold(functions):
    X = np.random.default_rng(1).normal(size=(500, 2)) * 2
    A, B = evaluated(functions, X, diagonal=True), evaluated(functions, X)
    np.testing.assert_allclose(A.diagonal(), np.maximum(B.diagonal(), 1.0), atol=1e-6)
    assert B.diagonal_part is None


def test_a_tolerance_that_is_missed_for_certain_is_warned_of():
    with pytest.warns(bb.AccuracyWarning, match=r"above tol=0.01: the sample of 100,000 rows does not represent"):
        warn_of_missed_tolerance(bb.ErrorEstimate(0.02, 0.001, False), 0.01)
    warn_of_missed_tolerance(bb.ErrorEstimate(0.011, 0.001, False), 0.01)
    warn_of_missed_tolerance(bb.ErrorEstimate(0.02, 0.001, False), None)


def test_clusters_with_few_or_no_rows_are_fine(functions):
    X = functions.centers[:1] + np.random.default_rng(0).normal(size=(3, 2)) * 0.01
    A = evaluated(functions, X)
    assert sorted(A.partition.sizes.tolist()) == [0, 0, 0, 0, 3]
    np.testing.assert_allclose(A.todense(), bb.Gaussian(1.5)(X), atol=1e-4)


def test_a_sample_and_its_check_are_disjoint(monkeypatch):
    monkeypatch.setattr(factorization, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(factorization, "CHECKED_ROWS", 30)
    sample = draw_sample(ArrayRows(np.arange(500.0)[:, np.newaxis]), np.random.default_rng(0))
    assert len(sample.points) == 100 and len(sample.held_out) == 30
    assert not set(sample.points[:, 0]) & set(sample.held_out[:, 0])
    assert sample_counts(110) == (80, 30) and sample_counts(50) == (50, 0)


@pytest.mark.parametrize("carried", [False, True])
def test_the_error_estimate_is_the_error(functions, carried):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 2)) * 1.5
    A = evaluated(functions, X, diagonal=carried)
    exact = bb.Gaussian(1.5)(X)
    true = np.linalg.norm(A.todense() - exact) / np.linalg.norm(exact)
    estimate = held_out_error(functions, X[rng.choice(2000, 700, replace=False)], 2000, carried=carried)
    assert abs(estimate.value - true) < 4 * estimate.stderr + 0.1 * true
