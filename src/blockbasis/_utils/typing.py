"""Names for the array types that the signatures of the package use."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[Any]
IntArray: TypeAlias = npt.NDArray[np.intp]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Seed: TypeAlias = int | np.random.Generator | None
Index: TypeAlias = slice | IntArray
