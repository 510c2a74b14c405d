"""Cases that repeat a claim: the first one is in ``make test``, and all of them are in ``make test-all``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_of(cases: Iterable[Any], fast: int = 1) -> list[Any]:
    """Values for ``pytest.mark.parametrize``, of which all but the first ``fast`` are marked slow."""
    values = list(cases)
    return values[:fast] + [pytest.param(*_as_tuple(case), marks=pytest.mark.slow) for case in values[fast:]]


def _as_tuple(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
