"""Results on disk: a line for each cell as it is done, and one JSON file for each suite."""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import blockbasis as bb

Record = dict[str, Any]

#: Packages whose versions are kept beside the figures.
PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl")


def commit() -> str:
    """Of the tree that the package was imported from; a digest of the changes follows when there are some."""
    root = Path(bb.__file__).resolve().parent
    head = _git(root, "rev-parse", "--short=10", "HEAD")
    if head is None:
        return f"version {bb.__version__}"
    changes = (_git(root, "diff", "HEAD", "--", ".") or "") + (_git(root, "status", "--porcelain", "--", ".") or "")
    return head if not changes else f"{head}+{hashlib.sha256(changes.encode()).hexdigest()[:6]}"


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def machine() -> Record:
    """Cores, processor and memory."""
    cpu = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in _lines(cpu) if line.startswith("model name")]
    memory = [int(line.split()[1]) / 1e6 for line in _lines(Path("/proc/meminfo")) if line.startswith("MemTotal")]
    return {
        "cores": os.cpu_count(),
        "processor": names[0] if names else platform.processor(),
        "memory_gb": round(memory[0], 1) if memory else None,
        "system": platform.platform(),
    }


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    return found | {package: importlib.metadata.version(package) for package in PACKAGES}


def read_lines(path: Path) -> list[Record]:
    """Records of a file of JSON lines; a last line cut short by an interruption is left out."""
    found = []
    for line in _lines(path):
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


class Results:
    """Results of one suite at one commit: those of an interrupted run are kept, those of other commits put aside.

    Parameters
    ----------
    directory : Path
    suite : str
    size : str
        Of the run: one of `cases.SIZES`.
    peers : dict
        Versions of the methods, or what is absent.
    baseline : list of Path
        Files of JSON lines of an earlier commit. Without any, those given before are kept.
    """

    def __init__(
        self, directory: Path, suite: str, size: str, peers: dict[str, str], baseline: list[Path] | None = None
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._log, self._json = directory / f"{suite}.jsonl", directory / f"{suite}.json"
        self._header: Record = {"suite": suite, "commit": commit(), "size": size, "machine": machine()}
        self._header |= {"versions": versions(), "peers": peers, "absent": [], "baseline": []}
        before = json.loads(self._json.read_text()) if self._json.exists() else {}
        self._header["baseline"] = [row for path in baseline or [] for row in read_lines(path)]
        if not baseline:
            self._header["baseline"] = before.get("baseline", [])
        records = read_lines(self._log)
        if self._log.exists() and not self._log.read_text().endswith("\n"):  # cut short: the next line begins anew
            self._log.write_text(self._log.read_text() + "\n")
        if any(record["commit"] != self._header["commit"] for record in records):
            self._log.rename(directory / f"{suite}.{records[0]['commit']}.jsonl")
            records = []
        self._records = {_key(record["cell"]): record for record in records}

    def has(self, cell: Record) -> bool:
        """Whether the cell is done; one that failed is not."""
        return "failed" not in self._records.get(_key(cell), {"failed": "not run"})

    def add(self, cell: Record, measured: Record) -> None:
        """Keep the record of a cell, on disk when this returns."""
        record = {"commit": self._header["commit"], "cell": cell, **cell, **measured}
        with self._log.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self._records[_key(cell)] = record

    def leave_out(self, what: str) -> None:
        """Say in the results that something was not at hand."""
        if what not in self._header["absent"]:
            self._header["absent"].append(what)

    def write(self, cells: list[Record]) -> None:
        """The JSON file: header, and the records of the cells asked for."""
        asked = dict.fromkeys(_key(cell) for cell in cells)
        found = [self._records[key] for key in asked if key in self._records]
        kept = [{k: v for k, v in record.items() if k not in ("cell", "commit")} for record in found]
        date = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        content = self._header | {"date": date, "cells": len(asked), "records": kept}
        partial = self._json.with_suffix(".partial")
        partial.write_text(json.dumps(content, indent=1) + "\n")
        partial.replace(self._json)


def _key(cell: Record) -> str:
    return json.dumps(cell, sort_keys=True)
