from __future__ import annotations

import pytest

import blockbasis as bb


@pytest.mark.parametrize("name", ["PerformanceWarning", "AccuracyWarning"])
def test_warnings_of_the_package_can_be_filtered_as_a_users(name):
    assert issubclass(getattr(bb, name), UserWarning)
    assert getattr(bb, name).__module__ == "blockbasis.exceptions"


def test_one_warning_is_not_the_other():
    assert not issubclass(bb.PerformanceWarning, bb.AccuracyWarning)
    assert not issubclass(bb.AccuracyWarning, bb.PerformanceWarning)
