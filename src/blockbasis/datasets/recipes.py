"""The data sets of the paper: description, source, and conversion of the original files to X and y.

Every recipe has a checksum of X and y, so that changed sources are detected.
"""

from __future__ import annotations

import io
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import fetch_covtype, fetch_openml

from blockbasis._utils.typing import FloatArray
from blockbasis.datasets.files import load_file

_OTTO = "https://www.kaggle.com/c/otto-group-product-classification-challenge"
UCI = "https://archive.ics.uci.edu/static/public"
_TIMEOUT = 60  # seconds without an answer
_CC_BY = "CC BY 4.0"
#: Number of rows of the training part of Pendigits.
PENDIGITS_TRAINING = 7494
#: Number of rows sampled from each action of EMG, as in the paper.
_ROWS_PER_ACTION = 1500
_EMG_ACTIONS = (
    *("Bowing", "Clapping", "Handshaking", "Hugging", "Jumping", "Running", "Seating", "Standing", "Walking", "Waving"),
    *("Elbowing", "Frontkicking", "Hamering", "Headering", "Kneeing"),
    *("Pulling", "Punching", "Pushing", "Sidekicking", "Slapping"),
)
_EMG_SUBJECTS = (1, 2, 3, 4)
_GESTURE_VIDEOS = ("a1", "a2", "a3", "b1", "b3", "c1", "c3")
_GESTURE_PHASES = "DPSHR"
_CPU_COLUMNS = (
    *("lread", "lwrite", "scall", "sread", "swrite", "fork"),
    *("exec", "rchar", "wchar", "runqsz", "freemem", "freeswap"),
)
_HOUSE_COLUMNS = (
    *("P1", "P5p1", "P6p2", "P11p4", "P14p9", "P15p1", "P15p3", "P16p2"),
    *("P18p2", "P27p4", "H2p2", "H8p2", "H10p1", "H13p1", "H18pA", "H40p4"),
)
#: Columns of CTG among OpenML's V1, V2, ...: begin and end, LB, six counts, four of variability, the histogram's.
_CTG_COLUMNS = [f"V{place}" for place in (1, 2, 4, 5, 6, 7, 12, 13, 14, 8, 9, 10, 11, *range(16, 26))]
_CTG_COUNTS = slice(1, 7)

Arrays = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class Recipe:
    """Description of a data set and functions that obtain it.

    Parameters
    ----------
    name : str
        Name of the data set.
    shape : tuple of int
        Numbers of points and of columns.
    task : str
        "classification", with integers as y, or "regression".
    sha256 : str or None
        `cache.data_digest` of X and y; None if the licence forbids redistribution.
    description : str
    source : str
    download : callable or None
        Function that downloads the files and returns X and y; None if the user must provide the files.
    convert : callable or None
        Function that returns X and y from a folder with the original files.
    bring : str
        Instructions for the files of that folder, for a data set that cannot be downloaded.
    """

    name: str
    shape: tuple[int, int]
    task: str
    sha256: str | None
    description: str
    source: str
    download: Callable[[], Arrays] | None = None
    convert: Callable[[Path], Arrays] | None = None
    bring: str = ""


# --- downloads -------------------------------------------------------------------------------------------------------


def _uci(number: int, title: str) -> zipfile.ZipFile:
    """Download an archive of the UCI repository into memory."""
    with urllib.request.urlopen(f"{UCI}/{number}/{title}.zip", timeout=_TIMEOUT) as answer:
        return zipfile.ZipFile(io.BytesIO(answer.read()))


def _lines(archive: zipfile.ZipFile, name: str) -> list[str]:
    """Return the lines of a file of an archive, in any of its folders."""
    (member,) = (path for path in archive.namelist() if path.rsplit("/", maxsplit=1)[-1] == name)
    return [line for line in archive.read(member).decode().splitlines() if line.strip()]


def _openml(data_id: int, columns: Sequence[str], target: str) -> Arrays:
    """Download columns of a data set of OpenML, by name."""
    # As numbers and without pandas: a category is its index in the list of categories.
    found = fetch_openml(data_id=data_id, target_column=None, as_frame=False, parser="liac-arff", cache=False)

    def column(name: str) -> FloatArray:
        values = found.data[:, list(found.feature_names).index(name)]
        if name in found.categories:
            values = np.array([float(text) for text in found.categories[name]])[values.astype(np.intp)]
        return np.asarray(values)

    return np.column_stack([column(name) for name in columns]), column(target)


# --- conversions of the data sets ------------------------------------------------------------------------------------


def _abalone() -> Arrays:
    rows = [line.strip().split(",") for line in _lines(_uci(1, "abalone"), "abalone.data")]
    sexes = {"M": 1, "F": 2, "I": 3}
    table = np.array([[sexes[sex], *rest] for sex, *rest in rows], dtype=np.float64)
    return table[:, :-1], table[:, -1]


def _mushroom() -> Arrays:
    rows = np.array([line.strip().split(",") for line in _lines(_uci(73, "mushroom"), "agaricus-lepiota.data")])
    stalk_root = 11  # it has missing values, and the LIBSVM version omits it
    columns = [column for j, column in enumerate(rows.T) if j not in (0, stalk_root)]
    X = np.column_stack([column[:, np.newaxis] == np.unique(column) for column in columns])
    return X.astype(np.float64), np.where(rows[:, 0] == "e", 1, 2)


def _cpusmall() -> Arrays:
    return _openml(562, _CPU_COLUMNS, "usr")


def _pendigits() -> Arrays:
    archive = _uci(81, "pen+based+recognition+of+handwritten+digits")
    lines = [*_lines(archive, "pendigits.tra"), *_lines(archive, "pendigits.tes")]
    table = np.loadtxt(lines, delimiter=",", ndmin=2)
    return table[:, :-1], table[:, -1]


def _census_house() -> Arrays:
    return _openml(574, _HOUSE_COLUMNS, "price")


def _covtype() -> Arrays:
    with tempfile.TemporaryDirectory() as folder:  # only the cache of this package stores the data
        X, y = fetch_covtype(data_home=folder, return_X_y=True)
    return X, y


def _ctg() -> Arrays:
    table, y = _openml(1466, _CTG_COLUMNS, "Class")
    begin, end, X = table[:, :1], table[:, 1:2], table[:, 2:]
    X[:, _CTG_COUNTS] /= end - begin  # counts per second, as on the sheet 'Data' of UCI's workbook
    return X, y


def _gesture() -> Arrays:
    archive = _uci(302, "gesture+phase+segmentation")
    rows = [line.strip().split(",") for video in _GESTURE_VIDEOS for line in _lines(archive, f"{video}_va3.csv")[1:]]
    y = np.array([_GESTURE_PHASES.index(row[-1]) for row in rows])
    return np.array([row[:-1] for row in rows], dtype=np.float64), y


def _emg(folder: Path, rows_per_action: int = _ROWS_PER_ACTION) -> Arrays:
    rng = np.random.default_rng(0)
    drawn = []
    for action in _EMG_ACTIONS:
        files = [_only(folder, f"sub{subject}", f"{action}.txt") for subject in _EMG_SUBJECTS]
        rows = np.concatenate([np.loadtxt(file, ndmin=2) for file in files])
        drawn.append(rows[np.sort(rng.choice(len(rows), rows_per_action, replace=False))])
    return np.concatenate(drawn), np.repeat(np.arange(len(_EMG_ACTIONS)), rows_per_action)


def _only(folder: Path, part: str, name: str) -> Path:
    found = [path for path in folder.rglob(name) if part in path.parts]
    if len(found) != 1:
        raise FileNotFoundError(f"{folder} must hold one {name} below {part}. Got {len(found)} instead.")
    return found[0]


def _otto(folder: Path) -> Arrays:
    table = load_file(folder / "train.csv", target="target")
    labels: Any = table.y
    return table.X[:, 1:], np.array(
        [int(label.removeprefix("Class_")) for label in labels]
    )  # the first column is the id


# --- recipes ---------------------------------------------------------------------------------------------------------

_ALL = (
    Recipe(
        "abalone",
        (4177, 8),
        "regression",
        "a68bb7b7eee7f84f336c2b1cef74fc30970c7152dd43047618d89c7084dd5d02",
        "4177 x 8: sex (M = 1, F = 2, I = 3, in one column), length, diameter, height, whole, shucked, viscera and "
        "shell weight; y = rings. The paper's numerical ranks and leverage scores are those of sexes numbered by the "
        "alphabet (F = 1, I = 2, M = 3).",
        f"https://archive.ics.uci.edu/dataset/1 (Abalone; {_CC_BY})",
        download=_abalone,
    ),
    Recipe(
        "mushroom",
        (8124, 112),
        "classification",
        "bcc4a652bce3bff2ebf424b3ab8aa41112944291ea8ef76c132533c1911de71b",
        "8124 x 112: 21 attributes, each value a column of 0 and 1 in the order of the alphabet; stalk-root is left "
        "out, veil-type is constant; y = 1 edible, 2 poisonous.",
        f"https://archive.ics.uci.edu/dataset/73 (Mushroom; {_CC_BY})",
        download=_mushroom,
    ),
    Recipe(
        "cpusmall",
        (8192, 12),
        "regression",
        "018f54648e1c84311b264dd17f0b09c725f8dd442ca3aaf4463022511e604370",
        f"8192 x 12: {', '.join(_CPU_COLUMNS)}; y = usr, per cent of time in user mode. The paper prints 16 columns.",
        "https://www.openml.org/d/562 (cpu_small, from DELVE)",
        download=_cpusmall,
    ),
    Recipe(
        "pendigits",
        (10992, 16),
        "classification",
        "e6608b0d42190adc2943233a7574a42fab506d44da94d2791e46cef68b389681",
        f"10992 x 16: eight points of a pen's way in 0..100; y = digit. The first {PENDIGITS_TRAINING} rows are the "
        "training part, which is 'pendigits-train'.",
        f"https://archive.ics.uci.edu/dataset/81 (Pen-Based Recognition of Handwritten Digits; {_CC_BY})",
        download=_pendigits,
    ),
    Recipe(
        "census_house",
        (22784, 16),
        "regression",
        "69fa3643cac03f198d23f0f0a70c987d6e7fe0048bfe7cd937b4c67bcc561f48",
        f"22784 x 16: {', '.join(_HOUSE_COLUMNS)}; y = median house price in dollars. The paper prints 22,748 points.",
        "https://www.openml.org/d/574 (house_16H, from DELVE; US Census 1990)",
        download=_census_house,
    ),
    Recipe(
        "covtype",
        (581012, 54),
        "classification",
        "74a0af8723951fb4a2ab4e69eaefa2df90c3eae34f0bb881fad47979e5e05248",
        "581012 x 54: ten measurements, 4 wilderness areas and 40 soil types as 0 and 1; y = cover type, 1 to 7. The "
        "rows are in the order of the file: draw a part at random.",
        f"https://archive.ics.uci.edu/dataset/31 (Covertype, through scikit-learn; {_CC_BY})",
        download=_covtype,
    ),
    Recipe(
        "emg",
        (30000, 8),
        "classification",
        "ba2bfce1b47c770c56ff000f2559707cd0a0f339300c375e1da4f60303df8d73",
        f"30000 x 8: muscle signals; y = action, 0 to 19: {', '.join(_EMG_ACTIONS)}; {_ROWS_PER_ACTION} rows of each, "
        "drawn over all four persons. The paper has 19 of them: y < 19 gives its number of points.",
        f"https://archive.ics.uci.edu/dataset/213 (EMG Physical Action Data Set; {_CC_BY})",
        convert=_emg,
        bring=f"Unpack {UCI}/213/emg+physical+action+data+set.zip, and any archive in it, into",
    ),
    Recipe(
        "ctg",
        (2126, 21),
        "classification",
        "00bb1059fa56566ff92c503de293dfdd209cd898a0c8f2273bd4400a89bb64d4",
        "2126 x 21: LB, AC, FM, UC, DL, DS, DP (all but LB per second), ASTV, MSTV, ALTV, MLTV, Width, Min, Max, Nmax, "
        "Nzeros, Mode, Mean, Median, Variance, Tendency; y = pattern, 1 to 10. The paper prints 23 columns.",
        f"https://www.openml.org/d/1466 (cardiotocography, UCI 193; {_CC_BY})",
        download=_ctg,
    ),
    Recipe(
        "gesture",
        (9873, 32),
        "classification",
        "d792bb466d9b4236c755bae3e343dd1315a491ee4d93181f329c07e116da8387",
        "9873 x 32: velocities and accelerations of hands and wrists in the order of seven videos; y = phase: 0 rest, "
        "1 preparation, 2 stroke, 3 hold, 4 retraction.",
        f"https://archive.ics.uci.edu/dataset/302 (Gesture Phase Segmentation; {_CC_BY})",
        download=_gesture,
    ),
    Recipe(
        "otto",
        (61878, 93),
        "classification",
        None,
        "61878 x 93: counts of a product; y = its class, 1 to 9. The paper has 20,000 of the points.",
        f"{_OTTO} (Otto Group Product Classification Challenge; may not be passed on)",
        convert=_otto,
        bring=f"Get train.csv from {_OTTO} into",
    ),
)
RECIPES = {recipe.name: recipe for recipe in _ALL}
