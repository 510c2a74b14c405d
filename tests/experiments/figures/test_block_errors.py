"""The verdict says no when the figures do."""

from __future__ import annotations


def test_bases_of_whole_rows_must_be_better(verdict):
    def parts(rows, diagonal):
        entries = []
        for how in ("SVD", "randomized"):
            for kind, off in (("rows", rows), ("diagonal", diagonal)):
                own = 1e-3 if kind == "rows" else 1e-4
                entries += [
                    {"basis": f"{kind}, {how}", "i": i, "j": j, "error": own if i == j else off}
                    for i in range(2)
                    for j in range(2)
                ]
        return [({"data": "abalone", "run": run}, entries) for run in range(2)]

    assert verdict("block-errors", parts(1e-3, 5e-3)).holds
    assert not verdict("block-errors", parts(1e-3, 1.5e-3)).holds
    assert not verdict("block-errors", parts(5e-3, 1e-3)).holds
    one_run_is_not = parts(1e-3, 5e-3)[:1] + [({"data": "abalone", "run": 1}, parts(1e-3, 1e-3)[0][1])]
    assert not verdict("block-errors", one_run_is_not).holds
