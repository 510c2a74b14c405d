"""Ranks that compete for memory: one price for a float, one rank per cluster.

One more column in cluster i costs n_i + R floats and removes its next squared singular value of error. At a given price
every cluster takes the columns that are worth it; the price is then set so that a tolerance or a budget is met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from blockbasis._typing import FloatArray, IntArray
from blockbasis.settling import Spectrum

#: Prices are searched over this range of their logarithm, and to this step.
_PRICE_RANGE = 80.0
_PRICE_STEP = 0.01
_JUST_ABOVE = math.exp(2 * _PRICE_STEP)
_FIXED_POINT_STEPS = 20

#: What is built over the planned ranks, so that the check can choose.
_OVERBUILD = 1.25
_OVERBUILD_MORE = 4
#: Above this share of its points a cluster is kept whole.
_WHOLE_SHARE = 0.75


@dataclass(frozen=True)
class Market:
    """Clusters, of which some are known by their spectrum and stand for the others.

    Parameters
    ----------
    n_points : int
        Of the whole partition.
    sizes : ndarray of shape (m,)
        Points of each known cluster.
    weights : ndarray of shape (m,)
        How many clusters of the partition each known one stands for.
    spectra : sequence of m Spectrum
    diagonal : bool
        Whether the n floats of a diagonal part are stored too.
    whole : bool, default=False
        Whether clusters of ranks above `highest_in_part` count as built whole: with their block as it is, of which a
        definite C discards nothing.
    """

    n_points: int
    sizes: IntArray
    weights: FloatArray
    spectra: Sequence[Spectrum]
    diagonal: bool
    whole: bool = False

    @cached_property
    def gains(self) -> list[FloatArray]:
        """Squared error that each direction of each known cluster removes."""
        return [gains(spectrum) for spectrum in self.spectra]

    @cached_property
    def _flat(self) -> FloatArray:
        """The gains of all known clusters in one array, the first of each at `_starts`."""
        return np.concatenate(self.gains)

    @cached_property
    def _lengths(self) -> IntArray:
        return np.array([len(each) for each in self.gains])

    @cached_property
    def _starts(self) -> IntArray:
        return np.cumsum(self._lengths) - self._lengths

    @property
    def norm(self) -> float:
        """Squared Frobenius norm of the kernel matrix, estimated."""
        return float(self.weights @ [spectrum.norm for spectrum in self.spectra])

    def ranks(self, price: float) -> IntArray:
        """Rank of each known cluster at ``price`` per float."""
        return self.at_total(price, self._settled_total(price))

    def at_total(self, price: float, total: float) -> IntArray:
        """Rank of each known cluster at ``price``, when all ranks together are ``total``."""
        costs = price * (self.sizes + total)
        worth = _worth(self._flat, np.repeat(costs, self._lengths))
        return np.maximum(np.add.reduceat(worth, self._starts, dtype=np.intp), 1)

    def total(self, ranks: IntArray) -> float:
        """Sum of all clusters' ranks, estimated from the known ones."""
        return float(self.weights @ ranks)

    def stored(self, ranks: IntArray) -> float:
        """Floats stored by the whole factorization."""
        total = self.total(ranks)
        bases = float((self.weights * self.sizes) @ ranks)
        return bases + total * (total + 1) / 2 + (self.n_points if self.diagonal else 0)

    def error(self, ranks: IntArray) -> float:
        """Squared Frobenius error of the whole factorization, predicted."""
        left = np.array([residual(s, int(r)) for s, r in zip(self.spectra, ranks, strict=True)])
        if self.whole:
            left -= np.where(ranks > highest_in_part(self.sizes), [s.discarded for s in self.spectra], 0.0)
        return float(self.weights @ left)

    def largest(self, ranks: IntArray) -> float:
        """Squared spectral norm of the error, from above: the largest direction that each cluster leaves out."""
        left = [
            both_sides(s) * s.values[r] if r < len(s.values) else 0.0 for s, r in zip(self.spectra, ranks, strict=True)
        ]
        return float(self.weights @ left)

    def price_within(self, enough: Callable[[IntArray], bool]) -> float | None:
        """The highest price whose ranks are ``enough``; None when all directions together are not."""
        return _highest(lambda price: enough(self.ranks(price)), self._highest_price())

    def affordable(self, budget: int) -> IntArray:
        """Ranks that hold most energy within ``budget`` stored floats: first by price, then vector by vector."""
        top = self._highest_price()
        over = _highest(lambda price: self.stored(self.ranks(price)) > budget, top)
        ranks = self.ranks(0.0 if over is None else max(over * _JUST_ABOVE, top * math.exp(-_PRICE_RANGE)))
        return self._filled(ranks, budget)

    def _filled(self, ranks: IntArray, budget: int) -> IntArray:
        blocked = np.zeros(len(ranks), dtype=bool)
        while not blocked.all():
            total = self.total(ranks)
            upcoming = self._flat[self._starts + np.minimum(ranks, self._lengths - 1)]
            worth = np.where(ranks < self._lengths, upcoming, 0.0) / (self.sizes + total)
            best = int(np.argmax(np.where(blocked, -1.0, worth)))
            more = ranks.copy()
            more[best] += 1
            if worth[best] > 0 and self.stored(more) <= budget:
                ranks = more
            else:
                blocked[best] = True
        return ranks

    def _highest_price(self) -> float:
        """A price at which every cluster keeps its one vector only."""
        return 2 * max(float(each[0]) for each in self.gains) / float(self.sizes.min())

    def _settled_total(self, price: float) -> float:
        """R such that the ranks chosen against it add up to it."""
        low, high = 0.0, self.total(self._lengths)
        for _ in range(_FIXED_POINT_STEPS):
            middle = (low + high) / 2
            if self.total(self.at_total(price, middle)) > middle:
                low = middle
            else:
                high = middle
        return high


def both_sides(spectrum: Spectrum) -> float:
    """How often a lost direction counts: as row and as column, the cluster's own block but once."""
    return 2 - spectrum.own_share


def gains(spectrum: Spectrum) -> FloatArray:
    """Squared error that each direction removes, descending: slopes of the convex hull of `residual`.

    Without a diagonal part these are the energies, counted on both sides. With one, giving up a direction hands some of
    it over, and giving up many hands over more than each of them alone: then a few are worth only as much as all of
    them together.
    """
    each = both_sides(spectrum) * spectrum.values + np.diff(spectrum.regained, append=0.0)
    return np.asarray(np.maximum(isotonic_regression(each, increasing=False).x, 0))


def worthwhile(spectrum: Spectrum, cost: float) -> int:
    """Leading directions that remove more error than ``cost``; at least one."""
    return max(1, int(np.count_nonzero(_worth(gains(spectrum), cost))))


def _worth(gained: FloatArray, cost: FloatArray | float) -> NDArray[np.bool_]:
    return (gained >= cost) & (gained > 0)


def residual(spectrum: Spectrum, rank: int) -> float:
    """Squared error that a cluster leaves at ``rank``."""
    lost = both_sides(spectrum) * (spectrum.tail + float(spectrum.values[rank:].sum()))
    return max(lost - float(spectrum.regained[rank:][:1].sum()), 0.0) + spectrum.discarded


def _highest(holds: Callable[[float], bool], top: float) -> float | None:
    """The highest price, to one per cent, at which ``holds``: true of all lower ones. None when of none."""
    if not holds(0.0):
        return None
    if top <= 0 or holds(top):
        return top
    low, high = math.log(top) - _PRICE_RANGE, math.log(top)
    if not holds(math.exp(low)):
        return 0.0
    while high - low > _PRICE_STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(math.exp(middle)) else (low, middle)
    return math.exp(low)


# --- ranks to build ---------------------------------------------------------------------------------------------------


def with_reserve(ranks: IntArray, sizes: IntArray) -> IntArray:
    """Ranks to build, so that a check can choose among them; a cluster is kept whole only where it must be."""
    most = highest_in_part(sizes)
    return np.where(ranks > most, sizes, np.minimum(reserved(ranks), most))


def reserved(ranks: IntArray) -> IntArray:
    """The same, whatever the sizes of the clusters."""
    return np.asarray(np.ceil(_OVERBUILD * ranks) + _OVERBUILD_MORE, dtype=np.intp)


def highest_in_part(sizes: IntArray) -> IntArray:
    """Ranks above which a cluster is kept whole: a basis that leaves next to nothing shows nothing of D."""
    return np.asarray(np.ceil(_WHOLE_SHARE * sizes), dtype=np.intp)
