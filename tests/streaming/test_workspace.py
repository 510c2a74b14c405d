from __future__ import annotations

import errno
import os

import numpy as np
import pytest

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
