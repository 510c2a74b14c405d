from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.exceptions import AccuracyWarning
from blockbasis.operators import Entries
from tests.repeating import first_of


@pytest.fixture(scope="module")
def clouds():
    """Three clouds of 60 points, far enough apart that the nearest centre is never in doubt."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0.0], [4.0, 0.0], [0.0, 5.0]], 60, axis=0) + 0.5 * rng.normal(size=(180, 2))
    return X, np.repeat(np.arange(3), 60)


def factored(clouds, kernel=None, **settings):
    X, labels = clouds
    chosen = {"partition": labels, "n_clusters": 3, "rank": 15, "rng": 0, **settings}
    return bb.factorize(X, kernel or bb.Gaussian(2.0), **chosen)


# --- data ------------------------------------------------------------------------------------------------------------


def test_properties(clouds):
    A = factored(clouds, rank=[4, 5, 6])
    assert A.n_clusters == 3
    np.testing.assert_array_equal(A.ranks, [4, 5, 6])
    assert [U.shape for U in A.bases] == [(60, 4), (60, 5), (60, 6)]
    assert A.partition.n_points == 180
    assert A.kernel == bb.Gaussian(2.0)
    assert A.stored == 60 * 15 + 15 * 16 // 2 + 180
    assert A.diagonal_part.shape == (180,)
    assert len(A.extensions) == 3


def test_nbytes_counts_everything_kept(clouds):
    A = factored(clouds)
    counted = sum(U.nbytes for U in A.bases) + A.diagonal_part.nbytes
    counted += sum(panel.values.nbytes for panel in A.inner.panels)
    counted += sum(ext.points.nbytes + ext.coefficients.nbytes for ext in A.extensions)
    counted += sum(getattr(A.partition, field.name).nbytes for field in dataclasses.fields(A.partition))
    assert A.nbytes == counted
    assert factored(clouds, dtype=np.float32).nbytes < 0.7 * counted


def test_without_diagonal_part_it_is_smaller(clouds):
    with_d, without = factored(clouds), factored(clouds, diagonal=False)
    assert without.diagonal_part is None
    assert with_d.stored - without.stored == 180


def test_is_frozen(clouds):
    A = factored(clouds)
    with pytest.raises(dataclasses.FrozenInstanceError):
        A.kernel = bb.Cauchy(1.0)
    with pytest.raises(ValueError, match="read-only"):
        A.bases[0][0, 0] = 1


def test_repr(clouds):
    assert repr(factored(clouds)) == (
        "BlockBasis(180 x 180, U C Uᵀ + D, 3 clusters, ranks 15 to 15, 21.8 floats per point, float64)"
    )
    assert "U C Uᵀ," in repr(factored(clouds, diagonal=False))
    assert repr(factored(clouds).extend(np.zeros((2, 2)))).startswith("CrossBlockBasis(2 x 180, U C Vᵀ, ")


def test_entries_add_up():
    assert Entries(3, 4).total == 7


def test_diagonal_is_exact_where_d_is_positive(clouds):
    """D fills up to k(x, x): the approximation's diagonal is never below it."""
    A = factored(clouds, bb.Laplacian(0.3))
    diagonal = A.diagonal()
    assert (diagonal >= 1 - 1e-12).all()
    np.testing.assert_allclose(diagonal[A.diagonal_part > 0], 1, atol=1e-12)
    assert (A.diagonal_part > 0).mean() > 0.9


def test_order_is_the_callers(clouds):
    """Row i is point i, whatever the clusters are."""
    X, labels = clouds
    shuffle = np.random.default_rng(1).permutation(180)
    A = bb.factorize(X[shuffle], bb.Gaussian(2.0), n_clusters=3, rank=40, partition=labels[shuffle], rng=0)
    np.testing.assert_allclose(A.todense(), bb.Gaussian(2.0)(X[shuffle]), atol=1e-6)


# --- extension -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [bb.Gaussian(2.0), bb.Laplacian(1.0), bb.Matern(1.0, 2.5)])
def test_extension_reproduces_the_factorization_at_old_points(clouds, kernel):
    """At the old points, u(x) is the row of U: extend(X) is A without D."""
    X, _ = clouds
    A = factored(clouds, kernel, rank=12)
    extended = A.extend(X)
    for old, new in zip(A.bases, extended.row_basis.blocks, strict=True):
        np.testing.assert_allclose(new, old, atol=1e-6)
    np.testing.assert_allclose(extended.todense() + np.diag(A.diagonal_part), A.todense(), atol=1e-5)


def test_whole_clusters_extend_too(clouds):
    X, _ = clouds
    A = factored(clouds, bb.Laplacian(1.0), rank=60)
    np.testing.assert_allclose(A.extend(X).todense(), bb.Laplacian(1.0)(X), atol=1e-6)


@pytest.mark.parametrize(
    ("kernel", "error"), [(bb.Gaussian(3.0), 1e-4), (bb.Matern(3.0, 2.5), 1e-2), (bb.Cauchy(3.0), 1e-2)]
)
def test_new_points_are_close_to_the_kernel(clouds, relative, kernel, error):
    X, labels = clouds
    rng = np.random.default_rng(5)
    new = X[rng.integers(180, size=50)] + 0.1 * rng.normal(size=(50, 2))
    A = factored(clouds, kernel, rank=25)
    B = A.extend(new)
    assert B.shape == (50, 180)
    assert B.entries is None
    assert relative(B, kernel(new, X)) < error


def test_extension_does_not_touch_the_points_factored(clouds, counting):
    A = factored(clouds, counting, rank=10)
    A.extend(np.zeros((7, 2)))  # landmarks that show the error are prepared once
    before = counting.seen
    A.extend(np.zeros((7, 2)))
    # Eight landmarks for each unit of rank, k(x, x) among the new points, and at most all landmarks for the error.
    assert counting.seen - before <= 7 * 80 + 7 * 7 + 7 * 3 * 80


def test_rows_follow_the_new_points_order(clouds):
    A = factored(clouds)
    new = np.array([[0.1, 5.2], [4.1, 0.3], [0.0, 0.2], [4.3, -0.2], [0.4, 4.9]])
    whole = A.extend(new).todense()
    for i, point in enumerate(new):
        np.testing.assert_allclose(A.extend(point[np.newaxis]).todense()[0], whole[i], atol=1e-12)


def test_extension_with_empty_clusters(clouds, relative):
    X, labels = clouds
    A = factored(clouds, rank=25)
    new = X[labels == 1][:6] + 0.01
    B = A.extend(new)
    assert [len(block) for block in B.row_basis.blocks] == [0, 6, 0]
    assert relative(B, bb.Gaussian(2.0)(new, X)) < 1e-3
    np.testing.assert_allclose(B.T @ np.ones(6), B.todense().T @ np.ones(6), atol=1e-12)


@pytest.mark.parametrize("distance", [1e2, 1e8, 1e150])
def test_a_point_far_away_sees_nothing(clouds, distance):
    row = factored(clouds).extend([[distance, -distance]]).todense()
    np.testing.assert_allclose(row, 0, atol=1e-12)


def unsafe(X, labels, *, amplified, kernel=None, **settings):
    """A factorization whose extensions are far too long for some new points."""
    A = bb.factorize(X, kernel or bb.Gaussian(2.0), partition=labels, n_clusters=3, rank=15, rng=0, **settings)
    extensions = tuple(dataclasses.replace(e, coefficients=e.coefficients * amplified) for e in A.extensions)
    return dataclasses.replace(A, extensions=extensions)


@pytest.mark.parametrize("settings", [{}, {"diagonal": False}, {"dtype": np.float32}, {"algorithm": "paper"}], ids=str)
@pytest.mark.parametrize("amplified", [3.0, 1e6, 1e31])
def test_no_entry_exceeds_what_the_kernel_allows(clouds, settings, amplified):
    """However long u(x) comes out: it is shortened to the point's own variance."""
    A = unsafe(*clouds, amplified=amplified, **settings)
    rng = np.random.default_rng(1)
    far = np.array([[1e150, 0.0], [1e8, -1e8]] if A.dtype == np.float64 else [[1e8, -1e8]])
    new = np.concatenate((clouds[0], 5 * rng.normal(size=(200, 2)), far))
    rows = A.extend(new).todense()
    assert np.isfinite(rows).all()
    assert np.abs(rows).max() <= 1.1


def test_coordinates_that_overflow_are_zero(clouds):
    A = unsafe(*clouds, amplified=1e300)
    with pytest.warns(AccuracyWarning, match=r"K\(X_new, X\) is about 1: many"):
        rows = A.extend(clouds[0]).todense()
    assert np.isfinite(rows).all()
    assert np.abs(rows).max() <= 1.1


def test_ill_conditioned_extensions_of_standardised_rows():
    """A small cluster of outliers, whose fit is ill-conditioned: entries of 1e31 were returned in silence."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, size=(1200, 8)) @ rng.normal(size=(8, 8))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    old, new = X[:900], X[900:]
    for seed in range(3):
        A = bb.factorize(old, bb.Gaussian(3.2), n_clusters=25, rank=25, rng=seed)
        rows = A.extend(np.concatenate((new, 4 * new))).todense()
        assert np.isfinite(rows).all()
        assert np.abs(rows).max() <= 1.5


def test_old_points_of_a_poor_factorization_do_not_raise_the_bound(clouds):
    """Variances above k(x, x) at old points: entries at new points stay below 1.5 all the same."""
    A = factored(clouds)
    louder = dataclasses.replace(A, inner=A.inner.astype(np.float64).with_entries(9 * A.inner.todense()))
    assert louder.diagonal().max() > 8
    assert np.abs(louder.extend(clouds[0]).todense()).max() <= 1.5


def test_a_point_far_away_does_not_blur_the_others(clouds):
    A = factored(clouds)
    alone = A.extend([[0.1, 0.2], [3.9, 0.1]]).todense()
    together = A.extend([[0.1, 0.2], [3.9, 0.1], [-1e12, -1e12], [1e15, 0.0]]).todense()
    np.testing.assert_allclose(together[:2], alone, atol=1e-10)


def test_large_sets_of_new_points_are_worked_through_in_tiles(clouds, tiles_of):
    A = factored(clouds)
    new = np.random.default_rng(0).normal(size=(50, 2))
    whole = A.extend(new).todense()
    tiles_of(200)
    np.testing.assert_allclose(A.extend(new).todense(), whole, atol=1e-12)


def test_extension_takes_what_factorize_takes(clouds):
    A = factored(clouds)
    expected = A.extend(np.array([[1.0, 2.0], [3.0, 4.0]])).todense()
    np.testing.assert_array_equal(A.extend([[1, 2], [3, 4]]).todense(), expected)
    np.testing.assert_array_equal(A.extend(np.array([[1, 2], [3, 4]], dtype=np.int8)).todense(), expected)
    np.testing.assert_allclose(A.extend(np.array([[1, 2], [3, 4]], dtype=np.float32)).todense(), expected, atol=1e-12)


def test_extension_keeps_float32(clouds):
    B = factored(clouds, dtype=np.float32).extend(np.zeros((2, 2)))
    assert B.dtype == np.float32
    assert B.todense().dtype == np.float32


@pytest.mark.parametrize(
    ("bad", "parts"),
    [
        (np.zeros((4, 3)), ["of 2 columns", "(4, 3)"]),
        (np.zeros(2), ["two-dimensional", "(2,)"]),
        (np.zeros((0, 2)), ["at least one point", "(0, 2)"]),
        ([[np.nan, 0.0]], ["free of NaN and infinity", "row 0"]),
    ],
)
def test_bad_new_points(clouds, bad, parts):
    with pytest.raises(ValueError) as caught:
        factored(clouds).extend(bad)
    for part in ["'X_new' parameter of extend must be", *parts]:
        assert part in str(caught.value)


def test_cross_stored_and_nbytes(clouds):
    X, _ = clouds
    B = bb.factorize_cross(X[:100], X, bb.Gaussian(2.0), n_clusters=(2, 3), rank=5, rng=0)
    assert B.stored == 100 * 5 + 10 * 15 + 180 * 5
    assert B.nbytes == 8 * B.stored
    assert repr(B) == f"CrossBlockBasis(100 x 180, U C Vᵀ, {B.stored} floats, float64)"


# --- the error at new points -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", first_of(range(4)))
def test_an_extension_estimates_its_own_error(seed):
    rng = np.random.default_rng(seed)
    X, new = rng.normal(size=(1_200, 3)), rng.normal(size=(400, 3))
    A = bb.factorize(X, bb.Gaussian(1.5), tol=1e-2, rng=seed)
    B = A.extend(new)
    exact = bb.Gaussian(1.5)(new, X)
    error = np.linalg.norm(B.todense() - exact) / np.linalg.norm(exact)
    assert not B.error_estimate.exact
    assert 0.5 <= B.error_estimate.value / error <= 2


@pytest.mark.parametrize("seed", first_of(range(3)))
def test_new_points_unlike_the_old_ones_are_told_of(seed):
    rng = np.random.default_rng(seed)
    X, new = rng.normal(size=(1_200, 3)), rng.normal(size=(300, 3)) + [5.0, 0.0, 0.0]
    A = bb.factorize(X, bb.Gaussian(1.0), tol=1e-2, rng=seed)
    with pytest.warns(AccuracyWarning, match="many new points are far"):
        B = A.extend(new)
    exact = bb.Gaussian(1.0)(new, X)
    assert np.linalg.norm(B.todense() - exact) > 4e-2 * np.linalg.norm(exact)


def test_old_points_are_not_unlike_themselves(recwarn):
    X = np.random.default_rng(0).normal(size=(1_200, 3))
    bb.factorize(X, bb.Gaussian(1.5), tol=1e-2, rng=0).extend(X[:300])
    assert not [w for w in recwarn if issubclass(w.category, AccuracyWarning)]


def test_the_error_of_an_extension_is_saved(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 2))
    B = bb.factorize(X, bb.Gaussian(3.0), n_clusters=3, rank=20, rng=0).extend(X[:5] + 0.1)
    bb.save(B, tmp_path / "b.bbf")
    assert bb.load(tmp_path / "b.bbf").error_estimate == B.error_estimate


def test_one_new_point_does_not_warn_and_costs_one_column(recwarn):
    X = np.random.default_rng(0).normal(size=(1_200, 3))
    A = bb.factorize(X, bb.Gaussian(1.0), tol=1e-2, rng=0)
    for point in 3 * np.random.default_rng(1).normal(size=(5, 3)):
        assert A.extend(point[np.newaxis]).error_estimate.value >= 0
    assert not [w for w in recwarn if issubclass(w.category, AccuracyWarning)]


def test_noise_is_no_reason_to_warn_of_new_points(recwarn):
    X = np.random.default_rng(0).normal(size=(800, 2))
    bb.factorize(X, bb.Gaussian(0.5) + bb.White(100.0), tol=1e-2, rng=0).extend(X[:300])
    assert not [w for w in recwarn if issubclass(w.category, AccuracyWarning)]


def test_moderate_noise_does_not_hide_new_points_unlike_the_old_ones():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(1_200, 3)), rng.normal(size=(300, 3)) + [6.0, 0.0, 0.0]
    A = bb.factorize(X, bb.Gaussian(1.0) + bb.White(0.1), tol=1e-2, rng=0)
    with pytest.warns(AccuracyWarning, match="many new points are far"):
        A.extend(new)


def test_new_points_unlike_the_old_ones_of_a_factorization_by_rank():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(600, 3)), rng.normal(size=(100, 3)) + [9.0, 0.0, 0.0]
    A = bb.factorize(X, bb.Gaussian(1.0), n_clusters=4, rank=30, rng=0)
    with pytest.warns(AccuracyWarning, match="many new points are far"):
        A.extend(new)
    A.extend(new[:19])  # too few points to judge


def test_pickles_do_not_carry_what_extend_prepared():
    X = np.random.default_rng(0).normal(size=(300, 2))
    A = bb.factorize(X, bb.Gaussian(3.0), n_clusters=3, rank=20, rng=0)
    before = len(pickle.dumps(A))
    A.extend(X[:5] + 0.1)
    assert len(pickle.dumps(A)) == before
    B = pickle.loads(pickle.dumps(A))
    assert not B.inner.panels[0].values.flags.writeable
    np.testing.assert_array_equal(A.extend(X[:5]).todense(), B.extend(X[:5]).todense())
