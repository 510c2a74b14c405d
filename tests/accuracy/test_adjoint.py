from __future__ import annotations

import numpy as np
import pytest

import blockbasis as bb


def test_dot_test_of_arrays():
    M = np.random.default_rng(0).normal(size=(8, 5))
    assert bb.dot_test(M, rng=0) < 1e-14
    assert bb.dot_test(np.zeros((8, 5)), rng=0) == 0


def test_dot_test_finds_a_wrong_transpose():
    M = np.random.default_rng(0).normal(size=(8, 5))

    class Wrong:
        shape = (8, 5)
        T = M.T + 1e-3

        def __matmul__(self, v):
            return M @ v

    assert bb.dot_test(Wrong(), rng=0) > 1e-6


def test_dot_test_refuses_a_bad_seed():
    with pytest.raises(TypeError, match="'rng' parameter of dot_test"):
        bb.dot_test(np.eye(2), rng=0.5)
