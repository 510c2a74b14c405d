"""Files that were made to harm: refused by name, without their memory being taken."""

from __future__ import annotations

import io
import json
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

import blockbasis as bb
from blockbasis.operators import archive

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX files")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Metadata and arrays of a factorization with everything that one can have."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    path = tmp_path_factory.mktemp("saved") / "a.bbf"
    bb.save(bb.factorize(X, bb.Gaussian(0.4), n_clusters=4, rank=5, cutoff=0.2, rng=0), path)
    return archive.read_archive(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.bbf"


def write_forged(path, meta, arrays):
    """A file whose digest fits."""
    with open(path, "wb") as stream:
        archive.write_archive(stream, meta, arrays)


def write_members(path, members, **settings):
    with zipfile.ZipFile(path, "w", **settings) as file:
        for name, data in members.items():
            file.writestr(name, data)


def npy(header, data=b""):
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def refused(path, match, megabytes=20):
    """Assert that loading is refused, with a bounded amount of memory beside the file."""
    tracemalloc.start()
    try:
        with pytest.raises(bb.StorageError, match=match):
            bb.load(path)
        assert tracemalloc.get_traced_memory()[1] < megabytes * 1e6 + path.stat().st_size
    finally:
        tracemalloc.stop()


META = json.dumps({"format": "blockbasis", "version": 2, "kind": "BlockBasis", "arrays": ["a"], "digest": "0"})


def test_compressed_members_are_refused_before_they_are_read(path):
    bomb = b'{"format": "blockbasis", "x": [' + b"[]," * 10_000_000 + b"0]}"
    write_members(path, {"meta.json": bomb}, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1e5
    refused(path, "the member meta.json is compressed or encrypted")


def test_metadata_of_millions_of_values(path):
    write_members(path, {"meta.json": b'{"format": "blockbasis", "x": [' + b"[]," * 2_000_000 + b"0]}"})
    refused(path, "its metadata are empty or too large", megabytes=15)


@pytest.mark.parametrize("dtype", ["<U268435456", "<f16", "<c16", "|O", "<V8", "|V1000000000"])
def test_dtypes_that_no_file_of_ours_has(path, dtype):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': (5,)}}\n"
    write_members(path, {"meta.json": META, "a.npy": npy(header, bytes(80))})
    refused(path, r"the member a\.npy has the dtype|does not have the size|dtype")


@pytest.mark.parametrize("shape", ["(10**9,)", "(1000000000,)", "(-1,)", "(2, 3)", "(2**40, 2**40)", "(0, 99999999)"])
def test_shapes_that_the_file_cannot_hold(path, shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n"
    write_members(path, {"meta.json": META, "a.npy": npy(header, bytes(80))})
    refused(path, "is not a complete blockbasis file")


def test_members_that_overlap(path, saved):
    """Many directory entries that share the bytes of one member."""
    write_members(
        path,
        {
            "meta.json": META,
            "a.npy": npy("{'descr': '|u1', 'fortran_order': False, 'shape': (90000,)}\n", bytes(90000)),
        },
    )
    with zipfile.ZipFile(path, "a") as file:
        first = file.getinfo("a.npy")
        for i in range(50):
            other = zipfile.ZipInfo(f"b{i}.npy")
            other.header_offset, other.file_size, other.compress_size = (
                first.header_offset,
                first.file_size,
                first.compress_size,
            )
            other.CRC = first.CRC
            file.filelist.append(other)
            file.NameToInfo[other.filename] = other
        file._didModify = True
    refused(path, "is not a complete blockbasis file")


def test_a_large_directory_of_members(path):
    write_members(path, {f"{i:0200d}": b"" for i in range(10_000)})
    refused(path, "its zip directory is too large")


def test_a_member_twice_and_one_too_many(path, saved):
    meta, arrays = saved
    write_forged(path, meta, arrays)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("more.npy", b"")
    refused(path, r"the member more\.npy is missing or unknown")
    write_forged(path, meta, arrays)
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("meta.json", b"{}")
    refused(path, "a member occurs twice")


@POSIX
def test_files_that_never_end_or_never_begin(path, tmp_path):
    path.symlink_to("/dev/zero")
    with pytest.raises(bb.StorageError, match=r"a\.bbf is not a regular file"):
        bb.load(path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(bb.StorageError, match="fifo is not a regular file"):
        bb.load(tmp_path / "fifo")


# --- forged: the digest fits -----------------------------------------------------------------------------------------


def nan_in(array):
    array.flat[0] = np.nan
    return array


def with_first(value):
    def changed(array):
        array.flat[0] = value
        return array

    return changed


FORGED = {
    "order twice": ("partition.order", lambda a: np.zeros_like(a)),
    "order too short": ("partition.order", lambda a: a[:-1]),
    "order of floats": ("partition.order", lambda a: a.astype(float)),
    "starts": ("partition.starts", with_first(3)),
    "starts descending": ("partition.starts", lambda a: a[::-1].copy()),
    "starts of one": ("partition.starts", lambda a: a[:1]),
    "centers of one dimension": ("partition.centers", lambda a: a.ravel()),
    "centers of another number": ("partition.centers", lambda a: a[:2]),
    "centers not finite": ("partition.centers", nan_in),
    "radii": ("partition.radii", lambda a: a[:, None]),
    "ranks negative": ("basis.ranks", with_first(-1)),
    "ranks of overflow": ("basis.ranks", with_first(2**62)),
    "ranks of int8": ("basis.ranks", lambda a: a.astype(np.int8)),
    "values not finite": ("basis.values", nan_in),
    "values too few": ("basis.values", lambda a: a[1:]),
    "values of integers": ("basis.values", lambda a: a.astype(np.int64)),
    "values of another precision": ("inner.values", lambda a: a.astype(np.float32)),
    "row offsets": ("inner.row_offsets", with_first(1)),
    "column offsets": ("inner.column_offsets", lambda a: a[::-1].copy()),
    "counts": ("inner.counts", with_first(99)),
    "counts negative": ("inner.counts", with_first(-1)),
    "kept": ("inner.kept", with_first(1)),
    "kept too large": ("inner.kept", lambda a: a + 100),
    "inner values": ("inner.values", lambda a: a[:-1]),
    "inner not finite": ("inner.values", nan_in),
    "extension sizes": ("extension.sizes", with_first(2**60)),
    "extension points": ("extension.points", lambda a: a[:, :1]),
    "extension not finite": ("extension.points", nan_in),
    "coefficients": ("extension.coefficients", lambda a: a[None]),
    "diagonal": ("diagonal", lambda a: a[:5]),
    "diagonal not finite": ("diagonal", nan_in),
}


@pytest.mark.parametrize("case", FORGED)
def test_arrays_that_do_not_fit_are_refused_by_name(path, saved, case):
    meta, arrays = saved
    name, change = FORGED[case]
    write_forged(path, meta, {**arrays, name: change(arrays[name].copy())})
    with pytest.raises(bb.StorageError, match=r"cannot be restored: (inner|extension|basis|partition|diagonal)"):
        bb.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "Path"},
        {"kind": None},
        {"kind": ["BlockBasis"]},
        {"kernel": {"name": "Gaussian", "parameters": {"bandwidth": -1}}},
        {"kernel": {"name": "Evil"}},
        {"kernel": {"name": "Gaussian", "parameters": {"bandwidth": 1, "more": 2}}},
        {"kernel": 3},
        {"diagonal": False},
        {"diagonal": 1},
        {"entries": {"bases": -1, "inner": 0}},
        {"entries": {"bases": "1", "inner": 0}},
        {"entries": {"other": 1}},
        {"entries": None},
        {"cutoff": {"dropped": "x", "error": 0}},
        {"cutoff": {}},
        {"error_estimate": {"value": [], "stderr": 1, "exact": True}},
    ],
    ids=str,
)
def test_metadata_that_do_not_fit(path, saved, change):
    meta, arrays = saved
    write_forged(path, {**meta, **change}, arrays)
    with pytest.raises(bb.StorageError, match="cannot be restored"):
        bb.load(path)


def test_a_missing_array_is_named(path, saved):
    meta, arrays = saved
    write_forged(
        path,
        {**meta, "arrays": [name for name in arrays if name != "basis.ranks"]},
        {name: array for name, array in arrays.items() if name != "basis.ranks"},
    )
    with pytest.raises(bb.StorageError, match=r"basis\.ranks"):
        bb.load(path)


def test_metadata_that_could_not_be_read_again_are_not_written(saved):
    meta, arrays = saved
    with pytest.raises(ValueError, match="must have fewer metadata"):
        archive.write_archive(io.BytesIO(), {**meta, "labels": list(range(10**6))}, arrays)


# --- another function than the one saved with ------------------------------------------------------------------------


def polynomial(A, B):
    return (1 + A @ B.T) ** 2


def cubic(A, B):
    return (1 + A @ B.T) ** 3


@pytest.mark.parametrize("kind", ["factorization", "estimator", "transformer"])
def test_a_different_function_is_refused(path, kind):
    X = np.random.default_rng(0).normal(size=(80, 2))
    if kind == "factorization":
        A = bb.factorize(X, polynomial, n_clusters=3, rank=6, rng=0)
    else:
        cls = bb.KernelRidge if kind == "estimator" else bb.BlockBasisFeatures
        A = cls(kernel=polynomial, n_clusters=3, rank=6, random_state=0).fit(X, X[:, 0])
    bb.save(A, path)
    bb.load(path, kernel=polynomial)
    bb.load(path, kernel=lambda A, B: polynomial(A, B))
    with pytest.raises(ValueError, match="must be the function that the file was saved with, polynomial. Got cubic"):
        bb.load(path, kernel=cubic)


def test_a_kernel_where_a_function_is_needed(path):
    X = np.random.default_rng(0).normal(size=(80, 2))
    bb.save(bb.KernelRidge(kernel=polynomial, n_clusters=3, rank=6).fit(X, X[:, 0]), path)
    with pytest.raises(ValueError, match=r"'kernel' parameter of load must be the function.*Gaussian"):
        bb.load(path, kernel=bb.Gaussian(1.0))


def test_a_diagonal_part_that_was_taken_out_is_missed(path, saved):
    meta, arrays = saved
    left = {name: array for name, array in arrays.items() if name != "diagonal"}
    assert len(left) < len(arrays)
    write_forged(path, {**meta, "arrays": list(left)}, left)
    with pytest.raises(bb.StorageError, match="diagonal must be present if and only if"):
        bb.load(path)


def test_an_array_is_in_memory_once_while_it_is_read(path):
    values = np.zeros(2_000_000)
    write_forged(path, {}, {"values": values})
    tracemalloc.start()
    try:
        archive.read_archive(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * values.nbytes
