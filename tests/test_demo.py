from __future__ import annotations

import re

from blockbasis import demo


def test_the_demonstration_measures_what_it_prints(monkeypatch, capsys):
    monkeypatch.setattr(demo, "N", 2_000)
    monkeypatch.setattr(demo, "EXACT_ROWS", 500)
    demo.main()
    text = capsys.readouterr().out
    assert "2,000 points" in text
    (error,) = re.findall(r"relative error\s+(\S+)", text)
    assert float(error) < 0.1
