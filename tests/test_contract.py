"""A zoo of operators, and what each must satisfy: SciPy's LinearOperator contract and the package's own."""

from __future__ import annotations

import functools
import inspect
import re

import numpy as np
import pytest
from scipy.sparse import linalg as sla

import blockbasis as bb
from blockbasis.datasets import unit_cube_mixture
from tools.public_calls import CALLS


def _points(n=150, d=3, seed=3):
    return unit_cube_mixture(n, d, rng=seed)


def _factored(n=150, h=0.5, kernel=bb.Gaussian, **settings):
    chosen = {"n_clusters": 4, "rank": 8, "rng": 0, **settings}
    return bb.factorize(_points(n), kernel(h), **chosen)


def _linear(X, Y):
    return X @ Y.T


SYMMETRIC = {
    "default": lambda: _factored(),
    "paper": lambda: _factored(algorithm="paper"),
    "float32": lambda: _factored(dtype=np.float32),
    "no D": lambda: _factored(diagonal=False),
    "exact inner": lambda: _factored(inner="exact"),
    "exact sampling": lambda: _factored(sampling="exact"),
    "pooled": lambda: _factored(sampling="pooled"),
    "cutoff": lambda: _factored(h=0.05, n_clusters=8, cutoff=0.01),
    "one cluster": lambda: _factored(n_clusters=1),
    "one cluster, whole": lambda: _factored(n=40, n_clusters=1, rank=40),
    "many clusters": lambda: _factored(n_clusters=60, rank=2),
    "random clusters": lambda: _factored(partition="random"),
    "unequal ranks": lambda: _factored(rank=[1, 20, 5, 400]),
    "singletons": lambda: _factored(n=20, n_clusters=20, rank=1),
    "n=1": lambda: _factored(n=1, n_clusters=1, rank=3),
    "n=2": lambda: _factored(n=2, n_clusters=1, rank=1),
    "laplacian": lambda: _factored(kernel=bb.Laplacian),
    "tiny bandwidth": lambda: _factored(h=1e-3),
    "large bandwidth": lambda: _factored(h=1e3),
    "callable": lambda: bb.factorize(_points(), _linear, n_clusters=4, rank=5, rng=0),
    "duplicates": lambda: bb.factorize(np.repeat(_points(30), 5, axis=0), bb.Cauchy(0.5), n_clusters=4, rank=6, rng=0),
}
CROSS = {
    "cross": lambda: bb.factorize_cross(_points(90, seed=4), _points(), bb.Gaussian(0.5), n_clusters=3, rank=6, rng=0),
    "cross, paper": lambda: bb.factorize_cross(
        _points(90, seed=4), _points(), bb.Gaussian(0.5), n_clusters=(2, 5), rank=6, algorithm="paper", rng=0
    ),
    "cross, float32": lambda: bb.factorize_cross(
        _points(90, seed=4), _points(), bb.Cauchy(0.5), n_clusters=3, rank=6, dtype=np.float32, rng=0
    ),
    "cross, one row": lambda: bb.factorize_cross(
        _points(1), _points(), bb.Gaussian(0.5), n_clusters=(1, 4), rank=6, rng=0
    ),
    "extension": lambda: _factored().extend(_points(70, seed=5)),
    "extension, float32": lambda: _factored(dtype=np.float32).extend(_points(70, seed=5)),
    "extension, cutoff": lambda: _factored(h=0.05, n_clusters=8, cutoff=0.01).extend(_points(19, seed=5)),
    "extension, empty clusters": lambda: _factored(n_clusters=9).extend(_points(3, seed=5)),
    "transposed": lambda: (
        bb.factorize_cross(_points(90, seed=4), _points(), bb.Gaussian(0.5), n_clusters=3, rank=6, rng=0).T
    ),
}
ZOO = SYMMETRIC | CROSS
#: Big enough for Lanczos and definite.
SOLVABLE = [name for name in SYMMETRIC if name not in ("paper", "cutoff", "n=1", "n=2", "singletons", "float32")]


@functools.cache
def animal(name):
    return ZOO[name]()


@pytest.fixture(params=ZOO)
def A(request):
    return animal(request.param)


@pytest.fixture(params=SYMMETRIC)
def S(request):
    return animal(request.param)


@pytest.fixture(params=SOLVABLE)
def solvable(request):
    return animal(request.param)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def tolerance(A):
    return 1e-12 if A.dtype == np.float64 else 1e-5


def assert_close(actual, expected, A):
    """To the operator's precision, against the size of the expected."""
    scale = max(np.abs(expected).max(initial=0.0), 1e-300)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance(A) * scale)


# --- every operator --------------------------------------------------------------------------------------------------


def test_is_a_linear_operator_with_finite_entries(A):
    assert isinstance(A, sla.LinearOperator)
    assert sla.aslinearoperator(A) is A
    dense = A.todense()
    assert dense.shape == A.shape
    assert dense.dtype == A.dtype
    assert A.dtype in (np.float32, np.float64)
    assert np.isfinite(dense).all()


@pytest.mark.filterwarnings("ignore:Calling `matvec` on 'column vectors':FutureWarning")  # SciPy 1.18
def test_products_are_dense_products(A, rng):
    dense = A.todense()
    v, V = rng.standard_normal(A.shape[1]), rng.standard_normal((A.shape[1], 5))
    assert_close(A @ v, dense @ v, A)
    assert_close(A @ V, dense @ V, A)
    assert_close(A.matvec(v[:, np.newaxis]), (dense @ v)[:, np.newaxis], A)
    assert (A @ v).shape == (A.shape[0],)
    assert (A @ V).shape == (A.shape[0], 5)
    assert (A @ v.astype(A.dtype)).dtype == A.dtype


def test_matmat_is_matvec_column_by_column(A, rng):
    V = rng.standard_normal((A.shape[1], 4))
    assert_close(A.matmat(V), np.stack([A.matvec(column) for column in V.T], axis=1), A)
    assert A.matmat(V[:, :0]).shape == (A.shape[0], 0)


def test_transpose_and_adjoint(A, rng):
    dense = A.todense()
    u, W = rng.standard_normal(A.shape[0]), rng.standard_normal((A.shape[0], 3))
    assert A.T.shape == A.H.shape == A.shape[::-1]
    assert A.T.dtype == A.dtype
    assert_close(A.T @ u, dense.T @ u, A)
    assert_close(A.H @ u, dense.T @ u, A)
    assert_close(A.rmatvec(u), dense.T @ u, A)
    assert_close(A.rmatmat(W), dense.T @ W, A)
    assert_close(u @ A, u @ dense, A)
    assert_close(A.T.T @ np.ones(A.shape[1]), dense @ np.ones(A.shape[1]), A)


def test_dot_test(A):
    for seed in range(3):
        assert bb.dot_test(A, rng=seed) <= tolerance(A)


def test_complex_and_integer_vectors(A, rng):
    dense = A.todense()
    z = rng.standard_normal(A.shape[1]) + 1j * rng.standard_normal(A.shape[1])
    assert np.iscomplexobj(A @ z)
    assert_close(A @ z, dense @ z, A)
    ones = np.ones(A.shape[1], dtype=np.int64)
    assert (A @ ones).dtype == A.dtype
    assert_close(A @ ones, dense @ ones, A)


def test_arithmetic_of_operators(A, rng):
    dense = A.todense()
    v, u = rng.standard_normal(A.shape[1]), rng.standard_normal(A.shape[0])
    assert_close((2 * A) @ v, 2 * (dense @ v), A)
    assert_close((A + A) @ v, 2 * (dense @ v), A)
    assert_close((A.T @ A) @ v, dense.T @ (dense @ v), A)
    assert_close((A @ A.T) @ u, dense @ (dense.T @ u), A)


def test_vectors_of_the_wrong_length(A):
    with pytest.raises(ValueError, match="mismatch"):
        A @ np.ones(A.shape[1] + 1)


def test_products_leave_their_argument_alone(A, rng):
    V = rng.standard_normal((A.shape[1], 3)).astype(A.dtype)
    before = V.copy()
    A @ V
    np.testing.assert_array_equal(V, before)


def test_stored_and_nbytes(A):
    A = A.T if not hasattr(A, "stored") else A
    assert A.stored > 0
    assert A.nbytes >= A.stored * A.dtype.itemsize


def test_repr_says_what_it_is(A):
    if isinstance(A, (bb.BlockBasis, bb.CrossBlockBasis)):
        assert f"{A.shape[0]} x {A.shape[1]}" in repr(A)
        assert str(A.dtype) in repr(A)


# --- symmetric ones --------------------------------------------------------------------------------------------------


def test_symmetric(S):
    dense = S.todense()
    assert_close(dense, dense.T, S)
    assert S.T is S
    assert S.H is S


def test_diagonal_is_that_of_the_dense_matrix(S):
    assert_close(S.diagonal(), np.diagonal(S.todense()), S)
    assert S.diagonal().shape == (S.shape[0],)


def test_frobenius_norm_is_that_of_the_dense_matrix(S):
    dense = S.todense().astype(np.float64)
    assert S.frobenius_norm() == pytest.approx(np.linalg.norm(dense), rel=tolerance(S))


def test_is_u_c_ut_plus_d(S):
    """The factors, multiplied out by hand, are the operator."""
    U = np.zeros((S.shape[0], S.ranks.sum()))
    offsets = np.concatenate(([0], np.cumsum(S.ranks)))
    for i, block in enumerate(S.bases):
        U[np.ix_(S.partition.order[S.partition.cluster(i)], np.arange(offsets[i], offsets[i + 1]))] = block
    product = U @ S.inner.todense().astype(np.float64) @ U.T
    if S.diagonal_part is not None:
        assert S.diagonal_part.min() >= 0
        product += np.diag(S.diagonal_part)
    assert_close(S.todense(), product, S)
    np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=tolerance(S))


def test_stored_is_what_a_product_reads(S):
    upper = np.zeros(S.inner.shape, dtype=bool)
    offsets = np.concatenate(([0], np.cumsum(S.ranks)))
    for i, row in enumerate(S.inner.kept):
        for j in row:
            upper[offsets[i] : offsets[i + 1], offsets[j] : offsets[j + 1]] = True
    inner = np.triu(upper).sum()
    basis = int((S.partition.sizes * S.ranks).sum())
    assert S.stored == basis + inner + (0 if S.diagonal_part is None else S.shape[0])


def test_every_array_is_read_only(S):
    arrays = [*S.bases, *(panel.values for panel in S.inner.panels), *S.inner.kept]
    arrays += [S.inner.row_offsets, S.inner.column_offsets]
    arrays += [S.partition.order, S.partition.starts, S.partition.centers, S.partition.radii]
    arrays += [array for ext in S.extensions for array in (ext.points, ext.coefficients)]
    arrays += [] if S.diagonal_part is None else [S.diagonal_part]
    assert not [array for array in arrays if array.flags.writeable]


def test_nothing_is_kept_but_what_nbytes_counts(S):
    """No view into a larger array: what an operator keeps alive is what it says it keeps."""
    extensions = [array for ext in S.extensions for array in (ext.points, ext.coefficients)]
    arrays = [S.basis.values, *(panel.values for panel in S.inner.panels), *extensions]
    assert all(np.shares_memory(block, S.basis.values) for block in S.bases if block.size)
    for array in arrays:
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        assert owner.nbytes == array.nbytes


# --- SciPy's solvers, unchanged --------------------------------------------------------------------------------------


def test_cg(solvable, rng):
    n = solvable.shape[0]
    dense = solvable.todense() + np.eye(n)
    b = rng.standard_normal(n)
    x, info = sla.cg(solvable + sla.aslinearoperator(np.eye(n)), b, rtol=1e-10, maxiter=2000)
    assert info == 0
    assert np.linalg.norm(dense @ x - b) <= 1e-8 * np.linalg.norm(b)


def test_minres(solvable, rng):
    n = solvable.shape[0]
    dense = solvable.todense() + np.eye(n)
    b = rng.standard_normal(n)
    x, info = sla.minres(solvable, b, shift=-1.0, rtol=1e-10, maxiter=2000)
    assert info == 0
    assert np.linalg.norm(dense @ x - b) <= 1e-7 * np.linalg.norm(b)


def test_eigsh(solvable):
    values = sla.eigsh(solvable, k=3, v0=np.ones(solvable.shape[0]), return_eigenvectors=False)
    exact = np.linalg.eigvalsh(solvable.todense())
    np.testing.assert_allclose(np.sort(values), exact[-3:], rtol=1e-9)


def test_lobpcg(solvable, rng):
    start = rng.standard_normal((solvable.shape[0], 3))
    exact = np.linalg.eigvalsh(solvable.todense())
    values, vectors = sla.lobpcg(solvable + sla.aslinearoperator(np.eye(len(start))), start, tol=1e-6, maxiter=400)
    residual = solvable @ vectors - vectors * (values - 1)
    assert np.linalg.norm(residual, axis=0).max() <= 1e-5
    assert values.max() - 1 == pytest.approx(exact[-1], rel=1e-6)


@pytest.mark.parametrize("name", ["default", "no D", "cross", "cross, paper", "extension", "transposed"])
def test_svds(name):
    A = animal(name)
    singular = sla.svds(A, k=4, v0=np.ones(min(A.shape)), return_singular_vectors=False)
    np.testing.assert_allclose(np.sort(singular), np.linalg.svd(A.todense())[1][3::-1], rtol=1e-8)


def test_every_public_name_is_called_on_other_versions_too():
    """What `make test-oldest` and `make test-newest` list."""
    called = set(re.findall(r"\w+", " ".join(CALLS)))
    assert {name for name in dir(bb) if not name.startswith("_") and not inspect.ismodule(getattr(bb, name))} <= called
