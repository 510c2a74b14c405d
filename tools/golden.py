"""Save one small file of every kind that blockbasis writes, with the results that the file must give for ever.

``python -m tools.golden`` writes tests/golden/VERSION/: for each case a file of `blockbasis.save` and a JSON file with
new points and the expected results at these points. A test loads all folders under tests/golden. The folder of a
released version is never written again; a new version adds a folder of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import blockbasis as bb
from blockbasis.tables import Table, fit_table

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden"
#: Largest size of one file, in bytes.
LARGEST = 30_000

Results = dict[str, np.ndarray]


def results(loaded: Any, X_new: np.ndarray) -> Results:
    """What a loaded object gives at new points, by the name of the method."""
    if isinstance(loaded, bb.BlockBasis):
        v = np.linspace(-1, 1, loaded.shape[0])
        return {"product": loaded @ v, "diagonal": loaded.diagonal(), "extend": loaded.extend(X_new) @ v}
    if isinstance(loaded, bb.CrossBlockBasis):
        return {"product": loaded @ np.linspace(-1, 1, loaded.shape[1])}
    if isinstance(loaded, bb.TableModel):
        sexes = np.where(X_new[:, 1] > 0, "M", "F").astype(object)
        table = Table(("length", "sex"), (np.where(X_new[:, 0] > 0.5, np.nan, X_new[:, 0]), sexes))
        return {"predict": loaded.predict(table)[0]}
    if isinstance(loaded, bb.SpectralClustering):
        return {"labels_": loaded.labels_}
    if isinstance(loaded, bb.BlockBasisFeatures):
        features = loaded.transform(X_new)
        return {"transform": features.toarray() if hasattr(features, "toarray") else features}
    if isinstance(loaded, bb.GaussianProcessRegressor):
        mean, deviation = loaded.predict(X_new, return_std=True)
        return {"predict": mean, "deviation": deviation}
    methods = ("predict", "predict_proba", "predict_interval", "gradient", "transform")
    found = {name: getattr(loaded, name)(X_new) for name in methods if hasattr(loaded, name)}
    return {name: np.asarray(value) for name, value in found.items()}


def cases() -> dict[str, Callable[[], Any]]:
    """What is saved, by the name of its files."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(40, 2))
    Y = rng.uniform(-1, 1, size=(20, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    labels = np.where(np.hypot(X[:, 0], X[:, 1]) < 0.6, "inner", "outer")
    kernel = 2.0 * bb.Gaussian([1.0, 0.5]) + bb.Laplacian(1.0) + bb.White(0.1)
    compressed: dict[str, Any] = {"n_clusters": 2, "rank": 4, "random_state": 0, "n_jobs": 1}
    made: dict[str, Callable[[], Any]] = {
        "block_basis": lambda: bb.factorize(X, kernel, n_clusters=4, rank=6, cutoff=1e-2, rng=0, n_jobs=1),
        "cross_block_basis": lambda: bb.factorize_cross(Y, X, bb.Matern(1.0), n_clusters=3, rank=6, rng=0, n_jobs=1),
        "kernel_ridge": lambda: bb.KernelRidge(0.1, metric="diagonal", **compressed).fit(X, y),
        "table_model": lambda: _table_model(X, y),
        "kernel_ridge_cv": lambda: bb.KernelRidgeCV(random_state=0, n_jobs=1).fit(X, y),
        "kernel_ridge_classifier": lambda: bb.KernelRidgeClassifier(0.1, **compressed).fit(X, labels),
        "kernel_ridge_classifier_cv": lambda: bb.KernelRidgeClassifierCV(random_state=0, n_jobs=1).fit(X, labels),
        "gaussian_process_regressor": lambda: bb.GaussianProcessRegressor(random_state=0, n_jobs=1).fit(X[:30], y[:30]),
        "gaussian_process_compressed": lambda: bb.GaussianProcessRegressor(**compressed).fit(X, y),
        "kernel_pca": lambda: bb.KernelPCA(3, **compressed).fit(X),
        "block_basis_features": lambda: bb.BlockBasisFeatures(10, bandwidth=1.0, **compressed).fit(X),
        "spectral_clustering": lambda: bb.SpectralClustering(
            2, bandwidth=0.5, n_blocks=2, rank=4, random_state=0, n_jobs=1
        ).fit(X),
    }
    return made


def _table_model(X: np.ndarray, y: np.ndarray) -> bb.TableModel:
    """Return a model of a table with text and missing values."""
    sexes = np.where(X[:, 1] > 0, "M", "F").astype(object)
    length = np.where(X[:, 0] > 0.5, np.nan, X[:, 0])
    table = Table(("length", "sex", "y"), (length, sexes, np.asarray(y, dtype=np.float64)))
    return fit_table(table, "y", seed=0, n_jobs=1, keep_points=False)[0]


def main() -> None:
    """Write the files of this version."""
    folder = FOLDER / bb.__version__
    folder.mkdir(parents=True, exist_ok=True)
    X_new = np.random.default_rng(1).uniform(-1, 1, size=(8, 2))
    for name, make in cases().items():
        saved = folder / f"{name}.bbf"
        bb.save(make(), saved)
        expected = {key: value.tolist() for key, value in results(bb.load(saved), X_new).items()}
        record = json.dumps({"X_new": X_new.tolist(), "expected": expected})
        (folder / f"{name}.json").write_text(record + "\n", encoding="utf-8", newline="\n")
        size = saved.stat().st_size
        print(f"{name:28} {size:6} bytes, {', '.join(expected)}")
        if size > LARGEST:
            raise ValueError(f"{saved.name} has {size} bytes; golden files have at most {LARGEST}.")


if __name__ == "__main__":
    main()
