"""Figures of measurements."""
