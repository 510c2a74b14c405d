"""`factorize` for dask collections: functions of a sample, then their values where the points are, all on workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import blockbasis._api as api
from blockbasis._utils.parallel import elsewhere
from blockbasis._utils.validation import check_dtype
from blockbasis.distributed.client import checked_client, sent
from blockbasis.distributed.operator import DistributedBlockBasis, evaluated_parts
from blockbasis.distributed.rows import DaskRows
from blockbasis.distributed.spread import Spread
from blockbasis.streaming.api import sample_functions


def factorize(
    X: Any,
    kernel: Any,
    client: Any = None,
    *,
    tol: float | None = None,
    memory: int | str | None = None,
    n_clusters: int | None = None,
    rank: Any = None,
    diagonal: bool = False,
    dtype: npt.DTypeLike | None = None,
    rng: Any = None,
    n_jobs: int | None = None,
) -> DistributedBlockBasis:
    """Compress the kernel matrix of a dask collection into U C Uᵀ + D; the rows of U stay on the workers.

    At most 100,000 rows are drawn. They are clustered in this process, and the workers share the clusters' bases and
    the blocks of C among them. Then the workers evaluate the basis functions at their own points: only the drawn rows,
    functions, and vectors of the size of C travel. The same seed gives the factors of `blockbasis.factorize` for the
    same rows on disk, to rounding, with any number of workers.

    Parameters
    ----------
    X : dask array of shape (n, d), or dask data frame
        Each block of rows is a task. Persist it (``X.persist()``) to compute it only once.
    kernel : Kernel or callable
        As in `blockbasis.factorize`.
    client : distributed.Client, default=None
        None is the default client.
    tol, memory, n_clusters, rank, diagonal, dtype, rng, n_jobs
        As in `blockbasis.factorize` for rows on disk; threads are those of this process.

    Returns
    -------
    DistributedBlockBasis

    Raises
    ------
    WorkersLostError
        If the workers die, or run out of memory, more often than dask tolerates.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import blockbasis as bb
    >>> from distributed import Client
    >>> from blockbasis.distributed import factorize
    >>> X = da.from_array(np.random.default_rng(0).normal(size=(2000, 2)), chunks=(500, 2))
    >>> with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
    ...     A = factorize(X, bb.Gaussian(2.0), client, n_clusters=4, rank=20, rng=0)
    ...     local = A.to_local()
    >>> local
    BlockBasis(2000 x 2000, U C Uᵀ, 4 clusters, ranks 20 to 20, 21.6 floats per point, float64)
    """
    client = checked_client(client, caller="factorize")
    rows = DaskRows(X, client)
    goal = {"tol": tol, "memory": memory, "rank": rank, "ridge": None, "n_clusters": n_clusters}
    chosen = check_dtype(dtype, name="dtype", caller="factorize") or np.dtype(np.float64)
    with elsewhere(Spread(client)):
        found = sample_functions(
            api.factorize, rows, kernel, goal, diagonal=diagonal, dtype=chosen, rng=rng, n_jobs=n_jobs, progress=False
        )
    parts = evaluated_parts(rows, found.functions, sent(client, "functions", found.functions.lean()), chosen)
    found.warn()
    return DistributedBlockBasis(parts, bool(diagonal), found.estimate)
