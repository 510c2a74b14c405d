"""Attack the package with random files, inputs, tolerances, threads and kills, and count what goes wrong.

    python tools/fuzz.py                      five minutes, all suites
    python tools/fuzz.py files --minutes 30   one suite, longer
    python tools/fuzz.py --seed 7             other cases

A case fails where the package does something else than to give the right result, to warn, or to refuse with a message
of its own. The same seed makes the same cases, one after the other; time only decides how many of them there are.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info

import blockbasis as bb
from blockbasis.exceptions import AccuracyWarning, PerformanceWarning
from blockbasis.operators.archive import read_archive, write_archive

#: What a case is called, and what went wrong with it; None where nothing did.
Case = tuple[str, str | None]
#: How a call may refuse; everything else is an error of the package.
REFUSALS = (ValueError, TypeError, MemoryError, np.linalg.LinAlgError)
#: Shares of the time.
SHARES = {"files": 0.25, "kills": 0.15, "inputs": 0.3, "tolerances": 0.2, "threads": 0.1}


# --- files -----------------------------------------------------------------------------------------------------------


def files(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Files that were corrupted, forged with a digest that fits, or made to take memory."""
    saved = _saved_objects(folder)
    hostile = list(_hostile(folder))
    while True:
        path, expected = saved[int(rng.integers(len(saved)))]
        target = folder / "case.bbf"
        for _ in range(10):
            target.write_bytes(_corrupted(path.read_bytes(), rng))
            yield "corrupted", _loading(target, expected)
        what = _forge(path, target, rng)
        found = _loading(target, expected)
        yield "forged", found if found is None else f"{what}: {found}"
        if hostile:
            yield "hostile", _loading(hostile.pop(), None)


def _use(loaded: Any) -> bytes:
    """What a loaded object gives, bit by bit."""
    if hasattr(loaded, "predict"):
        return np.asarray(loaded.predict(np.linspace(-1, 1, 10).reshape(5, 2))).tobytes()
    return np.asarray(loaded.todense()).tobytes()


def _saved_objects(folder: Path) -> list[tuple[Path, bytes]]:
    X = np.random.default_rng(0).normal(size=(60, 2))
    A = bb.factorize(X, bb.Gaussian(0.5), n_clusters=4, rank=5, cutoff=0.1, rng=0)
    settings: dict[str, Any] = {"n_clusters": 3, "rank": 6, "random_state": 0}
    objects = {
        "factorization": A,
        "extension": A.extend(X[:7]),
        "ridge": bb.KernelRidge(**settings).fit(X, X[:, 0]),
        "classifier": bb.KernelRidgeClassifier(**settings).fit(X, np.where(X[:, 0] > 0, "right", "left")),
        "process": bb.GaussianProcessRegressor(**settings).fit(X, X[:, 0]),
    }
    for name, each in objects.items():
        bb.save(each, folder / name)
    return [(folder / name, _use(each)) for name, each in objects.items()]


def _loading(path: Path, expected: bytes | None) -> str | None:
    try:
        found = _use(bb.load(path))
    except bb.StorageError:
        return None
    except Exception as error:  # noqa: BLE001 (that it is not one of ours is what is looked for)
        return f"{type(error).__name__}: {error}"
    return None if found == expected else "another result"


def _corrupted(data: bytes, rng: np.random.Generator) -> bytes:
    place = int(rng.integers(len(data)))
    length = int(2 ** rng.uniform(0, 10))
    kind = rng.integers(5)
    if kind == 0:
        return data[:place]
    if kind == 1:
        return data[:place] + rng.bytes(length) + data[place:]
    if kind == 2:
        return data[:place] + data[place + length :]
    if kind == 3:
        return data[:place] + bytes(length) + data[place + length :]
    return data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]


def _forge(path: Path, target: Path, rng: np.random.Generator) -> str:
    """Write a copy that has one thing in it that cannot be, and a digest that fits; says what."""
    meta, arrays = read_archive(path)
    del meta["arrays"]
    if rng.random() < 0.6:
        name = str(rng.choice(sorted(arrays)))
        array = arrays[name]
        changes: list[Callable[[], Any]] = [
            lambda: array[:-1],
            lambda: array[..., None],
            lambda: array.astype(np.float16),
            lambda: array.astype(np.int8),
            lambda: np.full(array.shape, np.nan),
            lambda: np.full_like(array, -(2**40)) if array.dtype.kind == "i" else np.full_like(array, np.inf),
            lambda: np.empty(0),
            lambda: None,
        ]
        kind = int(rng.integers(len(changes)))
        with np.errstate(all="ignore"):
            changed = changes[kind]()
        arrays = {**arrays, name: changed} if changed is not None else {k: v for k, v in arrays.items() if k != name}
        what = f"{name} by change {kind}"
    else:
        what = _forge_metadata(meta, rng)
    with open(target, "wb") as stream:
        write_archive(stream, meta, arrays)
    return what


def _forge_metadata(meta: dict[str, Any], rng: np.random.Generator) -> str:
    """Replace a value somewhere in the metadata by one of another type, or leave it out."""
    place: Any = meta
    path = []
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[int(rng.integers(len(keys)))]
        path.append(key)
        if not isinstance(place[key], (dict, list)) or not place[key] or rng.random() < 0.3:
            break
        place = place[key]
    if isinstance(place, dict) and rng.random() < 0.3:
        del place[key]
        return f"{path} left out"
    value: Any = [None, "other", -1, [], {}, [[1]], True][int(rng.integers(7))]
    place[key] = value
    return f"{path} = {value!r}"


def _hostile(folder: Path) -> Iterator[Path]:
    """Small files that would take much memory or much time, and files that are none."""
    meta = {"format": "blockbasis", "version": 2, "kind": "BlockBasis", "arrays": ["a"], "digest": "0"}
    huge = [f"<U{2**k}" for k in range(20, 29)] + [f"|V{2**k}" for k in range(20, 30)] + ["|O", "<f16", "<c16"]
    for i, dtype in enumerate(huge):
        yield _archive(folder / f"dtype{i}", meta, f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': (9,)}}\n")
    for i in range(12):
        shape = (10 ** (i + 4), 1 + i % 3)
        text = f"{{'descr': '<f8', 'fortran_order': {bool(i % 2)}, 'shape': {shape}}}\n"
        yield _archive(folder / f"shape{i}", meta, text)
    for i, count in enumerate([10**5, 10**6, 3 * 10**6, 10**7]):
        for j, text in enumerate(["[]", "{}", "[[]]", '{"a":0}']):
            path = folder / f"json{i}{j}"
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if j % 2 else zipfile.ZIP_STORED) as file:
                file.writestr("meta.json", '{"format": "blockbasis", "x": [' + (text + ",") * count + "0]}")
            yield path
    deep = folder / "deep"
    with zipfile.ZipFile(deep, "w") as file:
        file.writestr("meta.json", "[" * 500_000 + "]" * 500_000)
    yield deep
    for name in ("/dev/zero", "/dev/full", "/dev/random"):
        link = folder / name.replace("/", "_")
        link.symlink_to(name)
        yield link
    os.mkfifo(folder / "fifo")
    yield folder / "fifo"
    many = folder / "many"
    with zipfile.ZipFile(many, "w") as file:
        for i in range(50_000):
            file.writestr(str(i), b"")
    yield many


def _archive(path: Path, meta: dict[str, Any], header: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("meta.json", json.dumps(meta))
        file.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(72))
    return path


# --- kills -----------------------------------------------------------------------------------------------------------


def kills(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Processes that are killed while they save."""
    X = np.random.default_rng(0).normal(size=(400, 3))
    both = [bb.factorize(X, bb.Gaussian(h), n_clusters=5, rank=20, rng=0) for h in (1.0, 2.0)]
    known = {_use(each) for each in both}
    path = folder / "target.bbf"
    bb.save(both[0], path)
    while True:
        delay = float(rng.uniform(0, 0.02))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks of a process with threads
            child = os.fork()
        if child == 0:
            try:
                while True:
                    bb.save(both[1], path)
                    bb.save(both[0], path)
            finally:
                os._exit(1)
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        wrong = None if os.WIFSIGNALED(status) else "the save failed"
        if wrong is None and _use(bb.load(path)) not in known:
            wrong = "the file was lost"
        bb.save(both[0], path)
        if wrong is None and os.listdir(folder) != [path.name]:
            wrong = f"left over: {os.listdir(folder)}"
        yield "kills", wrong


# --- inputs ----------------------------------------------------------------------------------------------------------


def inputs(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Public calls with points, kernels and numbers of all kinds."""
    while True:
        points, X = _points(rng)
        kernel_name, kernel = _kernel(rng)
        name, call = _calls(rng, folder)[int(rng.integers(len(_calls(rng, folder))))]
        found = _calling(lambda call=call, X=X, kernel=kernel: call(X, kernel))
        yield name, found if found is None else f"{points} points, {kernel_name}: {found}"


def _calling(call: Callable[[], Any]) -> str | None:
    """What is wrong with a call: an error that is no refusal, a stray warning, or a result that is not right."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            wrong = call()
        except REFUSALS:
            return None
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}"
    stray = [each for each in caught if issubclass(each.category, RuntimeWarning)]
    if stray:
        return f"stray warning: {stray[0].message}"
    told = any(issubclass(each.category, (AccuracyWarning, PerformanceWarning, ConvergenceWarning)) for each in caught)
    return None if told or not wrong else str(wrong)


def _points(rng: np.random.Generator) -> tuple[str, Any]:
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d))
    kinds: dict[str, Callable[[], Any]] = {
        "normal": lambda: X,
        "float32": lambda: X.astype(np.float32),
        "whole": lambda: np.round(3 * X).astype(int),
        "equal": lambda: np.repeat(X[:1], n, axis=0),
        "repeated": lambda: X[rng.integers(n, size=n)],
        "constant column": lambda: np.column_stack((X, np.ones(n))),
        "far": lambda: X + 10.0 ** rng.uniform(0, 12),
        "scaled": lambda: X * 10.0 ** rng.uniform(-170, 140),
        "outlier": lambda: np.concatenate((X, np.full((1, d), 10.0 ** rng.uniform(2, 14)))),
        "heavy": lambda: rng.standard_cauchy(size=(n, d)),
        "NaN": lambda: np.where(rng.random((n, d)) < 0.1, np.nan, X),
        "infinite": lambda: np.where(rng.random((n, d)) < 0.1, np.inf, X),
        "empty": lambda: X[:0],
        "without columns": lambda: X[:, :0],
        "one-dimensional": lambda: X[:, 0],
        "three-dimensional": lambda: X[None],
        "list": lambda: X.tolist(),
        "columns first": lambda: np.asfortranarray(X),
        "strided": lambda: np.repeat(X, 2, axis=0)[::2],
        "words": lambda: X.astype(str),
        "complex": lambda: X + 1j,
        "objects": lambda: X.astype(object),
        "truth": lambda: X > 0,
        "nothing": lambda: None,
        "read-only": lambda: _read_only(X.copy()),
    }
    name = str(rng.choice(list(kinds)))
    return name, kinds[name]()


def _read_only(X: Any) -> Any:
    X.setflags(write=False)
    return X


def _kernel(rng: np.random.Generator) -> tuple[str, Any]:
    h = float(10.0 ** rng.uniform(-3, 3))
    kinds: list[Any] = [
        bb.Gaussian(h),
        bb.Laplacian(h),
        bb.Matern(h, nu=2.5),
        bb.Cauchy(h),
        2.0 * bb.Gaussian(h) + bb.Laplacian(1.0),
        bb.Gaussian(h) * bb.Cauchy(1.0) + bb.White(0.1),
        float(10.0 ** rng.uniform(-300, 300)) * bb.Gaussian(h),
        bb.Gaussian(float(10.0 ** rng.uniform(-300, 300))),
        bb.Gaussian([h, 1.0]),
        "gaussian",
        3,
    ]
    kernel = kinds[int(rng.integers(len(kinds)))]
    return repr(kernel), kernel


def _calls(rng: np.random.Generator, folder: Path) -> list[tuple[str, Callable[[Any, Any], str | None]]]:
    k, rank, seed = int(rng.integers(1, 6)), int(rng.integers(1, 50)), int(rng.integers(2**31))
    scale = float(10.0 ** rng.uniform(-200, 200))

    def factored(X: Any, kernel: Any) -> bb.BlockBasis:
        return bb.factorize(X, kernel, n_clusters=min(k, len(X)), rank=rank, rng=seed)

    def entries(X: Any, kernel: Any) -> str | None:
        if not isinstance(kernel, bb.kernels.Kernel):
            raise TypeError
        K = kernel(X)
        if not np.isfinite(K).all():
            return "entries that are not finite"
        return None if np.array_equal(K, K.T) else "not symmetric"

    def products(X: Any, kernel: Any) -> str | None:
        A = factored(X, kernel)
        error, estimate = _distance(A.todense(), kernel(X)), bb.relative_error(A, X, kernel).value
        return None if abs(error - estimate) <= 1e-6 + 0.01 * error else f"error {error}, reported {estimate}"

    def tolerance(X: Any, kernel: Any) -> str | None:
        error = _distance(bb.factorize(X, kernel, tol=1e-2, rng=seed).todense(), kernel(X))
        return None if error <= 1.05e-2 else f"error {error} above 1e-2"

    def systems(X: Any, kernel: Any) -> str | None:
        A = factored(X, kernel)
        b = scale * np.linspace(1, 2, A.shape[0])
        for method in ("direct", "cg", "minres"):
            found = bb.solve(A, b, 0.1, method=method)
            left = A.todense().astype(float) @ (found.x / scale) + 0.1 * found.x / scale - b / scale
            if found.converged and not np.linalg.norm(left) <= 1e-6 * np.linalg.norm(b / scale):
                return f"{method} claims convergence"
        return None

    def eigenvalues(X: Any, kernel: Any) -> str | None:
        A = factored(X, kernel)
        count = min(3, A.shape[0], int(A.ranks.sum()))
        values = bb.eigh(A, count).values
        exact = np.linalg.eigvalsh(A.todense().astype(float))[::-1][:count]
        return None if np.abs(values - exact).max() <= 1e-6 * abs(exact[0]) else f"{values}, not {exact}"

    def files(X: Any, kernel: Any) -> str | None:
        A = factored(X, kernel)
        bb.save(A, folder / "input.bbf")
        return None if _use(bb.load(folder / "input.bbf")) == _use(A) else "another operator was loaded"

    def fitted(make: Callable[..., Any]) -> Callable[[Any, Any], str | None]:
        def call(X: Any, kernel: Any) -> str | None:
            model = make(kernel=kernel, random_state=seed % 1000)
            model.fit(X, scale * np.linspace(0, 1, len(X)))
            values = model.predict(X) if hasattr(model, "predict") else model.transform(X)
            return None if np.isfinite(np.asarray(values)).all() else "predictions that are not finite"

        return call

    return [
        ("entries", entries),
        ("products", products),
        ("tolerance", tolerance),
        ("systems", systems),
        ("eigenvalues", eigenvalues),
        ("saving", files),
        ("KernelRidge", fitted(bb.KernelRidge)),
        ("GaussianProcessRegressor", fitted(bb.GaussianProcessRegressor)),
        ("KernelPCA", fitted(bb.KernelPCA)),
        ("BlockBasisFeatures", fitted(bb.BlockBasisFeatures)),
    ]


def _distance(A: Any, K: Any) -> float:
    A, K = np.asarray(A, dtype=float), np.asarray(K, dtype=float)
    scale = np.abs(K).max(initial=0.0) or 1.0
    return float(np.linalg.norm((A - K) / scale) / np.linalg.norm(K / scale))


# --- tolerances ------------------------------------------------------------------------------------------------------

DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int, int], Any]] = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "uniform": lambda rng, n, d: rng.random((n, d)),
    "mixture": lambda rng, n, d: rng.normal(size=(n, d)) + 5 * rng.integers(-2, 3, size=(n, 1)),
    "heavy tails": lambda rng, n, d: rng.standard_t(2, size=(n, d)),
    "Cauchy": lambda rng, n, d: rng.standard_cauchy(size=(n, d)),
    "line": lambda rng, n, d: np.outer(rng.random(n), np.ones(d)) + 1e-3 * rng.normal(size=(n, d)),
    "sphere": lambda rng, n, d: (x := rng.normal(size=(n, d))) / np.linalg.norm(x, axis=1, keepdims=True),
    "grid": lambda rng, n, d: np.round(2 * rng.normal(size=(n, d))),
    "near duplicates": lambda rng, n, d: (
        rng.normal(size=(n, d))[rng.integers(n // 10 + 1, size=n)] + 1e-6 * rng.normal(size=(n, d))
    ),
    "outlier": lambda rng, n, d: np.concatenate((rng.normal(size=(n - 1, d)), np.full((1, d), 1e8))),
}


def tolerances(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Factorizations to a tolerance, whose true error is computed."""
    while True:
        for name, draw in DISTRIBUTIONS.items():
            n, d = int(200 * 10 ** rng.uniform(0, 0.9)), int(rng.integers(1, 10))
            X = draw(rng, n, d)
            kernel = [bb.Gaussian, bb.Laplacian, bb.Cauchy][int(rng.integers(3))](float(10 ** rng.uniform(-0.7, 0.7)))
            tol = float(10 ** rng.uniform(-4, -1))
            start = time.perf_counter()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                A = bb.factorize(X, kernel, tol=tol, rng=0)
            seconds = time.perf_counter() - start
            told = any(issubclass(each.category, AccuracyWarning) for each in caught)
            error = bb.relative_error(A, X, kernel).value
            wrong = f"error {error:.3g} for {tol:.3g}" if not told and not error <= 1.05 * tol else None
            if seconds > 120:
                wrong = f"{seconds:.0f} s"
            yield name, wrong if wrong is None else f"{wrong}: n = {n}, d = {d}, {kernel!r}"


# --- threads ---------------------------------------------------------------------------------------------------------


def threads(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Four Python threads that factorize at once."""
    X = rng.normal(size=(1000, 2))

    def work(seed: int) -> bytes:
        A = bb.factorize(X, bb.Gaussian(0.5), tol=1e-2, rng=seed)
        return b"".join(factor.tobytes() for factor in (A.basis.values, *A.inner.panels))

    def limits() -> list[int]:
        return sorted(pool["num_threads"] for pool in threadpool_info())

    work(0)
    before, start = limits(), time.perf_counter()
    alone = [work(seed) for seed in range(4)]
    serial = time.perf_counter() - start
    with ThreadPoolExecutor(4) as pool:
        while True:
            start = time.perf_counter()
            together = list(pool.map(work, range(4)))
            seconds = time.perf_counter() - start
            wrong = None if together == alone else "other factors"
            if limits() != before:
                wrong = f"limits {limits()}, before {before}"
            if seconds > 1.3 * serial:
                wrong = f"{seconds:.2f} s, and {serial:.2f} s one after the other"
            yield "threads", wrong


# --- the run ---------------------------------------------------------------------------------------------------------

SUITES: dict[str, Callable[[np.random.Generator, Path], Iterator[Case]]] = {
    "files": files,
    "kills": kills,
    "inputs": inputs,
    "tolerances": tolerances,
    "threads": threads,
}


def run(suite: str, seed: int, seconds: float, most: int | None = None) -> list[Case]:
    """Cases of a suite until the time is over, or ``most`` of them."""
    folder, cases, end = Path(tempfile.mkdtemp()), list[Case](), time.perf_counter() + seconds
    try:
        for case in SUITES[suite](np.random.default_rng(seed), folder):
            cases.append(case)
            if time.perf_counter() > end or len(cases) == most:
                return cases
    finally:
        shutil.rmtree(folder)
    return cases


def main() -> int:
    """Run the suites, and print what was counted and what failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", help="all of them where none is named")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chosen = given.suites or list(SUITES)
    if not set(chosen) <= set(SUITES):
        parser.error(f"suites are {', '.join(SUITES)}")
    total = sum(SHARES[suite] for suite in chosen)
    failed = 0
    for suite in chosen:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cases = run(suite, given.seed, 60 * given.minutes * SHARES[suite] / total)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
        kinds = sorted({kind for kind, _ in cases})
        counts = ", ".join(f"{sum(kind == each for each, _ in cases)} {kind}" for kind in kinds)
        wrong = [f"{kind}: {what}" for kind, what in cases if what is not None]
        print(f"{suite}: {len(cases)} cases, {len(wrong)} failures, peak memory grew by {grown:.0f} MB ({counts})")
        for each in wrong[:20]:
            print(f"    {each}")
        failed += len(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
