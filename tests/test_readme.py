"""The README's code runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import blockbasis as bb

README = Path(__file__).parent.parent / "README.md"


def test_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, str(README), "exec"), names)
    A = names["A"]
    assert isinstance(A, bb.BlockBasis)
    assert A.error_estimate.value <= 1e-2
    assert (bb.load(tmp_path / "a.bbf").todense()[:3] == A.todense()[:3]).all()
