"""Dot test of the transpose of an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.validation import check_rng

if TYPE_CHECKING:
    from blockbasis._utils.typing import Seed


def dot_test(A: Any, *, rng: Seed = None) -> float:
    """Compute the dot test |<A u, v> - <u, Aᵀ v>| / (|A u| |v|) for random vectors u and v.

    Parameters
    ----------
    A : operator
        Operator with a ``shape`` and products ``A @ u`` and ``A.T @ v``.
    rng : int, Generator or None
        Draws the vectors.

    Returns
    -------
    float
        About the machine epsilon if ``A.T`` is the transpose of A; 0 if A u is zero.

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
