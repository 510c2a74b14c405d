"""Each conversion on files written by hand; and, where the paper's data are at hand, on files made from all of them."""

from __future__ import annotations

import email.message
import hashlib
import io
import json
import os
import urllib.request
import urllib.response
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

from blockbasis.datasets import recipes
from blockbasis.datasets.cache import data_digest
from blockbasis.datasets.recipes import RECIPES

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
HOME = os.environ.get("BLOCKBASIS_DATA") or (str(_BESIDE) if _BESIDE.is_dir() else None)
real = pytest.mark.skipif(not HOME, reason="set BLOCKBASIS_DATA to a directory with the paper's data")


def arrays(name):
    """What the file of a data set holds."""
    path = Path(HOME) / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with np.load(path) as archive:
        return dict(archive)


def download(name):
    return RECIPES[name].download()


def assert_the_very_numbers(name, X, y):
    """A conversion gives the numbers that the checksum is of."""
    assert X.shape == RECIPES[name].shape
    assert data_digest(X, y) == RECIPES[name].sha256


def joined(rows, delimiter=","):
    return "\n".join(delimiter.join(map(str, row)) for row in rows) + "\n"


class FakeOpenML:
    """Stands for fetch_openml: a table with names, whose categories are numbered in some order, as OpenML has them."""

    def __init__(self, data_id, columns, categories=()):
        self.data_id, self.columns, self.categories = data_id, columns, dict(categories)

    def __call__(self, *, data_id, target_column, as_frame, parser, cache):
        assert (data_id, target_column, as_frame, parser, cache) == (self.data_id, None, False, "liac-arff", False)
        coded = {
            name: [self.categories[name].index(value) for value in values] if name in self.categories else values
            for name, values in self.columns.items()
        }
        data = np.column_stack([np.asarray(values, dtype=float) for values in coded.values()])
        return Bunch(data=data, feature_names=list(coded), categories=self.categories, target=None)


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_abalone(uci):
    uci("/1/abalone.zip", {"Index": "no data", "abalone.data": "M,0.5,0.25,15\nF,0.1,0.2,7\nI,0.3,0.4,9\n\n"})
    X, y = download("abalone")
    assert X.tolist() == [[1, 0.5, 0.25], [2, 0.1, 0.2], [3, 0.3, 0.4]]
    assert y.tolist() == [15, 7, 9]


def test_mushroom(uci):
    rows = [list("pxs") + ["n"] * 8 + ["?"] + ["w"] * 11, list("exa") + ["n"] * 8 + ["b"] + ["w"] * 10 + ["a"]]
    uci("/73/mushroom.zip", {"agaricus-lepiota.data": joined(rows)})
    X, y = download("mushroom")
    # shape x; surface a, s; eight n; stalk-root left out; ten w; habitat a, w
    assert X.tolist() == [[1, 0, 1, *[1] * 8, *[1] * 10, 0, 1], [1, 1, 0, *[1] * 8, *[1] * 10, 1, 0]]
    assert y.tolist() == [2, 1]


def test_pendigits_has_the_training_rows_first(uci):
    members = {"folder/pendigits.tes": " 1,  2,7\r\n", "folder/pendigits.tra": " 47,100,8\r\n  0, 89,2\r\n"}
    uci("/81/pen+based+recognition+of+handwritten+digits.zip", members)
    X, y = download("pendigits")
    assert X.tolist() == [[47, 100], [0, 89], [1, 2]]
    assert y.tolist() == [8, 2, 7]


def test_gesture_has_the_videos_in_order(uci):
    rows = {"c3": "6,1e-3,S", "a1": "0,0.5,D", "b1": "3,-0.5,H", "a2": "1,0.5,P", "c1": "5,0,R", "b3": "4,-0.5,R"}
    rows["a3"] = "2,0.5,S"
    members = {f"{video}_va3.csv": f"1,2,Phase\n{row}\n" for video, row in rows.items()}
    members["a1_raw.csv"] = "none"
    uci("/302/gesture+phase+segmentation.zip", members)
    X, y = download("gesture")
    assert X.tolist() == [[0, 0.5], [1, 0.5], [2, 0.5], [3, -0.5], [4, -0.5], [5, 0], [6, 1e-3]]
    assert y.tolist() == [0, 1, 2, 3, 4, 4, 2]


def test_a_missing_member_is_an_error(uci):
    uci("/1/abalone.zip", {"other": ""})
    with pytest.raises(ValueError, match="not enough values"):
        download("abalone")


def test_columns_of_openml_are_taken_by_name(monkeypatch):
    columns = {name: [float(j), j + 0.5] for j, name in enumerate(recipes._CPU_COLUMNS)}
    shuffled = {"usr": [90, 80], **dict(reversed(columns.items()))}
    monkeypatch.setattr(recipes, "fetch_openml", FakeOpenML(562, shuffled))
    X, y = download("cpusmall")
    assert X.tolist() == [list(range(12)), [j + 0.5 for j in range(12)]]
    assert y.tolist() == [90, 80]


CTG = {f"V{place}": [float(place), 10.0 * place] for place in range(1, 36)}
CTG |= {"V1": [100, 0], "V2": [200, 50], "Class": ["10", "2"]}


class OpenMLServer(urllib.request.HTTPSHandler):
    """What openml.org says of a table whose last column is a category: for the real fetch_openml."""

    def __init__(self, data_id, columns, categories):
        super().__init__()
        self.asked = []
        *numeric, nominal = columns
        kinds = [*(f"@attribute {name} real" for name in numeric), f"@attribute {nominal} {{{','.join(categories)}}}"]
        rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
        arff = "\n".join(["@relation table", *kinds, "@data", *rows]) + "\n"
        features = [
            {
                "index": str(j),
                "name": name,
                "data_type": "nominal" if name == nominal else "numeric",
                "is_target": "true" if name == nominal else "false",
                "is_ignore": "false",
                "is_row_identifier": "false",
            }
            for j, name in enumerate(columns)
        ]
        description = {
            "id": str(data_id),
            "name": "table",
            "version": "1",
            "status": "active",
            "description": "two rows",
            "format": "ARFF",
            "file_id": "1",
            "url": "https://www.openml.org/data/v1/download/1/table.arff",
            "md5_checksum": hashlib.md5(arff.encode()).hexdigest(),
        }
        api = f"/api/v1/json/data/{{}}{data_id}"
        qualities = [{"name": "NumberOfInstances", "value": str(len(rows))}]
        self.pages = {
            api.format(""): json.dumps({"data_set_description": description}),
            api.format("features/"): json.dumps({"data_features": {"feature": features}}),
            api.format("qualities/"): json.dumps({"data_qualities": {"quality": qualities}}),
            "/data/v1/download/1/table.arff": arff,
            "/data/v1/download/1": arff,  # where scikit-learn 1.6 looks
        }

    def https_open(self, request):
        self.asked.append((request.host, request.selector))
        body = io.BytesIO(self.pages[request.selector].encode())
        answer = urllib.response.addinfourl(body, email.message.Message(), request.full_url, 200)
        answer.msg = "OK"
        return answer


@pytest.mark.parametrize("real_fetch", [False, True])
def test_counts_of_ctg_become_rates(monkeypatch, real_fetch):
    classes = ["1", "10", "2"]
    if real_fetch:
        server = OpenMLServer(1466, CTG, classes)
        monkeypatch.setattr(urllib.request, "_opener", urllib.request.build_opener(server))
        monkeypatch.setattr(recipes, "fetch_openml", fetch_openml)
    else:
        monkeypatch.setattr(recipes, "fetch_openml", FakeOpenML(1466, CTG, {"Class": classes}))
    X, y = download("ctg")
    rates = np.array([5, 6, 7, 12, 13, 14])
    assert X[0].tolist() == [4, *(rates / 100), 8, 9, 10, 11, *range(16, 26)]
    assert X[1].tolist() == [40, *(rates * 10 / 50), 80, 90, 100, 110, *range(160, 260, 10)]
    assert y.tolist() == [10, 2]
    if real_fetch:
        (host,) = {host for host, _ in server.asked}
        assert host in ("api.openml.org", "www.openml.org")  # of old and new versions of scikit-learn


def test_covtype_is_scikit_learns(monkeypatch):
    folders = []

    def fetch(data_home, return_X_y):
        folders.append(Path(data_home))
        assert folders[0].is_dir()
        return np.eye(2), np.array([1, 2])

    monkeypatch.setattr(recipes, "fetch_covtype", fetch)
    X, y = download("covtype")
    assert X.tolist() == [[1, 0], [0, 1]]
    assert y.tolist() == [1, 2]
    assert not folders[0].exists()


def test_emg_draws_from_all_subjects(tmp_path):
    for subject in (4, 2, 1, 3):
        for c, action in enumerate(recipes._EMG_ACTIONS):
            path = tmp_path / "EMG" / f"sub{subject}" / "Some" / "txt" / f"{action}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(joined([(subject, c, row) for row in range(2)], "\t"))
    X, y = recipes._emg(tmp_path, rows_per_action=6)
    rng = np.random.default_rng(0)
    expected = [np.sort(rng.choice(8, 6, replace=False)) for _ in range(20)]
    assert y.tolist() == [c for c in range(20) for _ in range(6)]
    assert X.tolist() == [[1 + row // 2, c, row % 2] for c in range(20) for row in expected[c]]
    (tmp_path / "EMG" / "sub3" / "Some" / "txt" / "Waving.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"must hold one Waving.txt below sub3. Got 0 instead"):
        recipes._emg(tmp_path, rows_per_action=6)
    assert RECIPES["emg"].convert is recipes._emg


def test_otto(tmp_path):
    (tmp_path / "train.csv").write_text("id,feat_1,feat_2,target\n1,0,3,Class_1\n2,5,0,Class_9\n")
    X, y = RECIPES["otto"].convert(tmp_path)
    assert X.tolist() == [[0, 3], [5, 0]]
    assert y.tolist() == [1, 9]


# --- the real numbers, through files made from them ------------------------------------------------------------------


@real
def test_all_of_abalone(uci):
    table = arrays("abalone")
    rows = [["-MFI"[int(x[0])], *x[1:], rings] for x, rings in zip(table["X"].tolist(), table["y"], strict=True)]
    uci("/1/abalone.zip", {"abalone.data": joined(rows)})
    assert_the_very_numbers("abalone", *download("abalone"))


@real
def test_all_of_pendigits(uci):
    table = arrays("pendigits")
    rows = np.column_stack((table["X"], table["y"])).tolist()
    members = {"pendigits.tra": joined(rows[:7494], ", "), "pendigits.tes": joined(rows[7494:], ", ")}
    uci("/81/pen+based+recognition+of+handwritten+digits.zip", members)
    assert_the_very_numbers("pendigits", *download("pendigits"))


@real
def test_all_of_mushroom(uci):
    table = arrays("mushroom")
    # Every attribute is a run of columns with one 1 in each row; any letters in the order of the alphabet will do.
    starts = [0]
    while starts[-1] < 112:
        starts.append(next(j for j in range(starts[-1] + 1, 113) if (table["X"][:, starts[-1] : j].sum(1) == 1).all()))
    assert len(starts) == 22  # 21 attributes and the end
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    columns = [letters[table["X"][:, a:b].argmax(axis=1)] for a, b in zip(starts, starts[1:], strict=False)]
    labels = np.where(table["y"] == 1, "e", "p")
    rows = np.column_stack([labels, *columns[:10], np.full(len(labels), "?"), *columns[10:]])
    uci("/73/mushroom.zip", {"agaricus-lepiota.data": joined(rows)})
    assert_the_very_numbers("mushroom", *download("mushroom"))


@real
def test_all_of_gesture(uci):
    table = arrays("gesture")
    header = [*range(1, 33), "Phase"]
    members = {}
    for k, video in enumerate(("a1", "a2", "a3", "b1", "b3", "c1", "c3")):
        chosen = table["video"] == k
        phases = ["DPSHR"[phase] for phase in table["y"][chosen]]
        rows = [[*x, phase] for x, phase in zip(table["X"][chosen].tolist(), phases, strict=True)]
        members[f"{video}_va3.csv"] = joined([header, *rows])
    uci("/302/gesture+phase+segmentation.zip", members)
    assert_the_very_numbers("gesture", *download("gesture"))


@real
@pytest.mark.parametrize(("name", "data_id", "target"), [("cpusmall", 562, "usr"), ("census_house", 574, "price")])
def test_all_of_the_regressions_of_openml(name, data_id, target, monkeypatch):
    table = arrays(name)
    names = {"cpusmall": recipes._CPU_COLUMNS, "census_house": recipes._HOUSE_COLUMNS}[name]
    columns = {**dict(zip(names, table["X"].T, strict=True)), target: table["y"]}
    monkeypatch.setattr(recipes, "fetch_openml", FakeOpenML(data_id, columns))
    assert_the_very_numbers(name, *download(name))


@real
def test_all_of_ctg(monkeypatch):
    table = arrays("ctg")
    X, counts = table["X"], table["X_counts"]
    columns = {f"V{place}": np.zeros(len(X)) for place in range(1, 36)}
    columns |= {"V1": counts[:, 0], "V2": counts[:, 1], "V4": X[:, 0]}
    columns |= {f"V{place}": counts[:, 2 + j] for j, place in enumerate((5, 6, 7, 12, 13, 14))}
    columns |= {f"V{place}": X[:, 7 + j] for j, place in enumerate((8, 9, 10, 11, *range(16, 26)))}
    classes = [str(k) for k in range(1, 11)]
    columns["Class"] = [str(label) for label in table["y"]]
    monkeypatch.setattr(recipes, "fetch_openml", FakeOpenML(1466, columns, {"Class": classes}))
    assert_the_very_numbers("ctg", *download("ctg"))
