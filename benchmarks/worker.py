"""One run in a process of its own: a job (JSON) from standard input, the result (JSON) as the last line printed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import measure
import numpy as np
from cases import Case
from data import forget_whole_data
from measure import Result, quietly, repeat, stopwatch
from peers import METHODS

import blockbasis as bb


def build(case: Case, method: str, threads: int, options: dict[str, Any], error: bool = True) -> Result:
    """Approximate the matrix of the case: times, product, peak memory, floats, error."""
    peer = METHODS[method]
    X = case.points()
    # Imports, compilation and first calls are nobody's time; a method may refuse so few points.
    with quietly(threads), contextlib.suppress(ValueError, RuntimeError, MemoryError):
        peer.build(X[:300], case, threads, **peer.small) @ np.ones(len(X[:300]))
    forget_whole_data()
    measure.forget_peak()
    result: Result = {"n": len(X), "d": X.shape[1], "data_mb": measure.peak_megabytes()}
    with quietly(threads) as messages:
        with stopwatch() as times:
            A = peer.build(X, case, threads, **options)
        v = np.random.default_rng(1).standard_normal(len(X))
        product = repeat(lambda: A @ v)
        result |= {"wall": times.wall, "cpu": times.cpu, "product_wall": product.wall, "product_cpu": product.cpu}
        result |= {"peak_mb": measure.peak_megabytes()} | facts(A, len(X))
        if method == "ours":
            result["digest"] = digest(A, len(X))
        if error:
            rows = peer.error_rows or measure.error_rows(len(X))
            found = bb.relative_error(A, X, case.kernel, n_rows=rows, rng=measure.ERROR_SEED)
            result |= {"error": found.value, "error_stderr": found.stderr}
    return result | {"warnings": messages}


def facts(A: Any, n: int) -> Result:
    """What a factorization says of itself; of other methods, the floats."""
    result: Result = {"stored": int(getattr(A, "stored", 0)), "floats": getattr(A, "stored", 0) / n}
    if isinstance(A, bb.BlockBasis):
        in_bases = int(A.partition.sizes @ A.ranks)
        passed = sum(
            size * len(own.points)
            for size, rank, own in zip(A.partition.sizes, A.ranks, A.extensions, strict=True)
            if rank < size  # a cluster that is kept whole is not evaluated
        )
        result |= {
            "in_pass": int(passed),
            "clusters": A.n_clusters,
            "rank": in_bases / n,
            "entries": int(A.entries.total),
        }
        result |= {"estimate": None if A.error_estimate is None else A.error_estimate.value, "in_bases": in_bases}
    return result


def digest(A: Any, n: int) -> str:
    """Of products with two vectors, one BLAS thread: equal only for operators that are equal to the last bit."""
    V = np.random.default_rng(2).standard_normal((n, 2))
    with quietly(1):
        return hashlib.sha256(np.ascontiguousarray(A @ V).tobytes()).hexdigest()[:16]


def bandwidth(case: Case, threads: int, options: dict[str, Any]) -> Result:
    """Bytes a second of a product beside those of a copy, interleaved."""
    X = case.points()
    with quietly(threads):
        A = bb.factorize(X, case.kernel, rng=case.seed, n_jobs=threads, **options)
        v = np.random.default_rng(1).standard_normal(len(X))
        source = np.ones(32_000_000)
        target = np.empty_like(source)
        pairs = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
        products, copies = [], []
        with ThreadPoolExecutor(threads) as pool:
            for _ in range(7):
                with stopwatch() as times:
                    list(pool.map(lambda pair: np.copyto(*pair), pairs))
                copies.append(times.wall)
                with stopwatch() as times:
                    A @ v
                products.append(times.wall)
    found = facts(A, len(X))
    read = (found["stored"] + found["in_bases"]) * A.dtype.itemsize  # U twice; half of C and D once
    wall, copy = float(np.median(products)), float(np.median(copies))
    rate, copied = read / wall / 1e9, 2 * source.nbytes / copy / 1e9
    return found | {"n": len(X), "wall": wall, "gb_per_s": rate, "copy_gb_per_s": copied, "share": rate / copied}


TASKS = {"build": build, "bandwidth": bandwidth}


def main() -> None:
    job = json.load(sys.stdin)
    task, case = TASKS[job.pop("task")], Case(**job.pop("case"))
    print(json.dumps(task(case, **job)))


if __name__ == "__main__":
    main()
