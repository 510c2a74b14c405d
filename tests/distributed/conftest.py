"""One cluster of two workers, threads of this process, for all tests."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="session")
def cluster():
    """A cluster of two workers of one thread, in this process."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", memory_limit=None
    ) as running:
        yield running


@pytest.fixture
def client(cluster):
    """A client of the cluster, which is not the default client."""
    with distributed.Client(cluster, set_as_default=False) as connected:
        yield connected


@pytest.fixture(scope="session")
def points():
    """3,000 points in two columns, and targets."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(3000, 2))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=3000)


@pytest.fixture
def small_sample(monkeypatch):
    """1,000 rows determine a factorization."""
    for module in (
        "streaming.factorization",
        "streaming.sources",
        "streaming.api",
        "estimators._streamed_ridge",
    ):
        monkeypatch.setattr(f"blockbasis.{module}.SAMPLE_ROWS", 1_000)
