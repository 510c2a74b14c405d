"""What the searches for regression and for classification share: parameters, the search, and the last fit."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from blockbasis._utils.validation import check_choice, check_flag, check_memory, check_positive
from blockbasis.estimators._base import FLOATS_PER_POINT, bandwidth_of, has_bandwidth, make_kernel
from blockbasis.estimators._columns import View, as_they_are, heavy_tails, standardized
from blockbasis.estimators._exact_ridge import ridge_walk, seconds_of_walk
from blockbasis.estimators._metric_learning import Grid
from blockbasis.estimators._ridge_base import KernelRidgeEstimator, in_units
from blockbasis.estimators._ridge_path import Choices, Fit
from blockbasis.estimators._search import METRICS, Task, search
from blockbasis.estimators._trials import Candidate, Found, search_results
from blockbasis.estimators.ridge import KernelRidge
from blockbasis.kernels import Gaussian, Laplacian, Matern, RadialKernel

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray

_FAMILIES: tuple[RadialKernel, ...] = (Laplacian(1.0), Gaussian(1.0), Matern(1.0, nu=1.5))
#: Up to so many points the kernel matrix itself is solved with, where nothing else is asked for: rough kernels, which
#: small ridges go with, lose much by compression.
_EXACT_POINTS = 21_000
#: Ridges that it chooses among, as multiples of the one of the search, and steps that there must be time for.
_LADDER = tuple(4.0**power for power in range(-5, 3))
_STEPS = 4
#: Above so many points the ridge of the search is enough.
_CHOOSING_EXACTLY = 10_000
#: Points of a cluster, and its rank, in the regression of all points, where nothing else is asked for.
_POINTS_PER_CLUSTER = 600
_RANK, _LEAST_RANK = 80, 16
_MOST_AT_FULL_RANK = 30_000
#: Ridges that the regression of all points chooses among, as multiples of the one of the search.
_RIDGES = (0.25, 1.0, 4.0)
#: Above this total rank one ridge is enough: the next would want an eigendecomposition.
_CHOOSING = 3_000
#: Standard deviations of columns within this factor of each other may be left as they are. Within the smaller factor,
#: columns are standardised already: the data left as they are would be tried twice.
_COMPARABLE = 10
_EQUAL = 1.25
#: Part of a budget of time that the search may take, and rows on which the pace of the last fit is measured.
_SEARCH_PART = 0.35
_PILOT_ROWS = 2_000
#: A pilot that takes a smaller part of the time that is left is repeated with so many times the rows.
_PILOT_PART, _PILOT_GROWTH = 0.03, 4
_FEWEST_ROWS = 1_000
#: The last fit may take so much longer than the pace of the pilot says.
_RESERVE = 1.4


class RidgeSearch(KernelRidgeEstimator):
    """What both searches share. A class that inherits from this lists the parameters in its own ``__init__``."""

    alphas: Any
    standardize: Any
    time_budget: float | None

    #: Searched for, never given.
    bandwidth = None

    def _choices(self, X: FloatArray, Y: FloatArray, weights: FloatArray | None, rng: np.random.Generator) -> Choices:
        """The kernel that a search finds, and ridges around the best one."""
        begun, budget = time.perf_counter(), self._budget()
        candidates, grid, views = self._search_candidates(), self._grid(), self._views(X, weights)
        sums = self.kernel == "auto" and self.metric == "auto" and self._is_exact(len(X), (1 - _SEARCH_PART) * budget)
        task = Task(
            X,
            in_units(Y, weights),
            weights,
            views,
            grid,
            _SEARCH_PART * budget,
            sums,
            classes=is_classifier(self),
            n_jobs=self._threads(),
        )
        found = search(task, candidates, rng)
        left = budget - (time.perf_counter() - begun)
        exact = self._is_exact(len(X), left)
        ridges = grid.alphas or tuple(factor * found.alpha for factor in (_LADDER if exact else _RIDGES))
        if (len(X) > _CHOOSING_EXACTLY) if exact else (self._total_rank(len(X)) > _CHOOSING):
            ridges = (found.alpha,)
        alphas = [np.full(Y.shape[1], ridge) for ridge in ridges]
        choices = Choices(found.kernel, [None], alphas, found, exact=exact)
        if exact or budget == math.inf:
            return choices
        return replace(choices, rows=self._rows_in_time(choices, found.view.mapped(X), Y, left, rng))

    def _is_exact(self, n: int, seconds: float) -> bool:
        """Whether the regression of all points is one of the kernel matrix itself: where nothing else is asked for."""
        asked = any(each is not None for each in (self.tol, self.memory, self.rank, self.n_clusters))
        if asked or n > _EXACT_POINTS:
            return False
        return seconds == math.inf or seconds_of_walk(n, _STEPS) < seconds

    def _fits(
        self,
        choices: Choices,
        X: FloatArray,
        Y: FloatArray,
        weights: FloatArray | None,
        streams: Sequence[np.random.Generator],
    ) -> Iterator[Fit]:
        if not choices.exact:
            return super()._fits(choices, X, Y, weights, streams)
        assert choices.found is not None
        ridges = [float(alpha[0]) for alpha in choices.alphas]
        walk = ridge_walk(choices.kernel, X, Y, weights, ridges, ridges.index(choices.found.alpha), self._threads())
        none = np.zeros(Y.shape[1])
        return (
            Fit(choices.kernel, None, None, none + each.alpha, each.coefficients, each.left_out, (), None, none)
            for each in walk
        )

    def _search_candidates(self) -> list[Candidate]:
        kinds: tuple[str, ...] = METRICS
        if self.metric != "auto" or self.gamma is not None:
            name = "none" if self.metric in (None, "auto") else self.metric
            kinds = (check_choice(name, METRICS, name="metric", caller=self._caller),)
        if isinstance(self.kernel, str) and self.kernel == "auto":
            families = _FAMILIES if self.gamma is None else (Gaussian(1.0),)
            return [Candidate(family, kind) for family in families for kind in kinds]
        family = make_kernel(self.kernel, None, caller=self._caller)
        if not (isinstance(family, RadialKernel) and has_bandwidth(family)):
            raise ValueError(
                f"The 'kernel' parameter of {self._caller} must be a radial kernel of one bandwidth, which the search "
                f"chooses. Other kernels are for {self._caller.removesuffix('CV')}. Got {family!r} instead."
            )
        return [Candidate(family, kind) for kind in kinds]

    def _views(self, X: FloatArray, weights: FloatArray | None) -> tuple[View, ...]:
        """How the search may see the columns; with a ``gamma`` they are as they are."""
        raw, standard = as_they_are(X, weights), standardized(X, weights)
        if not isinstance(self.standardize, str):
            return (standard,) if check_flag(self.standardize, name="standardize", caller=self._caller) else (raw,)
        check_choice(self.standardize, ("auto",), name="standardize", caller=self._caller)
        if self.gamma is not None:
            return (raw,)
        views, varying, mapping = [standard], standard.scale[standard.scale > 0], heavy_tails(X)
        # Samples are too small to tell scales apart that differ wildly: a unit of measure means nothing there.
        if _EQUAL < varying.max() / varying.min() <= _COMPARABLE:
            views.append(raw)
        if mapping is not None:
            views.append(standardized(X, weights, mapping))
        return tuple(views)

    def _grid(self) -> Grid:
        """Ridges, ascending, and the bandwidth of a ``gamma``; nothing where the search is free."""
        bandwidth = None
        if self.gamma is not None:
            if self.kernel not in ("auto", "rbf", "gaussian"):
                raise ValueError(
                    f"The 'gamma' parameter of {self._caller} goes with kernel='rbf'. Got it with {self.kernel!r}."
                )
            bandwidth = Gaussian.from_gamma(check_positive(self.gamma, name="gamma", caller=self._caller)).bandwidth
        if self.alphas is None:
            return Grid((), bandwidth)
        given = np.atleast_1d(np.asarray(self.alphas, dtype=object)).tolist()
        if not given:
            raise ValueError(f"The 'alphas' parameter of {self._caller} must have at least one ridge. Got none.")
        return Grid(
            tuple(sorted(check_positive(each, name="alphas", caller=self._caller) for each in given)), bandwidth
        )

    def _budget(self) -> float:
        if self.time_budget is None:
            return math.inf
        return check_positive(self.time_budget, name="time_budget", caller=self._caller)

    def _default_goal(self, n: int) -> dict[str, Any]:
        """Compression that loses less than the data leave open, in a time that people wait for."""
        return {"rank": default_rank(n)}

    def _default_clusters(self, n: int) -> int:
        return default_number_of_clusters(n)

    def _total_rank(self, n: int) -> int:
        return self._default_clusters(n) * default_rank(n)

    def _rows_in_time(
        self, choices: Choices, X: FloatArray, Y: FloatArray, left: float, rng: np.random.Generator
    ) -> IntArray | None:
        """Rows that the last fit has time for, by the pace of a fit of a few; None is all."""
        n, few = len(X), _PILOT_ROWS
        if n <= 2 * few:
            return None
        order, begun = rng.permutation(n), time.perf_counter()
        pilot = KernelRidge([float(alpha[0]) for alpha in choices.alphas], kernel=choices.kernel, n_jobs=self.n_jobs)
        goal, work = {"rank": default_rank(few), "memory": None}, self._enlargement(X) ** 2
        while True:
            start = time.perf_counter()
            settings = {"n_clusters": self._default_clusters(few), **goal, "keep_points": False}
            pilot.set_params(**settings).fit(X[order[:few]], Y[order[:few]])
            end = time.perf_counter()
            seconds = work * (end - start)
            fitting = int(few * (left - (end - begun)) / (_RESERVE * seconds))
            if fitting >= n:
                return None
            # A few points take longer for each: if the pilot was short, one of more points shows the pace better.
            if seconds > _PILOT_PART * left or 2 * _PILOT_GROWTH * few > n:
                return np.sort(order[: max(fitting, _FEWEST_ROWS)])
            few *= _PILOT_GROWTH
            goal, work = self._pilot_goal(few, X), 1.0

    def _enlargement(self, X: FloatArray) -> float:
        """Ranks of the last fit in units of the default ones; at least 1."""
        if self.memory is not None:
            floats = check_memory(self.memory, X.itemsize, len(X), name="memory", caller=self._caller)
            return max(1.0, floats / (FLOATS_PER_POINT * len(X)))
        return 1.0 if self.rank is None else max(1.0, float(np.max(self.rank)) / default_rank(_PILOT_ROWS))

    def _pilot_goal(self, few: int, X: FloatArray) -> dict[str, Any]:
        """Size of the factorization of a pilot: as large for each point as that of the last fit, or larger."""
        if self.memory is not None and self._enlargement(X) > 1:
            floats = check_memory(self.memory, X.itemsize, len(X), name="memory", caller=self._caller)
            return {"rank": None, "memory": floats * few // len(X)}
        given = self.rank is not None and np.ndim(self.rank) == 0
        return {"rank": self.rank if given else default_rank(few), "memory": None}

    def _keep_search(self, found: Found | None) -> None:
        """Attributes of the search."""
        assert found is not None and found.trial.regression is not None
        self.column_map_ = found.view.mapping
        self.cv_results_ = search_results(found)
        scale = found.view.scale
        self.scale_ = np.divide(1, scale, out=np.ones_like(scale), where=scale > 0)
        self.best_index_ = found.trials.index(found.trial)
        self.best_score_ = found.score(found.trial)
        self.best_params_ = {
            "kernel": found.trial.kernel_name,
            "metric": found.trial.metric_name,
            "bandwidth": bandwidth_of(found.kernel),
            "alpha": float(np.ravel(self.alpha_)[0]),
        }


def default_rank(n: int) -> int:
    """Rank of a cluster in the regression of all points: the total rank, whose system is solved, is bounded."""
    return max(_LEAST_RANK, min(_RANK, _RANK * _MOST_AT_FULL_RANK // n))


def default_number_of_clusters(n: int) -> int:
    """Clusters of the regression of all points."""
    return max(1, round(n / _POINTS_PER_CLUSTER))
