"""Generators of the synthetic data of the paper.

The paper describes its two-dimensional and ten-dimensional examples in section 2.3 without all numbers. The docstrings
state which defaults are choices of this package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.validation import check_integer, check_positive, check_rng

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray, Seed

#: Fractions of the points in the two inner clusters, and in the small clusters on the boundary.
_INNER_SHARES = (0.2, 0.1)
_SMALL_SHARE = 1 / 3
#: Distance of the inner clusters from the origin, relative to the distance at which they touch the unit sphere.
_OFFSET = 0.7
#: Width of a grid cell in standard deviations of its cluster: neighbouring clusters hardly overlap.
_DEVIATIONS_PER_CELL = 8


def unit_cube_mixture(n: int, d: int, *, n_centers: int = 10, spread: float = 0.1, rng: Seed = None) -> FloatArray:
    """Mixture of normal distributions with centres drawn uniformly in the unit cube (the paper's section 4.2.4).

    Parameters
    ----------
    n : int
        Number of points; the centre of each point is random.
    d : int
        Dimension.
    n_centers : int, default=10
        Number of centres.
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


def alternating_clusters(
    n: int, n_clusters: int = 4, *, spread: float | None = None, rng: Seed = None
) -> tuple[FloatArray, IntArray]:
    """Normal clusters on a grid in the unit square, with two labels that alternate as on a chessboard.

    More clusters are smaller, and the decision boundary has a smaller radius of curvature. The paper has 4, 20 and 100
    clusters in section 2.3.

    Parameters
    ----------
    n : int
        Number of points, distributed evenly among the clusters.
    n_clusters : int, default=4
        Number of clusters. The grid is the most nearly square one with this number of cells: 2 x 2, 4 x 5, 10 x 10.
    spread : float, default=None
        Standard deviation of each cluster along each dimension. None selects an eighth of the shorter side of a cell,
        so that neighbouring clusters hardly overlap; the paper does not give it.
    rng : int, Generator or None

    Returns
    -------
    X : ndarray of shape (n, 2)
    y : ndarray of shape (n,)
        0 or 1.

    Examples
    --------
    >>> from blockbasis.datasets import alternating_clusters
    >>> X, y = alternating_clusters(1000, 100, rng=0)
    >>> X.shape, y.sum()
    ((1000, 2), np.int64(500))
    """
    caller = "alternating_clusters"
    n = check_integer(n, name="n", caller=caller, low=1)
    n_clusters = check_integer(n_clusters, name="n_clusters", caller=caller, low=1)
    rows = max(m for m in range(1, math.isqrt(n_clusters) + 1) if n_clusters % m == 0)
    columns = n_clusters // rows
    if spread is None:
        spread = 1 / (_DEVIATIONS_PER_CELL * columns)
    spread = check_positive(spread, name="spread", caller=caller)
    generator = check_rng(rng, name="rng", caller=caller)
    row, column = np.divmod(generator.permutation(np.arange(n) % n_clusters), columns)
    centers = np.column_stack(((column + 0.5) / columns, (row + 0.5) / rows))
    return centers + spread * generator.standard_normal((n, 2)), (row + column) % 2


def circles_in_circle(
    n: int, *, radii: tuple[float, float] = (0.5, 0.25), gap: float = 0.05, rng: Seed = None
) -> tuple[FloatArray, IntArray]:
    """Two discs of different radii inside the unit disc, and the rest of the unit disc, with three labels.

    The best bandwidth of the smaller disc is smaller (the paper's section 2.3).

    Parameters
    ----------
    n : int
        Number of points: 70% outside of the discs, 20% in the first disc and 10% in the second.
    radii : tuple of two floats, default=(0.5, 0.25)
        Radii of the inner discs. The paper does not give them.
    gap : float, default=0.05
        Width of the empty ring around each inner disc.
    rng : int, Generator or None

    Returns
    -------
    X : ndarray of shape (n, 2)
    y : ndarray of shape (n,)
        0 outside of the discs, 1 in the first disc, 2 in the second.

    See Also
    --------
    nested_clusters : Balls in higher dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from blockbasis.datasets import circles_in_circle
    >>> X, y = circles_in_circle(1000, rng=0)
    >>> np.bincount(y)
    array([700, 200, 100])
    """
    return _nested(n, 2, radii, gap, rng, "circles_in_circle")


def nested_clusters(
    n: int, d: int = 10, *, radii: tuple[float, float] = (0.5, 0.25), gap: float = 0.05, rng: Seed = None
) -> tuple[FloatArray, IntArray]:
    """Two balls of different radii inside the unit ball, and the rest of the unit ball, with three labels.

    The paper has them in dimension 10 (section 2.3).

    Parameters
    ----------
    n : int
        Number of points: 70% outside of the balls, 20% in the first ball and 10% in the second, uniform in each set.
    d : int, default=10
        Dimension.
    radii : tuple of two floats, default=(0.5, 0.25)
        Radii of the inner balls. The paper does not give them.
    gap : float, default=0.05
        Width of the empty shell around each inner ball.
    rng : int, Generator or None

    Returns
    -------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        0 outside of the balls, 1 in the first ball, 2 in the second.

    See Also
    --------
    circles_in_circle : Discs in the plane.

    Examples
    --------
    >>> from blockbasis.datasets import nested_clusters
    >>> X, y = nested_clusters(1000, rng=0)
    >>> X.shape
    (1000, 10)
    """
    return _nested(n, d, radii, gap, rng, "nested_clusters")


def _nested(n: int, d: int, radii: Any, gap: float, rng: Seed, caller: str) -> tuple[FloatArray, IntArray]:
    n = check_integer(n, name="n", caller=caller, low=1)
    d = check_integer(d, name="d", caller=caller, low=1)
    gap = check_positive(gap, name="gap", caller=caller)
    radii = _check_radii(radii, gap, caller)
    generator = check_rng(rng, name="rng", caller=caller)
    centers = np.zeros((2, d))
    centers[:, 0] = _offsets(radii)
    inside = [int(share * n) for share in _INNER_SHARES]
    clusters = [_surrounding(n - sum(inside), centers, radii + gap, generator)]
    clusters += [
        center + radius * _in_ball(m, d, generator) for center, radius, m in zip(centers, radii, inside, strict=True)
    ]
    return _shuffled(clusters, generator)


def _offsets(radii: FloatArray) -> FloatArray:
    """Return the first coordinates of the centres of the inner balls, one on either side of the origin."""
    return np.asarray(np.array([-1.0, 1.0]) * _OFFSET * (1 - radii))


def _check_radii(radii: Any, gap: float, caller: str) -> FloatArray:
    must = f"two positive radii of balls that fit into the unit ball with a gap of {gap:g}"
    message = f"The 'radii' parameter of {caller} must be {must}. Got {radii!r} instead."
    if isinstance(radii, str) or not isinstance(radii, (Sequence, np.ndarray)) or len(radii) != 2:
        raise TypeError(message)
    first, second = (check_positive(radius, name="radii", caller=caller) for radius in radii)
    found = np.array([first, second])
    left, right = _offsets(found)
    if max(abs(left) + first, abs(right) + second) + gap > 1 or right - left < first + second + gap:
        raise ValueError(message)
    return found


def _surrounding(n: int, centers: FloatArray, radii: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Sample uniform points of the unit ball outside of the given balls, by rejection."""
    found = np.empty((0, centers.shape[1]))
    while len(found) < n:
        drawn = _in_ball(n, centers.shape[1], rng)
        away = [np.linalg.norm(drawn - c, axis=1) > r for c, r in zip(centers, radii, strict=True)]
        found = np.concatenate((found, drawn[np.all(away, axis=0)]))
    return found[:n]


def _in_ball(n: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Sample uniform points of the unit ball: a uniform direction, and a radius whose d-th power is uniform."""
    directions = rng.standard_normal((n, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions * rng.uniform(size=(n, 1)) ** (1 / d))


def overlapping_clusters(
    n: int, n_clusters: int = 8, *, radius: float = 0.2, rng: Seed = None
) -> tuple[FloatArray, IntArray]:
    """Small discs centred on the boundary of the unit disc, with another label than the unit disc.

    About half of each small disc overlaps the unit disc. The decision boundary curves around each small disc, but no
    bandwidth separates the overlapping parts (the paper's section 2.3, with radius 0.2).

    Parameters
    ----------
    n : int
        Number of points: a third in the small discs, distributed evenly, the others in the unit disc; uniform in each.
    n_clusters : int, default=8
        Number of small discs, at equal angles. The paper does not give it.
    radius : float, default=0.2
        Radius of the small discs.
    rng : int, Generator or None

    Returns
    -------
    X : ndarray of shape (n, 2)
    y : ndarray of shape (n,)
        0 for the unit disc, 1 for the small discs.

    Examples
    --------
    >>> from blockbasis.datasets import overlapping_clusters
    >>> X, y = overlapping_clusters(900, rng=0)
    >>> X.shape, y.sum()
    ((900, 2), np.int64(300))
    """
    caller = "overlapping_clusters"
    n = check_integer(n, name="n", caller=caller, low=1)
    n_clusters = check_integer(n_clusters, name="n_clusters", caller=caller, low=1)
    radius = check_positive(radius, name="radius", caller=caller)
    generator = check_rng(rng, name="rng", caller=caller)
    small = round(_SMALL_SHARE * n)
    angles = 2 * np.pi * (np.arange(small) % n_clusters) / n_clusters
    centers = np.column_stack((np.cos(angles), np.sin(angles)))
    return _shuffled([_in_ball(n - small, 2, generator), centers + radius * _in_ball(small, 2, generator)], generator)


def _shuffled(clusters: Sequence[FloatArray], rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Return the points of all clusters in random order, and the index of the cluster of each point."""
    labels = np.repeat(np.arange(len(clusters)), [len(cluster) for cluster in clusters])
    order = rng.permutation(len(labels))
    return np.concatenate(clusters)[order], labels[order]
