from __future__ import annotations

import errno
import os

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.streaming import workspace
from blockbasis.streaming.workspace import release, workspace_array


def test_an_array_in_a_directory_leaves_no_file(tmp_path):
    array = workspace_array(tmp_path, 1000, np.float64)
    array[...] = np.arange(1000)
    release(array[10:20])
    np.testing.assert_array_equal(array, np.arange(1000))
    assert list(tmp_path.iterdir()) == []


def test_without_a_directory_the_array_is_in_memory():
    array = workspace_array(None, 10, np.float32)
    release(array)
    assert array.shape == (10,) and array.dtype == np.float32 and not isinstance(array, np.memmap)


def test_a_full_disk_is_named_before_anything_is_written(tmp_path, monkeypatch):
    def full(descriptor, n_bytes):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(workspace, "_reserve", full)
    with pytest.raises(OSError, match="has no room for 8 GB: give another directory") as failure:
        workspace_array(tmp_path, 10**9, np.float64)
    assert failure.value.errno == errno.ENOSPC and list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'workspace' parameter of factorize must be an existing directory"):
        workspace_array(tmp_path / "missing", 1, np.float64)


@pytest.mark.parametrize("goal", [{"rank": 10, "n_clusters": 4}, {"tol": 1e-2}, {"plan": True}])
def test_points_in_memory_have_their_basis_in_the_directory(goal, tmp_path):
    X, kernel = np.random.default_rng(0).normal(size=(1500, 2)), bb.Gaussian(1.0) + bb.White(0.1)
    if "plan" in goal:
        goal = {"plan": bb.plan(X, kernel, tol=1e-2, rng=0)}
    expected = bb.factorize(X, kernel, rng=0, **goal)
    A = bb.factorize(X, kernel, rng=0, workspace=tmp_path, **goal)
    assert isinstance(A.basis.values, np.memmap) and not isinstance(expected.basis.values, np.memmap)
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(A @ X, expected @ X)
    with pytest.raises(ValueError, match="read-only"):
        A.basis.values[0] = 0


def test_a_missing_directory_is_refused_before_points_in_memory_are_read(tmp_path):
    with pytest.raises(ValueError, match="'workspace' parameter of factorize must be an existing directory"):
        bb.factorize(None, None, workspace=tmp_path / "missing")
