from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from blockbasis.datasets import DatasetError, cache_directory
from blockbasis.datasets import cache as module
from blockbasis.datasets.cache import data_digest, read_arrays, reason, write_arrays

X = np.array([[1.0, 2.5], [3.0, -4.0], [0.0, 1e9]])
y = np.array([1, 2, 3])


# --- where -----------------------------------------------------------------------------------------------------------


def test_the_environment_names_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("BLOCKBASIS_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path


@pytest.mark.parametrize(
    ("platform", "variables", "place"),
    [
        ("linux", {}, "home/.cache/blockbasis"),
        ("linux", {"XDG_CACHE_HOME": "/somewhere"}, "/somewhere/blockbasis"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "home/.cache/blockbasis"),
        ("darwin", {"XDG_CACHE_HOME": "/somewhere"}, "home/Library/Caches/blockbasis"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/blockbasis/Cache"),
        ("win32", {}, "home/AppData/Local/blockbasis/Cache"),
    ],
)
def test_the_platform_names_the_cache(monkeypatch, tmp_path, platform, variables, place):
    for name in ("BLOCKBASIS_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(module.sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert cache_directory() == tmp_path / place


# --- digest ----------------------------------------------------------------------------------------------------------


def test_the_digest_is_of_values_not_of_types():
    whole = np.array([[1, 2], [3, 4]])
    known = data_digest(whole, y[:2])
    for dtype in (np.uint8, np.int16, np.float32, np.float64, ">f8"):
        assert data_digest(whole.astype(dtype), y[:2].astype(dtype)) == known
    assert data_digest(np.asfortranarray(whole), y[:2]) == known
    assert data_digest(np.array([[-0.0]]), y[:1]) == data_digest(np.array([[0.0]]), y[:1])


def test_the_digest_sees_every_change():
    changed = X.copy()
    changed[2, 1] = np.nextafter(changed[2, 1], 0)
    others = [(changed, y), (X[::-1], y), (X[:, ::-1], y), (X, y[::-1]), (X.reshape(2, 3), y), (X[:2], y[:2])]
    assert len({data_digest(*pair) for pair in [(X, y), *others]}) == 7


def test_the_digest_is_the_same_in_pieces():
    assert data_digest(X, y, chunk=2) == data_digest(X, y)


# --- files -----------------------------------------------------------------------------------------------------------


def test_written_arrays_come_back(tmp_path):
    path = tmp_path / "new" / "folder" / "a.npz"
    write_arrays(path, X, y)
    read_X, read_y = read_arrays(path)
    np.testing.assert_array_equal(read_X, X)
    np.testing.assert_array_equal(read_y, y)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([-32768.0, 32767.0], np.int16), ([0.0, 32768.0], np.float64), ([0.0, 0.5], np.float64)],
)
def test_whole_numbers_are_short_where_they_fit(tmp_path, values, dtype):
    path = tmp_path / "a.npz"
    write_arrays(path, np.array([values]), np.array([1]))
    found, _ = read_arrays(path)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, [values])


@pytest.mark.parametrize("keep", [0, 10, 200, -1])
def test_truncated_files_are_refused(tmp_path, keep):
    path = tmp_path / "a.npz"
    write_arrays(path, X, y)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DatasetError, match=r"a.npz is not a complete npz file with arrays X and y"):
        read_arrays(path)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    write_arrays(path, X, y)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(DatasetError):
            np.testing.assert_array_equal(read_arrays(path)[0], X)  # the byte says nothing of the arrays


def test_a_reason_ends_once():
    assert reason(ValueError("so it is.")) == reason(ValueError("so it is")) == "so it is."
    assert reason(EOFError()) == "EOFError."


@pytest.mark.parametrize(
    "arrays",
    [
        {"X": X},
        {"X": X, "y": np.array([object()] * 3)},
        {"X": X[0], "y": y},
        {"X": X, "y": y[:2]},
        {"X": X.astype(str), "y": y},
    ],
)
def test_other_arrays_are_refused(tmp_path, arrays):
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    with pytest.raises(DatasetError, match=r"a.npz (is not a complete npz file|must hold X)"):
        read_arrays(path)
