"""Running an experiment part by part, and going on where an earlier run stopped."""

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

#: Bytes that a part may take at its height: some dense matrices of ten thousand points.
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
    """Measure what an experiment shows.

    With a folder, each part is written to ``NAME.json`` there as it is finished, and a part that is in that file
    already, with the same settings, is not run again: an interrupted run goes on where it stopped. A part whose data
    set is not at hand is left out, with a warning that says why. The random numbers of a part depend on its settings
    and the seed alone.

    Parameters
    ----------
    experiment : Experiment
    quick : bool, default=False
        Smaller and fewer parts.
    parts : sequence of dict, default=None
        Settings to run instead of the experiment's own.
    folder : Path, default=None
        Created where there is none.
    seed : int, default=0
    n_processes : int, default=1
        Parts that are measured at a time, each in its own process; one after the other where time is what is measured.

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
    # The largest data sets come last: beginning with them, no process is left with a long part at the end.
    order = list(wanted.items()) if at_a_time == 1 else list(wanted.items())[::-1]

    def left() -> Iterator[Settings]:
        for key, settings in order:
            if key in known or settings.get("data") in missing:
                count()
            else:
                yield settings

    for settings, found in _attempts(experiment, left(), at_a_time):
        if isinstance(found, Part):
            known[_key(settings)] = found
            _keep(path, known)
        elif settings["data"] not in missing:
            warnings.warn(f"{experiment.name} goes without {settings['data']}: {found}", stacklevel=2)
            missing.append(settings["data"])
        count()
    result = Result(experiment, tuple(known[key] for key in wanted if key in known), tuple(missing))
    if folder is not None:
        _keep(path, known, missing)  # all parts that were there, of other settings too
        if result.parts:
            result.save_csv(folder)
    return result


def read(experiment: Experiment, folder: Path, *, quick: bool = False, seed: int = 0) -> Result | None:
    """The result of an earlier run that came to its end.

    Parameters
    ----------
    experiment : Experiment
    folder : Path
    quick : bool, default=False
    seed : int, default=0

    Returns
    -------
    Result or None

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
    """Settings of all parts, by what tells them apart."""
    return {_key({**settings, "seed": seed}): {**settings, "seed": seed} for settings in parts}


def _key(settings: Settings) -> str:
    return json.dumps(settings, sort_keys=True)


def _finished(path: Path | None) -> tuple[dict[str, Part], tuple[str, ...]]:
    parts, missing = ([], ()) if path is None else read_json(path)
    return {_key(part.settings): part for part in parts}, missing


def _keep(path: Path | None, parts: dict[str, Part], missing: Sequence[str] = ()) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        others, _ = _finished(path)  # another run may have written there meanwhile
        write_json(path, {**others, **parts}.values(), missing)


def processes() -> int:
    """Parts that this machine can measure at a time: one for each core, as far as its memory goes.

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


def _attempts(
    experiment: Experiment, left: Iterable[Settings], n_processes: int
) -> Iterator[tuple[Settings, Part | DatasetError]]:
    """Settings and what came of them, as they are finished."""
    if n_processes == 1:
        return (_attempt(experiment, settings) for settings in left)
    # Settings are taken up when a process is free: a data set that is missing is soon known to be.
    parallel = Parallel(n_jobs=n_processes, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)
    return iter(parallel(delayed(_attempt_in_process)(experiment, settings) for settings in left))


def _attempt_in_process(experiment: Experiment, settings: Settings) -> tuple[Settings, Part | DatasetError]:
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # the other cores have processes of their own
    return _attempt(experiment, settings)


def _attempt(experiment: Experiment, settings: Settings) -> tuple[Settings, Part | DatasetError]:
    try:
        return settings, _measured(experiment, settings)
    except DatasetError as error:
        return settings, error


def _measured(experiment: Experiment, settings: Settings) -> Part:
    key = hashlib.sha256(_key({"experiment": experiment.name, **settings}).encode()).digest()
    rng = np.random.default_rng(np.frombuffer(key, dtype=np.uint32))
    start = time.perf_counter()
    # As when processes share the cores: threads on matrices so small cost more than they save, and change last digits.
    with nullcontext() if experiment.timed else single_threaded():
        rows = experiment.measure(settings, rng)
    return Part(settings, time.time(), time.perf_counter() - start, tuple(rows), _measured_by())


@cache  # looking for versions among all that is installed takes longer than some parts
def _measured_by() -> str:
    software = ", ".join(f"{name} {version(name)}" for name in ("blockbasis", "numpy", "scipy", "scikit-learn"))
    return f"{software}, Python {platform.python_version()}, {os.cpu_count()} cores"
