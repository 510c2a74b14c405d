from __future__ import annotations

from importlib.metadata import version

import pytest

pytest.importorskip("typer")

from blockbasis.cli.app import app


def test_the_version_is_said(call):
    assert call("--version") == (0, f"blockbasis {version('blockbasis')}")


def test_completion_of_the_shell_can_be_installed(call):
    code, text = call("--help")
    assert code == 0
    assert "--install-completion" in text


def test_wrong_usage_is_one_line_with_the_command_that_says_more(call):
    code, text = call("fit", "--targets", "x")
    assert code == 2
    assert text.startswith("Error: No such option: --targets")
    assert text.endswith("fit --help.")


def test_without_arguments_the_help_is_shown_and_no_empty_error(call):
    code, text = call()
    assert code == 2
    assert "Usage: " in text
    assert "Error" not in text


def test_paragraphs_of_the_help_are_wrapped_to_the_terminal(call):
    text = call("fit", "--help")[1]
    assert "missing values are imputed with an indicator; all of it is part of the saved model." in text
    by_command = {each.callback.__name__: each.help for each in app.registered_commands}
    assert not any("\n" in paragraph for help_ in by_command.values() for paragraph in help_.split("\n\n"))


def test_a_wrong_choice_lists_the_others_in_plain_words(call):
    code, text = call("compress", "points.csv", "--kernel", "gauss")
    assert code == 2
    assert "'gauss' is not one of 'gaussian', 'laplacian'" in text
    assert "Value error" not in text
