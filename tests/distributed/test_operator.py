from __future__ import annotations

import numpy as np
import pytest

da = pytest.importorskip("dask.array")
import blockbasis as bb  # noqa: E402
from blockbasis.distributed import factorize  # noqa: E402


@pytest.fixture(params=[False, True], ids=["without D", "with D and noise"])
def factors(request, client, points, small_sample):
    """A distributed factorization, its copy in memory, and points."""
    kernel = bb.Gaussian(1.5) + bb.White(0.3) if request.param else bb.Gaussian(1.5)
    X = da.from_array(points[0], chunks=(800, 2))
    A = factorize(X, kernel, client, n_clusters=6, rank=20, diagonal=request.param, rng=0)
    return A, A.to_local(), points[0]


def test_products_are_those_of_the_local_copy(factors):
    A, local, X = factors
    for V in (X[:, 0], X):
        np.testing.assert_allclose(A @ V, local @ V, atol=1e-9)


def test_products_of_dask_arrays_are_dask_arrays(factors):
    A, local, X = factors
    for V in (X[:, 0], X):
        product = A @ da.from_array(V, chunks=(500, *V.shape[1:]))
        assert isinstance(product, da.Array) and product.shape == V.shape
        np.testing.assert_allclose(A.parts.client.compute(product).result(), local @ V, atol=1e-9)


def test_solutions_are_those_of_the_local_copy(factors):
    A, local, X = factors
    for b in (np.sin(X[:, 0]), np.sin(X)):
        solution, expected = A.solve(b, ridge=0.1), bb.solve(local, b, ridge=0.1)
        np.testing.assert_allclose(solution.x, expected.x, atol=1e-7 * np.abs(expected.x).max())
        assert solution.converged and solution.residual < 1e-10
    lazy = A.solve(da.from_array(X[:, 0], chunks=1000), ridge=0.1)
    assert isinstance(lazy.x, da.Array) and lazy.residual < 1e-10
    with pytest.raises(ValueError, match="'ridge' parameter of solve must be"):
        A.solve(X[:, 0], ridge=0)


def test_new_points_are_those_of_the_functions(factors):
    A, local, X = factors
    X_new = np.random.default_rng(1).uniform(-2, 2, size=(300, 2))
    exact = bb.Gaussian(1.5)(X_new, X) @ X[:, 0]
    for points in (X_new, da.from_array(X_new, chunks=(100, 2))):
        B = A.extend(points)
        assert B.shape == (300, 3000)
        assert np.linalg.norm(B @ X[:, 0] - exact) < 1e-2 * np.linalg.norm(exact)
    product = B @ da.from_array(X[:, 0], chunks=3000)
    np.testing.assert_allclose(A.parts.client.compute(product).result(), B @ X[:, 0], atol=1e-9)
    with pytest.raises(ValueError, match="'X_new' parameter of extend"):
        A.extend(np.zeros((3, 5)))


def test_the_local_copy_approximates_the_kernel_matrix(factors):
    A, local, X = factors
    exact = A.parts.functions.kernel(X)
    exact = exact + A.parts.functions.kernel.noise * np.eye(len(X)) if exact[0, 0] == 1 else exact
    assert np.linalg.norm(local.todense() - exact) < 2e-2 * np.linalg.norm(exact)
    assert (A.ranks == local.ranks).all() and repr(A).startswith("DistributedBlockBasis(3000 x 3000, 6 clusters")


def test_vectors_of_another_length_are_refused(factors):
    with pytest.raises(ValueError, match="must have 3000 rows. Got shape"):
        factors[0] @ np.zeros(7)
