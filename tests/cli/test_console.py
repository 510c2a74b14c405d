from __future__ import annotations

import errno
import io
import os
import re
import signal
import warnings

import pytest

pytest.importorskip("typer")

import typer

from blockbasis._utils.progress import advancing, counting
from blockbasis.cli import console


@pytest.fixture
def said(monkeypatch, capsys):
    """What has been printed to the standard error, in one line."""
    monkeypatch.setattr(console.stderr, "width", 300)
    return lambda: " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("error", [ValueError, TypeError, OSError, ImportError, MemoryError])
def test_what_a_user_can_mend_is_one_line(said, error):
    with pytest.raises(typer.Exit) as caught, console.print_errors():
        raise error("[x] is wrong")
    assert caught.value.exit_code == 1
    assert said() == "Error: [x] is wrong"


def test_unexpected_errors_are_a_line_and_raised_with_debug(said):
    with pytest.raises(typer.Exit) as caught, console.print_errors():
        raise ZeroDivisionError("by nothing")
    assert caught.value.exit_code == 1
    assert "unexpected ZeroDivisionError" in said()
    for error in (ZeroDivisionError, ValueError):
        with pytest.raises(error), console.print_errors(debug=True):
            raise error


def test_messages_name_options_and_not_parameters():
    for name, option in (("tol", "--tol"), ("budgets", "--memory"), ("n_jobs", "--jobs"), ("path", "FILE")):
        text = console.in_words_of_options(f"The '{name}' parameter of factorize must be right. Got 7 instead.")
        assert text == f"{option} must be right. Got 7 instead."
    assert console.in_words_of_options("time_budget=9 is too short.") == "--time-budget 9 is too short."


def test_errors_of_the_system_have_a_remedy(said):
    with pytest.raises(typer.Exit), console.print_errors():
        raise OSError(errno.ENOSPC, "No space left on device", "m.bbf")
    assert said() == (
        "Error: m.bbf: No space left on device. Free some space on the disk, or give another place with --out."
    )
    with pytest.raises(typer.Exit), console.print_errors():
        raise MemoryError
    assert "a smaller --memory" in said()


def test_output_by_its_options(capsys):
    console.Output().say("[x] result")
    console.Output(quiet=True).say("nothing")
    console.Output(json=True).say("nothing")
    console.Output(json=True).finish({"a": 1})
    console.Output().finish({"a": 2})
    assert capsys.readouterr().out.split() == ["[x]", "result", '{"a":', "1}"]


def test_lines_of_progress_are_few(said, monkeypatch):
    monkeypatch.setattr(console, "_FIRST_LINE", 0.0)
    with console.progress_bars():
        advance = counting("stage", 3)
        for _ in range(3):
            advance()
    assert said() == "stage: 33% done, 0 s left stage: done"
    with console.progress_bars(shown=False):
        counting("stage", 1)()
    assert said() == ""


def test_an_interrupt_ends_with_its_number(said):
    with pytest.raises(typer.Exit) as caught, console.print_errors("Go on later."):
        raise KeyboardInterrupt
    assert caught.value.exit_code == 130
    assert said() == "Go on later."


def test_warnings_are_said_without_their_place(said):
    with console.print_warnings():
        warnings.warn("slow", UserWarning, stacklevel=1)
    assert said() == "Warning: slow"


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_request_to_end_is_an_exception_inside_and_nothing_outside():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught, console.exit_on_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_unknown_names_have_their_nearest_or_all(said):
    console.check_name("svd", ["svd", "nystrom"], "method")
    for name, hint in (("nystroem", "Did you mean nystrom?"), ("x", "There are: svd, nystrom.")):
        with pytest.raises(typer.Exit):
            console.check_name(name, ["svd", "nystrom"], "method")
        assert said() == f"Error: There is no method {name!r}. {hint}"


def test_a_stage_that_goes_on_under_another_name_keeps_its_bar(monkeypatch):
    stream = io.StringIO()
    terminal = console.Console(file=stream, force_terminal=True, width=40, color_system=None)
    monkeypatch.setattr(console, "stderr", terminal)
    with console.progress_bars():
        advance = advancing(4)
        for name in ("check", "search: gaussian, metric full, 800 rows", "search: matern, metric full, 800 rows"):
            advance(name, 1)
    shown = stream.getvalue().partition("\x1b[?25h")[0]  # until the bar is erased
    assert "\x1b[1A" not in shown  # to a line above: never more than one bar
    lines = [line for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", shown).splitlines() if line.strip()]
    assert all(len(line) <= 40 for line in lines)
    assert lines[-1].startswith("search: mat… ")
    assert lines[-1].rstrip().endswith("75% 0 s left")


def test_bars_go_when_the_work_is_done(said):
    with console.progress_bars():
        advance = counting("stage", 2)
        advance()
        advance()
    assert "stage" not in said()
