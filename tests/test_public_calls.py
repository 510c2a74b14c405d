"""The calls of tools/public_calls, with which `make test-oldest` and `make test-newest` begin."""

from __future__ import annotations

import pytest

from tools import public_calls


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", public_calls.CALLS)
def test_a_public_call_has_a_finite_result(name):
    assert public_calls.outcome(public_calls.CALLS[name]) is None


def test_a_call_that_fails_is_described():
    assert public_calls.outcome(lambda: 1 / 0) == "ZeroDivisionError: division by zero"
    assert public_calls.outcome(lambda: float("nan")) == "not finite"
