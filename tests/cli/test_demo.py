from __future__ import annotations

import re

import pytest

from blockbasis.cli import demo


@pytest.fixture
def few_points(monkeypatch):
    monkeypatch.setattr(demo, "N", 2_000)
    monkeypatch.setattr(demo, "EXACT_ROWS", 500)


def test_the_demonstration_measures_what_it_prints(few_points, capsys):
    demo.demo()
    text = capsys.readouterr().out
    assert "2,000 points" in text
    (error,) = re.findall(r"relative error\s+(\S+)", text)
    assert float(error) < 0.1


def test_the_command_runs_the_demonstration(few_points, call):
    code, text = call("demo")
    assert code == 0
    assert "2,000 points" in text
