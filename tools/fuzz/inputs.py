"""Public calls with points, kernels and numbers of all kinds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from blockbasis.exceptions import AccuracyWarning, PerformanceWarning
from tools.fuzz.arguments import random_kernel, random_points
from tools.fuzz.calls import CALLS, Given
from tools.fuzz.case import Case

#: How a call may refuse; everything else is an error of the package.
REFUSALS = (ValueError, TypeError, MemoryError, np.linalg.LinAlgError)

#: Warnings that a result may not be what was asked for.
TOLD = (AccuracyWarning, PerformanceWarning, ConvergenceWarning)


def inputs(rng: np.random.Generator, folder: Path) -> Iterator[Case]:
    """Public calls with points, kernels and numbers of all kinds."""
    names = list(CALLS)
    while True:
        points, X = random_points(rng)
        kernel_name, kernel, reference = random_kernel(rng)
        given = Given(
            X=X,
            kernel=kernel,
            reference=reference,
            n_clusters=int(rng.integers(1, 6)),
            rank=int(rng.integers(1, 50)),
            seed=int(rng.integers(2**31)),
            scale=float(10.0 ** rng.uniform(-200, 200)),
            folder=folder,
        )
        name = names[int(rng.integers(len(names)))]
        outcome, wrong = calling(lambda: CALLS[name](given))  # noqa: B023 (called at once)
        yield outcome, wrong if wrong is None else f"{name}, {points} points, {kernel_name}, {given}: {wrong}"


def calling(call: Callable[[], Any]) -> Case:
    """Whether a call is right, warned or refused, and what is wrong with it.

    Wrong is an error that is no refusal, a stray warning, or a result that is not right and comes without a warning.
    """
    outcome = "right"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            wrong = call()
        except REFUSALS:
            outcome, wrong = "refused", None
        except Exception as error:  # noqa: BLE001
            return "failed", f"{type(error).__name__}: {error}"
    stray = [each for each in caught if issubclass(each.category, RuntimeWarning)]
    if stray:
        return "failed", f"stray warning: {stray[0].message}"
    if any(issubclass(each.category, TOLD) for each in caught):
        return "warned", None
    return (outcome, None) if not wrong else ("failed", str(wrong))
