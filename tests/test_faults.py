"""What fails at any stage of a factorization or a fit leaves nothing behind, and is never a wrong result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info, threadpool_limits

import blockbasis as bb
from blockbasis._utils import progress
from blockbasis.datasets import unit_cube_mixture
from tests.repeating import first_of

X = unit_cube_mixture(250, 3, rng=0)
Y = np.sin(3 * X[:, 0])
KERNEL = bb.Gaussian(0.5)


class Fault(Exception):
    """What a listener of one's own may raise."""


FAULTS = [KeyboardInterrupt, MemoryError, Fault]
FACTORIZATIONS = {
    "tol": lambda kernel, **told: bb.factorize(X, kernel, tol=0.1, rng=0, n_jobs=1, **told),
    "memory": lambda kernel, **told: bb.factorize(X, kernel, memory=20_000, rng=0, n_jobs=1, **told),
    "rank": lambda kernel, **told: bb.factorize(X, kernel, n_clusters=4, rank=10, rng=0, n_jobs=1, **told),
    "pooled": lambda kernel, **told: bb.factorize(
        X, kernel, n_clusters=4, rank=10, sampling="pooled", rng=0, n_jobs=1, **told
    ),
    "paper": lambda kernel, **told: bb.factorize(
        X, kernel, n_clusters=4, rank=10, algorithm="paper", rng=0, n_jobs=1, **told
    ),
    "threads": lambda kernel, **told: bb.factorize(X, kernel, n_clusters=4, rank=10, rng=0, n_jobs=3, **told),
}
COMPRESSED = {"rank": 10, "random_state": 0, "n_jobs": 1, "verbose": 1}
ESTIMATORS = [
    bb.KernelRidge(n_clusters=3, **COMPRESSED),
    bb.KernelRidgeClassifier(n_clusters=3, **COMPRESSED),
    bb.KernelRidgeCV(kernel="gaussian", metric="diagonal", random_state=0, n_jobs=1, verbose=1),
    bb.GaussianProcessRegressor(n_clusters=3, **COMPRESSED),
    bb.KernelPCA(n_components=2, n_clusters=3, **COMPRESSED),
    bb.BlockBasisFeatures(n_clusters=3, **COMPRESSED),
    bb.SpectralClustering(2, **COMPRESSED),
]


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Limits of BLAS, threads and listeners are after each test as they were before."""
    with threadpool_limits(limits=2, user_api="blas"):
        before = [pool["num_threads"] for pool in threadpool_info()], threading.active_count()
        yield
        assert ([pool["num_threads"] for pool in threadpool_info()], threading.active_count()) == before
        assert progress._listener.get() is None


class Failing:
    """A Gaussian kernel whose evaluation of a given number fails; it counts them."""

    def __init__(self, at=None, error=None):
        self.at, self.error, self.calls = at, error, 0
        self._lock = threading.Lock()

    def __deepcopy__(self, memo):
        return Failing(self.at, self.error)

    def __call__(self, A, B):
        with self._lock:
            self.calls += 1
            if self.calls == self.at:
                raise self.error
        return KERNEL(A, B)


def some(count):
    """The first, the last and some places between."""
    return sorted({1, 2, *np.linspace(1, count, 6).astype(int).tolist()})


def stages_of(work):
    """Names of the stages that the work tells of, in order."""
    events = []
    work(events.append)
    return list(dict.fromkeys(event.stage for event in events))


def stopping(stage, error):
    def listener(event):
        if event.stage == stage:
            raise error

    return listener


# --- factorizations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FACTORIZATIONS)
def test_a_listener_that_raises_at_each_stage(name):
    work = FACTORIZATIONS[name]
    expected = work(KERNEL).todense()
    stages = stages_of(lambda listener: work(KERNEL, progress=listener))
    assert {"bases", "inner matrix"} <= set(stages)
    for stage, error in zip(stages, FAULTS * len(stages), strict=False):
        with pytest.raises(error):
            work(KERNEL, progress=stopping(stage, error))
    np.testing.assert_array_equal(work(KERNEL).todense(), expected)


@pytest.mark.parametrize("name", FACTORIZATIONS)
def test_a_kernel_that_raises_at_each_of_some_evaluations(name):
    work, counted = FACTORIZATIONS[name], Failing()
    expected = work(counted).todense()
    for at, error in zip(some(counted.calls), FAULTS * 3, strict=False):
        with pytest.raises(error):
            work(Failing(at, error))
    np.testing.assert_array_equal(work(Failing()).todense(), expected)


def test_cross_factorizations():
    def work(kernel):
        return bb.factorize_cross(X[:100], X, kernel, n_clusters=3, rank=8, rng=0, n_jobs=1)

    counted = Failing()
    expected = work(counted).todense()
    for at, error in zip(some(counted.calls), FAULTS * 3, strict=False):
        with pytest.raises(error):
            work(Failing(at, error))
    np.testing.assert_array_equal(work(Failing()).todense(), expected)


# --- estimators ------------------------------------------------------------------------------------------------------


def targets(model):
    return Y > 0 if isinstance(model, bb.KernelRidgeClassifier) else Y


def fit_telling(model, listener):
    with progress.reporting(listener):  # a bar of the estimator's own gives way to it
        return model.fit(X, targets(model))


def learnt(model):
    """Values at new points, or labels of the old ones."""
    for name in ("predict", "transform"):
        if hasattr(model, name):
            return np.asarray(getattr(model, name)(X[:5] + 0.01))
    return model.labels_


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_a_fit_that_is_stopped_at_each_stage_leaves_the_estimator_as_it_was(model):
    fitted = clone(model)
    stages = stages_of(lambda listener: fit_telling(fitted, listener))
    expected = learnt(fitted)
    assert stages
    for stage, error in zip(stages, FAULTS * len(stages), strict=False):
        fresh = clone(model)
        before = dict(vars(fresh))
        with pytest.raises(error):
            fit_telling(fresh, stopping(stage, error))
        assert vars(fresh) == before
        with pytest.raises((NotFittedError, AttributeError)) as caught:
            learnt(fresh)
        assert isinstance(caught.value, NotFittedError) or "labels_" in str(caught.value)
        with pytest.raises(error):
            fit_telling(fitted, stopping(stage, error))
        np.testing.assert_array_equal(learnt(fitted), expected)
    np.testing.assert_array_equal(learnt(clone(model).set_params(verbose=0).fit(X, targets(model))), expected)


@pytest.mark.parametrize(
    "model",
    [each for each in ESTIMATORS if not isinstance(each, bb.KernelRidgeCV)],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_whose_kernel_raises(model):
    model = clone(model).set_params(verbose=0)
    counted = Failing()
    model.set_params(kernel=counted).fit(X, targets(model))
    for at, error in zip(some(counted.calls), FAULTS * 3, strict=False):
        fresh = clone(model).set_params(kernel=Failing(at, error))
        before = dict(vars(fresh))
        with pytest.raises(error):
            fresh.fit(X, targets(model))
        assert vars(fresh) == before


# --- memory ----------------------------------------------------------------------------------------------------------

LIMITED = """
import hashlib, json, os, resource, sys, warnings
import numpy as np
import blockbasis as bb
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(int(sys.argv[1]), 4))
CALLS = {
    "tol": lambda: bb.factorize(X, bb.Gaussian(2.0), tol=1e-2, rng=0, n_jobs=1) @ X,
    "rank": lambda: bb.factorize(X, bb.Gaussian(2.0), n_clusters=6, rank=100, rng=0, n_jobs=1) @ X,
    "solve": lambda: bb.solve(bb.factorize(X, bb.Gaussian(1.0), n_clusters=6, rank=60, rng=0, n_jobs=1), X, 0.1).x,
    "cross": lambda: bb.factorize_cross(X[:999], X, bb.Gaussian(2.0), n_clusters=5, rank=60, rng=0, n_jobs=1) @ X,
    "ridge": lambda: bb.KernelRidge(n_clusters=4, rank=50, random_state=0, n_jobs=1).fit(X, X[:, 0]).predict(X[:9]),
}
def outcome(call, room):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))
            said = hashlib.sha256(np.asarray(CALLS[call]()).tobytes()).hexdigest()
        except MemoryError:
            said = "MemoryError"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 10_000).decode()
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    return said if status == 0 else f"ended by {status}"
found = {}
for call in CALLS:
    CALLS[call]()  # what is loaded and kept for later calls is not the call's own
    right = outcome(call, 10**10)
    outcomes = [outcome(call, int(2**k * 10**6)) for k in np.arange(0, 9, float(sys.argv[2]))]
    found[call] = ["right" if each == right else each for each in outcomes]
print(json.dumps(found))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="limits of Linux")
@pytest.mark.parametrize(("n", "step"), first_of([(1_000, 1.0), (3_000, 0.5)]))
def test_too_little_address_space_is_a_memory_error_or_a_right_result(n, step):
    """From nothing to enough, in steps of a factor 2 or 1.4: whatever allocation it is that fails."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    shown = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIMITED, str(n), str(step)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    for call, outcomes in json.loads(shown.stdout).items():
        assert set(outcomes) == {"right", "MemoryError"}, (call, outcomes)
