from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb
from blockbasis import definite


@pytest.mark.parametrize("inner", ["sampled", "exact"])
def test_near_points_in_different_clusters_keep_their_entries(inner, relative, monkeypatch):
    """Triples of near points, each in a cluster of its own: only all clusters together know what C must hold."""
    rng = np.random.default_rng(0)
    places = 50 * np.arange(40)[:, np.newaxis] * np.ones(2)
    apart = 10 * (np.arange(40) >= 20)[:, np.newaxis]  # half of the points have no others near
    X = np.concatenate([places + i * apart + rng.normal(scale=0.6, size=places.shape) for i in range(3)])
    labels = np.repeat(np.arange(3), 40)
    K = bb.Gaussian(1.0)(X)

    def factorized(seed):
        A = bb.factorize(X, bb.Gaussian(1.0), rank=22, partition=labels, inner=inner, rng=seed)
        assert np.linalg.eigvalsh(A.todense())[0] >= -1e-10
        return relative(A, K)

    settled = [factorized(seed) for seed in range(3)]
    monkeypatch.setattr(definite, "_UPDATES", 0)
    cut_off = [factorized(seed) for seed in range(3)]
    assert max(settled) < 0.5 * min(cut_off)
