"""What the machine has to give."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
#: Buffers of the two OpenBLAS of NumPy and SciPy, 32 MiB each, and a little more.
_BLAS_BYTES = 80 * 10**6
#: Names of a limit and a use of memory, and of the pages of files among it that the system takes back when it must.
_VERSION_2 = ("memory.max", "memory.current", ("active_file", "inactive_file"))
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file"))


def available_memory() -> int | None:
    """Bytes that can still be allocated; None where the system does not say."""
    amounts = [_free_on_machine(), _left_of_address_space(), *_left_in_groups()]
    return min((max(amount, 0) for amount in amounts if amount is not None), default=None)


def require_memory(needed: int, remedy: str, *, what: str = "factorization") -> None:
    """Refuse work that would take more bytes than can be allocated, before the system ends the process.

    Parameters
    ----------
    needed : int
        Bytes that the work takes at its peak, beside what is allocated now.
    remedy : str
        What would take fewer.
    what : str
        A name of the work.

    Raises
    ------
    MemoryError
    """
    free = available_memory()
    if free is not None and needed > free:
        raise MemoryError(
            f"This {what} would take about {needed / 1e9:.2g} GB, and {free / 1e9:.2g} GB are free. "
            f"What would fit: {remedy}."
        )


def require_address_space() -> None:
    """Refuse linear algebra where a limit of the address space leaves no room for the buffers of OpenBLAS.

    OpenBLAS asks for its buffers again and again, without end, where the system has none to give.

    Raises
    ------
    MemoryError
    """
    left = _left_of_address_space()
    if left is not None and left < _BLAS_BYTES:
        raise MemoryError(
            f"Linear algebra takes about {_BLAS_BYTES / 1e6:.0f} MB, and the limit of the address space leaves "
            f"{max(left, 0) / 1e6:.0f} MB."
        )


def _free_on_machine() -> int | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _read(_PROC / "meminfo"), re.MULTILINE)
    if found is not None:
        return int(found[1]) * 1024
    try:  # elsewhere all of the physical memory is the best that is known
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _left_of_address_space() -> int | None:
    """What a limit such as that of ``ulimit -v`` leaves to this process."""
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _read(_PROC / "self" / "statm").split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return limit - int(pages[0]) * resource.getpagesize()


def _left_in_groups() -> Iterator[int | None]:
    """What the limit of each control group leaves that this process is in: its own, and those around it."""
    for line in _read(_PROC / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from (_left_in_group(group, *_VERSION_2) for group in _and_around(_CGROUPS, path))
        elif "memory" in controllers.split(","):
            yield from (_left_in_group(group, *_VERSION_1) for group in _and_around(_CGROUPS / "memory", path))


def _and_around(root: Path, path: str) -> list[Path]:
    """Folders of a group and of all groups around it; a container may see its own as the root."""
    inner = Path(path.lstrip("/"))
    return [root / folder for folder in (inner, *inner.parents)]


def _left_in_group(group: Path, limit: str, used: str, reclaimable: tuple[str, ...]) -> int | None:
    try:
        left = int(_read(group / limit)) - int(_read(group / used))
    except ValueError:  # no such group, or one without a limit
        return None
    statistics = dict(line.split(maxsplit=1) for line in _read(group / "memory.stat").splitlines() if " " in line)
    return left + sum(int(statistics.get(name, 0)) for name in reclaimable)


def _read(path: Path) -> str:
    """Text of a file; nothing where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
