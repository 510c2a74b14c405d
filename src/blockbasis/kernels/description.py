"""Conversion of kernels to plain data for files, and back."""

from __future__ import annotations

import base64
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.kernels.base import is_users
from blockbasis.kernels.combined import Product, Scaled, Sum, White
from blockbasis.kernels.linear_map import LinearMap
from blockbasis.kernels.metric import WithMetric
from blockbasis.kernels.radial import RadialKernel, kernel_parameters
from blockbasis.kernels.stationary import RADIAL_KERNELS

if TYPE_CHECKING:
    from blockbasis.kernels.base import Kernel

#: Name of the kernels of a user's class.
_USERS = "a user's"
_COMBINED: dict[str, type[Sum | Product]] = {"Sum": Sum, "Product": Product}


def describe_kernel(kernel: Kernel | None, *, users: bool = False) -> dict[str, Any] | None:
    """Return the name and the parameters of a kernel of the package for JSON; None for any other kernel.

    With ``users``, a kernel of a user's class is described by the name of the class, and by the parameters if the class
    is a dataclass of numbers and strings.
    """
    if isinstance(kernel, RadialKernel) and RADIAL_KERNELS.get(type(kernel).__name__) is type(kernel):
        return {"name": type(kernel).__name__, "parameters": kernel_parameters(kernel)}
    if type(kernel) is White:
        return {"name": "White", "parameters": {"variance": kernel.variance}}
    if isinstance(kernel, (Sum, Product)):
        parts = [describe_kernel(part, users=users) for part in kernel.parts]
        return None if None in parts else {"name": type(kernel).__name__, "parts": parts}
    if type(kernel) is Scaled or type(kernel) is WithMetric:
        inner = describe_kernel(kernel.kernel, users=users)
        own = {"scale": kernel.scale} if isinstance(kernel, Scaled) else {"metric": _packed(kernel.metric.array)}
        return None if inner is None else {"name": type(kernel).__name__, "kernel": inner, **own}
    if users and kernel is not None and is_users(kernel):
        return {"name": _USERS, "class": type(kernel).__name__, "parameters": _users_parameters(kernel)}
    return None


def restored_kernel(saved: dict[str, Any], given: Kernel | None = None) -> Kernel:
    """Return the kernel that `describe_kernel` has described; ``given`` has the classes of a user's kernels."""
    name = saved["name"]
    if name == _USERS:
        return _users_kernel(saved, given)
    if name in RADIAL_KERNELS:
        return RADIAL_KERNELS[name](**saved["parameters"])
    if name == "White":
        return White(**saved["parameters"])
    if name in _COMBINED:
        return _COMBINED[name](tuple(restored_kernel(part, given) for part in saved["parts"]))
    inner = restored_kernel(saved["kernel"], given)
    return Scaled(inner, saved["scale"]) if name == "Scaled" else WithMetric(inner, _unpacked(saved["metric"]))


def _users_parameters(kernel: Kernel) -> dict[str, Any] | None:
    """Return the fields of a dataclass; None if there are none that JSON holds."""
    names: list[str] = [field.name for field in fields(kernel)] if is_dataclass(kernel) else []
    values: dict[str, Any] = {name: getattr(kernel, name) for name in names}
    values = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
    plain = all(
        isinstance(value, (bool, int, float, str)) or (isinstance(value, tuple) and all(map(_is_number, value)))
        for value in values.values()
    )
    return values if values and plain else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _users_kernel(saved: dict[str, Any], given: Kernel | None) -> Kernel:
    """Return a kernel of a class of ``given``, with the saved parameters."""
    own = [] if given is None else [leaf for leaf in given.leaves() if type(leaf).__name__ == saved["class"]]
    if not own:
        raise ValueError(
            f"The 'kernel' parameter of load must be a kernel of the class {saved['class']} that the file was saved "
            f"with. Got {given!r} instead."
        )
    if saved["parameters"] is None:
        return own[0]
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in saved["parameters"].items()}
    return type(own[0])(**values)


def _packed(array: np.ndarray) -> dict[str, Any]:
    return {"shape": array.shape, "base64": base64.b64encode(array.astype("<f8").tobytes()).decode("ascii")}


def _unpacked(saved: dict[str, Any]) -> LinearMap:
    values = np.frombuffer(base64.b64decode(saved["base64"]), dtype="<f8").astype(np.float64)
    return LinearMap(values.reshape(saved["shape"]))
