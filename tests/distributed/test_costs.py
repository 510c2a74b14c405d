from __future__ import annotations

import numpy as np
import pytest

da = pytest.importorskip("dask.array")
import blockbasis as bb  # noqa: E402
from blockbasis.distributed import factorize, predicted_costs  # noqa: E402


def test_what_moves_does_not_depend_on_the_number_of_points():
    small, large = (predicted_costs(n, 8, 20, 30, 4) for n in (10**6, 10**9))
    assert small.moved == large.moved and small.collected == large.collected
    assert large.kept["worker"] > 100 * small.kept["worker"]
    assert predicted_costs(10**6, 8, 20, 30, 1).moved == dict.fromkeys(large.moved, 0)


def test_the_bytes_of_the_functions_are_those_of_the_arrays(client, points, small_sample):
    X = da.from_array(points[0], chunks=(1000, 2))
    functions = factorize(X, bb.Gaussian(1.5), client, n_clusters=6, rank=20, rng=0).parts.functions
    arrays = [
        functions.centers,
        *(e.points for e in functions.extensions),
        *(e.coefficients for e in functions.extensions),
    ]
    actual = sum(array.nbytes for array in arrays) + functions.inner.nbytes
    moved = predicted_costs(3000, 2, 6, 20, 2).moved
    assert moved["factorize"] - moved["bases"] == pytest.approx(actual, rel=0.5)


def test_the_bytes_of_a_part_are_those_of_its_arrays(client, points, small_sample):
    X = da.from_array(points[0], chunks=(1500, 2))
    A = factorize(X, bb.Gaussian(1.5), client, n_clusters=6, rank=20, rng=0)
    part = client.gather(A.parts.futures[0])
    actual = part.basis.nbytes + part.lost.nbytes + part.basis.partition.order.nbytes
    costs = predicted_costs(3000, 2, 6, 20, 2)
    functions = costs.moved["factorize"] - costs.moved["bases"]
    assert costs.kept["worker"] - functions == pytest.approx(actual, rel=0.05)


@pytest.mark.parametrize(
    ("n", "clusters", "rank", "term"),
    [
        (10**9, 100, 60, "seconds of evaluate"),
        (10**9, 20_000, 60, "seconds of solve"),
        (10**12, 10, 100, "bytes of worker"),
    ],
)
def test_the_term_that_breaks_first(n, clusters, rank, term):
    name, share = predicted_costs(n, 32, clusters, rank, 1_000).first_to_break(
        seconds=3600.0 if term != "seconds of evaluate" else 1.0
    )
    assert name == term and np.isfinite(share)
