from __future__ import annotations

import dataclasses

import pytest

from blockbasis.operators.entries import Entries


def test_the_total_is_the_sum_of_the_parts():
    assert Entries(3, 4).total == 7
    assert Entries(3, 4, 5).total == 12


def test_entries_are_values_that_do_not_change():
    assert Entries(3, 4) == Entries(3, 4, 0) != Entries(4, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Entries(3, 4).bases = 5
