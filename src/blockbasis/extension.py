"""How a cluster's basis continues to new points: from a few points whose columns span it, or come near."""

from __future__ import annotations

import numpy as np

from blockbasis._linalg import symmetric
from blockbasis._typing import FloatArray, IntArray
from blockbasis.directions import Columns
from blockbasis.matrix import KernelMatrix
from blockbasis.operators.extension import Extension as Extension
from blockbasis.sampling import important_columns

#: Points per unit of rank that a fitted extension takes, and candidates for each of them.
_POINTS_PER_RANK = 2.0
_POINT_CANDIDATES = 4
_PIVOT_OVERSAMPLING = 8
#: Singular values below this share of the largest are left out of an extension: they would amplify rounding. Columns
#: of points so far away that the kernel has vanished extend nothing.
_VANISHED = 1e-150
_AMPLIFIED = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-6}


def sampled_extension(
    matrix: KernelMatrix, columns: Columns, U: FloatArray, rows: IntArray, rng: np.random.Generator
) -> Extension:
    """Extension fitted to U by least squares, from sampled columns of large volume."""
    available = columns.points.shape[0]
    n_points = min(int(_POINTS_PER_RANK * U.shape[1]), available)
    among = np.sort(rng.choice(available, min(_POINT_CANDIDATES * n_points, available), replace=False))
    chosen = among[sketched_pivots(columns.values[np.ix_(rows, among)], n_points, rng)]
    block = (columns.values[:, chosen] / columns.scales[chosen]).astype(matrix.dtype, copy=False)
    return fit_extension(matrix.columns[columns.points[chosen]], block, U.astype(matrix.dtype, copy=False))


def own_extension(points: FloatArray, block: FloatArray) -> Extension:
    """Extension of the identity from the cluster's own points: the pseudo-inverse of its block, cut like all others."""
    values, vectors = np.linalg.eigh(symmetric(block))
    kept = values > max(_AMPLIFIED[block.dtype] * values[-1], _VANISHED)
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    return Extension(points, inverse.astype(block.dtype))


def fit_extension(points: FloatArray, block: FloatArray, U: FloatArray) -> Extension:
    """Extension of U by least squares, from the columns of ``points``."""
    Q, extension = orthonormal_extension(points, block)
    return Extension(points, extension.coefficients @ (Q.T @ U))


def orthonormal_extension(points: FloatArray, block: FloatArray) -> tuple[FloatArray, Extension]:
    """Orthonormal Q = block @ coefficients, without the directions in which rounding would be amplified."""
    Q, R = np.linalg.qr(block.astype(np.float64))
    left, s, right = np.linalg.svd(R, full_matrices=False)
    kept = max(1, int(np.count_nonzero(s > _AMPLIFIED[block.dtype] * s[0])))
    inverse = 1 / s[:kept] if s[0] > _VANISHED else np.zeros(kept)
    coefficients = (right[:kept].T * inverse).astype(block.dtype)
    return (Q @ left[:, :kept]).astype(block.dtype), Extension(points, coefficients)


def sketched_pivots(block: FloatArray, count: int, rng: np.random.Generator) -> IntArray:
    """At most ``count`` columns of large volume, pivoted on a Gaussian sketch of the rows: much cheaper than on all."""
    height = count + _PIVOT_OVERSAMPLING
    if block.shape[0] > height:
        block = rng.standard_normal((height, block.shape[0]), dtype=block.dtype.type) @ block
    return np.sort(important_columns(block, count))
