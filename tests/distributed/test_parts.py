from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dask.array")
import blockbasis as bb  # noqa: E402
from blockbasis.distributed import parts  # noqa: E402
from blockbasis.estimators._ridge_sums import RidgeSums  # noqa: E402
from blockbasis.streaming.functions import BasisFunctions  # noqa: E402


@pytest.fixture(scope="module")
def problem():
    X = np.random.default_rng(0).normal(size=(900, 2))
    functions = BasisFunctions.of(bb.factorize(X, bb.Gaussian(2.0), n_clusters=4, rank=15, diagonal=False, rng=0))
    return X, functions, [parts.evaluated_part(each, functions, np.float64, "block") for each in np.split(X, 3)]


def test_merged_parts_are_the_part_of_all_points(problem):
    X, functions, several = problem
    whole, merged = parts.evaluated_part(X, functions, np.float64, "block"), parts.merged(several)
    np.testing.assert_array_equal(merged.basis.partition.order, whole.basis.partition.order)
    np.testing.assert_allclose(merged.basis.values, whole.basis.values, atol=1e-12)
    np.testing.assert_allclose(merged.lost, whole.lost, atol=1e-12)
    np.testing.assert_allclose(merged.basis.partition.radii, whole.basis.partition.radii)


def test_projection_and_expansion_are_transposes(problem):
    X, functions, several = problem
    rng = np.random.default_rng(1)
    V, W = rng.normal(size=(300, 2)), rng.normal(size=(60, 2))
    left = np.sum(parts.projected(several[0], V) * W)
    assert left == pytest.approx(np.sum(V * parts.expanded(several[0], W, None, V)))
    assert parts.expanded(several[0], W[:, :1], np.ones(300), V[:, 0]).shape == (300,)


def test_sums_of_values_are_those_of_the_points(problem):
    X, functions, several = problem
    Y, weights = np.ones((900, 1)), np.full(900, 0.25)
    expected = RidgeSums.of(functions, X, Y, weights, 1)
    found = parts.added([parts.solution_sums(part, np.full(300, 4.0), np.ones(300)) for part in several])
    for one, other in zip(found.grams + found.moments, expected.grams + expected.moments, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    assert found.n_rows == 900


def test_a_solution_satisfies_its_equation(problem):
    """One cluster's worth of algebra: x = (b - U w) / diagonal with the w of the dense system."""
    _, functions, several = problem
    part, b, D = several[0], np.random.default_rng(2).normal(size=300), np.linspace(0.5, 2, 300)
    sums = parts.solution_sums(part, D, b)
    w = np.concatenate(sums.solve(functions.inner, np.ones(1), np.zeros(1)))
    x = parts.solved_part(part, w, D, b)
    product = parts.expanded(part, functions.inner @ parts.projected(part, x), D, x)
    np.testing.assert_allclose(product, b, atol=1e-9)
    errors, norms = parts.squared_residuals(b, product)
    assert errors[0] < 1e-16 and norms[0] == pytest.approx(b @ b)


def test_diagonals_hold_what_is_asked_for(problem):
    part = problem[2][0]
    np.testing.assert_array_equal(parts.diagonal_of_part(part, True, 0.5), part.lost + 0.5)
    np.testing.assert_array_equal(parts.diagonal_of_part(part, False, 0.5), np.full(300, 0.5))


def test_vectors_of_another_length_are_refused(problem):
    with pytest.raises(ValueError, match="must have 300 rows. Got 7"):
        parts.projected(problem[2][0], np.zeros(7))
