from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import blockbasis as bb
from blockbasis._utils import machine
from blockbasis.baselines import approximate


@pytest.fixture(scope="module")
def operators():
    X = np.random.default_rng(0).normal(size=(60, 2))
    A = bb.factorize(X, bb.Gaussian(1.0), n_clusters=3, rank=6, rng=0)
    B = A.extend(X[:7])
    return [A, B, B.T, bb.ExactKernel(X, bb.Gaussian(1.0)), approximate(X, bb.Gaussian(1.0), "nystrom", rank=5, rng=0)]


def test_scipys_constructor_has_run(operators):
    """Whatever attributes it sets, which differ from one version of SciPy to the next."""
    plain = aslinearoperator(np.eye(3))
    expected = {name for name in vars(LinearOperator((3, 3), matvec=plain.matvec)) if not name.startswith("_Custom")}
    for A in operators:
        assert {"dtype", "shape"} | {name for name in expected if name == "_xp"} <= set(vars(A))


def test_arithmetic_of_operators(operators):
    for A in operators:
        dense, v = A.todense(), np.random.default_rng(1).normal(size=A.shape[1])
        for combined, expected in [(2 * A, 2 * dense), (A + A, 2 * dense), (-A, -dense), (A @ A.T, dense @ dense.T)]:
            w = np.resize(v, combined.shape[1])
            np.testing.assert_allclose(combined @ w, expected @ w, atol=1e-10)
        np.testing.assert_allclose(A.H @ np.ones(A.shape[0]), dense.T @ np.ones(A.shape[0]), atol=1e-10)


def test_copies_are_operators_too(operators):
    for A in operators[:3]:
        v = np.ones(A.shape[1])
        for other in (copy.copy(A), pickle.loads(pickle.dumps(A))):
            np.testing.assert_allclose(other @ v, A @ v, atol=1e-13)
    A = operators[0]
    assert dataclasses.replace(A, diagonal_part=None).shape == A.shape


def test_batches_of_vectors_and_matrices(operators):
    """What SciPy 1.18 hands on: shapes (..., N) and (..., N, K)."""
    for A in operators:
        dense, rng = A.todense(), np.random.default_rng(2)
        vectors, matrices = rng.normal(size=(2, 3, A.shape[1])), rng.normal(size=(2, 3, A.shape[1], 4))
        np.testing.assert_allclose(A._matvec(vectors), vectors @ dense.T, atol=1e-12)
        np.testing.assert_allclose(A._matmat(matrices), dense @ matrices, atol=1e-12)


def test_state_without_the_module_of_the_arrays(operators):
    """SciPy 1.18 keeps a module, which is not pickled and is set again."""
    A = copy.copy(operators[0])
    vars(A).setdefault("_xp", np)
    other = pickle.loads(pickle.dumps(A))
    np.testing.assert_array_equal(other @ np.ones(60), A @ np.ones(60))


def test_former_paths_hold_the_same_names():
    from blockbasis import exact, operator, operators, storage

    for module, names in {
        operator: ["BlockBasis", "CrossBlockBasis", "Entries", "Product"],
        exact: ["ExactKernel", "ExactCrossKernel"],
        storage: ["save", "load", "StorageError"],
        bb: ["BlockBasis", "CrossBlockBasis", "ErrorEstimate", "save", "load", "StorageError"],
    }.items():
        for name in names:
            assert getattr(module, name) is getattr(operators, name)


@pytest.mark.parametrize("scale", [1e-200, 1e60])
def test_vectors_that_float32_cannot_hold_are_refused(scale):
    X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    A = bb.factorize(X, bb.Gaussian(1.0), n_clusters=2, rank=5, rng=0)
    v = np.linspace(-2, 1, 40)
    for operator in (A, A.extend(X[:7]), bb.ExactKernel(X, bb.Gaussian(1.0))):
        assert np.isfinite(operator @ v).all()
        assert not (operator @ np.zeros(40)).any()
        for wrong in (scale * v, np.column_stack((v, scale * v)), scale * v * (1 + 1j)):
            with pytest.raises(ValueError, match="largest entry between"):
                operator @ wrong


def test_a_dense_matrix_that_does_not_fit_is_refused(monkeypatch):
    X = np.random.default_rng(0).normal(size=(500, 2))
    A, K = bb.factorize(X, bb.Gaussian(3.0), rank=10, n_clusters=3, rng=0), bb.ExactKernel(X, bb.Gaussian(3.0))
    for operator, copies in ((A, 3), (K, 1)):
        monkeypatch.setattr(machine, "available_memory", lambda needed=copies * 8 * 500**2: needed - 1)
        with pytest.raises(MemoryError, match="This dense matrix would take .* products, which need no dense matrix"):
            operator.todense()
        monkeypatch.setattr(machine, "available_memory", lambda needed=copies * 8 * 500**2: needed)
        assert operator.todense().shape == (500, 500)
