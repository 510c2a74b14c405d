"""Conversion of fitted estimators to JSON and arrays, and back.

The parameters and all attributes that ``fit`` sets are saved. They may consist of numbers, strings, arrays, lists,
dictionaries, kernels, `BlockBasis` and the dataclasses of the estimators. For other types, the error names the
attribute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.estimators._blending import Blend
from blockbasis.estimators._calibration import Calibration
from blockbasis.estimators._columns import ColumnMap
from blockbasis.estimators._expansion import Expansion
from blockbasis.estimators._feature_map import FeatureMap
from blockbasis.estimators._intervals import Residuals
from blockbasis.estimators._local_posterior import LocalPosterior
from blockbasis.estimators._posterior import Posterior
from blockbasis.estimators._structure import check_structure
from blockbasis.estimators._trend import Trend
from blockbasis.kernels import CallableKernel, Kernel, as_kernel
from blockbasis.kernels.convert import is_sklearn
from blockbasis.kernels.description import describe_kernel, restored_kernel
from blockbasis.operators.block_basis import BlockBasis
from blockbasis.operators.storage import (
    MismatchError,
    check_function,
    describe_symmetric,
    function_record,
    restore_kernel,
    restore_symmetric,
    useless_kernel,
)
from blockbasis.operators.structure import require

if TYPE_CHECKING:
    from blockbasis._utils.typing import FloatArray

_TAG = "__kind__"
#: Types of arrays that ``fit`` sets.
_DTYPES = {np.dtype(kind) for kind in (np.float64, np.float32, np.int64, np.int32, np.bool_)}
#: Maximum size of an array of strings, in bytes.
_LARGEST_LABELS = 2**26
#: Dataclasses that are saved field by field.
_STRUCTURES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (Blend, Calibration, ColumnMap, Expansion, FeatureMap, LocalPosterior, Posterior, Residuals, Trend)
}


def described(parameters: dict[str, Any], fitted: dict[str, Any]) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Convert parameters and fitted attributes to metadata and arrays."""
    arrays: dict[str, FloatArray] = {}
    meta = {"parameters": _encoded(parameters, "parameters", arrays), "fitted": _encoded(fitted, "fitted", arrays)}
    return meta, arrays


def recovered(
    meta: dict[str, Any], arrays: dict[str, FloatArray], kernel: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Convert metadata and arrays to parameters and fitted attributes; ``kernel`` replaces a user's function."""
    functions, classes = (_holds(meta, kind) for kind in ("function", "users kernel"))
    needed = functions or classes
    if needed and kernel is None:
        raise MismatchError(
            "This estimator was made with a kernel callable or a kernel of your own class, which a file cannot hold. "
            "Give it again: blockbasis.load(path, kernel=function)."
        )
    if kernel is not None and not needed:
        raise MismatchError(useless_kernel("an estimator with its kernel", kernel))
    # A kernel of scikit-learn that was saved as a function is restored as one.
    function = (
        None if kernel is None else CallableKernel(kernel) if is_sklearn(kernel) else as_kernel(kernel, caller="load")
    )
    if functions and not isinstance(function, CallableKernel):
        raise MismatchError(
            f"The 'kernel' parameter of load must be the function that the file was saved with. Got {kernel!r} instead."
        )
    return _decoded(meta["parameters"], arrays, function), _decoded(meta["fitted"], arrays, function)


def _encoded(value: Any, name: str, arrays: dict[str, FloatArray]) -> Any:
    """JSON of a value. Arrays are added to ``arrays`` under the path of the attribute."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if isinstance(value, np.ndarray):
        return _encoded_array(value, name, arrays)
    if isinstance(value, (list, tuple)):
        items = [_encoded(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]
        return items if isinstance(value, list) else {_TAG: "tuple", "items": items}
    if isinstance(value, dict):
        pairs = [[_encoded(k, name, arrays), _encoded(v, f"{name}.{k}", arrays)] for k, v in value.items()]
        return {_TAG: "dict", "pairs": pairs}
    if isinstance(value, BlockBasis):
        meta, own = describe_symmetric(value)
        arrays |= {f"{name}.{key}": array for key, array in own.items()}
        saved = {_TAG: "BlockBasis", "meta": meta, "prefix": f"{name}.", "arrays": list(own)}
        return saved if meta["kernel"] else saved | {"kernel": _encoded(value.kernel, name, arrays)}
    if _STRUCTURES.get(type(value).__name__) is type(value):
        saved = {_TAG: type(value).__name__, "fields": _encoded(vars(value), name, arrays)}
        kernel = getattr(value, "kernel", None)
        if isinstance(kernel, Kernel) and describe_kernel(kernel) is None:
            saved["function"] = function_record(value.kernel, value.points[0])
        return saved
    if isinstance(value, Kernel):
        known = describe_kernel(value)
        if known is not None:
            return {_TAG: "kernel", "kernel": known}
        if isinstance(value, CallableKernel):
            return {_TAG: "function", "wrapped": True}
        of_users = describe_kernel(value, users=True)
        if of_users is not None:
            return {_TAG: "users kernel", "kernel": of_users}
    elif callable(value) and name == "parameters.kernel":
        known = describe_kernel(as_kernel(value, caller="save"))
        return {_TAG: "function", "wrapped": False} if known is None else {_TAG: "sklearn", "kernel": known}
    raise TypeError(
        f"The 'A' parameter of save must be an estimator of numbers, arrays and kernels of the package. Got "
        f"{type(value).__name__} in its {name} instead."
    )


def _encoded_array(value: FloatArray, name: str, arrays: dict[str, FloatArray]) -> Any:
    if value.dtype.kind in "OU":  # names of columns and classes: a list that JSON holds
        items = [_encoded(item, name, arrays) for item in value.ravel().tolist()]
        return {_TAG: "objects", "items": items, "shape": value.shape, "dtype": value.dtype.str}
    arrays[name] = value
    return {_TAG: "array", "name": name}


def _decoded(saved: Any, arrays: dict[str, FloatArray], function: Kernel | None) -> Any:
    if isinstance(saved, list):
        return [_decoded(item, arrays, function) for item in saved]
    if not isinstance(saved, dict):
        return saved
    kind = saved[_TAG]
    if kind == "array":
        return _checked(arrays[saved["name"]], saved["name"])
    if kind == "objects":
        return _labels(saved)
    if kind == "tuple":
        return tuple(_decoded(saved["items"], arrays, function))
    if kind == "dict":
        return {_decoded(k, arrays, function): _decoded(v, arrays, function) for k, v in saved["pairs"]}
    if kind == "kernel":
        return restore_kernel(saved["kernel"], None)
    if kind == "users kernel":
        return _users_kernel(saved["kernel"], function)
    if kind == "sklearn":
        return restored_kernel(saved["kernel"]).to_sklearn()
    if kind == "function":
        assert isinstance(function, CallableKernel)  # or `recovered` has refused it
        return function if saved["wrapped"] else function.function
    if kind in _STRUCTURES:
        structure = _STRUCTURES[kind](**_decoded(saved["fields"], arrays, function))
        check_structure(structure)
        if "function" in saved:
            check_function(saved["function"], structure.kernel, structure.points[0])
        return structure
    require(kind == "BlockBasis", "a kind of value", f"known, and is {kind!r}")
    own = {key: arrays[saved["prefix"] + key] for key in saved["arrays"]}
    given = _decoded(saved["kernel"], arrays, function) if "kernel" in saved else function
    return restore_symmetric(saved["meta"], own, None if saved["meta"]["kernel"] else given)


def _users_kernel(saved: dict[str, Any], given: Kernel | None) -> Kernel:
    try:
        return restored_kernel(saved, given)
    except ValueError as error:
        raise MismatchError(str(error)) from error


def _checked(array: FloatArray, name: str) -> FloatArray:
    """Check the values of an array; arrays that predictions need must be finite."""
    if not name.startswith(("parameters.", "fitted.cv_results_", "fitted.classes_")):
        require(array.dtype in _DTYPES, name, f"of a precision that fitting gives, and is of {array.dtype}")
        require(array.dtype.kind != "f" or np.isfinite(array).all(), name, "finite")
    return array


def _labels(saved: dict[str, Any]) -> FloatArray:
    dtype, items = np.dtype(saved["dtype"]), saved["items"]
    known = dtype.kind in "OU" and dtype.itemsize * len(items) <= _LARGEST_LABELS
    require(known, "the dtype of labels", f"that of objects or strings, and is {dtype}")
    return np.array(items, dtype=dtype).reshape(saved["shape"])


def _holds(saved: Any, kind: str) -> bool:
    """Return whether a value of a kind is part of the metadata."""
    if isinstance(saved, dict):
        return saved.get(_TAG) == kind or any(_holds(value, kind) for value in saved.values())
    return isinstance(saved, list) and any(_holds(item, kind) for item in saved)
