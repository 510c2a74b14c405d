from __future__ import annotations

import numpy as np
import pytest

from blockbasis.construction.directions import leading_directions, power_iteration, rotated_directions


@pytest.mark.parametrize("shape", [(300, 400), (400, 300), (20, 500), (500, 20)])
@pytest.mark.parametrize("single", [False, True])
def test_leading_directions_are_the_singular_values(shape, single):
    """Values that fall by 0.6 each, one power iteration: (0.6 ** 10) ** 3 of the last; float32 tells about 1e-6."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        Q, P = (np.linalg.qr(rng.normal(size=(length, 20)))[0] for length in shape)
        B = (Q * 0.6 ** np.arange(20)) @ P.T
        found = leading_directions(B.astype(np.float32 if single else np.float64), 10, rng)
        values = np.linalg.svd(B, compute_uv=False)[:10]
        small = max(shape) // min(shape) > 2  # decomposed whole
        np.testing.assert_allclose(
            np.sqrt(found.energies[:6]), values[:6], rtol=1e-3 if not small else 1e-6 if single else 1e-10
        )
        assert found.vectors.dtype == found.right.dtype == np.float64
        precision = 1e-5 if single else 1e-12
        np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(10), atol=precision)
        np.testing.assert_allclose(B.T @ found.vectors, found.right, atol=precision)
        assert (np.diff(found.energies) <= 0).all()


def test_power_iterations_make_directions_better():
    rng = np.random.default_rng(0)
    B = rng.normal(size=(200, 300)) * 0.97 ** np.arange(300)
    exact = np.linalg.svd(B, compute_uv=False)[:10] ** 2
    first = leading_directions(B, 10, rng)
    second = rotated_directions(B, power_iteration(B, first.vectors), 10)
    assert first.energies.sum() < second.energies.sum() <= exact.sum() * (1 + 1e-12)
