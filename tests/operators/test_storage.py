from __future__ import annotations

import io
import json
import os
import pickle
import stat
import zipfile

import numpy as np
import pytest

import blockbasis as bb
from blockbasis import kernels
from blockbasis.operators import archive
from blockbasis.operators.archive import VERSION
from tests.repeating import first_of


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(60, 2))


@pytest.fixture
def A(X):
    return bb.factorize(X, bb.Gaussian(1.0), n_clusters=3, rank=6, rng=0)


@pytest.fixture
def path(A, tmp_path):
    """A whole file."""
    target = tmp_path / "a.bbf"
    bb.save(A, target)
    return target


def members(path):
    """The archive as a dictionary from member to bytes."""
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def write(path, contents):
    with zipfile.ZipFile(path, "w") as file:
        for name, data in contents.items():
            file.writestr(name, data)


def with_meta(path, **changes):
    """The same file with other metadata, its digest made to fit."""
    contents = members(path)
    meta = {**json.loads(contents["meta.json"]), **changes}
    del meta["digest"]
    arrays = {name: np.load(io.BytesIO(contents[f"{name}.npy"])) for name in meta["arrays"]}
    meta["digest"] = archive.archive_digest(meta, arrays)
    write(path, {**contents, "meta.json": json.dumps(meta)})


def assert_same(A, B):
    """Bit for bit."""
    assert (A.shape, A.dtype, A.kernel, A.entries, A.cutoff) == (B.shape, B.dtype, B.kernel, B.entries, B.cutoff)
    assert (A.stored, A.nbytes) == (B.stored, B.nbytes)
    assert (A.diagonal_part is None) == (B.diagonal_part is None)
    np.testing.assert_array_equal(A.todense(), B.todense())
    V = np.random.default_rng(1).normal(size=(A.shape[0], 3))
    np.testing.assert_array_equal(A @ V, B @ V)
    np.testing.assert_array_equal(A.diagonal(), B.diagonal())
    for first, second in zip(A.bases, B.bases, strict=True):
        np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(A.partition.labels, B.partition.labels)
    np.testing.assert_array_equal(A.partition.radii, B.partition.radii)
    if A.kernel is not None:
        np.testing.assert_array_equal(A.extend(V[:19, :2]).todense(), B.extend(V[:19, :2]).todense())


# --- round trip ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"dtype": np.float32},
        {"diagonal": False},
        {"cutoff": 0.2},
        {"algorithm": "paper"},
        {"n_clusters": 1},
        {"rank": 100},
        {"n_clusters": 60, "rank": 1},
    ],
    ids=str,
)
def test_round_trip(X, tmp_path, settings):
    A = bb.factorize(X, bb.Gaussian(0.4), **{"n_clusters": 4, "rank": 6, "rng": 0, **settings})
    bb.save(A, tmp_path / "a.bbf")
    assert_same(A, bb.load(tmp_path / "a.bbf"))


def test_round_trip_of_every_kernel(radial, X, tmp_path):
    A = bb.factorize(X, radial.make(0.37), n_clusters=3, rank=6, rng=0)
    bb.save(A, tmp_path / "a.bbf")
    B = bb.load(tmp_path / "a.bbf")
    assert B.kernel == radial.make(0.37)
    assert_same(A, B)


def test_round_trip_of_one_point(tmp_path):
    A = bb.factorize([[1.0, 2.0]], bb.Gaussian(1.0), n_clusters=1, rank=1, rng=0)
    bb.save(A, tmp_path / "a.bbf")
    assert_same(A, bb.load(tmp_path / "a.bbf"))


CROSS = {
    "default": {"n_clusters": 3, "rank": 6},
    "unequal": {"n_clusters": (2, 5), "rank": 4},
    "paper": {"n_clusters": 3, "rank": 6, "algorithm": "paper"},
    "float32": {"n_clusters": 3, "rank": 6, "dtype": np.float32},
}


def assert_same_cross(B, C):
    """Bit for bit."""
    assert type(C) is bb.CrossBlockBasis
    assert (B.shape, B.dtype, B.entries) == (C.shape, C.dtype, C.entries)
    assert (B.stored, B.nbytes) == (C.stored, C.nbytes)
    np.testing.assert_array_equal(B.todense(), C.todense())
    V = np.random.default_rng(1).normal(size=(B.shape[0], 3))
    np.testing.assert_array_equal(B.T @ V, C.T @ V)
    for basis in (C.row_basis, C.column_basis):
        for array in (*basis.blocks, basis.partition.order, basis.partition.centers):
            assert not array.flags.writeable


@pytest.mark.parametrize("settings", CROSS)
def test_round_trip_of_a_cross_factorization(X, tmp_path, settings):
    B = bb.factorize_cross(X[:25] + 0.1, X, bb.Gaussian(1.0), rng=0, **CROSS[settings])
    bb.save(B, tmp_path / "b.bbf")
    assert_same_cross(B, bb.load(tmp_path / "b.bbf"))


@pytest.mark.parametrize("settings", [{}, {"cutoff": 0.2}, {"dtype": np.float32}], ids=str)
def test_round_trip_of_an_extension(X, tmp_path, settings):
    """Its inner matrix is symmetric, it has no count of entries, and two points leave clusters without any."""
    A = bb.factorize(X, bb.Gaussian(0.4), n_clusters=5, rank=4, rng=0, **settings)
    B = A.extend(X[:2])
    bb.save(B, tmp_path / "b.bbf")
    assert_same_cross(B, bb.load(tmp_path / "b.bbf"))


def test_paths_are_strings_or_path_likes(A, tmp_path):
    bb.save(A, str(tmp_path / "a.bbf"))
    assert_same(A, bb.load(str(tmp_path / "a.bbf")))
    assert_same(A, bb.load(tmp_path / "a.bbf"))


def test_loaded_arrays_are_read_only(path):
    B = bb.load(path)
    panels = [panel.values for panel in B.inner.panels]
    for array in (*B.bases, *panels, B.diagonal_part, B.partition.order, B.partition.centers):
        assert not array.flags.writeable


def test_a_loaded_operator_can_be_saved_again(A, path, tmp_path):
    again = tmp_path / "b.bbf"
    bb.save(bb.load(path), again)
    assert_same(A, bb.load(again))


def test_save_replaces_a_file(A, X, path):
    other = bb.factorize(X, bb.Cauchy(1.0), n_clusters=2, rank=3, rng=0)
    bb.save(other, path)
    assert_same(other, bb.load(path))


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_file_has_the_usual_permissions(A, tmp_path):
    """As any file that the user writes: by the umask, not the 0600 of a temporary file."""
    before = os.umask(0o022)
    try:
        bb.save(A, tmp_path / "a.bbf")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.bbf").stat().st_mode) == 0o644


def test_the_file_holds_no_pickle(path):
    for name, data in members(path).items():
        if name.endswith(".npy"):
            assert not np.load(io.BytesIO(data), allow_pickle=False).dtype.hasobject
    assert set(json.loads(members(path)["meta.json"])) >= {"format", "version", "digest", "kernel", "entries"}


# --- files of version 1 ----------------------------------------------------------------------------------------------


def basis_of_version_1(basis, prefix=""):
    parts = {
        f"{prefix}partition.{name}": getattr(basis.partition, name) for name in ("order", "starts", "centers", "radii")
    }
    return {**parts, **{f"{prefix}basis.{i}": block for i, block in enumerate(basis.blocks)}}


def inner_of_version_1(inner):
    arrays = {"inner.row_offsets": inner.row_offsets, "inner.column_offsets": inner.column_offsets}
    for i, (kept, panel) in enumerate(zip(inner.kept, [panel.values for panel in inner.panels], strict=True)):
        arrays |= {f"inner.kept.{i}": kept, f"inner.panel.{i}": panel}
    return arrays


def write_version_1(path, meta, arrays):
    """An archive as version 1 wrote it: one member for each block, panel and extension."""
    meta = {"format": "blockbasis", "version": 1, "arrays": list(arrays), **meta}
    meta["digest"] = archive.archive_digest(meta, arrays)
    contents = {"meta.json": json.dumps(meta)}
    for name, array in arrays.items():
        stream = io.BytesIO()
        np.save(stream, array)
        contents[f"{name}.npy"] = stream.getvalue()
    write(path, contents)


@pytest.mark.parametrize("settings", [{}, {"cutoff": 0.2}, {"dtype": np.float32, "diagonal": False}], ids=str)
def test_files_of_version_1_still_load(X, tmp_path, settings):
    A = bb.factorize(X, bb.Gaussian(0.4), n_clusters=4, rank=6, rng=0, **settings)
    arrays = {**basis_of_version_1(A.basis), **inner_of_version_1(A.inner)}
    for i, extension in enumerate(A.extensions):
        arrays |= {f"extension.points.{i}": extension.points, f"extension.coefficients.{i}": extension.coefficients}
    if A.diagonal_part is not None:
        arrays["diagonal"] = A.diagonal_part
    cutoff = None if A.cutoff is None else {"dropped": A.cutoff.dropped, "error": A.cutoff.error}
    meta = {
        "kind": "BlockBasis",
        "kernel": {"name": "Gaussian", "parameters": {"bandwidth": 0.4}},
        "entries": {"bases": A.entries.bases, "inner": A.entries.inner, "planning": A.entries.planning},
        "cutoff": cutoff,
        "error_estimate": None,
    }
    write_version_1(tmp_path / "a.bbf", meta, arrays)
    assert_same(A, bb.load(tmp_path / "a.bbf"))


def test_cross_files_of_version_1_still_load(A, X, tmp_path):
    B = A.extend(X[:7])
    bases = {**basis_of_version_1(B.row_basis, "rows."), **basis_of_version_1(B.column_basis, "columns.")}
    meta = {"kind": "CrossBlockBasis", "symmetric": True, "entries": None}
    write_version_1(tmp_path / "b.bbf", meta, {**bases, **inner_of_version_1(B.inner)})
    assert_same_cross(B, bb.load(tmp_path / "b.bbf"))


def test_a_file_has_few_members(X, tmp_path):
    """However many clusters there are."""
    bb.save(bb.factorize(X, bb.Gaussian(0.4), n_clusters=30, rank=1, rng=0), tmp_path / "a.bbf")
    assert len(members(tmp_path / "a.bbf")) == 16


# --- a user's own function -------------------------------------------------------------------------------------------


def test_a_function_is_given_again(X, tmp_path):
    def own(A, B):
        return (1 + A @ B.T) ** 2

    A = bb.factorize(X, own, n_clusters=3, rank=6, rng=0)
    bb.save(A, tmp_path / "a.bbf")
    B = bb.load(tmp_path / "a.bbf")
    assert B.kernel is None
    np.testing.assert_array_equal(A.todense(), B.todense())
    with pytest.raises(ValueError, match=r"kernel callable.*blockbasis\.load\(path, kernel=function\)"):
        B.extend(X[:2])
    C = bb.load(tmp_path / "a.bbf", kernel=own)
    np.testing.assert_array_equal(C.extend(X[:5]).todense(), A.extend(X[:5]).todense())


def test_what_is_given_must_be_a_kernel(X, tmp_path):
    bb.save(bb.factorize(X, lambda A, B: A @ B.T, n_clusters=3, rank=6, rng=0), tmp_path / "a.bbf")
    with pytest.raises(TypeError, match="'kernel' parameter of load"):
        bb.load(tmp_path / "a.bbf", kernel="rbf")


def test_a_kernel_that_is_stored_is_not_given_again(A, path):
    for given in (bb.Cauchy(2.0), A.kernel, lambda X, Y: X @ Y.T):
        with pytest.raises(
            ValueError, match=r"'kernel' parameter of load must be left out.*Gaussian\(bandwidth=1\.0\)"
        ):
            bb.load(path, kernel=given)


def test_a_cross_factorization_takes_no_kernel(A, X, tmp_path):
    bb.save(A.extend(X[:3]), tmp_path / "b.bbf")
    with pytest.raises(ValueError, match=r"'kernel' parameter of load must be left out.*evaluates no kernel"):
        bb.load(tmp_path / "b.bbf", kernel=A.kernel)


def test_a_users_kernel_of_a_known_name_is_not_mistaken(X, tmp_path):
    """The name alone does not make it ours."""

    class Gaussian(kernels.RadialKernel):
        def profile(self, squared):
            return np.exp(-squared / (2 * self.bandwidth**2))

    A = bb.factorize(X, Gaussian(3.0), n_clusters=3, rank=6, rng=0)
    bb.save(A, tmp_path / "a.bbf")
    assert bb.load(tmp_path / "a.bbf").kernel is None
    B = bb.load(tmp_path / "a.bbf", kernel=Gaussian(3.0))
    np.testing.assert_array_equal(A.extend(X[:5]).todense(), B.extend(X[:5]).todense())


# --- files that are not whole ----------------------------------------------------------------------------------------


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        bb.load(tmp_path / "nothing.bbf")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.9999])
def test_truncated_files(path, share):
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(bb.StorageError, match=r"a\.bbf is not a complete blockbasis file"):
        bb.load(path)


@pytest.mark.parametrize(("flip", "first"), first_of([(0x01, 0), (0x08, 3), (0xFF, 6)]))
def test_a_flipped_byte_is_refused_or_harmless(A, path, flip, first):
    """Anywhere in the file: a clear refusal, or the same operator (archives have bytes that mean nothing)."""
    data = path.read_bytes()
    dense = A.todense()
    central = data.index(b"PK\x01\x02")
    places = {*range(first, central, 291), *range(central + first, len(data), 9)}
    escaped, harmless = [], 0
    for place in sorted(places):
        path.write_bytes(data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :])
        try:
            B = bb.load(path)
        except bb.StorageError:
            continue
        except Exception as error:  # noqa: BLE001
            escaped.append((place, type(error).__name__))
            continue
        np.testing.assert_array_equal(B.todense(), dense)
        assert (B.kernel, B.entries) == (A.kernel, A.entries)
        harmless += 1
    assert not escaped
    assert harmless < len(places) / 2


@pytest.mark.parametrize("name", ["basis.values", "inner.values", "partition.order", "diagonal", "extension.points"])
def test_changed_numbers_are_refused(path, name):
    contents = members(path)
    array = np.load(io.BytesIO(contents[f"{name}.npy"])).copy()
    array.flat[0] += 1
    stream = io.BytesIO()
    np.save(stream, array)
    write(path, {**contents, f"{name}.npy": stream.getvalue()})
    with pytest.raises(bb.StorageError, match="was altered after it was written: its digest does not match"):
        bb.load(path)


def test_changed_metadata_is_refused(path):
    contents = members(path)
    meta = json.loads(contents["meta.json"])
    meta["kernel"]["parameters"]["bandwidth"] = 2.0
    write(path, {**contents, "meta.json": json.dumps(meta)})
    with pytest.raises(bb.StorageError, match="digest does not match"):
        bb.load(path)


@pytest.mark.parametrize("name", ["basis.values.npy", "meta.json", "partition.starts.npy"])
def test_missing_members(path, name):
    contents = members(path)
    del contents[name]
    write(path, contents)
    with pytest.raises(bb.StorageError, match="is not a complete blockbasis file"):
        bb.load(path)


@pytest.mark.parametrize("version", [VERSION + 1, 99, "1", None, 1.5])
def test_other_versions(path, version):
    with_meta(path, version=version)
    with pytest.raises(bb.StorageError) as caught:
        bb.load(path)
    for part in ("a.bbf", f"format version {version}", f"reads up to {VERSION}"):
        assert part in str(caught.value)


def test_a_newer_version_says_what_to_do(path):
    with_meta(path, version=VERSION + 1)
    with pytest.raises(bb.StorageError, match="Install a newer blockbasis"):
        bb.load(path)


@pytest.mark.parametrize("meta", ["[]", "null", '"blockbasis"', "{}", '{"format": "other", "version": 1}'])
def test_other_archives(path, meta):
    write(path, {"meta.json": meta})
    with pytest.raises(bb.StorageError, match="is not a blockbasis file"):
        bb.load(path)


@pytest.mark.parametrize("meta", ["{", "", "\xff\xfe", '{"format": "blockbasis", "version": 1}'])
def test_broken_metadata(path, meta):
    write(path, {"meta.json": meta})
    with pytest.raises(bb.StorageError, match="is not a complete blockbasis file"):
        bb.load(path)


@pytest.mark.parametrize("data", [b"", b"hello", b"\x93NUMPY\x01\x00", b"PK\x05\x06" + bytes(18)])
def test_other_files(path, data):
    path.write_bytes(data)
    with pytest.raises(bb.StorageError, match=r"a\.bbf is not"):
        bb.load(path)


def test_a_directory(tmp_path):
    with pytest.raises((bb.StorageError, IsADirectoryError), match=tmp_path.name):
        bb.load(tmp_path)


def test_a_pickle_inside_is_never_run(path, tmp_path):
    witness = tmp_path / "witness"

    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(witness),))

    stream = io.BytesIO()
    np.save(stream, np.array([Evil()], dtype=object), allow_pickle=True)
    contents = members(path)
    for data in (stream.getvalue(), pickle.dumps(Evil())):
        write(path, {**contents, "basis.values.npy": data})
        with pytest.raises(bb.StorageError):
            bb.load(path)
    assert not witness.exists()


# --- written whole or not at all -------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["write", "flush", "replace"])
def test_a_crash_leaves_the_old_file_and_nothing_else(A, X, path, monkeypatch, at):
    other = bb.factorize(X, bb.Cauchy(1.0), n_clusters=2, rank=3, rng=0)
    before = path.read_bytes()

    def crash(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if at == "write":
            patch.setattr(np.lib.format, "write_array", crash)
        else:
            patch.setattr(os, "fsync" if at == "flush" else "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            bb.save(other, path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["a.bbf"]


def test_a_full_disk_leaves_nothing(A, tmp_path, monkeypatch):
    written = []

    def fill(stream, array, **kwargs):
        written.append(stream.write(b"half"))
        if len(written) == 5:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", fill)
    with pytest.raises(OSError, match="No space left"):
        bb.save(A, tmp_path / "a.bbf")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(A, tmp_path):
    with pytest.raises(FileNotFoundError):
        bb.save(A, tmp_path / "nowhere" / "a.bbf")


def test_only_factorizations_are_saved(A, tmp_path):
    for wrong in (A.todense(), A.extend(np.zeros((2, 2))).T, None):
        message = (
            f"'A' parameter of save must be a BlockBasis, a CrossBlockBasis or an estimator .*{type(wrong).__name__}"
        )
        with pytest.raises(TypeError, match=message):
            bb.save(wrong, tmp_path / "a.bbf")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", [2, 3])
def test_files_of_former_versions_still_load(A, path, version):
    """Version 2 has the arrays of a file whose blocks of C are whole, and version 3 those without corrections."""
    with_meta(path, version=version)
    assert_same(A, bb.load(path))
