from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

from blockbasis._utils import files
from blockbasis._utils.files import in_bytes, replacing

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX files")


def test_the_file_appears_at_the_end(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with replacing(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(error), replacing(path) as stream:
        stream.write(b"half")
        raise error
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@POSIX
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_new_file_has_the_permissions_of_the_one_it_replaces(tmp_path, mode):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(mode)
    with replacing(path) as stream:
        stream.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@POSIX
def test_a_link_is_followed(tmp_path):
    real, link = tmp_path / "folder" / "real", tmp_path / "link"
    real.parent.mkdir()
    real.write_bytes(b"old")
    link.symlink_to(real)
    with replacing(link) as stream:
        stream.write(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert os.listdir(real.parent) == ["real"]


def test_a_name_as_long_as_can_be(tmp_path):
    path = tmp_path / ("n" * 255)
    with replacing(path) as stream:
        stream.write(b"new")
    assert path.read_bytes() == b"new"


@POSIX
def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="Not a regular file.*fifo"), replacing(tmp_path / "fifo"):
        pass
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    with pytest.raises(IsADirectoryError, match=tmp_path.name), replacing(tmp_path):
        pass


KILLED = """
import os, signal, sys
from blockbasis._utils.files import replacing
with replacing(sys.argv[1]) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@POSIX
def test_the_leftovers_of_a_kill_are_removed_by_the_next_save(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    (tmp_path / ".blockbasis-other").write_bytes(b"not ours")
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False).returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert len(os.listdir(tmp_path)) == 3
    with replacing(path) as stream:
        stream.write(b"new")
    assert sorted(os.listdir(tmp_path)) == [".blockbasis-other", "a"]


def test_a_file_that_another_thread_writes_is_no_leftover(tmp_path):
    path = tmp_path / "a"
    begun, over = threading.Event(), threading.Event()

    def first():
        with replacing(path) as stream:
            stream.write(b"first")
            begun.set()
            assert over.wait(timeout=30)

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(timeout=30)
    with replacing(path) as stream:
        stream.write(b"second")
    assert path.read_bytes() == b"second"
    over.set()
    thread.join()
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a"]


def test_a_temporary_file_that_was_taken_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    """Another process may remove it between its making and its lock."""
    made = []
    real_open = os.open

    def stolen(path, *args):
        handle = real_open(path, *args)
        made.append(path)
        if len(made) == 1:
            os.unlink(path)
        return handle

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", stolen)
        handle, temporary = files._temporary(tmp_path / "a")
    os.close(handle)
    assert len(made) == 2 and temporary.exists()


# --- every step can fail ---------------------------------------------------------------------------------------------

STEPS = ["open", "chmod", "fsync", "replace", "write", "flush"]


class Failing:
    """A stream that fails at a step."""

    def __init__(self, stream, step):
        self.stream, self.step = stream, step

    def __getattr__(self, name):
        if name == self.step:
            raise OSError(28, "No space left on device")
        return getattr(self.stream, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stream.close()


@POSIX
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), OSError(30, "Read-only"), KeyboardInterrupt()]
)
def test_a_fault_at_each_step_leaves_the_old_file_or_the_new_one(tmp_path, monkeypatch, step, call, error):
    """As SQLite is tested: the n-th call of each operation of the system fails."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    calls = 0

    def failing(real):
        def operation(*args, **settings):
            nonlocal calls
            calls += 1
            if calls == call:
                raise error
            return real(*args, **settings)

        return operation

    failed = False
    with monkeypatch.context() as patch:
        if step in ("write", "flush"):
            real_fdopen = os.fdopen
            patch.setattr(files.os, "fdopen", lambda *args: Failing(real_fdopen(*args), step))
        else:
            patch.setattr(files.os, step, failing(getattr(os, step)))
        try:
            with replacing(path) as stream:
                stream.write(b"new")
        except (OSError, KeyboardInterrupt):
            failed = True
    assert path.read_bytes() in ((b"old", b"new") if failed else (b"new",))
    if step in ("write", "flush", "replace", "chmod") and call == 1:
        assert failed and path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_sizes_as_text():
    assert [in_bytes(count) for count in (12, 1.5e6, 2e15)] == ["12 B", "1.5 MB", "2e+03 TB"]
