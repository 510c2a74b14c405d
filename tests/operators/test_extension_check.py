from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.operators.extension_check import planned_correction


@pytest.fixture(scope="module")
def prepared():
    rng = np.random.default_rng(0)
    X = (2 * rng.normal(size=(20, 5)))[rng.integers(20, size=1_200)] + 0.4 * rng.normal(size=(1_200, 5))
    X, new = X[:1_000], X[1_000:]
    A = bb.factorize(X, bb.Gaussian(0.5), tol=2e-2, rng=0)
    return A._near_field, A._checked_entries(new, A._extended_basis(new))


def test_single_entries_are_planned_only_for_errors_that_remain(prepared):
    field, checked = prepared
    loose, tight = (planned_correction(field, checked, threshold) for threshold in (0.2, 0.01))
    assert loose.least_entry is None
    assert tight.least_entry > 0
    assert tight.error.value < loose.error.value < checked.estimate().value
    assert loose.n_clusters <= tight.n_clusters


def test_a_correction_that_does_not_help_is_not_planned(prepared):
    field, checked = prepared
    # Every landmark has the row of another one: a fit to some of them says nothing about the others.
    misled = tuple(each._replace(rows=each.rows[::-1], columns=np.full(len(each.rows), -1)) for each in field.landmarks)
    none = tuple(each._replace(points=each.points[:0], rows=each.rows[:0]) for each in field.landmarks)
    exact = planned_correction(field, checked, 0.01).error.value
    plan = planned_correction(dataclasses.replace(field, landmarks=misled), checked, 0.01)
    assert plan is None or plan.error.value > 2 * exact
    assert planned_correction(dataclasses.replace(field, landmarks=none), checked, 0.01) is None
