"""The correction of extensions at the clusters near a new point."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.operators import archive
from blockbasis.operators.near_field import fitted, identified, landmarks_by_cluster, sufficient_count
from tests.repeating import first_of

SEEDS = range(4)


def clustered(seed, n=2_000, new=600, d=5):
    """Points of thirty normal clouds, and other points of the same clouds."""
    rng = np.random.default_rng(seed)
    centers = 2 * rng.normal(size=(30, d))
    X = centers[rng.integers(30, size=n + new)] + 0.4 * rng.normal(size=(n + new, d))
    return X[:n], X[n:]


def plain(B):
    """The operator without its corrections."""
    return dataclasses.replace(B, near=None, single=None)


@pytest.fixture(scope="module", params=first_of(SEEDS))
def small_bandwidth(request):
    X, new = clustered(request.param)
    A = bb.factorize(X, bb.Gaussian(0.5), tol=2e-2, rng=request.param)
    return A, A.extend(new), bb.Gaussian(0.5)(new, X), new


@pytest.fixture(scope="module")
def tails():
    """Extensions to new points in the tails, whose few neighbours are hardly represented by the bases."""

    @cache
    def extended(seed):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(1_200, 3)), 4 * rng.normal(size=(300, 3))
        return bb.factorize(X, bb.Gaussian(1.0), tol=1e-2, rng=seed).extend(new), bb.Gaussian(1.0)(new, X)

    return extended


# --- extensions ------------------------------------------------------------------------------------------------------


def test_small_bandwidths_are_corrected(small_bandwidth, relative):
    _, B, exact, _ = small_bandwidth
    before, after = relative(plain(B), exact), relative(B, exact)
    assert before > 0.2
    assert after < 0.1
    assert after < before / 3


def test_the_estimate_is_that_of_the_corrected_rows(small_bandwidth, relative):
    _, B, exact, _ = small_bandwidth
    assert 0.5 <= B.error_estimate.value / relative(B, exact) <= 2


def test_entries_stay_bounded(small_bandwidth):
    A, B, _, new = small_bandwidth
    assert np.abs(B.todense()).max() <= 1.5
    rng = np.random.default_rng(0)
    away = np.concatenate((new, new + rng.normal(size=new.shape), 3 * new[:50], np.full((1, 5), 1e9)))
    rows = A.extend(away).todense()
    assert np.isfinite(rows).all()
    assert np.abs(rows).max() <= 1.5
    np.testing.assert_allclose(rows[-1], 0, atol=1e-12)


def test_products_and_transposes_agree(small_bandwidth):
    _, B, _, _ = small_bandwidth
    rng = np.random.default_rng(1)
    v, w = rng.normal(size=(2_000, 3)), rng.normal(size=(600, 2))
    dense = B.todense()
    U, V = (basis.expand(np.eye(basis.shape[1])) for basis in (B.row_basis, B.column_basis))
    N = B.near.expand(np.eye(V.shape[1]))
    expected = (U @ B.inner.todense() + N) @ V.T
    expected = expected if B.single is None else expected + B.single.toarray()
    np.testing.assert_allclose(dense, expected, atol=1e-11)
    np.testing.assert_allclose(B @ v, dense @ v, atol=1e-10)
    np.testing.assert_allclose(B.T @ w, dense.T @ w, atol=1e-10)
    np.testing.assert_allclose(B.T.T @ v, dense @ v, atol=1e-10)


def test_floats_bytes_and_repr_have_the_correction(small_bandwidth):
    _, B, _, _ = small_bandwidth
    single = 0 if B.single is None else B.single.nnz
    assert B.stored == plain(B).stored + B.near.size + single
    assert B.nbytes >= plain(B).nbytes + B.near.nbytes + 8 * single
    assert "(U C + N) Vᵀ" in repr(B)


def test_a_corrected_extension_is_saved(small_bandwidth, tmp_path):
    _, B, _, _ = small_bandwidth
    bb.save(B, tmp_path / "b.bbf")
    np.testing.assert_array_equal(bb.load(tmp_path / "b.bbf").todense(), B.todense())


@pytest.mark.parametrize("seed", first_of(SEEDS))
def test_accurate_extensions_are_as_they_were(seed):
    X, new = clustered(seed)
    B = bb.factorize(X, bb.Gaussian(3.0), tol=2e-2, rng=seed).extend(new)
    assert B.near is None
    assert B.single is None


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_points_whose_part_is_in_d_are_corrected_entry_by_entry(tails, seed, relative, tmp_path):
    B, exact = tails(seed)
    assert B.single is not None
    assert repr(B).startswith("CrossBlockBasis(300 x 1200, (U C + N) Vᵀ + S, ")
    assert relative(B, exact) < 0.6 * relative(plain(B), exact)
    assert relative(B, exact) < relative(dataclasses.replace(B, single=None), exact)
    np.testing.assert_allclose(B.T @ np.eye(300), B.todense().T, atol=1e-12)
    bb.save(B, tmp_path / "b.bbf")
    np.testing.assert_array_equal(bb.load(tmp_path / "b.bbf").todense(), B.todense())
    with pytest.raises(ValueError, match="read-only"):
        B.single.data[0] = 1.0


def test_float32(relative):
    X, new = clustered(0, n=1_000, new=300)
    A = bb.factorize(X, bb.Gaussian(0.5), tol=2e-2, rng=0, dtype=np.float32)
    B = A.extend(new)
    exact = bb.Gaussian(0.5)(new, X)
    assert B.near.blocks[0].dtype == np.float32
    assert (B @ np.ones(1_000)).dtype == np.float32
    assert relative(B, exact) < relative(plain(B), exact) / 3


def test_random_clusters_are_not_made_worse(relative):
    X, new = clustered(0, n=800, new=200)
    A = bb.factorize(X, bb.Gaussian(0.7), n_clusters=20, rank=30, partition="random", rng=0)
    with pytest.warns(bb.AccuracyWarning, match="relative error of K"):
        B = A.extend(new)
    exact = bb.Gaussian(0.7)(new, X)
    assert relative(B, exact) <= 1.05 * relative(plain(B), exact)


# --- parts -----------------------------------------------------------------------------------------------------------


def test_landmarks_are_the_factorized_points(points):
    A = bb.factorize(points, bb.Gaussian(0.5), n_clusters=5, rank=6, rng=0)
    found = landmarks_by_cluster(A.extensions, A.basis, A.kernel.core)
    known = 0
    for j, (own, rows, columns) in enumerate(found):
        assert own.shape[0] == rows.shape[0] == columns.shape[0]
        assert rows.shape[1] == A.ranks[j]
        assert (np.linalg.norm(rows, axis=1) <= 1.001).all()
        np.testing.assert_array_equal(points[columns[columns >= 0]], own[columns >= 0])
        assert (A.partition.labels[columns[columns >= 0]] == j).all()
        known += (columns >= 0).sum()
    assert known > 0.5 * sum(len(each.points) for each in found)


def test_landmarks_with_long_rows_are_left_out(points):
    A = bb.factorize(points, bb.Gaussian(0.5), n_clusters=5, rank=6, rng=0)
    wild = tuple(dataclasses.replace(e, coefficients=1e300 * e.coefficients) for e in A.extensions)
    assert all(len(each.points) == 0 for each in landmarks_by_cluster(wild, A.basis, A.kernel.core))


def test_a_fit_to_all_rows_is_the_projection():
    rng = np.random.default_rng(0)
    U, _ = np.linalg.qr(rng.normal(size=(40, 7)))
    K = rng.normal(size=(5, 40))
    np.testing.assert_allclose(fitted(U, K), K @ U, atol=1e-12)


def test_a_fit_does_not_amplify_what_the_rows_do_not_show():
    """Fewer rows than coordinates, and rows that are nearly zero."""
    rng = np.random.default_rng(0)
    U, _ = np.linalg.qr(rng.normal(size=(40, 7)))
    some = np.concatenate((U[:3], 1e-9 * U[3:6]))
    K = rng.normal(size=(5, 6))
    d = fitted(some, K)
    assert np.linalg.norm(d) <= np.linalg.norm(K) / np.sqrt(0.1)
    assert np.linalg.norm(K - d @ some.T) < np.linalg.norm(K)


def test_rows_are_identified_only_if_they_are_distinct():
    rng = np.random.default_rng(0)
    U, _ = np.linalg.qr(rng.normal(size=(30, 4)))
    U[7] = U[3]  # a repeated point
    rows = np.concatenate((U[[5, 3, 11]] + 1e-9, U[[2]] + 0.05))
    np.testing.assert_array_equal(identified(U, rows), [5, -1, 11, -1])
    np.testing.assert_array_equal(identified(U, U[[5, 5, 9]]), [-1, -1, 9])
    np.testing.assert_array_equal(identified(np.ones((1, 1)), np.array([[1.0]])), [0])
    np.testing.assert_array_equal(identified(np.ones((1, 1)), np.array([[0.5]])), [-1])
    assert identified(U, np.empty((0, 4))).shape == (0,)


def test_the_count_leaves_the_allowed_error():
    nearest = np.array([[2, 0, 1], [1, 0, 2]])
    labels = np.array([0, 1, 2])
    errors = np.array([[1.0, 2.0], [0.1, 9.0], [4.0, 0.2]])  # by position: 13, 3, 0.3
    assert sufficient_count(errors, labels, nearest, 20.0) == 1
    assert sufficient_count(errors, labels, nearest, 3.3001) == 1
    assert sufficient_count(errors, labels, nearest, 0.31) == 2
    assert sufficient_count(errors, labels, nearest, 0.01) == 3


@pytest.mark.parametrize("missing", ["near.sizes", "near.rows", "single.starts", "single.columns"])
def test_a_file_without_a_part_of_the_correction_is_refused(tails, missing, tmp_path):
    bb.save(tails(0)[0], tmp_path / "b.bbf")
    meta, arrays = archive.read_archive(tmp_path / "b.bbf")
    del meta["arrays"], arrays[missing]
    with open(tmp_path / "b.bbf", "wb") as stream:
        archive.write_archive(stream, meta, arrays)
    with pytest.raises(bb.StorageError, match=missing):
        bb.load(tmp_path / "b.bbf")
