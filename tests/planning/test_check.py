from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.construction.method import FAST, Method
from blockbasis.construction.pipeline import Construction, assemble, make_bases, sketched_draft
from blockbasis.datasets import unit_cube_mixture
from blockbasis.kernels.evaluator import CachedKernelMatrix, Counter, KernelMatrix
from blockbasis.operators.entries import Entries
from blockbasis.partition import from_labels, kmeans
from blockbasis.planning.check import HeldOutCheck
from blockbasis.planning.goal import n_checked

SKETCHED = Method(paper=False, sampling="energy", inner="sampled", diagonal=True, cutoff=None)


@pytest.fixture(scope="module")
def case():
    X = unit_cube_mixture(900, 3, rng=0)
    parts = kmeans(X, 6, np.random.default_rng(0))
    matrix = KernelMatrix(bb.Gaussian(0.3), X[parts.order])
    streams = np.random.default_rng(0).spawn(2)
    construction = Construction(matrix, parts, SKETCHED, FAST, 1)
    bases = make_bases(construction, np.full(6, 8), streams[0])
    return X, matrix, parts, sketched_draft(construction, bases, streams[1])


def checked(case, seed=0, ranks=None, count=None, **settings):
    _, matrix, parts, draft = case
    expected = np.array([basis.residuals[-1] for basis in draft.bases])
    check = HeldOutCheck(matrix, parts, expected, np.random.default_rng(seed), count)
    values = check.evaluate(matrix, draft, 1)
    return check, check.measure(draft, values, draft.ranks if ranks is None else ranks, **settings)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("ranks", [None, np.array([8, 1, 3, 5, 8, 2])], ids=["all", "some"])
def test_all_points_give_the_exact_error(case, diagonal, ranks):
    X, matrix, parts, draft = case
    _, measured = checked(case, ranks=ranks, diagonal=diagonal, spectral=True)
    small = draft if ranks is None else draft.truncated(ranks)
    A = assemble(matrix, parts, small, Entries(0, 0), 1, diagonal)
    E = A.todense() - bb.Gaussian(0.3)(X)
    assert measured.exact and measured.stderr == 0
    assert measured.error == pytest.approx((E**2).sum(), rel=1e-8)
    assert measured.per_cluster.sum() == pytest.approx(measured.error)
    exact = bb.relative_error(A, X, bb.Gaussian(0.3)).value
    assert measured.relative().value == pytest.approx(exact, rel=1e-8)
    assert measured.spectral == pytest.approx(np.linalg.norm(E, 2) ** 2, rel=1e-3)


def test_some_points_give_an_unbiased_error_with_an_honest_uncertainty(case):
    truth = checked(case, diagonal=True)[1]
    found = [checked(case, seed, count=250, diagonal=True)[1] for seed in range(30)]
    errors = np.array([each.error for each in found])
    norms = np.array([each.norm for each in found])
    assert not any(each.exact for each in found)
    assert abs(errors.mean() - truth.error) < 3 * errors.std(ddof=1) / np.sqrt(30)
    assert abs(norms.mean() - truth.norm) < 3 * norms.std(ddof=1) / np.sqrt(30)
    # The spread of 30 draws is itself known to 13%; stderr counts rows and columns as if they were apart.
    stated = np.sqrt(np.mean([each.stderr**2 for each in found]))
    assert 0.6 < stated / errors.std(ddof=1) < 1.7
    assert np.mean(errors + 2.5 * np.array([each.stderr for each in found]) >= truth.error) >= 0.9


def test_every_cluster_is_checked(case):
    check, _ = checked(case, count=20, diagonal=True)
    assert min(len(own) for own in check.points) >= 2


def test_the_number_of_checked_points_does_not_grow_with_the_points():
    assert n_checked(80) == 80
    assert n_checked(10**4) == n_checked(10**6) < 4096


def test_a_perfect_draft_has_no_error():
    X = unit_cube_mixture(40, 2, rng=0)
    parts = from_labels(X, np.arange(40) % 2)
    matrix = KernelMatrix(bb.Gaussian(0.5), X[parts.order])
    construction = Construction(matrix, parts, SKETCHED, FAST, 1)
    bases = make_bases(construction, np.full(2, 40), np.random.default_rng(0))
    draft = sketched_draft(construction, bases, np.random.default_rng(0))
    check = HeldOutCheck(matrix, parts, np.zeros(2), np.random.default_rng(0))
    measured = check.measure(draft, check.evaluate(matrix, draft, 1), draft.ranks, diagonal=True, spectral=True)
    assert measured.relative().value < 1e-14


@pytest.mark.parametrize("share", [1e-12, 1e-8])
def test_pairs_that_hold_too_much_are_not_dropped(share):
    """A few entries of a pair do not show the rare large ones; all of them do."""
    rng = np.random.default_rng(0)
    X = np.repeat(np.arange(8.0), 40)[:, np.newaxis] * [1.0, 0.0] + 0.2 * rng.normal(size=(320, 2))
    parts = from_labels(X, np.repeat(np.arange(8), 40))
    matrix = KernelMatrix(bb.Gaussian(0.4), X)
    K = bb.Gaussian(0.4)(X)
    budget = share * (K**2).sum()
    kept = HeldOutCheck(matrix, parts, np.zeros(8), rng).with_missed_pairs(np.eye(8, dtype=bool), budget)
    energies = (K.reshape(8, 40, 8, 40) ** 2).sum(axis=(1, 3))
    assert energies[~kept].sum() <= budget
    assert (kept == kept.T).all() and not kept.all()


def test_all_entries_are_checked_where_all_are_cached():
    """A sample of the points can miss the few points that have much of the error."""
    X = np.random.default_rng(0).normal(size=(4200, 2))
    matrix = CachedKernelMatrix(bb.Gaussian(1e-9), X, np.eye(len(X)), np.arange(len(X)), Counter())
    partition = from_labels(X, np.arange(len(X)) * 3 // len(X))
    check = HeldOutCheck(matrix, partition, np.ones(3), np.random.default_rng(0))
    checked = np.concatenate(check.points)
    np.testing.assert_array_equal(np.sort(checked), np.arange(len(X)))
    assert check.norm == pytest.approx(len(X))
