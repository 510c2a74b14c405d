"""Warnings of the package."""

from __future__ import annotations


class PerformanceWarning(UserWarning):
    """The result is right, but the compression does not pay."""


class AccuracyWarning(UserWarning):
    """The result is less accurate than was asked for."""
