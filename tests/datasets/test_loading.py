from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

from blockbasis import datasets
from blockbasis.datasets import Dataset, DatasetError, loading
from blockbasis.datasets.cache import data_digest, write_arrays
from blockbasis.datasets.recipes import RECIPES, Recipe

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
HOME = os.environ.get("BLOCKBASIS_DATA") or (str(_BESIDE) if _BESIDE.is_dir() else None)
X = np.array([[1.0, 7.0, 3.0], [2.0, 7.0, -3.5], [3.0, 7.0, 0.0], [6.0, 7.0, 1.0]])
y = np.array([1, 2, 2, 1])


@pytest.fixture
def tiny(monkeypatch):
    """A data set of four points in the place of abalone, with a count of its downloads."""

    class Tiny:
        downloads = 0
        answer = (X, y)

        def download(self):
            self.downloads += 1
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    it = Tiny()
    recipe = Recipe(
        "abalone", (4, 3), "classification", data_digest(X, y), "tiny", "https://nowhere", download=it.download
    )
    monkeypatch.setitem(RECIPES, "abalone", recipe)
    return it


def damage(path):
    content = bytearray(path.read_bytes())
    content[70] ^= 0xFF  # within the numbers of X: not all of an archive's own bytes matter
    path.write_bytes(bytes(content))


def truncate(path):
    path.write_bytes(path.read_bytes()[:-20])


def alter(path):
    write_arrays(path, X + 1e-9, y)


def reshape(path):
    write_arrays(path, X[:3], y[:3])


# --- where it comes from ---------------------------------------------------------------------------------------------


def test_a_directory_is_asked_first(tiny, tmp_path, cache, monkeypatch):
    write_arrays(tmp_path / "abalone.npz", X, y)
    loaded = datasets.load("abalone", data_home=tmp_path, standardize=False)
    np.testing.assert_array_equal(loaded.X, X)
    np.testing.assert_array_equal(datasets.load("abalone", str(tmp_path), False).X, X)
    monkeypatch.setenv("BLOCKBASIS_DATA", str(tmp_path))
    np.testing.assert_array_equal(datasets.load("abalone", standardize=False).y, y)
    assert tiny.downloads == 0
    assert not cache.exists()


def test_the_argument_comes_before_the_environment(tiny, tmp_path, monkeypatch):
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
    write_arrays(tmp_path / "good" / "abalone.npz", X, y)
    alter(tmp_path / "bad" / "abalone.npz")
    monkeypatch.setenv("BLOCKBASIS_DATA", str(tmp_path / "bad"))
    np.testing.assert_array_equal(datasets.load("abalone", tmp_path / "good", standardize=False).X, X)


def test_a_download_is_kept(tiny, cache, tmp_path):
    first = datasets.load("abalone", data_home=tmp_path)  # which has no such file
    again = datasets.load("abalone")
    assert tiny.downloads == 1
    assert [path.name for path in cache.iterdir()] == ["abalone.npz"]
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert first.X.dtype == again.X.dtype == np.float64
    assert first.y.dtype == again.y.dtype == np.int64


@pytest.mark.parametrize("harm", [damage, truncate, alter, reshape])
def test_a_bad_copy_in_the_cache_is_replaced(tiny, cache, harm):
    datasets.load("abalone")
    harm(cache / "abalone.npz")
    np.testing.assert_array_equal(datasets.load("abalone", standardize=False).X, X)
    assert tiny.downloads == 2
    datasets.load("abalone")
    assert tiny.downloads == 2


@pytest.mark.parametrize("harm", [damage, truncate, alter, reshape])
def test_a_bad_file_of_the_user_is_refused_and_left_alone(tiny, tmp_path, harm):
    path = tmp_path / "abalone.npz"
    write_arrays(path, X, y)
    harm(path)
    before = path.read_bytes()
    with pytest.raises(DatasetError, match=r"abalone.npz is not (the expected abalone|a complete npz file)"):
        datasets.load("abalone", data_home=tmp_path)
    assert path.read_bytes() == before
    assert tiny.downloads == 0


@pytest.mark.parametrize("answer", [(X + 1e-9, y), (X[::-1], y), (X, y + 1), (X[:3], y[:3]), (X, y[:3])])
def test_a_wrong_download_is_refused_and_not_kept(tiny, cache, answer):
    tiny.answer = answer
    with pytest.raises(
        DatasetError, match="https://nowhere: .*the downloaded data set is not the expected abalone.*abalone.npz"
    ):
        datasets.load("abalone")
    assert not cache.exists()


def test_without_a_network_the_message_says_what_to_do(tiny, cache):
    tiny.answer = OSError("no route to host")
    with pytest.raises(DatasetError) as caught:
        datasets.load("abalone")
    message = str(caught.value)
    for part in ("abalone", "https://nowhere", "no route to host", "abalone.npz", "BLOCKBASIS_DATA", "data_home"):
        assert part in message
    assert "The copy in the cache" not in message
    tiny.answer = (X, y)
    datasets.load("abalone")
    truncate(cache / "abalone.npz")
    tiny.answer = OSError("no route to host")
    with pytest.raises(
        DatasetError, match=r"The copy in the cache is invalid: .*abalone.npz is not a complete npz file"
    ):
        datasets.load("abalone")


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.download is not None])
def test_every_download_fails_clearly_without_a_network(name):
    with pytest.raises(
        DatasetError, match=f"{name} is not available locally and could not be downloaded from https://.*URLError"
    ):
        datasets.load(name)


def test_a_cache_that_cannot_be_written_is_no_obstacle(tiny, cache):
    cache.write_text("a file where the directory should be")
    with pytest.warns(UserWarning, match="abalone could not be stored in"):
        loaded = datasets.load("abalone", standardize=False)
    np.testing.assert_array_equal(loaded.X, X)


@pytest.mark.parametrize(("name", "file"), [("otto", "train.csv"), ("emg", "emg+physical+action+data+set.zip")])
def test_what_has_to_be_brought(name, file, tmp_path):
    for home in (None, tmp_path):
        with pytest.raises(DatasetError) as caught:
            datasets.load(name, data_home=home)
        for part in (f"{name} cannot be downloaded automatically", file, f"folder {name} of", "BLOCKBASIS_DATA"):
            assert part in str(caught.value)
    (tmp_path / name).mkdir()
    with pytest.raises(DatasetError, match=f"The files in .*{name} cannot be converted to {name}: "):
        datasets.load(name, data_home=tmp_path)


def test_what_was_brought_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(RECIPES, "otto", dataclasses.replace(RECIPES["otto"], shape=(2, 2)))
    (tmp_path / "otto").mkdir()
    path = tmp_path / "otto" / "train.csv"
    path.write_text("id,feat_1,feat_2,target\n1,0,3,Class_2\n2,5,0,Class_9\n")
    otto = datasets.load("otto", data_home=tmp_path, standardize=False)
    assert otto.X.tolist() == [[0, 3], [5, 0]]
    assert otto.y.tolist() == [2, 9]
    path.write_text("id,feat_1,feat_2,target\n1,0,3,Class_2\n")
    with pytest.raises(DatasetError, match=r"otto is not the expected otto.*Got \(1, 2\)"):
        datasets.load("otto", data_home=tmp_path)


# --- what comes out --------------------------------------------------------------------------------------------------


def test_columns_are_standardized_unless_told_otherwise(tiny):
    loaded = datasets.load("abalone")
    assert isinstance(loaded, Dataset)
    np.testing.assert_allclose(loaded.X, datasets.standardized(X))
    assert (loaded.X[:, 1] == 0).all()
    assert (loaded.name, loaded.description, loaded.source) == ("abalone", "tiny", "https://nowhere")


def test_a_part_is_standardized_by_itself(monkeypatch, tmp_path):
    rows = np.arange(30.0).reshape(10, 3) ** 2
    classes = np.arange(10)
    recipe = dataclasses.replace(RECIPES["pendigits"], shape=(10, 3), sha256=data_digest(rows, classes))
    monkeypatch.setitem(RECIPES, "pendigits", recipe)
    monkeypatch.setitem(loading._PARTS, "pendigits-train", ("pendigits", 6))
    write_arrays(tmp_path / "pendigits.npz", rows, classes)
    part = datasets.load("pendigits-train", data_home=tmp_path)
    np.testing.assert_allclose(part.X, datasets.standardized(rows[:6]))
    assert part.y.tolist() == list(range(6))
    assert part.name == "pendigits-train"
    assert "Here: the first 6 rows" in part.description
    assert datasets.load("pendigits", data_home=tmp_path).X.shape == (10, 3)


def test_regression_targets_are_floats(monkeypatch, tmp_path):
    recipe = dataclasses.replace(RECIPES["cpusmall"], shape=(4, 3), sha256=data_digest(X, y))
    monkeypatch.setitem(RECIPES, "cpusmall", recipe)
    write_arrays(tmp_path / "cpusmall.npz", X, y)
    assert datasets.load("cpusmall", data_home=tmp_path).y.dtype == np.float64


def test_every_name_is_described():
    assert set(datasets.NAMES) == {*RECIPES, "pendigits-train"}
    for name, recipe in RECIPES.items():
        assert recipe.name == name
        assert recipe.description.startswith(f"{recipe.shape[0]} x {recipe.shape[1]}: ")
        assert "y = " in recipe.description
        assert recipe.source.startswith("https://")
        assert (recipe.download is None) != (recipe.convert is None)


@pytest.mark.skipif(not HOME, reason="set BLOCKBASIS_DATA to a directory with the paper's data")
@pytest.mark.parametrize(
    "name", ["abalone", "mushroom", "cpusmall", "pendigits", "census_house", "emg", "ctg", "gesture"]
)
def test_the_papers_data(name):
    path = Path(HOME) / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    loaded = datasets.load(name, data_home=HOME)
    with np.load(path) as archive:
        raw = archive["X"].astype(np.float64)
        np.testing.assert_array_equal(datasets.load(name, HOME, standardize=False).X, raw)
        np.testing.assert_array_equal(loaded.y, archive["y"])
    varies = raw.std(axis=0) > 0
    np.testing.assert_allclose(loaded.X.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(loaded.X.std(axis=0), varies, rtol=1e-9)


@pytest.mark.skipif(not HOME or not (Path(HOME) / "pendigits.npz").is_file(), reason="no Pendigits in BLOCKBASIS_DATA")
def test_the_training_part_of_pendigits():
    """Class sizes of UCI's training file."""
    train = datasets.load("pendigits-train", data_home=HOME)
    assert train.X.shape == (7494, 16)
    assert np.bincount(train.y).tolist() == [780, 779, 780, 719, 780, 720, 720, 778, 719, 719]
    np.testing.assert_allclose(train.X.std(axis=0), 1)


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["iris", "", "Abalone", None, 3])
def test_unknown_names(name):
    with pytest.raises(
        ValueError, match=r"'name' parameter of load must be one of 'abalone', .*'covertype'. Got .* instead"
    ):
        datasets.load(name)


def test_covertype_is_covtype():
    with pytest.raises(DatasetError, match="covtype is not available locally"):
        datasets.load("covertype")


def test_bad_settings(tmp_path, monkeypatch):
    with pytest.raises(TypeError, match="'standardize' parameter of load must be True or False. Got 1 instead"):
        datasets.load("abalone", standardize=1)
    with pytest.raises(TypeError, match="'data_home' parameter of load must be a directory or None. Got 3 instead"):
        datasets.load("abalone", data_home=3)
    with pytest.raises(NotADirectoryError, match="'data_home' parameter of load must be a directory that exists"):
        datasets.load("abalone", data_home=tmp_path / "none")
    with pytest.raises(TypeError, match="'data_home' parameter of find must be a directory or None. Got 3 instead"):
        datasets.find("abalone", 3)
    with pytest.raises(NotADirectoryError, match="'data_home' parameter of find must be a directory that exists"):
        datasets.find("abalone", tmp_path / "none")
    monkeypatch.setenv("BLOCKBASIS_DATA", str(tmp_path / "none"))
    with pytest.raises(
        NotADirectoryError, match="environment variable BLOCKBASIS_DATA must be a directory that exists"
    ):
        datasets.load("abalone")


# --- find ------------------------------------------------------------------------------------------------------------


def test_find_looks_where_load_does(tmp_path, monkeypatch):
    home, cache = tmp_path / "home", tmp_path / "cache"
    home.mkdir()
    cache.mkdir()
    monkeypatch.setenv("BLOCKBASIS_CACHE", str(cache))
    monkeypatch.delenv("BLOCKBASIS_DATA", raising=False)
    assert datasets.find("abalone", home) is None
    (cache / "pendigits.npz").touch()
    assert datasets.find("pendigits-train") == cache / "pendigits.npz"
    (home / "pendigits.npz").touch()
    assert datasets.find("pendigits", home) == home / "pendigits.npz"
    (home / "otto").mkdir()
    assert datasets.find("otto", home) == home / "otto"
    monkeypatch.setenv("BLOCKBASIS_DATA", str(home))
    assert datasets.find("otto") == home / "otto"
    with pytest.raises(ValueError, match="'name' parameter of find must be one of"):
        datasets.find("nothing")
