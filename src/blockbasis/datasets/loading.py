"""The data sets of the paper by name: from a directory, from the cache, or downloaded."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis._utils.validation import check_choice, check_flag
from blockbasis.datasets.cache import (
    DATA_HOME,
    DatasetError,
    cache_directory,
    data_digest,
    read_arrays,
    reason,
    write_arrays,
)
from blockbasis.datasets.dataset import Dataset, standardized
from blockbasis.datasets.recipes import PENDIGITS_TRAINING, RECIPES, Arrays, Recipe

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

_ALIASES = {"covertype": "covtype"}
#: Data sets that are the first rows of another data set: its name and the number of rows.
_PARTS = {"pendigits-train": ("pendigits", PENDIGITS_TRAINING)}
#: Names that `load` accepts, without aliases.
NAMES = (*RECIPES, *_PARTS)


def load(name: str, data_home: str | os.PathLike[str] | None = None, standardize: bool = True) -> Dataset:
    """Load a data set of the paper.

    The function reads the file ``NAME.npz`` with arrays X and y from ``data_home`` or from `cache_directory`. If it is
    in neither, the data set is downloaded and stored in the cache. A checksum of X and y ensures that results refer to
    the same data everywhere.

    Parameters
    ----------
    name : str
        "abalone", "mushroom", "cpusmall", "pendigits", "census_house", "covtype" (or "covertype"), "emg", "ctg",
        "gesture" or "otto"; "pendigits-train" for the 7,494 training points that the paper's tables show.
        "emg" and "otto" cannot be downloaded automatically; the error message states which files to get and where to
        put them.
    data_home : str or path-like, default=None
        Directory of the user's data sets; None selects the value of the environment variable ``BLOCKBASIS_DATA``, if
        any.
    standardize : bool, default=True
        Whether to scale every column to mean 0 and standard deviation 1, as in the paper; constant columns become 0.

    Returns
    -------
    Dataset
        Data set with X in float64 and y in int64 for classes or float64 for values.

    Raises
    ------
    DatasetError
        If the data set is missing and cannot be downloaded, or if its checksum is wrong.

    Examples
    --------
    >>> from blockbasis import datasets
    >>> abalone = datasets.load("abalone")  # doctest: +SKIP
    >>> abalone.X.shape  # doctest: +SKIP
    (4177, 8)
    """
    name = check_choice(name, (*NAMES, *_ALIASES), name="name", caller="load")
    standardize = check_flag(standardize, name="standardize", caller="load")
    name = _ALIASES.get(name, name)
    whole, rows = _PARTS.get(name, (name, None))
    recipe = RECIPES[whole]
    X, y = _find(recipe, _check_home(data_home, "load"))
    X = X[:rows].astype(np.float64)
    y = y[:rows].astype(np.int64 if recipe.task == "classification" else np.float64)
    part = "" if rows is None else f" Here: the first {rows} rows."
    return Dataset(standardized(X) if standardize else X, y, name, recipe.description + part, recipe.source)


def find(name: str, data_home: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the path of a data set; None if `load` would have to download it.

    Parameters
    ----------
    name : str
        Name of the data set, as in `load`.
    data_home : str or path-like, default=None
        Directory of the user's data sets, as in `load`.

    Returns
    -------
    Path or None
        File, or folder with the original files, that `load` would read. Its contents are not checked.

    Examples
    --------
    >>> from blockbasis import datasets
    >>> path = datasets.find("abalone")
    >>> path is None or path.exists()
    True
    """
    name = check_choice(name, (*NAMES, *_ALIASES), name="name", caller="find")
    whole, _ = _PARTS.get(_ALIASES.get(name, name), (_ALIASES.get(name, name), None))
    home = _check_home(data_home, "find")
    places = [] if home is None else [home / f"{whole}.npz"]
    if home is not None and RECIPES[whole].convert is not None:
        places.append(home / whole)
    return next((place for place in (*places, cache_directory() / f"{whole}.npz") if place.exists()), None)


def _check_home(data_home: Any, caller: str) -> Path | None:
    named = os.environ.get(DATA_HOME)
    if data_home is not None and not isinstance(data_home, (str, os.PathLike)):
        raise TypeError(
            f"The 'data_home' parameter of {caller} must be a directory or None. Got {data_home!r} instead."
        )
    if data_home is None and not named:
        return None
    home = Path(data_home if data_home is not None else str(named)).expanduser()
    if not home.is_dir():
        what = (
            f"The environment variable {DATA_HOME}" if data_home is None else f"The 'data_home' parameter of {caller}"
        )
        raise NotADirectoryError(f"{what} must be a directory that exists. Got {home} instead.")
    return home


def _find(recipe: Recipe, home: Path | None) -> Arrays:
    """Return X and y from the directory, from the cache or from the download, in this order."""
    file = f"{recipe.name}.npz"
    if home is not None:
        if (home / file).is_file():
            return _read(recipe, home / file)
        if recipe.convert is not None and (home / recipe.name).is_dir():
            return _converted(recipe, recipe.convert, home / recipe.name)
    cached = cache_directory() / file
    damage = ""
    if cached.is_file():
        try:
            return _read(recipe, cached)
        except DatasetError as error:
            damage = f" The copy in the cache is invalid: {error}"
    if recipe.download is None:
        raise DatasetError(f"{_instructions(recipe)}{damage}")
    return _downloaded(recipe, recipe.download, cached, damage)


def _read(recipe: Recipe, path: Path) -> Arrays:
    return _verified(recipe, *read_arrays(path), origin=path)


def _converted(recipe: Recipe, convert: Callable[[Path], Arrays], folder: Path) -> Arrays:
    try:
        X, y = convert(folder)
    except (OSError, ValueError) as error:
        raise DatasetError(f"The files in {folder} cannot be converted to {recipe.name}: {error}") from error
    return _verified(recipe, X, y, origin=folder)


def _instructions(recipe: Recipe) -> str:
    """Return the instructions for a data set that is missing."""
    own = f"a directory that the environment variable {DATA_HOME} or the 'data_home' parameter of load names"
    if recipe.download is None:
        return f"{recipe.name} cannot be downloaded automatically. {recipe.bring} the folder {recipe.name} of {own}."
    return (
        f"Connect to the internet and try again. Without it: put {recipe.name}.npz, from the cache_directory() of a "
        f"machine that has loaded it, into {own}."
    )


def _downloaded(recipe: Recipe, download: Callable[[], Arrays], cached: Path, damage: str) -> Arrays:
    try:
        X, y = _verified(recipe, *download(), origin="the downloaded data set")
    except Exception as error:  # noqa: BLE001 (network, server and file errors, and unexpected contents)
        raise DatasetError(
            f"{recipe.name} is not available locally and could not be downloaded from {recipe.source}: "
            f"{type(error).__name__}: {reason(error)}{damage} {_instructions(recipe)}"
        ) from error
    try:
        write_arrays(cached, X, y)
    except OSError as error:
        warnings.warn(
            f"{recipe.name} could not be stored in {cached.parent}: {reason(error)}", UserWarning, stacklevel=4
        )
    return X, y


def _verified(recipe: Recipe, X: FloatArray, y: FloatArray, *, origin: object) -> Arrays:
    """Return X and y after a check of their shapes and checksum."""
    if X.shape != recipe.shape or y.shape != X.shape[:1]:
        raise DatasetError(
            f"{origin} is not the expected {recipe.name}. X and y must have shapes {recipe.shape} and "
            f"{recipe.shape[:1]}. Got {X.shape} and {y.shape} instead."
        )
    if recipe.sha256 is not None and data_digest(X, y) != recipe.sha256:
        raise DatasetError(
            f"{origin} is not the expected {recipe.name}: the checksum of X and y does not match. Values, "
            "columns or the order of the rows differ."
        )
    return X, y
