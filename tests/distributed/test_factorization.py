from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

da = pytest.importorskip("dask.array")
import blockbasis as bb  # noqa: E402
from blockbasis.distributed import factorize  # noqa: E402
from blockbasis.streaming import ArrayRows  # noqa: E402

SETTINGS = {"n_clusters": 6, "rank": 20, "rng": 0}


@pytest.mark.parametrize("chunks", [100, 1000, 3000])
def test_the_factors_are_those_of_one_process(chunks, client, points, small_sample):
    X, _ = points
    A = factorize(da.from_array(X, chunks=(chunks, 2)), bb.Gaussian(1.5), client, **SETTINGS)
    B = bb.factorize(ArrayRows(X), bb.Gaussian(1.5), **SETTINGS)
    local = A.to_local()
    np.testing.assert_array_equal(local.partition.order, B.partition.order)
    np.testing.assert_allclose(local.basis.values, B.basis.values, atol=1e-9)
    np.testing.assert_allclose(local.inner.todense(), B.inner.todense(), rtol=1e-9, atol=1e-9)
    assert local.error_estimate == B.error_estimate


def test_a_tolerance_is_met(client, points, small_sample):
    X, _ = points
    A = factorize(da.from_array(X, chunks=(1000, 2)), bb.Gaussian(1.5), client, tol=1e-2, diagonal=True, rng=0)
    exact = bb.Gaussian(1.5)(X)
    true = np.linalg.norm(A.to_local().todense() - exact) / np.linalg.norm(exact)
    assert true < 1e-2 and A.error_estimate.value == pytest.approx(true, rel=0.3)


def test_two_at_once_on_one_client_are_the_same(client, points, small_sample):
    X = da.from_array(points[0], chunks=(500, 2))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: factorize(X, bb.Gaussian(1.5), client, **SETTINGS) @ points[1], range(2)))
    np.testing.assert_allclose(found[0], found[1], atol=1e-10)


def test_one_block_for_two_workers_and_more_clusters_than_rows(client, points):
    X = points[0][:20]
    A = factorize(da.from_array(X, chunks=(20, 2)), bb.Gaussian(1.5), client, n_clusters=10, rank=2, rng=0)
    assert A.shape == (20, 20) and len(A.parts.futures) == 1
    np.testing.assert_allclose(A @ np.eye(20), A.to_local().todense(), atol=1e-10)


def test_the_default_client_is_taken(cluster, points, small_sample):
    from distributed import Client

    with Client(cluster):
        A = factorize(da.from_array(points[0], chunks=(1000, 2)), bb.Gaussian(1.5), **SETTINGS)
        assert A.shape == (3000, 3000)


def test_points_that_are_not_finite_are_named(client, points, small_sample):
    X = points[0].copy()
    X[2500, 0] = np.inf
    with pytest.raises(ValueError, match="free of NaN and infinity. Got one in block 2, row 500"):
        factorize(da.from_array(X, chunks=(1000, 2)), bb.Gaussian(1.5), client, **SETTINGS)
