"""What a case of a campaign is, and what cases of several campaigns need."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Self

import numpy as np

#: What a case is called, and what went wrong with it; None where nothing did.
Case = tuple[str, str | None]

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def used(loaded: Any) -> bytes:
    """What a loaded object gives, bit by bit."""
    X = np.linspace(-1, 1, 10).reshape(5, 2)
    for name in ("predict", "transform"):
        if hasattr(loaded, name):
            return np.asarray(getattr(loaded, name)(X)).tobytes()
    return np.asarray(loaded.todense()).tobytes()


class Peak:
    """Growth of the resident memory inside a ``with`` statement, in bytes; None where the system does not say."""

    grown: int | None = None

    def __enter__(self) -> Self:
        try:
            _CLEAR.write_text("5")  # the peak so far becomes what is resident now
            self._before = _resident("VmHWM")
        except (OSError, TypeError):
            self._before = None
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            self.grown = _resident("VmHWM") - self._before


def _resident(name: str) -> int:
    return 1024 * int(re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)[1])  # type: ignore[index]
