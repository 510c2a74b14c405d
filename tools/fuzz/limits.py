"""Calls in processes with a limited address space: done or refused, never killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from tools.fuzz.case import Case

MEGABYTES = (300, 500, 1_000)
#: A limit holds from the start, imports included, or is what the imports leave free.
FROM_THE_START, BESIDE_IMPORTS = "in all", "beside imports"
CALLS = {
    "tolerance": "A = bb.factorize(X, bb.Gaussian(2.0), tol=1e-2, rng=0); A @ X",
    "ranks": "A = bb.factorize(X, bb.Gaussian(2.0), n_clusters=20, rank=400, rng=0); A @ X",
    "solve": "bb.solve(bb.factorize(X, bb.Laplacian(2.0), n_clusters=20, rank=100, rng=0), X[:, 0], 0.1)",
    "cross": "bb.factorize_cross(X[:9000], X, bb.Gaussian(1.0), n_clusters=10, rank=200, rng=0) @ X",
    "ridge": "bb.KernelRidge(bandwidth=1.0, random_state=0).fit(X, X[:, 0]).predict(X)",
    "process": "bb.GaussianProcessRegressor(bandwidth=1.0, random_state=0).fit(X, X[:, 0]).predict(X)",
}
_CHILD = """
import resource, sys
megabytes, beside = int(sys.argv[1]), sys.argv[2] == "beside imports"
limit = lambda size: resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
if not beside:
    limit(megabytes * 10**6)
class WithoutArrow:  # old versions of pandas import pyarrow, whose allocator ends the process under a limit
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, WithoutArrow())
try:
    import warnings
    import numpy as np
    import blockbasis as bb
    warnings.simplefilter("ignore")
    if beside:
        limit(int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + megabytes * 10**6)
    X = np.random.default_rng(int(sys.argv[3])).normal(size=(20_000, 5))
    exec(sys.argv[4])
except (MemoryError, ImportError) as error:
    sys.exit(77)
"""


def limits(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Each call under each limit."""
    while True:
        for name, megabytes, kind in product(CALLS, MEGABYTES, (FROM_THE_START, BESIDE_IMPORTS)):
            given = [str(megabytes), kind, str(rng.integers(1000)), CALLS[name]]
            child = subprocess.run([sys.executable, "-c", _CHILD, *given], capture_output=True, text=True, check=False)
            outcome = {0: "done", 77: "refused"}.get(child.returncode)
            said = child.stderr.strip().splitlines()[-1:]
            wrong = None if outcome else f"{name}, {megabytes} MB {kind}: exit {child.returncode}, {said}"
            yield f"{megabytes} MB {kind} {outcome or 'ended'}", wrong
