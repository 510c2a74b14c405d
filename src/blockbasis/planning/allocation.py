"""Ranks that compete for memory.

One more basis function in cluster i costs n_i floats and the ranks of the clusters that C relates it to, and removes the
next part of the cluster's residual. At a price for a float every cluster takes what is worth it, and the price is set so
that a squared error or a budget is kept. Gains fall with the rank, so that one bisection finds the price.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import isotonic_regression

from blockbasis._typing import FloatArray, IntArray

#: Prices are searched over this range of their logarithm, by so many halvings.
_PRICE_RANGE = 90.0
_HALVINGS = 34
#: Ranks and the ranks of related clusters are fitted to each other so many times.
_FIXED_POINT_STEPS = 12


@dataclass(frozen=True)
class Allocation:
    """Clusters with their residuals, competing for floats.

    Parameters
    ----------
    residuals : sequence of arrays
        Squared error that each cluster leaves at ranks 0, 1, ...
    sizes : ndarray of shape (m,)
        Points of each cluster.
    weights : ndarray of shape (m,)
        Number of clusters that each stands for.
    related : callable
        From the ranks to the sum of the ranks of the clusters that C relates each cluster to, itself included.
    fixed : float
        Floats stored whatever the ranks are.
    per_function : ndarray of shape (m,)
        Floats that each basis function takes beside its values and its part of C.
    """

    residuals: Sequence[FloatArray]
    sizes: FloatArray
    weights: FloatArray
    related: Callable[[FloatArray], FloatArray]
    fixed: float
    per_function: FloatArray

    @cached_property
    def gains(self) -> list[FloatArray]:
        """Squared error that each function removes, made non-increasing."""
        each = [-np.diff(residuals) for residuals in self.residuals]
        return [np.maximum(isotonic_regression(gain, increasing=False).x, 0) for gain in each]

    @cached_property
    def highest(self) -> IntArray:
        """Largest rank of each cluster."""
        return np.array([len(gain) for gain in self.gains], dtype=np.intp)

    @cached_property
    def _flat(self) -> tuple[FloatArray, IntArray]:
        return np.concatenate(self.gains), np.cumsum(self.highest) - self.highest

    def stored(self, ranks: IntArray) -> float:
        """Floats of the whole factorization."""
        ranks = np.asarray(ranks, dtype=np.float64)
        inner = 0.5 * float((self.weights * ranks) @ (self.related(ranks) + 1))
        return float((self.weights * ranks) @ (self.sizes + self.per_function)) + inner + self.fixed

    def error(self, ranks: IntArray) -> float:
        """Squared error of the whole factorization, predicted."""
        left = [
            residual[min(int(rank), len(residual) - 1)] for residual, rank in zip(self.residuals, ranks, strict=True)
        ]
        return float(self.weights @ left)

    def at_price(self, price: float) -> IntArray:
        """Rank of each cluster at a price for a float; at least one."""
        flat, starts = self._flat
        ranks = np.maximum(self.highest / 2, 1.0)
        for _ in range(_FIXED_POINT_STEPS):
            costs = price * (self.sizes + self.per_function + self.related(ranks))
            worth = (flat > np.repeat(costs, self.highest)) & (flat > 0)
            new = np.maximum(np.add.reduceat(worth, starts, dtype=np.intp), 1)
            if (new == ranks).all():
                break
            ranks = new.astype(np.float64)
        return np.asarray(new, dtype=np.intp)

    def within(self, allowed: float) -> IntArray:
        """Ranks of least memory whose predicted squared error is allowed; all functions when none are enough."""
        if self.error(self.highest) > allowed:
            return self.highest
        return self.at_price(self._price(lambda ranks: self.error(ranks) <= allowed))

    def affordable(self, budget: float) -> IntArray:
        """Ranks of least predicted error within a number of floats: by price, then function by function."""
        if self.stored(self.highest) <= budget:
            return self.highest
        low, high = self._range
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.stored(self.at_price(math.exp(middle))) <= budget else (middle, high)
        return self._filled(self.at_price(math.exp(high)), budget)

    def _filled(self, ranks: IntArray, budget: float) -> IntArray:
        flat, starts = self._flat
        blocked = np.zeros(len(ranks), dtype=bool)
        while not blocked.all():
            upcoming = np.where(ranks < self.highest, flat[starts + np.minimum(ranks, self.highest - 1)], 0.0)
            worth = upcoming / (self.sizes + self.per_function + self.related(ranks.astype(np.float64)))
            best = int(np.argmax(np.where(blocked, -1.0, worth)))
            more = ranks.copy()
            more[best] += 1
            if worth[best] > 0 and self.stored(more) <= budget:
                ranks = more
            else:
                blocked[best] = True
        return ranks

    @property
    def _range(self) -> tuple[float, float]:
        top = max((float(gain[0]) for gain in self.gains if len(gain)), default=0.0)
        high = math.log(max(top, np.finfo(np.float64).tiny))
        return high - _PRICE_RANGE, high

    def _price(self, enough: Callable[[IntArray], bool]) -> float:
        """The highest price, to a small part, whose ranks are ``enough``."""
        low, high = self._range
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if enough(self.at_price(math.exp(middle))) else (low, middle)
        return math.exp(low)
