from __future__ import annotations

import numpy as np

import blockbasis as bb
from blockbasis.estimators._continuation import continued, surroundings
from blockbasis.estimators._posterior import Posterior


def test_no_point_explains_more_than_its_own_variance(regression):
    """The extension of some bases gives new points more than k(x, x); their coordinates are then shortened."""
    X, y, X_new = regression
    far = 1.5 * X_new
    for seed in range(3):
        A = bb.factorize(X, bb.Gaussian(2.0), n_clusters=30, rank=10, diagonal=False, rng=seed)
        parts, offsets = A.partition.regroup(far), A.basis.offsets
        rows = np.zeros((len(far), A.inner.shape[0]))
        for i in np.flatnonzero(parts.sizes):
            at, extension = parts.order[parts.cluster(i)], A.extensions[i]
            rows[at, offsets[i] : offsets[i + 1]] = A.kernel.block(far[at], extension.points) @ extension.coefficients
        held = np.einsum("ij,ij->i", rows @ A.inner.todense(), rows)
        allowed = max(1.0, A.diagonal().max())
        assert held.max() > 1.01 * allowed

        system = bb.RidgeSystem(A, 0.1)
        mean = continued(A, X, system.solve(y)[:, np.newaxis], surroundings(A, X, np.random.default_rng(0), 1), 1)
        posterior = Posterior.given(system, mean)
        features = np.zeros_like(rows)
        for i, block in enumerate(posterior._blocks()):
            at = np.flatnonzero(parts.labels == i)
            if len(at):
                features[at, block] = posterior._coordinates(far[at], i)
        shortened = np.einsum("ij,ij->i", features @ A.inner.todense(), features)
        assert shortened.max() <= allowed * (1 + 1e-9)
        np.testing.assert_allclose(shortened[held <= 1], held[held <= 1], rtol=1e-9)
        variances = posterior.variance(far, 1)
        assert (variances >= 0).all() and (variances <= 1).all()
