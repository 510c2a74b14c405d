from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import blockbasis as bb
from blockbasis._utils.validation import (
    check_choice,
    check_dtype,
    check_flag,
    check_fraction,
    check_integer,
    check_labels,
    check_points,
    check_positive,
    check_ranks,
    check_ridge,
    check_right_hand_side,
    check_rng,
)


def refused(error, parts, check, *args, **kwargs):
    with pytest.raises(error) as caught:
        check(*args, name="it", caller="f", **kwargs)
    for part in ["The 'it' parameter of f must be", *parts]:
        assert part in str(caught.value), f"{part!r} is not in {caught.value}"
    assert str(caught.value).isprintable()


def points(X, **kwargs):
    return check_points(X, name="it", caller="f", **kwargs)


# --- points ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        ([[1, 2], [3, 4]], np.float64),
        (np.array([[1, 2], [3, 4]], dtype=np.int8), np.float64),
        (np.array([[1, 2], [3, 4]], dtype=np.float16), np.float64),
        (np.array([[1, 2], [3, 4]], dtype=np.float32), np.float32),
        (np.array([[1, 2], [3, 4]], dtype=np.float64), np.float64),
        (np.array([[1, 2], [3, 4]], dtype=np.longdouble), np.float64),
        (np.array([[1, 2], [3, 4]], dtype=object), np.float64),
        (np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]), np.float64),
        (np.array([[1, 2], [3, 4]], dtype=">f8"), np.float64),
        (pd.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}), np.float64),
        (pd.DataFrame({"a": [1, 3], "b": [2, 4]}, dtype="Int64"), np.float64),
    ],
    ids=[
        "list",
        "int8",
        "float16",
        "float32",
        "float64",
        "longdouble",
        "object",
        "fortran",
        "swapped",
        "frame",
        "Int64",
    ],
)
def test_points(given, dtype):
    X = points(given)
    assert type(X) is np.ndarray
    assert X.dtype == dtype
    assert X.dtype.isnative
    assert X.flags.c_contiguous
    np.testing.assert_array_equal(X, [[1.0, 2.0], [3.0, 4.0]])


def test_good_points_are_not_copied():
    X = np.zeros((3, 2))
    assert np.shares_memory(points(X), X)


def test_a_memory_map_may_be_read_only(tmp_path):
    np.ones((4, 2)).tofile(tmp_path / "x")
    X = points(np.memmap(tmp_path / "x", dtype=np.float64, mode="r", shape=(4, 2)))
    np.testing.assert_array_equal(X, np.ones((4, 2)))


@pytest.mark.parametrize(
    ("bad", "error", "parts"),
    [
        (np.zeros(3), ValueError, ["two-dimensional, of shape (n_points, n_features)", "(3,)", "it.reshape(-1, 1)"]),
        (np.zeros((1, 2, 3)), ValueError, ["two-dimensional", "(1, 2, 3)"]),
        (np.zeros((0, 3)), ValueError, ["at least one point with at least one column", "(0, 3)"]),
        (np.zeros((3, 0)), ValueError, ["at least one point with at least one column", "(3, 0)"]),
        ([[0.0, 1.0], [np.nan, 0.0]], ValueError, ["free of NaN and infinity", "row 1"]),
        ([[0.0, -np.inf], [0.0, 0.0]], ValueError, ["free of NaN and infinity", "row 0"]),
        (np.array([[np.inf]], dtype=np.float32), ValueError, ["free of NaN and infinity", "row 0"]),
        ([["a", "b"]], TypeError, ["an array of numbers", "<U1"]),
        ([["1", "2"]], TypeError, ["an array of numbers", "<U1"]),
        (np.array([[b"1"]]), TypeError, ["an array of numbers", "|S1"]),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), TypeError, ["an array of numbers", "datetime64"]),
        ([[object()]], TypeError, ["an array of numbers", "object"]),
        ([[1j]], TypeError, ["real", "complex128"]),
        ([[1.0], [1.0, 2.0]], ValueError, ["a two-dimensional array of numbers", "list"]),
        (None, (TypeError, ValueError), []),
        ({"a": 1}, TypeError, ["an array of numbers", "a dict"]),
        ([[None, "a"], [1.0, 2.0]], TypeError, ["an array of numbers", "'a' in row 0"]),
        (np.array([[1.0, 2.0], [3.0, "a"]], dtype=object), TypeError, ["an array of numbers", "'a' in row 1"]),
        (np.array([[1.0, 2j]], dtype=object), TypeError, ["an array of numbers", "object"]),
    ],
)
def test_bad_points(bad, error, parts):
    refused(error, parts, check_points, bad)


@pytest.mark.parametrize("dtype", ["Int64", "boolean", object])
def test_a_frame_with_missing_values(dtype):
    """Frames of nullable columns come as objects; those of floats with NaN."""
    frame = pd.DataFrame({"a": [True, True, pd.NA], "b": [True, False, True]}, dtype=dtype)
    refused(TypeError, ["an array of numbers", "<NA> in row 2"], check_points, frame)
    floats = pd.DataFrame({"a": [1.0, pd.NA]}, dtype="Float64")
    refused(ValueError, ["free of NaN and infinity", "row 1"], check_points, floats)


def test_a_frame_with_dates():
    frame = pd.DataFrame({"a": [1.0], "when": pd.to_datetime(["2020-01-01"])})
    refused(TypeError, ["an array of numbers", "Timestamp", "row 0"], check_points, frame)


def test_masked_points():
    X = np.arange(12.0).reshape(6, 2)
    np.testing.assert_array_equal(points(np.ma.array(X)), X)
    np.testing.assert_array_equal(points(np.ma.array(X, mask=np.zeros_like(X, dtype=bool))), X)
    bad = np.ma.array(X, mask=X % 4 == 3)
    refused(ValueError, ["free of masked entries", "3 of them", "it.filled(value)"], check_points, bad)


@pytest.mark.parametrize(
    ("size", "given", "worked"),
    [
        (1e200, np.float64, None),
        (1e308, np.float64, None),
        (1e25, np.float32, None),
        (3e38, np.float32, np.float32),
        (1e25, np.float64, np.float32),
        (1e200, np.float64, np.float32),
    ],
)
def test_points_whose_squared_distances_overflow(size, given, worked):
    X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]) * size
    precision = np.dtype(given if worked is None else worked)
    parts = ["small enough", f"squared distances in {precision}", f"up to {size:.3g}", "Rescale the columns"]
    refused(ValueError, parts, check_points, X.astype(given), dtype=worked)
    with_one_large = np.concatenate((np.ones((5, 2)), X[:1]))
    refused(ValueError, parts, check_points, with_one_large.astype(given), dtype=worked)


@pytest.mark.parametrize(
    ("size", "given", "worked"),
    [(1e150, np.float64, None), (1e15, np.float32, None), (1e25, np.float32, np.float64), (1e-300, np.float64, None)],
)
def test_large_and_small_points_are_taken(size, given, worked):
    X = (np.random.default_rng(0).uniform(-1, 1, size=(1000, 3)) * size).astype(given)
    checked = points(X, dtype=worked)
    assert checked.dtype == (given if worked is None else worked)
    np.testing.assert_array_equal(checked, X)


def test_an_offset_is_no_distance():
    """Nanoseconds since 1970 in float32: far from zero, not from each other."""
    X = np.linspace(1.70e18, 1.73e18, 10**5).astype(np.float32)[:, np.newaxis]
    assert points(X).dtype == np.float32


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_array", "coo_matrix", "dok_array"])
def test_sparse_points_say_what_to_do_instead(kind):
    bad = getattr(sparse, kind)(np.eye(3))
    refused(TypeError, ["dense", "sparse", "(3, 3)", "it.toarray()", "sklearn.decomposition"], check_points, bad)


def test_number_of_columns():
    assert points(np.zeros((4, 3)), n_features=3).shape == (4, 3)
    refused(ValueError, ["of 3 columns", "(4, 2)"], check_points, np.zeros((4, 2)), n_features=3)


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("good", [1, 5, np.int32(3), np.uint8(4)])
def test_integer(good):
    checked = check_integer(good, name="it", caller="f", low=1, high=5)
    assert checked == good
    assert type(checked) is int


@pytest.mark.parametrize("bad", [0, 6, -1, 10**30])
def test_integer_out_of_range(bad):
    refused(ValueError, ["an integer of at least 1 and at most 5", f"Got {bad}"], check_integer, bad, low=1, high=5)


@pytest.mark.parametrize("bad", [1.0, "1", None, True, np.bool_(True), [1], np.array([1, 2]), 1j])
def test_not_an_integer(bad):
    refused(TypeError, ["an integer of at least 1", "Got"], check_integer, bad, low=1)


@pytest.mark.parametrize("good", [1, 0.5, np.float32(2), 1e-300])
def test_positive(good):
    assert check_positive(good, name="it", caller="f") == float(good)


@pytest.mark.parametrize("bad", [0, -1, np.nan, np.inf, -np.inf])
def test_not_positive(bad):
    refused(ValueError, ["a positive finite number", f"Got {bad!r}"], check_positive, bad)


@pytest.mark.parametrize("bad", ["1", None, True, 1j, [1.0], np.array([1.0])])
def test_not_a_number(bad):
    refused(TypeError, ["a positive number", f"Got {bad!r}"], check_positive, bad)


@pytest.mark.parametrize("good", [0.5, 1e-300, np.float32(0.25)])
def test_fraction(good):
    assert check_fraction(good, name="it", caller="f") == float(good)


@pytest.mark.parametrize("bad", [0, 1, -0.5, 2.0, np.nan, np.inf])
def test_not_a_fraction(bad):
    refused(ValueError, ["strictly between 0 and 1", f"Got {bad!r}"], check_fraction, bad)


@pytest.mark.parametrize("bad", ["0.5", None, False])
def test_fraction_of_the_wrong_kind(bad):
    refused(TypeError, ["a number between 0 and 1", f"Got {bad!r}"], check_fraction, bad)


def test_flag():
    assert check_flag(True, name="it", caller="f") is True
    assert check_flag(np.bool_(False), name="it", caller="f") is False
    for bad in (0, 1, "True", None):
        refused(TypeError, ["True or False", f"Got {bad!r}"], check_flag, bad)


def test_choice():
    assert check_choice("b", ("a", "b"), name="it", caller="f") == "b"
    for bad in ("c", "B", None, 1, ["a"]):
        refused(ValueError, ["one of 'a', 'b'", f"Got {bad!r}"], check_choice, bad, ("a", "b"))


# --- labels, ranks, dtypes, seeds ------------------------------------------------------------------------------------


def test_labels():
    checked = check_labels(np.array([3, 1, 2], dtype=np.uint8), 3, name="it", caller="f")
    assert checked.dtype == np.intp
    np.testing.assert_array_equal(checked, [3, 1, 2])
    refused(ValueError, ["one label for each of the 4 points", "(3,)"], check_labels, [1, 2, 3], 4)
    refused(ValueError, ["one label for each of the 4 points", "(2, 2)"], check_labels, [[1, 2], [3, 4]], 4)
    refused(ValueError, ["one label for each", "list"], check_labels, [[1], [2, 3]], 2)
    refused(TypeError, ["integers", "float64"], check_labels, [1.0, 2.0], 2)


def test_ranks():
    np.testing.assert_array_equal(check_ranks(3, 4, name="it", caller="f"), [3, 3, 3, 3])
    np.testing.assert_array_equal(check_ranks(np.int64(3), 2, name="it", caller="f"), [3, 3])
    for given in ([1, 2], (1, 2), np.array([1, 2], dtype=np.int8), pd.Series([1, 2])):
        checked = check_ranks(given, 2, name="it", caller="f")
        assert checked.dtype == np.intp
        np.testing.assert_array_equal(checked, [1, 2])
    refused(ValueError, ["at least 1", "0"], check_ranks, [1, 0], 2)
    refused(ValueError, ["one integer for each of the 2 clusters", "(3,)"], check_ranks, [1, 2, 3], 2)
    refused(TypeError, ["integers", "bool"], check_ranks, [True, False], 2)
    refused(TypeError, ["an integer of at least 1", "Got 2.0"], check_ranks, 2.0, 2)


def test_dtype():
    assert check_dtype(None, name="it", caller="f") is None
    assert check_dtype("float64", name="it", caller="f") == np.float64
    assert check_dtype(float, name="it", caller="f") == np.float64
    for bad in (np.float16, int, "complex64"):
        refused(ValueError, ["numpy.float32, numpy.float64 or None", "Got"], check_dtype, bad)
    refused(TypeError, ["numpy.float32, numpy.float64 or None", "'single precision'"], check_dtype, "single precision")


def test_rng():
    def draw(rng):
        return check_rng(rng, name="it", caller="f").random()

    assert draw(3) == draw(np.int64(3)) == np.random.default_rng(3).random()
    generator = np.random.default_rng(0)
    assert check_rng(generator, name="it", caller="f") is generator
    assert draw(None) != draw(None)
    refused(ValueError, ["at least 0", "Got -1"], check_rng, -1)
    for bad in (1.0, "1", True, np.random.RandomState(0)):
        refused(TypeError, ["Got"], check_rng, bad)


def test_ridge():
    assert check_ridge(0, 3, name="it", caller="f") == 0.0
    assert isinstance(check_ridge(np.float32(0.5), 3, name="it", caller="f"), float)
    for given in ([1, 2, 3], np.array([1.0, 2.0, 3.0], dtype=np.float32), pd.Series([1, 2, 3])):
        checked = check_ridge(given, 3, name="it", caller="f")
        assert checked.dtype == np.float64
        np.testing.assert_array_equal(checked, [1, 2, 3])
    refused(ValueError, ["at least 0", "each of the 3 points", "Got -1.0"], check_ridge, -1, 3)
    refused(ValueError, ["at least 0", "nan"], check_ridge, [1, np.nan, 3], 3)
    refused(ValueError, ["each of the 3 points", "(2,)"], check_ridge, [1, 2], 3)
    for bad in (None, True, "1", ["a", "b", "c"]):
        refused(TypeError, ["must be", "Got"], check_ridge, bad, 3)


def test_right_hand_side():
    for given in ([1, 2], np.array([1.0, 2.0], dtype=np.float32), pd.Series([1, 2])):
        checked = check_right_hand_side(given, 2, name="it", caller="f")
        assert checked.dtype == np.float64
        np.testing.assert_array_equal(checked, [1, 2])
    assert check_right_hand_side(pd.DataFrame({"a": [1, 2]}), 2, name="it", caller="f").shape == (2, 1)
    refused(ValueError, ["of shape (3,) or (3, m)", "(2,)"], check_right_hand_side, [1, 2], 3)
    refused(ValueError, ["of shape (3,) or (3, m)", "()"], check_right_hand_side, 1.0, 3)
    refused(ValueError, ["free of NaN", "row 1"], check_right_hand_side, [1, np.inf], 2)
    refused(TypeError, ["must be real"], check_right_hand_side, [1, 2j], 2)


def test_a_precision_that_rounds_a_column_far_from_zero_is_warned_of():
    """Map coordinates in metres: float32 knows them to half a metre only, and no error estimate shows it."""
    X = np.random.default_rng(0).uniform(0, 60, size=(300, 2))
    with pytest.warns(bb.AccuracyWarning, match="'dtype' parameter of factorize rounds column 1 of X by up to 0.25"):
        bb.factorize(X + [0, 5e6], bb.Gaussian(5.0), tol=1e-2, dtype=np.float32, rng=0)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_a_precision_that_keeps_the_digits_of_all_columns_is_taken_in_silence(offset):
    X = np.random.default_rng(0).uniform(0, 60, size=(300, 2)) + offset
    X = np.column_stack((X, np.full(300, 1e9)))  # a constant column has no digits to lose
    with warnings.catch_warnings():
        warnings.simplefilter("error", bb.AccuracyWarning)
        A = bb.factorize(X, bb.Gaussian(5.0), tol=1e-1, dtype=np.float32, rng=0)
    assert A.dtype == np.float32
