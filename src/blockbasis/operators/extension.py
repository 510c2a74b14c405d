"""How a cluster's basis continues to new points."""

from __future__ import annotations

from dataclasses import dataclass

from blockbasis._utils.typing import FloatArray


@dataclass(frozen=True)
class Extension:
    """How a cluster's basis continues to new points: u(x) = K(x, points) coefficients.

    Parameters
    ----------
    points : ndarray of shape (m, d)
        In the coordinates of the kernel.
    coefficients : ndarray of shape (m, r)
    """

    points: FloatArray
    coefficients: FloatArray
