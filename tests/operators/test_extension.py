from __future__ import annotations

import numpy as np

import blockbasis as bb


def test_extensions_give_the_rows_of_the_bases_at_the_points_themselves(points):
    """u(x) = K(x, points) coefficients; ranks high enough that little is left out."""
    kernel = bb.Gaussian(1.0)
    A = bb.factorize(points, kernel, n_clusters=3, rank=30, rng=0)
    assert len(A.extensions) == 3
    for i, extension in enumerate(A.extensions):
        assert extension.coefficients.shape == (len(extension.points), A.ranks[i])
        own = points[A.partition.order[A.partition.cluster(i)]]
        u = kernel(own, extension.points) @ extension.coefficients
        held = A.inner.block(i, i)
        exact = A.bases[i] @ held @ A.bases[i].T
        assert np.linalg.norm(u @ held @ u.T - exact) < 1e-2 * np.linalg.norm(exact)
