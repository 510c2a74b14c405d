"""A short run of ``tools/fuzz``: that it finds nothing, and that it would."""

from __future__ import annotations

import os

import numpy as np
import pytest

import blockbasis as bb
from tests.repeating import first_of
from tools.fuzz.campaigns import run
from tools.fuzz.inputs import calling

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX processes")


def failures(suite, most, seconds=20.0):
    return [case for case in run(suite, 0, seconds, most) if case[1] is not None]


def test_corrupted_forged_and_hostile_files():
    cases = run("files", 0, 20.0, 200)
    assert [case for case in cases if case[1] is not None] == []
    assert {kind for kind, _ in cases} == {"corrupted", "forged", "hostile"}


def test_kills():
    assert failures("kills", 15) == []


def test_a_wrong_result_would_be_seen(monkeypatch):
    """The checks are not empty: an operator that lies about its error, or is loaded as another, is found."""
    monkeypatch.setattr(bb, "load", lambda path: bb.factorize(np.eye(2), bb.Gaussian(1.0), n_clusters=1, rank=1, rng=0))
    assert all(what == "another result" for kind, what in run("files", 0, 5.0, 5))
    assert calling(lambda: 1 / 0)[1].startswith("ZeroDivisionError")
    assert calling(lambda: np.float64(1e308) * 10)[1].startswith("stray warning")
    assert calling(lambda: "off by 1") == ("failed", "off by 1")
    assert calling(lambda: int("x")) == ("refused", None)
    assert calling(lambda: None) == ("right", None)


def test_public_calls_are_compared_with_dense_references():
    cases = run("inputs", 0, 60.0, 150)
    assert [case for case in cases if case[1] is not None] == []
    assert sum(kind == "right" for kind, _ in cases) >= 50


def test_wrong_entries_would_be_seen(monkeypatch):
    """A kernel that is off by 1e-8 is found by the calls that take its entries."""
    right = bb.Gaussian.__call__
    monkeypatch.setattr(bb.kernels.Kernel, "__call__", lambda kernel, X, Y=None: right(kernel, X, Y) * (1 + 1e-8))
    found = [what for _, what in run("inputs", 0, 60.0, 150) if what is not None]
    assert any("entries off by" in what for what in found)


@pytest.mark.parametrize("count", first_of([2, 3, 4]))  # the fourth has heavy tails: half a minute
def test_tolerances(count):
    assert failures("tolerances", count, 60.0) == []


def test_limits_of_memory():
    assert failures("limits", 2, 60.0) == []


def test_threads():
    """Time is left to the campaign itself: tests run beside each other."""
    found = [what for _, what in run("threads", 0, 60.0, 1) if what is not None]
    assert [what for what in found if "one after the other" not in what] == []
