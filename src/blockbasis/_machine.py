"""What the machine has to give."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
#: A container's own limit and use of memory.
_LIMIT = Path("/sys/fs/cgroup/memory.max")
_USED = Path("/sys/fs/cgroup/memory.current")


def available_memory() -> int | None:
    """Bytes that can still be allocated; None where the system does not say."""
    known = [amount for amount in (_free_on_machine(), _left_in_container()) if amount is not None]
    return min(known, default=None)


def _free_on_machine() -> int | None:
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", _MEMINFO.read_text(), re.MULTILINE)
    except OSError:
        found = None
    if found is not None:
        return int(found[1]) * 1024
    try:  # elsewhere all of the physical memory is the best that is known
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _left_in_container() -> int | None:
    try:
        return int(_LIMIT.read_text()) - int(_USED.read_text())
    except (OSError, ValueError):  # no container, or one without a limit
        return None
