"""Execution of experiments part by part, with continuation of an interrupted run."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from joblib import Parallel, cpu_count, delayed

from blockbasis._utils.machine import available_memory
from blockbasis._utils.parallel import single_threaded
from blockbasis._utils.progress import counting
from blockbasis.datasets import DatasetError
from blockbasis.experiments.framework.base import Experiment, Part, Result, Settings, read_json, write_json

#: Largest memory of a part in bytes: six dense float64 matrices of ten thousand points.
_PART_BYTES = 5 * 2**30


def run(
    experiment: Experiment,
    *,
    quick: bool = False,
    parts: Sequence[Settings] | None = None,
    folder: Path | None = None,
    seed: int = 0,
    n_processes: int = 1,
) -> Result:
    """Run an experiment.

    If a folder is given, each finished part is written to the file ``NAME.json`` of the folder. Parts that the file
    already has, with the same settings, are not run again, so that an interrupted run continues where it stopped. Parts
    whose data set is not available are omitted with a warning. The random numbers of a part depend only on its settings
    and the seed.

    Parameters
    ----------
    experiment : Experiment
        Experiment to run.
    quick : bool, default=False
        Whether to run fewer and smaller parts.
    parts : sequence of dict, default=None
        Settings of the parts to run; None selects those of the experiment.
    folder : Path, default=None
        Folder of the results, which is created if it does not exist.
    seed : int, default=0
        Seed of the random numbers.
    n_processes : int, default=1
        Number of parts that run at the same time in separate processes. Experiments that measure time use 1.

    Returns
    -------
    Result

    Examples
    --------
    >>> from blockbasis.experiments import EXPERIMENTS, run
    >>> result = run(EXPERIMENTS["alternating"], parts=[{"clusters": 4, "n": 200, "repetitions": 1}])
    >>> len(result.parts)
    1
    """
    wanted = _with_seed(experiment.parts(quick) if parts is None else parts, seed)
    path = None if folder is None else folder / f"{experiment.name}.json"
    known, _ = _finished(path)
    count = counting(experiment.name, len(wanted))
    missing: list[str] = []
    at_a_time = 1 if experiment.timed else n_processes
    # The largest data sets are last. Starting with them, no process has a long part at the end.
    order = list(wanted.items()) if at_a_time == 1 else list(wanted.items())[::-1]

    def pending() -> Iterator[Settings]:
        for key, settings in order:
            if key in known or settings.get("data") in missing:
                count()
            else:
                yield settings

    for settings, found in _run_parts(experiment, pending(), at_a_time):
        if isinstance(found, Part):
            known[_key(settings)] = found
            _write_parts(path, known)
        elif settings["data"] not in missing:
            warnings.warn(f"{experiment.name} omits the data set {settings['data']}: {found}", stacklevel=2)
            missing.append(settings["data"])
        count()
    result = Result(experiment, tuple(known[key] for key in wanted if key in known), tuple(missing))
    if folder is not None:
        _write_parts(path, known, missing)  # with the parts of other settings that the file has
        if result.parts:
            result.save_csv(folder)
    return result


def read(experiment: Experiment, folder: Path, *, quick: bool = False, seed: int = 0) -> Result | None:
    """Read the result of a completed run.

    Parameters
    ----------
    experiment : Experiment
        Experiment of the result.
    folder : Path
        Folder of the results.
    quick : bool, default=False
        Whether the run was quick.
    seed : int, default=0
        Seed of the run.

    Returns
    -------
    Result or None
        None if the folder has no completed run.

    Examples
    --------
    >>> from pathlib import Path
    >>> from blockbasis.experiments import EXPERIMENTS, read
    >>> read(EXPERIMENTS["statistics"], Path("nowhere")) is None
    True
    """
    known, missing = _finished(folder / f"{experiment.name}.json")
    wanted = _with_seed(experiment.parts(quick), seed)
    if any(key not in known and settings.get("data") not in missing for key, settings in wanted.items()):
        return None
    return Result(experiment, tuple(known[key] for key in wanted if key in known), missing)


def _with_seed(parts: Sequence[Settings], seed: int) -> dict[str, Settings]:
    """Return the settings of all parts with the seed, by their key."""
    return {_key({**settings, "seed": seed}): {**settings, "seed": seed} for settings in parts}


def _key(settings: Settings) -> str:
    return json.dumps(settings, sort_keys=True)


def _finished(path: Path | None) -> tuple[dict[str, Part], tuple[str, ...]]:
    parts, missing = ([], ()) if path is None else read_json(path)
    return {_key(part.settings): part for part in parts}, missing


def _write_parts(path: Path | None, parts: dict[str, Part], missing: Sequence[str] = ()) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        others, _ = _finished(path)  # another run may have written to the file
        write_json(path, {**others, **parts}.values(), missing)


def processes() -> int:
    """Return the number of parts that can run at the same time: one for each core, limited by the memory.

    Returns
    -------
    int

    Examples
    --------
    >>> from blockbasis.experiments.framework.running import processes
    >>> processes() >= 1
    True
    """
    cores, free = int(cpu_count()), available_memory()
    return cores if free is None else max(1, min(cores, free // _PART_BYTES))


def _run_parts(
    experiment: Experiment, pending: Iterable[Settings], n_processes: int
) -> Iterator[tuple[Settings, Part | DatasetError]]:
    """Yield the settings of each part with the finished part, or with the error of its data set, as they complete."""
    if n_processes == 1:
        return (_run_part(experiment, settings) for settings in pending)
    # Settings are consumed when a process is free, so that parts of a missing data set are skipped early.
    parallel = Parallel(n_jobs=n_processes, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)
    return iter(parallel(delayed(_run_part_in_process)(experiment, settings) for settings in pending))


def _run_part_in_process(experiment: Experiment, settings: Settings) -> tuple[Settings, Part | DatasetError]:
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # the other processes use the other cores
    return _run_part(experiment, settings)


def _run_part(experiment: Experiment, settings: Settings) -> tuple[Settings, Part | DatasetError]:
    try:
        return settings, _measure_part(experiment, settings)
    except DatasetError as error:
        return settings, error


def _measure_part(experiment: Experiment, settings: Settings) -> Part:
    key = hashlib.sha256(_key({"experiment": experiment.name, **settings}).encode()).digest()
    rng = np.random.default_rng(np.frombuffer(key, dtype=np.uint32))
    start = time.perf_counter()
    # One thread, also with one process: threads slow down small matrices and change the last digits.
    with nullcontext() if experiment.timed else single_threaded():
        rows = experiment.measure(settings, rng)
    return Part(settings, time.time(), time.perf_counter() - start, tuple(rows), _software_and_machine())


@cache  # the lookup of versions takes longer than some parts
def _software_and_machine() -> str:
    software = ", ".join(f"{name} {version(name)}" for name in ("blockbasis", "numpy", "scipy", "scikit-learn"))
    return f"{software}, Python {platform.python_version()}, {os.cpu_count()} cores"
