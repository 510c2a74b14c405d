"""Warnings that the package raises, apart by what the reader should do about them."""

from __future__ import annotations


class NumericalWarning(RuntimeWarning):
    """The result is valid, but less accurate or less definite than was asked for."""


class PerformanceWarning(RuntimeWarning):
    """The result is right, but costs more time or memory than another choice would."""
