from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import blockbasis as bb
from blockbasis.accuracy.spectrum import lanczos, sparsified


def symmetric(values, seed=0):
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))[0]
    M = (Q * values) @ Q.T
    return (M + M.T) / 2


@pytest.fixture
def K(points):
    return bb.ExactKernel(points, bb.Gaussian(0.3))


@pytest.fixture
def dense(points):
    return bb.Gaussian(0.3)(points)


# --- spectral_norm ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [bb.Gaussian(0.05), bb.Gaussian(0.3), bb.Laplacian(1.0), bb.Cauchy(10.0)])
def test_norm_of_kernel_matrices(kernel, many_points):
    exact = np.linalg.norm(kernel(many_points), 2)
    for seed in range(5):
        norm = bb.spectral_norm(bb.ExactKernel(many_points, kernel), rng=seed)
        assert norm.converged
        assert norm.value == pytest.approx(exact, rel=1e-3)
        assert norm.value <= exact * (1 + 1e-12)
        assert norm.bound <= 1e-3 * norm.value


@pytest.mark.parametrize("seed", range(3))
def test_norm_where_the_negative_end_leads(seed):
    M = symmetric(np.concatenate((np.linspace(0, 1, 200), np.linspace(-1.2, 0, 200))), seed)
    assert bb.spectral_norm(M, rng=seed).value == pytest.approx(1.2, rel=1e-3)


def test_norm_of_any_operator(points):
    A = bb.factorize(points, bb.Gaussian(0.3), n_clusters=4, rank=5, rng=0)
    exact = np.linalg.norm(A.todense(), 2)
    for operator in (A, A.todense(), aslinearoperator(A.todense()), sparse.csr_array(A.todense())):
        assert bb.spectral_norm(operator, tol=1e-6, rng=0).value == pytest.approx(exact, rel=1e-9)


def test_norm_of_a_float32_operator(points):
    A = bb.factorize(points, bb.Gaussian(0.3), n_clusters=4, rank=5, rng=0, dtype=np.float32)
    norm = bb.spectral_norm(A, rng=0)
    assert norm.converged
    assert norm.value == pytest.approx(np.linalg.norm(A.todense(), 2), rel=1e-3)


def test_norm_of_nothing_and_of_one_entry():
    assert bb.spectral_norm(np.zeros((30, 30)), rng=0).value == 0
    assert bb.spectral_norm(np.array([[-3.0]]), rng=0).value == pytest.approx(3.0)


def test_a_norm_that_has_not_converged_says_so():
    norm = bb.spectral_norm(symmetric(np.linspace(-1, 1, 300)), tol=1e-9, max_iter=2, rng=0)
    assert not norm.converged
    assert norm.iterations == 2
    assert norm.value <= 1
    assert 1 - norm.value <= norm.bound
    assert f"{norm:.2f}".endswith("(not converged)")


def test_the_seed_decides(K):
    first, same, other = (bb.spectral_norm(K, tol=0.1, rng=seed) for seed in (0, 0, 1))
    assert first == same != other


def test_estimates_are_printed():
    assert f"{bb.SpectralEstimate(0.01234, 0.0, 3, True)}" == "0.0123"
    assert f"{bb.SpectralEstimate(0.01234, 0.0, 3, True):.1%}" == "1.2%"


# --- stable_rank -----------------------------------------------------------------------------------------------------


def test_stable_rank_is_numpys(radial, points):
    K = radial.matrix(points, points, 0.3)
    exact = (np.linalg.norm(K) / np.linalg.norm(K, 2)) ** 2
    for seed in range(3):
        found = bb.stable_rank(bb.ExactKernel(points, radial.make(0.3)), rng=seed)
        assert found.converged
        assert found.value == pytest.approx(exact, rel=1e-4)
        assert found.bound <= 2e-4 * found.value


def test_stable_rank_of_any_operator(points, tiles_of):
    tiles_of(160 * 7)
    A = bb.factorize(points, bb.Gaussian(0.3), n_clusters=4, rank=5, rng=0)
    values = np.linalg.eigvalsh(A.todense())
    exact = (values**2).sum() / values[-1] ** 2
    widths = []

    class Spy:
        shape = A.shape

        def __matmul__(self, V):
            widths.append(V.shape[1])
            return A @ V

    for operator in (A, A.todense(), sparse.csr_array(A.todense()), aslinearoperator(A.todense()), Spy()):
        assert bb.stable_rank(operator, tol=1e-6, rng=0).value == pytest.approx(exact, rel=1e-9)
    assert max(widths) <= 8


def test_stable_rank_of_simple_matrices():
    assert bb.stable_rank(np.eye(40), rng=0).value == pytest.approx(40)
    assert bb.stable_rank(np.ones((40, 40)), rng=0).value == pytest.approx(1)
    assert bb.stable_rank(np.zeros((40, 40)), rng=0).value == 0


def _all_but_two_slow(first, last, *others):
    return [first, last, *(pytest.param(*case, marks=pytest.mark.slow) for case in others)]


@pytest.mark.parametrize(
    ("gamma", "printed"),
    _all_but_two_slow((1, 4), (400, 931), (0.25, 2), (4, 5), (25, 15), (100, 175), (1000, 1155)),
)
def test_stable_ranks_of_the_papers_table_for_abalone(abalone_of_the_tables, gamma, printed):
    K = bb.ExactKernel(abalone_of_the_tables, bb.Gaussian.from_gamma(gamma))
    assert math.ceil(bb.stable_rank(K, rng=0).value) == printed


@pytest.mark.slow
@pytest.mark.parametrize(("gamma", "printed"), [(0.1, 3), (0.25, 6), (0.44, 8), (1, 12), (2, 33), (4, 207), (25, 2794)])
def test_stable_ranks_of_the_papers_table_for_pendigits(pendigits_of_the_tables, gamma, printed):
    K = bb.ExactKernel(pendigits_of_the_tables, bb.Gaussian.from_gamma(gamma))
    assert math.ceil(bb.stable_rank(K, rng=0).value) == printed


# --- numerical_rank --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_iter", [None, 2])
def test_numerical_rank_of_known_spectra(n_iter):
    falling = symmetric(0.5 ** np.arange(200))
    assert bb.numerical_rank(falling, 0.3, n_iter=n_iter, rng=0) == 2
    assert bb.numerical_rank(falling, 0.9e-3, n_iter=n_iter, rng=0) == 11
    signs = symmetric(np.concatenate(([-4.0, 3.0, -2.0], np.full(97, 1e-3))))
    assert bb.numerical_rank(signs, 0.4, n_iter=n_iter, rng=0) == 3
    assert bb.numerical_rank(np.zeros((90, 90)), 0.1, n_iter=n_iter, rng=0) == 0
    assert bb.numerical_rank(np.eye(90), 0.1, n_iter=n_iter, rng=0) == 90
    assert bb.numerical_rank(np.array([[2.0]]), 0.1, n_iter=n_iter, rng=0) == 1


@pytest.mark.parametrize("h", [0.1, 0.5, 2.0])
def test_numerical_rank_of_kernel_matrices(many_points, h):
    X = many_points[:300]
    K = bb.ExactKernel(X, bb.Gaussian(h))
    values = np.linalg.eigvalsh(bb.Gaussian(h)(X))
    for tol in (1e-1, 1e-3, 1e-5):
        exact = int((values >= tol * values[-1]).sum())
        assert bb.numerical_rank(K, tol) == exact
        for seed in range(3):
            assert 0.95 * exact <= bb.numerical_rank(K, tol, n_iter=4, rng=seed) <= exact


def test_the_estimate_sees_no_more_vectors_than_it_needs(K):
    widths = []

    class Spy:
        shape = (1000, 1000)

        def __matmul__(self, V):
            widths.append(V.shape[1])
            return 0.5 ** np.arange(1000)[:, np.newaxis] * V

    assert bb.numerical_rank(Spy(), 1e-4, n_iter=2, rng=0) == 14
    assert max(widths) == 64


@pytest.mark.parametrize(("tol", "printed"), [(1e-2, 11), (1e-3, 28), (1e-4, 66)])
def test_numerical_ranks_of_the_papers_text(abalone_of_the_tables, tol, printed):
    """The paper prints the index of the first singular value below the tolerance."""
    K = bb.ExactKernel(abalone_of_the_tables, bb.Gaussian(4.0))
    assert bb.numerical_rank(K, tol, n_iter=2, rng=0) + 1 == printed


# --- leverage_scores -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 10, 160])
def test_rank_scores_are_those_of_the_eigenvectors(K, dense, rank):
    vectors = np.linalg.eigh(dense)[1][:, -rank:]
    scores = bb.leverage_scores(K, rank=rank)
    np.testing.assert_allclose(scores, (vectors**2).sum(axis=1), atol=1e-10)
    assert scores.sum() == pytest.approx(rank)


@pytest.mark.parametrize("seed", range(5))
def test_estimated_rank_scores(many_points, seed):
    K = bb.ExactKernel(many_points, bb.Gaussian(1.0))
    exact = bb.leverage_scores(K, rank=20)
    estimate = bb.leverage_scores(K, rank=20, n_iter=4, rng=seed)
    assert estimate.sum() == pytest.approx(20)
    assert np.abs(estimate - exact).max() < 0.05 * exact.max()
    np.testing.assert_array_equal(estimate, bb.leverage_scores(K, rank=20, n_iter=4, rng=seed))


@pytest.mark.parametrize("ridge", [1e-6, 1e-2, 1.0, 1e3])
def test_ridge_scores_are_the_diagonal_of_the_smoother(K, dense, ridge):
    scores = bb.leverage_scores(K, ridge=ridge)
    smoother = dense @ np.linalg.inv(dense + ridge * np.eye(160))
    np.testing.assert_allclose(scores, np.diagonal(smoother), rtol=1e-6)
    assert scores.min() > 0
    assert scores.max() < 1


def test_scores_of_any_operator_leave_it_alone(points):
    A = bb.factorize(points, bb.Gaussian(0.3), n_clusters=4, rank=5, rng=0)
    matrix = A.todense()
    before = matrix.copy()
    for settings in ({"rank": 7}, {"ridge": 0.1}):
        exact = bb.leverage_scores(matrix, **settings)
        for operator in (A, aslinearoperator(matrix)):
            np.testing.assert_allclose(bb.leverage_scores(operator, **settings), exact, atol=1e-10)
    np.testing.assert_array_equal(matrix, before)


def test_ridge_scores_of_an_indefinite_matrix():
    M = symmetric(np.linspace(-1, 1, 50))
    np.testing.assert_allclose(bb.leverage_scores(M, ridge=2.0), np.diagonal(M @ np.linalg.inv(M + 2 * np.eye(50))))
    with pytest.raises(ValueError, match="'ridge' parameter of leverage_scores must be large enough.*Got 0.5 instead"):
        bb.leverage_scores(M, ridge=0.5)


@pytest.mark.slow
def test_leverage_of_the_papers_table(abalone_of_the_tables):
    """l_r of the paper: the r-th largest score times n / r, for r = 100."""
    K = bb.ExactKernel(abalone_of_the_tables, bb.Gaussian(1.0))
    scores = np.sort(bb.leverage_scores(K, rank=100))
    assert round(scores[-100] * len(scores) / 100, 2) == 2.03


# --- arguments -------------------------------------------------------------------------------------------------------

MEASURES = {
    "spectral_norm": bb.spectral_norm,
    "stable_rank": bb.stable_rank,
    "numerical_rank": lambda A, **settings: bb.numerical_rank(A, **{"tol": 0.1, **settings}),
    "leverage_scores": lambda A, **settings: bb.leverage_scores(A, **({"rank": 3} | settings)),
}


@pytest.mark.parametrize("name", MEASURES)
def test_only_symmetric_operators(name):
    M = symmetric(np.linspace(0.1, 1, 30))
    MEASURES[name](M, rng=0)
    tilted = M.copy()
    tilted[3, 7] += 1e-4
    for bad, must in ((tilted, "symmetric"), (np.ones((3, 4)), "square"), ([[1.0]], "square"), (np.empty((0, 0)), "")):
        with pytest.raises(ValueError, match=f"'A' parameter of {name} must be .*{must}.* Got .* instead"):
            MEASURES[name](bad, rng=0)


@pytest.mark.parametrize("name", MEASURES)
def test_bad_seeds(name):
    with pytest.raises(TypeError, match=f"'rng' parameter of {name} must be"):
        MEASURES[name](np.eye(3), rng=0.5)


@pytest.mark.parametrize(
    ("name", "settings", "error", "parts"),
    [
        ("spectral_norm", {"tol": 0}, ValueError, ["'tol'", "between 0 and 1", "Got 0"]),
        ("spectral_norm", {"tol": "a"}, TypeError, ["'tol'", "Got 'a'"]),
        ("spectral_norm", {"max_iter": 0}, ValueError, ["'max_iter'", "at least 1", "Got 0"]),
        ("stable_rank", {"tol": 1}, ValueError, ["'tol'", "between 0 and 1", "Got 1"]),
        ("stable_rank", {"max_iter": 2.5}, TypeError, ["'max_iter'", "Got 2.5"]),
        ("numerical_rank", {"tol": 1.5}, ValueError, ["'tol'", "Got 1.5"]),
        ("numerical_rank", {"n_iter": 0}, ValueError, ["'n_iter'", "Got 0"]),
        ("leverage_scores", {"rank": 0}, ValueError, ["'rank'", "at least 1 and at most 5", "Got 0"]),
        ("leverage_scores", {"rank": 6}, ValueError, ["'rank'", "at most 5", "Got 6"]),
        ("leverage_scores", {"n_iter": -1}, ValueError, ["'n_iter'", "Got -1"]),
        ("leverage_scores", {"rank": None, "ridge": 0.0}, ValueError, ["'ridge'", "positive", "Got 0.0"]),
        ("leverage_scores", {"rank": None, "ridge": 1.0, "n_iter": 2}, ValueError, ["'n_iter'", "None", "Got 2"]),
    ],
)
def test_bad_arguments(name, settings, error, parts):
    with pytest.raises(error) as caught:
        MEASURES[name](np.eye(5), **settings)
    for part in [f"parameter of {name} must be", *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize(("settings", "got"), [({}, "neither"), ({"rank": 2, "ridge": 1.0}, "both")])
def test_leverage_takes_one_of_rank_and_ridge(settings, got):
    with pytest.raises(ValueError, match=f"one of the 'rank' and 'ridge' parameters of .* must be given. Got {got}"):
        bb.leverage_scores(np.eye(5), **settings)


# --- for dense matrices ----------------------------------------------------------------------------------------------


def test_a_matrix_of_few_entries_is_thinned_to_them(points):
    K = bb.ExactKernel(points, bb.Gaussian(0.02)).todense()
    thin = sparsified(K)
    assert sparse.issparse(thin)
    assert thin.nnz < np.count_nonzero(K)
    assert np.abs(thin.toarray() - K).sum(axis=1).max() <= np.finfo(np.float64).eps
    full = bb.Gaussian(1.0)(points)
    assert sparsified(full) is full


@pytest.mark.parametrize("h", [0.02, 0.3])
def test_lanczos_finds_the_largest_eigenvalues_of_thinned_matrices(points, h):
    K = bb.ExactKernel(points, bb.Gaussian(h)).todense()
    values, vectors = lanczos(sparsified(K), 12, tol=1e-10, rng=np.random.default_rng(0))
    assert values == pytest.approx(np.linalg.eigvalsh(K)[:-13:-1], rel=1e-9)
    assert np.abs(K @ vectors - vectors * values).max() < 1e-8


@pytest.mark.parametrize("of", [np.asarray, sparse.csr_array])
def test_lanczos_of_the_identity(of):
    values, vectors = lanczos(of(np.eye(30)), 5, tol=1e-10, rng=np.random.default_rng(0))
    assert values == pytest.approx(np.ones(5))
    assert vectors.T @ vectors == pytest.approx(np.eye(5))
