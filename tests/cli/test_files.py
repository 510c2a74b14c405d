from __future__ import annotations

import errno
import os
import sys

import numpy as np
import pytest

pytest.importorskip("typer")

from blockbasis.cli import files


def test_outputs_are_checked_before_the_work(tmp_path):
    (tmp_path / "a.csv").touch()
    files.check_output(None, force=False)
    files.check_output(tmp_path / "a.csv", force=True)
    files.check_output(tmp_path / "new.csv", force=False, endings=(".csv",))
    with pytest.raises(FileExistsError, match="exists. Give --force"):
        files.check_output(tmp_path / "a.csv", force=False)
    with pytest.raises(ValueError, match=r"must end in .csv or .parquet"):
        files.check_output(tmp_path / "a.txt", force=False, endings=files.TABLES)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        files.check_output(tmp_path, force=True)
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        files.check_output(tmp_path / "absent" / "a.csv", force=False)


def test_a_folder_without_permission(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match="Nothing can be written to"):
        files.check_output(tmp_path / "a.csv", force=False, option="--report")


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        files.write_array(tmp_path / "a.npy", np.ones(3))
    assert caught.value.filename == str(tmp_path / "a.npy")
    assert list(tmp_path.iterdir()) == []


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"blockbasis\[data\]"):
        files.write_table(tmp_path / "a.parquet", {"a": [1]})


def test_numbers_and_sizes_as_text(tmp_path):
    assert files.csv_text({"a": np.array([0.1]), "b": ['x "y"']}) == 'a,b\n0.1,"x ""y"""\n'
    (tmp_path / "f").write_bytes(b"12345")
    assert files.size_of(tmp_path / "f") == "5 B"
