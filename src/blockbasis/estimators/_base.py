"""Base class of the estimators: the kernel, its bandwidth, and the factorization of its matrix.

Estimators solve with the compressed matrix, and extend the function they learned from its points to new points; see
`blockbasis.estimators._continuation`. The exact kernel is not used for predictions: with coefficients that were solved
with the compressed matrix, it would multiply the compression error by the inverse of the ridge. Ridge regressions also
fit the data near each cluster; see `blockbasis.estimators._local`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from blockbasis._api import factorize, plan
from blockbasis._utils.parallel import check_n_jobs
from blockbasis._utils.validation import check_choice, check_integer, check_memory, check_positive
from blockbasis.estimators._saving import described, recovered
from blockbasis.estimators._structure import check_attributes, check_outputs
from blockbasis.kernels import RADIAL_KERNELS, Kernel, RadialKernel, WithMetric, as_kernel
from blockbasis.planning.costs import dense_floats
from blockbasis.planning.search import default_clusters

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray
    from blockbasis.operators.block_basis import BlockBasis
    from blockbasis.partition import Partition

#: Defaults where tol, memory and rank are None: up to EXACT_POINTS points the dense matrix is stored, and with more
#: points FLOATS_PER_POINT floats for each point.
EXACT_POINTS = 1_000
FLOATS_PER_POINT = 100
#: If a compression needs more than this share of the floats of the dense matrix, the dense matrix is stored.
_NOT_WORTH = 0.5

#: The factorization of a sample where its size is not given: points for each cluster, largest number of clusters, and
#: functions of a cluster. Their total bounds the size of C and the time of a solution.
_SAMPLE_POINTS = 600
_SAMPLE_CLUSTERS = 100
_SAMPLE_RANK = 60

#: Pairs of points whose median distance is the unit of bandwidths.
_MEDIAN_PAIRS = 20_000
_BANDWIDTHS = ("median",)
#: Multiples of the median distance that bandwidth="auto" tries.
_AUTO = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)

_NAMES = {
    "gaussian": "Gaussian",
    "rbf": "Gaussian",
    "laplacian": "Laplacian",
    "matern": "Matern",
    "cauchy": "Cauchy",
    "inverse_multiquadric": "InverseMultiquadric",
    "rational_quadratic": "RationalQuadratic",
}

Fit = TypeVar("Fit", bound=Callable[..., Any])


def all_or_nothing(fit: Fit) -> Fit:
    """Decorate ``fit`` so that a fit that fails or is interrupted leaves the estimator unchanged."""

    @wraps(fit)
    def whole(self: Any, *arguments: Any, **named: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *arguments, **named)
        except BaseException:
            self.__dict__ = before  # one assignment, which a second interrupt cannot divide
            raise

    return cast(Fit, whole)


class KernelEstimator(BaseEstimator):
    """Parameters that all estimators of the package have, and the factorization they define.

    A derived class lists these parameters in its own ``__init__``, as scikit-learn requires.

    Parameters
    ----------
    kernel : str, Kernel or callable
        "gaussian" or "rbf", "laplacian", "matern", "cauchy", "inverse_multiquadric" or "rational_quadratic"; a kernel
        such as ``blockbasis.Matern(1.0, nu=2.5)``, or one of scikit-learn's; or a function k(X, Y) -> array. White
        noise in a kernel is noise of the data, and is not part of the learned function.
    bandwidth : float, "median" or None
        Replaces the bandwidth of a kernel object; must be None for kernels that have several bandwidths or none.
        "median" is the median distance of the points. None keeps the bandwidth of a kernel object, and is the square
        root of the number of columns for a kernel given by name (scikit-learn's default ``gamma``).
    tol, memory, n_clusters, rank
        As in `blockbasis.factorize`. If ``tol``, ``memory`` and ``rank`` are None, up to 1,000 points are stored
        exactly, and more points with 100 floats for each point, or with as many floats as 1,000 points need. The
        matrix is not compressed if ``memory`` has room for the dense matrix, or if ``tol`` needs more than half of it.
        ``n_clusters`` may exceed the number of points.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads. None uses one for each core.
    verbose : int
        If above 0, show progress.
    """

    _caller: ClassVar[str]
    #: Fitted attributes that a file does not hold.
    _unsaved: ClassVar[tuple[str, ...]] = ()
    #: The parameter that says into how many clusters the factorization divides the points.
    _partition_parameter: ClassVar[str] = "n_clusters"

    kernel: Any
    bandwidth: Any
    tol: float | None
    memory: int | str | None
    n_clusters: int | None
    rank: Any
    random_state: Any
    n_jobs: int | None
    verbose: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._caller = cls.__name__

    def describe(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """Parameters and fitted attributes, for `blockbasis.save`."""
        check_is_fitted(self)
        parameters = self.get_params(deep=False)
        left_out = {*parameters, *self._unsaved}
        return described(parameters, {name: value for name, value in vars(self).items() if name not in left_out})

    @classmethod
    def restored(cls, meta: dict[str, Any], arrays: dict[str, FloatArray], kernel: Any) -> Any:
        """Fitted estimator from what `describe` returned, for `blockbasis.load`."""
        parameters, fitted = recovered(meta, arrays, kernel)
        check_attributes(cls, parameters, fitted)
        check_outputs(fitted)
        estimator = cls(**parameters)
        for name, value in fitted.items():
            setattr(estimator, name, value)
        check_is_fitted(estimator)
        return estimator

    def _check_X(self, X: Any, *, reset: bool) -> FloatArray:
        """Check the points of a fit (``reset=True``), or new points for a fitted estimator."""
        return np.asarray(self._validated(X, reset=reset))

    def _validated(self, X: Any, *y: Any, **settings: Any) -> Any:
        """Check points, and targets if given. The error for values that are not finite names the column."""
        try:
            return validate_data(self, X, *y, dtype=[np.float64, np.float32], order="C", **settings)
        except ValueError as error:
            bad = _not_finite(X)
            if bad is None:
                raise
            raise ValueError(
                f"The 'X' parameter of {self._caller} must be free of NaN and infinity. Got {bad} instead."
                + (" blockbasis.tables.fit_table takes tables with missing values." if "NaN" in bad else "")
            ) from error

    def _streams(self, count: int) -> list[np.random.Generator]:
        """Independent random streams, which depend only on ``random_state``."""
        seed = int(check_random_state(self.random_state).randint(2**31))
        return np.random.default_rng(seed).spawn(count)

    def _threads(self) -> int:
        return check_n_jobs(self.n_jobs, caller=self._caller)

    def _kernel(self, bandwidth: float | None) -> Kernel:
        """Kernel with a bandwidth that `_bandwidth` or `candidate_bandwidths` returned."""
        return make_kernel(self.kernel, bandwidth, caller=self._caller)

    def _bandwidth(self, X: FloatArray, rng: np.random.Generator) -> float | None:
        """Bandwidth as a number; None for a kernel without a bandwidth."""
        return one_bandwidth(self.bandwidth, self.kernel, X, rng, caller=self._caller)

    def _factorize(
        self, X: FloatArray, kernel: Kernel, rng: np.random.Generator, partition: Partition | None = None
    ) -> BlockBasis:
        """Factorization U C Uᵀ of the kernel matrix; a given ``partition`` is used instead of a new clustering.

        It has no diagonal part D and no white noise, since neither can be extended to new points.
        """
        whole, kernel = kernel, kernel.without_noise()
        A = self._factorize_smooth(X, kernel, rng, partition)
        return A if whole is kernel else replace(A, kernel=whole)

    def _factorize_smooth(
        self, X: FloatArray, kernel: Kernel, rng: np.random.Generator, partition: Partition | None
    ) -> BlockBasis:
        n = X.shape[0]
        goal: dict[str, Any] = {"tol": self.tol, "memory": self.memory, "rank": self.rank}
        if all(value is None for value in goal.values()):
            goal |= self._default_goal(n)
        clusters = getattr(self, self._partition_parameter)
        if clusters is None and self._takes_default_clusters:
            clusters = self._default_clusters(n)
        elif clusters is not None:
            clusters = min(check_integer(clusters, name=self._partition_parameter, caller=self._caller, low=1), n)
        kind: dict[str, Any] = {"diagonal": False}
        shared: dict[str, Any] = {"rng": rng, "n_jobs": self.n_jobs, "progress": self.verbose > 0}
        parts: dict[str, Any] = {"n_clusters": clusters} if partition is None else {"partition": partition}
        if goal["rank"] is not None:
            return factorize(X, kernel, **goal, **parts, **kind, **shared)
        del goal["rank"]
        if not self._has_room(goal["memory"], X):
            planned = plan(X, kernel, **goal, **parts, **kind, **shared)
            if self.tol is None or planned.stored <= _NOT_WORTH * planned.dense:
                return factorize(X, kernel, plan=planned, **shared)
        return factorize(X, kernel, n_clusters=1, rank=n, **kind, **shared)

    def _factorize_sample(self, X: FloatArray, kernel: Kernel, rng: np.random.Generator) -> BlockBasis:
        """U C Uᵀ of a sample of more points, in 60 functions for each of at most 100 clusters by default."""
        if any(each is not None for each in (self.tol, self.memory, self.rank)):
            return self._factorize(X, kernel, rng)
        k = getattr(self, self._partition_parameter) or int(np.clip(len(X) // _SAMPLE_POINTS, 1, _SAMPLE_CLUSTERS))
        k = min(check_integer(k, name=self._partition_parameter, caller=self._caller, low=1), len(X))
        rank = min(_SAMPLE_RANK, max(1, len(X) // (2 * k)))
        shared: dict[str, Any] = {"diagonal": False, "rng": rng, "n_jobs": self.n_jobs, "progress": self.verbose > 0}
        return replace(factorize(X, kernel.without_noise(), rank=rank, n_clusters=k, **shared), kernel=kernel)

    def _default_goal(self, n: int) -> dict[str, Any]:
        """Value of ``tol``, ``memory`` or ``rank`` that is used if all three are None."""
        return {"memory": max(self._floats_per_point * n, dense_floats(EXACT_POINTS))}

    def _default_clusters(self, n: int) -> int:
        """Number of clusters if it is neither given nor searched for."""
        return default_clusters(n)

    @property
    def _floats_per_point(self) -> int:
        """Floats for each point if the size of the factorization is not given."""
        return FLOATS_PER_POINT

    @property
    def _takes_default_clusters(self) -> bool:
        """Whether `_default_clusters` replaces the search for the number of clusters."""
        return False

    def _has_room(self, memory: Any, X: FloatArray) -> bool:
        """Whether the dense matrix fits in a budget."""
        if memory is None:
            return False
        floats = check_memory(memory, X.itemsize, X.shape[0], name="memory", caller=self._caller)
        return floats >= dense_floats(X.shape[0])


def _not_finite(X: Any) -> str | None:
    """Describe the first column of a data frame or of an array with a value that is not finite."""
    if isinstance(X, np.ndarray):
        columns = list(enumerate(X.T)) if X.ndim == 2 else []
    else:
        columns = [(name, np.asarray(X[name])) for name in getattr(X, "columns", ())]
    for name, values in columns:
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            return f"{'NaN' if np.isnan(values).any() else 'infinity'} in column {name!r}"
    return None


# --- kernels and bandwidths ------------------------------------------------------------------------------------------


def make_kernel(kernel: Any, bandwidth: float | None, *, caller: str) -> Kernel:
    """Kernel from a name, an object or a function; a given bandwidth replaces its own."""
    if isinstance(kernel, str):
        family = RADIAL_KERNELS[_NAMES[check_choice(kernel, _NAMES, name="kernel", caller=caller)]]
        return family(1.0 if bandwidth is None else bandwidth)
    made = as_kernel(kernel, caller=caller)
    return made if bandwidth is None else _with_bandwidth(made, bandwidth)


def has_bandwidth(kernel: Kernel) -> bool:
    """Whether a kernel has a single bandwidth, which can be replaced."""
    if isinstance(kernel, WithMetric):
        return has_bandwidth(kernel.kernel)
    return isinstance(kernel, RadialKernel) and isinstance(kernel.bandwidth, float)


def bandwidth_of(kernel: Any) -> Any:
    """Bandwidth of a kernel: a number, an array with one for each column, or None."""
    if isinstance(kernel, WithMetric):
        return bandwidth_of(kernel.kernel)
    if not isinstance(kernel, RadialKernel):
        return None
    return np.array(kernel.bandwidth) if isinstance(kernel.bandwidth, tuple) else kernel.bandwidth


def _with_bandwidth(kernel: Kernel, bandwidth: float) -> Kernel:
    if isinstance(kernel, WithMetric):
        return replace(kernel, kernel=_with_bandwidth(kernel.kernel, bandwidth))
    assert isinstance(kernel, RadialKernel)  # callers have checked has_bandwidth
    return replace(kernel, bandwidth=bandwidth)


def one_bandwidth(bandwidth: Any, kernel: Any, X: FloatArray, rng: np.random.Generator, *, caller: str) -> float | None:
    """Bandwidth as a number from a number, "median" or None; None for a kernel without a single bandwidth."""
    made = make_kernel(kernel, None, caller=caller)
    if not has_bandwidth(made):
        if bandwidth is not None:
            has = "none" if bandwidth_of(made) is None else "one for each column"
            raise ValueError(
                f"The 'bandwidth' parameter of {caller} must be None for a kernel that has {has}. "
                f"Got {bandwidth!r} instead."
            )
        return None
    if bandwidth is None:
        return float(np.sqrt(X.shape[1]) if isinstance(kernel, str) else bandwidth_of(made))
    if isinstance(bandwidth, str):
        check_choice(bandwidth, _BANDWIDTHS, name="bandwidth", caller=caller)
        return median_distance(made.coordinates(X), rng)
    return check_positive(bandwidth, name="bandwidth", caller=caller)


def candidate_bandwidths(
    bandwidth: Any, kernel: Any, X: FloatArray, rng: np.random.Generator, *, caller: str
) -> list[float | None]:
    """Candidate bandwidths from a list, "auto" or a single value."""
    if isinstance(bandwidth, str) and bandwidth == "auto":
        one_bandwidth("median", kernel, X, rng, caller=caller)  # refuses a kernel without a bandwidth
        return list(auto_bandwidths(make_kernel(kernel, None, caller=caller).coordinates(X), rng))
    if isinstance(bandwidth, (list, tuple, np.ndarray)):
        if len(bandwidth) == 0:
            raise ValueError(
                f"The 'bandwidth' parameter of {caller} must be a list of at least one. Got {bandwidth!r}."
            )
        return [one_bandwidth(each, kernel, X, rng, caller=caller) for each in bandwidth]
    return [one_bandwidth(bandwidth, kernel, X, rng, caller=caller)]


def auto_bandwidths(X: FloatArray, rng: np.random.Generator) -> list[float]:
    """Candidates around the median distance, most of them below it, since small classes need small bandwidths."""
    unit = median_distance(X, rng)
    return [factor * unit for factor in _AUTO]


def median_distance(X: FloatArray, rng: np.random.Generator) -> float:
    """Median Euclidean distance of random pairs of different points; 1 if all points are equal."""
    first, second = rng.integers(X.shape[0], size=(2, _MEDIAN_PAIRS))
    distances = np.linalg.norm(X[first].astype(np.float64) - X[second], axis=1)
    positive = distances[distances > 0]
    return float(np.median(positive)) if positive.size else 1.0
