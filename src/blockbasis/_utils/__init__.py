"""Utilities of all packages: linear algebra, threads, argument checks, progress reports, files and memory."""
