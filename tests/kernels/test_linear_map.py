from __future__ import annotations

import itertools

import numpy as np
import pytest

from blockbasis.kernels.linear_map import LinearMap, combined

RNG = np.random.default_rng(0)
MAPS = [np.array([2.0, 0.5, 3.0]), RNG.normal(size=(2, 3)), RNG.normal(size=(3, 3)), RNG.normal(size=(5, 3))]


def dense(linear):
    return np.diag(linear.array) if linear.array.ndim == 1 else linear.array


@pytest.mark.parametrize("array", MAPS)
def test_maps_points_and_gradients(array):
    linear, X = LinearMap(array.copy()), RNG.normal(size=(7, 3))
    np.testing.assert_allclose(linear(X), X @ dense(linear).T, atol=1e-14)
    assert linear(X.astype(np.float32)).dtype == np.float32
    G = RNG.normal(size=(7, len(dense(linear)), 2))
    np.testing.assert_allclose(linear.transposed(G), np.einsum("nmt,md->ndt", G, dense(linear)), atol=1e-14)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(MAPS, [*MAPS[:1], *MAPS[2:]])))
def test_composition(first, second):
    square = second if second.ndim == 1 else second[:3]
    whole = LinearMap(first).after(LinearMap(square))
    np.testing.assert_allclose(dense(whole), dense(LinearMap(first)) @ dense(LinearMap(square)), atol=1e-14)
    assert LinearMap(first).after(None) == LinearMap(first)


@pytest.mark.parametrize("array", MAPS)
def test_the_smallest_factor_and_fewer_rows(array):
    linear = LinearMap(array)
    X = RNG.normal(size=(500, 3))
    quotients = np.linalg.norm(linear(X), axis=1) / np.linalg.norm(X, axis=1)
    assert linear.smallest <= quotients.min() + 1e-12
    assert (linear.smallest == 0) == (len(dense(linear)) < 3)
    same = linear.reduced()
    assert len(dense(same)) <= 3
    np.testing.assert_allclose(np.linalg.norm(same(X), axis=1), np.linalg.norm(linear(X), axis=1), rtol=1e-12)


@pytest.mark.parametrize("chosen", [[0, 0], [0, 1], [1, 1], [2, 3], [0, 1, 2, 3]])
def test_squared_distances_of_a_combined_map_are_sums(chosen):
    maps = [LinearMap(MAPS[i]) for i in chosen]
    whole, inverse = combined(maps)
    X = RNG.normal(size=(20, 3))
    expected = sum((each(X) ** 2).sum(axis=1) for each in maps)
    np.testing.assert_allclose((whole(X) ** 2).sum(axis=1), expected, rtol=1e-12)
    for each in maps:  # nothing that a part sees is lost
        np.testing.assert_allclose(each.after(inverse)(whole(X)), each(X), atol=1e-12)


def test_equality_is_by_value():
    assert LinearMap(np.array([1.0, 2.0])) == LinearMap(np.array([1.0, 2.0]))
    assert LinearMap(np.array([[0.0]])) == LinearMap(np.array([[-0.0]]))
    assert hash(LinearMap(np.array([[0.0]]))) == hash(LinearMap(np.array([[-0.0]])))
    assert LinearMap(np.array([1.0, 2.0])) != LinearMap(np.diag([1.0, 2.0]))
    assert LinearMap(np.ones(2)).reduced() is None and LinearMap(np.eye(2)).reduced() is None
