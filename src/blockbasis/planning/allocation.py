"""Allocation of memory to the ranks of the clusters.

One more basis function in cluster i costs n_i floats, and one float for each basis function of the clusters that C
relates to cluster i. It reduces the squared error by a gain that decreases with the rank. At a given price of a float,
every cluster takes the functions whose gain exceeds their cost. A bisection finds the price at which the squared error
or the number of floats is as required.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import isotonic_regression

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

#: Range of the logarithm of the price, and number of bisection steps.
_PRICE_RANGE = 90.0
_HALVINGS = 34
#: Logarithm of the quotient of two prices that are accurate enough where their ranks differ by one function.
_ACCURACY = 1e-2
#: Iterations for the ranks at a price, since the cost of a function depends on the ranks of related clusters.
_FIXED_POINT_STEPS = 12


@dataclass(frozen=True)
class Allocation:
    """Clusters with their residuals, among which floats are allocated.

    Parameters
    ----------
    residuals : sequence of arrays
        Squared error due to each cluster at ranks 0, 1, ...
    sizes : ndarray of shape (m,)
        Number of points of each cluster.
    weights : ndarray of shape (m,)
        Number of clusters that each cluster represents.
    related : callable
        Takes the ranks, and returns for each cluster the sum of the ranks of the clusters that C relates to it,
        including its own.
    fixed : float
        Floats that do not depend on the ranks.
    per_function : ndarray of shape (m,)
        Floats of one basis function in addition to its values in U and its part of C.
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
        gains = [-np.diff(residuals) for residuals in self.residuals]
        return [np.maximum(isotonic_regression(each, increasing=False).x, 0) for each in gains]

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
        pairs = zip(self.residuals, ranks, strict=True)
        return float(self.weights @ [residual[min(int(rank), len(residual) - 1)] for residual, rank in pairs])

    def at_price(self, price: float) -> IntArray:
        """Rank of each cluster at a price of a float; at least one."""
        flat, starts = self._flat
        ranks = np.maximum(self.highest / 2, 1.0)
        for _ in range(_FIXED_POINT_STEPS):
            costs = price * (self.sizes + self.per_function + self.related(ranks))
            selected = (flat > np.repeat(costs, self.highest)) & (flat > 0)
            new = np.maximum(np.add.reduceat(selected, starts, dtype=np.intp), 1)
            if (new == ranks).all():
                break
            ranks = new.astype(np.float64)
        return np.asarray(new, dtype=np.intp)

    def within(self, allowed: float) -> tuple[IntArray, float]:
        """Ranks of least memory with a predicted squared error of at most ``allowed``, and their price.

        Where there are none, the largest ranks and a price of zero.
        """
        if self.error(self.highest) > allowed:
            return self.highest, 0.0
        return self._bisect(lambda ranks: self.error(ranks) <= allowed)[0]

    def affordable(self, budget: float) -> tuple[IntArray, float]:
        """Ranks of least predicted error within ``budget`` floats, and their price.

        The ranks of the price are raised one function at a time while the budget has room.
        """
        if self.stored(self.highest) <= budget:
            return self.highest, 0.0
        ranks, price = self._bisect(lambda ranks: self.stored(ranks) > budget)[1]
        return self._filled(ranks, budget), price

    def _filled(self, ranks: IntArray, budget: float) -> IntArray:
        """Ranks raised one function at a time, the largest gain per float first, while the budget has room."""
        flat, starts = self._flat
        blocked = np.zeros(len(ranks), dtype=bool)
        while not blocked.all():
            gains = np.where(ranks < self.highest, flat[starts + np.minimum(ranks, self.highest - 1)], 0.0)
            gains_per_float = gains / (self.sizes + self.per_function + self.related(ranks.astype(np.float64)))
            best = int(np.argmax(np.where(blocked, -1.0, gains_per_float)))
            raised = ranks.copy()
            raised[best] += 1
            if gains_per_float[best] > 0 and self.stored(raised) <= budget:
                ranks = raised
            else:
                blocked[best] = True
        return ranks

    def _bisect(self, below: Callable[[IntArray], bool]) -> tuple[tuple[IntArray, float], tuple[IntArray, float]]:
        """Ranks and prices of two neighbours: ``below`` holds for the ranks of the lower price, not for the others.

        The bisection ends where the ranks differ by one function, since there are no ranks between them.
        """
        largest = max((float(gain[0]) for gain in self.gains if len(gain)), default=0.0)
        last = math.log(max(largest, np.finfo(np.float64).tiny))
        first = last - _PRICE_RANGE
        low, high = ((self.at_price(math.exp(price)), price) for price in (first, last))
        for _ in range(_HALVINGS):
            if high[1] - low[1] < _ACCURACY and np.abs(high[0] - low[0]).sum() == 1:
                break
            price = (low[1] + high[1]) / 2
            ranks = self.at_price(math.exp(price))
            low, high = ((ranks, price), high) if below(ranks) else (low, (ranks, price))
        return (low[0], math.exp(low[1])), (high[0], math.exp(high[1]))
