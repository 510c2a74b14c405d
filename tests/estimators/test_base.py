from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._base import candidate_bandwidths, make_kernel, median_distance


def test_the_inner_matrix_is_semidefinite_as_it_comes(regression):
    X, _, _ = regression
    for h in (0.1, 1.0, 10.0):
        A = bb.factorize(X, bb.Gaussian(h), n_clusters=6, rank=20, diagonal=False, rng=0)
        values = np.linalg.eigvalsh(A.inner.todense())
        assert values[0] > -1e-12 * values[-1]


def test_median_distance_without_distances():
    rng = np.random.default_rng(0)
    assert median_distance(np.ones((5, 2)), rng) == 1.0
    assert median_distance(np.array([[0.0], [0.0], [0.0], [3.0]]), rng) == 3.0


def test_candidates_and_kernels(regression):
    X, _, _ = regression
    rng = np.random.default_rng(0)
    assert candidate_bandwidths([1.0, 2.0], "gaussian", X, rng, caller="f") == [1.0, 2.0]
    assert candidate_bandwidths(None, "gaussian", X, rng, caller="f") == [np.sqrt(3)]
    assert candidate_bandwidths(None, bb.Cauchy(0.7), X, rng, caller="f") == [0.7]
    assert candidate_bandwidths(None, bb.Gaussian(1.0).block, X, rng, caller="f") == [None]
    assert make_kernel("rational_quadratic", 2.0, caller="f") == bb.RationalQuadratic(2.0)


def test_a_missing_value_of_an_array_names_the_column_and_what_takes_tables():
    X = np.ones((20, 3))
    X[4, 2] = np.nan
    message = r"free of NaN and infinity. Got NaN in column 2 instead. blockbasis.tables.fit_table takes tables"
    with pytest.raises(ValueError, match=message):
        bb.KernelRidgeCV().fit(X, np.arange(20.0))
