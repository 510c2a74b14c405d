from __future__ import annotations

import subprocess
import sys

import pytest

from blockbasis._utils import machine

MEMINFO = "MemTotal:  9 kB\nMemAvailable:     1000000 kB\nSwapFree: 1 kB\n"
FREE = 1_024_000_000


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Write files of a system of one's own, by path."""
    monkeypatch.setattr(machine, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(machine, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "resource", None)

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def test_some_memory_is_free():
    free = machine.available_memory()
    assert free is not None
    assert 2**20 < free < 2**50


def test_meminfo(system):
    system({"proc/meminfo": MEMINFO})
    assert machine.available_memory() == FREE


def group_2(folder, limit, used, stat="anon 5\n"):
    return {f"{folder}/memory.max": limit, f"{folder}/memory.current": used, f"{folder}/memory.stat": stat}


def test_a_group_of_version_2_and_those_around_it(system):
    system({"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/outer/inner\n"})
    system(group_2("cgroup/outer/inner", "max\n", "5\n"))
    assert machine.available_memory() == FREE
    system(group_2("cgroup/outer", "9000\n", "4000\n"))
    assert machine.available_memory() == 5000
    system(group_2("cgroup/outer/inner", "3005\n", "5\n"))
    assert machine.available_memory() == 3000


def test_a_container_that_sees_its_group_as_the_root(system):
    system({"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/\n"} | group_2("cgroup", "7000\n", "1000\n"))
    assert machine.available_memory() == 6000


def test_pages_of_files_are_free(system):
    stat = "anon 100\nfile 800\nactive_file 200\ninactive_file 500\n"
    system({"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/a\n"} | group_2("cgroup/a", "1000\n", "900\n", stat))
    assert machine.available_memory() == 800


def test_a_group_of_version_1(system):
    folder = "cgroup/memory/docker/x"
    system({"proc/meminfo": MEMINFO, "proc/self/cgroup": "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n0::/y\n"})
    system({f"{folder}/memory.limit_in_bytes": "5000\n", f"{folder}/memory.usage_in_bytes": "4500\n"})
    system({f"{folder}/memory.stat": "cache 9\ntotal_active_file 100\ntotal_inactive_file 200\n"})
    assert machine.available_memory() == 800


def test_a_group_that_is_over_its_limit_has_nothing_left(system):
    system({"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/a\n"} | group_2("cgroup/a", "1000\n", "1900\n"))
    assert machine.available_memory() == 0


@pytest.mark.skipif(machine.resource is None, reason="limits of POSIX")
def test_a_limit_of_the_address_space():
    code = """
import resource
from blockbasis._utils import machine
before = machine.available_memory()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000, resource.RLIM_INFINITY))
print(machine.available_memory())
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 30_000_000 < int(shown) <= 50_000_000


def test_systems_that_do_not_say(system, monkeypatch):
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}
    monkeypatch.setattr(machine.os, "sysconf", sizes.__getitem__)
    assert machine.available_memory() == 40_960

    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr(machine.os, "sysconf", unknown)
    assert machine.available_memory() is None


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 10**9)
    machine.require_memory(10**9, "less")
    with pytest.raises(MemoryError, match=r"This fit would take about 2 GB, and 1 GB are free. What would fit: less."):
        machine.require_memory(2 * 10**9, "less", what="fit")
    monkeypatch.setattr(machine, "available_memory", lambda: None)
    machine.require_memory(10**18, "less")


@pytest.mark.skipif(machine.resource is None, reason="limits of POSIX")
def test_too_little_address_space_for_blas_is_refused_and_not_waited_for():
    """OpenBLAS asked for its buffers without end in a process with 23 MB left."""
    code = """
import resource
import numpy as np
import blockbasis as bb
X = np.random.default_rng(0).normal(size=(5000, 5))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 23_000_000, resource.RLIM_INFINITY))
try:
    bb.factorize(X, bb.Gaussian(2.0), tol=1e-2, rng=0)
except MemoryError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert "the limit of the address space leaves" in shown.stdout
