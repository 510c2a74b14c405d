"""Checks of arguments. Error messages name the parameter, the function, the requirement and the given value."""

from __future__ import annotations

import math
import numbers
import re
import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from blockbasis.exceptions import AccuracyWarning

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray, IntArray, Seed

#: A lower precision may change the values of a column by this share of their standard deviation.
_ROUNDED_SHARE = 1e-3


def _message(name: str, caller: str, must: str, got: object) -> str:
    """Message of an error that shows the value given."""
    return _described(name, caller, must, repr(got))


def _described(name: str, caller: str, must: str, got: str) -> str:
    """Message of an error that describes the value given in words."""
    return f"The '{name}' parameter of {caller} must be {must}. Got {got} instead."


def check_points(
    X: Any, *, name: str, caller: str, n_features: int | None = None, dtype: npt.DTypeLike | None = None
) -> FloatArray:
    """Return points as a finite real array of shape (n, d).

    The array has the given ``dtype``; None selects float32 for float32 points and float64 for all others.
    """
    points = _real_array(X, name, caller)
    if points.ndim != 2:
        hint = f" Use {name}.reshape(-1, 1) for points on a line." if points.ndim == 1 else ""
        raise ValueError(
            _message(name, caller, "two-dimensional, of shape (n_points, n_features)", points.shape) + hint
        )
    if points.shape[0] == 0 or points.shape[1] == 0:
        raise ValueError(_message(name, caller, "at least one point with at least one column", points.shape))
    if n_features is not None and points.shape[1] != n_features:
        raise ValueError(_message(name, caller, f"of {n_features} columns, as the other points", points.shape))
    points = np.ascontiguousarray(points, dtype=np.float32 if points.dtype == np.float32 else np.float64)
    if not np.isfinite(points).all():
        bad = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
        raise ValueError(_described(name, caller, "free of NaN and infinity", f"one in row {bad}"))
    chosen = points.dtype if dtype is None else np.dtype(dtype)
    if not _squares_fit(points, chosen):
        largest = f"entries up to {np.abs(points).max():.3g}"
        hint = " Rescale the columns, for instance to standard deviation 1."
        raise ValueError(_message(name, caller, f"small enough for squared distances in {chosen}", largest) + hint)
    rounded = points.astype(chosen, copy=False)
    if chosen.itemsize < points.itemsize and n_features is None:  # the points of a computation, and not new ones
        _warn_of_rounding(points, rounded, name, caller)
    return rounded


def _warn_of_rounding(points: FloatArray, rounded: FloatArray, name: str, caller: str) -> None:
    """Warn of a column whose values a lower precision rounds to a share of their spread: no error estimate shows it."""
    spread = points.std(axis=0)
    lost = np.abs(points - rounded).max(axis=0)
    shares = np.divide(lost, spread, out=np.zeros_like(spread), where=spread > 0)
    worst = int(shares.argmax())
    if shares[worst] > _ROUNDED_SHARE:
        warnings.warn(
            f"The 'dtype' parameter of {caller} rounds column {worst} of {name} by up to {lost[worst]:.2g}, where its "
            f"standard deviation is {spread[worst]:.2g}: kernel entries change. Subtract the mean of the column from "
            "these and all new points, or take numpy.float64.",
            AccuracyWarning,
            stacklevel=4,
        )


def _real_array(X: Any, name: str, caller: str) -> FloatArray:
    """Return an array of real numbers of any shape."""
    if sparse.issparse(X):
        raise TypeError(
            f"The '{name}' parameter of {caller} must be a dense array. Got a sparse matrix of shape "
            f"{X.shape} instead: clusters need centres, which are dense. Convert it with {name}.toarray(), or reduce "
            "its columns first, for instance with sklearn.decomposition.TruncatedSVD."
        )
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        masked = f"{np.ma.getmaskarray(X).sum()} of them"
        hint = f" Fill them, {name}.filled(value), or leave their rows out."
        raise ValueError(_described(name, caller, "free of masked entries", masked) + hint)
    try:
        points = np.asarray(X)
    except ValueError as error:
        raise ValueError(_described(name, caller, "a two-dimensional array of numbers", type(X).__name__)) from error
    if points.dtype.kind == "c":
        raise TypeError(_described(name, caller, "real", f"dtype {points.dtype}"))
    if points.dtype.kind not in "fiub":
        return _numbers_among_objects(points, name, caller)
    return points


def _squares_fit(points: FloatArray, dtype: np.dtype[Any]) -> bool:
    """Return whether squared distances between points, and their sums over all points, are finite in ``dtype``."""
    low, high = points.min(axis=0).astype(np.float64), points.max(axis=0).astype(np.float64)
    with np.errstate(over="ignore"):
        # Centring doubles |x| at most, |x|^2 + |y|^2 doubles the square, and a factor 2 is a safety margin.
        pair = 16 * float(np.square(np.maximum(-low, high)).sum())
        total = points.shape[0] * float(np.square(high - low).sum())  # the sum that k-means computes
    return bool(max(pair, total) <= float(np.finfo(dtype).max))


def _numbers_among_objects(points: npt.NDArray[Any], name: str, caller: str) -> FloatArray:
    """Return an object array of numbers, as from a data frame, in float64; raise a TypeError for text and dates."""
    must = "an array of numbers"
    if points.dtype.kind != "O":
        raise TypeError(_described(name, caller, must, f"dtype {points.dtype}"))
    try:
        if any(isinstance(value, (str, bytes)) for value in points.flat):
            raise TypeError("numbers as text are text")
        return points.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(_described(name, caller, must, _first_not_a_number(points))) from error


def _first_not_a_number(points: npt.NDArray[Any]) -> str:
    for place, value in np.ndenumerate(points):
        if value is not None and not isinstance(value, (numbers.Number, np.bool_)):
            return f"{value!r} in row {place[0]}" if place else f"a {type(value).__name__}"
    return f"dtype {points.dtype}"


def check_integer(value: Any, *, name: str, caller: str, low: int, high: int | None = None) -> int:
    """Return an integer between ``low`` and ``high``, inclusive."""
    must = f"an integer of at least {low}" + ("" if high is None else f" and at most {high}")
    if not _is_integer(value):
        raise TypeError(_message(name, caller, must, value))
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ValueError(_message(name, caller, must, value))
    return number


def check_threads(value: Any, *, name: str, caller: str) -> int:
    """Return ``n_jobs`` in joblib's convention; None is -1, one thread for each core."""
    must = "None or a non-zero integer"
    if value is None:
        return -1
    if not _is_integer(value):
        raise TypeError(_message(name, caller, must, value))
    if value == 0:
        raise ValueError(_message(name, caller, must, value))
    return int(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))


def check_ridge(ridge: Any, n_points: int, *, name: str, caller: str) -> float | FloatArray:
    """Return a finite nonnegative number, or an array with one such number for each point."""
    must = f"a number of at least 0, or one for each of the {n_points} points"
    if isinstance(ridge, (bool, np.bool_, str)) or ridge is None:
        raise TypeError(_message(name, caller, must, ridge))
    values = _real_array(ridge, name, caller).astype(np.float64)
    if values.shape not in ((), (n_points,)):
        raise ValueError(_described(name, caller, must, f"shape {values.shape}"))
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        raise ValueError(_message(name, caller, must, float(values[bad].flat[0])))
    return values if values.ndim else float(values)


def check_right_hand_side(b: Any, n_points: int, *, name: str, caller: str) -> FloatArray:
    """Return finite real right-hand sides of shape (n,) or (n, m) in float64."""
    values = _real_array(b, name, caller)
    if values.ndim not in (1, 2) or values.shape[0] != n_points:
        must = f"of shape ({n_points},) or ({n_points}, m)"
        raise ValueError(_message(name, caller, must, values.shape))
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values).reshape(n_points, -1).all(axis=1))[0])
        raise ValueError(_described(name, caller, "free of NaN and infinity", f"one in row {bad}"))
    return values


def check_positive(value: Any, *, name: str, caller: str) -> float:
    """Return a finite positive number."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(_message(name, caller, "a positive number", value))
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(_message(name, caller, "a positive finite number", value))
    return number


def check_lengths(value: Any, *, name: str, caller: str) -> Any:
    """Return a positive finite number, or a tuple with one such number for each column."""
    if not isinstance(value, (list, tuple, np.ndarray)) or np.ndim(value) == 0:
        return check_positive(value.item() if isinstance(value, np.ndarray) else value, name=name, caller=caller)
    must = "a positive number, or one for each column"
    lengths = _real_array(value, name, caller)
    if lengths.dtype.kind == "b":
        raise TypeError(_described(name, caller, must, f"dtype {lengths.dtype}"))
    if lengths.ndim != 1 or lengths.size == 0:
        raise ValueError(_described(name, caller, must, f"an array of shape {lengths.shape}"))
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(bad):
        raise ValueError(_described(name, caller, must, f"{lengths[bad[0]]} for column {bad[0]}"))
    return tuple(lengths.astype(np.float64).tolist())


def check_matrix(value: Any, *, name: str, caller: str, n_rows: int | None = None) -> FloatArray:
    """Return a finite real matrix as a new float64 array, with ``n_rows`` rows if that is given."""
    matrix = _real_array(value, name, caller)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(_described(name, caller, "two-dimensional, of shape (m, n_columns)", f"shape {matrix.shape}"))
    if n_rows is not None and len(matrix) != n_rows:
        must = f"of {n_rows} rows, one for each length of the kernel"
        raise ValueError(_described(name, caller, must, f"shape {matrix.shape}"))
    if not np.isfinite(matrix).all():
        bad = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise ValueError(_described(name, caller, "free of NaN and infinity", f"one in row {bad}"))
    return np.array(matrix, dtype=np.float64)


def check_fraction(value: Any, *, name: str, caller: str) -> float:
    """Return a number strictly between 0 and 1."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(_message(name, caller, "a number between 0 and 1", value))
    number = float(value)
    if not 0 < number < 1:
        raise ValueError(_message(name, caller, "strictly between 0 and 1", value))
    return number


def check_flag(value: Any, *, name: str, caller: str) -> bool:
    """Return True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(_message(name, caller, "True or False", value))
    return bool(value)


def check_progress(value: Any, *, name: str, caller: str) -> Any:
    """Return True, False or a callable."""
    if not isinstance(value, (bool, np.bool_)) and not callable(value):
        raise TypeError(_message(name, caller, "True, False or a callable", value))
    return bool(value) if isinstance(value, np.bool_) else value


def check_choice(value: Any, choices: Collection[str], *, name: str, caller: str) -> str:
    """Return one of the given strings."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(_message(name, caller, f"one of {listed}", value))
    return value


def check_labels(labels: Any, n_points: int, *, name: str, caller: str) -> IntArray:
    """Return an array with one integer label for each point."""
    try:
        given: npt.NDArray[Any] = np.asarray(labels)
    except ValueError as error:
        raise ValueError(_described(name, caller, "one label for each point", type(labels).__name__)) from error
    if given.ndim != 1 or given.shape[0] != n_points:
        raise ValueError(
            _described(name, caller, f"one label for each of the {n_points} points", f"shape {given.shape}")
        )
    if given.dtype.kind not in "iub":
        raise TypeError(_described(name, caller, "integers", f"dtype {given.dtype}"))
    return given.astype(np.intp)


def check_ranks(rank: Any, n_clusters: int, *, name: str, caller: str) -> IntArray:
    """Return an array with one rank for each cluster, from an integer or a sequence of integers."""
    if isinstance(rank, (numbers.Number, str)):
        return np.full(n_clusters, check_integer(rank, name=name, caller=caller, low=1), dtype=np.intp)
    must = f"an integer, or one integer for each of the {n_clusters} clusters"
    try:
        ranks: npt.NDArray[Any] = np.asarray(rank)
    except ValueError as error:
        raise ValueError(_message(name, caller, must, rank)) from error
    if ranks.ndim != 1 or ranks.shape[0] != n_clusters:
        raise ValueError(_message(name, caller, must, rank if ranks.ndim == 0 else f"shape {ranks.shape}"))
    if ranks.dtype.kind not in "iu":
        raise TypeError(_described(name, caller, "integers", f"dtype {ranks.dtype}"))
    if ranks.min() < 1:
        raise ValueError(_message(name, caller, "at least 1 in every cluster", int(ranks.min())))
    return ranks.astype(np.intp)


def check_dtype(dtype: Any, *, name: str, caller: str) -> np.dtype[Any] | None:
    """Return the dtype float32 or float64, or None, which selects the dtype of the points."""
    if dtype is None:
        return None
    try:
        chosen: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise TypeError(_message(name, caller, "numpy.float32, numpy.float64 or None", dtype)) from error
    if chosen not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(_message(name, caller, "numpy.float32, numpy.float64 or None", dtype))
    return chosen


def check_rng(rng: Seed, *, name: str, caller: str) -> np.random.Generator:
    """Return a random generator from a seed, a generator, or None for unpredictable entropy."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if not _is_integer(rng):
        raise TypeError(_message(name, caller, "an integer of at least 0, a numpy.random.Generator or None", rng))
    return np.random.default_rng(check_integer(rng, name=name, caller=caller, low=0))


def check_shape(A: Any, shape: tuple[int, int], *, name: str, caller: str) -> None:
    """Raise a ValueError unless an operator has the given shape."""
    if getattr(A, "shape", None) != shape:
        raise ValueError(
            f"The '{name}' parameter of {caller} must be of shape {shape}. "
            f"Got {getattr(A, 'shape', type(A).__name__)} instead."
        )


def check_symmetric(A: Any, rng: np.random.Generator, *, name: str, caller: str) -> int:
    """Return the order of a symmetric operator.

    Unless ``A.T is A``, symmetry is checked by the dot products of two random vectors.
    """
    shape: tuple[int, ...] = getattr(A, "shape", ())
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ValueError(_message(name, caller, "a square operator with a shape", shape or type(A).__name__))
    if getattr(A, "T", None) is A:
        return int(shape[0])
    V = rng.standard_normal((shape[0], 2))
    images = np.asarray(A @ V)
    products = V.T @ images
    scale = float(np.linalg.norm(V) * np.linalg.norm(images))
    if abs(products[0, 1] - products[1, 0]) > math.sqrt(np.finfo(images.dtype).eps) * scale:
        got = f"products that differ by {abs(products[0, 1] - products[1, 0]) / scale:.2g} of their size"
        raise ValueError(f"The '{name}' parameter of {caller} must be symmetric. Got {got} instead.")
    return int(shape[0])


#: Bytes of the units of memory sizes.
_UNITS = {"B": 1} | {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)}
_UNITS |= {f"{letter}IB": 1024**power for power, letter in enumerate("KMGT", 1)}


def check_memory(memory: Any, itemsize: int, n_points: int, *, name: str, caller: str) -> int:
    """Return a budget in floats, from a number of floats or from a size such as "512MB"."""
    must = 'a number of floats as an int, or a size such as "512MB" (B, KB, MB, GB, TB, KiB, MiB, GiB or TiB)'
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]+)\s*", memory)
        if match is None or match[2].upper() not in _UNITS:
            raise ValueError(_message(name, caller, must, memory))
        floats = int(float(match[1]) * _UNITS[match[2].upper()]) // itemsize
    else:
        if not _is_integer(memory):
            raise TypeError(_message(name, caller, must, memory))
        floats = check_integer(memory, name=name, caller=caller, low=1)
    if floats < 3 * n_points:
        raise ValueError(
            f"The '{name}' parameter of {caller} must be at least 3 floats for each of the {n_points} points. "
            f"Got {memory!r}{f', which is {floats} floats,' if isinstance(memory, str) else ''} instead."
        )
    return floats
