"""Bytes of values that workers hold, which dask reads to place tasks where their data are."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from dask.sizeof import sizeof

from blockbasis.distributed.parts import Part
from blockbasis.estimators._ridge_sums import RidgeSums
from blockbasis.streaming.functions import BasisFunctions


def n_bytes(value: Any) -> int:
    """Return the bytes of the arrays of a dataclass, a tuple or an array.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.distributed.sizes import n_bytes
    >>> n_bytes((np.zeros(3), [np.zeros((2, 2), dtype=np.float32)]))
    40
    """
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, (tuple, list)):
        return sum(map(n_bytes, value))
    if is_dataclass(value):
        return sum(n_bytes(getattr(value, field.name)) for field in fields(value))
    return 0


def register() -> None:
    """Tell dask how to find the bytes of our data."""
    for kind in (BasisFunctions, Part, RidgeSums):
        sizeof.register(kind)(n_bytes)
