from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.operators.error_estimate import ErrorEstimate


def test_all_rows_give_the_relative_error():
    rng = np.random.default_rng(0)
    K, A = rng.normal(size=(2, 50, 20))
    found = ErrorEstimate.of_sampled_rows(((K - A) ** 2).sum(axis=1), (K**2).sum(axis=1))
    assert found.value == pytest.approx(np.linalg.norm(K - A) / np.linalg.norm(K))
    assert not found.exact


def test_the_standard_error_is_the_spread_of_estimates_from_many_samples():
    rng = np.random.default_rng(1)
    norms = rng.uniform(1, 3, size=20_000)
    errors = norms * rng.uniform(0, 0.02, size=20_000)
    samples = [rng.choice(20_000, 400) for _ in range(400)]
    found = [ErrorEstimate.of_sampled_rows(errors[rows], norms[rows]) for rows in samples]
    spread = np.std([each.value for each in found])
    assert np.mean([each.stderr for each in found]) == pytest.approx(spread, rel=0.15)


def test_errors_without_a_scale():
    nothing, some = np.zeros(3), np.ones(3)
    assert ErrorEstimate.of_sampled_rows(nothing, some).value == 0
    assert ErrorEstimate.of_sampled_rows(nothing, nothing).value == 0
    assert ErrorEstimate.of_sampled_rows(some, nothing).value == np.inf
    assert ErrorEstimate.of_sampled_rows(some, np.full(3, np.inf)).value == np.inf


def test_it_is_printed_with_its_uncertainty():
    assert f"{bb.ErrorEstimate(0.01234, 0.0004, exact=False)}" == "0.0123 ± 0.0004"
    assert f"{bb.ErrorEstimate(0.01234, 0.0, exact=True):.1%}" == "1.2%"
