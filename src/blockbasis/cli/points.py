"""Points of a file and the kernel between them, for the commands that compress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from blockbasis import datasets, kernels
from blockbasis._utils.typing import FloatArray
from blockbasis.cli.options import KernelName, target_number
from blockbasis.estimators._base import median_distance
from blockbasis.streaming.sources import ParquetRows
from blockbasis.tables.reading import check_file

_CLASSES: dict[KernelName, Any] = {
    KernelName.gaussian: kernels.Gaussian,
    KernelName.laplacian: kernels.Laplacian,
    KernelName.matern: kernels.Matern,
    KernelName.cauchy: kernels.Cauchy,
    KernelName.inverse_multiquadric: kernels.InverseMultiquadric,
    KernelName.rational_quadratic: kernels.RationalQuadratic,
}


def read_points(file: Path, target: str | None) -> FloatArray:
    """Return the points of a file, without the column of the target."""
    check_file(file)
    return datasets.load_file(file, target=target_number(target)).X


def read_rows(folder: Path, target: str | None) -> ParquetRows:
    """Return the rows of a directory of Parquet files, without the column of the target."""
    rows = ParquetRows(folder)
    if target is None:
        return rows
    if target not in rows.columns:
        raise ValueError(f"{folder} has no column {target!r}. Its columns are {', '.join(rows.columns)}.")
    return ParquetRows(folder, columns=[name for name in rows.columns if name != target])


def make_kernel(name: KernelName, bandwidth: float | None, X: FloatArray, *, raw: bool) -> tuple[Any, float]:
    """Return the kernel and the bandwidth in scaled columns.

    Scaling the columns to standard deviation 1 is a bandwidth of h times the standard deviation for each column, so
    that the saved factorization accepts points as they are in the file.

    Parameters
    ----------
    name : KernelName
    bandwidth : float or None
        None is the median distance between two points.
    X : ndarray of shape (n, d)
    raw : bool
        Whether the bandwidth refers to the columns as they are.

    Returns
    -------
    kernel : Kernel
    bandwidth : float
    """
    scale = np.ones(X.shape[1]) if raw else np.std(X, axis=0, dtype=np.float64)
    scale = np.where(scale > 0, scale, 1.0)
    if bandwidth is None:
        bandwidth = float(f"{median_distance(X / scale, np.random.default_rng(0)):.3g}")
    return _CLASSES[name](bandwidth if (scale == scale[0]).all() and scale[0] == 1 else bandwidth * scale), bandwidth
