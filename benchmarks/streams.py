"""One run of a stream, or on dask workers, in a process of its own: a job (JSON) from standard input, as worker.py."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import measure
import numpy as np
from data import mixture, standardized
from measure import Result, stopwatch

import blockbasis as bb
from blockbasis.streaming import ArrayRows
from blockbasis.streaming.factorization import factorize_rows

#: Settings of all regressions; the size of the factorization is the default of a stream.
RIDGE = {"alpha": 0.1, "bandwidth": 3.0, "random_state": 0, "n_jobs": 1}
#: Columns of the table on disk, and those that the targets depend on.
COLUMNS, USED = 20, 8
PIECE = 100_000


def rows_of(n: int) -> tuple[Any, np.ndarray]:
    """Write a table of float32 to disk in pieces; return it as a memory map, with targets."""
    folder = tempfile.mkdtemp()
    path, y, rng = Path(folder) / "points.bin", np.empty(n), np.random.default_rng(0)
    scale = np.where(np.arange(COLUMNS) < USED, 1.0, 0.05).astype(np.float32)
    with path.open("wb") as file:
        for start in range(0, n, PIECE):
            X = rng.standard_normal((min(PIECE, n - start), COLUMNS), dtype=np.float32) * scale
            X.tofile(file)
            y[start : start + len(X)] = target(X, rng)
    array = np.memmap(path, dtype=np.float32, mode="r", shape=(n, COLUMNS))
    path.unlink()  # the map keeps the data
    os.rmdir(folder)
    return array, y


def target(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.sin(X[:, :USED]).sum(axis=1) + 0.1 * rng.standard_normal(len(X))


def fit_on_disk(n: int) -> Result:
    """Fit of a table on disk, then predictions of all rows: processor seconds and peak memory of each."""
    X, y = rows_of(n)
    measure.forget_peak()
    with stopwatch() as fitting:
        model = bb.KernelRidge(**RIDGE).fit(ArrayRows(X), y)
    peak = measure.peak_megabytes()
    state = model.stream_.functions
    del model.stream_  # predictions do not need the sums
    measure.forget_peak()
    with stopwatch() as predicting:
        predicted = model.predict(ArrayRows(X))
    return {
        "fit_cpu": fitting.cpu,
        "fit_peak_mb": peak,
        "predict_cpu": predicting.cpu,
        "predict_peak_mb": measure.peak_megabytes(),
        "rmse": float(np.sqrt(np.mean((predicted - y) ** 2))),
        "clusters": state.n_clusters,
        "rank": float(state.ranks.mean()),
    }


def fit_in_memory(n: int) -> Result:
    """The ordinary fit of the same points in memory, and differences of predictions from those of the table on disk."""
    on_disk, y = rows_of(n)
    X = np.array(on_disk)
    with stopwatch() as fitting:
        ordinary = bb.KernelRidge(**RIDGE).fit(X, y)
    streamed = bb.KernelRidge(**RIDGE).fit(ArrayRows(on_disk), y)
    same = bb.KernelRidge(**RIDGE).fit(ArrayRows(X), y)
    predicted = streamed.predict(X)
    return {
        "fit_cpu": fitting.cpu,
        "ordinary_rmse": float(np.sqrt(np.mean((ordinary.predict(X) - y) ** 2))),
        "rmse": float(np.sqrt(np.mean((predicted - y) ** 2))),
        "difference": float(np.abs(predicted - same.predict(X)).max()),
        "solver_difference": _solver_difference(streamed, X, y, predicted),
    }


def _solver_difference(model: Any, X: np.ndarray, y: np.ndarray, predicted: np.ndarray) -> float:
    """Largest difference from U C Uᵀ (U C Uᵀ + alpha)⁻¹ y in memory, at points that belong to one cluster alone."""
    rows = ArrayRows(X)
    functions = model.stream_.functions
    A = factorize_rows(functions, rows, dtype=np.float64, diagonal=False, workspace=None, n_jobs=1)
    fitted = A @ bb.solve(A, y, ridge=RIDGE["alpha"]).x
    largest = np.zeros(len(X))
    for _, own, weights in model.expansion_.blend.shares(X.astype(np.float64), functions.centers):
        largest[own] = np.maximum(largest[own], weights)
    return float(np.abs(fitted - predicted)[largest == 1].max())


def in_chunks(n: int, parts: int) -> Result:
    """`partial_fit` in parts beside one call, both with the basis of the first rows."""
    X, y = rows_of(n)
    X = np.array(X, dtype=np.float64)
    first = n // 5
    model = bb.KernelRidge(**RIDGE).partial_fit(X[:first], y[:first])
    once = copy.copy(model).partial_fit(X[first:], y[first:])
    for rows in np.array_split(np.arange(first, n), parts):
        model.partial_fit(X[rows], y[rows])
    return {"difference": float(np.abs(model.predict(X) - once.predict(X)).max())}


def stream(n: int, chunk: int) -> Result:
    """Resident memory over a stream of rows like those of Covertype: rows drawn from it, with a little noise."""
    source = standardized("covtype").astype(np.float32)
    rng = np.random.default_rng(0)
    model, resident = bb.KernelRidge(**RIDGE), []
    with stopwatch() as times:
        for _ in range(n // chunk):
            X = source[rng.integers(0, len(source), chunk)] + 0.01 * rng.standard_normal((chunk, source.shape[1]))
            model.partial_fit(X, np.sin(X[:, :USED]).sum(axis=1))
            resident.append(resident_megabytes())
    tenth = len(resident) // 10
    growth = max(resident[tenth:]) - resident[tenth]
    return {"cpu": times.cpu, "growth_mb": growth, "last_mb": resident[-1], "far_share": model.far_share_}


def resident_megabytes() -> float:
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1]) / 1e3


# --- dask ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def cluster(workers: int, **settings: Any) -> Iterator[Any]:
    """A client of a cluster of processes, which end with the context."""
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.scheduler.work-stealing": False})  # an idle worker would take points of a busy one
    own = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "silence_logs": 50} | settings
    with LocalCluster(n_workers=workers, **own) as running, Client(running) as client:
        yield client


def on_workers(n: int, d: int, workers: int, clusters: int, rank: int, blocks: int) -> Result:
    """Construction, product, solution and ridge regression on workers; bytes that moved between them."""
    from distributed import futures_of

    from blockbasis.distributed import DaskKernelRidge, factorize, predicted_costs

    size, settings = {"n_clusters": clusters, "rank": rank}, {"bandwidth": 0.5, "random_state": 0}
    found: Result = {}
    with cluster(workers) as client:
        points, targets = on_all_workers(client, n, d, blocks)
        with moving(client, found, "factorize"):
            A = factorize(points, bb.Gaussian(0.5), client, rng=0, **size)
        v = (A @ targets).persist()  # its blocks are where those of U are
        with moving(client, found, "product"):
            client.gather([client.submit(len, block) for block in futures_of((A @ v).persist())])
        with moving(client, found, "solve"):
            solution = A.solve(v, ridge=0.1)
        found["residual"] = solution.residual
        with moving(client, found, "fit"):
            model = DaskKernelRidge(0.1, client=client, **settings, **size).fit(points, targets)
        if n <= 200_000:
            X, y = (client.compute(each).result() for each in (points, targets))
            one = bb.factorize(ArrayRows(X), bb.Gaussian(0.5), rng=0, **size)
            reference = bb.KernelRidge(0.1, **settings, **size).fit(ArrayRows(X), y)
            found["product_difference"] = relative(A @ y, one @ y)
            found["fit_difference"] = relative(model.local_.predict(X), reference.predict(X))
    costs = predicted_costs(n, d, clusters, rank, workers)
    found |= {f"{stage}_predicted": value for stage, value in costs.moved.items()}
    return found


def on_all_workers(client: Any, n: int, d: int, blocks: int) -> Any:
    """Points of a mixture and random targets, in blocks that are dealt out to the workers in turn."""
    import dask.array as da
    from distributed import futures_of

    addresses, length = sorted(client.nthreads()), n // blocks
    places = [addresses[i % len(addresses)] for i in range(blocks)]
    made = [client.submit(mixture_part, length, d, i, workers=place) for i, place in enumerate(places)]
    others = [client.submit(normal_part, length, i, workers=place) for i, place in enumerate(places)]
    client.gather([client.submit(len, each) for each in made + others])
    points = [da.from_delayed(each, (length, d), np.float64) for each in made]
    targets = [da.from_delayed(each, (length,), np.float64) for each in others]
    both = client.persist([da.concatenate(points), da.concatenate(targets)])
    client.gather([client.submit(len, each) for each in futures_of(both)])
    return both


def mixture_part(n: int, d: int, seed: int) -> np.ndarray:
    """Normal clouds around ten centres, the same in all parts."""
    rng = np.random.default_rng(seed + 1)
    centers = np.random.default_rng(0).random((10, d))
    return centers[rng.integers(0, 10, n)] + 0.1 * rng.standard_normal((n, d))


def normal_part(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed + 1000).standard_normal(n)


@contextlib.contextmanager
def moving(client: Any, found: Result, stage: str) -> Iterator[None]:
    """Keep the seconds of a stage, and the bytes that moved between workers."""
    before = moved_bytes(client)
    with stopwatch() as times:
        yield
    found |= {f"{stage}_wall": times.wall, f"{stage}_moved": moved_bytes(client) - before}


def relative(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())


def moved_bytes(client: Any) -> float:
    """Bytes that workers have received from other workers, as they report."""

    def received(dask_worker: Any) -> int:
        return int(sum(entry["total"] for entry in dask_worker.transfer_incoming_log))

    return float(sum(client.run(received).values()))


def killed(kills: int) -> Result:
    """One of four workers is killed at a random moment of construction, product and solution, in turn."""
    import dask.array as da

    from blockbasis.distributed import factorize
    from blockbasis.distributed.client import WorkersLostError

    X, y, rng = mixture(200_000, 5), np.random.default_rng(1).standard_normal(200_000), np.random.default_rng(2)
    counts, longest = {"same": 0, "error": 0, "other": 0}, 0.0
    points, stages = da.from_array(X, chunks=(10_000, 5)), ("construction", "product", "solution")

    def work(client: Any, begin: Any) -> np.ndarray:
        begin("construction")
        A = factorize(points, bb.Gaussian(0.5), client, n_clusters=15, rank=40, rng=0)
        begin("product")
        product = A @ y
        begin("solution")
        return np.stack([product, A.solve(y, ridge=0.1).x])

    def killed_once(client: Any, stage: str, seconds: float) -> tuple[str, float]:
        """Kill a worker after a random part of the seconds of a stage; "late" if the work was done before."""
        victim = int(rng.choice(sorted(client.run(os.getpid).values())))
        timer = threading.Timer(rng.uniform(0, seconds), os.kill, (victim, signal.SIGKILL))
        start = time.monotonic()
        try:
            found = work(client, lambda begun: begun == stage and timer.start())
            kind = "same" if relative(found, expected) < 1e-8 else "other"
        except WorkersLostError:
            kind = "error"
        kind = "late" if timer.is_alive() else kind
        timer.cancel()
        return kind, time.monotonic() - start

    with cluster(4) as client:
        work(client, lambda stage: None)  # the workers import the package
        begun: dict[str, float] = {}
        expected = work(client, lambda stage: begun.setdefault(stage, time.monotonic()))
        moments = [begun[stage] for stage in stages] + [time.monotonic()]
    lengths = dict(zip(stages, np.diff(moments).tolist(), strict=True))
    while sum(counts.values()) < kills:
        with cluster(4) as client:
            while sum(counts.values()) < kills and all_are_back(client, 4):
                stage = stages[sum(counts.values()) % len(stages)]
                kind, seconds = killed_once(client, stage, lengths[stage])
                print(f"{stage}: {kind}, {seconds:.1f} s", file=sys.stderr, flush=True)
                if kind != "late":
                    longest = max(longest, seconds)
                    counts[kind] += 1
    return counts | {"longest": longest, "undisturbed": sum(lengths.values())}


def all_are_back(client: Any, workers: int) -> bool:
    """Whether so many workers run: on a busy machine, dask gives up to start another one for one that was killed."""
    with contextlib.suppress(TimeoutError):
        client.wait_for_workers(workers, timeout=30)
    return len(client.nthreads()) >= workers


def covertype() -> Result:
    """Whether a row of Covertype is of type 2, learnt from 80% of the rows: two workers beside one process."""
    import dask.array as da

    from blockbasis import datasets
    from blockbasis.distributed import DaskKernelRidge

    data = datasets.load("covtype")
    X = (data.X - data.X.mean(axis=0)) / np.where(data.X.std(axis=0) > 0, data.X.std(axis=0), 1)
    y = np.where(data.y == 2, 1.0, -1.0)
    order = np.random.default_rng(0).permutation(len(X))
    learn, test = order[:464_809], order[464_809:]
    settings = {"alpha": 0.1, "bandwidth": 3.0, "n_clusters": 100, "rank": 60, "random_state": 0}
    with stopwatch() as alone:
        one = bb.KernelRidge(**settings).fit(ArrayRows(X[learn]), y[learn])
    expected = one.predict(X[test])
    found = {"rows": len(learn), "one_error": wrong(expected, y[test]), "one_wall": alone.wall}
    print(found, file=sys.stderr, flush=True)
    with cluster(2) as client:
        arrays = da.from_array(X[learn], chunks=(50_000, X.shape[1])), da.from_array(y[learn], chunks=50_000)
        with stopwatch() as both:
            model = DaskKernelRidge(client=client, **settings).fit(*arrays)
        predicted = client.compute(model.predict(da.from_array(X[test], chunks=(50_000, X.shape[1])))).result()
    return found | {"error": wrong(predicted, y[test]), "difference": relative(predicted, expected), "wall": both.wall}


def wrong(values: np.ndarray, y: np.ndarray) -> float:
    """Share of the values whose sign is not that of the target."""
    return float(np.mean((values > 0) != (y > 0)))


def memory_limit() -> Result:
    """A worker of 500 MB with a block of 640 MB: the error, and its seconds."""
    import dask.array as da

    from blockbasis.distributed import factorize
    from blockbasis.distributed.client import WorkersLostError

    with cluster(1, memory_limit="500MB") as client:
        X = da.random.default_rng(0).normal(size=(10_000_000, 8), chunks=(10_000_000, 8))
        begun, message = time.monotonic(), ""
        try:
            factorize(X, bb.Gaussian(3.0), client, n_clusters=10, rank=20, rng=0)
        except (WorkersLostError, MemoryError) as error:
            message = str(error)
        return {"message": message, "seconds": time.monotonic() - begun}


TASKS = {
    "fit_on_disk": fit_on_disk,
    "fit_in_memory": fit_in_memory,
    "in_chunks": in_chunks,
    "stream": stream,
    "on_workers": on_workers,
    "killed": killed,
    "covertype": covertype,
    "memory_limit": memory_limit,
}


def main() -> None:
    job = json.load(sys.stdin)
    job.pop("threads")
    print(json.dumps(TASKS[job.pop("task")](**job)))


if __name__ == "__main__":
    main()
