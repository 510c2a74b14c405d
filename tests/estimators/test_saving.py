from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import blockbasis as bb
from blockbasis.estimators import _structure
from blockbasis.operators import archive

COMPRESSED = {"n_clusters": 5, "rank": 20, "random_state": 0}


def through_file(model, tmp_path, **given):
    bb.save(model, tmp_path / "model.bbf")
    return bb.load(tmp_path / "model.bbf", **given)


def assert_same_value(first, second):
    """Equal bit for bit, through lists, dictionaries and arrays."""
    if isinstance(first, dict):
        assert list(first) == list(second)
        for key in first:
            assert_same_value(first[key], second[key])
    elif isinstance(first, (list, tuple)):
        assert type(first) is type(second) and len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same_value(one, other)
    elif isinstance(first, np.ndarray):
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)
    elif isinstance(first, bb.BlockBasis):
        np.testing.assert_array_equal(first.todense(), second.todense())
    elif hasattr(first, "weights"):
        assert_same_value(vars(first), vars(second))
    else:
        assert first == second


@pytest.mark.parametrize(
    "model",
    [
        bb.KernelRidge(),
        bb.KernelRidge(np.array([0.1, 1.0]), kernel=bb.Matern(1.0, nu=2.5), bandwidth="auto", **COMPRESSED),
        bb.KernelRidge([0.1, 1.0], bandwidth=(0.5, 2.0), keep_points=False, **COMPRESSED),
        bb.KernelRidgeClassifier(class_weight={"small": 2.0, "left": 1.0, "right": 1.0}, **COMPRESSED),
        bb.KernelRidgeClassifier([0.1, 1.0], bandwidth="per-class", n_jobs=1, **COMPRESSED),
    ],
    ids=str,
)
def test_everything_comes_back(model, classes, tmp_path):
    X, y, X_new, _ = classes
    targets = y if hasattr(model, "class_weight") else np.stack([X[:, 0], X[:, 1] ** 2], axis=1)
    model.fit(pd.DataFrame(X, columns=["a", "b"]), targets)
    again = through_file(model, tmp_path)
    assert type(again) is type(model)
    assert_same_value(model.get_params(), again.get_params())
    saved = {name: value for name, value in vars(model).items() if name not in model._unsaved}
    assert_same_value(saved, dict(vars(again)))
    frame = pd.DataFrame(X_new, columns=["a", "b"])
    np.testing.assert_array_equal(model.predict(frame), again.predict(frame))
    np.testing.assert_array_equal(
        again.fit(frame, again.predict(frame)).predict(frame).shape, again.predict(frame).shape
    )


def test_a_function_is_given_again(regression, tmp_path):
    X, y, X_new = regression

    def function(A, B):
        return bb.Gaussian(2.0)(A, B)

    model = bb.KernelRidge(kernel=function, **COMPRESSED).fit(X, y)
    again = through_file(model, tmp_path, kernel=function)
    assert again.kernel is function
    np.testing.assert_array_equal(model.predict(X_new), again.predict(X_new))
    with pytest.raises(ValueError, match="made with a kernel callable .* which a file cannot hold"):
        bb.load(tmp_path / "model.bbf")


class Wendland(bb.kernels.RadialKernel):
    """A kernel of compact support, positive definite in up to three columns."""

    def profile(self, squared_distances):
        r = np.minimum(np.sqrt(squared_distances) / self.bandwidth, 1)
        return (1 - r) ** 4 * (4 * r + 1)

    def derivative(self, squared_distances):
        r = np.minimum(np.sqrt(squared_distances) / self.bandwidth, 1)
        return -10 * (1 - r) ** 3 / self.bandwidth**2


@dataclass(frozen=True, repr=False)
class Power(bb.kernels.RadialKernel):
    """A kernel with a parameter of its own."""

    order: int = 2

    def profile(self, squared_distances):
        return (1 + squared_distances / self.bandwidth**2) ** -self.order


class Linear(bb.kernels.Kernel):
    """A kernel that is not radial."""

    def __repr__(self):
        return "Linear()"

    def block(self, X, Y):
        return X @ Y.T


@pytest.mark.parametrize(
    "model",
    [
        bb.KernelRidge(kernel=Wendland(4.0), bandwidth=[2.0, 3.0], **COMPRESSED),
        bb.KernelRidge(kernel=2.0 * Wendland([3.0, 4.0, 5.0]) + Power(1.0, order=3), **COMPRESSED),
        bb.KernelRidge(kernel=Linear(), n_clusters=2, rank=2, random_state=0),
        bb.KernelRidgeCV(kernel=Wendland(1.0), metric="diagonal", random_state=0),
        bb.GaussianProcessRegressor(kernel=Wendland(1.0), random_state=0),
        bb.KernelPCA(2, kernel=Power(2.0), random_state=0),
        bb.BlockBasisFeatures(kernel=Power(2.0), random_state=0),
    ],
    ids=str,
)
def test_a_kernel_of_a_users_class_is_given_again(model, regression, tmp_path):
    X, y, X_new = regression
    model.fit(X[:300], y[:300])
    predict = "predict" if hasattr(model, "predict") else "transform"
    again = through_file(model, tmp_path, kernel=model.kernel)
    np.testing.assert_array_equal(getattr(again, predict)(X_new), getattr(model, predict)(X_new))
    assert again.kernel == model.kernel
    with pytest.raises(ValueError, match="kernel of your own class, which a file cannot hold"):
        bb.load(tmp_path / "model.bbf")
    with pytest.raises(ValueError, match="must be a kernel of the class"):
        bb.load(tmp_path / "model.bbf", kernel=bb.Gaussian(1.0))


def test_a_class_of_the_same_name_with_other_values_is_refused(regression, tmp_path):
    X, y, _ = regression
    bb.save(bb.KernelRidge(kernel=Wendland(4.0), **COMPRESSED).fit(X, y), tmp_path / "model.bbf")
    other = type("Wendland", (Power,), {})
    with pytest.raises(ValueError, match="the file was saved with, Wendland. Got Wendland, which has different values"):
        bb.load(tmp_path / "model.bbf", kernel=other(1.0))
    assert bb.load(tmp_path / "model.bbf", kernel=Wendland(1.0)).kernel == Wendland(4.0)


def test_what_is_refused(regression, tmp_path):
    X, y, _ = regression
    with pytest.raises(NotFittedError):
        bb.save(bb.KernelRidge(), tmp_path / "model.bbf")
    model = bb.KernelRidge(random_state=np.random.RandomState(0)).fit(X, y)
    with pytest.raises(TypeError, match="Got RandomState in its parameters.random_state instead"):
        bb.save(model, tmp_path / "model.bbf")
    assert not (tmp_path / "model.bbf").exists()
    with pytest.raises(ValueError, match="must be left out"):
        through_file(bb.KernelRidge().fit(X, y), tmp_path, kernel=bb.Gaussian(1.0).block)

    class KernelRidge(bb.KernelRidge):
        pass

    with pytest.raises(TypeError, match="'A' parameter of save must be"):
        bb.save(KernelRidge().fit(X, y), tmp_path / "model.bbf")


@pytest.mark.parametrize("kind", ["datetime64[D]", "datetime64[ns]", "U7", object])
def test_labels_of_many_kinds(classes, tmp_path, kind):
    X, y, X_new, _ = classes
    _, codes = np.unique(y, return_inverse=True)
    days = np.array(["2024-02-29", "2025-01-01", "2026-11-18"], dtype="datetime64[D]")
    names = days.astype(kind) if str(kind).startswith("datetime") else np.array(["a", "bb", "ccc"], dtype=kind)
    model = bb.KernelRidgeClassifier(**COMPRESSED).fit(X, names[codes])
    again = through_file(model, tmp_path)
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(model.predict(X_new), again.predict(X_new))


# --- forged files, whose digest fits ---------------------------------------------------------------------------------


def forged(path, change):
    meta, arrays = archive.read_archive(path)
    change(meta, arrays)
    with open(path, "wb") as stream:
        archive.write_archive(stream, meta, arrays)


def pairs(meta):
    """The fitted attributes as they are saved, by name."""
    return {name: (i, value) for i, (name, value) in enumerate(meta["fitted"]["pairs"])}


def test_only_known_attributes_are_set(regression, tmp_path):
    X, y, _ = regression
    path = tmp_path / "model.bbf"
    for name in ("predict", "__class__", "_caller", "no identifier_", "plain", "fit"):
        bb.save(bb.KernelRidge(**COMPRESSED).fit(X, y), path)
        forged(path, lambda meta, arrays, name=name: meta["fitted"]["pairs"].append([name, 1.0]))
        with pytest.raises(bb.StorageError, match="one that fitting sets"):
            bb.load(path)
    bb.save(bb.KernelRidge(**COMPRESSED).fit(X, y), path)
    forged(path, lambda meta, arrays: meta["parameters"]["pairs"].append(["more", 1.0]))
    with pytest.raises(bb.StorageError, match="the parameters must be those of KernelRidge"):
        bb.load(path)


@pytest.mark.parametrize(
    "make",
    [bb.KernelRidge, bb.GaussianProcessRegressor, bb.KernelPCA, bb.BlockBasisFeatures],
)
def test_every_array_of_an_estimator_is_checked(make, regression, tmp_path):
    """Arrays that are not finite, or too short, are refused or change nothing."""
    X, y, X_new = regression
    path = tmp_path / "model.bbf"
    model = make(n_clusters=3, rank=8, random_state=0).fit(X, y)
    use = model.predict if hasattr(model, "predict") else model.transform
    expected = np.asarray(use(X_new))
    bb.save(model, path)
    _, arrays = archive.read_archive(path)
    for name, array in arrays.items():
        if array.dtype.kind != "f" or array.size < 2:
            continue
        bb.save(model, path)
        forged(path, lambda meta, arrays, name=name: arrays.update({name: np.full_like(arrays[name], np.nan)}))
        with pytest.raises(bb.StorageError, match="must be finite"):
            bb.load(path)
        if array.ndim == 2:
            bb.save(model, path)
            forged(path, lambda meta, arrays, name=name: arrays.update({name: arrays[name][:, :-1].copy()}))
            try:
                again = bb.load(path)
            except bb.StorageError:
                continue
            again_use = again.predict if hasattr(again, "predict") else again.transform
            np.testing.assert_array_equal(np.asarray(again_use(X_new)), expected, err_msg=name)


def test_strings_of_a_forged_length(classes, tmp_path):
    X, y, _, _ = classes
    path = tmp_path / "model.bbf"
    bb.save(bb.KernelRidgeClassifier(**COMPRESSED).fit(X, y), path)

    def change(meta, arrays):
        meta["fitted"]["pairs"][pairs(meta)["classes_"][0]][1]["dtype"] = "<U268435455"

    forged(path, change)
    with pytest.raises(bb.StorageError, match="the dtype of labels"):
        bb.load(path)


def test_outputs_that_do_not_fit(regression, classes, tmp_path):
    path = tmp_path / "model.bbf"
    X, y, _ = regression
    process = bb.GaussianProcessRegressor(**COMPRESSED).fit(X, y)
    ridge = bb.KernelRidge(**COMPRESSED).fit(X, y)
    X, y, _, _ = classes
    classifier = bb.KernelRidgeClassifier(**COMPRESSED).fit(X, y)
    trend = {"center": np.zeros(9), "scale": np.ones(9), "constant": np.zeros(1), "slopes": np.zeros((9, 1))}
    for model, name, forgery in (
        (process, "_y_scale", {"": np.empty(0)}),
        (process, "_scale", {"": np.ones(3)}),
        (process, "_trend", {f".{part}": value for part, value in trend.items()}),
        (process, "_trend", {".constant": np.zeros(3), ".slopes": np.zeros((process.n_features_in_, 3))}),
        (classifier, "groups_", {".0": np.array([0, 1, -5])}),
        (classifier, "groups_", {".0": np.array([0, 1])}),
        (classifier, "intercept_", {"": np.empty(0)}),
        (ridge, "intercept_", {"": np.empty(0)}),
        (ridge, "intercept_", {"": np.zeros(2)}),
    ):
        bb.save(model, path)
        changed = {f"fitted.{name}{part}": value for part, value in forgery.items()}
        forged(path, lambda meta, arrays, changed=changed: arrays.update(changed))
        with pytest.raises(bb.StorageError, match=f"cannot be restored: {name} "):
            bb.load(path)


@pytest.mark.parametrize(("name", "value"), [("n_jobs", [[1]]), ("n_jobs", 0), ("verbose", [1])])
def test_parameters_that_predictions_need(regression, tmp_path, name, value):
    path = tmp_path / "model.bbf"
    X, y, _ = regression
    bb.save(bb.KernelRidge(**COMPRESSED).fit(X, y), path)

    def change(meta, arrays):
        next(pair for pair in meta["parameters"]["pairs"] if pair[0] == name)[1] = value

    forged(path, change)
    with pytest.raises(bb.StorageError, match=f"cannot be restored: .*{name}"):
        bb.load(path)


@pytest.mark.parametrize("name", ["_means", "n_features_in_"])
def test_forged_parts_of_a_kernel_pca_are_refused(name):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = bb.KernelPCA(n_components=2, n_clusters=2, rank=8, random_state=0).fit(X)
    forged = {**vars(model), name: np.zeros(5) if name == "_means" else -1}
    fitted = {key: value for key, value in forged.items() if key not in model.get_params()}
    with pytest.raises(ValueError, match=name):
        _structure.check_attributes(bb.KernelPCA, model.get_params(), fitted)
        _structure.check_outputs(fitted)
