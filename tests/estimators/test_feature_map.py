"""Roots of the inner matrix, of which features are made."""

from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.estimators._feature_map import leading_root, left_out, own_roots

SEEDS = range(3)


@pytest.fixture(scope="module")
def compressed():
    """1,500 points in three columns: at a bandwidth of 0.5 the kernel has a rank of more than a thousand."""
    X = np.random.default_rng(0).normal(size=(1500, 3))
    return bb.factorize(X, bb.Gaussian(0.5), n_clusters=8, rank=40, diagonal=False, rng=0)


@pytest.mark.parametrize("dense", [10, 1500])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_leading_root_leaves_is_semidefinite_and_next_to_the_least(compressed, seed, dense):
    C = compressed.inner.todense()
    W = leading_root(compressed.inner, 30, np.random.default_rng(seed), decomposed=dense)
    values = np.linalg.eigvalsh(C)
    assert W.shape == (len(C), 30)
    assert np.linalg.eigvalsh(C - W @ W.T).min() > -1e-10 * values[-1]
    least = np.sqrt(np.square(values[:-30]).sum())
    assert least * (1 - 1e-9) <= np.linalg.norm(C - W @ W.T) < 1.05 * least


@pytest.mark.parametrize("count", [5, 40])
def test_own_roots_complete_the_diagonal_blocks(compressed, count):
    inner, offsets = compressed.inner, compressed.basis.offsets
    W = leading_root(inner, 30, np.random.default_rng(0))
    own = own_roots(inner, W, count)
    rest = inner.todense() - W @ W.T
    assert left_out(inner, W, None) == pytest.approx(np.square(rest).sum())
    for i, root in enumerate(own):
        block = slice(offsets[i], offsets[i + 1])
        assert root.shape[1] <= count
        rest[block, block] -= root @ root.T
        if count == 40:
            np.testing.assert_allclose(rest[block, block], 0, atol=1e-9)
    assert left_out(inner, W, own) == pytest.approx(np.square(rest).sum())
