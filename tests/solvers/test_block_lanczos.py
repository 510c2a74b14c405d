from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import linalg

from blockbasis.solvers.block_lanczos import _BLOCK, _MAX_SPACE, extreme_eigenvalues

N = 300
#: ComponentSpectra that are easy, flat, in clusters, of one sign, of low rank, with ends of very different size.
SPECTRA = {
    "geometric": 0.7 ** np.arange(N),
    "both signs": np.linspace(-1, 1, N),
    "flat": 1 + 1e-3 * np.linspace(0, 1, N),
    "negative": -(0.9 ** np.arange(N)),
    "two values": np.where(np.arange(N) < 100, -2.0, 3.0),
    "one direction": np.eye(N)[0],
    "gap": np.concatenate(([-5.0, 8.0], np.linspace(-1, 1, N - 2))),
    "tiny": 1e-12 * np.linspace(-1, 2, N),
    "zero": np.zeros(N),
    "identity": np.ones(N),
}


def matrix(values, seed=0):
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))[0]
    M = (Q * values) @ Q.T
    return (M + M.T) / 2


def both_within(tol):
    return lambda values, bounds: bounds <= tol * np.abs(values).max()


def extremes(M, N=None, *, tol=1e-3, seed=0, max_iter=300, **more):
    N = np.eye(len(M)) if N is None else N
    return extreme_eigenvalues(
        lambda V: (M @ V, N @ V),
        len(M),
        converged=both_within(tol),
        max_iter=max_iter,
        rng=np.random.default_rng(seed),
        **more,
    )


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("seed", range(3))
def test_both_ends(name, seed):
    values = SPECTRA[name]
    found = extremes(matrix(values, seed), seed=seed)
    scale = np.abs(values).max()
    assert found.converged
    np.testing.assert_allclose(found.values, [values.min(), values.max()], atol=1e-3 * scale + 1e-15)
    # Rayleigh quotients lie inside the spectrum.
    assert found.values[0] >= values.min() - 1e-12 * scale
    assert found.values[1] <= values.max() + 1e-12 * scale


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("max_iter", [1, 3, 10])
def test_an_eigenvalue_lies_within_each_bound(name, max_iter):
    values = SPECTRA[name]
    found = extremes(matrix(values), tol=1e-13, max_iter=max_iter)
    assert found.iterations <= max_iter
    for value, bound in zip(found.values, found.bounds, strict=True):
        assert np.abs(values - value).min() <= bound + 1e-13 * np.abs(values).max()


def test_tight_tolerances_are_met():
    values = SPECTRA["both signs"]
    found = extremes(matrix(values), tol=1e-10)
    assert found.converged
    np.testing.assert_allclose(found.values, [-1, 1], rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 9, 20, 50])
def test_few_rows_are_exact(n):
    values = np.random.default_rng(n).standard_normal(n)
    found = extremes(matrix(values), tol=1e-15)
    assert found.converged
    np.testing.assert_allclose(found.values, [values.min(), values.max()], rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_pencil(seed):
    rng = np.random.default_rng(seed)
    M, N_ = matrix(rng.standard_normal(200), seed), matrix(rng.uniform(0.1, 3, 200), seed + 10)
    exact = linalg.eigh(M, N_, eigvals_only=True)
    found = extremes(M, N_, tol=1e-4, seed=seed, floor=0.1)
    assert found.converged
    np.testing.assert_allclose(found.values, exact[[0, -1]], rtol=1e-4)
    rough = extremes(M, N_, tol=1e-4, seed=seed, floor=0.1, max_iter=4)
    for value, bound in zip(rough.values, rough.bounds, strict=True):
        assert np.abs(exact - value).min() <= bound


def test_a_preconditioner_saves_products():
    rng = np.random.default_rng(0)
    N_ = matrix(np.geomspace(1e-3, 1e3, 200))
    root = linalg.sqrtm(N_)
    M = root @ matrix(rng.standard_normal(200), 1) @ root
    exact = linalg.eigh(M, N_, eigvals_only=True)[[0, -1]]
    factor = linalg.cho_factor(N_)
    plain = extremes(M, N_, floor=1e-3)
    helped = extremes(M, N_, floor=1e-3, precondition=lambda R: linalg.cho_solve(factor, R))
    assert helped.converged
    assert helped.iterations < plain.iterations / 2
    np.testing.assert_allclose(helped.values, exact, rtol=1e-4)


def test_products_are_narrow_and_the_space_is_bounded():
    n, seen = 3000, []
    values = 1 + 1e-3 * np.linspace(0, 1, n)

    def pencil(V):
        seen.append(V.shape[1])
        return values[:, np.newaxis] * V, V

    def never(values, bounds):
        return np.array([False, False])

    tracemalloc.start()
    try:
        found = extreme_eigenvalues(pencil, n, converged=never, max_iter=60, rng=np.random.default_rng(0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not found.converged
    assert len(seen) == found.iterations == 60
    assert max(seen) <= _BLOCK
    # The space and its two images, each twice while it is rebuilt: not all the blocks seen.
    assert peak < 2 * 3 * _MAX_SPACE * n * 8 < sum(seen) * n * 8


def test_work_goes_to_the_end_that_needs_it():
    """With the lower end converged from the start, the upper one needs fewer products."""
    M = matrix(SPECTRA["both signs"])

    def run(converged):
        return extreme_eigenvalues(
            lambda V: (M @ V, V), N, converged=converged, max_iter=200, rng=np.random.default_rng(0)
        ).iterations

    assert run(lambda values, bounds: np.array([True, bounds[1] < 1e-6])) < run(lambda values, bounds: bounds < 1e-6)


def test_the_seed_decides():
    M = matrix(SPECTRA["both signs"])
    first, same, other = (extremes(M, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.values, same.values)
    assert (first.values != other.values).any()


def test_an_indefinite_right_side_is_refused():
    with pytest.raises(np.linalg.LinAlgError):
        extremes(matrix(SPECTRA["geometric"]), matrix(SPECTRA["both signs"]))
