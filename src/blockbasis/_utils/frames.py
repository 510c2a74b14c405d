"""The line of the user's code that warnings name."""

from __future__ import annotations

import inspect


def users_stacklevel() -> int:
    """Return the ``stacklevel`` with which `warnings.warn` names the first line outside of the package.

    It is called by the function that warns.
    """
    frame, level = inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "blockbasis":
        frame, level = frame.f_back, level + 1
    return max(level, 1)
