"""Solutions with a block-sparse C against dense references: several components, and one with a narrow envelope."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import blockbasis as bb
from blockbasis._utils import machine
from blockbasis.operators import BlockBasis, BlockDiagonal, Entries, InnerMatrix
from blockbasis.partition import from_labels
from blockbasis.solvers import components, skyline
from blockbasis.solvers.shifted import CholeskyFactorization, SpectralFactorization
from blockbasis.solvers.skyline import SkylineFactorization
from tests.repeating import first_of

#: Pairs of clusters (i < j) whose block is kept.
GRAPHS = {
    "components": [(0, 3), (3, 7), (1, 2), (1, 9), (2, 9), (4, 11), (5, 6)],
    "band": [(i, i + 1) for i in range(11)] + [(i, i + 2) for i in range(10)],
    "shuffled band": [tuple(sorted(((5 * i) % 12, (5 * i + 5) % 12))) for i in range(11)],
    "band and others": [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10), (10, 11), (1, 3)],
    "star": [(0, j) for j in range(1, 12)],
    "diagonal": [],
    "dense": [(i, j) for i in range(12) for j in range(i + 1, 12)],
}


def sparse(name, *, diagonal=True, dtype=np.float64, shift=0.0, seed=0):
    """A factorization of 240 points, 12 clusters of unequal ranks, whose C has the blocks of a graph."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(240, 2))
    partition = from_labels(X, rng.integers(12, size=240))
    ranks = rng.integers(1, 8, size=12)
    blocks = [np.linalg.qr(rng.normal(size=(n, r)))[0] for n, r in zip(partition.sizes, ranks, strict=True)]
    offsets = np.concatenate(([0], np.cumsum(ranks)))
    kept = tuple(np.array([i, *sorted(j for a, j in GRAPHS[name] if a == i)]) for i in range(12))
    panels = []
    for i, columns in enumerate(kept):
        own = rng.normal(size=(ranks[i], ranks[i]))
        own = own @ own.T + (30.0 - shift) * np.eye(ranks[i])
        panels.append(np.concatenate([own, *(rng.normal(size=(ranks[i], ranks[j])) for j in columns[1:])], axis=1))
    C = InnerMatrix.of_whole_blocks(offsets, offsets, kept, panels, symmetric=True).astype(dtype)
    D = rng.uniform(0.1, 2, size=240).astype(dtype) if diagonal else None
    return BlockBasis(None, BlockDiagonal.from_blocks(partition, blocks, dtype), C, D, (), Entries(0, 0))


@pytest.fixture
def always_skyline(monkeypatch):
    """Envelopes of narrow steps for the smallest matrices too."""
    monkeypatch.setattr(skyline, "_DENSE_COLUMNS", 0)
    monkeypatch.setattr(skyline, "_DENSE_WORK", np.inf)
    monkeypatch.setattr(skyline, "_STEP", 4)


@pytest.fixture(params=["by default", "envelopes"])
def way(request):
    if request.param == "envelopes":
        request.getfixturevalue("always_skyline")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("settings", first_of([{}, {"diagonal": False}, {"dtype": np.float32}], fast=2), ids=str)
@pytest.mark.parametrize("name", GRAPHS)
def test_everything_is_the_dense_systems(name, settings, of, rng):
    A = sparse(name, **settings)
    assert np.linalg.eigvalsh(A.inner.todense()).min() > 1
    M = of["dense"](A) + 0.3 * np.eye(240)
    B = rng.standard_normal((240, 3))
    for system in (bb.RidgeSystem(A, 0.3), bb.RidgeSystem(A, 7.0).with_ridge(0.3)):
        np.testing.assert_allclose(system.solve(B), np.linalg.solve(M, B), rtol=1e-9, atol=1e-10)
        assert system.logdet() == pytest.approx(np.linalg.slogdet(M)[1], rel=1e-11)
        np.testing.assert_allclose(system.inverse_diagonal(), np.diagonal(np.linalg.inv(M)), rtol=1e-9)
        UC = A.basis.expand(A.inner.todense().astype(np.float64))
        np.testing.assert_allclose(system.explained(), UC.T @ np.linalg.solve(M, UC), atol=1e-8)


def test_each_component_is_factored_by_itself():
    small = bb.RidgeSystem(sparse("components"), 0.1)._inverse.inner_factorization
    assert [part.clusters.tolist() for part in small.components] == [[0, 3, 7], [1, 2, 9], [4, 11], [5, 6], [8], [10]]
    assert all(isinstance(form, CholeskyFactorization) for form in small.factorizations)
    assert sum(part.inner.stored for part in small.components) == sparse("components").inner.stored


@pytest.mark.usefixtures("always_skyline")
def test_an_envelope_follows_the_order_of_the_graph():
    """A band whose clusters are shuffled is a band again."""
    (part,) = components.components(sparse("shuffled band").inner)
    shape = skyline.envelope(part.inner)
    assert (np.arange(len(shape.first)) - shape.first <= 2).all()
    np.testing.assert_array_equal(np.sort(shape.columns), np.arange(part.inner.shape[0]))
    (form,) = bb.RidgeSystem(sparse("shuffled band"), 0.1)._inverse.inner_factorization.factorizations
    assert isinstance(form, SkylineFactorization)


def test_a_large_sparse_component_takes_its_envelope():
    """800 columns in a band: much less work than R³."""
    offsets = 20 * np.arange(41)
    kept = tuple(np.arange(i, min(i + 2, 40)) for i in range(40))
    rng = np.random.default_rng(0)
    panels = [np.concatenate((30 * np.eye(20), rng.normal(size=(20, 20))), axis=1)[:, : 20 * len(own)] for own in kept]
    C = InnerMatrix.of_whole_blocks(offsets, offsets, kept, panels, symmetric=True)
    identities = tuple(np.eye(20) for _ in range(40))
    (form,) = components.factorize_shifted(C, identities).factorizations
    assert isinstance(form, SkylineFactorization)
    assert form.envelope.is_faster_than_dense
    M, W = np.eye(800) + C.todense(), rng.normal(size=(800, 2))
    np.testing.assert_allclose(form.solve(W), np.linalg.solve(M, W), atol=1e-10)
    inverse = np.linalg.inv(M)
    blocks = components.rank_slices(np.full(40, 20))
    for block, found in zip(blocks, form.inverse_blocks(blocks), strict=True):
        np.testing.assert_allclose(found, inverse[block, block], atol=1e-12)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ["components", "band"])
def test_an_indefinite_c_is_refused_or_solved_by_its_eigenvalues(name, of, rng):
    A = replace(sparse(name, shift=35.0), diagonal_part=None)
    lowest = np.linalg.eigvalsh(A.inner.todense()).min()
    assert lowest < -1
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite: A has eigenvalues down to"):
        bb.RidgeSystem(A, 0.9 * -lowest)
    ridge = 1.1 * -lowest
    b = rng.standard_normal(240)
    expected = np.linalg.solve(of["dense"](A) + ridge * np.eye(240), b)
    np.testing.assert_allclose(bb.RidgeSystem(A, ridge).solve(b), expected, rtol=1e-7, atol=1e-8)


def test_ridges_share_the_eigenpairs_of_each_component():
    first = bb.RidgeSystem(sparse("components", diagonal=False), 1.0)
    one, other = (first.with_ridge(ridge)._inverse.inner_factorization.factorizations for ridge in (2.0, 3.0))
    assert all(isinstance(form, SpectralFactorization) for form in (*one, *other))
    assert all(a.vectors is b.vectors for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("part", ["factorization", "spectra"])
def test_dense_matrices_that_do_not_fit_are_refused(part, monkeypatch):
    inner = bb.factorize(
        np.random.default_rng(0).normal(size=(2_000, 3)), bb.Gaussian(1.0), n_clusters=10, rank=60, rng=0
    ).inner
    triangles = tuple(np.eye(60) for _ in range(10))
    monkeypatch.setattr(machine, "available_memory", lambda: 5 * 10**6)
    with pytest.raises(MemoryError, match=r"This solve would take about 5.76 MB, .* a larger tol or smaller ranks"):
        components.factorize_shifted(inner, triangles) if part == "factorization" else components.spectra(
            inner, triangles
        )
    monkeypatch.setattr(machine, "available_memory", lambda: 6 * 10**6)
    assert components.spectra(inner, triangles).pairs[0][0].shape == (600,)
