from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction.method import Method
from blockbasis.kernels.evaluator import CachedKernelMatrix
from blockbasis.partition import from_labels
from blockbasis.planning import goal as module
from blockbasis.planning.goal import Goal, Request
from tests.repeating import first_of

SKETCHED = Method(paper=False, sampling="energy", inner="sampled", diagonal=True, cutoff=None)


def test_a_tolerance_allows_its_share_of_the_norm():
    assert Goal(0.1, None).allowed(400.0) == pytest.approx(4.0)
    assert Goal(0.1, None).negligible == pytest.approx(0.01)
    assert Goal(None, 10**5).negligible == 0


def test_a_ridge_allows_what_its_solutions_do_not_notice():
    """The error at which the spectral norm of E would be tol times ridge."""
    goal = Goal(0.1, None, ridge=5.0)
    assert goal.allowed(400.0, error=2.0, spectral=0.5) == pytest.approx(max(4.0, 0.01 * 2.0 * 25 / 0.5))
    assert goal.allowed(0.01, error=2.0, spectral=0.5) == pytest.approx(0.01 * 2.0 * 25 / 0.5)
    assert goal.allowed(400.0) == pytest.approx(4.0)
    assert goal.allowed(400.0, error=0.0, spectral=0.0) == np.inf


def test_few_points_are_evaluated_once(monkeypatch):
    X = np.random.default_rng(0).normal(size=(50, 2))
    request = Request(X, bb.Gaussian(1.0), Goal(0.1, None), SKETCHED, 1)
    parts = from_labels(X, np.arange(50) % 3)
    for _ in range(2):
        matrix = request.matrix(parts)
        assert isinstance(matrix, CachedKernelMatrix)
        expected = bb.Gaussian(1.0)(X[parts.order])
        np.testing.assert_allclose(matrix.block(slice(0, 50), slice(0, 50)), expected, atol=1e-14)
    assert request.counter.value == 50 * 51 // 2
    monkeypatch.setattr(module, "FEW_POINTS", 10)
    monkeypatch.setattr(module, "_MAX_CACHED_POINTS", 20)
    other = Request(X, bb.Gaussian(1.0), Goal(0.1, None), SKETCHED, 1)
    plain = other.matrix(parts)
    assert not isinstance(plain, CachedKernelMatrix)
    plain.block(slice(0, 2), slice(0, 3))
    assert other.counter.value == 6


def test_isolated_points_are_evaluated_once_up_to_a_larger_number(monkeypatch):
    """Their pairs of near points are few, and samples would miss them."""
    monkeypatch.setattr(module, "FEW_POINTS", 600)
    monkeypatch.setattr(module, "_MAX_CACHED_POINTS", 1_000)
    rng = np.random.default_rng(0)
    for n, bandwidth, cached in ((600, 1.0, True), (900, 0.01, True), (900, 1.0, False), (1_100, 0.01, False)):
        request = Request(rng.normal(size=(n, 3)), bb.Gaussian(bandwidth), Goal(0.1, None), SKETCHED, 1)
        assert request.cached is cached


def test_points_of_high_rank_are_evaluated_once_up_to_a_larger_number(monkeypatch):
    """Samples of high ranks would have more than half of the entries of the matrix together."""
    monkeypatch.setattr(module, "FEW_POINTS", 600)
    monkeypatch.setattr(module, "_MAX_CACHED_POINTS", 1_000)
    X = np.random.default_rng(0).normal(size=(900, 5))
    for tol, bandwidth, cached in ((0.1, 4.0, False), (1e-3, 1.0, True), (None, 4.0, False)):
        memory = 10_000 if tol is None else None
        request = Request(X, bb.Gaussian(bandwidth), Goal(tol, memory), SKETCHED, 1)
        assert request.cached is cached


@pytest.mark.parametrize("bandwidth", first_of([1.0, 0.3]))
def test_at_most_half_of_the_entries_are_evaluated_where_ranks_are_high(bandwidth):
    n = 5_000
    X = np.random.default_rng(0).normal(size=(n, 4))
    A = bb.factorize(X, bb.Gaussian(bandwidth), tol=0.1, rng=0)
    assert A.entries.total <= n * (n + 1) // 2 + 512**2  # and those of the submatrix that shows the ranks


def test_a_cache_that_does_not_fit_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr("blockbasis._utils.machine.available_memory", lambda: 10**6)
    X = np.random.default_rng(0).normal(size=(600, 3))
    with pytest.raises(MemoryError, match="What would fit: fewer points"):
        bb.factorize(X, bb.Gaussian(1.0), tol=1e-2, rng=0)
