from __future__ import annotations

from blockbasis import _machine


def test_some_memory_is_free():
    free = _machine.available_memory()
    assert free is not None
    assert 2**20 < free < 2**50


def test_meminfo_and_a_container(tmp_path, monkeypatch):
    meminfo, limit, used = (tmp_path / name for name in ("meminfo", "max", "current"))
    for name, path in (("_MEMINFO", meminfo), ("_LIMIT", limit), ("_USED", used)):
        monkeypatch.setattr(_machine, name, path)
    meminfo.write_text("MemTotal:  9 kB\nMemAvailable:     1000 kB\nSwapFree: 1 kB\n")
    assert _machine.available_memory() == 1_024_000
    limit.write_text("max\n")
    used.write_text("5\n")
    assert _machine.available_memory() == 1_024_000
    limit.write_text("3005\n")
    assert _machine.available_memory() == 3000


def test_systems_that_do_not_say(tmp_path, monkeypatch):
    monkeypatch.setattr(_machine, "_MEMINFO", tmp_path / "none")
    monkeypatch.setattr(_machine, "_LIMIT", tmp_path / "none")
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 10}
    monkeypatch.setattr(_machine.os, "sysconf", sizes.__getitem__)
    assert _machine.available_memory() == 40_960

    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr(_machine.os, "sysconf", unknown)
    assert _machine.available_memory() is None
