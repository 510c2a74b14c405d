"""Campaigns of random files, kills, inputs, tolerances, threads and limits against the package."""
