"""Command plan: the cost of a factorization before it is computed."""

from __future__ import annotations

import blockbasis as bb
from blockbasis.cli import options
from blockbasis.cli.console import Output, progress_bars, running
from blockbasis.cli.points import make_kernel, read_points


def plan(
    file: options.File,
    kernel: options.Kernel = options.KernelName.gaussian,
    bandwidth: options.Bandwidth = None,
    tol: options.Tolerance = None,
    memory: options.Memory = None,
    dtype: options.DtypeName = options.DtypeName.float64,
    target: options.Target = None,
    raw: options.Raw = False,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Predict clusters, memory, error and seconds of compress, without computing the factorization."""
    output = Output(quiet, json, debug)
    goal = options.one_goal(tol, memory)
    with running(output):
        X = read_points(file, target).astype(dtype.value)
        chosen, h = make_kernel(kernel, bandwidth, X, raw=raw)
        with progress_bars(shown=output.verbose):
            budget = options.budget(memory, len(X))
            found = bb.plan(X, chosen, memory=budget, rng=seed, n_jobs=jobs, progress=output.verbose, **goal)
        output.say(f"{found}\n  bandwidth        {h:g}")
        output.finish(
            {
                "points": len(X),
                "bandwidth": h,
                "clusters": found.n_clusters,
                "ranks": [int(found.ranks.min()), int(found.ranks.max())],
                "floats_per_point": found.stored / len(X),
                "bytes": found.nbytes,
                "working_bytes": found.working_bytes,
                "entries": found.entries,
                "predicted_error": found.predicted_error,
                "seconds": found.seconds,
                "fitting_tol": found.fitting_tol,
            }
        )
