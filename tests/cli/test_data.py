from __future__ import annotations

import json

import pytest

pytest.importorskip("typer")

from blockbasis import datasets
from blockbasis.datasets import DatasetError


def test_data_sets_are_listed_with_where_they_are(call, tmp_path, monkeypatch):
    monkeypatch.setenv("BLOCKBASIS_DATA", str(tmp_path))
    monkeypatch.setenv("BLOCKBASIS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "abalone.npz").touch()
    code, text = call("data")
    assert code == 0
    assert "abalone 4177 x 8 regression yes" in text
    assert "pendigits 10992 x 16 classification no" in text
    assert "otto 61878 x 93 classification bring it" in text
    assert str(tmp_path / "cache") in text
    found = {each["name"]: each for each in json.loads(call("data", "--json")[1])["data_sets"]}
    assert found["abalone"]["path"] == str(tmp_path / "abalone.npz")
    assert (found["otto"]["path"], found["otto"]["shape"]) == (None, [61878, 93])


def test_what_is_fetched_is_said_before_it_comes(call, tmp_path, monkeypatch):
    def absent(name, standardize):
        raise DatasetError("no network.")

    monkeypatch.setenv("BLOCKBASIS_DATA", str(tmp_path))
    monkeypatch.setenv("BLOCKBASIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets, "load", absent)
    code, text = call("data", "abalone")
    assert code == 1
    assert text.startswith("Fetching abalone: https://archive.ics.uci.edu")
    assert text.endswith("Error: no network.")


def test_a_data_set_that_cannot_be_had(call, monkeypatch):
    def absent(name, standardize):
        raise DatasetError("otto has to be brought.")

    monkeypatch.setattr(datasets, "load", absent)
    code, text = call("data", "otto")
    assert (code, text) == (1, "Error: otto has to be brought.")
    assert "Did you mean abalone" in call("data", "abalon")[1]
    assert "There are: abalone" in call("data", "nonsense")[1]
