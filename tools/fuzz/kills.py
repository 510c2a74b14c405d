"""Processes that are killed while they save."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import blockbasis as bb
from tools.fuzz.case import Case, used


def kills(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Processes that are killed while they save."""
    X = np.random.default_rng(0).normal(size=(400, 3))
    both = [bb.factorize(X, bb.Gaussian(h), n_clusters=5, rank=20, rng=0) for h in (1.0, 2.0)]
    known = {used(each) for each in both}
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
        if wrong is None and used(bb.load(path)) not in known:
            wrong = "the file was lost"
        bb.save(both[0], path)
        if wrong is None and os.listdir(folder) != [path.name]:
            wrong = f"left over: {os.listdir(folder)}"
        yield "kills", wrong
