"""Available memory of the machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from blockbasis._utils.files import in_bytes

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
#: Buffers of the two OpenBLAS libraries of NumPy and SciPy, 32 MiB each, with a margin.
_BLAS_BYTES = 80 * 10**6
#: Files with the memory limit and the memory use of a control group, and its reclaimable file pages in memory.stat.
_VERSION_2 = ("memory.max", "memory.current", ("active_file", "inactive_file"))
_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file"))


def available_memory() -> int | None:
    """Return the number of bytes that can be allocated; None if the system does not report it."""
    amounts = [_system_memory(), _address_space_margin(), *_control_group_margins()]
    return min((max(amount, 0) for amount in amounts if amount is not None), default=None)


def require_memory(needed: int, remedy: str, *, what: str = "factorization") -> None:
    """Raise an error where work needs more bytes than are available, before the system ends the process.

    Parameters
    ----------
    needed : int
        Peak bytes of the work, in addition to the bytes that are allocated now.
    remedy : str
        Change of the arguments that would need fewer bytes.
    what : str, default="factorization"
        Name of the work in the message.

    Raises
    ------
    MemoryError
    """
    free = available_memory()
    if free is not None and needed > free:
        raise MemoryError(
            f"This {what} would take about {in_bytes(needed)}, and {in_bytes(free)} are free. What would fit: {remedy}."
        )


def require_address_space() -> None:
    """Raise an error where a limit of the address space leaves no room for the buffers of OpenBLAS.

    OpenBLAS requests its buffers repeatedly, without end, where the system cannot provide them.

    Raises
    ------
    MemoryError
    """
    left = _address_space_margin()
    if left is not None and left < _BLAS_BYTES:
        raise MemoryError(
            f"Linear algebra takes about {_BLAS_BYTES / 1e6:.0f} MB, and the limit of the address space leaves "
            f"{max(left, 0) / 1e6:.0f} MB."
        )


def _system_memory() -> int | None:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _read(_PROC / "meminfo"), re.MULTILINE)
    if found is not None:
        return int(found[1]) * 1024
    try:  # other systems report the physical memory only
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _address_space_margin() -> int | None:
    """Return the bytes below the limit of the address space (``ulimit -v``); None without a limit."""
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _read(_PROC / "self" / "statm").split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return limit - int(pages[0]) * resource.getpagesize()


def _control_group_margins() -> Iterator[int | None]:
    """Yield the bytes below the limit of the control group of this process and of each of its ancestors."""
    for line in _read(_PROC / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            yield from (_control_group_margin(group, *_VERSION_2) for group in _with_ancestors(_CGROUPS, path))
        elif "memory" in controllers.split(","):
            yield from (
                _control_group_margin(group, *_VERSION_1) for group in _with_ancestors(_CGROUPS / "memory", path)
            )


def _with_ancestors(root: Path, path: str) -> list[Path]:
    """Return the folders of a group and of its ancestors; a container may see its own group as the root."""
    inner = Path(path.lstrip("/"))
    return [root / folder for folder in (inner, *inner.parents)]


def _control_group_margin(group: Path, limit: str, used: str, reclaimable: tuple[str, ...]) -> int | None:
    """Return the bytes below the limit of one control group, including reclaimable file pages; None without a limit."""
    try:
        margin = int(_read(group / limit)) - int(_read(group / used))
    except ValueError:  # the group does not exist, or has no limit
        return None
    statistics = dict(line.split(maxsplit=1) for line in _read(group / "memory.stat").splitlines() if " " in line)
    return margin + sum(int(statistics.get(name, 0)) for name in reclaimable)


def _read(path: Path) -> str:
    """Return the text of a file; an empty string if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
