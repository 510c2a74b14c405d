"""Whether an operator and its transpose agree."""

from __future__ import annotations

from typing import Any

import numpy as np

from blockbasis._utils.typing import Seed
from blockbasis._utils.validation import check_rng


def dot_test(A: Any, *, rng: Seed = None) -> float:
    """How far A and its transpose disagree: |<A u, v> - <u, Aᵀ v>| / (|A u| |v|) for random u and v.

    Examples
    --------
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> bb.dot_test(np.arange(6.0).reshape(2, 3), rng=0) < 1e-14
    True
    """
    generator = check_rng(rng, name="rng", caller="dot_test")
    u, v = generator.standard_normal(A.shape[1]), generator.standard_normal(A.shape[0])
    image = A @ u
    scale = float(np.linalg.norm(image) * np.linalg.norm(v))
    return abs(float(image @ v) - float(u @ (A.T @ v))) / scale if scale else 0.0
