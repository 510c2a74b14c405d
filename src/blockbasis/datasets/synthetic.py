"""Generators of the paper's synthetic points."""

from __future__ import annotations

from blockbasis._typing import FloatArray, Seed
from blockbasis._validation import check_integer, check_positive, check_rng


def unit_cube_mixture(n: int, d: int, *, n_centers: int = 10, spread: float = 0.1, rng: Seed = None) -> FloatArray:
    """Normal clouds around centres drawn uniformly in the unit cube (the paper's section 4.2.4).

    Parameters
    ----------
    n : int
        Points, shared among the centres at random.
    d : int
        Dimension.
    n_centers : int, default=10
    spread : float, default=0.1
        Standard deviation along each dimension.
    rng : int, Generator or None

    Returns
    -------
    ndarray of shape (n, d)

    Examples
    --------
    >>> from blockbasis.datasets import unit_cube_mixture
    >>> unit_cube_mixture(1000, 5, rng=0).shape
    (1000, 5)
    """
    caller = "unit_cube_mixture"
    n = check_integer(n, name="n", caller=caller, low=1)
    d = check_integer(d, name="d", caller=caller, low=1)
    n_centers = check_integer(n_centers, name="n_centers", caller=caller, low=1)
    spread = check_positive(spread, name="spread", caller=caller)
    generator = check_rng(rng, name="rng", caller=caller)
    centers = generator.uniform(size=(n_centers, d))
    return centers[generator.integers(n_centers, size=n)] + spread * generator.standard_normal((n, d))
