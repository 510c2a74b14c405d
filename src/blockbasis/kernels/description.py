"""Conversion of kernels to plain data for files, and back."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from blockbasis.kernels.combined import Product, Scaled, Sum, White
from blockbasis.kernels.linear_map import LinearMap
from blockbasis.kernels.metric import WithMetric
from blockbasis.kernels.radial import RadialKernel, kernel_parameters
from blockbasis.kernels.stationary import RADIAL_KERNELS

if TYPE_CHECKING:
    from blockbasis.kernels.base import Kernel

_COMBINED: dict[str, type[Sum | Product]] = {"Sum": Sum, "Product": Product}


def describe_kernel(kernel: Kernel | None) -> dict[str, Any] | None:
    """Return the name and the parameters of a kernel of the package for JSON; None for any other kernel."""
    if isinstance(kernel, RadialKernel) and RADIAL_KERNELS.get(type(kernel).__name__) is type(kernel):
        return {"name": type(kernel).__name__, "parameters": kernel_parameters(kernel)}
    if type(kernel) is White:
        return {"name": "White", "parameters": {"variance": kernel.variance}}
    if isinstance(kernel, (Sum, Product)):
        parts = [describe_kernel(part) for part in kernel.parts]
        return None if None in parts else {"name": type(kernel).__name__, "parts": parts}
    if type(kernel) is Scaled or type(kernel) is WithMetric:
        inner = describe_kernel(kernel.kernel)
        own = {"scale": kernel.scale} if isinstance(kernel, Scaled) else {"metric": _packed(kernel.metric.array)}
        return None if inner is None else {"name": type(kernel).__name__, "kernel": inner, **own}
    return None


def restored_kernel(saved: dict[str, Any]) -> Kernel:
    """Return the kernel that `describe_kernel` has described."""
    name = saved["name"]
    if name in RADIAL_KERNELS:
        return RADIAL_KERNELS[name](**saved["parameters"])
    if name == "White":
        return White(**saved["parameters"])
    if name in _COMBINED:
        return _COMBINED[name](tuple(restored_kernel(part) for part in saved["parts"]))
    inner = restored_kernel(saved["kernel"])
    return Scaled(inner, saved["scale"]) if name == "Scaled" else WithMetric(inner, _unpacked(saved["metric"]))


def _packed(array: np.ndarray) -> dict[str, Any]:
    return {"shape": array.shape, "base64": base64.b64encode(array.astype("<f8").tobytes()).decode("ascii")}


def _unpacked(saved: dict[str, Any]) -> LinearMap:
    values = np.frombuffer(base64.b64decode(saved["base64"]), dtype="<f8").astype(np.float64)
    return LinearMap(values.reshape(saved["shape"]))
