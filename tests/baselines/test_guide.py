"""The guide's section on other methods runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"


def test_the_comparison_runs(capsys):
    section = GUIDE.read_text().split("## Comparing with other methods")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, str(GUIDE), "exec"), names)
    errors = names["errors"]
    assert errors["bbf"] < errors["svd"] < min(errors["nystrom"], errors["nystrom-kmeans"])
    assert errors["bbf"] < errors["meka"]
    assert len(capsys.readouterr().out.splitlines()) == len(errors)
