"""Extension of a cluster's basis to new points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray


@dataclass(frozen=True)
class Extension:
    """Nyström extension u(x) = K(x, points) coefficients of the basis of a cluster to a new point x.

    Parameters
    ----------
    points : ndarray of shape (m, d)
        Landmarks, in the coordinates of the kernel.
    coefficients : ndarray of shape (m, r)
        Coefficients of the r basis vectors.
    """

    points: FloatArray
    coefficients: FloatArray
